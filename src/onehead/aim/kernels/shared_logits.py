"""Averages over the rows of a tied head, any two of which share one logit, in a time that grows as the cube of the
tokens (L7).

All T(T+1)/2 logits h_ab = h_ba are kept, as matrices; a constant added to all of them drops out by itself. The Hessian
is a diagonal plus two directions for each row a, p_a and w_a of `onehead.aim.kernels.independent_rows`, which touch
those of row b in the logit ab alone:

    A = D + U K U',    A^-1 = D^-1 - D^-1 U (K^-1 + U' D^-1 U)^-1 U' D^-1,

so that a Newton step factors a matrix of 2T rows. A is positive definite if D is, and K^-1 + U' D^-1 U has as many
negative pivots as K^-1, one for each row.
"""

import numpy as np
from numba import int64, types

from onehead.aim.kernels.arguments import MATRIX, MODES, NODES, SLICES, STATE
from onehead.aim.kernels.control_variates import (
    AVERAGE_COUNT,
    CONTROL_COUNT,
    add_mirror_pair,
    quartics,
    row_controls,
    sampled_label_controls,
)
from onehead.aim.kernels.hard_labels import draw_rows
from onehead.aim.kernels.independent_rows import row_loss
from onehead.aim.kernels.losses import CROSS_ENTROPY, SQUARED, softmax
from onehead.aim.kernels.multi_start import multi_start
from onehead.aim.kernels.woodbury import MOST_STARTS, decompose, inverse_of, newton_by_woodbury, solve_factored
from onehead.numerics.jit import njit
from onehead.numerics.newton import largest_entry

__all__ = ["shared_logit_sums"]


@njit(cache=True, nogil=True, error_model="numpy")
def _gather(p, w, by, R):  # type: ignore[no-untyped-def]
    """Fill R = U' diag(by) U for the directions of all rows: p of every row first, then w if there is room for it."""
    T, both = p.shape[0], R.shape[0] > p.shape[0]
    R[:] = 0.0
    for a in range(T):
        for b in range(T):
            x = by[a, b]
            R[a, a] += p[a, b] * p[a, b] * x
            if a != b:
                R[a, b] = p[a, b] * p[b, a] * x
            if both:
                R[a, T + a] += p[a, b] * w[a, b] * x
                R[T + a, T + a] += w[a, b] * w[a, b] * x
                if a != b:
                    R[a, T + b] = p[a, b] * w[b, a] * x
                    R[T + a, T + b] = w[a, b] * w[b, a] * x
        if both:
            R[T + a, a] = R[a, T + a]
    if both:
        for a in range(T):
            for b in range(T):
                R[T + b, a] = R[a, T + b]


@njit(cache=True, nogil=True, error_model="numpy")
def _factor(problem, more, work):  # type: ignore[no-untyped-def]
    """Fill D, and R with the factors L and pivots of K^-1 + U' D^-1 U; return whether the Hessian, held ``more``, is
    positive definite.
    """
    kind, held, _, _ = problem
    _, _, _, (p, _, w, s, t), (D, R, _) = work
    T, low = p.shape[0], np.inf
    for a in range(T):
        for b in range(a, T):
            one = p[a, b] if kind == CROSS_ENTROPY else 2.0 * (w[a, b] - s[a] * p[a, b])
            other = p[b, a] if kind == CROSS_ENTROPY else 2.0 * (w[b, a] - s[b] * p[b, a])
            D[a, b] = more * held[a, b] + one + (other if a != b else 0.0)
            low = min(low, D[a, b])
            D[b, a] = D[a, b]
    if not low > 0.0:
        return False
    _gather(p, w, 1.0 / D, R)
    return decompose(kind, s, t, R)


@njit(cache=True, nogil=True, error_model="numpy")
def _step(work):  # type: ignore[no-untyped-def]
    """move = -A^-1 gradient; returns the slope along it."""
    gradient, move, _, (p, _, w, _, _), (D, R, c) = work
    T, both, slope = p.shape[0], R.shape[0] > p.shape[0], 0.0
    c[:] = 0.0
    for a in range(T):
        for b in range(T):
            x = gradient[a, b] / D[a, b]
            c[a] += p[a, b] * x
            if both:
                c[T + a] += w[a, b] * x
    solve_factored(R, c)
    for a in range(T):
        for b in range(a, T):
            along = p[a, b] * c[a] + (p[b, a] * c[b] if a != b else 0.0)
            if both:
                along += w[a, b] * c[T + a] + (w[b, a] * c[T + b] if a != b else 0.0)
            move[a, b] = -(gradient[a, b] - along) / D[a, b]
            move[b, a] = move[a, b]
            slope += gradient[a, b] * move[a, b]
    return slope


@njit(cache=True, nogil=True, error_model="numpy")
def _objective(problem, h, work):  # type: ignore[no-untyped-def]
    """Value of a point, in a tuple; fills the gradient over logits ab, twice, and what the rows have of it."""
    kind, held, v, y = problem
    gradient, _, _, (p, g, w, s, t), _ = work
    T, value = h.shape[0], 0.0
    for a in range(T):
        own, s[a], t[a] = row_loss(kind, h[a], y[a], p[a], g[a], w[a])
        value += own
    for a in range(T):
        for b in range(a, T):
            away = h[a, b] - v[a, b]
            value += 0.5 * held[a, b] * away * away
            gradient[a, b] = g[a, b] + (g[b, a] if a != b else 0.0) + held[a, b] * away
            gradient[b, a] = gradient[a, b]
    return (value,)


@njit(cache=True, nogil=True, error_model="numpy")
def _place_start(problem, target, number, point):  # type: ignore[no-untyped-def]
    """Start at the learner's logits, or from there with one row at its label, up to the best constant."""
    _, held, v, _ = problem
    point[:] = v
    if number > 0:
        row, shift, hold = number - 1, 0.0, 0.0
        for b in range(v.shape[0]):
            shift += held[row, b] * (v[row, b] - target[row, b])
            hold += held[row, b]
        for b in range(v.shape[0]):
            point[row, b] = target[row, b] + shift / hold
            point[b, row] = point[row, b]


_minimise = newton_by_woodbury(_objective, _factor, _step)
_search = multi_start(_minimise, _place_start)


@njit(cache=True, nogil=True, error_model="numpy")
def _pairing(f, e, row, p, w, D, M, c, b):  # type: ignore[no-untyped-def]
    """f' A^-1 e for two vectors over the logits of one row; ``b`` holds M U' D^-1 e on return."""
    T, both, total = p.shape[0], M.shape[0] > p.shape[0], 0.0
    c[:], b[:] = 0.0, 0.0
    for k in range(T):
        x, z = f[k] / D[row, k], e[k] / D[row, k]
        total += f[k] * z
        c[row] += p[row, k] * x
        b[row] += p[row, k] * z
        if both:
            c[T + row] += w[row, k] * x
            b[T + row] += w[row, k] * z
        if k != row:
            c[k] += p[k, row] * x
            b[k] += p[k, row] * z
            if both:
                c[T + k] += w[k, row] * x
                b[T + k] += w[k, row] * z
    for i in range(M.shape[0]):
        along = 0.0
        for j in range(M.shape[0]):
            along += M[i, j] * b[j]
        total -= c[i] * along
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _diagonal(p, w, D, M, inverse):  # type: ignore[no-untyped-def]
    """The diagonal of A^-1, over logits ab."""
    T, both = p.shape[0], M.shape[0] > p.shape[0]
    for a in range(T):
        for b in range(a, T):
            form = p[a, b] * p[a, b] * M[a, a]
            if both:
                form += 2.0 * p[a, b] * w[a, b] * M[a, T + a] + w[a, b] * w[a, b] * M[T + a, T + a]
            if a != b:
                form += 2.0 * p[a, b] * p[b, a] * M[a, b] + p[b, a] * p[b, a] * M[b, b]
                if both:
                    form += 2.0 * (p[a, b] * w[b, a] * M[a, T + b] + w[a, b] * p[b, a] * M[T + a, b])
                    form += 2.0 * (w[a, b] * w[b, a] * M[T + a, T + b] + p[b, a] * w[b, a] * M[b, T + b])
                    form += w[b, a] * w[b, a] * M[T + b, T + b]
            inverse[a, b] = 1.0 / D[a, b] - form / (D[a, b] * D[a, b])
            inverse[b, a] = inverse[a, b]


@njit(cache=True, nogil=True, error_model="numpy")
def _answers(kind, p, w, y, D, M, inverse, c, b, e):  # type: ignore[no-untyped-def]
    """tr A^-1 B with B = -d(gradient)/d(label logits), summed row by row."""
    T, total = p.shape[0], 0.0
    for a in range(T):
        if kind == CROSS_ENTROPY:
            for k in range(T):
                total += inverse[a, k] * y[a, k]
            total -= _pairing(y[a], y[a], a, p, w, D, M, c, b)
            continue
        overlap = 0.0
        for k in range(T):
            overlap += p[a, k] * y[a, k]
        for k in range(T):
            total += 2.0 * inverse[a, k] * p[a, k] * y[a, k]
            e[k] = p[a, k] * (overlap - y[a, k])
        total += 2.0 * _pairing(y[a], e, a, p, w, D, M, c, b)
        for k in range(T):
            e[k] = p[a, k] * y[a, k]
        total -= 2.0 * _pairing(e, p[a], a, p, w, D, M, c, b)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _spread(p, x, z):  # type: ignore[no-untyped-def]
    """z = V J x: J = diag(p_a) - p_a p_a' of every row, and twice as much of a token with itself."""
    T = p.shape[0]
    for a in range(T):
        mean = 0.0
        for b in range(T):
            mean += p[a, b] * x[a, b]
        for b in range(T):
            z[a, b] = p[a, b] * (x[a, b] - mean)
    for a in range(T):
        z[a, a] *= 2.0
        for b in range(a + 1, T):
            z[a, b] += z[b, a]
            z[b, a] = z[a, b]


@njit(cache=True, nogil=True, error_model="numpy")
def _answered(p, y, z, x):  # type: ignore[no-untyped-def]
    """x = B z, B = 2 J(p_a) J(y_a) of every row: what the gradient of the squared loss answers to the label with."""
    T = p.shape[0]
    for a in range(T):
        mean, along = 0.0, 0.0
        for b in range(T):
            mean += y[a, b] * z[a, b]
        for b in range(T):
            x[a, b] = y[a, b] * (z[a, b] - mean)
            along += p[a, b] * x[a, b]
        for b in range(T):
            x[a, b] = 2.0 * p[a, b] * (x[a, b] - along)
    for a in range(T):
        for b in range(a + 1, T):
            x[a, b] += x[b, a]
            x[b, a] = x[a, b]


@njit(cache=True, nogil=True, error_model="numpy")
def _field_answers(p, w, y, D, M, x, z):  # type: ignore[no-untyped-def]
    """tr V J A^-1 B: how the field p of the proximal point answers to the logits of the label, squared loss (L7.3)."""
    T, total = p.shape[0], 0.0
    for a in range(T):  # tr V J D^-1 B, of the same row, and of the two rows of a logit
        overlap = 0.0
        for b in range(T):
            overlap += p[a, b] * y[a, b]
        for b in range(T):
            twice = 2.0 if a == b else 1.0
            for k in range(T):
                same = 1.0 if b == k else 0.0
                answer = 2.0 * p[a, k] * y[a, b] * (same - y[a, k] - p[a, b] + overlap)
                total += twice * p[a, b] * (same - p[a, k]) * answer / D[a, k]
            if a != b:
                total += (
                    2.0 * p[b, a] * (1.0 - p[b, a]) * p[a, b] * y[a, b] * (1.0 - y[a, b] - p[a, b] + overlap) / D[a, b]
                )
    for i in range(2 * T):  # tr M U' D^-1 B V J D^-1 U, direction by direction
        row = i % T
        x[:] = 0.0
        for b in range(T):
            x[row, b] = (p[row, b] if i < T else w[row, b]) / D[row, b]
            x[b, row] = x[row, b]
        _spread(p, x, z)
        _answered(p, y, z, x)
        for a in range(T):
            for b in range(T):
                total -= (M[i, a] * p[a, b] + M[i, T + a] * w[a, b]) * x[a, b] / D[a, b]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _turned(kind, target, v, h, y, p, Q, m):  # type: ignore[no-untyped-def]
    """Slope of the loss along Q v - m t in the logits of the label."""
    T, total = p.shape[0], 0.0
    for a in range(T):
        mean = 0.0
        for b in range(T):
            mean += y[a, b] * (h[a, b] if kind == CROSS_ENTROPY else 2.0 * (p[a, b] - y[a, b]))
        for b in range(T):
            by = h[a, b] if kind == CROSS_ENTROPY else 2.0 * (p[a, b] - y[a, b])
            total -= (Q * v[a, b] - m * target[a, b]) * y[a, b] * (by - mean)
    return total


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
    T, size, starts = tokens, tokens if kind == CROSS_ENTROPY else 2 * tokens, 1 + min(tokens, MOST_STARTS)
    shape = (T, T)
    target, v, h, y, label, fresh = (
        np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape),
    )  # fmt: skip
    p, g, w, D, gradient, move, trial = (
        np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape),
        np.empty(shape), np.empty(shape), np.empty(shape),
    )  # fmt: skip
    held, inverse, s, t, e = np.empty(shape), np.empty(shape), np.empty(T), np.empty(T), np.empty(T)
    R, M, G2, G3 = np.empty((size, size)), np.empty((size, size)), np.empty((size, size)), np.empty((size, size))
    c, spare_c = np.empty(size), np.empty(size)
    problem, spare_points = (kind, held, v, y), (np.empty(shape), np.empty(shape))
    work = (gradient, move, trial, (p, g, w, s, t), (D, R, c))
    values, control = np.empty(AVERAGE_COUNT), np.empty(CONTROL_COUNT)
    mean_of, mean = np.empty(AVERAGE_COUNT), np.empty(CONTROL_COUNT)  # of a node and its mirror image
    variances, left = np.ones(shape), np.array([Q, q, m]) / (0.5 * T * T)
    slope, spare = m / Q, np.sqrt(max(q - m * m / Q, 0.0))
    for a in range(T):
        for b in range(T):
            variances[a, b] = 2.0 if a == b else 1.0
            held[a, b] = 1.0 / (sigma * variances[a, b])
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            place = 0
            for a in range(T):
                for b in range(a, T):
                    root = np.sqrt(2.0) if a == b else 1.0
                    target[a, b] = np.sqrt(Q) * root * label_nodes[node, place]
                    v[a, b] = slope * target[a, b] + spare * root * free_nodes[node, place]
                    h[a, b] = kept[node, place] if warm_start == 2 else v[a, b] if hard == 1 else target[a, b]
                    target[b, a], v[b, a], h[b, a] = target[a, b], v[a, b], h[a, b]
                    place += 1
            for a in range(T):
                softmax(target[a], label[a])
            if hard == 1:
                draw_rows(label, free_nodes[node, place:], y)
            else:
                y[:] = label
            _, (value,) = _minimise(problem, h, work)
            values[7] = 0.0
            if search > 0:
                found, (value,) = _search(problem, target, starts, h, value, search, work, spare_points)
                values[7] = 1.0 if found else 0.0
            distance, by_label, by_own, place = 0.0, 0.0, 0.0, 0
            for a in range(T):
                for b in range(a, T):
                    pull = held[a, b] * sigma * (h[a, b] - v[a, b])
                    distance += pull * (h[a, b] - v[a, b])
                    by_label += pull * target[a, b]
                    by_own += pull * v[a, b]
                    if warm_start > 0:
                        kept[node, place] = h[a, b]
                    place += 1
            trace, squares, cross = 0.0, 0.0, 0.0
            if detail > 0:
                inverse_of(R, M)
                _diagonal(p, w, D, M, inverse)
                for a in range(T):
                    for b in range(a, T):
                        trace += 1.0 - held[a, b] * inverse[a, b]
                if hard == 0:
                    cross = _answers(kind, p, w, y, D, M, inverse, c, spare_c, e)
                else:
                    cross = np.sum((y - label) * (h - v))
            if detail > 1:
                for a in range(T):
                    for b in range(a, T):
                        squares += (held[a, b] / D[a, b]) ** 2
                squares += 2.0 * trace - 0.5 * T * (T + 1)
                _gather(p, w, held / (D * D), G2)
                _gather(p, w, held * held / (D * D * D), G3)
                G2 = np.ascontiguousarray(M @ G2)
                squares += np.sum(G2 * G2.T) - 2.0 * np.sum(M * G3)
            values[0], values[1], values[2], values[3] = distance, by_label, by_own, trace
            values[4], values[5], values[6] = squares, cross, value - 0.5 * distance / sigma
            control[:] = 0.0
            for a in range(T):
                softmax(v[a], fresh[a])
                row_controls(
                    target[a],
                    v[a],
                    label[a],
                    fresh[a],
                    Q * variances[a],
                    q * variances[a],
                    m * variances[a],
                    left,
                    rich,
                    control,
                )
            if hard == 1:
                sampled_label_controls(target, v, label, fresh, y, control)
            if rich == 1:
                place = 0
                for a in range(T):
                    for b in range(a, T):
                        quartics(target[a, b] / np.sqrt(Q * variances[a, b]), free_nodes[node, place], control)
                        place += 1
            if stein == 1:
                control[0] = by_own + q * trace - m * cross
                control[1] = by_label + m * trace - Q * cross
                if hard == 0:
                    control[4] = _turned(kind, target, v, h, y, p, Q, m) + (q * by_label - m * by_own) / sigma
                if kind == SQUARED:
                    spread, along = 0.0, _field_answers(p, w, y, D, M, move, trial)
                    for a in range(T):
                        spread -= _pairing(p[a], p[a], a, p, w, D, M, c, spare_c) / sigma
                        for b in range(T):
                            spread += p[a, b] * inverse[a, b] / sigma
                            control[2] += target[a, b] * p[a, b]
                            control[3] += v[a, b] * p[a, b]
                    control[2] -= Q * along + m * spread
                    control[3] -= m * along + q * spread
            add_mirror_pair(sums, node, weights[node], largest_entry(gradient), values, control, mean_of, mean)
