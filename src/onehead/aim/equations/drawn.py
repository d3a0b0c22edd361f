"""Compiled sums over quadrature nodes for hard labels: one token per row, drawn from the target's softmax (U7)."""

import math

import numpy as np
from numba import float64, int64, types

from onehead.aim.equations.kernels import labels
from onehead.numerics.compiled import njit
from onehead.numerics.prox import ROW, factorise, invert_factored, newton_prox, scratch

__all__ = ["MOST_CHOICES", "draw", "draw_rows", "hard_sums"]

# hard labels of rows that share logits which are all summed over, those of two tokens; of more one is drawn (L7.2)
MOST_CHOICES = 4

_vector = types.Array(float64, 1, "C")
_matrix = types.Array(float64, 2, "C")
_indices = types.Array(int64, 2, "C")


@njit(cache=True, nogil=True, error_model="numpy")
def draw(choice, weight, p, select, y, score):  # type: ignore[no-untyped-def]
    """Fill the label ``y`` of this number, and its score in every coordinate; return the weight times its probability.

    Choices are counted in the base of the width: the label of the first row is the last digit.
    """
    rows, width = select.shape
    score[:] = 0.0
    for a in range(rows):
        chosen, choice = choice % width, choice // width
        weight *= p[a, chosen]
        for b in range(width):
            y[a, b] = 1.0 if b == chosen else 0.0
            if select[a, b] >= 0:
                score[select[a, b]] += y[a, b] - p[a, b]
    return weight


@njit(cache=True, nogil=True, error_model="numpy")
def draw_rows(chances, normals, y):  # type: ignore[no-untyped-def]
    """Fill ``y`` with one token for every row, that which a standard normal says (L7.2)."""
    for a in range(chances.shape[0]):
        left, chosen = 0.5 * math.erfc(-normals[a] / math.sqrt(2.0)), 0
        while chosen < chances.shape[1] - 1 and left >= chances[a, chosen]:
            left -= chances[a, chosen]
            chosen += 1
        for b in range(chances.shape[1]):
            y[a, b] = 1.0 if b == chosen else 0.0


@njit(
    types.void(
        ROW, _indices, _matrix, _matrix, _matrix, _vector, _matrix,
        float64, float64, float64, float64, int64, int64, int64, int64, int64, _matrix,
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
)  # fmt: skip
def hard_sums(  # type: ignore[no-untyped-def]
    row, select, metric, label_nodes, free_nodes, weights, kept,
    root_q, overlap, root_w, step, detail, recall, length, first, last, out,
):  # fmt: skip
    """`prox_sums` for labels that are one token per row, each choice as often as the target's softmax says (U7).

    The loss is convex, so that every prox is the one minimum, wherever it starts: from the logits, or from what ``kept`` holds of each
    choice. The label answers to its logits through its probability alone: E dprox_j/du*_j = E sum_y p_y (1[y = j] - p_j)
    (prox_y - v)_j, summed over the rows that see coordinate j.
    """
    n, rows, width = metric.shape[0], select.shape[0], select.shape[1]
    w = scratch(n, width)
    p, y = np.empty((rows, width)), np.empty((rows, width))
    target, v, u, score = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    inverse, kernel = np.empty((n, n)), np.empty((n, n))
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            for i in range(n):
                target[i] = root_q * label_nodes[node, i]
                v[i] = overlap * target[i] + root_w * free_nodes[node, i]
            labels(select, target, w.row_x, p)
            for choice in range(width**rows):
                weight = draw(choice, weights[node], p, select, y, score)
                if weight == 0.0:
                    continue
                for i in range(n):
                    u[i] = kept[node, choice * n + i] if recall == 2 else v[i]
                value = newton_prox(row, select, metric, step, v, y, u, w)
                quadratic = 0.0
                for i in range(n):
                    if recall > 0:
                        kept[node, choice * n + i] = u[i]
                    sums[8] = max(sums[8], abs(w.gradient[i]))
                    sums[5] += weight * score[i] * (u[i] - v[i])
                    slope = 0.0
                    for j in range(n):
                        slope += metric[i, j] * (u[j] - v[j])
                    quadratic += slope * (u[i] - v[i])
                    sums[1] += weight * slope * target[i]
                    sums[2] += weight * slope * v[i]
                sums[0] += weight * quadratic
                sums[6] += weight * (value - 0.5 * quadratic / step)
                if detail == 0:
                    continue
                factorise(w.hessian, w.factor)
                invert_factored(w.factor, inverse)
                if detail == 1:
                    for i in range(n):
                        share = 0.0
                        for j in range(n):
                            share += inverse[i, j] * metric[j, i]
                        sums[3] += weight * (1.0 - share / step)
                    continue
                for i in range(n):
                    for k in range(n):
                        total = 0.0
                        for j in range(n):
                            total += inverse[i, j] * metric[j, k]
                        kernel[i, k] = (1.0 if i == k else 0.0) - total / step
                for i in range(n):
                    sums[3] += weight * kernel[i, i]
                    for k in range(n):
                        sums[4] += weight * kernel[i, k] * kernel[k, i]
