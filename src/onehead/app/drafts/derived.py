"""Quantities derived from drafts: spectra, excess errors and their parts, best weight decays, Bayes-optimal errors."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from onehead.aim.flat_parameters import dimension
from onehead.aim.solve.draft import DraftNumbers
from onehead.aim.task import Learner, Task
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.aim.verbs.bayes import BayesReference
from onehead.aim.verbs.decompose import check_decomposable, distance_parts
from onehead.aim.verbs.predict import predict
from onehead.app.drafts.curves import DraftPoint, draft_curve, draft_plateau
from onehead.errors import OneheadError

Array = NDArray[np.float64]
Line = tuple[Array, Array]

DENSITY_GRID = 140  # points per bulk
MIN_EXCESS = 1e-9  # excess error below which pictures do not go
ROW_SECONDS = 0.045  # CPU time for one row of a phase diagram
TUNING_SECONDS = 1.0  # CPU time for one learning curve of a search for the best weight decay
BAYES_POINTS = 12  # points of a curve of the best possible error
BAYES_EXCESS_POINTS = 7  # points of a curve of its excess

_pool = ThreadPoolExecutor(2, thread_name_prefix="draft")  # compiled kernels release the interpreter lock


def _grid(low: float, high: float) -> Array:
    """Grid that is denser at the edges, where a density has square roots."""
    return np.asarray(low + (high - low) * 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, DENSITY_GRID))))


def draft_spectrum(task: Task, learner: Learner, found: DraftNumbers) -> tuple[float, list[Line]]:
    """Share of zero eigenvalues of a point, and (x, density) of every bulk, in the learner's units."""
    s, eps, cut, slope = found.map
    if found.rank == 0.0:
        return 1.0, []
    if s <= 0.0:
        return 1.0 - found.rank, [target_law(task, learner)]
    law, scale = build_state_evolution(task, learner.gaussian).input.law(s), slope / learner.beta
    cut = cut if law.sides == 1 else max(cut, 0.0)  # a symmetrised law counts its positive half twice
    sources = [_grid(max(low, cut), high) for low, high in law.edges if high > cut]
    return 1.0 - found.rank, [(scale * (x - eps), law.sides * law.density(x) / scale) for x in sources]


def target_law(task: Task, learner: Learner) -> Line:
    """Grid and density of the target's non-zero eigenvalues, in the units of a learner of this temperature."""
    scale = task.beta0 / learner.beta
    low, high = task.target.edges
    x = _grid(scale * low, scale * high)
    return x, task.target.density(x / scale) / scale


def draft_excess(
    task: Task, learner: Learner, samples: Sequence[float]
) -> tuple[list[float], list[float], tuple[DraftPoint, ...]]:
    """Numbers of samples, excess errors over the plateau, and points of a draft."""
    size = (dimension(task.target) or 1) ** 2
    draft = draft_curve(task, learner, [n / size for n in samples], full=False)
    floor = draft_plateau(task, learner).test_error
    return [x * size for x in draft.x], [max(e - floor, MIN_EXCESS) for e in draft.column("test_error")], draft.points


def draft_exponents(
    task: Task, learner: Learner, columns: Sequence[float], rows: Sequence[float]
) -> list[list[float | None]]:
    """Local exponents over n = d^column, λ = d^row, row by row; None where the draft has no point (8.4)."""
    dim, floor = dimension(task.target) or 1, draft_plateau(task, learner).test_error
    ratios = [float(dim) ** (a - 2.0) for a in columns]

    def exponents(row: float) -> list[float | None]:
        head = learner.changed(weight_decay=float(dim**row))
        draft = draft_curve(task, head, ratios, full=False, seconds=ROW_SECONDS)
        errors = {point.x: point.numbers.test_error for point in draft.points}
        excess = np.array([max(errors.get(a, np.nan) - floor, MIN_EXCESS) for a in ratios])
        slopes = np.gradient(np.log(excess), np.array(columns) * np.log(dim))
        return [float(v) if np.isfinite(v) else None for v in slopes]

    return list(_pool.map(exponents, rows))


def draft_decomposition(
    task: Task, learner: Learner, samples: Sequence[float]
) -> tuple[list[float], list[tuple[float, float, float, float]]]:
    """Numbers of samples, and underfitting, approximation, overfitting and mismatch (8), with midpoint derivatives."""
    check_decomposable(task, learner)
    problem, end = build_state_evolution(task, learner.gaussian), draft_plateau(task, learner)
    counts, _, points = draft_excess(task, learner, samples)
    (last_q, last_m), table = end.overlaps, []
    for point in points[::2]:  # every second point, because the laws of these targets are expensive
        q, m = (0.0, 0.0) if point.state is None else (float(v) for v in np.exp(point.state[:2]))
        by_q, by_m = _partials(problem, 0.5 * (q + last_q), 0.5 * (m + last_m))
        under, over, features = distance_parts(problem.input, point.numbers.map, point.numbers.rank, end.c)
        mismatch = (by_m + 2.0 * end.c * by_q) * (m - last_m)
        table.append((by_q * under, by_q * features, by_q * over, mismatch))
    return counts[::2], table


def _partials(problem: StateEvolution, q: float, m: float) -> tuple[float, float]:
    """Partial derivatives dE/dq and dE/dm on the coarsest rule, by one-sided differences."""
    step = 1e-2 * max(q - m * m / problem.label_power, 1e-6)
    at = [problem.output.fresh_loss(*p, coarse=True, loss="squared") for p in ((q + step, m), (q, m - step), (q, m))]
    return (at[0] - at[2]) / step, (at[2] - at[1]) / step


def draft_best_decays(
    task: Task, learner: Learner, alphas: Sequence[float], decays: Sequence[float], pause: Callable[[], None]
) -> list[tuple[float, float, float]]:
    """List of (α, best λ, exact test error there), by drafts over a grid of λ and a parabola through the lowest three.

    The test error is flat at its minimum, so that an error of a few per cent in λ does not change it visibly. ``pause``
    is called once for every weight decay.
    """
    order, ratios = sorted(decays, reverse=True), list(alphas)
    table = np.full((len(order), len(ratios)), np.inf)
    for i, decay in enumerate(order):
        pause()
        head = learner.changed(weight_decay=float(decay))
        for point in draft_curve(task, head, ratios, full=False, seconds=TUNING_SECONDS).points:
            table[i, ratios.index(point.x)] = point.numbers.test_error
    found = []
    for j, alpha in enumerate(ratios):
        decay = float(np.exp(_parabola_minimum(np.log(order), table[:, j])))
        try:
            error = predict(task, learner.changed(weight_decay=decay), alpha).test_error
        except OneheadError:
            continue
        found.append((alpha, decay, error))
    return found


def _parabola_minimum(x: Array, y: Array) -> float:
    """Minimum of the parabola through the lowest point and its neighbours, or the lowest point if it is at an end."""
    k = int(np.argmin(y))
    if not (0 < k < len(x) - 1 and np.isfinite(y[k - 1 : k + 2]).all()):
        return float(x[k])
    low, mid, high = y[k - 1 : k + 2]
    curvature = low - 2.0 * mid + high
    return float(x[k] + (0.5 * (low - high) / curvature * (x[k + 1] - x[k]) if curvature > 0.0 else 0.0))


@lru_cache(maxsize=64)  # does not depend on the learner
def draft_bayes_curve(task: Task, low: float, high: float) -> tuple[list[float], list[float]]:
    """Sample ratios between two ends and the Bayes-optimal test error there; empty where it is not known.

    Exact, although no equation is solved, because α is an explicit function of the blur s (A.2).
    """
    if not task.bayes_known:
        return [], []
    reference = BayesReference(task)
    posterior = reference.posterior
    first, last = (max(posterior.blur(alpha), MIN_EXCESS * posterior.power) for alpha in (low, high))
    blurs = np.geomspace(first, last, BAYES_POINTS).tolist()
    ratios = [posterior.ratio(s) for s in blurs]
    errors = [reference.test_error(posterior.power - posterior.left(s)) for s in blurs]
    if posterior.blur(high) == 0.0:  # exact recovery within the range
        ratios, errors = [*ratios, high], [*errors, reference.test_error(posterior.power)]
    return ratios, errors


@lru_cache(maxsize=64)
def _reference(task: Task) -> BayesReference:
    """Bayes-optimal learner of a task, cached."""
    return BayesReference(task)


@lru_cache(maxsize=4096)
def bayes_error(task: Task, alpha: float) -> float:
    """Bayes-optimal test error at a sample ratio, which may be infinite; equal to that of `bayes`, but faster."""
    reference = _reference(task)
    posterior = reference.posterior
    left = posterior.left(posterior.blur(alpha)) if np.isfinite(alpha) else 0.0
    return reference.test_error(max(posterior.power - left, 0.0))


@lru_cache(maxsize=64)
def draft_bayes_excess(task: Task, ratios: tuple[float, ...]) -> list[float]:
    """Draft of the Bayes-optimal excess error, interpolated by power laws between a few blurs.

    The range of blurs covers the ends without solving an equation, because F(s) in (A.2) lies between zero and one.
    """
    if task.noise == 0.0:  # the blur has no lower bound
        return [max(bayes_error(task, a) - bayes_error(task, np.inf), MIN_EXCESS) for a in ratios]
    reference = _reference(task)
    posterior, noise = reference.posterior, 0.5 * reference.problem.noise
    ends = (noise + posterior.power) / ratios[0], noise / ratios[-1]
    blurs = [s / posterior.per_ratio for s in np.geomspace(*ends, BAYES_EXCESS_POINTS).tolist()]
    floor = bayes_error(task, np.inf)
    excess = [reference.test_error(posterior.power - posterior.left(s)) - floor for s in blurs]
    log_table = np.log([posterior.ratio(s) for s in blurs]), np.log(np.maximum(excess, MIN_EXCESS))
    return [float(v) for v in np.exp(np.interp(np.log(ratios), *log_table))]
