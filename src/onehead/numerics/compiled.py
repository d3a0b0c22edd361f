"""numba's compiler, which compiles what is called, and keeps it where there is a place for it.

What is compiled for the first time takes some seconds; who waits for it at a terminal is told.
"""

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
from numba.core import event
from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher

__all__ = ["COMPILING", "compile_pointer", "njit"]

COMPILING = "onehead: compiling for this machine; this happens once and takes about ten seconds.\n"
COMPILED = "onehead: compiled {name}, {seconds:.0f} s.\n"
WORTH_A_LINE = 0.5  # seconds of compiling

SAID = "ONEHEAD_UNCACHED"  # in the environment, for the processes that this one starts
TOLD = "ONEHEAD_COMPILING"  # the same for the first compilation
SENTENCE = (
    "compiled code can be kept neither beside onehead nor in the user's cache, so every process compiles it anew, for up "
    "to a minute; NUMBA_CACHE_DIR may name a folder that can be written."
)
BLAS = "scipy.linalg.cython_blas"

_first = threading.RLock()


def njit(signature: Any = None, *, cache: bool = False, **options: Any) -> Any:
    """Compile as ``numba.njit`` does, for a signature too on the first call only; where nothing can be written, without a cache.

    A signature fixes the types, so that there is one version; a kernel that is declared and not called costs nothing.

    Examples
    --------
    >>> @njit("float64(float64)", cache=True)
    ... def twice(x):
    ...     return 2 * x
    >>> twice(21)
    42.0
    """

    def declared(function: Callable[..., Any]) -> Any:
        found = _kept(function, options) if cache else numba.njit(**options)(function)
        if signature is not None and isinstance(found, Dispatcher):
            _defer(found, signature)
        return found

    return declared


def compile_pointer(signature: Any, function: Callable[..., Any], *, cache: bool = True) -> Any:
    """Compile now, to be handed to kernels as a pointer; a function of a file is kept, one typed at a prompt is not."""
    found = njit(cache=cache, nogil=True, error_model="numpy")(function)
    if isinstance(found, Dispatcher):
        found.compile(signature)
        found.disable_compile()
    return found


def _kept(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """With a cache if there is a place for one; if not, that is said once."""
    try:
        return numba.njit(cache=True, **options)(function)
    except (RuntimeError, OSError):  # no place for a cache, or a full one
        if Path(function.__code__.co_filename).exists():  # one typed at a prompt is never kept
            _say_once()
        return numba.njit(**options)(function)


def _defer(dispatcher: Any, signature: Any) -> None:
    """Compile, or load, for the signature when the first call from Python finds nothing that fits."""

    def first(*_: Any, **__: Any) -> Any:
        """What the arguments are to be given to: the same, with something to choose from."""
        with _first:
            if dispatcher._can_compile:
                dispatcher.compile(signature)
                dispatcher.disable_compile()
        return dispatcher

    dispatcher._compile_for_args = first


@contextmanager
def _unasked(name: str) -> Iterator[None]:
    """A module that is there, and loaded when it is used; who asks meanwhile whether there is one need not wait for it."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = ModuleType(name)
    try:
        yield
    finally:
        del sys.modules[name]


with _unasked(BLAS):  # numba asks for it when it is loaded, and all of scipy.linalg would come
    import numba.np.arraymath


class _Told(event.Listener):  # type: ignore[misc]  # numba has no types
    """Says at a terminal, once, that compiled code is being made which will be kept, and then what has been made."""

    def __init__(self) -> None:
        self.started: list[float] = []  # of the kernel that was asked for, and of those that it needs

    def on_start(self, event: Any) -> None:
        """A function is about to be compiled; what comes from a cache is not."""
        self.started.append(time.monotonic())
        if TOLD not in os.environ and _told(event):
            os.environ[TOLD] = "1"
            _tell(COMPILING)

    def on_end(self, event: Any) -> None:
        """It has been compiled."""
        seconds = time.monotonic() - self.started.pop()
        if not self.started and seconds > WORTH_A_LINE and _told(event):
            _tell(COMPILED.format(name=event.data["dispatcher"].py_func.__name__, seconds=seconds))


def _told(event: Any) -> bool:
    """Whether it is one of ours, to be kept, and somebody sits there."""
    function = event.data["dispatcher"]
    ours = str(function.py_func.__module__).startswith("onehead.") and not isinstance(function._cache, NullCache)
    return ours and sys.stderr is not None and sys.stderr.isatty()


def _tell(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


event.register("numba:compile", _Told())


def _say_once() -> None:
    if SAID not in os.environ:
        os.environ[SAID] = "1"
        warnings.warn(SENTENCE, RuntimeWarning, stacklevel=5)
