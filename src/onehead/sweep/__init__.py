"""Sweeps: many points, on this machine or on a cluster, that survive whatever dies.

``onehead.sweep(call, axes, ...)`` runs one and returns a table; `Spec`, `Store` and the executors are its parts.
"""

import sys
from types import ModuleType
from typing import Any

from onehead.lazy import lazy_room

__getattr__, __dir__, __all__ = lazy_room(__name__, __file__)


class _Room(ModuleType):
    """A room that is itself the verb: ``onehead.sweep(...)``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.sweep(*args, **kwargs)


sys.modules[__name__].__class__ = _Room
