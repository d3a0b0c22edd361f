"""The map that weight decay selects for one sampled target, one sample of the noise and a covariance of the tokens
(D8.3).

For factorised training and a covariance the input channel is the minimiser of

    sum_ij (Sigmahat kappa_ij/2) S_ij² - <R, S> + λ |S|_*,     R = kappa^1/2 (mhat kappa^1/2 S* + sqrt(qhat/d) N),

which has no closed form. It is computed for matrices of the dimension of the tokens, with the same S* and N at all
hats, by the alternating direction method of multipliers (ADMM). The result is exact up to terms of order 1/d.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.order_parameters import Hats
from onehead.errors import NotConverged

Array = NDArray[np.float64]

TOLERANCE = 1e-6  # relative primal and dual residual of ADMM
MAX_STEPS = 2000  # of ADMM
RELAXATION = 1.6  # over-relaxation of ADMM
ADAPTED_STEPS, ADAPT_EVERY = 400, 25  # the penalty parameter is adapted every 25 of the first 400 steps
IMBALANCE, FACTOR = 3.0, 1.8  # ratio of residuals from which on it is changed, and by what factor
DIFFERENCE = 1e-2  # relative step of the derivative Sigma
ZERO = 1e-9  # singular values below it are zeros of the threshold


class MapSample(NamedTuple):
    """Overlaps q, m, Sigma of the whitened map, mean singular value, and singular values of S."""

    q: float
    m: float
    sigma: float
    tau: float
    singular_values: Array

    @property
    def rank(self) -> float:
        """Share of singular values that are not zero."""
        return float(np.mean(self.singular_values > ZERO))


@dataclass
class _Iterates:
    """Splitting variable, scaled multiplier and penalty parameter of ADMM, from which the next call starts."""

    Z: Array
    U: Array
    rho: float


class SampledMap:
    """Minimiser for one sampled target and one sample of the noise.

    Parameters
    ----------
    target : array of shape (d, d)
        S*, in reduced units.
    queries, keys : arrays of length d
        Eigenvalues of the covariances of the tokens.
    decay : float
        λ in reduced units.
    rng : numpy.random.Generator
        Source of the noise.
    """

    def __init__(self, target: Array, queries: Array, keys: Array, decay: float, rng: np.random.Generator) -> None:
        self.levels, self.target, self.decay = np.outer(queries, keys), target, decay
        self.root = np.sqrt(self.levels)
        self.noise, self.probe = rng.standard_normal((2, *target.shape))
        self._iterates: _Iterates | None = None

    def at(self, hats: Hats) -> MapSample:
        """Return the overlaps of the minimiser for these hats."""
        d, root = len(self.target), self.root
        R = root * (hats.m * root * self.target + np.sqrt(hats.q / d) * self.noise)
        start = self._iterates or self._first(R, hats.sigma)
        Z, values, self._iterates = self._minimise(R, hats.sigma, start)
        step = DIFFERENCE * float(np.linalg.norm(R) / np.linalg.norm(root * self.probe))
        above, below = (
            self._minimise(R + sign * step * root * self.probe, hats.sigma, self._iterates)[0] for sign in (1.0, -1.0)
        )
        response = float(np.sum(self.probe * root * (above - below)))
        return MapSample(
            q=float(np.sum(self.levels * Z * Z)) / d,
            m=float(np.sum(self.levels * Z * self.target)) / d,
            sigma=response / (2.0 * step * float(np.sum(self.probe**2))),
            tau=float(values.sum()) / d,
            singular_values=values,
        )

    def _first(self, R: Array, sigma_hat: float) -> _Iterates:
        """Return the first iterates; the penalty parameter is the geometric mean of the curvatures."""
        lifted = sigma_hat * (self.levels + self.decay * self.levels.max() / float(np.linalg.norm(R, 2)))
        return _Iterates(np.zeros_like(R), np.zeros_like(R), float(np.exp(np.mean(np.log(lifted)))))

    def _minimise(self, R: Array, sigma_hat: float, start: _Iterates) -> tuple[Array, Array, _Iterates]:
        """Return the minimiser, its singular values and the iterates at the end.

        Raises
        ------
        NotConverged
            If the residuals do not become small.
        """
        Z, U, rho, curvature = start.Z, start.U, start.rho, sigma_hat * self.levels
        worst = np.inf
        for count in range(1, MAX_STEPS + 1):
            S = (R + rho * (Z - U)) / (curvature + rho)
            relaxed = RELAXATION * S + (1.0 - RELAXATION) * Z
            left, values, right = np.linalg.svd(relaxed + U, full_matrices=False)
            values = np.clip(values - self.decay / rho, 0.0, None)
            old, Z = Z, (left * values) @ right
            U = U + relaxed - Z
            size = max(float(np.linalg.norm(S)), float(np.linalg.norm(Z)), 1e-300)
            primal = float(np.linalg.norm(S - Z)) / size
            dual = float(np.linalg.norm(Z - old)) / max(float(np.linalg.norm(U)), 1e-300)
            worst = max(primal, dual)
            if worst < TOLERANCE:
                return Z, values, _Iterates(Z, U, rho)
            if count <= ADAPTED_STEPS and count % ADAPT_EVERY == 0:
                change = FACTOR if primal > IMBALANCE * dual else 1.0 / FACTOR if dual > IMBALANCE * primal else 1.0
                rho, U = rho * change, U / change
        raise NotConverged("the sampled map did not converge; raise weight_decay.", residual=worst)
