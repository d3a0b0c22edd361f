"""Class of the module `onehead.sweep`, which can be called."""

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onehead.sweep import api, executors, registry, spec, spec_file, table
    from onehead.sweep.storage import store, version


class SweepModule(ModuleType):
    """Module type that makes ``onehead.sweep(...)`` the same as ``onehead.sweep.sweep(...)``."""

    if TYPE_CHECKING:  # for type checkers no module can be called: the names of its stub are attributes of this class
        CALLS = registry.CALLS
        NUMERICAL = version.NUMERICAL
        Counts = store.Counts
        Executor = executors.Executor
        Inline = executors.Inline
        Spec = spec.Spec
        Store = store.Store
        Table = table.Table
        drive = staticmethod(api.drive)
        executor_named = staticmethod(executors.executor_named)
        read_spec = staticmethod(spec_file.read_spec)
        sweep = staticmethod(api.sweep)
        __call__ = staticmethod(api.sweep)
    else:

        def __call__(self, *args: Any, **keywords: Any) -> Any:
            """Run a sweep."""
            return self.sweep(*args, **keywords)
