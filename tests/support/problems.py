"""Numbers and problems that tests of several rooms draw."""

import numpy as np
from hypothesis import strategies as st

from onehead import sparse


def between(low, high):
    """Numbers spread evenly over decades."""
    return st.floats(np.log(low), np.log(high)).map(lambda x: float(np.exp(x)))


def sparse_task(L, R, theta, pi):
    return sparse.Task(length=L, signal_tokens=R, strength=theta, positive_rate=pi)


def sampled_eigenvalues(rng, dim, kappa0, spread, threshold, slope):
    """Non-zero eigenvalues of slope (S* + GOE - threshold)_+: the law by its definition (5)."""
    W = rng.standard_normal((round(kappa0 * dim), dim))
    G = rng.standard_normal((dim, dim))
    x = np.linalg.eigvalsh(W.T @ W / np.sqrt(len(W) * dim) + np.sqrt(spread / (2.0 * dim)) * (G + G.T))
    values = slope * (x - threshold)
    return values[values > 0.0][::-1]
