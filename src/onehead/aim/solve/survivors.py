"""Superfluous heads: minima of the objective of several learner heads for one target head (M8).

The values of head h are b_h times those of the target. In the limit of infinitely many samples all maps share the
singular vectors of the target and every direction is a lasso in H variables; at a finite sample ratio the minimum with
one head is that of a single head with an output scale.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.survivors import pair_averages

Array = NDArray[np.float64]

HERMITE_NODES = 40
MAX_STEPS = 20_000  # of the accelerated proximal gradient method
TOLERANCE = 1e-9  # relative change of the unknowns in a step
SHRINK, GROW = 0.5, 1.05  # factors of the step length
START_SPREAD = 0.02  # by which the heads of the symmetric start differ, so that competition can begin


class PopulationMinimum(NamedTuple):
    """A minimum: singular values of all maps (heads, directions), scales of the values, objective, and its start."""

    values: Array
    scales: Array
    objective: float
    start: str


class _Averages(NamedTuple):
    """Means of t_h t_k, t'_h t'_k and t_h t''_k over Gaussian logits, the target's in the last place."""

    product: Array
    slopes: Array
    curved: Array


def population_minima(
    target: Array, heads: int, power: float, decay: float, value_decay: float, rng: np.random.Generator
) -> list[PopulationMinimum]:
    """Return the minima reached from several starts, the lowest first (M8.2).

    Parameters
    ----------
    target : array
        Singular values of the target, in reduced units.
    heads : int
        Number of learner heads.
    power : float
        Q, variance of a contrast of the noisy labels.
    decay, value_decay : float
        Weight decays over the sample ratio.
    rng : numpy.random.Generator
        Source of the random start.
    """
    count = len(target)
    alike = 1.0 + START_SPREAD * np.linspace(-1.0, 1.0, heads)
    split = np.array([np.arange(count) % heads == h for h in range(heads)], dtype=float)
    one = np.zeros(heads)
    one[0] = 1.0
    starts = {
        "all heads alike": (np.outer(alike, target), alike / heads),
        "one head": (np.outer(one, target), one),
        "directions divided between heads": (split * target, np.ones(heads) / np.sqrt(heads)),
        "random": (rng.random((heads, count)) * target, rng.random(heads)),
    }
    found = [
        PopulationMinimum(*_minimise(s, b, target, power, decay, value_decay), start)
        for start, (s, b) in starts.items()
    ]
    return sorted(found, key=lambda minimum: minimum.objective)


@cache
def _hermite_rule() -> tuple[Array, Array]:
    """Positive nodes of the Gauss-Hermite rule, and twice their weights."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(HERMITE_NODES)
    upper = nodes > 0.0
    return nodes[upper], 2.0 * weights[upper] / weights.sum()


def _averages(s: Array, target: Array, power: float) -> _Averages:
    """Average tanh of half the logits and its derivatives over pairs of Gaussian logits."""
    overlaps, with_target = s @ s.T / len(target), s @ target / len(target)
    covariance = 2.0 * np.block([[overlaps, with_target[:, None]], [with_target[None, :], np.array([[power]])]])
    product, slopes, curved = (np.empty_like(covariance) for _ in range(3))
    pair_averages(covariance, *_hermite_rule(), product, slopes, curved)
    return _Averages(product, slopes, curved)


def _loss(s: Array, b: Array, target: Array, power: float) -> tuple[float, Array, Array]:
    """Population loss R of (M8.1), with its gradients in the singular values and in the scales."""
    heads, count = len(b), len(target)
    mean = _averages(s, target, power)
    own, label = mean.product[:heads, :heads], mean.product[:heads, heads]
    value = (b.sum() - 1.0) ** 2 + b @ own @ b - 2.0 * b @ label + mean.product[heads, heads]
    by_scale = 2.0 * (b.sum() - 1.0) + 2.0 * own @ b - 2.0 * label
    by_overlap = 4.0 * np.outer(b, b) * mean.slopes[:heads, :heads]
    # curved[j, i] is E t_j t''_i; with the own variance both factors change
    by_variance = 2.0 * (
        b**2 * (np.diag(mean.slopes)[:heads] + np.diag(mean.curved)[:heads])
        + b * (b @ mean.curved[:heads, :heads] - b * np.diag(mean.curved)[:heads])
        - b * mean.curved[heads, :heads]
    )
    np.fill_diagonal(by_overlap, 2.0 * by_variance)
    by_target = -4.0 * b * mean.slopes[:heads, heads]
    return float(value), (by_overlap @ s + np.outer(by_target, target)) / count, by_scale


def _minimise(
    s: Array, b: Array, target: Array, power: float, decay: float, value_decay: float
) -> tuple[Array, Array, float]:
    """Minimise over singular values and scales by proximal gradient steps with a line search."""
    count = len(target)

    def penalty(s: Array, b: Array) -> float:
        return decay * float(np.abs(s).sum()) / count + value_decay * float(np.abs(b).sum())

    def shrink(x: Array, by: float) -> Array:
        return np.asarray(np.sign(x) * np.maximum(np.abs(x) - by, 0.0))

    step, (value, by_s, by_b) = 0.5, _loss(s, b, target, power)
    for _ in range(MAX_STEPS):
        while True:
            # a direction carries 1/count of the objective: steps in it are count times as long
            new_s = shrink(s - step * count * by_s, step * decay)
            new_b = shrink(b - step * by_b, step * value_decay)
            new = _loss(new_s, new_b, target, power)
            move_s, move_b = new_s - s, new_b - b
            square = float(np.sum(move_s**2)) / count + float(move_b @ move_b)
            if new[0] <= value + float(np.sum(by_s * move_s)) + float(by_b @ move_b) + 0.5 * square / step + 1e-14:
                break
            step *= SHRINK
        size = np.sqrt(float(np.sum(new_s**2)) / count + float(new_b @ new_b))
        s, b, (value, by_s, by_b) = new_s, new_b, new
        if np.sqrt(square) < TOLERANCE * max(size, 1e-3):
            break
        step *= GROW
    return s, b, value + penalty(s, b)
