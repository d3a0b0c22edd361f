"""Compiled kernels of the sparse task compared with numpy and with the equations they solve."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onehead.sparse.kernels import _first_guess, gram, logistic_prox, moment, project


@given(st.floats(-60.0, 60.0), st.floats(-12.0, 14.0))
def test_logistic_prox_solves_its_equation(t, log_c):
    c, out = float(np.exp(log_c)), np.empty(1)
    logistic_prox(np.array([t]), np.array([c]), out)
    p = out[0]
    below = 1.0 / (1.0 + np.exp(p)) if p < 0.0 else np.exp(-p) / (1.0 + np.exp(-p))
    # the left side has slope one at least, so the residual bounds the error of p
    assert p == pytest.approx(t + c * below, rel=1e-9, abs=1e-9 * (1.0 + abs(t)))
    assert t <= p <= t + c


def test_the_first_guess_of_the_logistic_prox_is_close():
    """Half of the points start within a per cent; none starts below t, the lower end of the bracket."""
    t, log_c = (part.ravel() for part in np.meshgrid(np.linspace(-30.0, 30.0, 61), np.linspace(-8.0, 10.0, 37)))
    c, out = np.exp(log_c), np.empty(t.size)
    logistic_prox(t, c, out)
    guess = np.array([_first_guess(float(a), float(b)) for a, b in zip(t, c, strict=True)])
    assert (guess >= t).all()
    assert np.median(np.abs(guess - out) / (1.0 + np.abs(out))) < 0.01


def test_weighted_sums_are_matrix_products():
    rng = np.random.default_rng(1)
    left, right, weight, values = (
        rng.normal(size=(40, 3)),
        rng.normal(size=(40, 2)),
        rng.random(40),
        rng.normal(size=40),
    )
    assert project(left, np.array([1.0, -2.0, 0.5])) == pytest.approx(left @ [1.0, -2.0, 0.5])
    assert moment(left, weight, values) == pytest.approx(left.T @ (weight * values))
    assert gram(left, weight, right) == pytest.approx(left.T @ (weight[:, None] * right))
