"""Leading directions of a target: their selection, and their treatment by the input channel (P1, P4, P8).

A logit is a sum over the eigenvalues of the target. Where a few of them carry much of its variance, its law is not
Gaussian at any dimension. These leading directions get an order parameter each; all others stay Gaussian. The output
channel is in `onehead.aim.theory.output.leading`.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.targets import Atoms
from onehead.aim.task import Learner, Task
from onehead.aim.theory.directions import MAXIMUM_COSINE, SMALLEST_OVERLAP, BulkDirections
from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.order_parameters import Hats, Overlaps, SpectralMap
from onehead.errors import InvalidArgument

Array = NDArray[np.float64]

AUTO = "auto"
SMALL_SHARE = 0.05  # share of the target's power below which `auto` treats a direction as Gaussian
EQUAL_POWERS = 1e-9  # relative difference below which two powers count as equal
MINIMUM_DIMENSION = 30  # below which `auto` takes no direction: smaller ones were not compared with training
MAXIMUM_TOKENS = 16  # beyond which a proximal step over all logits costs too much
DIMENSIONS_PER_DIRECTION = 10  # `auto` takes at most one direction in so many dimensions


def leading_count(task: Task, learner: Learner) -> int:
    """Return K, the number of leading directions that are averaged exactly (P8).

    ``leading="auto"`` takes directions until the next has less than 5 % of Q0, at most a tenth of the dimension, and of
    equal eigenvalues all or none; it takes none where the theory of them is not derived.

    Raises
    ------
    InvalidArgument
        If the learner asks for more directions than the target has, or for any where the theory is not derived.
    """
    if learner.leading == AUTO:
        return _automatic_count(task)
    count = int(learner.leading)
    if count == 0:
        return 0
    if not _derived(task):
        raise InvalidArgument(
            "leading",
            count,
            f"auto or 0 for self-attention, a mask, hard labels, more than {MAXIMUM_TOKENS} tokens, tokens with a mean "
            "and tokens whose kurtosis is not 3: the theory of leading directions is not derived there",
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
            "auto, or fewer: noise and all other directions together must carry at least 5 % of the power of a logit",
        )
    return count


def _derived(task: Task) -> bool:
    """Whether the theory of leading directions is derived for a head (P8)."""
    plain = task.attention != "self" and task.mask == "none" and task.labels == "soft" and task.gaussian_tokens
    return plain and task.tokens <= MAXIMUM_TOKENS


def _nonzero(task: Task) -> int:
    """Number of eigenvalues of the target that are not zero; 0 for a limiting law."""
    values = task.target.values
    return 0 if values is None else round(task.target.rank * len(values))


def _automatic_count(task: Task) -> int:
    """Number of directions that ``leading="auto"`` takes."""
    values = task.target.values
    if values is None or not _derived(task):
        return 0
    power = np.sort(values**2)[::-1]
    if len(power) < MINIMUM_DIMENSION:
        return 0
    count = min(int(np.sum(power >= SMALL_SHARE * power.sum())), len(power) // DIMENSIONS_PER_DIRECTION)
    while 0 < count < len(power) and power[count] > (1.0 - EQUAL_POWERS) * power[count - 1]:
        count -= 1
    return count if _smooth(task, count) else 0


def _smooth(task: Task, count: int) -> bool:
    """Whether noise and all other directions smooth the logits enough for averages by characteristic functions (P7)."""
    if count == 0:
        return True
    known = leading_directions(task, count)
    bulk = known.bulk_power + 0.5 * task.beta0**2 * task.noise
    return bulk >= SMALL_SHARE * (bulk + float(np.dot(known.target_eigenvalues, known.target_eigenvalues)))


def _largest(values: Array, count: int) -> NDArray[np.intp]:
    """Indices of the ``count`` eigenvalues of largest magnitude, largest first."""
    return np.argsort(-np.abs(values), kind="stable")[:count]


def leading_directions(task: Task, count: int) -> "LeadingDirections":
    """Return the ``count`` leading directions of a task, in reduced units; of an untied head those of its singular
    values (P12).
    """
    target = task.target if task.tied else task.target.unsigned
    assert target.values is not None
    values = task.beta0 * target.values
    leading, root = _largest(values, count), float(np.sqrt(len(values)))
    return LeadingDirections(
        target_eigenvalues=tuple((values[leading] / root).tolist()),
        bulk_power=float(np.sum(np.delete(values, leading) ** 2) / len(values)),
        length=root,
    )


def excess_kurtosis(task: Task, count: int) -> float:
    """Excess kurtosis of a logit from all but the ``count`` leading directions: 6 Σ λ⁴ over the others / (Σ λ²)²."""
    values = task.target.values
    if values is None:
        return 0.0
    squares = values**2
    bulk = np.delete(squares, _largest(values, count))
    return float(6.0 * np.sum(bulk**2) / np.sum(squares) ** 2)


@final
@dataclass(frozen=True, kw_only=True)
class LeadingDirections(BulkDirections):
    """Leading eigenvectors, or pairs of singular vectors, of the target (P1); ``length`` is sqrt d.

    The solver iterates on log q and artanh of the cosine between bulk of the map and bulk of the target, which is
    unconstrained (P7).
    """

    sampled = True

    def overlap_coordinates(self, q: Array, m: Array) -> Array:
        """Return log q and artanh of the cosine; zero where map or target has no bulk."""
        size = float(np.sqrt(max(q[0], 0.0) * self.bulk_power))
        angle = np.arctanh(np.clip(m[0] / size, -MAXIMUM_COSINE, MAXIMUM_COSINE)) if size > 0.0 else 0.0
        return np.array([np.log(max(q[0], SMALLEST_OVERLAP)), angle])

    def overlaps_at(self, coordinates: Array) -> tuple[Array, Array]:
        """Return (q, m) from log q and artanh of the cosine."""
        q = np.exp(coordinates[:1])
        return q, np.tanh(coordinates[1:]) * np.sqrt(q * self.bulk_power)

    def channel_at(self, channel: InputChannel, effective: tuple[float, ...]) -> InputChannel:
        """Return the input channel with the effective eigenvalues in the place of the leading ones (P4)."""
        assert channel.target.values is not None
        values = channel.target.values.copy()
        values[_largest(values, len(effective))] = np.array(effective) * self.length / channel.scale
        return replace(channel, target=Atoms.model_construct(eigenvalues=tuple(values.tolist())))

    def split(self, channel: InputChannel, hats: Hats, overlaps: Overlaps) -> Overlaps:
        """Separate the elements of the map in the leading directions from its bulk (P4)."""
        return self._split(channel, hats.effective, overlaps)

    def _split(self, channel: InputChannel, effective: tuple[float, ...], overlaps: Overlaps) -> Overlaps:
        learned = channel.learned(overlaps.map, self.length * np.array(effective)) / self.length
        return replace(
            overlaps,
            q_sectors=max(float(overlaps.q - learned @ learned), 0.0),
            m_sectors=float(overlaps.m - learned @ np.array(effective)) if self.bulk_power > 0.0 else 0.0,
            learned=tuple(learned.tolist()),
            effective=effective,
            directions=self,
        )

    def overlaps_near(self, channel: InputChannel, hats: Hats, near: Overlaps) -> Overlaps:
        """Return rank and spectral map at ``hats``; the rank to first order, without integrals over the law of many
        atoms.
        """
        where, old = channel.map_at(hats), near.map
        moved = [where.s - old.s, where.eps - old.eps, *np.subtract(hats.effective, near.effective) / self.length]
        rank = near.rank + float(np.dot(_rank_slopes(self, channel, old, near.rank, near.effective), moved))
        return replace(near, rank=min(max(rank, 0.0), 1.0), map=where, effective=hats.effective)

    def interpolating(self, channel: InputChannel, overlaps: Overlaps) -> Overlaps:
        """Labels fitted exactly are linear equations, in which effective eigenvalues are the target's own (P9)."""
        return self._split(channel, self.target_eigenvalues, overlaps)

    def best_overlaps(self, channel: InputChannel) -> tuple[float, float, tuple[float, ...]]:
        """Return the representable power of the bulk, and the leading eigenvalues with unrepresentable ones set to zero
        (8.1).
        """
        lost, target = channel.unrepresentable_spectrum[0] / self.length, np.array(self.target_eigenvalues)
        out_of_reach = [bool(np.any(np.isclose(one, lost, rtol=1e-9, atol=0.0))) for one in target]
        held = np.where(out_of_reach, 0.0, target)
        power = max(channel.representable_power - float(held @ held), 0.0)
        return power, power, tuple(held.tolist())


@lru_cache(maxsize=4)  # error estimates ask for the slopes of one solution many times
def _rank_slopes(
    directions: LeadingDirections, channel: InputChannel, where: SpectralMap, rank: float, effective: tuple[float, ...]
) -> Array:
    """Derivatives of the rank in s, in eps and, times d, in the effective eigenvalues."""
    places = directions.length * np.array(effective)
    return directions.channel_at(channel, effective).rank_slopes(where, rank, places)
