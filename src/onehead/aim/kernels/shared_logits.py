"""Averages over the rows of a tied head, any two of which share one logit, in a time that grows as the cube of the
tokens (L7).

All T(T+1)/2 logits h_ab = h_ba are kept; a constant added to all of them drops out by itself. The Hessian is a diagonal
plus two directions for each row a, p_a and w_a of `onehead.aim.kernels.independent_rows`, which touch those of row b in
the logit ab alone:

    A = D + U K U',    A^-1 = D^-1 - D^-1 U (K^-1 + U' D^-1 U)^-1 U' D^-1,

so that a Newton step factors a matrix of 2T rows. By Sylvester's law of inertia A is positive definite if
K^-1 + U' D^-1 U has as many negative pivots as D and K^-1 together, which has one for each row. Nodes are taken side
by side (`onehead.aim.kernels.simd`).
"""

import math

import numpy as np
from numba import int64, types

from onehead.aim.kernels.arguments import MATRIX, MODES, NODES, SLICES, STATE, Branch, Detail
from onehead.aim.kernels.control_variates import (
    AVERAGE_COUNT,
    BASIC_CONTROLS,
    CONTROL_COUNT,
    ZERO_MEAN_CONTROLS,
    add_mirror_pairs,
    row_controls_simd,
)
from onehead.aim.kernels.losses import CROSS_ENTROPY, SQUARED
from onehead.aim.kernels.shared_logits_simd import (
    Problem,
    add_directions,
    factor_at_minimum,
    invert,
    minimise,
    row_vector,
    workspace,
)
from onehead.aim.kernels.simd import LANES, log_normalisations, softmax_rows
from onehead.aim.kernels.woodbury import MOST_STARTS
from onehead.numerics.jit import njit
from onehead.numerics.newton import is_lower

__all__ = ["shared_logit_sums"]


@njit(cache=True, nogil=True, error_model="numpy")
def _draw_labels(chances, tokens, normals, node, stop, place, y):  # type: ignore[no-untyped-def]
    """Fill ``y`` with one token for every row, that which a standard normal says (L7.2)."""
    for k in range(LANES):
        at = min(node + k, stop - 1)
        for a in range(tokens):
            left, chosen = 0.5 * math.erfc(-normals[at, place + a] / math.sqrt(2.0)), 0
            while chosen < tokens - 1 and left >= chances[a * tokens + chosen, k]:
                left -= chances[a * tokens + chosen, k]
                chosen += 1
            for b in range(tokens):
                y[a * tokens + b, k] = 1.0 if b == chosen else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def _sampled_label_controls(place, t, h, chances, p, y, control):  # type: ignore[no-untyped-def]
    """Controls of labels that were drawn, one for each row: their columns, and the logits that two rows share
    (L7.2).
    """
    T, first, last = place.shape[0], BASIC_CONTROLS - 5, ZERO_MEAN_CONTROLS - 2
    for a in range(T):
        for b in range(T):
            i, ab, ba = place[a, b], a * T + b, b * T + a
            apart = 0.0 if a == b else 1.0
            for k in range(LANES):
                control[first, k] += y[ab, k] * chances[ab, k]
                control[first + 1, k] += y[ab, k] * p[ab, k]
                control[first + 2, k] += y[ab, k] * t[i, k]
                control[first + 3, k] += y[ab, k] * h[i, k]
                control[last, k] += apart * (y[ab, k] * y[ba, k] - chances[ab, k] * chances[ba, k])
                control[last + 1, k] += apart * (y[ab, k] - chances[ab, k]) * p[ba, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _copy(source, target, rows):  # type: ignore[no-untyped-def]
    """Copy the first rows; a slice would be compiled with all of its error messages."""
    for i in range(rows):
        for k in range(LANES):
            target[i, k] = source[i, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _search(problem, target, starts, h, branch, work, other, lowest, best):  # type: ignore[no-untyped-def]
    """Fill ``lowest`` with one where a minimum is lower than the one at ``h``, from the learner's logits and from
    there with one of a few rows at its label; if ``branch`` is global, move there.
    """
    _, place, held, v, _ = problem
    value, T, count = work.value, place.shape[0], held.shape[0]
    least = value.copy()
    for k in range(LANES):
        lowest[k] = 0.0
    for start in range(starts):
        _copy(v, other, count)
        if start > 0:
            row = start - 1
            for k in range(LANES):  # up to the best constant
                shift, hold = 0.0, 0.0
                for b in range(T):
                    i = place[row, b]
                    shift += held[i] * (v[i, k] - target[i, k])
                    hold += held[i]
                for b in range(T):
                    i = place[row, b]
                    other[i, k] = target[i, k] + shift / hold
        minimise(problem, other, work)
        for k in range(LANES):
            if is_lower(value[k], least[k]):
                least[k], lowest[k] = value[k], 1.0
                for i in range(count):
                    best[i, k] = other[i, k]
    if branch == Branch.GLOBAL:
        for k in range(LANES):
            if lowest[k] > 0.0:
                for i in range(count):
                    h[i, k] = best[i, k]
    minimise(problem, h, work)  # minima already: this refills the work space


@njit(cache=True, nogil=True, error_model="numpy")
def _add_form(M, size, c, e, factor, total):  # type: ignore[no-untyped-def]
    """total += factor c' M e."""
    for i in range(size):
        for j in range(size):
            ij, ci, ej = i * size + j, i, j
            for k in range(LANES):
                total[k] += factor * c[ci, k] * M[ij, k] * e[ej, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _diagonal(both, place, p, w, D, M, inverse):  # type: ignore[no-untyped-def]
    """The diagonal of A^-1, over logits ab; ``D`` has the reciprocals."""
    T = place.shape[0]
    size = 2 * T if both else T
    for a in range(T):
        for b in range(a, T):
            i, ab, ba = place[a, b], a * T + b, b * T + a
            m_aa, m_ab, m_bb = a * size + a, a * size + b, b * size + b
            other = 0.0 if a == b else 1.0
            for k in range(LANES):
                form = p[ab, k] * p[ab, k] * M[m_aa, k]
                form += other * (2.0 * p[ab, k] * M[m_ab, k] + p[ba, k] * M[m_bb, k]) * p[ba, k]
                inverse[i, k] = D[i, k] * (1.0 - form * D[i, k])
            if not both:
                continue
            n_aa, l_aa = a * size + T + a, (T + a) * size + T + a
            n_ab, n_ba = a * size + T + b, (T + a) * size + b
            n_bb, l_ab, l_bb = b * size + T + b, (T + a) * size + T + b, (T + b) * size + T + b
            for k in range(LANES):
                form = (2.0 * p[ab, k] * M[n_aa, k] + w[ab, k] * M[l_aa, k]) * w[ab, k]
                cross = p[ab, k] * w[ba, k] * M[n_ab, k] + w[ab, k] * p[ba, k] * M[n_ba, k]
                cross += w[ab, k] * w[ba, k] * M[l_ab, k] + p[ba, k] * w[ba, k] * M[n_bb, k]
                form += other * (2.0 * cross + w[ba, k] * w[ba, k] * M[l_bb, k])
                inverse[i, k] -= form * D[i, k] * D[i, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_responses(kind, place, p, w, y, D, M, inverse, rows, total, spread):  # type: ignore[no-untyped-def]
    """Add tr A^-1 B with B = -d(gradient)/d(label logits), summed row by row, to ``total``, and for the squared loss
    sum_a p_a' (diag - p_a) of A^-1 to ``spread``.
    """
    (f, e), (c, b_c) = rows
    T, both = place.shape[0], kind != CROSS_ENTROPY
    size = 2 * T if both else T
    for a in range(T):
        row = a * T
        if not both:
            row_vector(y, row, a, place, both, p, w, D, c)
            _add_form(M, size, c, c, 1.0, total)
            for b in range(T):
                i, ab = place[a, b], row + b
                for k in range(LANES):
                    total[k] += y[ab, k] * (inverse[i, k] - y[ab, k] * D[i, k])
            continue
        for k in range(LANES):
            e[0, k] = 0.0
        for b in range(T):
            ab = row + b
            for k in range(LANES):
                e[0, k] += p[ab, k] * y[ab, k]
        for b in range(T - 1, -1, -1):  # the first column last: its place holds the overlap until then
            i, ab, at = place[a, b], row + b, b
            for k in range(LANES):
                both_of = p[ab, k] * y[ab, k]
                change = p[ab, k] * (e[0, k] - y[ab, k])
                total[k] += 2.0 * both_of * inverse[i, k]
                total[k] += 2.0 * D[i, k] * (y[ab, k] * change - both_of * p[ab, k])
                spread[k] += p[ab, k] * (inverse[i, k] - p[ab, k] * D[i, k])
                f[at, k] = both_of
                e[at, k] = change
        row_vector(e, 0, a, place, both, p, w, D, b_c)
        row_vector(y, row, a, place, both, p, w, D, c)
        _add_form(M, size, c, b_c, -2.0, total)
        row_vector(f, 0, a, place, both, p, w, D, b_c)
        row_vector(p, row, a, place, both, p, w, D, c)
        _add_form(M, size, b_c, c, 2.0, total)
        _add_form(M, size, c, c, 1.0, spread)


@njit(cache=True, nogil=True, error_model="numpy")
def _spread(place, p, x, z, mean):  # type: ignore[no-untyped-def]
    """z = V J x: J = diag(p_a) - p_a p_a' of every row, and twice as much of a token with itself."""
    T = place.shape[0]
    z[:] = 0.0
    for a in range(T):
        for k in range(LANES):
            mean[0, k] = 0.0
        for b in range(T):
            i, ab = place[a, b], a * T + b
            for k in range(LANES):
                mean[0, k] += p[ab, k] * x[i, k]
        for b in range(T):
            i, ab, twice = place[a, b], a * T + b, 2.0 if a == b else 1.0
            for k in range(LANES):
                z[i, k] += twice * p[ab, k] * (x[i, k] - mean[0, k])


@njit(cache=True, nogil=True, error_model="numpy")
def _answered(place, p, y, z, x, mean):  # type: ignore[no-untyped-def]
    """x = B z, B = 2 J(p_a) J(y_a) of every row: what the gradient of the squared loss answers to the label with."""
    T = place.shape[0]
    x[:] = 0.0
    for a in range(T):
        for k in range(LANES):
            mean[0, k] = 0.0
            mean[1, k] = 0.0
        for b in range(T):
            i, ab = place[a, b], a * T + b
            for k in range(LANES):
                mean[0, k] += y[ab, k] * z[i, k]
        for b in range(T):
            i, ab = place[a, b], a * T + b
            for k in range(LANES):
                mean[1, k] += p[ab, k] * y[ab, k] * (z[i, k] - mean[0, k])
        for b in range(T):
            i, ab = place[a, b], a * T + b
            for k in range(LANES):
                x[i, k] += 2.0 * p[ab, k] * (y[ab, k] * (z[i, k] - mean[0, k]) - mean[1, k])


@njit(cache=True, nogil=True, error_model="numpy")
def _add_field_responses(place, p, w, y, D, M, x, z, spare, total):  # type: ignore[no-untyped-def]
    """Add tr V J A^-1 B: how the field p of the proximal point answers to the logits of the label, squared loss
    (L7.3).
    """
    T = place.shape[0]
    size = 2 * T
    for a in range(T):  # tr V J D^-1 B, of the same row, and of the two rows of a logit
        row = a * T
        spare[:] = 0.0
        for b in range(T):
            i, ab = place[a, b], row + b
            for k in range(LANES):
                spare[0, k] += p[ab, k] * y[ab, k]
        for b in range(T):
            i, ab, ba, twice, other = (
                place[a, b], row + b, b * T + a, 2.0 if a == b else 1.0, 0.0 if a == b else 1.0
            )  # fmt: skip
            # sum over j of p_b (same - p_j) 2 p_j y_b (same - y_j - p_b + overlap) / D_j
            for k in range(LANES):
                spare[1, k] = spare[0, k] - p[ab, k]
                spare[2, k] = 0.0
            for j in range(T):
                aj_place, aj, same = place[a, j], row + j, 1.0 if j == b else 0.0
                for k in range(LANES):
                    answer = p[aj, k] * (same - p[aj, k]) * (same - y[aj, k] + spare[1, k])
                    spare[2, k] += answer * D[aj_place, k]
            for k in range(LANES):
                own = 2.0 * p[ab, k] * y[ab, k]
                total[k] += twice * own * spare[2, k]
                answer = p[ba, k] * (1.0 - p[ba, k]) * (1.0 - y[ab, k] + spare[1, k])
                total[k] += other * own * answer * D[i, k]
    for direction in range(size):  # tr M U' D^-1 B V J D^-1 U, direction by direction
        row = direction % T
        x[:] = 0.0
        for b in range(T):
            i, rb = place[row, b], row * T + b
            if direction < T:
                for k in range(LANES):
                    x[i, k] = p[rb, k] * D[i, k]
            else:
                for k in range(LANES):
                    x[i, k] = w[rb, k] * D[i, k]
        _spread(place, p, x, z, spare)
        _answered(place, p, y, z, x, spare)
        for a in range(T):
            one, other = direction * size + a, direction * size + T + a
            for b in range(T):
                i, ab = place[a, b], a * T + b
                for k in range(LANES):
                    total[k] -= (M[one, k] * p[ab, k] + M[other, k] * w[ab, k]) * x[i, k] * D[i, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _add_turned(kind, place, target, v, h, y, p, Q, m, spare, total):  # type: ignore[no-untyped-def]
    """Add the slope of the loss along Q v - m t in the logits of the label."""
    T = place.shape[0]
    for a in range(T):
        for k in range(LANES):
            spare[0, k] = 0.0
        for b in range(T):
            i, ab = place[a, b], a * T + b
            for k in range(LANES):
                by = h[i, k] if kind == CROSS_ENTROPY else 2.0 * (p[ab, k] - y[ab, k])
                spare[0, k] += y[ab, k] * by
        for b in range(T):
            i, ab = place[a, b], a * T + b
            for k in range(LANES):
                by = h[i, k] if kind == CROSS_ENTROPY else 2.0 * (p[ab, k] - y[ab, k])
                total[k] -= (Q * v[i, k] - m * target[i, k]) * y[ab, k] * (by - spare[0, k])


@njit(cache=True, nogil=True, error_model="numpy")
def _add_squares(both, place, held, p, w, D, M, by, G, total):  # type: ignore[no-untyped-def]
    """Add tr (A^-1 H)² for H = diag(``held``)."""
    T, count = place.shape[0], held.shape[0]
    size = 2 * T if both else T
    for i in range(count):
        at = i
        for k in range(LANES):
            share = held[i] * D[at, k]
            total[k] += share * share
            by[at, k] = share * share * D[at, k]
    add_directions(T, both, place, p, w, by, G)
    for i in range(size):
        for j in range(size):
            ij, ji = i * size + j, max(i, j) * size + min(i, j)
            for k in range(LANES):
                total[k] -= 2.0 * M[ij, k] * G[ji, k]
    for i in range(count):
        at = i
        for k in range(LANES):
            by[at, k] = held[i] * D[at, k] * D[at, k]
    add_directions(T, both, place, p, w, by, G)
    rows = np.zeros((2 * size, LANES))
    for i in range(size):  # tr M G M G: row i of M G against column i
        for j in range(size):
            for k in range(LANES):
                rows[j, k] = 0.0
            for n in range(size):
                il, lj, at = i * size + n, max(n, j) * size + min(n, j), j
                for k in range(LANES):
                    rows[at, k] += M[il, k] * G[lj, k]
        for j in range(size):
            for k in range(LANES):
                rows[size + j, k] = 0.0
            for n in range(size):
                jl, li, at = j * size + n, max(n, i) * size + min(n, i), size + j
                for k in range(LANES):
                    rows[at, k] += M[jl, k] * G[li, k]
        for j in range(size):
            for k in range(LANES):
                total[k] += rows[j, k] * rows[size + j, k]


@njit(cache=True, nogil=True, error_model="numpy")
def _quartics(variances, Q, target, free_nodes, node, stop, control):  # type: ignore[no-untyped-def]
    """Add the quartic controls of every logit: label and the rest of the learner, in units of their deviations."""
    first = BASIC_CONTROLS
    for i in range(variances.shape[0]):
        scale = 1.0 / np.sqrt(Q * variances[i])
        for k in range(LANES):
            t, h = scale * target[i, k], free_nodes[min(node + k, stop - 1), i]
            control[first, k] += t * t * t * t
            control[first + 1, k] += t * t * t * h
            control[first + 2, k] += t * t * h * h
            control[first + 3, k] += t * h * h * h
            control[first + 4, k] += h * h * h * h


@njit(types.void(int64, int64, NODES, STATE, MODES, SLICES, MATRIX), cache=True, nogil=True, error_model="numpy")
def shared_logit_sums(kind, tokens, nodes, state, modes, slices, out):  # type: ignore[no-untyped-def]
    """`independent_row_sums` for all rows of a tied head; nodes are independent normals for the logits ab, a <= b, row
    by row.

    Lower minima are looked for from the learner's logits, and from there with one of a few rows at its label. Hard
    labels are drawn by one more normal of each row, behind those of the learner (L7.2).
    """
    label_nodes, free_nodes, weights, kept = nodes
    Q, q, m, sigma = state
    search, detail, warm_start, hard, stein, rich = modes
    length, first, last = slices
    T, both, starts = tokens, kind != CROSS_ENTROPY, 1 + min(tokens, MOST_STARTS)
    size, count = 2 * T if both else T, T * (T + 1) // 2
    place, variances = np.empty((T, T), dtype=np.int64), np.ones(count)
    at = 0
    for a in range(T):
        for b in range(a, T):
            place[a, b] = place[b, a] = at
            variances[at] = 2.0 if a == b else 1.0
            at += 1
    held, pairs = 1.0 / (sigma * variances), (count, LANES)
    target, v, h, other, best, inverse = (
        np.empty(pairs), np.empty(pairs), np.empty(pairs), np.empty(pairs), np.empty(pairs), np.empty(pairs)
    )  # fmt: skip
    y, label, fresh = np.empty((T * T, LANES)), np.empty((2 * T * T, LANES)), np.empty((2 * T * T, LANES))
    label_bits, fresh_bits, label_z, fresh_z = (
        label.view(np.int64), fresh.view(np.int64), np.empty((T, LANES)), np.empty((T, LANES))
    )  # fmt: skip
    M, G, f, e, c = (
        np.empty((size * size, LANES)), np.empty((size * size, LANES)), np.empty((T, LANES)), np.empty((T, LANES)),
        np.empty((size, LANES)),
    )  # fmt: skip
    work = workspace(T, size)
    p, w, D, scale, spare_c, value, worst = work.p, work.w, work.inverse, work.scale, work.c, work.value, work.worst
    problem, rows = Problem(kind, place, held, v, y), ((f, e), (c, spare_c))
    values, control, spare = np.zeros((AVERAGE_COUNT, LANES)), np.zeros((CONTROL_COUNT, LANES)), np.zeros((5, LANES))
    means = np.empty((LANES // 2, CONTROL_COUNT + AVERAGE_COUNT))
    flat_spare = np.zeros(9 * LANES)
    chances, tilts, lower = np.empty(LANES), np.ones(LANES), np.zeros(LANES)
    cross, spread, along, turned = np.empty(LANES), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    left, powers = np.array([Q, q, m]) / (0.5 * T * T), (Q * variances, q * variances, m * variances)
    slope, free = m / Q, np.sqrt(max(q - m * m / Q, 0.0))
    distance, by_label, by_own, trace, squares = 0, 1, 2, 3, 4
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        stop = min((part + 1) * length, weights.shape[0])
        for node in range(part * length, stop, LANES):
            for k in range(LANES):  # beyond the end is the last node without a weight
                chances[k] = weights[node + k] if node + k < stop else 0.0
            for i in range(count):
                at, root = i, np.sqrt(variances[i])
                for k in range(LANES):
                    target[at, k] = np.sqrt(Q) * root * label_nodes[min(node + k, stop - 1), i]
                    v[at, k] = slope * target[at, k] + free * root * free_nodes[min(node + k, stop - 1), i]
                    h[at, k] = target[at, k]
            softmax_rows(target, place, label, label_bits, scale)
            log_normalisations(scale, T, label_z)
            if hard == 1:
                _draw_labels(label, T, free_nodes, node, stop, count, y)
                _copy(v, h, count)
            else:
                _copy(label, y, T * T)
            if warm_start == 2:
                for i in range(count):
                    for k in range(LANES):
                        h[i, k] = kept[min(node + k, stop - 1), i]
            minimise(problem, h, work)
            if search > 0:
                _search(problem, target, starts, h, search, work, other, lower, best)
            if warm_start > 0:
                for i in range(count):
                    for k in range(min(LANES, stop - node)):
                        kept[node + k, i] = h[i, k]
            values[:] = 0.0
            control[:] = 0.0
            for i in range(count):
                at = i
                for k in range(LANES):
                    pull = (h[at, k] - v[at, k]) / variances[i]
                    values[distance, k] += pull * (h[at, k] - v[at, k])
                    values[by_label, k] += pull * target[at, k]
                    values[by_own, k] += pull * v[at, k]
            cross[:], spread[:], along[:], turned[:] = 0.0, 0.0, 0.0, 0.0
            if detail > 0:
                factor_at_minimum(problem, work)
                invert(work.R, T, both, M)
                _diagonal(both, place, p, w, D, M, inverse)
                for i in range(count):
                    for k in range(LANES):
                        values[trace, k] += 1.0 - held[i] * inverse[i, k]
                if hard == 0:
                    _add_responses(kind, place, p, w, y, D, M, inverse, rows, cross, spread)
                else:
                    for a in range(T):
                        for b in range(T):
                            i, ab = place[a, b], a * T + b
                            for k in range(LANES):
                                cross[k] += (y[ab, k] - label[ab, k]) * (h[i, k] - v[i, k])
            if detail == Detail.FULL:
                _add_squares(both, place, held, p, w, D, M, other, G, values[squares])
                for k in range(LANES):
                    values[squares, k] += 2.0 * values[trace, k] - count
            for k in range(LANES):
                values[5, k] = cross[k]
                values[6, k] = value[k] - 0.5 * values[distance, k] / sigma
                values[7, k] = lower[k]
            softmax_rows(v, place, fresh, fresh_bits, scale)
            log_normalisations(scale, T, fresh_z)
            for a in range(T):
                row_controls_simd(
                    a, place, (target, v), (label, fresh), powers, (label_z, fresh_z), left, rich, control, flat_spare
                )
            if hard == 1:
                _sampled_label_controls(place, target, v, label, fresh, y, control)
            if rich == 1:
                _quartics(variances, Q, target, free_nodes, node, stop, control)
            if stein == 1:
                if hard == 0:
                    _add_turned(kind, place, target, v, h, y, p, Q, m, spare, turned)
                if kind == SQUARED:
                    _add_field_responses(place, p, w, y, D, M, other, best, spare, along)
                for k in range(LANES):
                    own, it = values[by_own, k], values[by_label, k]
                    control[0, k] = own + q * values[trace, k] - m * cross[k]
                    control[1, k] = it + m * values[trace, k] - Q * cross[k]
                    if hard == 0:
                        control[4, k] = turned[k] + (q * it - m * own) / sigma
                    if kind == SQUARED:
                        control[2, k] = -Q * along[k] - m * spread[k] / sigma
                        control[3, k] = -m * along[k] - q * spread[k] / sigma
                for a in range(T if kind == SQUARED else 0):
                    for b in range(T):
                        i, ab = place[a, b], a * T + b
                        for k in range(LANES):
                            control[2, k] += target[i, k] * p[ab, k]
                            control[3, k] += v[i, k] * p[ab, k]
            add_mirror_pairs(sums, chances, tilts, worst, values, control, means)
