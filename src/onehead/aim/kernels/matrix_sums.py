"""Compiled sums over quadrature nodes of matrices, from which every sector of a map takes its share (U5.2).

With e = C(Sigma)^-1 (prox - v), entry 0 of the sums is the loss, 1 the distance e'C(Sigma)e, 2 the mass of lower
minima, 3 the largest gradient entry; then follow E e e', E e u*', E e v', E -de/dv and E de/du*.
"""

import numpy as np
from numba import int64, types

from onehead.aim.kernels.arguments import BLOCK, MATRIX, MODES, NODES, SCALING, SLICES, VECTOR
from onehead.aim.kernels.dense import dense_loop
from onehead.aim.kernels.independent_rows import newton_row, row_work, solve_row
from onehead.aim.kernels.losses import CROSS_ENTROPY, RESPONSE, softmax
from onehead.aim.kernels.two_tokens import pair_loop
from onehead.numerics.jit import njit
from onehead.numerics.prox import PAIR, ROW


@njit
def _add_numbers(sums, weight, numbers):
    """Add loss, distance, mass of lower minima, and the largest gradient entry."""
    loss, distance, lower, steepest = numbers
    sums[0] += weight * loss
    sums[1] += weight * distance
    if lower:
        sums[2] += weight
    sums[3] = max(sums[3], steepest)


@njit
def _add_matrices(sums, weight, point, numbers, hard):
    """Add a proximal point to the matrices of e with itself, the label, the learner, and the score of a hard label."""
    target, v, _, e, score = point
    _add_numbers(sums, weight, numbers)
    n = len(e)  # of two coordinates all are pairs of numbers
    matrices = sums[4:].reshape((5, n, n))
    for i in range(n):
        for j in range(n):
            matrices[0, i, j] += weight * e[i] * e[j]
            matrices[1, i, j] += weight * e[i] * target[j]
            matrices[2, i, j] += weight * e[i] * v[j]
            if hard:
                matrices[4, i, j] += weight * e[i] * score[j]


@njit
def _add_inverse(sums, weight, inverse, response, metric, sigma, modes):
    """Add the inverse of the Hessian, and of a soft label its product with the response."""
    n = metric.shape[0]
    matrices = sums[4:].reshape((5, n, n))
    for i in range(n):
        for k in range(n):
            matrices[3, i, k] += weight * inverse[i, k]
            if modes.hard == 0:
                for j in range(n):
                    matrices[4, i, j] += weight * inverse[i, k] * response[k, j]


@njit
def multiply_by_metric(sums, metric, mass, modes):
    """Make -de/dv = P - P A^-1 P and de/du* = P A^-1 R of the sums of A^-1 and A^-1 R, with P = C(Sigma)^-1."""
    if modes.detail > 0:
        n = metric.shape[0]
        matrices = sums[4:].reshape((5, n, n))
        matrices[3] = mass * metric - metric @ matrices[3] @ metric
        if modes.hard == 0:
            matrices[4] = metric @ matrices[4]


_matrix_loop = dense_loop(_add_matrices, _add_inverse, multiply_by_metric)


@njit(types.void(ROW, RESPONSE, BLOCK, NODES, SCALING, MODES, SLICES, MATRIX))
def matrix_sums(row, response, block_arrays, nodes, scaling, modes, slices, out):
    """Averages of matrices over slices of nodes, for rows that share logits; the metric is C(Sigma)^-1."""
    _matrix_loop(row, response, block_arrays, nodes, scaling, modes, slices, out)


@njit
def _add_pair_inverse(sums, weight, hessian, response, over_step, modes):
    """`_add_inverse` for two coordinates, whose responses are diagonal."""
    h0, h1, determinant = hessian
    p01, share = over_step[1], weight / determinant
    inverse = ((share * h1, -share * p01), (-share * p01, share * h0))
    matrices = sums[4:].reshape((5, 2, 2))
    for i in range(2):
        for j in range(2):
            matrices[3, i, j] += inverse[i][j]
            if modes.hard == 0:
                matrices[4, i, j] += inverse[i][j] * response[j]


_pair_matrix_loop = pair_loop(_add_matrices, _add_pair_inverse, multiply_by_metric)


@njit(types.void(PAIR, BLOCK, NODES, SCALING, MODES, SLICES, MATRIX))
def two_token_matrix_sums(pair, block_arrays, nodes, scaling, modes, slices, out):
    """`matrix_sums` for two tokens: two coordinates, each row seeing one of them (2.5, U5.2)."""
    _pair_matrix_loop(pair, block_arrays, nodes, scaling, modes, slices, out)


@njit(types.void(int64, VECTOR, NODES, SCALING, MODES, SLICES, MATRIX))
def row_matrix_sums(kind, held, nodes, scaling, modes, slices, out):
    """`matrix_sums` for one row of independent logits, all but the last of one law, whose prox has one minimum (U5.2).

    ``held`` is the inverse of every logit's Sigma, and the Newton step a Sherman-Morrison formula
    (`onehead.aim.kernels.independent_rows`). Coordinates that are differences from the last logit may change places,
    and so may those of the sectors' covariances: of a matrix only its trace and the sum of its entries matter, and the
    one with all diagonal entries alike, and all others, stands for it.
    """
    label_nodes, free_nodes, weights, kept = nodes
    detail, warm_start, hard = modes.detail, modes.start, modes.hard
    length, first, last = slices
    n = held.shape[0]
    dim = n - 1
    target, v, h, y, label = np.zeros(n), np.zeros(n), np.empty(n), np.empty(n), np.empty(n)
    work = row_work(n)
    _, move, trial, p, w, D, tight = work
    problem = (kind, held, v, y)
    traces, totals = np.empty(5), np.empty(5)
    choices = n if hard == 1 else 1
    hold = held.sum()
    for part in range(first, last):
        sums = out[part]
        sums[:], traces[:], totals[:] = 0.0, 0.0, 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            all_target, all_own = 0.0, 0.0
            for i in range(dim):
                target[i], v[i] = label_nodes[node, i], free_nodes[node, i]
                all_target += target[i]
                all_own += v[i]
            softmax(target, label)
            for choice in range(choices):
                weight, shift = weights[node], 0.0
                for i in range(n):
                    h[i], y[i] = target[i], label[i]
                    if hard == 1:
                        h[i], y[i] = v[i], 1.0 if i == choice else 0.0
                    if warm_start == 2:
                        h[i] = kept[node, choice * dim + i] if i < dim else 0.0
                    shift += held[i] * (v[i] - h[i]) / hold
                if hard == 1:
                    weight *= label[choice]
                if weight == 0.0:
                    continue
                for i in range(n):  # of the constant that may be added to all logits the best
                    h[i] += shift
                _, (value, steepest, m00, m01, m11) = newton_row(problem, h, work)
                sums[3] = max(sums[3], steepest)
                square, by_label, by_own, total, distance, scored, score = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
                for i in range(n):
                    e = held[i] * (h[i] - v[i])
                    distance += e * (h[i] - v[i])
                    if i < dim:
                        square += e * e
                        by_label += e * target[i]
                        by_own += e * v[i]
                        total += e
                        scored += e * (y[i] - label[i])
                        score += y[i] - label[i]
                        if warm_start > 0:
                            kept[node, choice * dim + i] = h[i] - h[dim]
                sums[0] += weight * (value - 0.5 * distance)
                sums[1] += weight * distance
                traces[0] += weight * square
                totals[0] += weight * total * total
                traces[1] += weight * by_label
                totals[1] += weight * total * all_target
                traces[2] += weight * by_own
                totals[2] += weight * total * all_own
                if hard == 1:
                    traces[4] += weight * scored
                    totals[4] += weight * total * score
                if detail == 0:
                    continue
                if hard == 0:
                    overlap = 0.0
                    for i in range(n):
                        overlap += p[i] * y[i]
                    for i in range(n):
                        tight[i] = -y[i] if kind == CROSS_ENTROPY else 2.0 * p[i] * (overlap - y[i])
                    solve_row(D, p, w, m00, m01, m11, tight, move)
                    solve_row(D, p, w, m00, m01, m11, p, trial)
                for i in range(
                    n
                ):  # rows and columns of -de/dv and of de/du* sum to zero: the last entry is the sum of the others
                    x, z = p[i] / D[i], w[i] / D[i]
                    inverse = 1.0 / D[i] - (m00 * x * x + 2.0 * m01 * x * z + m11 * z * z)
                    pull, answer = held[i] - held[i] * inverse * held[i], 0.0
                    if hard == 0:
                        answer = inverse + move[i]
                        if kind != CROSS_ENTROPY:
                            answer = 2.0 * p[i] * (inverse - trial[i]) + move[i]
                        answer *= held[i] * y[i]
                    if i < dim:
                        traces[3] += weight * pull
                        traces[4] += weight * answer
                    else:
                        totals[3] += weight * pull
                        totals[4] += weight * answer
        matrices = sums[4:].reshape((5, dim, dim))
        for k in range(5):
            off = (totals[k] - traces[k]) / (dim * (dim - 1)) if dim > 1 else 0.0
            for i in range(dim):
                for j in range(dim):
                    matrices[k, i, j] = traces[k] / dim if i == j else off
