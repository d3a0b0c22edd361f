"""Averages over all rows of untied self-attention without a mask, in a time that grows as the cube of the tokens (U5.2,
L7).

The logits ab and ba of two tokens are correlated, and held together: (h_ab, h_ba) by the precision [[k1, k2], [k2,
k1]], a token's own logit by 1/Sigma_s. The Hessian is one two by two block for each pair, plus two directions for each
row, which touch those of another row through one block: Woodbury as in `onehead.aim.kernels.shared_logits`, with G1 and
G2 the entries of the inverse blocks,

    A^-1 = G - G U (K^-1 + U' G U)^-1 U' G,        (G x)_ab = G1_ab x_ab + G2_ab x_ba.

Sectors are told apart by exchanging ab and ba: tr (1 + exchange)/2 is that of the symmetric part, tr (1 - exchange)/2
that of the other.
"""

import numpy as np
from numba import int64, types

from onehead.aim.kernels.arguments import MATRIX, MODES, NODES, SLICES
from onehead.aim.kernels.control_variates import (
    CONTROL_COUNT,
    GROUPED_AVERAGES,
    add_mirror_pair,
    quartics,
    row_controls,
    sampled_label_controls,
    two_group_stein_controls,
)
from onehead.aim.kernels.hard_labels import draw_rows
from onehead.aim.kernels.independent_rows import row_loss
from onehead.aim.kernels.losses import CROSS_ENTROPY, softmax
from onehead.aim.kernels.multi_start import multi_start
from onehead.aim.kernels.woodbury import MOST_STARTS, decompose, inverse_of, newton_by_woodbury, solve_factored
from onehead.numerics.jit import njit
from onehead.numerics.newton import largest_entry


@njit
def _factor(problem, more, work):
    """Fill G1, G2 and R, held ``more``; return whether the Hessian is positive definite.

    The hold is k1, k2 and that of own logits.
    """
    kind, k, _, _ = problem
    _, _, _, (p, _, w, s, t), (G1, G2, R, _, _) = work
    T, both = p.shape[0], R.shape[0] > p.shape[0]
    for a in range(T):
        for b in range(a, T):
            one = p[a, b] if kind == CROSS_ENTROPY else 2.0 * (w[a, b] - s[a] * p[a, b])
            if a == b:
                one += more * k[2]
                if not one > 0.0:
                    return False
                G1[a, a], G2[a, a] = 1.0 / one, 0.0
                continue
            other = p[b, a] if kind == CROSS_ENTROPY else 2.0 * (w[b, a] - s[b] * p[b, a])
            one, other, off = one + more * k[0], other + more * k[0], more * k[1]
            area = one * other - off * off
            if not (one > 0.0 and area > 0.0):
                return False
            G1[a, b], G1[b, a] = other / area, one / area
            G2[a, b] = G2[b, a] = -off / area
    R[:] = 0.0
    for a in range(T):
        for b in range(T):
            R[a, a] += p[a, b] * p[a, b] * G1[a, b]
            R[a, b] += p[a, b] * p[b, a] * G2[a, b]
            if both:
                R[a, T + a] += p[a, b] * w[a, b] * G1[a, b]
                R[a, T + b] += p[a, b] * w[b, a] * G2[a, b]
                R[T + a, T + a] += w[a, b] * w[a, b] * G1[a, b]
                R[T + a, T + b] += w[a, b] * w[b, a] * G2[a, b]
    if both:
        for a in range(T):
            for b in range(T):
                R[T + b, a] = R[a, T + b]
    return decompose(kind, s, t, R)


@njit
def _step(work):
    """move = -A^-1 gradient; returns the slope along it."""
    gradient, move, _, (p, _, w, _, _), (G1, G2, R, c, _) = work
    T, both, slope = p.shape[0], R.shape[0] > p.shape[0], 0.0
    c[:] = 0.0
    for a in range(T):
        for b in range(T):
            x = G1[a, b] * gradient[a, b] + G2[a, b] * gradient[b, a]
            c[a] += p[a, b] * x
            if both:
                c[T + a] += w[a, b] * x
    solve_factored(R, c)
    for a in range(T):
        for b in range(T):
            one, other = gradient[a, b] - p[a, b] * c[a], gradient[b, a] - p[b, a] * c[b]
            if both:
                one -= w[a, b] * c[T + a]
                other -= w[b, a] * c[T + b]
            move[a, b] = -(G1[a, b] * one + G2[a, b] * other)
            slope += gradient[a, b] * move[a, b]
    return slope


@njit
def _pulled(k, h, v, e):
    """e = C(Sigma)^-1 (h - v)."""
    T = h.shape[0]
    for a in range(T):
        e[a, a] = k[2] * (h[a, a] - v[a, a])
        for b in range(a):
            one, other = h[a, b] - v[a, b], h[b, a] - v[b, a]
            e[a, b], e[b, a] = k[0] * one + k[1] * other, k[0] * other + k[1] * one


@njit
def _objective(problem, h, work):
    """Value of a point, in a tuple; fills the gradient and what the rows have of it."""
    kind, k, v, y = problem
    gradient, _, _, (p, g, w, s, t), (_, _, _, _, e) = work
    T, value = h.shape[0], 0.0
    for a in range(T):
        own, s[a], t[a] = row_loss(kind, h[a], y[a], p[a], g[a], w[a])
        value += own
    _pulled(k, h, v, e)
    for a in range(T):
        for b in range(T):
            value += 0.5 * e[a, b] * (h[a, b] - v[a, b])
            gradient[a, b] = g[a, b] + e[a, b]
    return (value,)


@njit
def _place_start(problem, target, number, point):
    """Start at the learner's logits, or from there with one row at its label."""
    point[:] = problem[2]
    if number > 0:
        point[number - 1] = target[number - 1]


_minimise = newton_by_woodbury(_objective, _factor, _step)
_search = multi_start(_minimise, _place_start)


@njit
def _lifted(f, row, across, p, w, G1, G2, c):
    """c = U' G f for a vector over the logits of a row, or ``across``: those exchanged with them."""
    T, both = p.shape[0], c.shape[0] > p.shape[0]
    c[:] = 0.0
    for j in range(T):
        one, other = (G2[row, j], G1[j, row]) if across and j != row else (G1[row, j], G2[row, j])
        c[row] += p[row, j] * one * f[j]
        if both:
            c[T + row] += w[row, j] * one * f[j]
        if j != row:
            c[j] += p[j, row] * other * f[j]
            if both:
                c[T + j] += w[j, row] * other * f[j]


@njit
def _pairing(f, e, row, across, p, w, G1, G2, M, c, b):
    """f' A^-1 e for e over the logits of a row, and f over the same or over those exchanged with them."""
    _lifted(f, row, across, p, w, G1, G2, c)
    _lifted(e, row, False, p, w, G1, G2, b)
    total = 0.0
    for j in range(p.shape[0]):
        total += f[j] * e[j] * (G2[row, j] if across and j != row else G1[row, j])
    for i in range(M.shape[0]):
        along = 0.0
        for j in range(M.shape[0]):
            along += M[i, j] * b[j]
        total -= c[i] * along
    return total


@njit
def _inverses(p, w, G1, G2, M, straight, crossed):
    """Entries of A^-1: of every logit with itself, and with the one exchanged with it."""
    T, both = p.shape[0], M.shape[0] > p.shape[0]
    for a in range(T):
        for b in range(T):
            # G U has entries in the directions of rows a and b: at the logit ab, and at ba
            pa, pb, wa, wb = G1[a, b] * p[a, b], G2[a, b] * p[b, a], G1[a, b] * w[a, b], G2[a, b] * w[b, a]
            qa, qb, xa, xb = G2[a, b] * p[a, b], G1[b, a] * p[b, a], G2[a, b] * w[a, b], G1[b, a] * w[b, a]
            if a == b:
                pb, wb, qa, xa = 0.0, 0.0, 0.0, 0.0
            one = pa * pa * M[a, a] + 2.0 * pa * pb * M[a, b] + pb * pb * M[b, b]
            two = pa * qa * M[a, a] + (pa * qb + pb * qa) * M[a, b] + pb * qb * M[b, b]
            if both:
                one += 2.0 * (pa * (wa * M[a, T + a] + wb * M[a, T + b]) + pb * (wa * M[b, T + a] + wb * M[b, T + b]))
                one += wa * wa * M[T + a, T + a] + 2.0 * wa * wb * M[T + a, T + b] + wb * wb * M[T + b, T + b]
                two += pa * (xa * M[a, T + a] + xb * M[a, T + b]) + pb * (xa * M[b, T + a] + xb * M[b, T + b])
                two += qa * (wa * M[a, T + a] + wb * M[a, T + b]) + qb * (wa * M[b, T + a] + wb * M[b, T + b])
                two += wa * xa * M[T + a, T + a] + (wa * xb + wb * xa) * M[T + a, T + b] + wb * xb * M[T + b, T + b]
            straight[a, b] = G1[a, b] - one
            crossed[a, b] = straight[a, b] if a == b else G2[a, b] - two


@njit
def _answers(kind, across, p, w, y, G1, G2, M, inverse, c, b, e):
    """tr A^-1 B with B = -d(gradient)/d(label logits), or of the same with ab and ba exchanged; ``inverse`` holds the
    entries it needs.
    """
    T, total = p.shape[0], 0.0
    for a in range(T):
        if kind == CROSS_ENTROPY:
            for j in range(T):
                total += inverse[a, j] * y[a, j]
            total -= _pairing(y[a], y[a], a, across, p, w, G1, G2, M, c, b)
            continue
        overlap = 0.0
        for j in range(T):
            overlap += p[a, j] * y[a, j]
        for j in range(T):
            total += 2.0 * inverse[a, j] * p[a, j] * y[a, j]
            e[j] = p[a, j] * (overlap - y[a, j])
        total += 2.0 * _pairing(y[a], e, a, across, p, w, G1, G2, M, c, b)
        for j in range(T):
            e[j] = p[a, j] * y[a, j]
        total -= 2.0 * _pairing(e, p[a], a, across, p, w, G1, G2, M, c, b)
    return total


@njit(types.void(int64, int64, MATRIX, NODES, MODES, SLICES, MATRIX))
def two_sector_shared_logit_sums(kind, tokens, powers, nodes, modes, slices, out):
    """`two_sector_row_sums` for all rows together, the groups being the two sectors, of which ``powers`` are q, m and
    Sigma.

    Nodes are independent normals: own logits first, then the symmetric and the antisymmetric part of every pair.
    """
    label_nodes, free_nodes, weights, kept = nodes
    search, detail, warm_start, hard, stein, rich = modes
    length, first, last = slices
    T, size, starts = tokens, tokens if kind == CROSS_ENTROPY else 2 * tokens, 1 + min(tokens, MOST_STARTS)
    shape = (T, T)
    target, v, h, y, label, fresh = (
        np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape),
    )  # fmt: skip
    p, g, w, gradient, move, trial, e = (
        np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape),
        np.empty(shape), np.empty(shape), np.empty(shape),
    )  # fmt: skip
    G1, G2, straight, crossed = np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape)
    s, t, spare_row = np.empty(T), np.empty(T), np.empty(T)
    R, M, c, b_of = np.empty((size, size)), np.empty((size, size)), np.empty(size), np.empty(size)
    work = (gradient, move, trial, (p, g, w, s, t), (G1, G2, R, c, e))
    values, control = np.empty(GROUPED_AVERAGES), np.empty(CONTROL_COUNT)
    mean_of, mean = np.empty(GROUPED_AVERAGES), np.empty(CONTROL_COUNT)
    Q, slopes = powers[3, 0], powers[1] / powers[3]
    spares = np.sqrt(np.maximum(powers[0] - powers[1] ** 2 / powers[3], 0.0))
    k = np.array([0.5 / powers[2, 0] + 0.5 / powers[2, 1], 0.5 / powers[2, 0] - 0.5 / powers[2, 1], 1.0 / powers[2, 0]])
    problem, spare_points = (kind, k, v, y), (np.empty(shape), np.empty(shape))
    label_power, own_power, both, left = np.full(T, Q), np.empty(T), np.empty(T), np.zeros(3)
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            place = T
            for a in range(T):
                target[a, a] = np.sqrt(Q) * label_nodes[node, a]
                v[a, a] = slopes[0] * target[a, a] + spares[0] * free_nodes[node, a]
                for b in range(a + 1, T):
                    even, odd = (
                        np.sqrt(0.5 * Q) * label_nodes[node, place],
                        np.sqrt(0.5 * Q) * label_nodes[node, place + 1],
                    )
                    target[a, b], target[b, a] = even + odd, even - odd
                    even = slopes[0] * even + np.sqrt(0.5) * spares[0] * free_nodes[node, place]
                    odd = slopes[1] * odd + np.sqrt(0.5) * spares[1] * free_nodes[node, place + 1]
                    v[a, b], v[b, a] = even + odd, even - odd
                    place += 2
            for a in range(T):
                softmax(target[a], label[a])
                for b in range(T):
                    h[a, b] = kept[node, T * a + b] if warm_start == 2 else v[a, b] if hard == 1 else target[a, b]
            if hard == 1:
                draw_rows(label, free_nodes[node, T * T :], y)
            else:
                y[:] = label
            _, (value,) = _minimise(problem, h, work)
            values[:], control[:] = 0.0, 0.0
            if search > 0:
                found, (value,) = _search(problem, target, starts, h, value, search, work, spare_points)
                values[2] = 1.0 if found else 0.0
            _pulled(k, h, v, e)
            for a in range(T):
                for b in range(T):
                    values[1] += e[a, b] * (h[a, b] - v[a, b])
                    for group, sign in ((0, 0.5), (1, -0.5)):
                        values[3 + group] += e[a, b] * (0.5 * e[a, b] + sign * e[b, a])
                        values[5 + group] += e[a, b] * (0.5 * target[a, b] + sign * target[b, a])
                        values[7 + group] += e[a, b] * (0.5 * v[a, b] + sign * v[b, a])
                    if warm_start > 0:
                        kept[node, T * a + b] = h[a, b]
            values[0] = value - 0.5 * values[1]
            if detail > 0:
                inverse_of(R, M)
                _inverses(p, w, G1, G2, M, straight, crossed)
                by_one, by_other = 0.0, 0.0
                if hard == 0:
                    by_one = _answers(kind, False, p, w, y, G1, G2, M, straight, c, b_of, spare_row)
                    by_other = _answers(kind, True, p, w, y, G1, G2, M, crossed, c, b_of, spare_row)
                for group, sign in ((0, 0.5), (1, -0.5)):
                    hold, count = 1.0 / powers[2, group], 0.5 * T * T + sign * T
                    values[9 + group] = hold * (count - hold * (0.5 * np.sum(straight) + sign * np.sum(crossed)))
                    values[11 + group] = hold * (0.5 * by_one + sign * by_other)
                    if hard == 1:
                        score = y - label
                        values[11 + group] = np.sum(e * (0.5 * score + sign * score.T))
            for a in range(T):
                softmax(v[a], fresh[a])
                own_power[:], both[:] = 0.5 * (powers[0, 0] + powers[0, 1]), 0.5 * (powers[1, 0] + powers[1, 1])
                own_power[a], both[a] = powers[0, 0], powers[1, 0]
                row_controls(target[a], v[a], label[a], fresh[a], label_power, own_power, both, left, rich, control)
            if hard == 1:
                sampled_label_controls(target, v, label, fresh, y, control)
            if rich == 1:
                for i in range(T * T):
                    quartics(label_nodes[node, i], free_nodes[node, i], control)
            if stein == 1:
                two_group_stein_controls(powers, values, control)
            add_mirror_pair(sums, node, weights[node], largest_entry(gradient), values, control, mean_of, mean)
