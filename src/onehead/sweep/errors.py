"""Errors that a sweep can raise; each message is one sentence for the user."""

from onehead.errors import InvalidArgument, OneheadError


class BadSpec(InvalidArgument):
    """A mistake in a sweep file; the message gives the file, the line and what is wrong there."""

    def __init__(self, file: str, line: int, sentence: str) -> None:
        super().__init__("spec", file, "a valid sweep file")
        self.file, self.line = file, line
        self.args = (f"{file}, line {line}: {sentence}",)


class BadStore(InvalidArgument):
    """A store that cannot be used: not a store, from a newer version, damaged, not writable, or in use."""

    def __init__(self, path: str, sentence: str) -> None:
        super().__init__("store", path, "a usable store")
        self.args = (sentence,)


class StoreFailed(OneheadError):
    """Writing to the store failed during a sweep; every acknowledged point is kept."""


class WorkersLost(OneheadError):
    """Worker processes do not start, or cannot solve points."""


class LostScheduler(OneheadError):
    """The connection to a Dask scheduler was lost; every acknowledged point is kept."""


class PointFailed(OneheadError):
    """A point failed in a sweep with ``on_error="stop"``."""


class PointsMissing(OneheadError):
    """The executor ended before every point had an answer; finished points are kept."""


def unreadable_spec(file: str, reason: str) -> InvalidArgument:
    """Error for a sweep file that cannot be read: missing, too large, not a regular file, or not text."""
    error = InvalidArgument("spec", file, "a readable sweep file")
    error.args = (f"Cannot read {file}: {reason}.",)
    return error


def damaged_store(name: str) -> BadStore:
    """Error for a file whose content is not what a store would have written."""
    return BadStore(name, f"{name} is damaged or is not a store of sweeps; keep it aside and start a new one.")


def unwritable_store(name: str, reason: str) -> BadStore:
    """Error for a path at which no store can be created or written."""
    return BadStore(name, f"store must be a file in a folder that can be written; got {name!r} ({reason}).")
