"""The two gradient steps: reference values (S9), limits, signs, and the samplers (S1.5)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.problems import SmoothHinge
from tests.support.problems import sparse_task as task

from onehead.sparse import Hinge, Protocol, Square, Task, align, critical_bias_rate, misalignment_constant
from onehead.sparse.training.samplers import first_steps, token_first_steps

# alpha0, L, R, theta, pi, eta_w, eta_b, loss -> <w1,xi>, |w1|, <q2,xi>, |q2|, cos, <q2,w1> (S9)
SECTION_9 = [
    ((1, 10, 3, 6, 0.2, 0.5, 0.5, "logistic"), (0.090000, 0.119791, 0.045159, 0.054522, 0.828264, 0.002563)),
    ((2, 10, 1, 5, 0.5, 0.5, 0.5, "logistic"), (0.062500, 0.083853, 0.034168, 0.036013, 0.948756, 0.002125)),
    ((4, 10, 1, 4, 0.2, 0.5, 0.0, "logistic"), (0.020000, 0.044300, -0.002531, 0.011470, -0.220644, -0.000472)),
    ((0.5, 5, 1, 4, 0.3, 1, 1, "square"), (0.240000, 0.676461, 0.168591, 0.300767, 0.560538, 0.073230)),
    ((1, 10, 1, 5, 0.5, 3, 0.5, "hinge"), (0.750000, 1.209339, 0.621545, 0.747262, 0.831764, 0.399693)),
]


@pytest.mark.parametrize(("problem", "expected"), SECTION_9)
def test_alignment_matches_every_row_of_the_reference_table(problem, expected):
    a0, L, R, theta, pi, eta_w, eta_b, loss = problem
    found = align(task(L, R, theta, pi), Protocol(alpha0=a0, beta=1, eta_w=eta_w, eta_b=eta_b, loss=loss))
    names = ["overlap_readout", "norm_readout", "overlap_query", "norm_query", "cos_query", "query_readout"]
    assert [getattr(found, name) for name in names] == pytest.approx(expected, abs=6e-7)  # six printed decimals


# alpha0 -> cos(q2, xi), cos(w1, xi): theory columns of the alignment figure (S3)
@pytest.mark.parametrize(
    ("alpha0", "query", "readout"),
    [
        (0.25, 0.5326, 0.4947),
        (0.5, 0.7016, 0.6271),
        (1, 0.8283, 0.7513),
        (2, 0.9075, 0.8495),
        (4, 0.9520, 0.9156),
        (8, 0.9755, 0.9550),
        (16, 0.9876, 0.9767),
    ],
)
def test_cosines_match_the_alignment_figure(alpha0, query, readout):
    found = align(task(10, 3, 6, 0.2), Protocol(alpha0=alpha0))
    assert (found.cos_query, found.cos_readout) == pytest.approx((query, readout), abs=6e-5)


@pytest.mark.parametrize(
    ("problem", "norm", "cos"),
    [  # settings that are sensitive to the self term, anti-aligned ones, and a difficult hinge setting (S3)
        ((0.5, 5, 1, 4, 0.5, 5, 0.5, "logistic"), 0.3757, 0.4448),
        ((4, 10, 1, 3, 0.8, 0.5, 12, "logistic"), None, -0.7333),
        ((2, 8, 2, 2, 0.2, 1, 0.5, "square"), 0.0785, -0.0768),
        ((0.5, 5, 1, 4, 0.3, 8, 1, "hinge"), 1.1610, None),
    ],
)
def test_alignment_matches_other_reference_settings(problem, norm, cos):
    a0, L, R, theta, pi, eta_w, eta_b, loss = problem
    found = align(task(L, R, theta, pi), Protocol(alpha0=a0, beta=1, eta_w=eta_w, eta_b=eta_b, loss=loss))
    if norm is not None:
        assert found.norm_query == pytest.approx(norm, abs=6e-5)
    if cos is not None:
        assert found.cos_query == pytest.approx(cos, abs=6e-5)


def test_rising_readout_rate_flips_the_query():
    got = [align(task(10, 3, 6, 0.2), Protocol(alpha0=2, eta_w=eta)).cos_query for eta in (0.001, 0.5, 2, 5)]
    assert got == pytest.approx((0.923, 0.908, 0.805, -0.087), abs=6e-4)


@pytest.mark.parametrize(
    ("problem", "plan", "constant"),
    [((10, 3, 6, 0.2), {}, 0.199663), ((10, 1, 5, 0.5), {}, 0.081642), ((10, 1, 4, 0.2), {"eta_b": 0.0}, 36.36)],
)
def test_misalignment_constant(problem, plan, constant):
    assert misalignment_constant(task(*problem), Protocol(**plan)) == pytest.approx(constant, rel=2e-4)
    far = align(task(*problem), Protocol(alpha0=1e5, **plan))
    # the next term is of order C^2/alpha0
    assert (1.0 - abs(far.cos_query)) * 1e5 == pytest.approx(constant, rel=2e-3)


@settings(max_examples=60, deadline=None)
@given(
    L=st.integers(2, 40),
    theta=st.floats(0.5, 6.0),
    pi=st.floats(0.05, 0.95).filter(lambda p: abs(p - 0.5) > 0.02),
    loss=st.sampled_from(["logistic", "square"]),
)
def test_query_changes_sign_at_the_critical_bias_rate(L, theta, pi, loss):
    plan = Protocol(alpha0=1e6, eta_w=1e-6, loss=loss)  # the formula is for small eta_w
    critical = critical_bias_rate(task(L, 1, theta, pi), plan)
    if critical < 0.02:
        return  # all allowed rates lie on one side
    below, above = (
        align(task(L, 1, theta, pi), plan.changed(eta_b=factor * critical)).cos_query for factor in (0.98, 1.02)
    )
    # rare positives need a rate above the critical one, rare negatives below
    assert (below < 0 < above) if pi < 0.5 else (below > 0 > above)


def test_anti_alignment_is_reported_with_advice():
    found = align(task(10, 1, 4, 0.2), Protocol(alpha0=4, eta_b=0))
    assert found.certificate.status == "anti-aligned"
    assert "flip the sign of eta_q" in found.certificate.warnings[0]
    flipped = align(task(10, 1, 4, 0.2), Protocol(alpha0=4, eta_b=0, eta_q=-1))
    assert flipped.certificate.status == "aligned"
    assert flipped.cos_query == pytest.approx(-found.cos_query)


@settings(max_examples=80, deadline=None)
@given(
    L=st.integers(1, 200),
    R=st.integers(1, 5),
    theta=st.floats(0.0, 10.0),
    pi=st.floats(0.01, 0.99),
    alpha0=st.floats(0.01, 100.0),
    eta_w=st.floats(0.01, 10.0),
    eta_b=st.floats(0.0, 20.0),
    beta=st.floats(0.0, 20.0),
    loss=st.sampled_from(["logistic", "square", "hinge", "squared-hinge"]),
)
def test_limits_satisfy_cauchy_schwarz(L, R, theta, pi, alpha0, eta_w, eta_b, beta, loss):
    """Cosines are at most one, and the Gram matrix of signal, query and readout is positive."""
    found = align(
        task(L, min(R, L), theta, pi), Protocol(alpha0=alpha0, eta_w=eta_w, eta_b=eta_b, beta=beta, loss=loss)
    )
    assert abs(found.cos_query) <= 1.0 + 1e-9
    assert 0.0 <= found.cos_readout <= 1.0
    assert found.sharpness == pytest.approx(beta * found.norm_query)
    assert abs(found.overlap_query) <= found.norm_query * (1.0 + 1e-9)
    if found.norm_query > 1e-12 and found.norm_readout > 1e-12:
        between = found.query_readout / (found.norm_query * found.norm_readout)
        gram = np.array(
            [[1, found.cos_query, found.cos_readout], [found.cos_query, 1, between], [found.cos_readout, between, 1]]
        )
        assert np.linalg.eigvalsh(gram).min() > -1e-6


def test_temperature_and_query_rate_only_scale_the_query():
    base = align(Task(), Protocol(beta=1.0))
    other = align(Task(), Protocol(beta=3.0, eta_q=2.0))
    assert other.cos_query == pytest.approx(base.cos_query)
    assert other.sharpness == pytest.approx(2.0 * 9.0 * base.norm_query)


def test_alignment_is_zero_without_signal_or_with_a_single_token():
    assert align(Task(strength=0.0), Protocol()).cos_query == 0.0
    alone = align(Task(length=1), Protocol())
    assert (alone.cos_query, alone.sharpness) == (0.0, 0.0)


@pytest.mark.parametrize("loss", ["logistic", "square", "hinge", "squared-hinge", SmoothHinge(1.0)])
def test_reduced_steps_follow_the_limits_for_every_loss(loss):
    problem, plan = task(8, 2, 4, 0.4), Protocol(alpha0=1.5, eta_w=2.0, eta_b=1.0, beta=2.0, loss=loss)
    limit = align(problem, plan)
    runs = [first_steps(problem, plan, 1500, np.random.default_rng(seed)) for seed in range(16)]
    cos, sharpness = np.array([(q.cos, q.sharpness) for q in runs]).T
    # 16 trials: three and a half standard errors of the mean, plus the O(1/d) bias (S3), up to 5/d
    assert cos.mean() == pytest.approx(limit.cos_query, abs=3.5 * cos.std(ddof=1) / 4 + 5 / 1500)
    tolerance = 3.5 * sharpness.std(ddof=1) / 4 + 5 / 1500 * limit.sharpness
    assert sharpness.mean() == pytest.approx(limit.sharpness, abs=tolerance)


def test_token_level_steps_have_the_same_law():
    problem, plan = task(6, 2, 4, 0.3), Protocol(alpha0=1.0, beta=2.0)
    reduced = np.array([first_steps(problem, plan, 150, np.random.default_rng(s))[:2] for s in range(60)])
    stored = np.array([token_first_steps(problem, plan, 150, np.random.default_rng(900 + s))[:2] for s in range(60)])
    spread = np.sqrt(reduced.var(axis=0, ddof=1) / 60 + stored.var(axis=0, ddof=1) / 60)
    # two independent means of 60: four standard errors of their difference
    assert np.all(np.abs(reduced.mean(axis=0) - stored.mean(axis=0)) < 4 * spread)


@pytest.mark.parametrize("loss", [Hinge(), Square()])
def test_closed_form_slope_moments_agree_with_a_fine_grid(loss):
    z = np.linspace(-10, 10, 400_001)
    weight = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    for mean, spread in ((0.3, 0.7), (-2.0, 1.5), (1.0, 0.1)):
        slope = loss.derivative(mean + spread * z)
        expected = (weight @ slope, weight @ slope**2)
        assert loss.slope_moments(mean, spread) == pytest.approx(expected, abs=3e-5)  # grid step 5e-5 at the jump
