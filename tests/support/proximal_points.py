"""Proximal points of a batch, by the Newton method of the kernels, one point after the other."""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, types

from onehead.errors import NotConverged
from onehead.numerics.jit import njit
from onehead.numerics.prox import ROW, newton_prox, scratch

_matrix = types.Array(float64, 2, "C")


@njit(
    types.void(
        ROW, types.Array(int64, 2, "C"), _matrix, float64, _matrix, types.Array(float64, 3, "C"), _matrix, _matrix
    )
)
def _prox_batch(row, select, metric, step, v, label, u, out):
    """Run `newton_prox` on every point; ``out`` receives the value and the gradient norm."""
    w = scratch(u.shape[1], select.shape[1])
    for i in range(u.shape[0]):
        out[i, 0] = newton_prox(row, select, metric, step, v[i], label[i], u[i], w)
        out[i, 1] = np.max(np.abs(w.gradient))


class ProxPoints(NamedTuple):
    """Minimisers, objective values and gradient norms, one per point."""

    u: np.ndarray
    value: np.ndarray
    gradient_norm: np.ndarray


def prox(row, select, metric, step, centre, label, start, *, tolerance=1e-6):
    """Proximal points of a batch, each the local minimum reached from its own start.

    Parameters
    ----------
    row : compiled row function
        See `compile_row`.
    select : int array of shape (rows, width)
    metric : array of shape (n, n)
    step : float
    centre, start : arrays of shape (points, n)
    label : array of shape (points, rows, width)
    tolerance : float
        Largest gradient entry allowed at a returned point.

    Raises
    ------
    NotConverged
        When a point keeps a larger gradient; the text names the first one.
    """
    u = np.array(start, dtype=float, order="C")
    out = np.empty((len(u), 2))
    _prox_batch(
        row,
        np.ascontiguousarray(select, dtype=np.int64),
        np.ascontiguousarray(metric, dtype=float),
        float(step),
        np.ascontiguousarray(centre, dtype=float),
        np.ascontiguousarray(label, dtype=float),
        u,
        out,
    )
    bad = np.flatnonzero(~(out[:, 1] <= tolerance))
    if bad.size:
        raise NotConverged(
            f"{bad.size} of {len(u)} proximal points keep a gradient above {tolerance:.0e}, "
            f"the first is point {bad[0]} with {out[bad[0], 1]:.1e}.",
            residual=float(np.max(out[:, 1])),
        )
    return ProxPoints(u, out[:, 0], out[:, 1])
