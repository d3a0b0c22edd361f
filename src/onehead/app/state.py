"""The state of the page: what its address says, checked value by value with the library's own bounds."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from onehead.app.knobs import KNOBS, Knob
from onehead.errors import InvalidArgument

if TYPE_CHECKING:
    from onehead import aim, sparse

__all__ = ["LONGEST_VALUE", "State", "read_state"]

Value = float | int | str | bool

LONGEST_VALUE = 40  # characters of one value in the address: more is no number
TASK, LEARNER = ("noise", "tokens", "beta0"), ("weight_decay", "width", "param", "beta", "loss", "branch")
SPARSE_TASK = ("length", "signal_tokens", "strength", "positive_rate")
PROTOCOL = ("alpha0", "alpha1", "sparse_beta", "eta_w", "eta_b", "eta_q", "sparse_loss", "ridge")


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
    def task(self) -> "aim.Task":
        """The task of the attention-indexed model."""
        from onehead.aim import MarchenkoPastur, Task  # noqa: PLC0415  (loads the theory)

        return Task(target=MarchenkoPastur(kappa0=self["kappa0"]), **self._fields(TASK))

    @cached_property
    def learner(self) -> "aim.Learner":
        """The learner of the attention-indexed model."""
        from onehead.aim import Learner  # noqa: PLC0415

        return Learner(**self._fields(LEARNER))

    @cached_property
    def sparse_task(self) -> "sparse.Task":
        """The sparse-token task."""
        from onehead.sparse import Task  # noqa: PLC0415

        return Task(**self._fields(SPARSE_TASK))

    @cached_property
    def protocol(self) -> "sparse.Protocol":
        """How the sparse-token models are trained."""
        from onehead.sparse import Protocol  # noqa: PLC0415

        return Protocol(**self._fields(PROTOCOL))

    def _fields(self, names: tuple[str, ...]) -> dict[str, Any]:
        return {KNOBS[name].field: self[name] for name in names}


def _word(value: Value) -> str:
    """A value as the address writes it."""
    if isinstance(value, bool):
        return "1" if value else "0"
    return repr(value) if isinstance(value, float) else str(value)


def read_state(raw: Mapping[str, Any]) -> tuple[State, dict[str, str]]:
    """The state a page asks for, and for every knob with a bad value the sentence that refuses it.

    A refused knob keeps its default, so that there is always a picture; words that are no knob are left alone.

    Examples
    --------
    >>> state, wrong = read_state({"view": "curve", "noise": "-1", "tokens": "three"})
    >>> print(wrong["noise"])
    noise must be a number >= 0 and <= 1000; got -1.0.
    >>> print(wrong["tokens"])
    tokens must be an integer; got 'three'.
    """
    from onehead.app.views import VIEWS  # noqa: PLC0415

    wrong: dict[str, str] = {}
    view = raw.get("view", "curve")
    if not isinstance(view, str) or view not in VIEWS:
        wrong["view"] = str(InvalidArgument("view", _short(view), " or ".join(VIEWS)))
        view = "curve"
    values: dict[str, Value] = {}
    for name, knob in KNOBS.items():
        values[name] = knob.default
        if name in raw:
            try:
                values[name] = _value(knob, raw[name])
            except InvalidArgument as refusal:
                wrong[name] = str(refusal)
    for name, sentence in _refusals(values).items():
        wrong.setdefault(name, sentence)
        for refused in ("alpha_from", "alpha_to") if name == "alpha_to" else (name,):
            values[refused] = KNOBS[refused].default
    return State(view, values), wrong


def _value(knob: Knob, raw: Any) -> Value:
    """Read one value, and check it against the knob's own limits; the library's come after."""
    if isinstance(raw, (list, dict)) or (isinstance(raw, str) and len(raw) > LONGEST_VALUE):
        raise InvalidArgument(knob.field, _short(raw), f"at most {LONGEST_VALUE} characters")
    if knob.kind == "switch":
        if str(raw).lower() not in ("0", "1", "true", "false"):
            raise InvalidArgument(knob.field, raw, "0 or 1")
        return str(raw).lower() in ("1", "true")
    if knob.kind == "choice":
        if raw not in dict(knob.choices):
            raise InvalidArgument(knob.field, raw, " or ".join(word for word, _ in knob.choices))
        return str(raw)
    if knob.limit_word and str(raw).strip() == "0+":
        return "0+" if knob.name == "weight_decay" else 0.0
    return _number(knob, raw)


def _number(knob: Knob, raw: Any) -> float | int:
    whole = knob.kind == "integer"
    kind = "an integer" if whole else "a number"
    try:
        number = float(raw)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(raw, bool) or not math.isfinite(number) or (whole and number != round(number)):
        raise InvalidArgument(knob.field, raw, kind)
    bounds = [
        f">= {knob.least:g}" if knob.least is not None else "",
        f"<= {knob.most:g}" if knob.most is not None else "",
    ]
    if (knob.least is not None and number < knob.least) or (knob.most is not None and number > knob.most):
        raise InvalidArgument(knob.field, raw, f"{kind} {' and '.join(b for b in bounds if b)} in the explorer")
    return round(number) if whole else number


def _refusals(values: dict[str, Value]) -> dict[str, str]:
    """What the library says of the values, knob by knob and then together."""
    from onehead import aim, sparse  # noqa: PLC0415
    from onehead.aim.task import check_alpha  # noqa: PLC0415

    checks: list[tuple[str, Callable[[], Any]]] = [
        ("kappa0", lambda: aim.MarchenkoPastur(kappa0=values["kappa0"])),
        *((name, _check(aim.Task, name, values)) for name in TASK),
        *((name, _check(aim.Learner, name, values)) for name in LEARNER),
        *((name, lambda name=name: check_alpha(float(values[name]))) for name in ("alpha", "alpha_from", "alpha_to")),
        *((name, _check(sparse.Task, name, values)) for name in ("length", "strength", "positive_rate")),
        ("signal_tokens", lambda: sparse.Task(length=values["length"], signal_tokens=values["signal_tokens"])),
        *((name, _check(sparse.Protocol, name, values)) for name in PROTOCOL),
        *((name, _check_power_law(name, values)) for name in ("gamma", "samples")),
        ("alpha_to", lambda: _ordered(values)),
    ]
    refused: dict[str, str] = {}
    for name, check in checks:
        try:
            check()
        except InvalidArgument as refusal:
            refused.setdefault(name, str(refusal))
    return refused


def _check(problem: Any, name: str, values: dict[str, Value]) -> Callable[[], Any]:
    return lambda: problem(**{KNOBS[name].field: values[name]})


def _check_power_law(name: str, values: dict[str, Value]) -> Callable[[], Any]:
    """Bounds of the power law: any positive number that leaves the numbers finite."""

    def check() -> None:
        low, high = {"gamma": (0.0, 10.0), "samples": (1.0, 1e9)}[name]
        if not low <= float(values[name]) <= high:
            raise InvalidArgument(name, values[name], f"a number >= {low:g} and <= {high:g}")

    return check


def _ordered(values: dict[str, Value]) -> None:
    low, high = float(values["alpha_from"]), float(values["alpha_to"])
    if not 1.2 * low <= high <= 1e4 * low:
        raise InvalidArgument("alpha_to", high, f"between 1.2 and 10000 times alpha_from = {low:g}")


def _short(raw: Any) -> str:
    text = str(raw)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
