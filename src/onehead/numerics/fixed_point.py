"""One fixed-point driver for every set of self-consistent equations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onehead.errors import Diverged, NonFinite, NotConverged

__all__ = ["FixedPoint", "fixed_point"]

Vector = NDArray[np.float64]

GROWTH = 20.0  # a residual this many times the best one means the extrapolation failed: go back
MAX_RESTARTS = 6
PROGRESS = 0.9  # the best residual must shrink by this factor within `patience` evaluations


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """A solution of y = F(y) with its undamped residual ``max |F(y) - y|``."""

    value: Vector
    residual: float
    evaluations: int
    restarts: int
    secants: tuple[tuple[Vector, Vector], ...] = ()
    history: tuple[tuple[Vector, float], ...] = ()


def fixed_point(
    function: Callable[[Vector], Vector],
    start: Vector,
    *,
    tolerance: float,
    max_evaluations: int = 200,
    damping: float = 0.7,
    memory: int = 5,
    max_step: float = 1.0,
    patience: int = 30,
    limit: float = 1e3,
    project: Callable[[Vector], Vector] | None = None,
    secants: Sequence[tuple[Vector, Vector]] = (),
    keep_history: bool = False,
) -> FixedPoint:
    """Solve y = F(y) by damped Anderson acceleration.

    With r_k = F(y_k) - y_k the step is r_k - (dY + dR) g, where g minimises |r_k - dR g| over the last
    ``memory`` differences dY of iterates and dR of residuals; the first step, and the first after a
    restart, is ``damping`` times r_k. The only criterion is the undamped residual max |r_k|.

    Parameters
    ----------
    function : callable
        The map F. It may raise a `SolveError` of its own, which is passed on.
    start : array of shape (n,)
    tolerance : float
        Converged when the undamped residual is below it.
    max_step : float
        Largest change of any component in one step; use variables (logarithms) where 1 is large.
    patience : int
        Stagnation guard: evaluations allowed without the best residual shrinking by a tenth.
    limit : float
        Iterates with a component beyond it have diverged.
    project : callable, optional
        Brings an extrapolated iterate back into the domain.
    secants : sequence of pairs, optional
        Differences of iterates and residuals from the solve of a similar map, such as a cheaper quadrature of the same
        one: the first step is then already a good one.
    keep_history : bool
        Keep every iterate and residual.

    Raises
    ------
    NotConverged, Diverged, NonFinite

    Examples
    --------
    >>> import numpy as np
    >>> found = fixed_point(np.cos, np.array([1.0]), tolerance=1e-12)
    >>> round(float(found.value[0]), 9)
    0.739085133
    """
    inside = project if project is not None else _unchanged
    y = inside(np.array(start, dtype=float))
    best_y, best = y, np.inf
    mark, marked_at = np.inf, 0
    previous: tuple[Vector, Vector] | None = None
    differences = list(secants)[-memory:]
    history: list[tuple[Vector, float]] = []
    restarts, gain = 0, damping
    for evaluation in range(1, max_evaluations + 1):
        r = function(y) - y
        residual = float(np.max(np.abs(r)))
        if not np.isfinite(residual):
            raise NonFinite(f"the map returned a value that is not finite at {y}.", residual=best)
        if keep_history:
            history.append((y.copy(), residual))
        if residual < best:
            best_y, best = y, residual
        if residual < tolerance:
            return FixedPoint(
                value=y,
                residual=residual,
                evaluations=evaluation,
                restarts=restarts,
                secants=tuple(differences),
                history=tuple(history),
            )
        if best < PROGRESS * mark:
            mark, marked_at = best, evaluation
        elif evaluation - marked_at > patience:
            break
        if residual > GROWTH * best:
            restarts += 1
            if restarts > MAX_RESTARTS:
                break
            # the best residual is measured again: a map with memory may not reproduce it
            y, best, gain, previous = best_y, np.inf, 0.5 * gain, None
            differences.clear()
            continue
        if previous is not None:
            differences.append((y - previous[0], r - previous[1]))
            del differences[:-memory]
        previous = (y, r)
        # a residual that did not change says nothing about the map
        useful = [pair for pair in differences if np.max(np.abs(pair[1])) > 1e-10 * residual]
        step = _anderson_step(r, useful) if useful else gain * r
        size = float(np.max(np.abs(step)))
        y = inside(y + step * min(1.0, max_step / size) if size > 0.0 else y)
        if np.max(np.abs(y)) > limit:
            raise Diverged(
                f"the iteration ran away after {evaluation} evaluations (best residual {best:.1e}); "
                "start closer to the solution.",
                residual=best,
            )
    raise NotConverged(
        f"the residual stopped at {best:.1e}, above {tolerance:.0e}, after {evaluation} evaluations.",
        residual=best,
    )


def _anderson_step(r: Vector, differences: list[tuple[Vector, Vector]]) -> Vector:
    """Anderson's step from the stored differences of iterates and residuals."""
    dY = np.array([pair[0] for pair in differences]).T
    dR = np.array([pair[1] for pair in differences]).T
    # directions seen only in rounding noise are cut, or they throw the iterate far away
    weights = np.linalg.lstsq(dR, r, rcond=1e-8)[0]
    return np.asarray(r - (dY + dR) @ weights)


def _unchanged(y: Vector) -> Vector:
    return y
