"""What a view is: a few pure functions of the state of the page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from onehead.app.drawing import Figure
from onehead.app.state import State
from onehead.errors import OneheadError
from onehead.results import Certificate

__all__ = ["Badge", "Code", "Number", "Picture", "Report", "View", "badge_of", "failed"]


class Number(NamedTuple):
    """A line of the panel of numbers: what it is, its symbol, its value as shown, what it means."""

    name: str
    symbol: str
    value: str
    meaning: str = ""


class Badge(NamedTuple):
    """How far the numbers can be trusted: ``level`` is converged, approximate, conjecture, measured or failed."""

    level: str
    text: str
    notes: tuple[str, ...] = ()


class Code(NamedTuple):
    """The same numbers without the explorer."""

    python: str
    shell: str


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A figure, the rows behind it, and a sentence under it; ``exact`` if it is the library's own answer.

    ``numbers`` are those that only the exact picture knows.
    """

    figure: Figure
    exact: bool
    caption: str = ""
    numbers: tuple[Number, ...] = ()
    rows: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Report:
    """The panel of numbers and its badge."""

    badge: Badge
    numbers: tuple[Number, ...] = ()


@dataclass(frozen=True, kw_only=True)
class View:
    """One view of the explorer.

    ``sketch`` answers within a tenth of a second and runs in the server itself; ``report`` (the numbers) and ``picture`` (the
    exact curve) may take seconds and run in a worker; ``code`` gives the same numbers without the explorer.
    ``plays`` names the knob that the play button moves; ``trains`` says whether the view can train for real.
    """

    name: str
    title: str
    about: str
    formula: str
    knobs: Sequence[str]
    sketch: Callable[[State], Picture]
    report: Callable[[State], Report]
    picture: Callable[[State], Picture]
    code: Callable[[State], Code]
    plays: str = ""
    trains: bool = False


def badge_of(certificate: Certificate) -> Badge:
    """The badge of a certificate.

    Examples
    --------
    >>> from onehead.results import Certificate
    >>> badge_of(Certificate(status="converged", kind="conjecture")).level
    'conjecture'
    """
    notes = tuple(_sentence(warning) for warning in certificate.warnings)
    if "approximate" in certificate.status or certificate.kind == "heuristic":
        return Badge("approximate", certificate.status, notes)
    if certificate.kind == "conjecture":
        return Badge("conjecture", f"{certificate.status}; a conjecture of the paper", notes)
    return Badge("converged", certificate.status, (*notes, f"Kind of truth: {certificate.kind}."))


def failed(error: OneheadError) -> Report:
    """A solve without an answer, with its sentence."""
    return Report(badge=Badge("failed", str(error)))


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."
