"""What a view is: a few pure functions of the state of the page."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from onehead import aim
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, said, show
from onehead.app.knobs import KNOBS
from onehead.app.state import State
from onehead.errors import OneheadError
from onehead.problem import Problem
from onehead.results import Certificate

__all__ = [
    "DOTS", "KNOWN", "POOL", "POSSIBLE", "Badge", "Code", "Line", "Number", "Panel", "Picture", "Report", "View", "answer", "badge_of", "failed",
    "flat", "numbers", "predicted", "refused", "solved", "span", "waiting", "worded",
]  # fmt: skip

# name, symbol, where the value stands in the answer or how to get it from there, meaning
Line = tuple[str, str, str | Callable[[Any], Any], str]

POSSIBLE = "best possible (known model)"  # the line of the best possible learner
DOTS = "Dots are solved; the line between them is bent by eye."
KNOWN = "by who knows how the data were made"
SOLVING = "Solving …"
TRUTHS = {  # what the word of a certificate means
    "theorem": "Proved: a theorem.",
    "claim": "Derived by the physicists' replica method and checked against training; not proved.",
    "measurement": "Measured, not predicted.",
}
POOL = ThreadPoolExecutor(4, thread_name_prefix="sketch")  # kernels release the interpreter lock


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


@dataclass(frozen=True)
class Picture:
    """A figure, a sentence under it, and the rows behind it; ``exact`` if it is the library's own answer.

    ``numbers`` are those that only the exact picture knows; ``refusal`` says why there is nothing to draw.
    """

    figure: Figure
    caption: str
    rows: Sequence[dict[str, Any]] = ()
    numbers: tuple[Number, ...] = ()
    exact: bool = True
    refusal: str = ""


class Report(NamedTuple):
    """The panel of numbers and its badge."""

    badge: Badge
    numbers: tuple[Number, ...] = ()


class Panel(NamedTuple):
    """One picture with its numbers.

    ``sketch`` answers within a tenth of a second and runs in the server itself; ``report`` (the numbers) and ``picture`` (the
    exact curve) may take seconds and run in a worker; ``code`` gives the same numbers without the explorer.
    """

    sketch: Callable[[State], Picture]
    report: Callable[[State], Report]
    picture: Callable[[State], Picture]
    code: Callable[[State], Code]


@dataclass(frozen=True, kw_only=True)
class View:
    """One view of the explorer, with the knobs of its ``problems`` and ``own`` ones by name.

    ``panels`` are its pictures, by the value of the knob ``panel``; a view with a single one has it under no name. ``plays`` names
    the knob that the play button moves; ``trains`` says whether the view can train for real. ``heads`` are other
    words and another formula for it, by the knob ``attention``.
    """

    name: str
    title: str
    about: str
    formula: str
    heads: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    problems: tuple[type[Problem], ...] = ()
    own: tuple[str, ...] = ()
    panels: Mapping[str, Panel]
    panel: str = ""
    plays: str = ""
    trains: bool = False

    @cached_property
    def knobs(self) -> tuple[str, ...]:
        """The knobs of the view, in the order of the page."""
        return tuple(name for name, knob in KNOBS.items() if name in self.own or knob.problem in self.problems)

    def shown(self, state: State) -> Panel:
        """The panel that a page shows."""
        return self.panels[state[self.panel] if self.panel else ""]

    def sketch(self, state: State) -> Picture:
        """The picture, for the eye."""
        return self.shown(state).sketch(state)

    def report(self, state: State) -> Report:
        """The exact numbers."""
        return self.shown(state).report(state)

    def picture(self, state: State) -> Picture:
        """The exact picture."""
        return self.shown(state).picture(state)

    def code(self, state: State) -> Code:
        """The same numbers without the explorer."""
        return self.shown(state).code(state)


def numbers(found: Any, *lines: Line) -> tuple[Number, ...]:
    """Lines of the panel, with the values that stand in an answer.

    Examples
    --------
    >>> from onehead.sparse import Task
    >>> numbers(Task(), ("Strength", "θ", "strength", "of the signal"))
    (Number(name='Strength', symbol='θ', value='5', meaning='of the signal'),)
    """
    return tuple(
        Number(name, symbol, show(attrgetter(key)(found) if isinstance(key, str) else key(found)), meaning)
        for name, symbol, key, meaning in lines
    )


def answer(solve: Callable[[State], Any], *lines: Line) -> Callable[[State], Report]:
    """A report: the numbers of an answer with its badge, or the sentence why there is none.

    A name and a meaning may name knobs in braces, and {value}: eigenvalue or singular value, whichever the head has.
    """

    def report(state: State) -> Report:
        try:
            found = solve(state)
        except OneheadError as error:
            return failed(error)
        return Report(badge_of(found.certificate), numbers(found, *worded(state, *lines)))

    return report


def worded(state: State, *lines: Line) -> list[Line]:
    """Lines with the words that stand in braces.

    Examples
    --------
    >>> from onehead.app import read_state
    >>> worded(read_state({"attention": "cross"})[0], ("Zero {value}s", "", "zero_mass", ""))
    [('Zero singular values', '', 'zero_mass', '')]
    """
    words = {**state.values, "value": state.task.value}
    return [(name.format(**words), symbol, key, meaning.format(**words)) for name, symbol, key, meaning in lines]


@lru_cache(maxsize=512)
def _predicted(task: Task, learner: Learner, alpha: float) -> Any:
    return aim.predict(task, learner, alpha)


def predicted(state: State) -> Any:
    """The library's own answer at the marked point; badge, numbers and pictures of a page share it."""
    return _predicted(state.task, state.learner, state["alpha"])


def span(low: float, high: float) -> str:
    """A range as the page shows it.

    Examples
    --------
    >>> span(0.5, 2)
    '0.5 … 2'
    """
    return f"{show(low)} … {show(high)}"


def solved(total: int, lost: int, what: str = "points") -> str:
    """How much of an exact picture there is.

    Examples
    --------
    >>> solved(31, 2)
    '29 exact points; 2 could not be solved and are left out.'
    """
    return f"{total - lost} exact {what}" + (f"; {lost} could not be solved and are left out." if lost else ".")


def flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without what does not fit into a cell."""
    return {key: value for key, value in row.items() if not isinstance(value, (dict, list))}


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
        return Badge("conjecture", f"{certificate.status}; a conjecture", notes)
    return Badge("converged", certificate.status, (*notes, TRUTHS[certificate.kind]))


def failed(error: OneheadError) -> Report:
    """A solve without an answer, with its sentence."""
    return Report(Badge("failed", str(error)))


def refused(sentence: str) -> Picture:
    """A picture of which there is nothing but the sentence why."""
    return Picture(said(sentence), "", exact=False, refusal=sentence)


def waiting() -> Picture:
    """In place of a sketch that took too long."""
    return Picture(said(SOLVING), "", exact=False)


def _sentence(text: str) -> str:
    text = text[:1].upper() + text[1:]
    return text if text.endswith(".") else text + "."
