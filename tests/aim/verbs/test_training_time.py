"""Singular values at a finite time of gradient descent (M9)."""

import numpy as np
import pytest

from onehead import aim
from onehead.aim import Learner, Task
from onehead.errors import InvalidArgument

DECAY = 0.3


@pytest.fixture(scope="module")
def point():
    return aim.predict(Task(attention="cross"), Learner(weight_decay=DECAY), 1.0)


def test_every_direction_follows_its_equation(point):
    """M9.3 solves s' = 2 s (mhat x - λ - Sigmahat s); differences in time against the right-hand side."""
    step, places = 1e-4, np.array([0.3, 0.9, 1.1, 2.0]) * point.threshold
    early, now, late = (aim.training_time(point, 5.0 + k * step).value_at(places) for k in (-1, 0, 1))
    # conjugate fields in units of λ: λ = mhat ε, Sigmahat = mhat/slope
    m_hat = 1.0 / point.threshold
    wanted = 2.0 * now * (m_hat * places - 1.0 - m_hat / point.slope * now)
    np.testing.assert_allclose((late - early) / (2.0 * step), wanted, rtol=1e-5)


def test_the_spectrum_of_the_minimum_is_reached(point):
    late = aim.training_time(point, 1e4)
    law = aim.spectrum(point)
    assert late.mean == pytest.approx(law.mean, rel=1e-3)
    assert late.second_moment == pytest.approx(law.second_moment, rel=1e-3)
    assert late.rank_above == pytest.approx(point.rank, abs=2e-3)


def test_the_rank_is_approached_as_one_over_time(point):
    # a low cut: at late times kept directions close to the threshold lie below a high one
    gaps = [aim.training_time(point, time, cut=1e-9).rank_above - point.rank for time in (200.0, 400.0)]
    assert gaps[0] / gaps[1] == pytest.approx(2.0, rel=0.1)
    found = aim.training_time(point, 40.0)
    law = point.channel.law(point.spread)
    place = point.threshold * (1.0 - np.log(found.start / found.cut) / (2.0 * 40.0))
    assert found.rank_above == pytest.approx(2.0 * law.mass_above(place), abs=0.02)  # (M9.4) is for late times


def test_the_faintest_value_decays_with_twice_the_weight_decay(point):
    found = aim.training_time(point, 9.0, start=0.09)
    assert np.log(found.faintest / 0.09) == pytest.approx(-18.0, abs=0.3)  # up to a factor of order one


def test_values_of_a_run_of_gradient_descent(point):
    """log10 of every fourth of 60 singular values of a run at t = 30; its own theory is within 0.3 down to 1e-3."""
    measured = [0.23, 0.07, -0.09, -0.23, -0.40, -0.71, -0.98, -1.78, -2.93]
    found = np.log10(aim.training_time(point, DECAY * 30.0, start=0.09).quantiles(60)[:36:4])
    np.testing.assert_allclose(found, measured, atol=0.4)


def test_time_needed(point):
    found = aim.training_time(point, 5.0)
    then = aim.training_time(point, found.time_needed)
    left = (then.rank_above - point.rank) / (1.0 - point.rank)
    assert left == pytest.approx(0.1, abs=1e-3)


def test_density_has_the_mass_of_all_directions(point):
    found = aim.training_time(point, 9.0)
    assert np.trapezoid(found.density_values, np.log10(found.x)) == pytest.approx(1.0, abs=1e-3)


def test_adam_is_named_beyond_two_decades(point):
    assert not any("Adam" in text for text in aim.training_time(point, 2.0).certificate.warnings)
    assert any("Adam" in text for text in aim.training_time(point, 3.0).certificate.warnings)


@pytest.mark.parametrize(
    ("task", "learner"),
    [({"attention": "tied"}, {}), ({"attention": "self"}, {}), ({}, {"param": "direct"}), ({"heads": 2}, {})],
)
def test_heads_without_this_law_are_refused(task, learner):
    found = aim.predict(Task(**{"attention": "cross", **task}), Learner(weight_decay=DECAY, **learner), 1.0)
    with pytest.raises(InvalidArgument):
        aim.training_time(found, 1.0)


def test_a_narrow_learner_is_refused():
    """Its map has at most width times d singular values, of which the law in time would count more."""
    point = aim.predict(Task(attention="cross"), Learner(weight_decay=0.01, width=0.4), 1.0)
    with pytest.raises(InvalidArgument, match="width must be at least 1 for singular values in time"):
        aim.training_time(point, 3.0)


@pytest.mark.parametrize("start", [1e-6, 0.1, 1e3, 1e6])
def test_training_starts_where_it_is_told(point, start):
    values = aim.training_time(point, 1e-13, start=start).value_at(np.array([0.3, 1.0, 2.0]) * point.threshold)
    # s' = 2 s (mhat x - λ - Sigmahat s), in units of λ: change of the logarithm in a time of 1e-13
    np.testing.assert_allclose(values, start, rtol=1e-12 * (1.0 + start / point.slope / point.threshold))


def test_a_start_without_bound_is_refused(point):
    with pytest.raises(InvalidArgument, match="start must be a number > 0 and <= 1e\\+06; got 1e\\+300"):
        aim.training_time(point, 1.0, start=1e300)
