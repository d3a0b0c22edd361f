"""Alignment of long sequences: samples needed, spread over the share of positives, balanced bias rate."""

import numpy as np
import pytest
from tests.support.refusals import refusal

from onehead.sparse import Protocol, Task, align
from onehead.sparse.training.samplers import first_steps

LONG = Task(length=400, strength=6.1194)
PLAN = Protocol(alpha0=6.9823)


@pytest.mark.parametrize(
    ("length", "strength", "alpha0"), [(1000, 6.0, 10.0), (1000, 6.0, 30.0), (10_000, 8.0, 50.0), (10_000, 8.0, 200.0)]
)
def test_closed_form_of_long_sequences(length, strength, alpha0):
    """tan^2 = x/(pi (1-pi) theta^4 nu^2) (1 + x/(pi^2 theta^2 R^2)) with x = L/alpha0, up to O(1/L)."""
    task = Task(length=length, strength=strength)
    found = align(task, Protocol(alpha0=alpha0, eta_b=4.0, eta_w=1e-3))
    x = length / alpha0
    tan2 = 4.0 * x / (strength**4 * task.mask_variance**2) * (1.0 + 4.0 * x / strength**2)
    assert found.cos_query == pytest.approx(1.0 / np.sqrt(1.0 + tan2), abs=1e-3)


def test_samples_needed_reach_a_cosine_of_one_over_root_two():
    task = Task(length=2000, strength=7.0, positive_rate=0.3)
    first = align(task, Protocol())
    plan = Protocol(alpha0=first.samples_needed, eta_b=first.balanced_bias_rate, eta_w=1e-3)
    assert align(task, plan).cos_query == pytest.approx(np.sqrt(0.5), abs=0.01)  # corrections of order 1/L and eta_w
    assert align(Task(strength=0.0), Protocol()).samples_needed == np.inf


def test_spread_over_the_share_of_positives():
    """Mean and standard deviation of 4,000 sampled shares by an independent implementation: 0.582 and 0.171."""
    found = align(LONG, PLAN, dim=400)
    assert found.cos_query_mean == pytest.approx(0.582, abs=3.0 * 0.171 / np.sqrt(4000))
    assert found.cos_query_spread == pytest.approx(0.171, abs=0.006)
    assert "eta_b = 4" in found.certificate.warnings[0]
    assert align(LONG, PLAN).cos_query_mean is None


def test_sampled_queries_have_the_predicted_spread():
    """Exact-in-law samples at d = L = 100; ordinary fluctuations of order 0.1 come on top."""
    task, plan = Task(length=100, strength=5.365), Protocol(alpha0=400 / 5.365**3)
    sampled = np.array([first_steps(task, plan, 100, np.random.default_rng([2, run])).cos for run in range(40)])
    found = align(task, plan, dim=100)
    assert abs(sampled.mean() - found.cos_query_mean) < 4.0 * sampled.std() / np.sqrt(40)
    assert found.cos_query - sampled.mean() > 2.0 * sampled.std() / np.sqrt(40)  # the plain formula is too high


def test_balanced_bias_rate_removes_the_spread():
    balanced = align(LONG, PLAN.changed(eta_b=4.0), dim=400)
    assert balanced.cos_query_spread == pytest.approx(0.006, abs=1e-3)
    assert not balanced.certificate.warnings
    assert align(Task(positive_rate=0.2), Protocol()).balanced_bias_rate == pytest.approx(4.62, abs=0.005)
    assert align(Task(positive_rate=0.2), Protocol(loss="square")).balanced_bias_rate == 1.0
    assert align(Task(), Protocol(loss="hinge")).balanced_bias_rate is None


def test_small_dimensions_are_refused():
    assert refusal(align, LONG, PLAN, dim=2).name == "dim"
