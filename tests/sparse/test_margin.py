"""The hinge readout by multipliers: the minimum that an interior point finds, its dual, and few large systems."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onehead.sparse.losses import Hinge
from onehead.sparse.training import margin, minimise
from onehead.sparse.training.margin import largest_margin
from onehead.sparse.training.minimise import fit
from onehead.sparse.training.samplers import Readable


def data(samples, dim, signal, share, seed):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(samples) < share, 1.0, -1.0)
    return rng.standard_normal((samples, dim)) + signal * y[:, None] / np.sqrt(dim), y


def objective(X, y, ridge, w, b):
    return 0.5 * ridge * w @ w + np.maximum(1.0 - y * (X @ w + b), 0.0).mean()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(4, 120),
    st.integers(1, 60),
    st.floats(0.0, 5.0),
    st.floats(0.1, 0.9),
    st.floats(-7.0, 0.5),
    st.integers(0, 99),
)
def test_no_other_search_finds_less(samples, dim, signal, share, digits, seed):
    X, y = data(samples, dim, signal, share, seed)
    assume(len(set(y)) == 2)
    ridge = 10.0**digits
    found = largest_margin(X, y, ridge)
    other = minimise._interior_hinge(X, y, ridge)
    if found.arrived:
        w, b = found.place[:-1], found.place[-1]
        ours, theirs = objective(X, y, ridge, w, b), objective(X, y, ridge, other.weights, other.bias)
        assert ours <= theirs * (1.0 + 4e-9) + 1e-15  # the gap that is asked for
        assert theirs <= ours * (1.0 + 2e-7) + 1e-12  # the gap that the interior point asks for


@pytest.mark.parametrize("ridge", [1e-1, 1e-3, 1e-7])
def test_it_arrives_and_its_gap_is_that_of_its_dual(ridge):
    X, y = data(300, 120, 1.5, 0.5, 0)
    found = largest_margin(X, y, ridge)
    assert found.arrived
    w, b = found.place[:-1], found.place[-1]
    assert found.gap <= 3e-9 * objective(X, y, ridge, w, b)
    # by the multipliers of a sample on its margin, and nobody else's, the gradient is zero
    z = y * (X @ w + b)
    inside = np.abs(z - 1.0) < 1e-6
    fixed = (z < 1.0 - 1e-6) / len(y)
    left = ridge * w - (fixed * y) @ X
    a = np.linalg.lstsq(np.vstack([(y[:, None] * X)[inside].T, y[inside]]), np.append(left, -fixed @ y), rcond=None)[0]
    assert np.max(np.abs((y[inside] * a) @ X[inside] - left)) < 1e-6 * np.max(np.abs(ridge * w))
    assert a.min() > -1e-9 and a.max() < 1.0 / len(y) + 1e-9


def test_nobody_is_inside_a_margin_by_rounding():
    X, y = data(60, 80, 3.0, 0.5, 4)
    found = largest_margin(X, y, 1e-4)
    assert found.arrived
    assert np.all(y * (X @ found.place[:-1] + found.place[-1]) >= 1.0 - 1e-15)


def test_it_solves_few_systems_and_none_of_all_samples(monkeypatch):
    X, y = data(600, 300, 1.0, 0.5, 1)
    sizes = []
    newton = margin._Step.newton

    def counted(self, gradient, J):
        sizes.append(len(J))
        return newton(self, gradient, J)

    monkeypatch.setattr(margin._Step, "newton", counted)
    monkeypatch.setattr(minimise, "_interior_hinge", None)
    fit(Readable(y, X), Hinge(), 1e-3)
    assert len(sizes) < 40
    assert max(sizes) <= 300


def test_where_it_stalls_the_interior_point_answers(monkeypatch):
    X, y = data(80, 20, 1.0, 0.5, 2)
    best = fit(Readable(y, X), Hinge(), 1e-2)
    monkeypatch.setattr(margin, "TURNS", 1)
    assert not largest_margin(X, y, 1e-2).arrived
    other = fit(Readable(y, X), Hinge(), 1e-2)
    assert objective(X, y, 1e-2, other.weights, other.bias) == pytest.approx(
        objective(X, y, 1e-2, best.weights, best.bias), rel=1e-6
    )
