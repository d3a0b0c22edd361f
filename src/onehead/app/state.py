"""The state of the page, parsed from its address and validated by the problems whose parameters it sets."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import urlencode

from onehead.aim.flat_parameters import parse_decay
from onehead.aim.targets import MarchenkoPastur, Product, Target
from onehead.aim.task import Learner, Task
from onehead.app.knobs import KNOBS, PROBLEMS, Knob, Value
from onehead.app.refusals import MAX_VALUE_LENGTH, explain_value, shortened
from onehead.errors import InvalidArgument
from onehead.problem import Problem
from onehead.sparse.task import Protocol
from onehead.sparse.task import Task as SparseTask

P = TypeVar("P", bound=Problem)

MIN_TOKENS = 2


@dataclass(frozen=True)
class State:
    """A view and the value of every knob, all of them valid.

    Examples
    --------
    >>> state, wrong = read_state({"view": "curve", "noise": "0.2"})
    >>> state.values["noise"], state.learner.weight_decay, wrong
    (0.2, 0.01, {})
    """

    view: str
    values: dict[str, Value]
    extra: dict[str, Any] = field(default_factory=dict)  # data that is not in the address: the heads of a file
    adjusted: dict[str, Value] = field(default_factory=dict, compare=False)  # knobs changed to fit others

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def changed(self, **changes: Value) -> "State":
        """Return a copy of the state with some knobs set to other values."""
        return State(self.view, {**self.values, **changes}, self.extra)

    def key(self, *names: str) -> tuple[Value, ...]:
        """Return the values of some knobs as a tuple, for use as a key of a cache."""
        return tuple(self.values[name] for name in names)

    def query(self) -> str:
        """Return the query of the address of this page: the knobs of the view, and others not at their defaults."""
        from onehead.app.views import VIEWS  # views are made of states

        used = VIEWS[self.view].knobs
        pairs = [(name, v) for name, v in self.values.items() if name in used or v != KNOBS[name].default]
        return urlencode([("view", self.view), *((name, _address_text(value)) for name, value in pairs)])

    @cached_property
    def task(self) -> Task:
        """Task of the attention-indexed model, with the kind of target that view and head need."""
        from onehead.app.views import VIEWS

        kinds = [kind for kind in VIEWS[self.view].problems if issubclass(kind, Target)]
        target = self._build(kinds[0] if kinds else MarchenkoPastur)
        if isinstance(target, MarchenkoPastur) and self["attention"] != "tied":
            target = Product(kappa0=target.kappa0)
        return self._build(Task, target=target)

    @cached_property
    def learner(self) -> Learner:
        """Learner of the attention-indexed model."""
        return self._build(Learner)

    @cached_property
    def sparse_task(self) -> SparseTask:
        """Sparse-token task."""
        return self._build(SparseTask)

    @cached_property
    def protocol(self) -> Protocol:
        """Training protocol of the sparse-token models."""
        return self._build(Protocol)

    def _build(self, problem: type[P], **more: Any) -> P:
        return problem(**{knob.parameter.name: self[knob.name] for knob in _knobs_of(problem)}, **more)


def _knobs_of(problem: type[Problem]) -> list[Knob]:
    return [knob for knob in KNOBS.values() if knob.problem is problem]


def _address_text(value: Value) -> str:
    """Return a value as it is written in the address."""
    return str(int(value) if isinstance(value, bool) else value)


def read_state(raw: Mapping[str, Any]) -> tuple[State, dict[str, str]]:
    """Return the state that an address describes, and a sentence for every knob whose value is refused.

    A refused knob keeps its default, so that there is always a picture; names that are not knobs are ignored. Knobs
    that do not fit others are adjusted, see `_adjustments`.

    Examples
    --------
    >>> state, wrong = read_state({"view": "curve", "noise": "-1", "tokens": "three"})
    >>> print(wrong["noise"])
    Noise Δ must be at least 0 and at most 1,000 (you entered -1).
    >>> print(wrong["tokens"])
    Tokens T: cannot read "three"; write a number.
    """
    from onehead.app.views import VIEWS

    wrong: dict[str, str] = {}
    view = raw.get("view", "curve")
    if not isinstance(view, str) or view not in VIEWS:
        wrong["view"] = f"There is no view “{shortened(view)}”; the views are {', '.join(VIEWS)}."
        view = "curve"
    parsed: dict[str, Any] = {}
    refused: dict[str, InvalidArgument] = {}
    for name, knob in KNOBS.items():
        if name in raw:
            try:
                parsed[name] = _parsed(knob, raw[name])
            except InvalidArgument as refusal:
                refused[name] = refusal
    adjusted = _decay_from_dimension(view, parsed, refused)
    if VIEWS[view].untied and parsed.get("attention", KNOBS["attention"].default) == "tied":
        adjusted["attention"] = "cross"
    adjusted |= _adjustments({name: knob.default for name, knob in KNOBS.items()} | parsed)
    values: dict[str, Value] = {}
    for problem in PROBLEMS:
        values |= _validated(problem, parsed | adjusted, refused)
    for name, reason in refused.items():
        value = raw.get(name, reason.got)
        wrong[name] = explain_value(KNOBS[name], value, reason.allowed, entered=name in raw)
    return State(view, {name: values[name] for name in KNOBS}, adjusted=adjusted), wrong


def _decay_from_dimension(view: str, parsed: dict[str, Any], refused: dict[str, InvalidArgument]) -> dict[str, Value]:
    """Return a weight decay given by the dimension d of the target, such as 1/d, as a number."""
    from onehead.app.views import VIEWS

    decay = parsed.get("weight_decay")
    if not isinstance(decay, str) or "d" not in decay:
        return {}
    dim = parsed.get("dim", KNOBS["dim"].default) if "dim" in VIEWS[view].knobs else None
    try:
        return {"weight_decay": parse_decay(parsed.pop("weight_decay"), dim if isinstance(dim, int) else None)}
    except InvalidArgument as refusal:
        refused["weight_decay"] = refusal
        return {}


def _adjustments(values: Mapping[str, Any]) -> dict[str, Value]:
    """Return the knobs that do not fit the head or its labels, with values that do."""
    adjusted: dict[str, Value] = {}
    if values["mask"] == "strict" and values["tokens"] == MIN_TOKENS:
        adjusted["tokens"] = MIN_TOKENS + 1  # with two tokens every row would see at most one
    if values["labels"] == "hard" and values["loss"] == "squared":
        adjusted["loss"] = "cross-entropy"
    return adjusted


def _validated(
    problem: type[Problem], parsed: Mapping[str, Any], refused: dict[str, InvalidArgument]
) -> dict[str, Value]:
    """Return the knobs of a problem as validated by the problem itself; refused ones keep their defaults."""
    knobs = {knob.parameter.name: knob for knob in _knobs_of(problem)}
    defaults = {name: knob.default for name, knob in knobs.items()}
    given = {name: parsed[knob.name] for name, knob in knobs.items() if knob.name in parsed}
    while True:
        try:
            found = problem(**{**defaults, **given}).model_dump()
            return {knob.name: found[name] for name, knob in knobs.items()}
        except InvalidArgument as refusal:
            refused.setdefault(knobs[refusal.name].name, refusal)
            if given.pop(refusal.name, None) is None:  # a default that does not fit the other values: drop them all
                given.clear()


def _parsed(knob: Knob, raw: Any) -> Any:
    """Return one value of an address with its type, checked against the limits of the explorer only."""
    parameter = knob.parameter
    if isinstance(raw, (list, dict)) or len(str(raw)) > MAX_VALUE_LENGTH:
        raise InvalidArgument(parameter.name, shortened(raw), f"at most {MAX_VALUE_LENGTH} characters long")
    if parameter.choices:
        if raw not in parameter.choices:
            raise InvalidArgument(parameter.name, raw, " or ".join(parameter.choices))
        return raw
    if parameter.kind == "switch":
        return raw
    try:
        number = float(str(raw))
    except ValueError:
        return str(raw).strip()  # 0+, or a text that the problem refuses
    low, high = knob.limits
    if low is not None and number < low:
        raise InvalidArgument(parameter.name, number, f"at least {low:,g} in the explorer")
    if high is not None and number > high:
        raise InvalidArgument(parameter.name, number, f"at most {high:,g} in the explorer")
    whole = parameter.kind == "integer" and math.isfinite(number) and number == round(number)
    return round(number) if whole else number
