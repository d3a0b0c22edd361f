"""Parameter sweeps: many points solved on this machine or on a cluster, each kept on disk as soon as it is finished.

``onehead.sweep(call, axes, ...)`` runs a sweep and returns a `Table`; `Spec`, `Store` and the executors are its
parts. What a single point computes belongs to `onehead.aim` and `onehead.sparse`; `onehead.sweep.registry` lists
the calls.
"""

import sys
from types import ModuleType
from typing import Any

from onehead.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)


class _CallableModule(ModuleType):
    """Module type that makes ``onehead.sweep(...)`` the same as ``onehead.sweep.sweep(...)``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.sweep(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
