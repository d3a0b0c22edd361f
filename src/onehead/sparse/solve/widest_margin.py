"""Smallest weights with all margins at least one, as a convex program: a start for strong signals (S4.7).

Minimise |x_query|^2 + |x_signal|^2 + rp^2 such that alpha E[((1 - y c)/tau + r g)_+^2] <= rp^2. The constraint is the
Gaussian comparison of the hard-margin problem; with rp = 1 and without the 1 it is that of separability.
"""

from typing import Any

import numpy as np

from onehead.numerics.gaussian import cumulative
from onehead.sparse.losses import Array
from onehead.sparse.solve.separability import least_violation, tail_moments
from onehead.sparse.theory.features import Features
from onehead.sparse.theory.order_parameters import radius

SCALES = np.geomspace(1e-3, 1e4, 71)  # trial sizes of the weights along the direction of least violation
MAX_ITERATIONS = 300
MIN_MULTIPLIER = 1e-12  # of the query's ridge, where the constraint leaves less


def widest_margin(features: Features, *, alpha: float) -> Array | None:
    """Return (x, log rp, log ell) of the smallest weights with all margins at least one, ell = 1/alpha - E Phi(B).

    None if the data are not separable at ``alpha``, or no feasible point is found.
    """
    from scipy.optimize import minimize  # scipy.optimize is loaded when first needed

    direction, ratio, _ = least_violation(features)
    if not alpha < ratio:
        return None
    with np.errstate(all="ignore"):
        starts = [scale * np.append(direction, 1.0) / np.linalg.norm(np.append(direction, 1.0)) for scale in SCALES]
        start = next((w for w in starts if _slack(features, w, alpha)[0] >= 0.0), None)
        if start is None:
            return None
        weighted = np.append(features.is_query | features.is_signal, True).astype(float)
        unit = float(np.sum(weighted * start**2))
        settings: dict[str, Any] = {
            "jac": lambda w: 2.0 * weighted * w / unit,
            "bounds": [*[(None, None)] * direction.size, (1e-9, None)],
            "constraints": {
                "type": "ineq",
                "fun": lambda w: _slack(features, w, alpha)[0],
                "jac": lambda w: _slack(features, w, alpha)[1],
            },
            "options": {"maxiter": MAX_ITERATIONS, "ftol": 1e-12},
        }
        found = minimize(lambda w: np.sum(weighted * w**2) / unit, start, method="SLSQP", **settings)  # type: ignore[call-overload]
        w = np.asarray(found.x)
        if not np.isfinite(w).all() or not w[-1] > 0.0:
            return None
        excess = (1.0 - features.label * features.logit(w[:-1])) / (features.noise * radius(features, w[:-1], w[-1]))
        multiplier = max(1.0 / alpha - features.average(cumulative(excess)), MIN_MULTIPLIER)
    return np.append(w[:-1], np.log([w[-1], multiplier]))


def _slack(features: Features, w: Array, alpha: float) -> tuple[float, Array]:
    """Return log rp^2 - log(alpha E[((1 - y c)/tau + r g)_+^2]) at w = (x, rp), and its gradient."""
    f, x, rp = features, w[:-1], float(w[-1])
    r = radius(f, x, rp)
    excess = (1.0 - f.label * f.logit(x)) / f.noise
    first, second = tail_moments(-excess / r)
    value = r * r * f.average(second)
    by_excess, by_r = 2.0 * r * first, 2.0 * r * f.average(cumulative(excess / r))
    by_x = -f.moments(by_excess * f.label / f.noise) + by_r * np.where(f.is_signal, x, 0.0) / r
    gradient = np.append(-by_x, -by_r * rp / r) / value
    gradient[-1] += 2.0 / rp
    return float(2.0 * np.log(rp) - np.log(alpha * value)), gradient
