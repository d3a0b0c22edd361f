"""Rows against plain solvers: the same answer by the straightforward way, with the accuracy that each reaches."""

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from benchmarks.harness import Clock, Finding, certified, row
from benchmarks.plain import aim as plain_aim
from benchmarks.plain import sparse as plain_sparse
from benchmarks.plain.linear import GOAL, SOLVERS, Problem, Search, gap, loosest, ours, within_goal
from benchmarks.plain.spectrum import distances, eigenvalues
from onehead import aim, sparse

AIM_SAMPLES, AIM_TURNS, AIM_WARM_UP = (40, 160, 640), 12, 6
SPARSE_SAMPLES, SPARSE_TURNS, SPARSE_WARM_UP = (100, 400, 1600), 20, 20
DENSE = 2000


def root_mean_square(values: list[float], exact: float) -> float:
    """Typical distance of single answers from the exact one."""
    return float(np.sqrt(np.mean((np.array(values) - exact) ** 2)))


def exponent(sizes: list[float], values: list[float]) -> float:
    """Slope of log value against log size."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def duration(seconds: float) -> str:
    """Seconds in the word that fits."""
    for name, size in (("years", 3.15e7), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds > 2.0 * size:
            return f"{seconds / size:.1f} {name}" if seconds < 10.0 * size else f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def until_ours(seconds: float, error: float, goal: float) -> float:
    """Seconds a Monte-Carlo method needs for ``goal`` when it reached ``error`` in ``seconds``: the error falls as
    t^-1/2.
    """
    return seconds * (error / goal) ** 2


def monte_carlo(
    clock: Clock, sizes: tuple[int, ...], run: Callable[..., list[float]], exact: float, goal: float
) -> Finding:
    """Run a Monte-Carlo solver at growing sample sizes; the row's time is that of the largest."""
    errors = []
    for size in sizes:
        answers = clock(partial(run, samples=size))
        errors.append(root_mean_square(answers, exact))
    slope = exponent(list(sizes), errors)
    mean = abs(float(np.mean(answers)) - exact)
    # as if the turns were independent, which flatters the plain solver: damping ties them together
    needed = until_ours(clock.seconds, errors[-1] / np.sqrt(len(answers)), goal)
    return Finding(
        f"one turn off by {errors[-1]:.0e}, their mean by {mean:.0e}",
        mean,
        f"{sizes[-1]} samples a turn; error falls as samples^{slope:.2f} ({sizes[0]} to {sizes[-1]}); "
        f"for an error of {goal:.0e} about {duration(needed)} (extrapolated with exponent -1/2)",
    )


@row("plain", "one point of the head, T = 2, λ = 0.01, α = 0.5: plain Monte-Carlo solver", repeats=1, ours=False)
def plain_point(clock: Clock) -> Finding:
    point = aim.predict(aim.Task(), aim.Learner(weight_decay=0.01), 0.5)
    run = partial(plain_aim.solve, plain_aim.Point(), turns=AIM_TURNS, warm_up=AIM_WARM_UP, rng=_rng())
    return monte_carlo(clock, AIM_SAMPLES, run, point.test_error, point.certificate.quadrature_error)


@row("plain", "the same point: ours", repeats=9)
def our_point(clock: Clock) -> Finding:
    return certified(clock(lambda: aim.predict(aim.Task(), aim.Learner(weight_decay=0.01), 0.5)))


PLAN = sparse.Protocol(alpha1=1.5, ridge=1e-2, cos_query=0.9, sharpness=2.0)


@row("plain", "one logistic point of the sparse task: plain Monte-Carlo solver", repeats=1, ours=False)
def plain_sparse_point(clock: Clock) -> Finding:
    exact = sparse.predict(sparse.Task(), PLAN, accuracy=1e-5)
    goal = sparse.predict(sparse.Task(), PLAN).certificate.quadrature_error
    run = partial(plain_sparse.solve, plain_sparse.Stage(), turns=SPARSE_TURNS, warm_up=SPARSE_WARM_UP, rng=_rng())
    return monte_carlo(clock, SPARSE_SAMPLES, run, exact.test_error, goal)


@row("plain", "the same sparse point: ours", repeats=9)
def our_sparse_point(clock: Clock) -> Finding:
    return certified(clock(lambda: sparse.predict(sparse.Task(), PLAN)))


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


@lru_cache(maxsize=1)
def _spectrum_point() -> tuple[aim.Prediction, aim.Spectrum]:
    point = aim.predict(aim.Task(), aim.Learner(weight_decay=0.01), 0.5)
    return point, aim.spectrum(point)


def _dense_distances(dim: int, draws: int, rng: np.random.Generator) -> tuple[float, float]:
    """Mean distances of ``draws`` sampled spectra from our law."""
    point, law = _spectrum_point()
    found = []
    for _ in range(draws):
        values = eigenvalues(point, dim, rng)
        found.append(distances(values, law.cdf(values), law.edges[-1][1]))
    ks, edge = np.mean(found, axis=0)
    return float(ks), float(edge)


@row("plain", f"spectrum at α = 0.5: eigenvalues of one sampled matrix, d = {DENSE}", repeats=1, ours=False)
def dense(clock: Clock) -> Finding:
    rng = _rng()
    point, law = _spectrum_point()
    small = {dim: _dense_distances(dim, draws, rng) for dim, draws in ((250, 24), (500, 12), (1000, 4))}
    values = clock(lambda: eigenvalues(point, DENSE, rng))
    found = distances(values, law.cdf(values), law.edges[-1][1])
    slopes = [exponent([*small, DENSE], [*(pair[k] for pair in small.values()), found[k]]) for k in (0, 1)]
    size = (found[0] / 1e-4) ** (-1.0 / slopes[0])
    return Finding(
        f"Kolmogorov-Smirnov {found[0]:.0e}, edge off by {found[1]:.0e}",
        found[0],
        f"distances fall as d^{slopes[0]:.2f} and d^{slopes[1]:.2f} (d from 250), time grows as d³: for 1e-4 about "
        f"{duration(clock.seconds * size**3)}; more draws do not move the edge",
    )


@row("plain", "the same spectrum: ours, from the solved point", repeats=9)
def our_spectrum(clock: Clock) -> Finding:
    point, law = _spectrum_point()
    places = np.linspace(0.01, 3.9, DENSE)
    clock(lambda: aim.spectrum(point).cdf(places))
    lost = abs(float(law.cdf(np.array([100.0]))[0]) - 1.0)
    return Finding(f"mass off by {lost:.0e}, overlaps as the point", lost)


def _readout(problem: Problem) -> None:
    """Our fit and scikit-learn's, on the same data, to the same objective."""
    size = f"n = {problem.samples}, d = {problem.dim}, ridge {problem.ridge:g}"
    name = f"{problem.loss} readout of {problem.model} features, {size}"

    @row("plain", f"{name}: ours", repeats=5)
    def measure(clock: Clock) -> Finding:
        left = gap(problem, clock(lambda: ours(problem)))
        return Finding(_above(left), left)

    @row("plain", f"{name}: ours, to {GOAL:.0e}", repeats=5)
    def measure_goal(clock: Clock) -> Finding:
        gap(problem, ours(problem))  # the minimum itself, before searches end early
        with within_goal():
            left = gap(problem, clock(lambda: ours(problem)))
        return Finding(_above(left), left)

    for solver, search in SOLVERS[problem.loss].items():
        _peer(problem, f"{name}: scikit-learn {solver}", search)


def _peer(problem: Problem, name: str, search: Search) -> None:
    @row("plain", name, repeats=3, ours=False)
    def measure(clock: Clock) -> Finding:
        tolerance, left = loosest(search, problem)
        clock(lambda: search(problem, tolerance))
        late = "" if left <= GOAL else "; comes no closer"
        return Finding(_above(left), left, f"tol = {tolerance:.0e}{late}")


def _above(left: float) -> str:
    return f"objective {left:.0e} above the minimum" if left > 1e-12 else "at the minimum to rounding"


_readout(Problem("logistic", "attention", 1200, 600, 1e-3))
_readout(Problem("logistic", "attention", 1200, 600, 1e-6))
_readout(Problem("hinge", "attention", 1200, 600, 1e-3))
_readout(Problem("square", "attention", 1200, 600, 1e-3))
_readout(Problem("logistic", "pooled", 1200, 600, 1e-3))
_readout(Problem("logistic", "vectorised", 1200, 600, 1e-3))
