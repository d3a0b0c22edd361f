"""The two ends of a learning curve: where the map emerges from zero, and the plateau of infinitely many samples."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from onehead.aim.equations.output import OutputChannel
from onehead.aim.equations.state_evolution import Reduced

__all__ = ["Plateau", "emergence_ratio", "is_zero", "largest_decay", "plateau_state"]


EMERGED = 3e-5  # by how much the edge must pass the threshold: q grows as the 7/2 power of it, and is below 1e-12 here


class Plateau(NamedTuple):
    """The limit of infinitely many samples: S = c S* with test loss (8.1)."""

    c: float
    loss: float


def plateau_state(problem: Reduced) -> Plateau:
    """c = argmin of the fresh loss at (q, m) = (c² Q0, c Q0): shrunk below one by the noise (8.1)."""
    return _plateau(problem.output, problem.target_power)


@lru_cache(maxsize=256)
def _plateau(output: OutputChannel, Q0: float) -> Plateau:
    """The same; weight decay and width play no part."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415

    def loss(c: float, *, coarse: bool = False) -> float:
        return output.fresh_loss(c * c * Q0, c * Q0, coarse=coarse)

    c = 1.0
    if output.label_power > Q0:
        rough = output.tokens > 2  # the loss is flat at its minimum: its own rule may be finer
        found = minimize_scalar(
            lambda c: loss(c, coarse=rough), bounds=(0.0, 1.5), method="bounded", options={"xatol": 1e-8}
        )
        c = float(found.x)
    return Plateau(c, loss(c))


def is_zero(problem: Reduced, alpha: float) -> bool:
    """Whether S = 0 is the minimiser: the upper edge of rho_s0 does not reach the threshold 2λ/mhat0 (4.6)."""
    if problem.direct or problem.decay == 0.0:
        return False
    q0, m0 = problem.output.at_origin(0 if problem.tokens > 2 else 1)
    s = q0 / (alpha * m0**2)
    return problem.law(s).edges[-1][1] <= (1.0 + EMERGED) * 2.0 * problem.decay / (alpha * m0)


def emergence_ratio(problem: Reduced) -> float:
    """Smallest sample ratio at which the trained map is not zero (4.6); zero for direct training and for λ → 0⁺."""
    from scipy.optimize import brentq  # noqa: PLC0415

    if problem.direct or problem.decay == 0.0:
        return 0.0
    q0, m0 = problem.output.at_origin(2)

    def gap(log_alpha: float) -> float:
        alpha = float(np.exp(log_alpha))
        return float(np.log(problem.law(q0 / (alpha * m0**2)).edges[-1][1] * alpha * m0 / (2.0 * problem.decay)))

    low, high = -20.0, 0.0
    while gap(low) > 0.0:
        low -= 10.0
    while gap(high) < 0.0:
        high += 5.0
    return float(np.exp(brentq(gap, low, high, xtol=1e-12)))


def largest_decay(problem: Reduced, alpha: float) -> float:
    """λ at which S becomes zero, in reduced units (4.6); trained directly, one that shrinks it a hundredfold."""
    q0, m0 = problem.output.at_origin(1)
    if problem.direct:
        return 100.0 * alpha * m0
    return float(0.5 * alpha * m0 * problem.law(q0 / (alpha * m0**2)).edges[-1][1])
