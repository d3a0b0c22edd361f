"""What can go wrong around a sweep, each with its own sentence."""

from onehead.errors import InvalidArgument, OneheadError

__all__ = ["BadSpec", "BadStore", "LostScheduler", "PointFailed", "PointsMissing", "StoreFailed", "WorkersLost"]


class BadSpec(InvalidArgument):
    """A mistake in a spec file: the file, the line, and what is wrong there."""

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
    """Writing to the store failed while the sweep was running; what had been acknowledged is kept."""


class WorkersLost(OneheadError):
    """Worker processes do not start."""


class LostScheduler(OneheadError):
    """The connection to a scheduler was lost; what had been acknowledged is kept."""


class PointFailed(OneheadError):
    """A point failed in a sweep that was asked to stop at the first failure."""


class PointsMissing(OneheadError):
    """A sweep that ended without an answer for every point; what there is is kept."""
