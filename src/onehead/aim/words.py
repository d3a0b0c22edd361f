"""A task and a learner from flat words: the names that flags, sweep files and the explorer share."""

import inspect
import math
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from onehead.aim.targets import Discrete, MarchenkoPastur, Product, Target
from onehead.aim.task import Learner, Task
from onehead.arguments import Check, checked, instance
from onehead.errors import InvalidArgument
from onehead.fields import LIMIT, Word, words_of
from onehead.results import plain

__all__ = [
    "LEARNER",
    "SHAPE",
    "TASK",
    "WORDS",
    "decay_from_word",
    "dimension",
    "needed_dimension",
    "posed",
    "problem_from_words",
    "ratio_from_samples",
    "threshold_marks",
    "threshold_names",
    "words_from_problem",
]

# flat word -> where it belongs; a new field of a target, of Task or of Learner is a new word, and nothing is to be said here
SHAPE: dict[str, Word] = {
    said.flat: said
    for kind in Target.known.values()
    for said in words_of(kind).values()
    if said.name not in ("kind", "bulk")  # the bulk of a spikes target is a target of its own
}
TASK = {name: said for name, said in words_of(Task).items() if name != "target"}
LEARNER = words_of(Learner)
TARGET = Word(
    **{
        **vars(words_of(Task)["target"]),
        "kind": "choice",
        "choices": tuple(Target.known),
        "default": words_of(MarchenkoPastur)["kind"].default,
        "allowed": " or ".join(Target.known),
    }
)
WORDS: dict[str, Word] = {"target": TARGET, **SHAPE, **TASK, **LEARNER}

THRESHOLDS = {
    "emergence": "emergence",
    "interpolation": "interpolation",
    "bayes_optimal": "Bayes-optimal recovery",
    "direct": "direct interpolation",
    "recovery": "perfect recovery",
}

_POWER = re.compile(r"d\^\(?([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\)?")


def problem_from_words(words: Mapping[str, Any]) -> tuple[Task, Learner, dict[str, Any]]:
    """The task, the learner, and the words that belong to neither; missing ones take their defaults.

    ``target`` is mp or product (with ``kappa0``), power-law (``gamma``, ``dim``), spikes (``spikes``, ``dim``) or atoms (``atoms``, a
    list of eigenvalues). ``samples`` may stand for ``alpha`` where a dimension is known, and ``weight_decay`` may be written
    1/d, sqrt(d) or d^x there.

    Examples
    --------
    >>> from onehead.aim.words import problem_from_words
    >>> task, learner, rest = problem_from_words(
    ...     {"target": "power-law", "gamma": 0.75, "dim": 200, "weight_decay": "1/d", "samples": 10_000}
    ... )
    >>> task.target, learner.weight_decay, rest
    (PowerLaw(gamma=0.75, dim=200), 0.005, {'alpha': 0.25})
    """
    rest = {name: value for name, value in words.items() if value is not None}
    target = _target(rest)
    dim = dimension(target) or rest.get("dim")
    if "weight_decay" in rest:
        rest["weight_decay"] = decay_from_word(rest["weight_decay"], dim)
    task = Task(target=target, **{name: rest.pop(name) for name in TASK if name in rest})
    learner = Learner(**{name: rest.pop(name) for name in LEARNER if name in rest})
    if "samples" in rest:
        if "alpha" in rest:
            raise InvalidArgument(
                "samples", rest["samples"], "left out when alpha is given: one follows from the other"
            )
        rest["alpha"] = ratio_from_samples(rest.pop("samples"), dim)
    return task, learner, rest


def _target(rest: dict[str, Any]) -> Target:
    """The target; its words are taken out of ``rest``."""
    untied = rest.get("attention", "tied") != "tied"
    name = rest.pop("target", words_of(Product)["kind"].default if untied else TARGET.default)
    if isinstance(name, Target):  # ready made: its words are its own
        if said := [word for word in SHAPE if word in rest and word != "dim"]:
            raise InvalidArgument(said[0], rest[said[0]], "left out where target is an object that says it")
        return name
    if name not in Target.known:
        raise InvalidArgument("target", name, f"one of {', '.join(Target.known)}", Target.known)
    kind = Target.known[name]
    names = {said.flat: own for own, said in words_of(kind).items() if said.flat in SHAPE}
    for word in SHAPE:
        if word in rest and word not in names and word != "dim":  # that of a training run may stand beside any target
            raise InvalidArgument(word, rest[word], f"left out with target {name}")
    try:
        target = kind(**{names[word]: rest.pop(word) for word in names if word in rest})
    except InvalidArgument as failure:  # under the name that was used
        flat = {own: word for word, own in names.items()}.get(failure.name, failure.name)
        raise InvalidArgument(flat, failure.got, failure.allowed, failure.known) from None
    own = dimension(target)
    if "dim" not in names and own is not None and (given := rest.pop("dim", own)) != own:
        raise InvalidArgument("dim", given, f"left out, or {own}, the number of eigenvalues")
    return target


def words_from_problem(task: Task, learner: Learner) -> dict[str, Any]:
    """The flat words of a task and a learner, which `problem_from_words` reads back; what a target does not have is left out.

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> task, learner, _ = problem_from_words(words_from_problem(Task(noise=0.1), Learner()))
    >>> task == Task(noise=0.1), learner == Learner()
    (True, True)
    """
    shape = {said.flat: plain(getattr(task.target, own)) for own, said in words_of(type(task.target)).items()}
    return {
        "target": shape.pop("kind"),
        **{name: value for name, value in shape.items() if value is not None},
        **{name: plain(getattr(task, name)) for name in TASK},
        **{name: plain(getattr(learner, name)) for name in LEARNER},
    }


def dimension(target: Target) -> int | None:
    """d of a target with a dimension; a limiting law has none."""
    return len(target.values) if isinstance(target, Discrete) else None


def needed_dimension(task: Task) -> int:
    """d of a task whose target has one; a sentence where it has not."""
    dim = dimension(task.target)
    if dim is None:
        allowed = "a target with a dimension d: PowerLaw, Spikes or Atoms"
        raise InvalidArgument("target", type(task.target).__name__, allowed)
    return dim


def ratio_from_samples(samples: Any, dim: int | None) -> float:
    """α = n/d²."""
    if dim is None:
        raise InvalidArgument("samples", samples, "used where a dimension is known; give dim, or use alpha")
    try:
        number = math.nan if isinstance(samples, bool) else float(samples)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 < number < math.inf:
        raise InvalidArgument("samples", samples, "a number > 0")
    return number / dim**2


def decay_from_word(value: Any, dim: int | None) -> Any:
    """λ written as 1/d, sqrt(d) or d^x, as a number; anything else is returned as it is.

    Examples
    --------
    >>> from onehead.aim.words import decay_from_word
    >>> decay_from_word("sqrt(d)", 400), decay_from_word("d^-0.5", 400)
    (20.0, 0.05)
    """
    if not isinstance(value, str) or value == LIMIT:
        return value
    text = value.replace(" ", "")
    power = {"1/d": -1.0, "sqrt(d)": 0.5, "d": 1.0}.get(text)
    found = _POWER.fullmatch(text)
    if power is None and found:
        power = float(found[1])
    if power is None:
        try:
            return float(text)
        except ValueError:
            allowed = "a number > 0, the word 0+, or 1/d, sqrt(d), d^x where a dimension is known"
            raise InvalidArgument("weight_decay", value, allowed) from None
    if dim is None:
        raise InvalidArgument("weight_decay", value, "a number, or 0+: this target has no dimension d")
    try:
        return float(dim**power)
    except OverflowError:
        raise InvalidArgument("weight_decay", value, "a power of d that a number can hold") from None


Given = ParamSpec("Given")
Found = TypeVar("Found")


def posed(**checks: Check) -> Callable[[Callable[Given, Found]], Callable[Given, Found]]:
    """`checked` for a verb that takes a task and a learner; a weight decay said by d (1/d, sqrt(d), d^x) becomes the number it is.

    d is that of the target, or of the run.
    """
    known = {"task": instance(Task, "Task()"), "learner": instance(Learner, "Learner()")}

    def around(verb: Callable[Given, Found]) -> Callable[Given, Found]:
        ready, signature = checked(**{**known, **checks})(verb), inspect.signature(verb)

        @wraps(verb)
        def call(*args: Given.args, **kwargs: Given.kwargs) -> Found:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                return ready(*args, **kwargs)  # which says what is wrong
            learner, task = bound.arguments.get("learner"), bound.arguments.get("task")
            if isinstance(learner, Learner) and isinstance(task, Task) and learner.by_dimension:
                dim = dimension(task.target) or bound.arguments.get("dim")
                number = decay_from_word(learner.weight_decay, dim)
                bound.arguments["learner"] = learner.changed(weight_decay=number)
            return ready(*bound.args, **bound.kwargs)

        return call

    return around


def threshold_names(task: Task) -> dict[str, str]:
    """The thresholds of a task as pictures call them.

    Those of hard labels end where these are no longer separable, however trained. Noisy labels let nobody recover the target: the
    threshold of the best possible learner is that of clean ones, and not shown.

    Examples
    --------
    >>> list(threshold_names(Task(labels="hard", noise=0.0)).values())
    ['emergence', 'separability', 'Bayes-optimal recovery', 'perfect recovery']
    """
    hard = task.labels == "hard"
    names = THRESHOLDS | ({"interpolation": "separability"} if hard else {})
    idle = {*(["direct"] if hard else []), *(["bayes_optimal"] if task.noise > 0.0 else [])}
    return {name: text for name, text in names.items() if name not in idle}


def threshold_marks(task: Task, found: Any, low: float, high: float) -> list[tuple[float, str]]:
    """Places and names of the thresholds that lie in a range of sample ratios, in order; those that coincide stand once."""
    idle = {"direct"} if found.direct == found.interpolation else set()
    names = {name: text for name, text in threshold_names(task).items() if name not in idle}
    places = [(getattr(found, name), text) for name, text in names.items()]
    return sorted((float(at), text) for at, text in places if at is not None and low <= at <= high)
