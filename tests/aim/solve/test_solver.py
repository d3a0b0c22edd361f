"""Statements about the theory of attention maps that once no test would have missed: found by mutants that survived."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from onehead.aim import Learner, MarchenkoPastur, Task, predict, tune
from onehead.aim.equations.emergence import is_zero
from onehead.aim.equations.output import ProxMemory
from onehead.aim.equations.ridgeless import bayes_optimal, interpolating, recovery
from onehead.aim.equations.state_evolution import Hats, Overlaps, reduce
from onehead.aim.solve import solver
from onehead.aim.solve.continuation import _decay_at_sigma, _ratio_at_sigma, relax, walk
from onehead.aim.solve.iterate import Attempt, log_state, turn_once
from onehead.aim.verbs import optimum
from onehead.aim.verbs.predict import _state_of
from onehead.aim.verbs.response import _has_jacobian
from onehead.aim.verbs.tune import FLAT, _flat_range
from onehead.errors import NotConverged, OutsideDomain, SolveError
from onehead.results import Certificate
from onehead.spectra.law import threshold_integrals


def _valley(monkeypatch, error, slope):
    """`bottom` on a made-up error of log λ: the place it finds and the solves it took."""
    calls = []

    def at(x):
        calls.append(x)
        return SimpleNamespace(test_error=error(x), x=x, learner=SimpleNamespace(decay=float(np.exp(x))))

    monkeypatch.setattr(optimum, "decay_slope", lambda point: slope(point.x))
    start = at(0.3)
    best = optimum.bottom(at, -3.0, 2.0, start)
    return best, len(calls) - 1


@pytest.mark.parametrize("place", [-2.7, -1.0, 0.3, 1.4])
def test_the_bottom_of_a_parabola_is_found_in_few_solves(monkeypatch, place):
    """A secant is exact on a straight slope: ends and middle, then one step that lands on the root."""
    best, solves = _valley(monkeypatch, lambda x: 1.0 + (x - place) ** 2, lambda x: 2.0 * (x - place))
    assert best.x == pytest.approx(place, abs=optimum.ACCURACY)
    assert solves <= 6


def test_the_bottom_of_a_lopsided_valley(monkeypatch):
    """error = exp(x) - 2 x has its minimum at log 2; its slopes differ by a factor of ten on the two sides."""
    best, solves = _valley(monkeypatch, lambda x: np.exp(x) - 2.0 * x, lambda x: np.exp(x) - 2.0)
    assert best.x == pytest.approx(np.log(2.0), abs=2.0 * optimum.ACCURACY)
    assert solves <= 15


def test_the_residual_of_interpolation_is_that_of_the_worse_equation():
    """Solved roughly, A = 2 abar and J + 2 eps B = Q + 2 abar s are both off, by what the residual says (4.1)."""
    problem, alpha = reduce(Task(noise=0.5), Learner(weight_decay="0+")), 0.1
    rough = interpolating(problem, alpha, accuracy=0.3)
    part = threshold_integrals(problem.law(rough.s), rough.eps, problem.width)
    twice = 2.0 * alpha * problem.informative
    wrong = [part.A / twice - 1.0, (part.J + 2.0 * rough.eps * part.B) / (problem.label_power + twice * rough.s) - 1.0]
    assert rough.residual == pytest.approx(np.abs(wrong).max(), rel=1e-6)
    assert rough.residual > 1e-6
    assert interpolating(problem, alpha).residual < 1e-9


def test_a_problem_that_no_rule_solves_fails_with_a_solve_error(monkeypatch):
    def fail(*_):
        raise NotConverged("made to fail.", residual=1.0)

    monkeypatch.setattr(solver, "_at_level", fail)
    with pytest.raises(SolveError, match="made to fail"):
        solver.solve(reduce(Task(), Learner()), 0.5)


def test_the_flat_range_of_a_parabola_is_its_width():
    """error = 1 + c (x - x0)²: within FLAT of the best for |x - x0| <= sqrt(FLAT / c), x the logarithm of λ."""
    x = np.linspace(-4.0, 4.0, 161)
    c, x0 = 4.0 * FLAT, 0.5
    errors = dict(zip(np.exp(x).tolist(), (1.0 + c * (x - x0) ** 2).tolist(), strict=True))
    winner = min(errors, key=lambda decay: errors[decay])
    low, high = np.log(_flat_range(errors, winner))
    # the curve through points 0.05 apart is off by less than the square of that
    assert low == pytest.approx(x0 - 0.5, abs=5e-3)
    assert high == pytest.approx(x0 + 0.5, abs=5e-3)


def test_the_flat_range_at_the_limit():
    rising = {0.1: 1.0 + 0.5 * FLAT, 1.0: 1.0 + 2.0 * FLAT, 10.0: 2.0}
    low, high = _flat_range({0.0: 1.0, **rising}, 0.0)
    assert low == 0.0
    assert 0.1 < high < 1.0
    # the smallest weight decay is the last that is as good, or already too much
    assert _flat_range({0.0: 1.0, 0.1: 1.0 + FLAT * (1.0 - 1e-9), 1.0: 50.0, 10.0: 90.0}, 0.0) == pytest.approx(
        (0.0, 0.1)
    )
    assert _flat_range({0.0: 1.0, 0.1: 1.1, 1.0: 1.2, 10.0: 1.3}, 0.0) == (0.0, 0.0)
    # best at the smallest one tried: the range goes on to the limit only if the limit is as good
    falling = {0.1: 1.0, 1.0: 2.0, 10.0: 3.0}
    assert _flat_range({0.0: 1.0 + 0.5 * FLAT, **falling}, 0.1)[0] == 0.0
    assert _flat_range({0.0: 1.5, **falling}, 0.1)[0] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("error", "status", "place"),
    [
        (lambda x: 1.0 + 0.1 * (x + 5.0) ** 2, "optimum inside the range", -5.0),
        (lambda x: 1.0 + 0.1 * (x + 0.5) ** 2, "optimum inside the range", -0.5),  # above the second value tried
        (lambda x: 1.0 + 0.1 * np.exp(x), "boundary, the smaller", -np.inf),
        (lambda x: 2.0 - 0.01 * max(x, -30.0), "boundary, the larger", 0.0),
        (lambda x: 1.0 + 1e-3 * FLAT * np.cos(min(max(x, -30.0), 0.0)), "flat", None),
    ],
)
def test_tune_says_where_the_optimum_lies(monkeypatch, error, status, place):
    """On made-up errors as functions of log λ, the map vanishing at λ = 1."""
    certificate = Certificate(status="converged", kind="claim")

    def made_up(task, learner, alpha, near=None):
        decay = learner.decay
        x = float(np.log(decay)) if decay > 0.0 else -np.inf
        return SimpleNamespace(test_error=error(max(x, -99.0)), certificate=certificate, learner=learner, x=x)

    def slope(point):
        return (error(point.x + 1e-4) - error(point.x - 1e-4)) / 2e-4

    tuning = sys.modules["onehead.aim.verbs.tune"]  # the verb has the same name
    monkeypatch.setattr(tuning, "predict", made_up)
    monkeypatch.setattr(tuning, "top_decay", lambda *_: 1.0)
    monkeypatch.setattr(optimum, "decay_slope", slope)
    best = tune(Task(), Learner(weight_decay=0.5), 0.3)
    assert status in best.certificate.status
    assert best.gain == pytest.approx(error(np.log(0.5)) - best.test_error, abs=1e-12)
    assert best.scan == tuple(sorted(best.scan))
    if place is not None:
        assert np.log(max(best.weight_decay, 1e-300)) == pytest.approx(max(place, np.log(1e-300)), abs=2e-3)
        assert best.test_error == pytest.approx(error(max(place, -99.0)), abs=1e-5)


def test_a_point_continues_in_reduced_units_whatever_its_temperatures():
    """The state handed to a neighbour solves the equations of the point itself."""
    task, learner = Task(noise=0.5, beta0=0.5), Learner(beta=2.0, weight_decay=0.02)
    point, problem = predict(task, learner, 0.6), reduce(task, learner)
    state = _state_of(problem, point)
    turned = log_state(turn_once(problem, 0.6, state, 1)[1])
    assert turned == pytest.approx(state, abs=1e-3)  # the rules of the solution and of this turn differ by about 1e-4
    assert predict(task, learner, 0.6, near=point).certificate.evaluations < point.certificate.evaluations


@pytest.mark.parametrize(("square", "clear"), [(0.5, True), (0.9, True), (0.96, False), (0.999, False)])
def test_derivatives_are_solved_for_again_close_to_perfect_recovery(square, clear):
    """Whether 1 - m²/(Q q) > CLEAR, in reduced units q β² and m β β0, whatever the size of q."""
    task, learner = Task(noise=0.3, beta0=0.7), Learner(beta=1.9)
    problem = reduce(task, learner)
    for q in (0.01, 0.4, 20.0):
        m = np.sqrt(square * problem.label_power * q)
        point = SimpleNamespace(q=q / 1.9**2, m=m / (1.9 * 0.7), task=task, learner=learner, jacobian=np.eye(3))
        assert _has_jacobian(point, problem) == clear
    assert not _has_jacobian(SimpleNamespace(**{**vars(point), "jacobian": None}), problem)


@pytest.mark.parametrize("param", ["factorised", "direct"])
def test_the_route_through_sigma_finds_the_ratio_and_the_decay_of_a_solution(param):
    """At fixed Sigma the sample ratio, or the weight decay, that belongs to the hats of a solution is its own (2.8)."""
    learner = Learner(param=param, weight_decay=0.03)
    point, problem = predict(Task(noise=0.4), learner, 0.4), reduce(Task(noise=0.4), learner)
    hats = Hats(point.q_hat, point.m_hat, point.sigma_hat)
    unit = Hats(*(hat / 0.4 for hat in hats))
    # the residual of a solution is below 1e-6, and both depend smoothly on it
    assert _ratio_at_sigma(problem, unit, point.sigma) == pytest.approx(0.4, rel=1e-5)
    if param == "factorised":
        assert _decay_at_sigma(problem, hats, point.sigma) == pytest.approx(0.03, rel=1e-4)
        with pytest.raises(OutsideDomain, match="no weight decay"):
            _decay_at_sigma(problem, hats, 100.0 * point.sigma)
    else:
        with pytest.raises(OutsideDomain, match="so large a Sigma"):
            _ratio_at_sigma(problem, unit, 0.26 / problem.decay)  # Sigma < 1 / (4 λ)
    for bad in (Hats(1.0, -1.0, 1.0), Hats(1.0, 1.0, -1.0)):
        with pytest.raises(OutsideDomain, match="not positive"):
            _ratio_at_sigma(problem, bad, 1.0)


def _levels_tried(monkeypatch, *, follow, error):
    """The quadrature rules that `solve` goes through when every solve succeeds and the error seen is the given one."""
    levels, overlaps = [], Overlaps(q=0.5, m=0.5, sigma=0.5, tau=0.0, rank=1.0, map=None)

    def at_level(problem, alpha, state, level, secants):
        levels.append(level)
        return Attempt(overlaps, Hats(1.0, 1.0, 1.0), 0.0, 1, level, alpha, ProxMemory(follow=follow), ())

    monkeypatch.setattr(solver, "_coarse", lambda *_: (np.zeros(3), (), 0))
    monkeypatch.setattr(solver, "_at_level", at_level)
    monkeypatch.setattr(solver, "_jacobian", lambda *_: np.zeros((3, 3)))
    monkeypatch.setattr(solver, "_error", lambda *_: np.array([error, error, 1.0]))
    assert solver.solve(reduce(Task(), Learner()), 0.5).level == levels[-1]
    return levels


def test_finer_rules_only_where_they_matter(monkeypatch):
    """The first rule if its error is small; all of them if not; not the finest where minima compete."""
    assert _levels_tried(monkeypatch, follow=False, error=0.5 * solver.FINE_ENOUGH) == [1]
    assert _levels_tried(monkeypatch, follow=False, error=2.0 * solver.FINE_ENOUGH) == [1, 2, 3]
    assert _levels_tried(monkeypatch, follow=True, error=2.0 * solver.FINE_ENOUGH) == [1, 2]


def test_two_ways_through_sigma_lead_to_the_solution():
    """`walk` from a small Sigma at fixed λ, `relax` from emergence at fixed α: both end close to the solution."""
    task, learner = Task(noise=0.4), Learner(weight_decay=0.03)
    problem, point = reduce(task, learner), predict(task, learner, 0.4)
    state = np.log([point.q, point.m, point.sigma])
    # a coarse rule and a loose end: within a few per cent
    assert walk(problem, 0.4, 0) == pytest.approx(state, abs=0.05)
    assert relax(problem, 0.4, 0) == pytest.approx(state, abs=0.05)
    direct = Learner(param="direct", weight_decay=0.03)
    point = predict(task, direct, 0.4)
    assert walk(reduce(task, direct), 0.4, 0) == pytest.approx(np.log([point.q, point.m, point.sigma]), abs=0.05)


def test_recovery_of_a_narrow_learner_lies_between_two_closed_forms():
    """A learner exactly as wide as the target needs k - k²/2, the Bayes-optimal ratio; more width needs more data (4.4)."""
    task = Task(target=MarchenkoPastur(kappa0=0.3), noise=0.0)

    def at(width):
        return recovery(reduce(task, Learner(width=width, weight_decay="0+")))

    ratios = [at(width) for width in (0.3, 0.31, 0.35, 0.4, 0.5, 1.0)]
    assert ratios[0] == pytest.approx(bayes_optimal(reduce(task, Learner())), rel=1e-9)
    assert (np.diff(ratios) >= -1e-12).all()
    assert ratios[1] > ratios[0]
    assert at(0.999999) == pytest.approx(ratios[-1], rel=1e-9)
    with pytest.raises(OutsideDomain, match="narrower"):
        at(0.29)


@pytest.mark.parametrize("learner", [Learner(param="direct", weight_decay=1e4), Learner(weight_decay="0+")])
def test_only_decayed_factors_vanish(learner):
    """A nuclear norm sets the whole map to zero, a square norm and no norm at all never do (4.6)."""
    assert not is_zero(reduce(Task(), learner), 1e-3)
    assert is_zero(reduce(Task(), Learner(weight_decay=1e4)), 1e-3)
