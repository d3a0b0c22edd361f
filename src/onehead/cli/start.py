"""Entry point of the program: Ctrl-C ends it with one line at any moment, also while it is still loading.

Only modules that Python has already loaded are imported here, because Ctrl-C during an import would print a traceback.
"""

import _signal as signal  # type: ignore[import-not-found]  # the compiled part of `signal`
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["run"]

INTERRUPTED = 130


def _exit_now(*_: object) -> "NoReturn":
    """Signal handler that prints one line and ends the process at once."""
    os.write(2, b"onehead: interrupted.\n")
    os._exit(INTERRUPTED)


def _print_unraisable(unraisable: "Any") -> None:
    """Print an exception that Python cannot raise, except Ctrl-C, which `onehead.numerics.interrupts` has recorded."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def run() -> "NoReturn":
    """Load the program and run it."""
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
