"""Everything onehead can raise: one family, one sentence each."""

from collections.abc import Iterable

from onehead.text import likely, quoted, visible

__all__ = [
    "Diverged",
    "InvalidArgument",
    "MissingExtra",
    "NonFinite",
    "NotConverged",
    "NotWritten",
    "OneheadError",
    "OutsideDomain",
    "SolveError",
    "TooLarge",
    "Unchangeable",
    "WrongCall",
]


class OneheadError(Exception):
    """Base of every error raised on purpose; its text is one sentence for a person, with nothing that a terminal would obey."""

    def __str__(self) -> str:
        return visible(super().__str__())


class InvalidArgument(OneheadError, ValueError):
    """A value outside the allowed set: names the argument, the value got and what is allowed."""

    def __init__(self, name: str, got: object, allowed: str, known: Iterable[object] = ()) -> None:
        self.name, self.got, self.allowed, self.known = name, got, allowed, tuple(known)
        super().__init__(f"{name} must be {allowed}; got {quoted(got)}{likely(got, self.known)}.")


class WrongCall(OneheadError, TypeError):
    """Arguments that a function does not have, or that it lacks."""


class Unchangeable(OneheadError, AttributeError):
    """A field of a frozen object that somebody wanted to set."""


class TooLarge(OneheadError, MemoryError):
    """A problem that does not fit into memory."""

    def __init__(self, reason: str = "") -> None:
        told = f" ({reason})" if reason else ""
        super().__init__(f"the problem does not fit into the memory of this machine{told}; make it smaller.")


class MissingExtra(OneheadError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; run: pip install 'onehead[{extra}]'.")


class NotWritten(OneheadError, OSError):
    """A file that could not be written in the middle of the work; what it held before is still there."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} could not be written ({reason}); what was there before has not changed.")
        self.strerror = reason


class SolveError(OneheadError, RuntimeError):
    """A solve that gave no answer; ``residual`` is the best undamped residual seen."""

    def __init__(self, message: str, *, residual: float = float("nan")) -> None:
        self.residual = residual
        super().__init__(message)


class NotConverged(SolveError):
    """The iteration stopped improving, or ran out of evaluations, above its tolerance."""


class Diverged(SolveError):
    """The iterate ran away."""


class NonFinite(SolveError):
    """The map returned a value that is not a number."""


class OutsideDomain(SolveError):
    """The equations have no meaning, or no solution, at this point."""
