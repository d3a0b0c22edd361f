"""What follows from a sketch: laws, excess errors, exponents, parts of the error, the best weight decay."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.head import equations_of
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.sketch.curves import Dot, sketch_plateau, sketch_ratios
from onehead.aim.task import Learner, Task
from onehead.aim.verbs.bayes import Yardstick
from onehead.aim.verbs.decompose import check_split, distance_parts
from onehead.aim.verbs.predict import predict
from onehead.aim.words import dimension
from onehead.errors import OneheadError

__all__ = [
    "best_error",
    "sketch_bayes",
    "sketch_bayes_excess",
    "sketch_best",
    "sketch_excess",
    "sketch_exponents",
    "sketch_law",
    "sketch_parts",
    "target_law",
]

Array = NDArray[np.float64]
Line = tuple[Array, Array]

GRID = 140  # points per bulk
SMALLEST = 1e-9  # excess error that is still drawn
ROW_PATIENCE = 0.045  # seconds for one row of a phase diagram
TUNED_PATIENCE = 1.0
BEST_POINTS = 12
FEW_BEST_POINTS = 7

_pool = ThreadPoolExecutor(2, thread_name_prefix="sketch")  # kernels release the interpreter lock


def _grid(low: float, high: float) -> Array:
    """Points that crowd at the edges, where a density has its square roots."""
    return np.asarray(low + (high - low) * 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, GRID))))


def sketch_law(task: Task, learner: Learner, found: Dot) -> tuple[float, list[Line]]:
    """The share of zero eigenvalues of a dot, and (x, density) of every bulk, in the learner's units."""
    s, eps, cut, slope = found.map
    if found.rank == 0.0:
        return 1.0, []
    if s <= 0.0:
        return 1.0 - found.rank, [target_law(task, learner)]
    law, own = equations_of(task, learner.gaussian).input.law(s), slope / learner.beta
    cut = cut if law.sides == 1 else max(cut, 0.0)  # of a law with both signs the positive half, twice
    sources = [_grid(max(low, cut), high) for low, high in law.edges if high > cut]
    return 1.0 - found.rank, [(own * (x - eps), law.sides * law.density(x) / own) for x in sources]


def target_law(task: Task, learner: Learner) -> Line:
    """x and density of the target's non-zero eigenvalues, as a learner of this temperature would have them."""
    scale = task.beta0 / learner.beta
    low, high = task.target.edges
    x = _grid(scale * low, scale * high)
    return x, task.target.density(x / scale) / scale


def sketch_excess(
    task: Task, learner: Learner, samples: Sequence[float]
) -> tuple[list[float], list[float], tuple[Dot, ...]]:
    """Samples, excess errors over the plateau, and dots of a sketch."""
    size = (dimension(task.target) or 1) ** 2
    drawn = sketch_ratios(task, learner, [n / size for n in samples], full=False)
    floor = sketch_plateau(task, learner).test_error
    return [x * size for x in drawn.x], [max(e - floor, SMALLEST) for e in drawn.column("test_error")], drawn.dots


def sketch_exponents(
    task: Task, learner: Learner, columns: Sequence[float], rows: Sequence[float]
) -> list[list[float | None]]:
    """Local exponents over n = d^column, λ = d^row, row by row; None where there is no sketch (8.4)."""
    dim, floor = dimension(task.target) or 1, sketch_plateau(task, learner).test_error
    ratios = [float(dim) ** (a - 2.0) for a in columns]

    def exponents(row: float) -> list[float | None]:
        head = learner.changed(weight_decay=float(dim**row))
        drawn = sketch_ratios(task, head, ratios, full=False, patience=ROW_PATIENCE)
        errors = {dot.x: dot.test_error for dot in drawn.dots}
        excess = np.array([max(errors.get(a, np.nan) - floor, SMALLEST) for a in ratios])
        slopes = np.gradient(np.log(excess), np.array(columns) * np.log(dim))
        return [float(v) if np.isfinite(v) else None for v in slopes]

    return list(_pool.map(exponents, rows))


def sketch_parts(
    task: Task, learner: Learner, samples: Sequence[float]
) -> tuple[list[float], list[tuple[float, float, float, float]]]:
    """Samples, and underfitting, approximation, overfitting and mismatch there (8), with one derivative half way."""
    check_split(task, learner)
    problem, end = equations_of(task, learner.gaussian), sketch_plateau(task, learner)
    at, _, dots = sketch_excess(task, learner, samples)
    (last_q, last_m), table = end.overlaps, []
    for dot in dots[::2]:  # the laws of these targets are dear: every second point is enough for the eye
        q, m = (0.0, 0.0) if dot.state is None else (float(v) for v in np.exp(dot.state[:2]))
        along_q, along_m = _partials(problem, 0.5 * (q + last_q), 0.5 * (m + last_m))
        under, over, features = distance_parts(problem.input, dot.map, dot.rank, end.c)
        mismatch = (along_m + 2.0 * end.c * along_q) * (m - last_m)
        table.append((along_q * under, along_q * features, along_q * over, mismatch))
    return at[::2], table


def _partials(problem: StateEvolution, q: float, m: float) -> tuple[float, float]:
    """dE/dq and dE/dm on the coarsest rule, by one-sided differences."""
    step = 1e-2 * max(q - m * m / problem.label_power, 1e-6)
    at = [problem.output.fresh_loss(*p, coarse=True, loss="squared") for p in ((q + step, m), (q, m - step), (q, m))]
    return (at[0] - at[2]) / step, (at[2] - at[1]) / step


def sketch_best(
    task: Task, learner: Learner, alphas: Sequence[float], decays: Sequence[float], pause: Callable[[], None]
) -> list[tuple[float, float, float]]:
    """(α, best λ, exact test error there): sketches over a grid of λ, a parabola through the lowest three.

    The test error is flat at its minimum, so that an error of a few per cent in λ does not show in it. ``pause`` is called once
    for every weight decay.
    """
    order, places = sorted(decays, reverse=True), list(alphas)
    table = np.full((len(order), len(places)), np.inf)
    for i, decay in enumerate(order):
        pause()
        head = learner.changed(weight_decay=float(decay))
        for dot in sketch_ratios(task, head, places, full=False, patience=TUNED_PATIENCE).dots:
            table[i, places.index(dot.x)] = dot.test_error
    found = []
    for j, alpha in enumerate(places):
        decay = float(np.exp(_lowest(np.log(order), table[:, j])))
        try:
            error = predict(task, learner.changed(weight_decay=decay), alpha).test_error
        except OneheadError:
            continue
        found.append((alpha, decay, error))
    return found


def _lowest(x: Array, y: Array) -> float:
    """The bottom of the parabola through the lowest three points, or the lowest one."""
    k = int(np.argmin(y))
    if not (0 < k < len(x) - 1 and np.isfinite(y[k - 1 : k + 2]).all()):
        return float(x[k])
    low, mid, high = y[k - 1 : k + 2]
    bend = low - 2.0 * mid + high
    return float(x[k] + (0.5 * (low - high) / bend * (x[k + 1] - x[k]) if bend > 0.0 else 0.0))


@lru_cache(maxsize=64)  # it does not change with the head
def sketch_bayes(task: Task, low: float, high: float) -> tuple[list[float], list[float]]:
    """Sample ratios between two ends and the best possible test error there, exact: no equation is solved, because α is explicit in
    the blur s (A.2). Nothing where it is not known.
    """
    if not task.best_known:
        return [], []
    yardstick = Yardstick(task)
    posterior = yardstick.posterior
    first, last = (max(posterior.blur(alpha), SMALLEST * posterior.power) for alpha in (low, high))
    blurs = np.geomspace(first, last, BEST_POINTS).tolist()
    ratios = [posterior.ratio(s) for s in blurs]
    errors = [yardstick.test_error(posterior.power - posterior.left(s)) for s in blurs]
    if posterior.blur(high) == 0.0:  # the target is known exactly from somewhere on
        ratios, errors = [*ratios, high], [*errors, yardstick.test_error(posterior.power)]
    return ratios, errors


@lru_cache(maxsize=64)
def _yardstick(task: Task) -> Yardstick:
    return Yardstick(task)


@lru_cache(maxsize=4096)
def best_error(task: Task, alpha: float) -> float:
    """The best possible test error at a sample ratio, infinitely many samples included: that of `bayes`, without all the rest."""
    yardstick = _yardstick(task)
    posterior = yardstick.posterior
    left = posterior.left(posterior.blur(alpha)) if np.isfinite(alpha) else 0.0
    return yardstick.test_error(max(posterior.power - left, 0.0))


@lru_cache(maxsize=64)
def sketch_bayes_excess(task: Task, ratios: tuple[float, ...]) -> list[float]:
    """The best possible test error over that of infinitely many samples, for the eye: between a few blurs by power laws.

    The blurs reach beyond the ends without an equation being solved: F(s) in (A.2) lies between zero and one.
    """
    if task.noise == 0.0:  # nothing bounds the blur from below
        return [max(best_error(task, a) - best_error(task, np.inf), SMALLEST) for a in ratios]
    yardstick = _yardstick(task)
    posterior, noise = yardstick.posterior, 0.5 * yardstick.problem.noise
    ends = (noise + posterior.power) / ratios[0], noise / ratios[-1]
    blurs = [s / posterior.per_ratio for s in np.geomspace(*ends, FEW_BEST_POINTS).tolist()]
    floor = best_error(task, np.inf)
    excess = [yardstick.test_error(posterior.power - posterior.left(s)) - floor for s in blurs]
    known = np.log([posterior.ratio(s) for s in blurs]), np.log(np.maximum(excess, SMALLEST))
    return [float(v) for v in np.exp(np.interp(np.log(ratios), *known))]
