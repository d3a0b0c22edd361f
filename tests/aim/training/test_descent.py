"""Gradient descent beside the law of singular values at a finite time (M9)."""

import numpy as np
import pytest

from onehead import aim
from onehead.aim import Learner, Method, Task
from onehead.errors import InvalidArgument

TASK, LEARNER, START = Task(attention="cross"), Learner(weight_decay=0.3), 0.09


@pytest.fixture(scope="module")
def run():
    return aim.gradient_descent(TASK, LEARNER, dim=30, alpha=1.0, times=[3.0, 6.0, 9.0], start=START, rate=0.05)


def test_imbalance_falls_as_twice_the_weight_decay(run):
    # exactly exp(-2 λ t) for a flow (M9.1); steps of rate η change the exponent by a share of order η, and keep a small
    # imbalance alive, which is larger than that of the flow at the last time
    np.testing.assert_allclose(np.log(run.imbalance[:2]), [-6.0, -12.0], rtol=2.0 * run.rate)


def test_directions_fade_with_the_rates_of_the_law(run):
    """d log s/dt = -2 λ (1 - x/ε) with the pull x of each direction at the minimum of the same run (M9.2)."""
    slopes = np.diff(np.log(run.values[1:]), axis=0)[0] / (2.0 * (run.times[2] - run.times[1]))
    point = aim.predict(TASK, LEARNER, 1.0)
    law = point.channel.law(point.spread)
    shares = (np.arange(30) + 0.5) / 30
    places = np.array([law.quantile_above(0.5 * share) for share in shares]) / point.threshold
    fading = slice(18, 28)  # those below the threshold, without the two faintest, whose slopes scatter more
    # 2/d: places of single values of one target scatter by 0.06 at this dimension
    np.testing.assert_allclose(1.0 + slopes[fading], places[fading], atol=0.15)


@pytest.mark.parametrize("k", [0, 1, 2])
def test_singular_values_follow_the_law(run, k):
    law = aim.training_time(aim.predict(TASK, LEARNER, 1.0), run.times[k], start=START)
    measured, expected = np.log10(run.values[k]), np.log10(law.quantiles(30))
    above = expected > -3.0
    # prefactors of order one, up to a decade for faint values; three of thirty values for the scatter of the share
    np.testing.assert_allclose(measured[above], expected[above], atol=1.0)
    np.testing.assert_allclose(measured[:15], expected[:15], atol=0.2)
    assert run.rank_above[k] == pytest.approx(law.rank_above, abs=0.1)


def test_the_minimum_of_train_is_approached():
    """Descent and L-BFGS have the same instance; kept directions are where the minimum has them."""
    late = aim.gradient_descent(TASK, LEARNER, dim=16, alpha=1.0, times=[30.0])
    method = Method(starts=1, test_samples=500, tolerance=1e-5)
    found = aim.train(TASK, LEARNER, dim=16, alpha=1.0, seeds=1, method=method).runs[0]
    assert late.train_loss[0] == pytest.approx(found.train_loss, rel=1e-4)
    np.testing.assert_allclose(late.values[0, :6], np.sort(found.eigenvalues)[::-1][:6], rtol=0.02)


@pytest.mark.parametrize(
    ("task", "learner", "changes", "said"),
    [
        ({"attention": "tied"}, {}, {}, "task must be that of one untied head"),
        ({"heads": 2}, {}, {}, "heads must be 1 for gradient_descent"),
        ({}, {"param": "direct"}, {}, "trained through factors"),
        ({}, {}, {"times": [0.0]}, "times must be a list of numbers > 0"),
        ({}, {}, {"times": [1e6]}, "times must be at most"),
        ({}, {}, {"rate": 50.0, "times": [1500.0]}, "rate must be smaller: gradient descent diverges"),
        ({}, {"weight_decay": "0+"}, {}, "weight_decay must be a number > 0"),
    ],
)
def test_what_has_no_law_is_refused(task, learner, changes, said):
    arguments = {"dim": 8, "alpha": 1.0, "times": [0.1], **changes}
    with pytest.raises(InvalidArgument, match=said):
        aim.gradient_descent(
            Task(**{"attention": "cross", **task}), Learner(**{"weight_decay": 0.3, **learner}), **arguments
        )
