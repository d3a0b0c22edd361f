"""Exceptions that onehead raises on purpose: one base class, one sentence per error, all of them picklable."""

from collections.abc import Iterable
from pathlib import PurePath
from typing import Any

from onehead.sanitize import Unquoted, did_you_mean, quoted, visible

__all__ = [
    "ApproximationWarning",
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


class ApproximationWarning(UserWarning):
    """A result is approximate, or less accurate than asked for; its certificate has the same sentence."""


class OneheadError(Exception):
    """Base class of every exception raised on purpose; its text is one sentence, with control characters escaped."""

    def __str__(self) -> str:
        return visible(super().__str__())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle message and attributes; calling the constructor again would format the message twice."""
        return _restore, (type(self), self.args, {name: _picklable(value) for name, value in self._state().items()})

    def _state(self) -> dict[str, Any]:
        """Attributes that a pickled copy gets."""
        return dict(vars(self))


def _restore(kind: type[OneheadError], args: tuple[Any, ...], state: dict[str, Any]) -> OneheadError:
    """Make an exception from its pickled message and attributes."""
    built_in: Any = kind  # the class whose memory layout ``kind`` has; Python allows no other ``__new__``
    while built_in.__module__ != "builtins":
        built_in = built_in.__base__
    error: OneheadError = built_in.__new__(kind, *args)
    super(OneheadError, error).__init__(*args)  # the built-in class may store the message in a slot of its own
    for name, value in state.items():
        setattr(error, name, value)
    return error


def _picklable(value: Any) -> Any:
    """Return plain data itself, and the text of anything else, such as a function, which might not be picklable."""
    try:
        plain = _is_plain(value)
    except RecursionError:  # a list that contains itself
        plain = False
    return value if plain else Unquoted(quoted(value))


def _is_plain(value: Any) -> bool:
    """Whether a value consists of numbers, texts, paths, and containers of these."""
    if isinstance(value, (tuple, list, set, frozenset)):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(item) for pair in value.items() for item in pair)
    return value is None or isinstance(value, (bool, int, float, complex, str, bytes, PurePath))


class InvalidArgument(OneheadError, ValueError):
    """An argument has a value that is not allowed; the message names the argument, the value and what is allowed."""

    def __init__(self, name: str, got: object, allowed: str, known: Iterable[object] = ()) -> None:
        self.name, self.got, self.allowed, self.known = name, got, allowed, tuple(known)
        super().__init__(f"{name} must be {allowed}; got {quoted(got)}{did_you_mean(got, self.known)}.")


class WrongCall(OneheadError, TypeError):
    """A function was called with arguments that it does not have, or without one that it needs."""


class Unchangeable(OneheadError, AttributeError):
    """A field of an immutable object was assigned to."""


class TooLarge(OneheadError, MemoryError):
    """The problem does not fit into memory."""

    def __init__(self, reason: str = "") -> None:
        because = f" ({reason})" if reason else ""
        super().__init__(f"the problem does not fit into the memory of this machine{because}; make it smaller.")


class MissingExtra(OneheadError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; run: pip install 'onehead[{extra}]'.")


class NotWritten(OneheadError, OSError):
    """A file could not be written; its previous content is unchanged."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} could not be written ({reason}); any previous content is unchanged.")
        self.strerror = reason

    def _state(self) -> dict[str, Any]:
        return {**vars(self), "strerror": self.strerror}


class SolveError(OneheadError, RuntimeError):
    """The solver found no solution; ``residual`` is the smallest undamped residual it reached."""

    def __init__(self, message: str, *, residual: float = float("nan")) -> None:
        self.residual = residual
        super().__init__(message)


class NotConverged(SolveError):
    """The iteration stopped improving, or used up its evaluations, above its tolerance."""


class Diverged(SolveError):
    """The iterates left the bounded region in which solutions are searched."""


class NonFinite(SolveError):
    """The equations returned a value that is not finite."""


class OutsideDomain(SolveError):
    """The equations have no meaning, or no solution, at this point."""
