"""L-BFGS for readouts: the minimum found by scipy, few products with the data, and a report where it stalls."""

import numpy as np
import pytest
from scipy.optimize import minimize

from onehead.sparse.losses import Logistic, SquaredHinge
from onehead.sparse.training import descent
from onehead.sparse.training.descent import minimise_smooth
from onehead.sparse.training.minimise import fit
from onehead.sparse.training.samplers import LabelledFeatures


def data(samples, dim):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((samples, dim))
    return X, np.where(X[:, 0] + rng.standard_normal(samples) > 0.3, 1.0, -1.0)


def objective(X, y, loss, ridge, v):
    return float(loss.value(y * (X @ v[:-1] + v[-1])).mean() + 0.5 * ridge * v[:-1] @ v[:-1])


def slope(X, y, loss, ridge, v):
    h = y * loss.derivative(y * (X @ v[:-1] + v[-1])) / len(y)
    return np.append(h @ X + ridge * v[:-1], h.sum())


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge()], ids=str)
@pytest.mark.parametrize(("samples", "dim"), [(120, 30), (60, 200)])
@pytest.mark.parametrize("ridge", [1e-1, 1e-3, 1e-5])
def test_smooth_minimiser_reaches_the_minimum(loss, samples, dim, ridge):
    X, y = data(samples, dim)
    found = fit(LabelledFeatures(y, X), loss, ridge)
    v = np.append(found.weights, found.bias)
    gradient = slope(X, y, loss, ridge, v)
    assert found.residual == pytest.approx(np.max(np.abs(gradient)), rel=1e-3, abs=1e-14)
    options = {"maxiter": 5000, "maxfun": 10_000, "ftol": 0.0, "gtol": 1e-10}
    other = minimize(
        lambda u: (objective(X, y, loss, ridge, u), slope(X, y, loss, ridge, u)),
        np.zeros(dim + 1),
        jac=True,
        method="L-BFGS-B",
        options=options,
    )
    assert objective(X, y, loss, ridge, v) <= other.fun * (1.0 + 1e-12)


def test_smooth_minimiser_needs_few_products_with_the_data(monkeypatch):
    """Two products per step, nearly half of them in single precision, and no Hessian."""
    X, y = data(300, 400)
    dtypes = []
    product = descent._Data.logits

    def counted(self, v):
        dtypes.append(self.X.dtype)
        return product(self, v)

    monkeypatch.setattr(descent._Data, "logits", counted)
    monkeypatch.setattr(np.linalg, "solve", None)
    monkeypatch.setattr(np.linalg, "qr", None)
    fit(LabelledFeatures(y, X), Logistic(), 1e-3)
    assert len(dtypes) < 80
    assert dtypes.count(np.dtype(np.float32)) >= 0.4 * len(dtypes)


def test_smooth_minimiser_reports_that_it_has_not_converged(monkeypatch):
    X, y = data(120, 30)
    monkeypatch.setattr(descent, "MAX_STEPS", 3)
    assert not minimise_smooth(X, y, Logistic(), 1e-3).converged
    found = fit(LabelledFeatures(y, X), Logistic(), 1e-3)  # continued by Newton's method
    assert np.max(np.abs(slope(X, y, Logistic(), 1e-3, np.append(found.weights, found.bias)))) < 1e-10
