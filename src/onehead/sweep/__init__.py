"""Sweeps: many points, on this machine or on a cluster, that survive whatever dies.

``onehead.sweep(call, axes, ...)`` runs one and returns a table; `Spec`, `Store` and the executors are its parts.
"""

import sys
from types import ModuleType
from typing import Any

from onehead.sweep.api import sweep
from onehead.sweep.calls import CALLS
from onehead.sweep.driver import drive
from onehead.sweep.executors import Executor, Inline, executor_named
from onehead.sweep.spec import Spec
from onehead.sweep.spec_file import read_spec
from onehead.sweep.store import Counts, Store
from onehead.sweep.table import Table
from onehead.sweep.version import NUMERICAL

__all__ = [
    "CALLS",
    "NUMERICAL",
    "Counts",
    "Executor",
    "Inline",
    "Spec",
    "Store",
    "Table",
    "drive",
    "executor_named",
    "read_spec",
    "sweep",
]


class _Room(ModuleType):
    """A room that is itself the verb: ``onehead.sweep(...)``."""

    def __call__(self, *args: Any, **kwargs: Any) -> Table:
        return sweep(*args, **kwargs)


sys.modules[__name__].__class__ = _Room
