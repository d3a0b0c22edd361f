"""The L-BFGS history, against the inverse Hessian of BFGS as a dense matrix."""

import numpy as np
import pytest

from onehead.numerics.lbfgs import LbfgsHistory

SIZE = 6


def inverse_hessian(pairs, first):
    """Return the inverse Hessian after the BFGS updates of all pairs."""
    H = first
    for s, y in pairs:
        left = np.eye(SIZE) - np.outer(s, y) / (s @ y)
        H = left @ H @ left.T + np.outer(s, s) / (s @ y)
    return H


@pytest.mark.parametrize("count", [1, 3, 7])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_the_history_applies_the_inverse_hessian_of_the_last_pairs(count, preconditioned):
    rng = np.random.default_rng(count)
    A, B = (M @ M.T + np.eye(SIZE) for M in rng.standard_normal((2, SIZE, SIZE)))
    first = B if preconditioned else np.eye(SIZE)
    history, pairs = LbfgsHistory(SIZE, 4), []
    for s in rng.standard_normal((count, SIZE)):
        assert history.add(s, A @ s)
        pairs.append((s, A @ s))
    s, y = pairs[-1]
    scale = (s @ y) / (y @ first @ y)
    gradient = rng.standard_normal(SIZE)
    found = history.apply_inverse_hessian(gradient, (lambda q: B @ q) if preconditioned else None)
    np.testing.assert_allclose(found, inverse_hessian(pairs[-4:], scale * first) @ gradient, rtol=1e-9, atol=1e-11)


def test_steps_along_which_the_gradient_falls_are_not_stored():
    history = LbfgsHistory(2, 3)
    assert not history.add(np.array([1.0, 0.0]), np.array([-1.0, 0.0]))
    assert history.apply_inverse_hessian(np.array([3.0, 4.0])).tolist() == [3.0, 4.0]
