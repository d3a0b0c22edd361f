"""The search for the best weight decay on errors made up for it."""

from types import SimpleNamespace

import numpy as np
import pytest

from onehead.aim import Learner, Task, tune
from onehead.aim.verbs import tune as tuning
from onehead.aim.verbs.tune import ACCURACY, FLAT, _flat_range
from onehead.results import Certificate


def _valley(monkeypatch, error, slope):
    """The bottom on a made-up error of log λ: the place it finds and the solves it took."""
    calls = []

    def at(x):
        calls.append(x)
        return SimpleNamespace(test_error=error(x), x=x, learner=SimpleNamespace(decay=float(np.exp(x))))

    monkeypatch.setattr(tuning, "decay_slope", lambda point: slope(point.x))
    start = at(0.3)
    best = tuning._bottom(at, -3.0, 2.0, start)
    return best, len(calls) - 1


@pytest.mark.parametrize("place", [-2.7, -1.0, 0.3, 1.4])
def test_the_bottom_of_a_parabola_is_found_in_few_solves(monkeypatch, place):
    """A secant is exact on a straight slope: ends and middle, then one step that lands on the root."""
    best, solves = _valley(monkeypatch, lambda x: 1.0 + (x - place) ** 2, lambda x: 2.0 * (x - place))
    assert best.x == pytest.approx(place, abs=ACCURACY)
    assert solves <= 6


def test_the_bottom_of_a_lopsided_valley(monkeypatch):
    """error = exp(x) - 2 x has its minimum at log 2; its slopes differ by a factor of ten on the two sides."""
    best, solves = _valley(monkeypatch, lambda x: np.exp(x) - 2.0 * x, lambda x: np.exp(x) - 2.0)
    assert best.x == pytest.approx(np.log(2.0), abs=2.0 * ACCURACY)
    assert solves <= 15


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
