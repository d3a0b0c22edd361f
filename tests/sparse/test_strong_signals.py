"""Readouts of strong signals without ridge: solved where neighbours are, and compared with training."""

import numpy as np
import pytest
from scipy.integrate import quad

from onehead.sparse import Hinge, Protocol, Task, predict
from onehead.sparse.solve.hinge import solve_hard_margin, solve_hinge
from onehead.sparse.solve.separability import separates, tail_moments
from onehead.sparse.solve.widest_margin import widest_margin
from onehead.sparse.theory.features import pooled_features, vectorised_features
from onehead.sparse.theory.order_parameters import radius
from onehead.sparse.training.minimise import fit
from onehead.sparse.training.samplers import pooled_sample


@pytest.mark.parametrize("z", [0.0, 2.0, 4.9, 5.1, 8.0, 20.0, 36.0])
def test_tail_moments_agree_with_integrals(z):
    def moment(power):  # e^(z^2/2) E (g - z)_+^power, with g = z + t
        return quad(lambda t: t**power * np.exp(-z * t - 0.5 * t * t), 0.0, np.inf)[0] / np.sqrt(2.0 * np.pi)

    found = [float(value[0]) for value in tail_moments(np.array([z]))]
    # the differences lose z^4 roundings
    assert found == pytest.approx([np.exp(-0.5 * z * z) * moment(power) for power in (1, 2)], rel=1e-8)


STRONG = [
    ("pooled", 4, 8.0, 6.0),
    ("pooled", 8, 12.0, 2.0),
    ("pooled", 10, 12.0, 20.0),
    ("vectorised", 6, 12.0, 20.0),
    ("vectorised", 10, 5.0, 6.0),
    ("attention", 2, 10.0, 20.0),
    ("attention", 10, 8.0, 6.0),
]


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize(("model", "signals", "strength", "alpha"), STRONG)
def test_strong_signals_are_solved_at_vanishing_ridge(model, signals, strength, alpha, loss):
    if model == "attention" and loss == "logistic":
        strength, alpha = 10.0, 20.0  # another query: the loss enters the two gradient steps
    found = predict(
        Task(length=10, signal_tokens=signals, strength=strength),
        Protocol(alpha0=alpha / 2, alpha1=alpha / 2, loss=loss, ridge=0.0),
        model=model,
    )
    assert found.certificate.residual < 1e-9
    assert "margin" in found.status and found.train_error == 0.0
    assert 0.0 <= found.test_error < 0.05


@pytest.mark.parametrize("features", [pooled_features, vectorised_features])
def test_margins_of_strong_signals_vary_smoothly_with_the_samples(features):
    """The logarithms of the order parameters have small second differences in alpha."""
    law = features(Task(length=10, signal_tokens=8, strength=10.0))
    alphas = np.linspace(0.4, 2.0, 17)
    rows = [solve_hard_margin(law, alpha=alpha).unknowns for alpha in alphas]
    second = np.abs(np.diff(rows, n=2, axis=0))
    first = np.abs(np.diff(rows, axis=0)).max(axis=0)
    assert np.all(second.max(axis=0) < 0.5 * first)


def test_widest_margin_agrees_with_training():
    """Hard-margin weights of pooled features at d = 200, for which the general solver found no start."""
    task, alpha, dim = Task(length=10, signal_tokens=4, strength=8.0), 6.0, 200
    law = pooled_features(task)
    assert separates(law, alpha)
    found = solve_hard_margin(law, alpha=alpha)
    runs = []
    for seed in range(3):
        readout = fit(pooled_sample(task, round(alpha * dim), dim, np.random.default_rng(seed)), Hinge(), 0.0)
        runs.append([readout.weights[0], np.linalg.norm(readout.weights), readout.bias])
    expected = [found.x[0], radius(law, found.x, found.rp), found.x[1]]
    # spread between runs, and finite-size biases of order 5/d in norms
    error = np.std(runs, axis=0, ddof=1) / np.sqrt(3)
    assert np.all(np.abs(np.mean(runs, axis=0) - expected) < 4 * error + 5 / dim)


def test_convex_program_agrees_with_the_equations():
    """Where the general solver succeeds, the convex program gives the same weights."""
    law, alpha = pooled_features(Task(length=10, signal_tokens=4, strength=6.0)), 2.0
    start, found = widest_margin(law, alpha=alpha), solve_hard_margin(law, alpha=alpha)
    assert start == pytest.approx(found.unknowns, abs=1e-4)
    assert widest_margin(law, alpha=1e9) is None  # not separable
    assert widest_margin(pooled_features(Task(strength=1.0)), alpha=3.0) is None


def test_small_ridge_continues_the_limit():
    """Below a finite ridge the hinge solution does not depend on it."""
    law = pooled_features(Task(length=10, signal_tokens=4, strength=8.0))
    limit = solve_hard_margin(law, alpha=6.0)
    for ridge in (1e-6, 1e-5):
        found = solve_hinge(law, alpha=6.0, ridge=ridge)
        assert np.append(found.x, found.rp) == pytest.approx(np.append(limit.x, limit.rp), rel=1e-6)


@pytest.mark.parametrize("signals", [6, 10])
def test_logistic_readout_of_a_strong_signal_at_a_small_ridge(signals):
    """The solution continues that of a ten times larger ridge: weights grow, the error changes by a few percent."""
    task = Task(length=10, signal_tokens=signals, strength=12.0)
    few, more = (
        predict(task, Protocol(alpha0=10.0, alpha1=10.0, ridge=ridge), model="vectorised") for ridge in (1e-6, 1e-5)
    )
    assert few.certificate.residual < 1e-9
    assert 1.0 < few.signal_weight / more.signal_weight < 1.5
    assert few.train_loss < more.train_loss
