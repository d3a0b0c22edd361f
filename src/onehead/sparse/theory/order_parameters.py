"""Order parameters of a trained readout and the equations they solve (S4.2, S4.4).

The logit of a fresh sample is c + tau r g with c = D.x and r^2 = |x_signal|^2 + rp^2: x are the trained
coefficients of the informative directions, rp the norm of the remaining weights. With p the proximal point
of the margin y (c + tau r g) at step chi tau^2 and h = y l'(p), the order parameters solve

    E[h D_j] + penalty_j x_j = 0        penalty = lambda (query), 1/(alpha chi) (signal), 0 (bias)
    rp^2 = alpha chi^2 E[tau^2 h^2]
    1/(alpha chi) = lambda + E[h tau g] / r
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from onehead.sparse.losses import Array
from onehead.sparse.theory.features import Features

System = Callable[[Array], tuple[Array, Array]]  # unknowns -> residuals and Jacobian


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Order parameters of a readout: coefficients x, norm rp of the remaining weights, step chi; and the residual.

    For an iterative solution, ``unknowns`` is the vector that was solved for and ``equations`` returns the same system
    on another sample.
    """

    x: Array
    rp: float
    chi: float
    residual: float
    evaluations: int
    status: str = "converged"
    unknowns: Array | None = None
    equations: "Callable[[Features], System] | None" = None

    @classmethod
    def from_unknowns(cls, u: Array, **known: Any) -> Self:
        """Return the solution at u = (x, log rp, log chi)."""
        rp, chi = np.exp(u[-2:]).tolist()
        return cls(**{"x": u[:-2], "rp": rp, "chi": chi, "unknowns": u} | known)

    @property
    def start(self) -> Array | None:
        """Starting point (x, log rp, log chi) for a neighbouring problem; None if one of the numbers is not finite."""
        if self.rp <= 0.0 or not np.isfinite([self.rp, self.chi]).all():
            return None
        return np.append(self.x, np.log([self.rp, self.chi]))


class Averages(NamedTuple):
    """h, h^2 and dh/dlogit of every sample, averaged over the Gaussian of the logit where a closed form exists."""

    h: Array
    h2: Array
    slope: Array


def radius(features: Features, x: Array, rp: float) -> float:
    """Return r = sqrt(|x_signal|^2 + rp^2), the standard deviation of the logit per unit of tau."""
    return float(np.sqrt(np.sum(x[features.is_signal] ** 2) + rp**2))


def unfold(features: Features, u: Array) -> tuple[Array, float, float, Array]:
    """Unpack u = (x, log rp, log last): return x, ``last``, r, and the derivatives of r by x and log rp."""
    x, (rp, last) = u[:-2], np.exp(u[-2:]).tolist()
    r = radius(features, x, rp)
    return x, last, r, np.append(np.where(features.is_signal, x, 0.0), rp * rp) / r


def penalties(features: Features, *, query: float, signal: float) -> Array:
    """Return the factor of x_j in its own equation, which is zero for the bias."""
    return np.where(features.is_query, query, np.where(features.is_signal, signal, 0.0))


@dataclass(frozen=True, kw_only=True)
class Stationarity:
    """Stationarity conditions of one loss on one sample: ``averages`` at (x, rp, chi) and the ``system`` at a ridge.

    ``curvature`` is a typical value of l'', from which the first guess of chi is made.
    """

    features: Features
    alpha: float
    averages: Callable[[Array, float, float], Averages]
    system: Callable[[float], System]
    curvature: float = 1.0
