"""Compiled sums over quadrature nodes of matrices, from which every sector of a map takes its share (U5.2)."""

import numpy as np
from numba import float64, int64, types

from onehead.aim.equations.drawn import draw
from onehead.aim.equations.kernels import labels
from onehead.aim.losses import RESPONSE
from onehead.numerics.compiled import njit
from onehead.numerics.prox import ROW, factorise, invert_factored, newton_prox, scratch

__all__ = ["matrix_sums"]

_vector = types.Array(float64, 1, "C")
_matrix = types.Array(float64, 2, "C")
_tensor = types.Array(float64, 3, "C")
_indices = types.Array(int64, 2, "C")


@njit(
    types.void(
        ROW, RESPONSE, _indices, _matrix, _tensor, _matrix, _matrix, _vector, _matrix,
        int64, int64, int64, int64, int64, int64, int64, _matrix,
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
)  # fmt: skip
def matrix_sums(  # type: ignore[no-untyped-def]
    row, answer, select, metric, fits, label_nodes, free_nodes, weights, kept, hard, search, detail, recall, length, first, last, out,
):  # fmt: skip
    """Averages of matrices, from which every sector of the map takes its share (U5.2), over slices of nodes.

    ``metric`` is C(Sigma)^-1, ``label_nodes`` are u* and ``free_nodes`` v. With e = C(Sigma)^-1 (prox - v): entry 0 is the loss, 1 the
    distance e'C(Sigma)e, 2 the mass of lower minima, 3 the largest gradient entry; then E e e', E e u*', E e v', E -de/dv and E de/du*.
    The modes are those of `prox_sums`; ``hard`` labels are drawn, each choice with its probability (U7).
    """
    n, rows, width = metric.shape[0], select.shape[0], select.shape[1]
    w = scratch(n, width)
    p, y = np.empty((rows, width)), np.empty((rows, width))
    u, other, lower, score, e = np.empty(n), np.empty(n), np.empty(n), np.zeros(n), np.empty(n)
    block, response = np.empty((width, width)), np.empty((n, n))
    inverse, shrunk = np.empty((n, n)), np.empty((n, n))
    choices = width**rows if hard == 1 else 1
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        matrices = sums[4:].reshape((5, n, n))
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            target, v = label_nodes[node], free_nodes[node]
            labels(select, target, w.row_x, p)
            for choice in range(choices):
                weight = weights[node]
                if hard == 1:
                    weight = draw(choice, weight, p, select, y, score)
                    if weight == 0.0:
                        continue
                else:
                    y[:] = p
                for i in range(n):
                    u[i] = v[i] if hard == 1 else (kept[node, i] if recall == 2 else target[i])
                value = newton_prox(row, select, metric, 1.0, v, y, u, w)
                if search > 0 and hard == 0:
                    lowest, found = value, False
                    for start in range(rows + 1):
                        for i in range(n):
                            other[i] = v[i]
                            if start > 0:
                                for j in range(n):
                                    other[i] += fits[start - 1, i, j] * (target[j] - v[j])
                        candidate = newton_prox(row, select, metric, 1.0, v, y, other, w)
                        if candidate < lowest - 1e-10 * (1.0 + abs(lowest)):
                            lowest, found = candidate, True
                            lower[:] = other
                    if found:
                        sums[2] += weight
                        if search == 2:
                            u[:] = lower
                    value = newton_prox(row, select, metric, 1.0, v, y, u, w)  # already there: refills the scratch
                distance = 0.0
                for i in range(n):
                    sums[3] = max(sums[3], abs(w.gradient[i]))
                    if recall > 0 and hard == 0:
                        kept[node, i] = u[i]
                    e[i] = 0.0
                    for j in range(n):
                        e[i] += metric[i, j] * (u[j] - v[j])
                    distance += e[i] * (u[i] - v[i])
                sums[0] += weight * (value - 0.5 * distance)
                sums[1] += weight * distance
                for i in range(n):
                    for j in range(n):
                        matrices[0, i, j] += weight * e[i] * e[j]
                        matrices[1, i, j] += weight * e[i] * target[j]
                        matrices[2, i, j] += weight * e[i] * v[j]
                        if hard == 1:
                            matrices[4, i, j] += weight * e[i] * score[j]
                if detail == 0:
                    continue
                lift = 1e-9
                while not factorise(w.hessian, w.factor):
                    for i in range(n):  # a minimum on the verge of losing itself
                        w.hessian[i, i] += lift * metric[i, i]
                    lift *= 10.0
                invert_factored(w.factor, inverse)
                for i in range(n):  # C(Sigma)^-1 (C(Sigma)^-1 + H)^-1
                    for j in range(n):
                        shrunk[i, j] = 0.0
                        for k in range(n):
                            shrunk[i, j] += metric[i, k] * inverse[k, j]
                if hard == 0:
                    response[:] = 0.0
                    for a in range(rows):
                        for b in range(width):
                            w.row_x[b] = u[select[a, b]] if select[a, b] >= 0 else 0.0
                            w.row_label[b] = y[a, b]
                        answer(w.row_x, w.row_label, block)
                        for b in range(width):
                            for c in range(width):
                                if select[a, b] >= 0 and select[a, c] >= 0:
                                    response[select[a, b], select[a, c]] += block[b, c]
                for i in range(n):
                    for j in range(n):
                        total, answered = metric[i, j], 0.0
                        for k in range(n):
                            total -= shrunk[i, k] * metric[k, j]
                            answered += shrunk[i, k] * response[k, j]
                        matrices[3, i, j] += weight * total
                        if hard == 0:
                            matrices[4, i, j] += weight * answered
