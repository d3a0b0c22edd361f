"""L-BFGS for readouts: at the minimum that scipy finds, with few products with the data, and honest where it stalls."""

import numpy as np
import pytest
from scipy.optimize import minimize

from onehead.sparse.losses import Logistic, SquaredHinge
from onehead.sparse.training import descent
from onehead.sparse.training.descent import descended
from onehead.sparse.training.minimise import fit
from onehead.sparse.training.samplers import Readable


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
def test_it_is_the_minimum(loss, samples, dim, ridge):
    X, y = data(samples, dim)
    found = fit(Readable(y, X), loss, ridge)
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


def test_few_products_with_the_data_are_enough(monkeypatch):
    """Two a step, half of them in single precision; what fits without a Hessian never has one."""
    X, y = data(300, 400)
    seen = []
    product = descent._Data.seen

    def counted(self, v):
        seen.append(self.X.dtype)
        return product(self, v)

    monkeypatch.setattr(descent._Data, "seen", counted)
    monkeypatch.setattr(np.linalg, "solve", None)
    monkeypatch.setattr(np.linalg, "qr", None)
    fit(Readable(y, X), Logistic(), 1e-3)
    assert len(seen) < 80
    assert seen.count(np.dtype(np.float32)) >= 0.4 * len(seen)


def test_it_says_where_it_has_not_arrived(monkeypatch):
    X, y = data(120, 30)
    monkeypatch.setattr(descent, "STEPS", 3)
    assert not descended(X, y, Logistic(), 1e-3).arrived
    found = fit(Readable(y, X), Logistic(), 1e-3)  # by Newton's method from there
    assert np.max(np.abs(slope(X, y, Logistic(), 1e-3, np.append(found.weights, found.bias)))) < 1e-10
