"""The search for the best weight decay, on given functions of log λ in place of predictions."""

import time
from types import SimpleNamespace

import numpy as np
import pytest

from onehead.aim import Learner, Task, tune
from onehead.aim.solve.certificate import AimCertificate
from onehead.aim.verbs import decay_bracket
from onehead.aim.verbs import tune as tuning
from onehead.aim.verbs.decay_bracket import LOG_DECAY_TOLERANCE, lowest_bracket, refine_minimum
from onehead.aim.verbs.tune import FLAT_TOLERANCE, _flat_range
from onehead.errors import NotConverged


def _solver_of(error):
    """Function that returns points with this error as a function of log λ, and the list of its calls."""
    calls = []

    def at(x):
        calls.append(x)
        return SimpleNamespace(test_error=error(x), x=x, learner=SimpleNamespace(decay=float(np.exp(x))))

    return at, calls


def _set_slope(monkeypatch, slope):
    """Let both searches use this slope of the error in log λ."""
    for module in (tuning, decay_bracket):
        monkeypatch.setattr(module, "decay_slope", slope)


def _find_minimum(monkeypatch, error, slope):
    """Lowest minimum between points 2.5 apart, and the number of solves it took."""
    at, calls = _solver_of(error)
    _set_slope(monkeypatch, lambda point: slope(point.x))
    bracket = lowest_bracket([at(x) for x in (2.0, -0.5, -3.0)])
    calls.clear()
    return refine_minimum(at, bracket), len(calls)


@pytest.mark.parametrize("minimum", [-2.7, -1.0, 0.3, 1.4])
def test_the_minimum_of_a_parabola_is_found_in_few_solves(monkeypatch, minimum):
    """Cubic interpolation is exact but for its grid, and so is a secant step."""
    best, solves = _find_minimum(monkeypatch, lambda x: 1.0 + (x - minimum) ** 2, lambda x: 2.0 * (x - minimum))
    assert best.x == pytest.approx(minimum, abs=LOG_DECAY_TOLERANCE)
    assert solves <= 2


def test_the_minimum_of_an_asymmetric_function_is_found(monkeypatch):
    """error = exp(x) - 2 x has its minimum at log 2; its slopes differ by a factor of ten on the two sides."""
    best, solves = _find_minimum(monkeypatch, lambda x: np.exp(x) - 2.0 * x, lambda x: np.exp(x) - 2.0)
    assert best.x == pytest.approx(np.log(2.0), abs=LOG_DECAY_TOLERANCE)
    assert solves <= 4


def test_the_lower_of_two_minima_is_found_although_no_scanned_point_is_near_it(monkeypatch):
    """error = 1 - 0.5 exp(-8 (x - 1.2)²) + 0.02 x²: the lower minimum lies between points at 0.8 and 2."""
    error = lambda x: 1.0 - 0.5 * np.exp(-8.0 * (x - 1.2) ** 2) + 0.02 * x**2  # noqa: E731
    slope = lambda x: 8.0 * (x - 1.2) * np.exp(-8.0 * (x - 1.2) ** 2) + 0.04 * x  # noqa: E731
    at, _ = _solver_of(error)
    _set_slope(monkeypatch, lambda point: slope(point.x))
    points = [at(x) for x in (-3.0, -1.0, 0.8, 2.0)]
    assert points[1].test_error == pytest.approx(1.02, abs=1e-3)
    best = refine_minimum(at, lowest_bracket(points))
    assert best.x == pytest.approx(1.19, abs=0.02)
    assert lowest_bracket(points[:2]) is None


def test_the_minimum_of_a_neighbour_is_followed_in_few_solves(monkeypatch):
    """Two solves for the curvature, one at the root of the secant; None where the minimum is too far away or the map is
    zero.
    """
    minimum = -3.0
    at, calls = _solver_of(lambda x: 1.0 + np.cosh(x - minimum))

    def solve(task, learner, alpha, near=None, **options):
        return at(float(np.log(learner.decay)))

    monkeypatch.setattr(tuning, "predict", solve)
    _set_slope(monkeypatch, lambda point: np.sinh(point.x - minimum))
    near = SimpleNamespace(learner=Learner(weight_decay=float(np.exp(minimum + 0.2))))
    best = tuning._follow(Task(), Learner(), 0.5, near)
    assert best.x == pytest.approx(minimum, abs=LOG_DECAY_TOLERANCE)
    assert len(calls) <= 4
    far = SimpleNamespace(learner=Learner(weight_decay=float(np.exp(minimum + 3.0))))
    assert tuning._follow(Task(), Learner(), 0.5, far) is None
    for flat in (lambda point: 0.0, lambda point: -np.sinh(point.x - minimum)):
        _set_slope(monkeypatch, flat)
        assert tuning._follow(Task(), Learner(), 0.5, near) is None


def test_the_search_takes_few_solves_and_scans_with_low_accuracy(monkeypatch):
    """The limit 0+ is not solved where it cannot be best; only points near the minimum have the default accuracy."""
    asked, solve = [], tuning.predict

    def counted(task, learner, alpha, near=None, accuracy=None):
        asked.append((learner.decay, accuracy))
        return solve(task, learner, alpha, near=near, accuracy=accuracy)

    monkeypatch.setattr(tuning, "predict", counted)
    best = tune(Task(), Learner(), 0.5)
    assert len(asked) <= 15
    assert 0.0 not in [decay for decay, _ in asked]
    assert dict(asked)[best.weight_decay] is None  # the default
    assert {accuracy for _, accuracy in asked} == {None, 1e-3}
    # where the neighbour is far above the lowest error the default rules are enough: no finer one is tried
    lowest = min(error for _, error in best.scan)
    high = tuning.FAR_ABOVE * lowest
    _, *far = sorted((d for d, error in best.scan if error > high and d < best.weight_decay), reverse=True)
    assert len(far) >= 1
    assert all(dict(asked)[decay] is None for decay in far)
    # a quartic through nine errors from 0.03 to 0.075 with accuracy 1e-5 is lowest at 0.04801, by 0.1212068
    assert best.weight_decay == pytest.approx(0.04801, rel=0.02)
    assert best.test_error == pytest.approx(0.1212068, rel=1e-4)
    assert best.errors["test_error"] < 1e-4 * best.test_error


def test_the_flat_range_of_a_parabola():
    """error = 1 + c (x - x0)²: within FLAT_TOLERANCE of the best for |x - x0| <= sqrt(FLAT_TOLERANCE / c), x the
    logarithm of λ.
    """
    x = np.linspace(-4.0, 4.0, 161)
    c, x0 = 4.0 * FLAT_TOLERANCE, 0.5
    errors = dict(zip(np.exp(x).tolist(), (1.0 + c * (x - x0) ** 2).tolist(), strict=True))
    winner = min(errors, key=lambda decay: errors[decay])
    slopes = {decay: 2.0 * c * (np.log(decay) - x0) for decay in errors}
    low, high = np.log(_flat_range(errors, slopes, winner))
    # the curve through points 0.05 apart is off by less than the square of that
    assert low == pytest.approx(x0 - 0.5, abs=5e-3)
    assert high == pytest.approx(x0 + 0.5, abs=5e-3)


def test_the_flat_range_where_the_limit_is_best():
    def flat_range(errors, winner):
        """Flat range with slopes by finite differences."""
        tried = sorted(decay for decay in errors if decay > 0.0)
        slopes = np.gradient([errors[decay] for decay in tried], np.log(tried))
        return _flat_range(errors, dict(zip(tried, slopes.tolist(), strict=True)), winner)

    rising = {0.1: 1.0 + 0.5 * FLAT_TOLERANCE, 1.0: 1.0 + 2.0 * FLAT_TOLERANCE, 10.0: 1.0 + 4.0 * FLAT_TOLERANCE}
    low, high = flat_range({0.0: 1.0, **rising}, 0.0)
    assert low == 0.0
    assert 0.1 < high < 1.0
    # the smallest weight decay is just within the tolerance, or already outside
    assert flat_range(
        {0.0: 1.0, 0.1: 1.0 + FLAT_TOLERANCE * (1.0 - 1e-9), 1.0: 50.0, 10.0: 90.0}, 0.0
    ) == pytest.approx((0.0, 0.1))
    assert flat_range({0.0: 1.0, 0.1: 1.1, 1.0: 1.2, 10.0: 1.3}, 0.0) == (0.0, 0.0)
    # best at the smallest one tried: the range goes on to the limit only if the limit is as good
    falling = {0.1: 1.0, 1.0: 2.0, 10.0: 3.0}
    assert flat_range({0.0: 1.0 + 0.5 * FLAT_TOLERANCE, **falling}, 0.1)[0] == 0.0
    assert flat_range({0.0: 1.5, **falling}, 0.1)[0] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("error", "status", "minimum"),
    [
        (lambda x: 1.0 + 0.1 * (x + 5.0) ** 2, "optimum inside the range", -5.0),
        (lambda x: 1.0 + 0.1 * (x + 0.5) ** 2, "optimum inside the range", -0.5),  # above the second value tried
        (lambda x: 1.0 + 0.1 * np.exp(x), "boundary, the smaller", -np.inf),
        (lambda x: 2.0 - 0.01 * max(x, -30.0), "boundary, the larger", 0.0),
        (lambda x: 1.0 + 1e-3 * FLAT_TOLERANCE * np.cos(min(max(x, -30.0), 0.0)), "flat", None),
    ],
)
def test_the_status_says_where_the_optimum_lies(monkeypatch, error, status, minimum):
    """With given errors as functions of log λ, and a map that vanishes at λ = 1."""
    certificate = AimCertificate(status="converged", kind="claim")

    def solve(task, learner, alpha, near=None, **options):
        decay = learner.decay
        x = float(np.log(decay)) if decay > 0.0 else -np.inf
        return SimpleNamespace(test_error=error(max(x, -99.0)), certificate=certificate, learner=learner, x=x, rank=0.5)

    def slope(point):
        return (error(point.x + 1e-4) - error(point.x - 1e-4)) / 2e-4

    monkeypatch.setattr(tuning, "predict", solve)
    monkeypatch.setattr(tuning, "_vanishing_decay", lambda *_: 1.0)
    _set_slope(monkeypatch, slope)
    best = tune(Task(), Learner(weight_decay=0.5), 0.3)
    assert status in best.certificate.status
    assert best.gain == pytest.approx(error(np.log(0.5)) - best.test_error, abs=1e-12)
    assert best.scan == tuple(sorted(best.scan))
    if minimum is not None:
        assert np.log(max(best.weight_decay, 1e-300)) == pytest.approx(max(minimum, np.log(1e-300)), abs=2e-3)
        assert best.test_error == pytest.approx(error(max(minimum, -99.0)), abs=1e-5)


@pytest.mark.parametrize(("noise", "solves"), [(0.5, 5), (0.0, 11)])
def test_a_scan_ends_where_minima_compete_far_above_the_lowest_error(monkeypatch, noise, solves):
    """Of ten weight decays the third and the fourth cannot be solved, or have competing minima: with noise no fifth is
    tried. The learner's own is one more, and so is the limit without noise.
    """
    for unsolved in (True, False):
        asked = []

        def solve(task, learner, alpha, near=None, asked=asked, unsolved=unsolved, **options):
            decay = learner.decay
            asked.append(decay)
            if unsolved and decay < 0.1:
                raise NotConverged("no solution.")
            certificate = AimCertificate(status="converged", kind="claim", switch_mass=0.5 if decay < 0.1 else 0.0)
            error = 1.0 if decay > 0.1 else 2.0
            return SimpleNamespace(test_error=error, certificate=certificate, learner=learner, rank=0.5)

        monkeypatch.setattr(tuning, "predict", solve)
        monkeypatch.setattr(tuning, "_vanishing_decay", lambda *_: 1.0)
        for module in (tuning, decay_bracket):
            monkeypatch.setattr(module, "decay_slope", lambda point: 0.0)
        best = tune(Task(noise=noise), Learner(weight_decay=0.5), 0.3)
        assert best.weight_decay > 0.1
        assert len(set(asked) - {0.0}) == solves
        assert (0.0 in asked) == (noise == 0.0)


@pytest.mark.slow
def test_a_search_through_competing_minima_ends():
    """It took minutes while Newton's method made 200 steps wherever the diagonal part of a Hessian was negative."""
    task = Task(attention="cross", tokens=64, noise=1.0, beta0=4.0)
    started = time.process_time()
    best = tune(task, Learner(), 0.002)
    assert time.process_time() - started < 60.0  # 15 to 20 s of a processor that does nothing else
    assert best.point.rank == 0.0
    assert "the zero map is best" in best.certificate.status
