"""A task and a learner from flat words: the names that flags, sweep files and the explorer share."""

import math
import re
from collections.abc import Mapping
from typing import Any

from onehead.aim.targets import Atoms, Discrete, MarchenkoPastur, PowerLaw, Spikes, Target
from onehead.aim.task import Learner, Task
from onehead.errors import InvalidArgument

__all__ = ["TARGETS", "WORDS", "decay_from_word", "dimension", "problem_from_words", "ratio_from_samples"]

# word for the target -> its class, and the words it takes with the names they have there
TARGETS: dict[str, tuple[type[Target], dict[str, str]]] = {
    "mp": (MarchenkoPastur, {"kappa0": "kappa0"}),
    "power-law": (PowerLaw, {"gamma": "gamma", "dim": "dim"}),
    "spikes": (Spikes, {"spikes": "spikes", "dim": "dim"}),
    "atoms": (Atoms, {"atoms": "eigenvalues"}),
}
SHAPE = ("target", "kappa0", "gamma", "spikes", "atoms")
TASK = ("noise", "tokens", "beta0")
LEARNER = ("weight_decay", "width", "param", "beta", "loss", "branch")
WORDS = (*SHAPE, "dim", *TASK, *LEARNER)

_POWER = re.compile(r"d\^\(?([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)\)?")


def problem_from_words(words: Mapping[str, Any]) -> tuple[Task, Learner, dict[str, Any]]:
    """The task, the learner, and the words that belong to neither; missing ones take their defaults.

    ``target`` is mp (with ``kappa0``), power-law (``gamma``, ``dim``), spikes (``spikes``, ``dim``) or atoms (``atoms``, a
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
    name = rest.pop("target", "mp")
    if name not in TARGETS:
        raise InvalidArgument("target", name, f"one of {', '.join(TARGETS)}")
    kind, names = TARGETS[name]
    for word in SHAPE:
        if word in rest and word not in names:
            raise InvalidArgument(word, rest[word], f"left out with target {name}")
    target = kind(**{names[word]: rest.pop(word) for word in names if word in rest})
    if name == "atoms" and rest.get("dim", dimension(target)) != dimension(target):
        raise InvalidArgument("dim", rest["dim"], f"left out, or {dimension(target)}, the number of eigenvalues")
    if name == "atoms":
        rest.pop("dim", None)
    return target


def dimension(target: Target) -> int | None:
    """d of a target with a dimension; a limiting law has none."""
    return len(target.values) if isinstance(target, Discrete) else None


def ratio_from_samples(samples: Any, dim: int | None) -> float:
    """α = n/d²."""
    if dim is None:
        raise InvalidArgument("samples", samples, "used where a dimension is known; give dim, or use alpha")
    try:
        number = float(samples)
    except (TypeError, ValueError):
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
    if not isinstance(value, str) or value == "0+":
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
    return float(dim**power)
