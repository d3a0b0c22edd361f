"""The search for the best weight decay on errors made up for it."""

from types import SimpleNamespace

import numpy as np
import pytest

from onehead.aim import Learner, Task, tune
from onehead.aim.verbs import tune as tuning
from onehead.aim.verbs.tune import ACCURACY, FLAT, _flat_range
from onehead.results import Certificate


def _made_up(error):
    """Points of a made-up error of log λ, and how often one was solved for."""
    calls = []

    def at(x):
        calls.append(x)
        return SimpleNamespace(test_error=error(x), x=x, learner=SimpleNamespace(decay=float(np.exp(x))))

    return at, calls


def _bottom(monkeypatch, error, slope):
    """The bottom of the lowest valley between points 2.5 apart: the place it finds and the solves it took."""
    at, calls = _made_up(error)
    monkeypatch.setattr(tuning, "decay_slope", lambda point: slope(point.x))
    valley = tuning._lowest_valley([at(x) for x in (2.0, -0.5, -3.0)])
    calls.clear()
    return tuning._bottom(at, valley), len(calls)


@pytest.mark.parametrize("place", [-2.7, -1.0, 0.3, 1.4])
def test_the_bottom_of_a_parabola_is_found_in_few_solves(monkeypatch, place):
    """A cubic is exact on it but for the grid of its bottom, and so is a secant."""
    best, solves = _bottom(monkeypatch, lambda x: 1.0 + (x - place) ** 2, lambda x: 2.0 * (x - place))
    assert best.x == pytest.approx(place, abs=ACCURACY)
    assert solves <= 2


def test_the_bottom_of_a_lopsided_valley(monkeypatch):
    """error = exp(x) - 2 x has its minimum at log 2; its slopes differ by a factor of ten on the two sides."""
    best, solves = _bottom(monkeypatch, lambda x: np.exp(x) - 2.0 * x, lambda x: np.exp(x) - 2.0)
    assert best.x == pytest.approx(np.log(2.0), abs=ACCURACY)
    assert solves <= 4


def test_of_two_valleys_the_lower_one_is_found_though_no_point_lies_in_it(monkeypatch):
    """error = 1 - 0.5 exp(-8 (x - 1.2)²) + 0.02 x²: the deep valley lies between points at 0.8 and 2."""
    error = lambda x: 1.0 - 0.5 * np.exp(-8.0 * (x - 1.2) ** 2) + 0.02 * x**2  # noqa: E731
    slope = lambda x: 8.0 * (x - 1.2) * np.exp(-8.0 * (x - 1.2) ** 2) + 0.04 * x  # noqa: E731
    at, _ = _made_up(error)
    monkeypatch.setattr(tuning, "decay_slope", lambda point: slope(point.x))
    points = [at(x) for x in (-3.0, -1.0, 0.8, 2.0)]
    assert points[1].test_error == pytest.approx(1.02, abs=1e-3)
    best = tuning._bottom(at, tuning._lowest_valley(points))
    assert best.x == pytest.approx(1.19, abs=0.02)
    assert tuning._lowest_valley(points[:2]) is None


def test_a_neighbours_best_is_followed_in_few_solves(monkeypatch):
    """Two places for the curvature, one at the root of the secant; nothing where the valley is lost or the map zero."""
    place = -3.0
    at, calls = _made_up(lambda x: 1.0 + np.cosh(x - place))

    def made_up(task, learner, alpha, near=None, **words):
        return at(float(np.log(learner.decay)))

    monkeypatch.setattr(tuning, "predict", made_up)
    monkeypatch.setattr(tuning, "decay_slope", lambda point: np.sinh(point.x - place))
    near = SimpleNamespace(learner=Learner(weight_decay=float(np.exp(place + 0.2))))
    best = tuning._follow(Task(), Learner(), 0.5, near)
    assert best.x == pytest.approx(place, abs=ACCURACY)
    assert len(calls) <= 4
    far = SimpleNamespace(learner=Learner(weight_decay=float(np.exp(place + 3.0))))
    assert tuning._follow(Task(), Learner(), 0.5, far) is None
    for flat in (lambda point: 0.0, lambda point: -np.sinh(point.x - place)):
        monkeypatch.setattr(tuning, "decay_slope", flat)
        assert tuning._follow(Task(), Learner(), 0.5, near) is None


def test_few_points_are_solved_for(monkeypatch):
    """Where the limit cannot be best it is not solved for; the scan is rough, what lies close to the best is not."""
    asked, solve = [], tuning.predict

    def counted(task, learner, alpha, near=None, accuracy=None):
        asked.append((learner.decay, accuracy))
        return solve(task, learner, alpha, near=near, accuracy=accuracy)

    monkeypatch.setattr(tuning, "predict", counted)
    best = tune(Task(), Learner(), 0.5)
    assert len(asked) <= 15
    assert 0.0 not in [decay for decay, _ in asked]
    assert dict(asked)[best.weight_decay] is None  # the usual one
    assert {accuracy for _, accuracy in asked} == {None, 1e-3}
    # a quartic through nine errors from 0.03 to 0.075 with accuracy 1e-5 is lowest at 0.04801, by 0.1212068
    assert best.weight_decay == pytest.approx(0.04801, rel=0.02)
    assert best.test_error == pytest.approx(0.1212068, rel=1e-4)
    assert best.errors["test_error"] < 1e-4 * best.test_error


def test_the_flat_range_of_a_parabola_is_its_width():
    """error = 1 + c (x - x0)²: within FLAT of the best for |x - x0| <= sqrt(FLAT / c), x the logarithm of λ."""
    x = np.linspace(-4.0, 4.0, 161)
    c, x0 = 4.0 * FLAT, 0.5
    errors = dict(zip(np.exp(x).tolist(), (1.0 + c * (x - x0) ** 2).tolist(), strict=True))
    winner = min(errors, key=lambda decay: errors[decay])
    slopes = {decay: 2.0 * c * (np.log(decay) - x0) for decay in errors}
    low, high = np.log(_flat_range(errors, slopes, winner))
    # the curve through points 0.05 apart is off by less than the square of that
    assert low == pytest.approx(x0 - 0.5, abs=5e-3)
    assert high == pytest.approx(x0 + 0.5, abs=5e-3)


def test_the_flat_range_at_the_limit():
    def flat_range(errors, winner):
        """With the slopes of straight lines to the next one."""
        tried = sorted(decay for decay in errors if decay > 0.0)
        slopes = np.gradient([errors[decay] for decay in tried], np.log(tried))
        return _flat_range(errors, dict(zip(tried, slopes.tolist(), strict=True)), winner)

    rising = {0.1: 1.0 + 0.5 * FLAT, 1.0: 1.0 + 2.0 * FLAT, 10.0: 1.0 + 4.0 * FLAT}
    low, high = flat_range({0.0: 1.0, **rising}, 0.0)
    assert low == 0.0
    assert 0.1 < high < 1.0
    # the smallest weight decay is the last that is as good, or already too much
    assert flat_range({0.0: 1.0, 0.1: 1.0 + FLAT * (1.0 - 1e-9), 1.0: 50.0, 10.0: 90.0}, 0.0) == pytest.approx(
        (0.0, 0.1)
    )
    assert flat_range({0.0: 1.0, 0.1: 1.1, 1.0: 1.2, 10.0: 1.3}, 0.0) == (0.0, 0.0)
    # best at the smallest one tried: the range goes on to the limit only if the limit is as good
    falling = {0.1: 1.0, 1.0: 2.0, 10.0: 3.0}
    assert flat_range({0.0: 1.0 + 0.5 * FLAT, **falling}, 0.1)[0] == 0.0
    assert flat_range({0.0: 1.5, **falling}, 0.1)[0] == pytest.approx(0.1)


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

    def made_up(task, learner, alpha, near=None, **words):
        decay = learner.decay
        x = float(np.log(decay)) if decay > 0.0 else -np.inf
        return SimpleNamespace(test_error=error(max(x, -99.0)), certificate=certificate, learner=learner, x=x)

    def slope(point):
        return (error(point.x + 1e-4) - error(point.x - 1e-4)) / 2e-4

    monkeypatch.setattr(tuning, "predict", made_up)
    monkeypatch.setattr(tuning, "_top_decay", lambda *_: 1.0)
    monkeypatch.setattr(tuning, "decay_slope", slope)
    best = tune(Task(), Learner(weight_decay=0.5), 0.3)
    assert status in best.certificate.status
    assert best.gain == pytest.approx(error(np.log(0.5)) - best.test_error, abs=1e-12)
    assert best.scan == tuple(sorted(best.scan))
    if place is not None:
        assert np.log(max(best.weight_decay, 1e-300)) == pytest.approx(max(place, np.log(1e-300)), abs=2e-3)
        assert best.test_error == pytest.approx(error(max(place, -99.0)), abs=1e-5)
