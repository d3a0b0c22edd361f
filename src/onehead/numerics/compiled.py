"""numba's compiler, which keeps what it compiled where there is a place for it, and does without where there is none.

What is compiled for the first time takes half a minute; who waits for it at a terminal is told.
"""

import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import event
from numba.core.caching import NullCache

__all__ = ["COMPILING", "njit"]

COMPILING = "onehead: compiling for this machine; this happens once and takes about half a minute.\n"

SAID = "ONEHEAD_UNCACHED"  # in the environment, for the processes that this one starts
TOLD = "ONEHEAD_COMPILING"  # the same for the first compilation
SENTENCE = (
    "compiled code can be kept neither beside onehead nor in the user's cache, so every process compiles it anew, for up "
    "to a minute; NUMBA_CACHE_DIR may name a folder that can be written."
)


def njit(*signatures: Any, cache: bool = False, **options: Any) -> Any:
    """Compile as ``numba.njit`` does; where nothing can be written, without a cache, which is said once.

    Examples
    --------
    >>> @njit(cache=True)
    ... def twice(x):
    ...     return 2 * x
    >>> twice(21)
    42
    """
    if not cache:
        return numba.njit(*signatures, **options)

    def compiled(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(*signatures, cache=True, **options)(function)
        except (RuntimeError, OSError):  # no place for a cache, or a full one
            if Path(function.__code__.co_filename).exists():  # one typed at a prompt is never kept
                _say_once()
            return numba.njit(*signatures, **options)(function)

    return compiled


class _Told(event.Listener):  # type: ignore[misc]  # numba has no types
    """Says once, at a terminal, that compiled code is being made which will be kept."""

    def on_start(self, event: Any) -> None:
        """A function is about to be compiled; what comes from a cache is not."""
        function = event.data["dispatcher"]
        ours = str(function.py_func.__module__).startswith("onehead.") and not isinstance(function._cache, NullCache)
        if ours and TOLD not in os.environ and sys.stderr is not None and sys.stderr.isatty():
            os.environ[TOLD] = "1"
            sys.stderr.write(COMPILING)
            sys.stderr.flush()

    def on_end(self, event: Any) -> None:
        """It has been compiled."""


event.register("numba:compile", _Told())


def _say_once() -> None:
    if SAID not in os.environ:
        os.environ[SAID] = "1"
        warnings.warn(SENTENCE, RuntimeWarning, stacklevel=4)
