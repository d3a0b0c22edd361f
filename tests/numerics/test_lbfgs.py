"""What a search remembers, against the matrix that BFGS writes down."""

import numpy as np
import pytest

from onehead.numerics.lbfgs import Memory

SIZE = 6


def inverse_hessian(pairs, first):
    """The update of BFGS, matrix by matrix."""
    H = first
    for s, y in pairs:
        left = np.eye(SIZE) - np.outer(s, y) / (s @ y)
        H = left @ H @ left.T + np.outer(s, s) / (s @ y)
    return H


@pytest.mark.parametrize("count", [1, 3, 7])
@pytest.mark.parametrize("known", [False, True])
def test_memory_is_the_inverse_hessian_of_the_last_pairs(count, known):
    rng = np.random.default_rng(count)
    A, B = (M @ M.T + np.eye(SIZE) for M in rng.standard_normal((2, SIZE, SIZE)))
    first = B if known else np.eye(SIZE)
    memory, pairs = Memory(SIZE, 4), []
    for s in rng.standard_normal((count, SIZE)):
        assert memory.add(s, A @ s)
        pairs.append((s, A @ s))
    s, y = pairs[-1]
    scale = (s @ y) / (y @ first @ y)
    gradient = rng.standard_normal(SIZE)
    found = memory.turned(gradient, (lambda q: B @ q) if known else None)
    np.testing.assert_allclose(found, inverse_hessian(pairs[-4:], scale * first) @ gradient, rtol=1e-9, atol=1e-11)


def test_nothing_is_learned_where_the_gradient_falls():
    memory = Memory(2, 3)
    assert not memory.add(np.array([1.0, 0.0]), np.array([-1.0, 0.0]))
    assert memory.turned(np.array([3.0, 4.0])).tolist() == [3.0, 4.0]
