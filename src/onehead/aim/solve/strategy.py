"""How the equations of a head are solved: difference steps, admissible states, easier heads, routes that exist.

The equations (`onehead.aim.theory`) say only what is true; everything that is advice to the solver is here.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.state_evolution import StateEvolution

Vector = NDArray[np.float64]

DIFFERENCE_STEP = 1e-3  # of the numbers that are solved for, on a rule of sampled points
OVERLAP_STEP = 1e-4  # relative, of the overlaps
SAFE_MARGIN = 1e-9  # relative, by which m stays below its largest value


def difference_steps(problem: StateEvolution) -> Vector:
    """Return steps of the coordinates for derivatives by differences; a larger q and a smaller m are always
    admissible.
    """
    up = np.full(problem.sectors, DIFFERENCE_STEP)
    return np.concatenate([up, -up, np.full(problem.directions.count, DIFFERENCE_STEP), up])


def overlap_steps(problem_sectors: int, directions: int) -> Vector:
    """Return relative steps of `Overlaps.values` for derivatives by differences: a larger q, a smaller m."""
    up = np.full(problem_sectors, OVERLAP_STEP)
    return np.concatenate([up, -up, np.full(directions, OVERLAP_STEP)])


def project(problem: StateEvolution, coordinates: Vector) -> Vector:
    """Return the nearest admissible coordinates: m² <= q Q0 in every sector, which extrapolation can violate.

    Directions inside the bulk iterate on the cosine itself, for which every value is admissible.
    """
    if not problem.directions.separate:
        return coordinates
    n = problem.sectors
    bound = 0.5 * (coordinates[:n] + np.log(problem.target_power)) + np.log1p(-SAFE_MARGIN)
    return np.concatenate([coordinates[:n], np.minimum(coordinates[n : 2 * n], bound), coordinates[2 * n :]])


def isotropic_coordinates(problem: StateEvolution, logs: Vector) -> Vector:
    """Lift (log q, log m, log Sigma) of a map to coordinates: equal sectors, explicit directions learned as well as all
    others.
    """
    q, m, sigma = np.exp(logs).tolist()
    bulk_q, bulk_m, learned = problem.directions.isotropic_overlaps(q, m)
    sectors = [problem.sectors * (value,) for value in (bulk_q, bulk_m, sigma)]
    q_sectors, m_sectors, sigma_sectors = sectors
    overlaps = replace(
        problem.zero, q_sectors=q_sectors, m_sectors=m_sectors, sigma_sectors=sigma_sectors, learned=learned
    )
    return overlaps.coordinates


def can_continue_in_decay(problem: StateEvolution) -> bool:
    """Whether a solution can be reached by letting λ fall from where the map vanishes."""
    return problem.input.relaxes and problem.directions.separate


def can_fix_sigma(problem: StateEvolution) -> bool:
    """Whether the equations can be solved at a given Sigma, with α or λ as the unknown (2.8)."""
    return problem.input.by_sigma and problem.directions.separate
