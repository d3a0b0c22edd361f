"""Where the program starts: Ctrl-C ends it with one line from its first moment to its last, also while it is still loading.

Nothing is imported here that Python does not have in memory already: loading takes time, in which Ctrl-C would not be ours.
"""

import _signal as signal  # type: ignore[import-not-found]  # the compiled part of `signal`
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["run"]

INTERRUPTED = 130


def _end(*_: object) -> "NoReturn":
    """Leave at once: nothing has been done yet."""
    os.write(2, b"onehead: interrupted.\n")
    os._exit(INTERRUPTED)


def _unraisable(unraisable: "Any") -> None:
    """Python prints what is raised where nobody can catch it; Ctrl-C there is remembered (`onehead.numerics.interrupts`)."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


def run() -> "NoReturn":
    """Load the program, and run it."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # started deaf to Ctrl-C, in the background
        from onehead.cli.main import run as deaf

        deaf()
    sys.unraisablehook = _unraisable
    signal.signal(signal.SIGINT, _end)
    from onehead.cli.main import run as listening

    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        listening()
    except KeyboardInterrupt:  # a second one, while the first was told
        _end()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the work is over: nothing is left to say
