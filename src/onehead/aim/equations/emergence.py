"""Where the map emerges from zero as data grow, or weight decay falls (4.6)."""

import numpy as np

from onehead.aim.equations.state_evolution import StateEvolution
from onehead.numerics.line import root_between

__all__ = ["emergence_ratio", "is_zero", "largest_decay"]


def is_zero(problem: StateEvolution, alpha: float, level: int | None = None) -> bool:
    """Whether S = 0 is the minimiser: the first step from it leaves nothing above the threshold (4.6)."""
    if not problem.input.emerges:
        return False
    s, hats = problem.at_origin(alpha, problem.origin_level if level is None else level)
    return problem.channel_at(hats).vanishes(s, hats.m)


def emergence_ratio(problem: StateEvolution, level: int = 2, accuracy: float = 1e-12) -> float:
    """Smallest sample ratio at which the trained map is not zero (4.6); zero where it never is."""
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
    return float(np.exp(root_between(gap, low, high, xtol=accuracy)))


def largest_decay(problem: StateEvolution, alpha: float) -> float:
    """λ at which S becomes zero, in reduced units (4.6); trained directly, one that shrinks it a hundredfold."""
    s, hats = problem.at_origin(alpha, max(1, problem.origin_level))
    return problem.channel_at(hats).largest_decay(s, hats.m)
