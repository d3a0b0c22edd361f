"""Weight decay close to zero where labels without noise reveal the target (4.4).

There the map is S* plus a correction proportional to λ, and the angle between both is proportional to λ. The equations
contain it as the difference q Q0 - m², which is lost in rounding. The solution is therefore taken at two larger values
of λ and scaled: deviations from the target with λ, their squares with λ², and what has a finite limit is extrapolated.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from onehead.aim.theory.limits.emergence import largest_decay
from onehead.aim.theory.order_parameters import Hats, Overlaps, SpectralMap
from onehead.aim.theory.state_evolution import StateEvolution

if TYPE_CHECKING:
    from onehead.aim.solve.certificate import Numbers

SMALL_DECAY = 1e-3  # share of the λ at which the map vanishes, below which the solution is examined
REFERENCE_MISALIGNMENT = 1e-7  # 1 - cosine of map and target at the larger λ: 1e-9 is the resolution of the solver
REFERENCE_RATIO = 3.0  # of the two values of λ
REFERENCE_STEPS = 6  # in the search for a λ with that angle; the angle scales with its square
ROUNDING = 1e-15  # of q - m²/Q0, from which the error on fresh samples is computed
REMAINDER = 0.3  # share of an extrapolation that may be wrong


def numbers_near_recovery(
    problem: StateEvolution, alpha: float, solve: Callable[[StateEvolution], "Numbers"]
) -> "Numbers | None":
    """Return the numbers at a weight decay so small that map and target agree within the resolution of the solver;
    None where the equations can be solved directly.

    ``solve`` returns the numbers of other equations at the same sample ratio.
    """
    if problem.noise > 0.0 or not problem.ridgeless or problem.directions.count or alpha <= problem.recovery:
        return None
    top = largest_decay(problem, alpha)
    decay = max(problem.decay, 1e-2 * SMALL_DECAY * top)
    if problem.decay > SMALL_DECAY * top:
        return None
    for _ in range(REFERENCE_STEPS):
        first = solve(problem.with_decay(decay))
        angle = _misalignment(problem, first.overlaps)
        if 0.3 * REFERENCE_MISALIGNMENT < angle < 3.0 * REFERENCE_MISALIGNMENT:
            break
        decay *= float(np.clip(np.sqrt(REFERENCE_MISALIGNMENT / max(angle, 1e-12)), 0.1, 10.0))
    if problem.decay >= decay:
        return None
    second = solve(problem.with_decay(REFERENCE_RATIO * decay))
    return _scaled(problem, decay, first, second)


def _misalignment(problem: StateEvolution, overlaps: Overlaps) -> float:
    """Return 1 - m/sqrt(q Q0)."""
    return float(1.0 - overlaps.m / np.sqrt(overlaps.q * problem.target_power))


def _scaled(problem: StateEvolution, decay: float, first: "Numbers", second: "Numbers") -> "Numbers":
    """Return the numbers at the weight decay of ``problem`` from those at ``decay`` and at REFERENCE_RATIO times it."""
    target, share = problem.input.recovered, problem.decay / decay
    corrections: dict[str, float] = {}

    def scale(name: str, one: float, other: float, power: int) -> float:
        """Scale a number that is proportional to λ to this power, up to a correction linear in λ."""
        slope = (one - other / REFERENCE_RATIO**power) / (REFERENCE_RATIO - 1.0) * (1.0 - share)
        corrections[name] = REMAINDER * abs(slope) * share**power
        return float((one + slope) * share**power)

    def both(name: str, read: Callable[["Numbers"], float], power: int) -> float:
        return scale(name, read(first), read(second), power)

    q = target.q + both("q", lambda at: at.overlaps.q - target.q, 1)
    distance = both("distance", lambda at: target.q - 2.0 * at.overlaps.m + at.overlaps.q, 2)
    where = first.overlaps.map
    eps = both("threshold", lambda at: at.overlaps.map.eps, 1)
    overlaps = replace(
        first.overlaps,
        q_sectors=(q,),
        m_sectors=(0.5 * (target.q + q - distance),),
        sigma_sectors=(both("sigma", lambda at: at.overlaps.sigma, 0),),
        tau=target.tau + both("tau", lambda at: at.overlaps.tau - target.tau, 1),
        rank=both("rank", lambda at: at.overlaps.rank, 0),
        map=SpectralMap(
            both("spread", lambda at: at.overlaps.map.s, 2),
            eps,
            eps if np.isfinite(where.cut) else where.cut,
            1.0 + both("slope", lambda at: at.overlaps.map.slope - 1.0, 1),
        ),
    )
    hats = Hats(
        both("q_hat", lambda at: at.hats.q, 2),
        both("m_hat", lambda at: at.hats.m, 0),
        both("sigma_hat", lambda at: at.hats.sigma, 0),
    )
    loss = both(
        "loss", lambda at: at.train - problem.with_decay(_decay_of(at, first, decay)).input.penalty(at.overlaps), 2
    )
    train = loss + problem.input.penalty(overlaps)
    powers = {"rank": 0, "sigma": 0, "m_hat": 0, "sigma_hat": 0, "q": 1, "m": 1, "threshold": 1, "slope": 1}
    errors = {
        name: error * share ** powers.get(name, 2) + corrections.get(name, corrections["q"] * (name == "m"))
        for name, error in first.certificate.errors.items()
    }
    errors["train_loss"] = first.certificate.errors["train_loss"] * share + corrections["loss"]
    relative = corrections["distance"] / distance
    for name in ("test_error", "test_error_clean", "test_loss", "excess_error"):
        errors[name] += relative * problem.output.fresh_loss(*overlaps.values, loss="squared") + ROUNDING * target.q
    certificate = replace(first.certificate, errors=errors, quadrature_error=errors["test_error"])
    return first._replace(overlaps=overlaps, hats=hats, train=train, certificate=certificate, jacobian=None)


def _decay_of(at: "Numbers", first: "Numbers", decay: float) -> float:
    """Return the weight decay of one of the two reference solutions."""
    return decay if at is first else REFERENCE_RATIO * decay
