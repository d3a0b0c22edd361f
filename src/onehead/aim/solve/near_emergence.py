"""Solutions so close to emergence that a quadrature rule cannot tell them from S = 0 (4.6).

Where the map emerges is known by a formula; a rule of sampled points has its own emergence, off by its own error. In
between S = 0 is unstable, and the equations on the rule have no other solution. The map there is smaller than the one
at a slightly smaller weight decay, which is returned, with S = 0 as the alternative that sets its error.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np

from onehead.aim.solve.error_estimate import Alternative, estimate_errors, linearise
from onehead.aim.solve.fixed_sample_ratio import Iterate, solve_at_alpha
from onehead.aim.solve.one_level import MAXIMUM_RULE_SHIFT
from onehead.aim.solve.solver import COARSE_TOLERANCE, Solution
from onehead.aim.theory.limits.emergence import largest_decay
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import SolveError

NEAR_EMERGENCE = 0.95  # share of the λ of emergence; rules of sampled points are off by up to 1 %
DECAY_SHARES = (1.0, 0.99, 0.97, 0.94, 0.9)  # of the weight decay, at which a solution is tried


class NearEmergence(NamedTuple):
    """The solution at this or a smaller weight decay, and the equations there."""

    solution: Solution
    problem: StateEvolution


class _FromZero(NamedTuple):
    """The solution reached from the first step from S = 0 on the finest default rule, and whether the coarsest rule
    has one close to it.
    """

    iterate: Iterate
    resolved: bool


def _from_zero(problem: StateEvolution, alpha: float) -> _FromZero | None:
    """Solve from the first step from S = 0; None where that ends at S = 0."""
    with suppress(SolveError):
        start = problem.overlaps_of(problem.at_origin(alpha, 0)[1]).coordinates
        coarse = solve_at_alpha(problem, alpha, start, 0, tolerance=COARSE_TOLERANCE).coordinates
        fine = solve_at_alpha(problem, alpha, coarse, problem.output.geometry.levels[-1])
        return _FromZero(fine, bool(np.max(np.abs(fine.coordinates - coarse)) < MAXIMUM_RULE_SHIFT))
    return None


def solve_near_emergence(problem: StateEvolution, alpha: float) -> NearEmergence | None:
    """Return the solution at the largest weight decay, this or a smaller one, that rules of sampled points resolve.

    None is returned where the equations can be solved as they are: on a lattice, or further away from emergence.
    """
    if not (problem.input.emerges and problem.output.geometry.sampled and problem.directions.separate):
        return None
    if not NEAR_EMERGENCE < problem.decay / largest_decay(problem, alpha) < 1.0:
        return None
    for share in DECAY_SHARES:
        near = problem.with_decay(share * problem.decay)
        found = _from_zero(near, alpha)
        if found is None:
            continue
        if share == 1.0 and found.resolved:
            return None
        return NearEmergence(_solution(near, found.iterate, include_zero=share < 1.0), near)
    return None


def _solution(problem: StateEvolution, iterate: Iterate, *, include_zero: bool) -> Solution:
    """Return the solution of an iterate, with S = 0 as an alternative if that cannot be excluded."""
    linearisation = linearise(problem, iterate.alpha, iterate.coordinates)
    estimate = estimate_errors(problem, iterate, linearisation)
    if include_zero:
        averages = iterate.cache.averages
        assert averages is not None
        envelope = averages.envelope(iterate.overlaps.sigma)
        estimate = estimate.with_alternative(Alternative(iterate.overlaps.none, iterate.hats, envelope))
    return Solution(
        alpha=iterate.alpha,
        overlaps=iterate.overlaps,
        hats=iterate.hats,
        residual=iterate.residual,
        evaluations=iterate.evaluations,
        level=iterate.level,
        error_estimate=estimate,
        jacobian=linearisation.step,
        switch_mass=None,
        cache=iterate.cache,
        single_minimum=problem.output.single_minimum,
    )
