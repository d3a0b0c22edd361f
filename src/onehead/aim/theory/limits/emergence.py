"""Emergence: sample ratio and weight decay at which the map becomes different from zero (4.6)."""

import numpy as np

from onehead.aim.theory.state_evolution import StateEvolution
from onehead.numerics.brent import brent_root


def origin_level(problem: StateEvolution) -> int:
    """Return the quadrature level on which it is decided whether the map is zero.

    Sampled logits use the coarsest rule; leading directions the fine rule of `emergence_ratio`, so that both agree.
    """
    if problem.directions.sampled:
        return 2
    return 0 if problem.output.geometry.sampled else 1


def is_zero(problem: StateEvolution, alpha: float, level: int | None = None) -> bool:
    """Whether S = 0 is stable: the first step from it leaves no eigenvalue above the threshold (4.6)."""
    if not problem.input.emerges:
        return False
    s, hats = problem.at_origin(alpha, origin_level(problem) if level is None else level)
    return problem.channel_at(hats).vanishes(s, hats.m)


def emergence_ratio(problem: StateEvolution, level: int = 2, accuracy: float = 1e-12) -> float:
    """Return the smallest sample ratio at which S = 0 is unstable (4.6); zero where the map is never zero."""
    if not problem.input.emerges:
        return 0.0

    def gap(log_alpha: float) -> float:
        s, hats = problem.at_origin(float(np.exp(log_alpha)), level)
        return float(np.log(problem.channel_at(hats).largest_decay(s, hats.m) / problem.decay))

    low, high = -20.0, 0.0
    while gap(low) > 0.0:
        low -= 10.0
    while gap(high) < 0.0:
        high += 5.0
    return float(np.exp(brent_root(gap, low, high, xtol=accuracy)))


def largest_decay(problem: StateEvolution, alpha: float) -> float:
    """Return the λ at which S becomes zero, in reduced units (4.6); for direct training one that shrinks it a
    hundredfold.
    """
    s, hats = problem.at_origin(alpha, max(1, origin_level(problem)))
    return problem.channel_at(hats).largest_decay(s, hats.m)
