"""Parameter sweeps: many points solved on this machine or on a cluster, each kept on disk as soon as it is finished.

``onehead.sweep(call, axes, ...)`` runs a sweep and returns a `Table`; `Spec`, `Store` and the executors are its
parts. What a single point computes belongs to `onehead.aim` and `onehead.sparse`; `onehead.sweep.registry` lists
the calls.
"""

import sys

from onehead.lazy import attach_stub
from onehead.sweep.module import SweepModule

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)

sys.modules[__name__].__class__ = SweepModule
