"""Numbers and problems for tests of several packages."""

import numpy as np
from hypothesis import strategies as st

from onehead import aim, sparse


def log_uniform(low, high):
    """Strategy for numbers that are uniform in the logarithm."""
    return st.floats(np.log(low), np.log(high)).map(lambda x: float(np.exp(x)))


def mp(kappa0, noise=0.5, **parameters):
    """A task with a Marchenko-Pastur target."""
    return aim.Task(target=aim.MarchenkoPastur(kappa0=kappa0), noise=noise, **parameters)


def sparse_task(L, R, theta, pi):
    """A sparse task by the symbols of the paper."""
    return sparse.Task(length=L, signal_tokens=R, strength=theta, positive_rate=pi)


def sampled_eigenvalues(rng, dim, kappa0, spread, threshold, slope):
    """Return the non-zero eigenvalues of slope (S* + GOE - threshold)_+ of a sampled matrix (5)."""
    W = rng.standard_normal((round(kappa0 * dim), dim))
    G = rng.standard_normal((dim, dim))
    x = np.linalg.eigvalsh(W.T @ W / np.sqrt(len(W) * dim) + np.sqrt(spread / (2.0 * dim)) * (G + G.T))
    values = slope * (x - threshold)
    return values[values > 0.0][::-1]


class SmoothHinge(sparse.Loss):
    """Loss of a user: the hinge with a quadratic corner of this width, which becomes the hinge as the width
    vanishes.
    """

    name = "smooth hinge"

    def __init__(self, width):
        self.width = width

    def value(self, margin):
        gap = 1.0 - margin
        return np.where(gap <= 0, 0.0, np.where(gap >= self.width, gap - self.width / 2, 0.5 * gap**2 / self.width))

    def derivative(self, margin):
        return -np.clip((1.0 - margin) / self.width, 0.0, 1.0)

    def prox(self, margin, step):
        corner = (self.width * margin + step) / (self.width + step)
        return np.where(margin >= 1, margin, np.where(margin + step <= 1 - self.width, margin + step, corner))

    def curvature(self, margin):
        return ((margin > 1 - self.width) & (margin < 1)) / self.width
