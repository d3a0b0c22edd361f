"""Compilation of kernels by numba: on the first call, with a cache on disk where one can be written.

The cache lies beside the source in a checkout and in the user's cache folder otherwise; ``NUMBA_CACHE_DIR`` names
another place. Numba compares a cached kernel with the file in which it is defined, but not with those of the kernels
that it calls; therefore every state of the source has a folder of its own, named after a hash of all files with
kernels. A cache whose files cannot be read is removed and written again. The first compilation takes some seconds; a
message at the terminal says so.

One module of scipy is kept from being imported by numba, which loads all of scipy.linalg only to test for it: that
would take 0.33 s of the 1.2 s of processor time of ``onehead aim predict``.
"""

import hashlib
import inspect
import os
import pickletools
import shutil
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache as cached
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
from numba.core import event

COMPILING = "onehead: compiling for this machine; this happens once and takes about ten seconds.\n"
COMPILED = "onehead: compiled {name}, {seconds:.0f} s.\n"
MINIMUM_REPORTED_SECONDS = 0.5  # of a compilation that is reported
NO_CACHE = (
    "compiled code cannot be cached next to onehead or in the user's cache folder, so every process compiles it again, "
    "for up to a minute; set NUMBA_CACHE_DIR to a writable folder."
)
MINIMUM_FREE_BYTES = 20_000_000  # room for the cache of all kernels, which takes half of it
OPTIONS = {"nogil": True, "error_model": "numpy"}  # of every kernel, unless it says otherwise
BLAS = "scipy.linalg.cython_blas"

PACKAGE = Path(__file__).parents[1]
# files that define compiled functions; a test checks that there are no others
KERNEL_FILES = (
    "numerics/*.py", "spectra/*.py", "aim/losses.py", "aim/kernels/*.py", "aim/theory/output/kurtosis.py",
    "aim/theory/output/leading*.py", "aim/training/layer.py", "aim/training/logits.py", "aim/training/objective.py",
    "aim/training/message_passing.py", "sparse/kernels.py", "sparse/theory/joint/descent_kernels.py",
    "weights/spacing_likelihood.py", "weights/trained.py",
)  # fmt: skip
FOLDER_PREFIX = "kernels-"  # of the cache of one state of the source
KEPT_FOLDERS = 3  # states of the source whose caches are kept, for a switch between branches and for running processes

_first_call = threading.RLock()
_loaders: dict[str, Callable[[], None]] = {}  # what compiles each kernel with a signature, by the name of its function


def njit(signature: Any = None, *, cache: bool = True, **options: Any) -> Any:
    """Compile a function like ``numba.njit``, but on the first call even if a signature is given.

    A signature fixes the types, so that only one version is compiled; a kernel that is never called costs nothing. A
    function with a signature can be called from Python only, one without a signature from other kernels, too. The
    cache on disk is left out where none can be written. By default kernels release the GIL and divide as numpy does;
    ``cache=False`` is for functions that are made at run time and cached with those that call them.

    Examples
    --------
    >>> @njit("float64(float64)")
    ... def twice(x):
    ...     return 2 * x
    >>> twice(21)
    42.0
    """

    options = {**OPTIONS, **options}
    if inspect.isfunction(signature):  # the decorator without arguments
        return _compiled(signature, None, cache, options)

    def decorate(function: Callable[..., Any]) -> Any:
        if signature is None or numba.config.DISABLE_JIT:
            return _compiled(function, None, cache, options)

        def load() -> None:
            with _first_call:  # threads that call at the same time wait for one compilation
                entry.kernel = entry.kernel or _compiled(function, signature, cache, options)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if entry.kernel is None:
                load()
            return entry.kernel(*args, **kwargs)

        entry: Any = call
        entry.kernel = None
        _loaders[f"{function.__module__}.{function.__qualname__}"] = load
        return entry

    return decorate


def compile_pointer(signature: Any, function: Callable[..., Any], *, cache: bool = True) -> Any:
    """Compile a function immediately, so that kernels can take it as an argument; cached if it is defined in a file."""
    return _compiled(function, signature, cache, OPTIONS)


def _compiled(function: Callable[..., Any], signature: Any, cache: bool, options: dict[str, Any]) -> Any:
    """Numba function; compiled, or loaded from the cache, if a signature is given."""

    def compiled(cache: bool) -> Any:
        return numba.njit(signature, cache=cache, **options)(function)

    if not cache:
        return compiled(False)
    try:
        with _cache_folder():
            try:
                return compiled(True)
            except Exception:  # unpickling damaged bytes can raise anything
                if not discard_damaged_cache():
                    raise
                return compiled(True)
    except (RuntimeError, OSError):  # no writable cache folder, or a full disk
        if Path(function.__code__.co_filename).exists():  # functions typed at a prompt are never cached
            _warn_no_cache()
        return compiled(False)


def compile_all() -> None:
    """Compile every kernel that has a signature, or load it from the cache.

    Processes that are started at the same time on an empty cache would otherwise compile the same kernels each.
    """
    for path in _kernel_files():
        import_module(".".join(("onehead", *path.relative_to(PACKAGE).with_suffix("").parts)))
    for name in sorted(_loaders):
        if name.startswith("onehead."):
            _loaders[name]()


# --- the cache on disk


@contextmanager
def _cache_folder() -> Iterator[None]:
    """Context manager in which numba caches in the folder that suits this installation."""
    before = numba.config.CACHE_DIR
    folder = before if Path(before).name == _source_name() else _folder_of_source(before or _default_cache_folder())
    if not _has_room(folder):
        raise OSError("the cache folder is full")
    numba.config.CACHE_DIR = folder
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


@cached
def _source_name() -> str:
    """Name of the cache of this state of the source: a hash of all files that define kernels."""
    return FOLDER_PREFIX + hashlib.sha256(b"".join(path.read_bytes() for path in _kernel_files())).hexdigest()[:16]


def _kernel_files() -> list[Path]:
    """Files that define kernels."""
    return sorted(path for pattern in KERNEL_FILES for path in PACKAGE.glob(pattern))


@cached
def _folder_of_source(folder: str) -> str:
    """Cache folder of this state of the source; those not used for longest are removed when a new one is made."""
    own = Path(folder) / _source_name()
    if own.exists():
        with suppress(OSError):  # another user's folder
            os.utime(own)
    else:
        others = sorted(Path(folder).glob(f"{FOLDER_PREFIX}*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in others[KEPT_FOLDERS - 1 :]:
            shutil.rmtree(old, ignore_errors=True)
        own.mkdir(parents=True, exist_ok=True)
    return str(own)


@cached
def _default_cache_folder() -> str:
    """Folder beside the source in a checkout, else a folder of the user."""
    if (PACKAGE.parents[1] / "pyproject.toml").exists():
        return str(PACKAGE / "__pycache__")
    home = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return str(Path(os.environ.get("XDG_CACHE_HOME") or home) / "onehead")


@cached
def _has_room(folder: str) -> bool:
    """Whether a folder that exists has room for the cache of all kernels."""
    try:
        status = os.statvfs(folder)
    except (OSError, AttributeError):  # numba creates the folder, or the system has no such call
        return True
    return status.f_bavail * status.f_frsize > MINIMUM_FREE_BYTES


def discard_damaged_cache() -> bool:
    """Remove the cache files of onehead that cannot be read; return whether there were any.

    Changed bytes in a file that is otherwise complete are not noticed.
    """
    folder = Path(numba.config.CACHE_DIR or _default_cache_folder())
    damaged = [path for path in folder.rglob("*.nb[ic]") if path.is_file() and _is_damaged(path)]
    for path in damaged:
        path.unlink(missing_ok=True)
    return bool(damaged)


def _is_damaged(path: Path) -> bool:
    """Whether a file of the cache is not a complete pickle; nothing in it is executed."""
    try:
        with path.open("rb") as file:
            for _ in range(2 if path.suffix == ".nbi" else 1):  # an index holds the version of numba and then itself
                first = next(pickletools.genops(file))
                if first[0].name != "PROTO":
                    return True
                for _ in pickletools.genops(file):
                    pass
    except FileNotFoundError:
        return False
    except Exception:  # bytes of any kind
        return True
    return False


# --- start-up time of numba


if BLAS not in sys.modules:
    sys.modules[BLAS] = ModuleType(BLAS)  # numba.np.arraymath imports it, to test whether it exists
    try:
        import numba.np.arraymath
    finally:
        del sys.modules[BLAS]  # a kernel that needs it imports the real one


# --- messages


class _CompilationReporter(event.Listener):  # type: ignore[misc]  # numba has no types
    """Report the compilation of cached kernels at a terminal: once when it begins, and then each slow kernel."""

    def __init__(self) -> None:
        self.started: list[float] = []  # times of the kernel that was called, and of the kernels it calls

    def on_start(self, event: Any) -> None:
        """Report the first compilation; kernels loaded from the cache cause no event."""
        self.started.append(time.monotonic())
        if _is_interactive_compile(event):
            _report_compiling()

    def on_end(self, event: Any) -> None:
        """Report how long a kernel took to compile."""
        seconds = time.monotonic() - self.started.pop()
        if not self.started and seconds > MINIMUM_REPORTED_SECONDS and _is_interactive_compile(event):
            _print_line(COMPILED.format(name=event.data["dispatcher"].py_func.__name__, seconds=seconds))


def _is_interactive_compile(event: Any) -> bool:
    """Whether a cached kernel of onehead is compiled in the process at a terminal, and not in one of its workers."""
    function = event.data["dispatcher"]
    ours = str(function.py_func.__module__).startswith("onehead.") and function.stats.cache_path is not None
    return ours and not _is_worker() and sys.stderr is not None and sys.stderr.isatty()


def _is_worker() -> bool:
    """Whether this process was started by the multiprocessing module; its parent reports for it."""
    multiprocessing = sys.modules.get("multiprocessing")
    return multiprocessing is not None and multiprocessing.parent_process() is not None


def _print_line(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()


@cached
def _report_compiling() -> None:
    """Report the first compilation of this process."""
    _print_line(COMPILING)


@cached
def _warn_no_cache() -> None:
    """Warn once, in the first of several processes, that compiled code cannot be cached."""
    if not _is_worker():
        warnings.warn(NO_CACHE, RuntimeWarning, stacklevel=5)


event.register("numba:compile", _CompilationReporter())
