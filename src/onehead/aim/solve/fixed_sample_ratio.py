"""Fixed-point iteration of the state evolution at a given sample ratio (2.8).

Unknowns are the coordinates y of the order parameters (for one sector log q, log m, log Sigma); the residual is max
|F(y) - y|, undamped.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.solve.strategy import project
from onehead.aim.theory.order_parameters import Hats, Overlaps
from onehead.aim.theory.output.averages import ProxCache
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import NotConverged, OutsideDomain
from onehead.numerics.fixed_point import fixed_point

Vector = NDArray[np.float64]
Secants = tuple[tuple[Vector, Vector], ...]

TOLERANCE = 3e-7
SAMPLED_TOLERANCE = 1e-6  # with sampled directions, whose averages have an error of 1e-5 at best
ANDERSON_MEMORY = 5  # differences that the acceleration keeps
PATIENCE, TRACKING_PATIENCE = 16, 80  # evaluations without progress before the iteration is given up


class NegativeOverlap(OutsideDomain):
    """The solution has a negative overlap with the target, whose logarithm the solver cannot represent."""

    def __init__(self, alpha: float) -> None:
        super().__init__(
            f"at alpha = {alpha:.6g} the overlap m with the target is negative: most of its eigenvalues are, a map "
            f"W'W has none, "
            "and so few samples teach it nothing else; raise alpha or weight_decay, or use param='direct'."
        )


class Start(NamedTuple):
    """Coordinates to start from, and the Jacobian F' close to them where it is known."""

    coordinates: Vector
    jacobian: Vector | None = None


def secants_of(jacobian: Vector) -> Secants:
    """Return differences of iterates and of their residuals by F', one per unknown, which make the first step
    Newton's.
    """
    step = 1e-3 * np.eye(len(jacobian))
    return tuple((along, jacobian @ along - along) for along in step)


class Iterate(NamedTuple):
    """A converged iterate on one quadrature rule."""

    overlaps: Overlaps
    hats: Hats
    residual: float
    evaluations: int
    level: int
    alpha: float
    cache: ProxCache
    secants: Secants

    @property
    def coordinates(self) -> Vector:
        """Coordinates of the order parameters."""
        return self.overlaps.coordinates


def state_evolution_step(
    problem: StateEvolution, alpha: float, coordinates: Vector, level: int, *, cache: ProxCache | None = None
) -> tuple[Hats, Overlaps]:
    """Apply the equations once at the given coordinates.

    Raises
    ------
    OutsideDomain
        If the coordinates are those of the zero map.
    """
    overlaps = problem.zero.at(coordinates)
    if overlaps.sectors[0, 0] == 0.0:
        raise OutsideDomain("the iteration reached the zero map.")
    return problem.step(overlaps, alpha, level=level, cache=cache)


def solve_at_alpha(
    problem: StateEvolution,
    alpha: float,
    start: Vector,
    level: int,
    *,
    tolerance: float | None = None,
    secants: Secants = (),
    cache: ProxCache | None = None,
    timed_out: Callable[[], bool] | None = None,
) -> Iterate:
    """Solve at fixed α by Anderson acceleration.

    Raises
    ------
    NotConverged
        If the residual does not fall below the tolerance, or ``timed_out`` returns True.
    NegativeOverlap
        If the solution has a negative overlap with the target.
    """
    cache = cache if cache is not None else ProxCache(track_minimum=False)
    sampled_directions = problem.directions.sampled
    if tolerance is None:
        tolerance = SAMPLED_TOLERANCE if sampled_directions else TOLERANCE
    last: dict[str, tuple[Hats, Overlaps]] = {}

    def step(y: Vector) -> Vector:
        if timed_out is not None and timed_out():
            raise NotConverged("time budget exceeded.")
        last["step"] = state_evolution_step(problem, alpha, y, level, cache=cache)
        return last["step"][1].coordinates

    found = fixed_point(
        step,
        start,
        tolerance=tolerance,
        max_evaluations=300,
        # a proximal point whose tracked minimum disappears jumps once; allow extra iterations for these transients
        patience=TRACKING_PATIENCE if cache.track_minimum else PATIENCE,
        project=lambda y: project(problem, y),
        # with sampled directions, or more unknowns than it remembers, the iteration keeps the secants it starts with,
        # and as many of its own
        memory=max(ANDERSON_MEMORY, 2 * start.size if sampled_directions or start.size > ANDERSON_MEMORY else 0),
        secants=secants,
    )
    hats, overlaps = last["step"]
    if not overlaps.m > 0.0:
        raise NegativeOverlap(alpha)
    return Iterate(overlaps, hats, found.residual, found.evaluations, level, alpha, cache, found.secants)
