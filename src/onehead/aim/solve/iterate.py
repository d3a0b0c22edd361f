"""One turn of the equations, overlaps -> hats -> overlaps, and its iteration at a fixed sample ratio (2.8).

Unknowns are y = (log q, log m, log Sigma); the residual is max |log F(y) - y|, undamped.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.averages import ProxMemory
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import AnyHats, AnyOverlaps, Hats, Overlaps
from onehead.errors import NotConverged, OutsideDomain
from onehead.numerics.fixed_point import fixed_point

__all__ = ["TOLERANCE", "Attempt", "Opposed", "Secants", "Start", "Vector", "at_alpha", "secants_of", "turn_once"]

Vector = NDArray[np.float64]
Secants = tuple[tuple[Vector, Vector], ...]

TOLERANCE = 3e-7
SAMPLED = 1e-6  # the same with leading directions, whose averages are good to 1e-5 at best
MEMORY = 5  # differences that the acceleration keeps; with leading directions the slopes it begins with, and as many of its own


class Opposed(OutsideDomain):
    """The solution has a negative overlap with the target, and the solver knows only logarithms of it."""

    def __init__(self, alpha: float) -> None:
        super().__init__(
            f"at alpha = {alpha:.6g} the overlap m with the target is negative: most of its eigenvalues are, a map W'W has none, "
            "and so few samples teach it nothing else; raise alpha or weight_decay, or use param='direct'."
        )


class Start(NamedTuple):
    """A state to begin from, and F' close to it where that is known."""

    state: Vector
    turn: Vector | None = None


def secants_of(turn: Vector) -> Secants:
    """Differences of iterates and of their residuals by F', one per unknown: a first step that is Newton's."""
    step = 1e-3 * np.eye(len(turn))
    return tuple((along, turn @ along - along) for along in step)


class Attempt(NamedTuple):
    """A solution on one quadrature rule."""

    overlaps: AnyOverlaps
    hats: AnyHats
    residual: float
    evaluations: int
    level: int
    alpha: float
    memory: ProxMemory
    secants: Secants

    @property
    def state(self) -> Vector:
        """(log q, log m, log Sigma)."""
        return self.overlaps.logs


def turn_once(
    problem: StateEvolution,
    alpha: float,
    y: Vector,
    level: int,
    *,
    twin: bool = False,
    memory: ProxMemory | None = None,
) -> tuple[Hats, Overlaps]:
    """One turn of the equations: overlaps -> hats -> overlaps."""
    state = problem.state_of(y)
    if state[0] == 0.0:
        raise OutsideDomain("the iterate ran into the zero map.")
    return problem.turn(state, alpha, level=level, twin=twin, memory=memory)


def at_alpha(
    problem: StateEvolution,
    alpha: float,
    start: Vector,
    level: int,
    *,
    tolerance: float | None = None,
    secants: Secants = (),
    memory: ProxMemory | None = None,
    late: Callable[[], bool] | None = None,
) -> Attempt:
    """Anderson iteration at fixed α, given up when it is ``late``."""
    memory = memory if memory is not None else ProxMemory(follow=False)
    if tolerance is None:
        tolerance = SAMPLED if problem.leading else TOLERANCE
    last: dict[str, tuple[Hats, Overlaps]] = {}

    def turn(y: Vector) -> Vector:
        if late is not None and late():
            raise NotConverged("there is no time for this point.")
        last["step"] = turn_once(problem, alpha, y, level, memory=memory)
        return last["step"][1].logs

    found = fixed_point(
        turn,
        start,
        tolerance=tolerance,
        max_evaluations=300,
        # a point that follows its minimum and loses it moves on once and for all: give such moves time to die out
        patience=80 if memory.follow else 16,
        project=problem.inside,
        memory=max(MEMORY, 2 * start.size if problem.leading else 0),
        secants=secants,
    )
    hats, overlaps = last["step"]
    if not overlaps.m > 0.0:
        raise Opposed(alpha)
    return Attempt(overlaps, hats, found.residual, found.evaluations, level, alpha, memory, found.secants)
