"""Entry point of the program: Ctrl-C ends it with one line at any moment, also while it is still loading.

Only modules that Python has already loaded are imported here, because Ctrl-C during an import would print a traceback.
"""

import _signal as signal  # type: ignore[import-not-found]  # the compiled part of `signal`
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

INTERRUPTED = 130


def _exit_now(*_: object) -> "NoReturn":
    """Signal handler that prints one line and ends the process at once."""
    os.write(2, b"onehead: interrupted.\n")
    os._exit(INTERRUPTED)


def _print_unraisable(unraisable: "Any") -> None:
    """Print an exception that Python cannot raise, except Ctrl-C, which `onehead.numerics.interrupts` has recorded."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def _open_closed_streams() -> None:
    """Open the standard streams that the caller has closed.

    Otherwise the next file that is opened, such as a store, would get the number of a stream and its messages. What is
    printed on a closed standard output fails as on a full disk; a closed standard error is discarded.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)  # gets the lowest free number
            setattr(sys, name, open(number, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: SIM115


def run() -> "NoReturn":
    """Load the program and run it."""
    _open_closed_streams()
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # Ctrl-C is ignored, as in a background job
        from onehead.cli.main import run as run_program

        run_program()
    sys.unraisablehook = _print_unraisable
    signal.signal(signal.SIGINT, _exit_now)
    from onehead.cli.main import run as run_program

    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run_program()
    except KeyboardInterrupt:  # a second one, while the first was being reported
        _exit_now()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to report
