from typing import Final

from onehead.citation import cite as cite
from onehead.sweep.module import SweepModule

from . import aim as aim
from . import errors as errors
from . import plot as plot
from . import sparse as sparse
from . import weights as weights

__version__: Final[str]
sweep: SweepModule
