"""The hinge readout by multipliers: compared with an interior-point method, its dual, and the size of its systems."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onehead.sparse.losses import Hinge
from onehead.sparse.training import margin, minimise
from onehead.sparse.training.margin import minimise_hinge
from onehead.sparse.training.minimise import fit
from onehead.sparse.training.samplers import LabelledFeatures


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
def test_hinge_minimiser_agrees_with_the_interior_point_method(samples, dim, signal, share, digits, seed):
    X, y = data(samples, dim, signal, share, seed)
    assume(len(set(y)) == 2)
    ridge = 10.0**digits
    found = minimise_hinge(X, y, ridge)
    other = minimise._interior_hinge(X, y, ridge)
    if found.converged:
        w, b = found.solution[:-1], found.solution[-1]
        ours, theirs = objective(X, y, ridge, w, b), objective(X, y, ridge, other.weights, other.bias)
        assert ours <= theirs * (1.0 + 4e-9) + 1e-15  # four times the tolerance of the duality gap
        assert theirs <= ours * (1.0 + 2e-7) + 1e-12  # the tolerance of the interior-point method


@pytest.mark.parametrize("ridge", [1e-1, 1e-3, 1e-7])
def test_hinge_minimiser_converges_with_feasible_multipliers(ridge):
    X, y = data(300, 120, 1.5, 0.5, 0)
    found = minimise_hinge(X, y, ridge)
    assert found.converged
    w, b = found.solution[:-1], found.solution[-1]
    assert found.gap <= 3e-9 * objective(X, y, ridge, w, b)
    # multipliers of the samples on the margin make the gradient zero
    z = y * (X @ w + b)
    inside = np.abs(z - 1.0) < 1e-6
    fixed = (z < 1.0 - 1e-6) / len(y)
    left = ridge * w - (fixed * y) @ X
    a = np.linalg.lstsq(np.vstack([(y[:, None] * X)[inside].T, y[inside]]), np.append(left, -fixed @ y), rcond=None)[0]
    assert np.max(np.abs((y[inside] * a) @ X[inside] - left)) < 1e-6 * np.max(np.abs(ridge * w))
    assert a.min() > -1e-9 and a.max() < 1.0 / len(y) + 1e-9


def test_hard_margins_are_not_below_one_by_rounding():
    X, y = data(60, 80, 3.0, 0.5, 4)
    found = minimise_hinge(X, y, 1e-4)
    assert found.converged
    assert np.all(y * (X @ found.solution[:-1] + found.solution[-1]) >= 1.0 - 1e-15)


def test_hinge_minimiser_solves_few_and_small_systems(monkeypatch):
    X, y = data(600, 300, 1.0, 0.5, 1)
    sizes = []
    newton = margin._AugmentedLagrangian.newton

    def counted(self, gradient, J):
        sizes.append(len(J))
        return newton(self, gradient, J)

    monkeypatch.setattr(margin._AugmentedLagrangian, "newton", counted)
    monkeypatch.setattr(minimise, "_interior_hinge", None)
    fit(LabelledFeatures(y, X), Hinge(), 1e-3)
    assert len(sizes) < 40
    assert max(sizes) <= 300


def test_interior_point_method_takes_over_where_the_minimiser_stalls(monkeypatch):
    X, y = data(80, 20, 1.0, 0.5, 2)
    best = fit(LabelledFeatures(y, X), Hinge(), 1e-2)
    monkeypatch.setattr(margin, "MAX_NEWTON_STEPS", 1)
    assert not minimise_hinge(X, y, 1e-2).converged
    other = fit(LabelledFeatures(y, X), Hinge(), 1e-2)
    assert objective(X, y, 1e-2, other.weights, other.bias) == pytest.approx(
        objective(X, y, 1e-2, best.weights, best.bias), rel=1e-6
    )
