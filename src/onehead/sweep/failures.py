"""What can go wrong around a sweep, each with its own sentence."""

from onehead.errors import InvalidArgument, OneheadError

__all__ = [
    "BadSpec",
    "BadStore",
    "LostScheduler",
    "PointFailed",
    "PointsMissing",
    "StoreFailed",
    "WorkersLost",
    "damaged",
    "not_writable",
]


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


def damaged(name: str) -> BadStore:
    """What is said of a file that no store of ours would leave."""
    return BadStore(name, f"{name} is damaged or is not a store of sweeps; keep it aside and start a new one.")


def not_writable(name: str, reason: str) -> BadStore:
    """What is said of a place in which no store can be."""
    return BadStore(name, f"store must be a file in a folder that can be written; got {name!r} ({reason}).")
