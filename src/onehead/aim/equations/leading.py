"""Leading directions of a target: averaged exactly, one number each; everything else stays Gaussian (P1, P8).

A logit is a sum over the eigenvalues of the target. Where a few of them carry much of it, its law is not Gaussian at any dimension.
Here is which directions are told apart, and what the input channel makes of them; the output channel is in `leading_output`.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.input import InputChannel
from onehead.aim.equations.unknowns import Directions, LeadingOverlaps, Overlaps
from onehead.aim.targets import Atoms, Discrete
from onehead.aim.task import Learner, Task
from onehead.errors import InvalidArgument

__all__ = ["ALIKE", "AUTO", "directions_of", "kurtosis_left", "leading_count", "led", "seen_by"]

Array = NDArray[np.float64]

AUTO = "auto"
SMALL_SHARE = 0.05  # of the power of the target, below which the next direction is left to the rest
ALIKE = 1e-9  # relative difference of powers that count as equal
FEWEST = 30  # dimensions, below which no direction is told apart by itself: none were tried in training
MOST_TOKENS = 16  # beyond which a proximal step over all logits costs too much
TENTH = 10  # of the dimension: directions that are told apart must stay few


def leading_count(task: Task, learner: Learner) -> int:
    """K, the leading directions that are averaged exactly (P8).

    By itself it takes directions until the next has less than 5 % of Q0, a tenth of the dimension at most, of equal ones all or none;
    and none where the theory of them is not derived.
    """
    if learner.leading == AUTO:
        return _by_itself(task)
    count = int(learner.leading)
    if count == 0:
        return 0
    if not _derived(task):
        raise InvalidArgument(
            "leading",
            count,
            f"auto or 0 for self-attention, a mask, hard labels, more than {MOST_TOKENS} tokens or tokens of another kurtosis: it is not "
            "worked out there",
        )
    known = _nonzero(task)
    if count > known:
        has = (
            f"{known}, which the target has" if known else "0: the target is a limiting law without single eigenvalues"
        )
        raise InvalidArgument("leading", count, f"auto, or an integer up to {has}")
    if not _smooth(task, count):
        raise InvalidArgument(
            "leading",
            count,
            "auto, or fewer: noise and all other directions together must have 5 % of the power of a logit",
        )
    return count


def _derived(task: Task) -> bool:
    """Whether the theory of leading directions covers a head (P8)."""
    plain = task.attention != "self" and task.mask == "none" and task.labels == "soft" and not task.sees_kurtosis
    return plain and task.tokens <= MOST_TOKENS


def _nonzero(task: Task) -> int:
    return round(task.target.rank * len(task.target.values)) if isinstance(task.target, Discrete) else 0


def _by_itself(task: Task) -> int:
    if not (_derived(task) and isinstance(task.target, Discrete)):
        return 0
    power = np.sort(task.target.values**2)[::-1]
    if len(power) < FEWEST:
        return 0
    count = min(int(np.sum(power >= SMALL_SHARE * power.sum())), len(power) // TENTH)
    while 0 < count < len(power) and power[count] > (1.0 - ALIKE) * power[count - 1]:
        count -= 1
    return count if _smooth(task, count) else 0


def _smooth(task: Task, count: int) -> bool:
    """Whether noise and the rest of the target are enough that averages over logits can be taken by their transforms (P7)."""
    if count == 0:
        return True
    known = directions_of(task, count)
    rest = known.rest + 0.5 * task.beta0**2 * task.noise
    return rest >= SMALL_SHARE * (rest + float(np.dot(known.told, known.told)))


def _places(values: Array, count: int) -> NDArray[np.intp]:
    """Where the largest eigenvalues stand among all, largest first, whatever their sign."""
    return np.argsort(-np.abs(values), kind="stable")[:count]


def directions_of(task: Task, count: int) -> Directions:
    """The leading directions of a task, in reduced units; those of an untied head are of singular values (P12)."""
    target = task.target if task.tied else task.target.unsigned
    assert isinstance(target, Discrete)
    values = task.beta0 * target.values
    leading = _places(values, count)
    told = values[leading] / np.sqrt(len(values))
    return Directions(tuple(told.tolist()), float(np.sum(np.delete(values, leading) ** 2) / len(values)))


def kurtosis_left(task: Task, count: int) -> float:
    """Excess kurtosis of a logit that comes from what is not averaged exactly: 6 Σ λ⁴ over the rest / (Σ λ²)²."""
    if not isinstance(task.target, Discrete):
        return 0.0
    squares = task.target.values**2
    rest = np.delete(squares, _places(task.target.values, count))
    return float(6.0 * np.sum(rest**2) / np.sum(squares) ** 2)


def seen_by(channel: InputChannel, effective: tuple[float, ...]) -> InputChannel:
    """The input channel with the effective eigenvalues in the place of the leading ones (P4)."""
    assert isinstance(channel.target, Discrete)
    values = channel.target.values.copy()
    values[_places(values, len(effective))] = np.array(effective) * np.sqrt(len(values)) / channel.scale
    return replace(channel, target=Atoms.model_construct(eigenvalues=tuple(values.tolist())))


def led(channel: InputChannel, whole: Overlaps, effective: tuple[float, ...], known: Directions) -> LeadingOverlaps:
    """What the map of a channel has in the leading directions, and what is left for the rest of it (P4)."""
    assert isinstance(channel.target, Discrete)
    root = np.sqrt(len(channel.target.values))
    strengths = channel.learned(whole.map, root * np.array(effective)) / root
    m_b = float(whole.m - strengths @ np.array(effective)) if known.rest > 0.0 else 0.0
    return LeadingOverlaps(
        max(float(whole.q - strengths @ strengths), 0.0),
        m_b,
        tuple(strengths.tolist()),
        whole.sigma,
        whole.tau,
        whole.rank,
        whole.map,
        effective,
        known,
    )
