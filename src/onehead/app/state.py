"""The state of the page: what its address says, read and checked by the problems whose words they are."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import urlencode

from onehead.aim.targets import MarchenkoPastur, Product, Target
from onehead.aim.task import Learner, Task
from onehead.aim.words import decay_from_word
from onehead.app.knobs import KNOBS, PROBLEMS, Knob, Value
from onehead.errors import InvalidArgument
from onehead.problem import Problem
from onehead.sparse.task import Protocol
from onehead.sparse.task import Task as SparseTask

__all__ = ["LONGEST_VALUE", "State", "read_state"]

P = TypeVar("P", bound=Problem)

LONGEST_VALUE = 40  # characters of one value in the address: more is no number
FEWEST = 2  # tokens


@dataclass(frozen=True)
class State:
    """A view and the value of every knob; all of them are allowed.

    Examples
    --------
    >>> state, wrong = read_state({"view": "curve", "noise": "0.2"})
    >>> state.values["noise"], state.learner.weight_decay, wrong
    (0.2, 0.01, {})
    """

    view: str
    values: dict[str, Value]
    extra: dict[str, Any] = field(default_factory=dict)  # what is not in the address: the heads of a file
    moved: dict[str, Value] = field(default_factory=dict, compare=False)  # knobs that made room for others

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def changed(self, **changes: Value) -> "State":
        """The same page with some knobs turned."""
        return State(self.view, {**self.values, **changes}, self.extra)

    def key(self, *names: str) -> tuple[Value, ...]:
        """The values of some knobs, to look things up by."""
        return tuple(self.values[name] for name in names)

    def query(self) -> str:
        """The address of this page, after the question mark: every knob of the view, and others that were moved."""
        from onehead.app.views import VIEWS  # noqa: PLC0415  (views are made of states)

        used = VIEWS[self.view].knobs
        pairs = [(name, v) for name, v in self.values.items() if name in used or v != KNOBS[name].default]
        return urlencode([("view", self.view), *((name, _word(value)) for name, value in pairs)])

    @cached_property
    def task(self) -> Task:
        """The task of the attention-indexed model, with the kind of target that the view shows, for this kind of head."""
        from onehead.app.views import VIEWS  # noqa: PLC0415

        kinds = [kind for kind in VIEWS[self.view].problems if issubclass(kind, Target)]
        target = self._made(kinds[0] if kinds else MarchenkoPastur)
        if isinstance(target, MarchenkoPastur) and self["attention"] != "tied":
            target = Product(kappa0=target.kappa0)
        return self._made(Task, target=target)

    @cached_property
    def learner(self) -> Learner:
        """The learner of the attention-indexed model."""
        return self._made(Learner)

    @cached_property
    def sparse_task(self) -> SparseTask:
        """The sparse-token task."""
        return self._made(SparseTask)

    @cached_property
    def protocol(self) -> Protocol:
        """How the sparse-token models are trained."""
        return self._made(Protocol)

    def _made(self, problem: type[P], **more: Any) -> P:
        return problem(**{knob.said.name: self[knob.name] for knob in _knobs_of(problem)}, **more)


def _knobs_of(problem: type[Problem]) -> list[Knob]:
    return [knob for knob in KNOBS.values() if knob.problem is problem]


def _word(value: Value) -> str:
    """A value as the address writes it."""
    return str(int(value) if isinstance(value, bool) else value)


def read_state(raw: Mapping[str, Any]) -> tuple[State, dict[str, str]]:
    """The state a page asks for, and for every knob with a bad value the sentence that refuses it.

    A refused knob keeps its default, so that there is always a picture; words that are no knob are left alone. A knob that does
    not fit another makes room for it: see `_fitted`.

    Examples
    --------
    >>> state, wrong = read_state({"view": "curve", "noise": "-1", "tokens": "three"})
    >>> print(wrong["noise"])
    noise must be a number >= 0 and <= 1000; got -1.0.
    >>> print(wrong["tokens"])
    tokens must be an integer >= 2 and <= 100000; got 'three'.
    """
    from onehead.app.views import VIEWS  # noqa: PLC0415

    wrong: dict[str, str] = {}
    view = raw.get("view", "curve")
    if not isinstance(view, str) or view not in VIEWS:
        wrong["view"] = str(InvalidArgument("view", _short(view), " or ".join(VIEWS)))
        view = "curve"
    typed: dict[str, Any] = {}
    for name, knob in KNOBS.items():
        if name in raw:
            try:
                typed[name] = _typed(knob, raw[name])
            except InvalidArgument as refusal:
                wrong[name] = str(refusal)
    moved = _sized(view, typed, wrong) | _fitted({name: knob.default for name, knob in KNOBS.items()} | typed)
    found: dict[str, Value] = {}
    for problem in PROBLEMS:
        found |= _checked(problem, typed | moved, wrong)
    return State(view, {name: found[name] for name in KNOBS}, moved=moved), wrong


def _sized(view: str, typed: dict[str, Any], wrong: dict[str, str]) -> dict[str, Value]:
    """A weight decay written by the dimension of the target (1/d), which becomes a number here; refused where there is none."""
    from onehead.app.views import VIEWS  # noqa: PLC0415

    said = typed.get("weight_decay")
    if not isinstance(said, str) or "d" not in said:
        return {}
    dim = typed.get("dim", KNOBS["dim"].default) if "dim" in VIEWS[view].knobs else None
    try:
        return {"weight_decay": decay_from_word(typed.pop("weight_decay"), dim if isinstance(dim, int) else None)}
    except InvalidArgument as refusal:
        wrong["weight_decay"] = str(refusal)
        return {}


def _fitted(values: Mapping[str, Any]) -> dict[str, Value]:
    """The knobs that do not fit the head or its labels, and where they go."""
    moved: dict[str, Value] = {}
    if values["mask"] == "strict" and values["tokens"] == FEWEST:
        moved["tokens"] = FEWEST + 1  # a choice needs two columns
    if values["labels"] == "hard" and values["loss"] == "squared":
        moved["loss"] = "cross-entropy"
    return moved


def _checked(problem: type[Problem], typed: Mapping[str, Any], wrong: dict[str, str]) -> dict[str, Value]:
    """The knobs of a problem as the problem itself reads them; what it refuses stays at its default."""
    knobs = {knob.said.name: knob for knob in _knobs_of(problem)}
    defaults = {name: knob.default for name, knob in knobs.items()}
    given = {name: typed[knob.name] for name, knob in knobs.items() if knob.name in typed}
    while True:
        try:
            found = problem(**{**defaults, **given}).model_dump()
            return {knob.name: found[name] for name, knob in knobs.items()}
        except InvalidArgument as refusal:
            wrong.setdefault(knobs[refusal.name].name, str(refusal))
            if given.pop(refusal.name, None) is None:  # a default that does not fit the others: all go back
                given.clear()


def _typed(knob: Knob, raw: Any) -> Any:
    """One value of an address with its type, within the limits of the explorer; the library's come after."""
    said = knob.said
    if isinstance(raw, (list, dict)) or len(str(raw)) > LONGEST_VALUE:
        raise InvalidArgument(said.name, _short(raw), f"at most {LONGEST_VALUE} characters")
    if said.choices:
        if raw not in said.choices:
            raise InvalidArgument(said.name, raw, " or ".join(said.choices))
        return raw
    if said.kind == "switch":
        return raw
    try:
        number = float(str(raw))
    except ValueError:
        return str(raw).strip()  # the word 0+, or something to refuse
    least, most = knob.limits
    if least is not None and number < least:
        raise InvalidArgument(said.name, number, f"at least {least:g} in the explorer")
    if most is not None and number > most:
        raise InvalidArgument(said.name, number, f"at most {most:g} in the explorer")
    whole = said.kind == "integer" and math.isfinite(number) and number == round(number)
    return round(number) if whole else number


def _short(raw: Any) -> str:
    text = str(raw)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
