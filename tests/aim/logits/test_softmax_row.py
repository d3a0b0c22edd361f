"""Averages of a softmax of Gaussian logits, against a lattice for two columns and against plain sampling for more."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from onehead.aim.logits import softmax_row as softmax
from onehead.aim.logits.softmax_row import Column, SoftmaxRow
from onehead.errors import OutsideDomain

TIED = ((2.0, 1), (1.0, 1))


def row_of(shape, Q, q, m):
    """Columns of some variances and numbers; overlaps are per unit of variance."""
    return SoftmaxRow(tuple(Column(count, v * Q, v * q, v * m) for v, count in shape))


def five(row):
    return np.array([row.pp, row.yy, row.py, row.log_z, row.yh])


def on_a_lattice(columns, Q, q, m, step=0.06, radius=8.0):
    """Two columns: a softmax of two logits knows their difference only, Gaussian in the plane with its label's."""
    variance = sum(v * count for v, count in columns)
    x = step * (np.arange(-radius / step, radius / step) + 0.5)
    a, b = np.meshgrid(x, x, indexing="ij")
    weights = np.exp(-0.5 * (a * a + b * b))
    weights /= weights.sum()
    label = np.sqrt(variance * Q) * a
    own = m / Q * label + np.sqrt(variance * max(q - m * m / Q, 0.0)) * b
    y, p = (1.0 / (1.0 + np.exp(-x)) for x in (label, own))
    return np.array(
        [(weights * f).sum() for f in (p * p + (1 - p) ** 2, y * y + (1 - y) ** 2, p * y + (1 - p) * (1 - y))]
    )


@given(
    Q=st.floats(0.01, 30.0),
    share=st.floats(0.0, 1.0),
    ratio=st.floats(0.0, 2.0),
    columns=st.sampled_from([TIED, ((1.0, 2),)]),
)
@settings(max_examples=25, deadline=None)
def test_two_columns_against_a_lattice(Q, share, ratio, columns):
    q = ratio * Q
    m = share * np.sqrt(q * Q)
    found = five(row_of(columns, Q, q, m))
    # a lattice of step h resolves a sigmoid of slope sqrt(3 q) up to exp(-2 pi² / (h sqrt(3 q))): 1e-10 at q = 60 and h
    # = .06; the formula itself loses e^-30 times a polynomial, and 1e-10 at the ends
    assert np.abs(found[:3] - on_a_lattice(columns, Q, q, m)).max() < 5e-9


@pytest.mark.parametrize("columns", [((2.0, 1), (1.0, 4)), ((1.0, 8),), ((2.0, 1), (1.0, 15))])
def test_more_columns_against_sampling(columns):
    Q, q, m, size = 1.75, 1.2, 1.1, 200_000
    variance = np.repeat([v for v, _ in columns], [count for _, count in columns])
    rng = np.random.default_rng(1)
    label = np.sqrt(Q * variance) * rng.normal(size=(size, len(variance)))
    own = m / Q * label + np.sqrt((q - m * m / Q) * variance) * rng.normal(size=label.shape)
    z = np.exp(own).sum(axis=1)
    y, p = np.exp(label) / np.exp(label).sum(axis=1, keepdims=True), np.exp(own) / z[:, None]
    missed = 1.0 - y[np.arange(size), own.argmax(1)]
    values = np.stack([(p * p).sum(1), (y * y).sum(1), (p * y).sum(1), np.log(z), (y * own).sum(1), missed])
    error = values.std(axis=1) / np.sqrt(size)
    row = row_of(columns, Q, q, m)
    assert (np.abs(values.mean(axis=1) - [*five(row), row.zero_one_error]) < 4.0 * error).all()


@pytest.mark.parametrize(("columns", "spread"), [(((1.0, 2),), 2.0), (TIED, 3.0)])
def test_the_wrong_token_of_two(columns, spread):
    """E[sig(-u*) Phi(t u*) + sig(u*) Phi(-t u*)], u* ~ N(0, C Q), t = (m/Q)/sqrt(C (q - m²/Q)): the formula of two
    columns (U7).
    """
    for Q, q, m in ((1.25, 2.736786, 1.162427), (1.75, 0.4, 0.3), (3.0, 3.0, 2.9), (1.0, 1e-4, 0.5e-2)):
        u, weights = np.polynomial.hermite_e.hermegauss(200)
        u, weights = np.sqrt(spread * Q) * u, weights / weights.sum()
        t = m / Q / np.sqrt(spread * (q - m * m / Q))
        sig = 1.0 / (1.0 + np.exp(-u))
        expected = weights @ ((1.0 - sig) * ndtr(t * u) + sig * ndtr(-t * u))
        # Gauss-Hermite of a steep Phi is the worse of the two
        assert row_of(columns, Q, q, m).zero_one_error == pytest.approx(expected, abs=1e-6)


def test_the_wrong_token_of_a_learner_that_knows_nothing_or_all():
    blind, perfect = row_of(((1.0, 4),), 2.0, 1.0, 0.0), row_of(((1.0, 4),), 2.0, 2.0, 2.0)
    assert blind.zero_one_error == pytest.approx(0.75, abs=1e-9)
    rng = np.random.default_rng(0)
    h = np.sqrt(2.0) * rng.normal(size=(400_000, 4))
    top = (np.exp(h) / np.exp(h).sum(1, keepdims=True)).max(1)
    assert abs(perfect.zero_one_error - (1.0 - top.mean())) < 4.0 * top.std() / np.sqrt(len(top))


def test_limits():
    """No logits: uniform. The same logits: p = y. One column: nothing to choose."""
    nothing = row_of(((1.0, 6),), 1.0, 0.0, 0.0)
    assert nothing.pp == pytest.approx(1.0 / 6.0, abs=1e-9)
    assert nothing.py == pytest.approx(1.0 / 6.0, abs=1e-9)
    assert nothing.log_z == pytest.approx(np.log(6.0), abs=1e-9)
    same = row_of(((2.0, 1), (1.0, 3)), 2.5, 2.5, 2.5)
    assert same.py == pytest.approx(same.yy, abs=1e-9)
    assert same.pp == same.yy
    alone = row_of(((1.0, 1),), 1.3, 0.7, 0.2)
    assert five(alone) == pytest.approx([1.0, 1.0, 1.0, 0.0, 0.0], abs=1e-9)


def test_a_thousand_columns():
    """Self-averaging: E sum p² -> e^q/n with the 1/n term that a mean of exponentials has."""
    n, q = 1000, 0.8
    row = row_of(((1.0, n),), 1.25, q, 0.7)
    expected = np.exp(q) * (1.0 - (2.0 * np.exp(2.0 * q) - 3.0 * np.exp(q) + 1.0) / n) / n
    assert row.pp == pytest.approx(expected, rel=2e-4)  # the next term is of order e^(4q)/n² = 2e-5


@pytest.mark.parametrize(
    "columns",
    [
        (Column(5, 6.8, 2.2, 2.1),),
        (Column(64, 0.1, 30.0, 1.0),),
        (Column(8000, 0.22, 2.5, 0.74),),
        (Column(4000, 0.3, 32.0, 3.0), Column(4800, 0.16, 26.0, 2.0)),
        (Column(5700, 5.5, 1.7, 0.85), Column(100, 0.1, 2.9, 0.54)),
    ],
)
def test_spacing_of_the_integrals(columns, monkeypatch):
    """Averages lie between zero and one and have errors of 1e-10 + 1e-13 T, also for wide logits and long rows."""

    def averages():
        softmax._mean_bump_on.cache_clear()
        row = SoftmaxRow(columns)
        return np.array([row.pp, row.py, row.log_z]), row._summed(row.moments[0])

    allowed = 1e-10 + 1e-13 * sum(column.count for column in columns)
    found, total = averages()
    monkeypatch.setattr(softmax, "STEP", 0.2)
    monkeypatch.setattr(softmax, "WIDE", 0.8)
    expected, _ = averages()
    softmax._mean_bump_on.cache_clear()
    assert abs(total - 1.0) < allowed
    assert np.abs(found - expected).max() < allowed


@pytest.mark.parametrize("row", [(3, 400.0, 2.0, 15.0), (5, 900.0, 700.0, 600.0), (4, 2.0, 300.0, -5.0)])
def test_wide_logits_by_sampling(row):
    """Standard deviations of 20 to 30: means over 200,000 samples, in their standard errors."""
    count, q, Q, m = row
    rng = np.random.default_rng(3)
    label = np.sqrt(Q) * rng.standard_normal((200_000, count))
    learner = m / Q * label + np.sqrt(q - m * m / Q) * rng.standard_normal(label.shape)
    y, p = (np.exp(h - h.max(axis=1, keepdims=True)) for h in (label, learner))
    log_z = np.log(p.sum(axis=1)) + learner.max(axis=1)
    y, p = y / y.sum(axis=1, keepdims=True), p / p.sum(axis=1, keepdims=True)
    found = SoftmaxRow((Column(count, Q, q, m),))
    for name, sample in (("pp", (p * p).sum(1)), ("yy", (y * y).sum(1)), ("py", (p * y).sum(1)), ("log_z", log_z)):
        assert abs(getattr(found, name) - sample.mean()) < 4.0 * sample.std() / np.sqrt(len(sample)), name


def test_narrow_and_wide_logits_join():
    """Two quadratures, one over the logit and one over the bump: either side of where they change, and each good to
    1e-10.
    """
    below, above = (
        SoftmaxRow((Column(4, 2.0, q, 0.4 * q),)) for q in ((softmax.WIDE * (1.0 + e)) ** 2 for e in (-1e-9, 1e-9))
    )
    for name in ("pp", "py", "log_z"):
        assert getattr(below, name) == pytest.approx(getattr(above, name), rel=1e-8), name


def test_logits_beyond_any_table_are_refused_before_memory_ends():
    with pytest.raises(OutsideDomain, match="too wide for an average over their softmax"):
        _ = SoftmaxRow((Column(3, 1e5, 1e5, 0.5e5),)).py
    assert 0.99 < SoftmaxRow((Column(3, 2.0, 1e6, 100.0),)).pp < 1.0  # one variable is no table
