"""Fixed points y = F(y) by damped Anderson acceleration: the solver of all self-consistent equations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onehead.errors import Diverged, NonFinite, NotConverged

Vector = NDArray[np.float64]

RESTART_GROWTH = 20.0  # residual over the best one, above which the best iterate is restored
MAX_RESTARTS = 6
REQUIRED_PROGRESS = 0.9  # factor by which the best residual must shrink within `patience` evaluations


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """Solution of y = F(y).

    Attributes
    ----------
    value : array of shape (n,)
        The solution y.
    residual : float
        Undamped residual max |F(y) - y|.
    evaluations, restarts : int
        Evaluations of F, and returns to the best iterate after a failed extrapolation.
    secants : tuple of pairs
        Last differences of iterates and of residuals, from which a similar map can be solved faster.
    history : tuple of pairs
        All iterates with their residuals, if asked for.
    """

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
        First iterate.
    tolerance : float
        Largest undamped residual of a converged solution.
    max_evaluations : int
        Largest number of evaluations of F.
    damping : float
        Factor on the residual in a step without extrapolation.
    memory : int
        Number of differences in the extrapolation.
    max_step : float
        Largest change of any component in one step; variables should be scaled (logarithms) so that 1 is large.
    patience : int
        Stagnation guard: evaluations allowed without the best residual shrinking by a tenth.
    limit : float
        Largest absolute value of a component; beyond it the iteration has diverged.
    project : callable, optional
        Maps an extrapolated iterate back into the domain.
    secants : sequence of pairs, optional
        Differences of iterates and residuals from the solution of a similar map, such as the same one with a cheaper
        quadrature; the first step is then already an extrapolation.
    keep_history : bool
        Whether to return every iterate and residual.

    Returns
    -------
    FixedPoint

    Raises
    ------
    NotConverged
        If the residual stops improving or the evaluations are used up.
    Diverged
        If an iterate exceeds ``limit``.
    NonFinite
        If F returns a value that is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> found = fixed_point(np.cos, np.array([1.0]), tolerance=1e-12)
    >>> round(float(found.value[0]), 9)
    0.739085133
    """
    to_domain = project if project is not None else _unchanged
    y = to_domain(np.array(start, dtype=float))
    best_y, best = y, np.inf
    reference, reference_at = np.inf, 0  # residual, and evaluation, since which progress is measured
    previous: tuple[Vector, Vector] | None = None
    differences = list(secants)[-memory:]
    history: list[tuple[Vector, float]] = []
    restarts, factor = 0, damping
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
        if best < REQUIRED_PROGRESS * reference:
            reference, reference_at = best, evaluation
        elif evaluation - reference_at > patience:
            break
        if residual > RESTART_GROWTH * best:
            restarts += 1
            if restarts > MAX_RESTARTS:
                break
            # a map with internal state may not reproduce the best residual: it is measured again
            y, best, factor, previous = best_y, np.inf, 0.5 * factor, None
            differences.clear()
            continue
        if previous is not None:
            differences.append((y - previous[0], r - previous[1]))
            del differences[:-memory]
        previous = (y, r)
        # differences without a change of the residual carry no information about the map
        useful = [pair for pair in differences if np.max(np.abs(pair[1])) > 1e-10 * residual]
        step = _anderson_step(r, useful) if useful else factor * r
        size = float(np.max(np.abs(step)))
        y = to_domain(y + step * min(1.0, max_step / size) if size > 0.0 else y)
        if np.max(np.abs(y)) > limit:
            raise Diverged(
                f"the iteration diverged after {evaluation} evaluations (best residual {best:.1e}); "
                "start closer to the solution.",
                residual=best,
            )
    raise NotConverged(
        f"the residual stopped at {best:.1e}, above {tolerance:.0e}, after {evaluation} evaluations.",
        residual=best,
    )


def _anderson_step(r: Vector, differences: list[tuple[Vector, Vector]]) -> Vector:
    """Return the step of Anderson acceleration from the stored differences of iterates and residuals."""
    dY = np.array([pair[0] for pair in differences]).T
    dR = np.array([pair[1] for pair in differences]).T
    # directions that are known only up to rounding errors are cut off: they would give huge steps
    weights = np.linalg.lstsq(dR, r, rcond=1e-8)[0]
    return np.asarray(r - (dY + dR) @ weights)


def _unchanged(y: Vector) -> Vector:
    return y
