"""Base of the views: pure functions from the state of the page to pictures, numbers, badges and code."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from time import process_time
from typing import Any, NamedTuple

from onehead import aim
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, format_value, text_figure
from onehead.app.knobs import KNOBS, Value
from onehead.app.refusals import as_sentence, explain
from onehead.app.state import State
from onehead.errors import OneheadError
from onehead.problem import Problem
from onehead.results import Certificate

# name, symbol, attribute of the result or a function that computes the value from it, meaning
Line = tuple[str, str, str | Callable[[Any], Any], str]

BEST_POSSIBLE = "best possible (known model)"  # name of the curve of the Bayes-optimal learner
DOTS_NOTE = "Dots are computed; the line between them is only a smooth guide."
BEST_POSSIBLE_MEANING = "for a learner that knows how the data were generated"
SOLVING = "Solving …"
TWO_MINIMA = "The solver converged, but the output layer has two competing minima here."
KIND_MEANINGS = {  # kind of truth of a certificate -> its meaning
    "theorem": "Proved: a theorem.",
    "claim": "Derived by the physicists' replica method and checked against training; not proved.",
    "measurement": "Measured, not predicted.",
}
DRAFT_POOL = ThreadPoolExecutor(4, thread_name_prefix="draft")  # kernels release the interpreter lock


class Number(NamedTuple):
    """A row of the table of numbers: name, symbol, formatted value and meaning."""

    name: str
    symbol: str
    value: str
    meaning: str = ""


class Badge(NamedTuple):
    """How far the numbers can be trusted.

    ``level`` is converged, approximate, conjecture, measured or failed; ``text`` is a sentence about it (empty if there
    is nothing to add), ``notes`` are further sentences.
    """

    level: str
    text: str
    notes: tuple[str, ...] = ()


class Code(NamedTuple):
    """Python code and shell commands that compute the numbers of a page without the explorer."""

    python: str
    shell: str


@dataclass(frozen=True)
class Picture:
    """A figure with its caption and the table behind it.

    ``exact`` tells whether it is the library's own result or a draft; ``numbers`` are those computed only with the
    exact picture, or those of a draft, with two digits, shown until the report arrives; ``refusal`` is the reason where
    there is nothing to draw, and ``missing`` names what the user has yet to give. ``seconds`` is the
    processor time of an exact picture.
    """

    figure: Figure
    caption: str
    rows: Sequence[dict[str, Any]] = ()
    numbers: tuple[Number, ...] = ()
    exact: bool = True
    refusal: str = ""
    missing: str = ""
    seconds: float = 0.0


class Report(NamedTuple):
    """The badge and the table of numbers beside a picture."""

    badge: Badge
    numbers: tuple[Number, ...] = ()


class Panel(NamedTuple):
    """One picture of a view with its numbers, as four functions of the state.

    ``draft`` returns a quick preview within a tenth of a second and runs in the server itself; ``report`` (the numbers)
    and ``picture`` (the exact curve) may take seconds and run in a worker; ``code`` returns the code that computes the
    same numbers.
    """

    draft: Callable[[State], Picture]
    report: Callable[[State], Report]
    picture: Callable[[State], Picture]
    code: Callable[[State], Code]


@dataclass(frozen=True, kw_only=True)
class View:
    """One view of the explorer, with the knobs of its ``problems`` and those named in ``own``.

    ``panels`` are its pictures by the value of the knob ``panel``; the panel of a view with a single picture has the
    empty name. ``plays`` names the knob that the play button moves; ``trains`` tells whether the view offers training
    runs. ``heads`` gives another ``about`` text and ``formula`` for some values of the knob ``attention``. ``verb`` is
    the function that must support the task, where the view itself would not notice that it does not; ``untied`` tells
    whether the view has no tied heads: it opens with cross-attention.
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
    verb: str = ""
    untied: bool = False

    @cached_property
    def knobs(self) -> tuple[str, ...]:
        """Names of the knobs of the view, in the order of the page."""
        return tuple(name for name, knob in KNOBS.items() if name in self.own or knob.problem in self.problems)

    def panel_of(self, state: State) -> Panel:
        """Return the panel that the state selects."""
        return self.panels[state[self.panel] if self.panel else ""]

    def _checked_panel(self, state: State) -> Panel:
        """Return the panel that the state selects; raise `InvalidArgument` where its task is not supported."""
        if self.verb:
            state.task.check_verb(self.verb)
        return self.panel_of(state)

    def draft(self, state: State) -> Picture:
        """Return a quick preview of the picture."""
        return self._checked_panel(state).draft(state)

    def report(self, state: State) -> Report:
        """Return the badge and the exact numbers."""
        return self._checked_panel(state).report(state)

    def picture(self, state: State) -> Picture:
        """Return the exact picture."""
        begin = process_time()
        return replace(self._checked_panel(state).picture(state), seconds=process_time() - begin)

    def code(self, state: State) -> Code:
        """Return code that computes the numbers of the page without the explorer."""
        return self.panel_of(state).code(state)


def with_values(panel: Panel, **values: Value) -> Panel:
    """Return a panel that ignores some knobs of its view and has fixed values in their place."""

    def fixed(function: Callable[[State], Any]) -> Callable[[State], Any]:
        return lambda state: function(state.changed(**values))

    return Panel(*map(fixed, panel))


def numbers(result: Any, *lines: Line) -> tuple[Number, ...]:
    """Return rows of the table of numbers, with values read from a result.

    Examples
    --------
    >>> from onehead.sparse import Task
    >>> numbers(Task(), ("Strength", "θ", "strength", "of the signal"))
    (Number(name='Strength', symbol='θ', value='5', meaning='of the signal'),)
    """
    return tuple(
        Number(name, symbol, format_value(attrgetter(key)(result) if isinstance(key, str) else key(result)), meaning)
        for name, symbol, key, meaning in lines
    )


def draft_numbers(result: Any, *lines: Line) -> tuple[Number, ...]:
    """Return rows as `numbers` does, with the two digits that a draft has.

    Examples
    --------
    >>> from onehead.sparse import Task
    >>> draft_numbers(Task(strength=1.234), ("Strength", "θ", "strength", "of the signal"))[0].value
    '≈ 1.2'
    """
    values = (attrgetter(key)(result) if isinstance(key, str) else key(result) for _, _, key, _ in lines)
    return tuple(
        Number(name, symbol, f"≈ {value:.2g}", meaning)
        for (name, symbol, _, meaning), value in zip(lines, values, strict=True)
    )


def report_from(solve: Callable[[State], Any], *lines: Line) -> Callable[[State], Report]:
    """Return a function that reports the numbers of ``solve(state)`` with their badge, or why solving failed.

    Names and meanings may contain placeholders as in `fill_placeholders`.
    """

    def report(state: State) -> Report:
        try:
            result = solve(state)
        except OneheadError as error:
            return failure_report(error)
        return Report(badge_from(result.certificate), numbers(result, *fill_placeholders(state, *lines)))

    return report


def fill_placeholders(state: State, *lines: Line) -> list[Line]:
    """Replace placeholders in braces: names of knobs by their values, {value} by "eigenvalue" or "singular value".

    Examples
    --------
    >>> from onehead.app import read_state
    >>> fill_placeholders(read_state({"attention": "cross"})[0], ("Zero {value}s", "", "zero_mass", ""))
    [('Zero singular values', '', 'zero_mass', '')]
    """
    texts = {**state.values, "value": state.task.spectral_value}
    return [(name.format(**texts), symbol, key, meaning.format(**texts)) for name, symbol, key, meaning in lines]


@lru_cache(maxsize=512)
def _cached_prediction(task: Task, learner: Learner, alpha: float) -> Any:
    return aim.predict(task, learner, alpha)


def predict_at_knobs(state: State) -> Any:
    """Return the prediction at the marked point, cached because badge, numbers and picture all use it."""
    return _cached_prediction(state.task, state.learner, state["alpha"])


def format_range(low: float, high: float) -> str:
    """Format a range for the page.

    Examples
    --------
    >>> format_range(0.5, 2)
    '0.5 … 2'
    """
    return f"{format_value(low)} … {format_value(high)}"


def solved_count(total: int, failed: int, what: str = "points") -> str:
    """Return the sentence that says how many points of an exact picture were solved.

    Examples
    --------
    >>> solved_count(31, 2)
    '29 exact points; 2 could not be solved and are left out.'
    """
    return f"{total - failed} exact {what}" + (f"; {failed} could not be solved and are left out." if failed else ".")


def scalar_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without the dictionaries and lists that do not fit into a cell of a table."""
    return {key: value for key, value in row.items() if not isinstance(value, (dict, list))}


def badge_from(certificate: Certificate) -> Badge:
    """Return the badge of a certificate.

    Examples
    --------
    >>> from onehead.results import Certificate
    >>> badge_from(Certificate(status="converged", kind="conjecture"))[:2]
    ('conjecture', 'The solver converged; the formula is conjectured.')
    """
    notes = tuple(as_sentence(warning) for warning in certificate.warnings)
    if "branches differ" in certificate.status:
        return Badge("approximate", TWO_MINIMA, notes)
    status = as_sentence(certificate.status)
    solver = "The solver converged" if certificate.converged else status.rstrip(".")
    if "approximate" in certificate.status or certificate.kind == "heuristic":
        return Badge("approximate", f"{solver}; the formula is an approximation.", notes)
    if certificate.kind == "conjecture":
        return Badge("conjecture", f"{solver}; the formula is conjectured.", notes)
    text = "" if certificate.status == "converged" else status
    return Badge("converged", text, (*notes, KIND_MEANINGS[certificate.kind]))


def failure_report(error: OneheadError) -> Report:
    """Return a report without numbers, whose badge gives the reason."""
    return Report(Badge("failed", explain(error)))


def refusal_picture(sentence: str) -> Picture:
    """Return a picture that shows only the reason why there is nothing to draw."""
    sentence = as_sentence(sentence)
    return Picture(text_figure(sentence), "", exact=False, refusal=sentence)


def solving_placeholder() -> Picture:
    """Return the picture shown in place of a draft that took too long."""
    return Picture(text_figure(SOLVING), "", exact=False)
