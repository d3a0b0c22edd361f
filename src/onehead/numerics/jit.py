"""Compilation of kernels by numba: on the first call, with a cache on disk where one can be written.

The first compilation takes some seconds; a message at the terminal says so.
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
MINIMUM_REPORTED_SECONDS = 0.5  # of a compilation that is reported

# environment variables, inherited by child processes, that are set once the message has been printed
NO_CACHE_REPORTED = "ONEHEAD_UNCACHED"
COMPILING_REPORTED = "ONEHEAD_COMPILING"
NO_CACHE = (
    "compiled code cannot be cached next to onehead or in the user's cache folder, so every process compiles it again, "
    "for up to a minute; set NUMBA_CACHE_DIR to a writable folder."
)
BLAS = "scipy.linalg.cython_blas"

_first_call = threading.RLock()


def njit(signature: Any = None, *, cache: bool = False, **options: Any) -> Any:
    """Compile a function like ``numba.njit``, but on the first call even if a signature is given.

    The cache on disk is left out where none can be written. A signature fixes the types, so that only one version is
    compiled; a kernel that is never called costs nothing.

    Examples
    --------
    >>> @njit("float64(float64)", cache=True)
    ... def twice(x):
    ...     return 2 * x
    >>> twice(21)
    42.0
    """

    def decorate(function: Callable[..., Any]) -> Any:
        compiled = _cached(function, options) if cache else numba.njit(**options)(function)
        if signature is not None and isinstance(compiled, Dispatcher):
            _compile_on_first_call(compiled, signature)
        return compiled

    return decorate


def compile_pointer(signature: Any, function: Callable[..., Any], *, cache: bool = True) -> Any:
    """Compile a function immediately, so that kernels can take it as an argument; cached if it is defined in a file."""
    compiled = njit(cache=cache, nogil=True, error_model="numpy")(function)
    if isinstance(compiled, Dispatcher):
        compiled.compile(signature)
        compiled.disable_compile()
    return compiled


def _cached(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Compile with a cache on disk; without one, after one warning, if no cache folder can be written."""
    try:
        return numba.njit(cache=True, **options)(function)
    except (RuntimeError, OSError):  # no writable cache folder, or a full disk
        if Path(function.__code__.co_filename).exists():  # functions typed at a prompt are never cached
            _warn_no_cache()
        return numba.njit(**options)(function)


def _compile_on_first_call(dispatcher: Any, signature: Any) -> None:
    """Compile the signature, or load it from the cache, when Python calls the dispatcher for the first time."""

    def compile_signature(*_: Any, **__: Any) -> Any:
        """Compile for the declared signature on the first call, then return the dispatcher."""
        with _first_call:
            if dispatcher._can_compile:
                dispatcher.compile(signature)
                dispatcher.disable_compile()
        return dispatcher

    dispatcher._compile_for_args = compile_signature


@contextmanager
def _stub_module(name: str) -> Iterator[None]:
    """Temporarily replace a module by an empty one, so that numba does not import it before a kernel needs it."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = ModuleType(name)
    try:
        yield
    finally:
        del sys.modules[name]


with _stub_module(BLAS):  # numba imports it to test for it, which would load all of scipy.linalg
    import numba.np.arraymath


class _CompilationReporter(event.Listener):  # type: ignore[misc]  # numba has no types
    """Report the compilation of cached kernels at a terminal: once when it begins, and then each slow kernel."""

    def __init__(self) -> None:
        self.started: list[float] = []  # times of the kernel that was called, and of the kernels it calls

    def on_start(self, event: Any) -> None:
        """Report the first compilation; kernels loaded from the cache cause no event."""
        self.started.append(time.monotonic())
        if COMPILING_REPORTED not in os.environ and _is_interactive_compile(event):
            os.environ[COMPILING_REPORTED] = "1"
            _print_line(COMPILING)

    def on_end(self, event: Any) -> None:
        """Report how long a kernel took to compile."""
        seconds = time.monotonic() - self.started.pop()
        if not self.started and seconds > MINIMUM_REPORTED_SECONDS and _is_interactive_compile(event):
            _print_line(COMPILED.format(name=event.data["dispatcher"].py_func.__name__, seconds=seconds))


def _is_interactive_compile(event: Any) -> bool:
    """Whether a cached kernel of onehead is compiled and standard error is a terminal."""
    function = event.data["dispatcher"]
    ours = str(function.py_func.__module__).startswith("onehead.") and not isinstance(function._cache, NullCache)
    return ours and sys.stderr is not None and sys.stderr.isatty()


def _print_line(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


event.register("numba:compile", _CompilationReporter())


def _warn_no_cache() -> None:
    """Warn once, for this process and its children, that compiled code cannot be cached."""
    if NO_CACHE_REPORTED not in os.environ:
        os.environ[NO_CACHE_REPORTED] = "1"
        warnings.warn(NO_CACHE, RuntimeWarning, stacklevel=5)
