"""Compiled sums over quadrature nodes of matrices, from which every sector of a map takes its share (U5.2)."""

import numpy as np
from numba import int64, types

from onehead.aim.kernels.arguments import BLOCK, MATRIX, MODES, NODES, SLICES, VECTOR
from onehead.aim.kernels.dense import STEP_LABEL, label_response_difference, labels, sigmoid
from onehead.aim.kernels.hard_labels import draw
from onehead.aim.kernels.independent_rows import newton_row, solve_row
from onehead.aim.kernels.losses import CROSS_ENTROPY, RESPONSE, softmax
from onehead.numerics.jit import njit
from onehead.numerics.prox import PAIR, ROW, factorise, invert_factored, newton_pair, newton_prox, scratch

__all__ = ["matrix_sums", "row_matrix_sums", "two_token_matrix_sums"]


@njit(types.void(ROW, RESPONSE, BLOCK, NODES, MODES, SLICES, MATRIX), cache=True, nogil=True, error_model="numpy")
def matrix_sums(row, answer, block_arrays, nodes, modes, slices, out):  # type: ignore[no-untyped-def]
    """Averages of matrices over slices of nodes, for rows that share logits.

    ``metric`` is C(Sigma)^-1, ``label_nodes`` are u* and ``free_nodes`` v. With e = C(Sigma)^-1 (prox - v): entry 0 is
    the loss, 1 the distance e'C(Sigma)e, 2 the mass of lower minima, 3 the largest gradient entry; then E e e', E e
    u*', E e v', E -de/dv and E de/du*. The modes are those of `prox_sums`; ``hard`` labels are drawn, each choice with
    its probability, and ``kept`` holds a point of each (U7).
    """
    select, metric, fits = block_arrays
    label_nodes, free_nodes, weights, kept = nodes
    search, detail, warm_start, hard = modes.branch, modes.detail, modes.start, modes.hard
    length, first, last = slices
    n, rows, width = metric.shape[0], select.shape[0], select.shape[1]
    w = scratch(n, width)
    p, y = np.empty((rows, width)), np.empty((rows, width))
    u, other, lower, score, e, mean = np.empty(n), np.empty(n), np.empty(n), np.zeros(n), np.empty(n), np.empty(n)
    block, response, inverse = np.empty((width, width)), np.empty((n, n)), np.empty((n, n))
    spread, answered = np.empty((n, n)), np.empty((n, n))  # E (C(Sigma)^-1 + H)^-1, alone and times the response
    choices = width**rows if hard == 1 else 1
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        matrices = sums[4:].reshape((5, n, n))
        spread[:], answered[:], mass = 0.0, 0.0, 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            target, v = label_nodes[node], free_nodes[node]
            labels(select, target, w.row_x, p)
            mean[:] = 0.0
            for choice in range(choices):
                weight = weights[node]
                if hard == 1:
                    weight = draw(choice, weight, p, select, y, score)
                    if weight == 0.0:
                        continue
                else:
                    y[:] = p
                for i in range(n):
                    u[i] = kept[node, choice * n + i] if warm_start == 2 else v[i] if hard == 1 else target[i]
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
                    if warm_start > 0:
                        kept[node, choice * n + i] = u[i]
                    e[i] = 0.0
                    for j in range(n):
                        e[i] += metric[i, j] * (u[j] - v[j])
                    distance += e[i] * (u[i] - v[i])
                sums[0] += weight * (value - 0.5 * distance)
                sums[1] += weight * distance
                for i in range(n):
                    mean[i] += weight * e[i]
                    for j in range(n):
                        matrices[0, i, j] += weight * e[i] * e[j]
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
                mass += weight
                for i in range(n):
                    for j in range(n):
                        spread[i, j] += weight * inverse[i, j]
                if hard == 1:
                    continue
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
                    for k in range(n):
                        for j in range(n):
                            answered[i, j] += weight * inverse[i, k] * response[k, j]
            for i in range(n):
                for j in range(n):
                    matrices[1, i, j] += mean[i] * target[j]
                    matrices[2, i, j] += mean[i] * v[j]
        if detail > 0:
            matrices[3] = mass * metric - metric @ spread @ metric
            if hard == 0:
                matrices[4] = metric @ answered


@njit(types.void(int64, VECTOR, NODES, MODES, SLICES, MATRIX), cache=True, nogil=True, error_model="numpy")
def row_matrix_sums(kind, held, nodes, modes, slices, out):  # type: ignore[no-untyped-def]
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
    p, g, w, D, move, trial, tight = (
        np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n),
    )  # fmt: skip
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
                value, steepest, m00, m01, m11 = newton_row(kind, held, v, y, h, p, g, w, D, move, trial, tight)
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


@njit(types.void(PAIR, BLOCK, NODES, MODES, SLICES, MATRIX), cache=True, nogil=True, error_model="numpy")
def two_token_matrix_sums(pair, block_arrays, nodes, modes, slices, out):  # type: ignore[no-untyped-def]
    """`matrix_sums` for two tokens: two coordinates, each row seeing one of them (2.5, U5.2)."""
    _, metric, fits = block_arrays
    label_nodes, free_nodes, weights, kept = nodes
    search, detail, warm_start, hard = modes.branch, modes.detail, modes.start, modes.hard
    length, first, last = slices
    p00, p01, p11 = metric[0, 0], metric[0, 1], metric[1, 1]
    choices = 4 if hard == 1 else 1
    spread, answered = np.empty((2, 2)), np.empty((2, 2))
    for part in range(first, last):
        sums = out[part]
        sums[:], spread[:], answered[:], mass = 0.0, 0.0, 0.0, 0.0
        matrices = sums[4:].reshape((5, 2, 2))
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            t0, t1, v0, v1 = label_nodes[node, 0], label_nodes[node, 1], free_nodes[node, 0], free_nodes[node, 1]
            (y0, c0), (y1, c1) = sigmoid(t0), sigmoid(t1)
            mean0, mean1 = 0.0, 0.0
            for choice in range(choices):
                weight, l0, k0, l1, k1 = weights[node], y0, c0, y1, c1  # labels, and what is left to one
                u0, u1 = (v0, v1) if hard == 1 else (t0, t1)
                if hard == 1:
                    l0, l1 = float(choice % 2), float(choice // 2)
                    k0, k1 = 1.0 - l0, 1.0 - l1
                    weight *= (y0 if l0 == 1.0 else c0) * (y1 if l1 == 1.0 else c1)
                    if weight == 0.0:
                        continue
                if warm_start == 2:
                    u0, u1 = kept[node, 2 * choice], kept[node, 2 * choice + 1]
                value, u0, u1, g0, g1, h0, h1 = newton_pair(pair, p00, p01, p11, v0, v1, l0, k0, l1, k1, u0, u1)
                if search > 0 and hard == 0:
                    lowest, found = value, False
                    for start in range(3):
                        s0, s1 = v0, v1
                        if start > 0:
                            s0 += fits[start - 1, 0, 0] * (t0 - v0) + fits[start - 1, 0, 1] * (t1 - v1)
                            s1 += fits[start - 1, 1, 0] * (t0 - v0) + fits[start - 1, 1, 1] * (t1 - v1)
                        other, s0, s1, a0, a1, b0, b1 = newton_pair(pair, p00, p01, p11, v0, v1, l0, k0, l1, k1, s0, s1)
                        if other < lowest - 1e-10 * (1.0 + abs(lowest)):
                            lowest, found = other, True
                            if search == 2:
                                value, u0, u1, g0, g1, h0, h1 = other, s0, s1, a0, a1, b0, b1
                    if found:
                        sums[2] += weight
                sums[3] = max(sums[3], abs(g0), abs(g1))
                if warm_start > 0:
                    kept[node, 2 * choice], kept[node, 2 * choice + 1] = u0, u1
                x0, x1 = u0 - v0, u1 - v1
                e0, e1 = p00 * x0 + p01 * x1, p01 * x0 + p11 * x1
                distance = e0 * x0 + e1 * x1
                sums[0] += weight * (value - 0.5 * distance)
                sums[1] += weight * distance
                mean0 += weight * e0
                mean1 += weight * e1
                matrices[0, 0, 0] += weight * e0 * e0
                matrices[0, 0, 1] += weight * e0 * e1
                matrices[0, 1, 1] += weight * e1 * e1
                if hard == 1:
                    matrices[4, 0, 0] += weight * e0 * (l0 - y0)
                    matrices[4, 0, 1] += weight * e0 * (l1 - y1)
                    matrices[4, 1, 0] += weight * e1 * (l0 - y0)
                    matrices[4, 1, 1] += weight * e1 * (l1 - y1)
                if detail == 0:
                    continue
                # the floor lifts a minimum on the verge of losing itself
                share = weight / max(h0 * h1 - p01 * p01, 1e-9 * p00 * p11)
                mass += weight
                spread[0, 0] += share * h1
                spread[0, 1] -= share * p01
                spread[1, 1] += share * h0
                if hard == 0:
                    r0, r1 = -label_response_difference(pair, u0, t0), -label_response_difference(pair, u1, t1)
                    answered[0, 0] += share * h1 * r0
                    answered[0, 1] -= share * p01 * r1
                    answered[1, 0] -= share * p01 * r0
                    answered[1, 1] += share * h0 * r1
            matrices[1, 0, 0] += mean0 * t0
            matrices[1, 0, 1] += mean0 * t1
            matrices[1, 1, 0] += mean1 * t0
            matrices[1, 1, 1] += mean1 * t1
            matrices[2, 0, 0] += mean0 * v0
            matrices[2, 0, 1] += mean0 * v1
            matrices[2, 1, 0] += mean1 * v0
            matrices[2, 1, 1] += mean1 * v1
        matrices[0, 1, 0], spread[1, 0] = matrices[0, 0, 1], spread[0, 1]
        if detail > 0:
            matrices[3] = mass * metric - metric @ spread @ metric
            if hard == 0:
                matrices[4] = metric @ answered / (2.0 * STEP_LABEL)
