"""Flat parameters: a task and a learner as one dictionary of names, as flags, sweep files and the explorer use them.

Also here, because they need no compiled code: the decorator that checks the arguments of a verb, and the names of
thresholds in pictures.
"""

import inspect
import math
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from onehead.aim.targets import MarchenkoPastur, Product, Target
from onehead.aim.task import Learner, Task
from onehead.aim.token_spectrum import check_spectrum
from onehead.errors import InvalidArgument
from onehead.fields import ZERO_PLUS, Parameter, parameters_of
from onehead.results import plain
from onehead.validation import Check, checked, instance

# Flat names and their declarations; a new field of a target, of Task or of Learner appears here without an edit.
TARGET_PARAMETERS: dict[str, Parameter] = {
    declared.flat: declared
    for kind in Target.known.values()
    for declared in parameters_of(kind).values()
    if declared.name not in ("kind", "bulk")  # the bulk of a spikes target is a target of its own
}
TASK_PARAMETERS = {name: declared for name, declared in parameters_of(Task).items() if name != "target"}
LEARNER_PARAMETERS = parameters_of(Learner)
TARGET = Parameter(
    **{
        **vars(parameters_of(Task)["target"]),
        "kind": "choice",
        "choices": tuple(Target.known),
        "default": parameters_of(MarchenkoPastur)["kind"].default,
        "allowed": " or ".join(Target.known),
    }
)
PARAMETERS: dict[str, Parameter] = {"target": TARGET, **TARGET_PARAMETERS, **TASK_PARAMETERS, **LEARNER_PARAMETERS}

THRESHOLD_NAMES = {
    "emergence": "emergence",
    "interpolation": "interpolation",
    "bayes_optimal": "Bayes-optimal recovery",
    "direct": "direct interpolation",
    "recovery": "perfect recovery",
}

POWER_OF_D = re.compile(r"d\^\(?([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\)?")


def problem_from_parameters(parameters: Mapping[str, Any]) -> tuple[Task, Learner, dict[str, Any]]:
    """Build a task and a learner from flat parameters.

    ``target`` is mp or product (with ``kappa0``), power-law (``gamma``, ``dim``), spikes (``spikes``, ``dim``) or atoms
    (``atoms``, a list of eigenvalues). Where a dimension is known, ``samples`` may be given in place of ``alpha`` and
    ``weight_decay`` may be written 1/d, sqrt(d) or d^x.

    Parameters
    ----------
    parameters : mapping
        Values by flat name; missing names, and names with the value None, take their defaults.

    Returns
    -------
    task : Task
    learner : Learner
    others : dict
        Parameters that belong to neither, with ``alpha`` computed from ``samples``.

    Raises
    ------
    InvalidArgument
        If a value is not allowed, or a parameter does not belong to the target.

    Examples
    --------
    >>> from onehead.aim.flat_parameters import problem_from_parameters
    >>> task, learner, others = problem_from_parameters(
    ...     {"target": "power-law", "gamma": 0.75, "dim": 200, "weight_decay": "1/d", "samples": 10_000}
    ... )
    >>> task.target, learner.weight_decay, others
    (PowerLaw(gamma=0.75, dim=200), 0.005, {'alpha': 0.25})
    """
    others = {name: value for name, value in parameters.items() if value is not None}
    target = _take_target(others)
    dim = dimension(target) or others.get("dim")
    if "weight_decay" in others:
        others["weight_decay"] = parse_decay(others["weight_decay"], dim)
    for name in ("token_spectrum", "key_spectrum"):
        if dim is not None and str(others.get(name, "")).startswith("power:"):  # a power law needs a dimension
            others[name] = check_spectrum(name, others[name], dim)
    task = Task(target=target, **{name: others.pop(name) for name in TASK_PARAMETERS if name in others})
    learner = Learner(**{name: others.pop(name) for name in LEARNER_PARAMETERS if name in others})
    if "samples" in others:
        if "alpha" in others:
            raise InvalidArgument(
                "samples", others["samples"], "left out when alpha is given: one follows from the other"
            )
        others["alpha"] = ratio_from_samples(others.pop("samples"), dim)
    return task, learner, others


def _take_target(parameters: dict[str, Any]) -> Target:
    """Build the target and remove its parameters from the dictionary."""
    untied = parameters.get("attention", "tied") != "tied"
    name = parameters.pop("target", parameters_of(Product)["kind"].default if untied else TARGET.default)
    if isinstance(name, Target):
        if extra := [flat for flat in TARGET_PARAMETERS if flat in parameters and flat != "dim"]:
            raise InvalidArgument(extra[0], parameters[extra[0]], "left out where target is an object that sets it")
        return name
    if name not in Target.known:
        raise InvalidArgument("target", name, f"one of {', '.join(Target.known)}", Target.known)
    kind = Target.known[name]
    field_names = {
        declared.flat: field for field, declared in parameters_of(kind).items() if declared.flat in TARGET_PARAMETERS
    }
    for flat in TARGET_PARAMETERS:
        # dim may be given with any target: it is also the dimension of a training run
        if flat in parameters and flat not in field_names and flat != "dim":
            raise InvalidArgument(flat, parameters[flat], f"left out with target {name}")
    try:
        target = kind(**{field_names[flat]: parameters.pop(flat) for flat in field_names if flat in parameters})
    except InvalidArgument as failure:  # name the flat parameter that was given, not the field
        flat = {field: flat for flat, field in field_names.items()}.get(failure.name, failure.name)
        raise InvalidArgument(flat, failure.got, failure.allowed, failure.known) from None
    own = dimension(target)
    if "dim" not in field_names and own is not None and (given := parameters.pop("dim", own)) != own:
        raise InvalidArgument("dim", given, f"left out, or {own}, the number of eigenvalues")
    return target


def parameters_from_problem(task: Task, learner: Learner) -> dict[str, Any]:
    """Flat parameters of a task and a learner, the inverse of `problem_from_parameters`; unset ones are left out.

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> task, learner, _ = problem_from_parameters(parameters_from_problem(Task(noise=0.1), Learner()))
    >>> task == Task(noise=0.1), learner == Learner()
    (True, True)
    """
    of_target = {
        declared.flat: plain(getattr(task.target, field))
        for field, declared in parameters_of(type(task.target)).items()
    }
    return {
        "target": of_target.pop("kind"),
        **{name: value for name, value in of_target.items() if value is not None},
        **{name: plain(getattr(task, name)) for name in TASK_PARAMETERS},
        **{name: plain(getattr(learner, name)) for name in LEARNER_PARAMETERS},
    }


def target_fields(task: Task) -> dict[str, str]:
    """Fields of the task's target, by flat parameter name."""
    return {declared.flat: name for name, declared in parameters_of(type(task.target)).items() if name != "kind"}


def changed_problem(task: Task, learner: Learner, changes: Mapping[str, Any]) -> tuple[Task, Learner]:
    """Copies of a task and a learner with other values of some flat parameters, those of the target among them.

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> task, learner = changed_problem(Task(), Learner(), {"kappa0": 0.2, "noise": 0.1, "width": 0.5})
    >>> task.target.kappa0, task.noise, learner.width
    (0.2, 0.1, 0.5)
    """
    of_target = target_fields(task)
    target = task.target.changed(**{of_target[name]: value for name, value in changes.items() if name in of_target})
    of_task = {name: value for name, value in changes.items() if name in TASK_PARAMETERS}
    of_learner = {name: value for name, value in changes.items() if name in LEARNER_PARAMETERS}
    return task.changed(target=target, **of_task), learner.changed(**of_learner)


def dimension(target: Target) -> int | None:
    """Dimension d of a target given by eigenvalues; None for a limiting law."""
    return target.dimension


def require_dimension(task: Task) -> int:
    """Dimension d of a task, or `InvalidArgument` where its target has none."""
    dim = dimension(task.target)
    if dim is None:
        allowed = "a target with a dimension d: PowerLaw, Spikes or Atoms"
        raise InvalidArgument("target", type(task.target).__name__, allowed)
    return dim


def ratio_from_samples(samples: Any, dim: int | None) -> float:
    """Sample ratio α = n/d² from a number of samples."""
    if dim is None:
        raise InvalidArgument("samples", samples, "given together with dim, or replaced by alpha")
    try:
        number = math.nan if isinstance(samples, bool) else float(samples)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0.0 < number < math.inf:
        raise InvalidArgument("samples", samples, "a number > 0")
    return number / dim**2


def parse_decay(value: Any, dim: int | None) -> Any:
    """Convert a weight decay written 1/d, sqrt(d) or d^x to a number; 0+ and numbers are returned unchanged.

    Examples
    --------
    >>> from onehead.aim.flat_parameters import parse_decay
    >>> parse_decay("sqrt(d)", 400), parse_decay("d^-0.5", 400)
    (20.0, 0.05)
    """
    if not isinstance(value, str) or value == ZERO_PLUS:
        return value
    text = value.replace(" ", "")
    power = {"1/d": -1.0, "sqrt(d)": 0.5, "d": 1.0}.get(text)
    exponent = POWER_OF_D.fullmatch(text)
    if power is None and exponent:
        power = float(exponent[1])
    if power is None:
        try:
            return float(text)
        except ValueError:
            allowed = "a number > 0, 0+, or 1/d, sqrt(d), d^x where a dimension is known"
            raise InvalidArgument("weight_decay", value, allowed) from None
    if dim is None:
        raise InvalidArgument("weight_decay", value, "a number, or 0+: this target has no dimension d")
    try:
        return float(dim**power)
    except OverflowError:
        raise InvalidArgument(
            "weight_decay", value, "a power of d that is not too large for a floating-point number"
        ) from None


Given = ParamSpec("Given")
Found = TypeVar("Found")


def validate_problem(**checks: Check) -> Callable[[Callable[Given, Found]], Callable[Given, Found]]:
    """Decorator that checks the arguments of a verb that takes a task and a learner.

    A weight decay written in terms of d (1/d, sqrt(d), d^x) is replaced by a number; d is the dimension of the target,
    or the argument ``dim``. ``checks`` are those of the other arguments, as for `onehead.validation.checked`.
    """
    known = {"task": instance(Task, "Task()"), "learner": instance(Learner, "Learner()")}

    def around(verb: Callable[Given, Found]) -> Callable[Given, Found]:
        ready, signature = checked(**{**known, **checks})(verb), inspect.signature(verb)

        @wraps(verb)
        def call(*args: Given.args, **kwargs: Given.kwargs) -> Found:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                return ready(*args, **kwargs)  # raises, and says what is wrong
            learner, task = bound.arguments.get("learner"), bound.arguments.get("task")
            if isinstance(learner, Learner) and isinstance(task, Task) and learner.decay_needs_dimension:
                dim = dimension(task.target) or bound.arguments.get("dim")
                number = parse_decay(learner.weight_decay, dim)
                bound.arguments["learner"] = learner.changed(weight_decay=number)
            return ready(*bound.args, **bound.kwargs)

        return call

    return around


def threshold_names(task: Task) -> dict[str, str]:
    """Thresholds that exist for a task, by attribute of `Thresholds`, with their names in pictures.

    Hard labels are separable below the interpolation threshold for any parametrisation, so that it is called
    separability and direct training has no threshold of its own. Noisy labels do not allow exact recovery: the
    Bayes-optimal threshold, which holds for clean labels, is then left out.

    Examples
    --------
    >>> list(threshold_names(Task(labels="hard", noise=0.0)).values())
    ['emergence', 'separability', 'Bayes-optimal recovery', 'perfect recovery']
    """
    hard = task.labels == "hard"
    names = THRESHOLD_NAMES | ({"interpolation": "separability"} if hard else {})
    hidden = {*(["direct"] if hard else []), *(["bayes_optimal"] if task.noise > 0.0 else [])}
    return {name: text for name, text in names.items() if name not in hidden}


def threshold_marks(task: Task, thresholds: Any, low: float, high: float) -> list[tuple[float, str]]:
    """Sample ratios and names of the thresholds between ``low`` and ``high``, in increasing order.

    The direct threshold is left out where it coincides with interpolation.
    """
    hidden = {"direct"} if thresholds.direct == thresholds.interpolation else set()
    ratios = [(getattr(thresholds, name), text) for name, text in threshold_names(task).items() if name not in hidden]
    return sorted((float(ratio), text) for ratio, text in ratios if ratio is not None and low <= ratio <= high)
