"""Traces of the inverse of the Hessian of a tied head, many nodes side by side: how proximal points answer to labels.

The inverse is that of `onehead.aim.kernels.shared_logits`, A^-1 = D^-1 - D^-1 U M U' D^-1.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.losses import CROSS_ENTROPY
from onehead.aim.kernels.shared_logits_simd import add_directions, row_vector
from onehead.aim.kernels.simd import LANES
from onehead.numerics.jit import njit

Array = NDArray[np.float64]


class Factored(NamedTuple):
    """Inverse of the Hessians of some nodes: place of the logit of each pair of tokens, the directions p and w of every
    row, the reciprocals of D, and M.
    """

    place: NDArray[np.int64]
    p: Array
    w: Array
    D: Array
    M: Array


@njit
def _add_form(M, size, c, e, factor, total):
    """total += factor c' M e."""
    for i in range(size):
        for j in range(size):
            ij, ci, ej = i * size + j, i, j
            for k in range(LANES):
                total[k] += factor * c[ci, k] * M[ij, k] * e[ej, k]


@njit
def fill_diagonal(both, factored, inverse):
    """Fill ``inverse`` with the diagonal of A^-1, over logits ab."""
    place, p, w, D, M = factored
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


@njit
def add_responses(kind, factored, y, inverse, rows, total, spread):
    """Add tr A^-1 B with B = -d(gradient)/d(label logits), summed row by row, to ``total``, and for the squared loss
    sum_a p_a' (diag - p_a) of A^-1 to ``spread``.
    """
    (place, p, w, D, M), ((f, e), (c, b_c)) = factored, rows
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


@njit
def _spread(place, p, x, z, mean):
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


@njit
def _answered(place, p, y, z, x, mean):
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


@njit
def add_field_responses(factored, y, x, z, spare, total):
    """Add tr V J A^-1 B: how the field p of the proximal point answers to the logits of the label, squared loss
    (L7.3).
    """
    place, p, w, D, M = factored
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


@njit
def add_turned(kind, place, logits, y, p, state, spare, total):
    """Add the slope of the loss along Q v - m t in the logits of the label; ``logits`` are t, v and the prox."""
    (target, v, h), Q, m, T = logits, state.Q, state.m, place.shape[0]
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


@njit
def add_squares(both, factored, held, by, G, total):
    """Add tr (A^-1 H)² for H = diag(``held``)."""
    place, p, w, D, M = factored
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
