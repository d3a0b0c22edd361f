"""numba's compiler, which keeps what it compiled where there is a place for it, and does without where there is none."""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

__all__ = ["njit"]

SAID = "ONEHEAD_UNCACHED"  # in the environment, for the processes that this one starts
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


def _say_once() -> None:
    if SAID not in os.environ:
        os.environ[SAID] = "1"
        warnings.warn(SENTENCE, RuntimeWarning, stacklevel=4)
