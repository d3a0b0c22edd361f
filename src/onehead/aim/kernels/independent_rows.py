"""Averages over rows that share no logit, in a time that grows with the number of columns and not with its cube (U2.1).

All n logits of a row are kept, each with its own variance; a constant added to all of them drops out by itself. The
Hessian of both losses is a diagonal plus two directions, p and w,

    cross-entropy  diag(p) - p p',          squared  diag(2 (w - s p)) - 2 (p w' + w p') + 2 (s + t) p p',

with w = p (2p - y), s = sum p (p - y), t = sum w, so that a Newton step, and every trace, is a Sherman-Morrison
formula. Averages of sampled points are corrected by control variates (`onehead.aim.logits.control_variates`); a point
and its mirror image are taken together.
"""

import numpy as np
from numba import int64, types

from onehead.aim.kernels.arguments import MATRIX, MODES, NODES, SLICES, STATE, VECTOR
from onehead.aim.kernels.control_variates import (
    AVERAGE_COUNT,
    BASIC_CONTROLS,
    CONTROL_COUNT,
    add_moments,
    quartics,
    row_controls,
)
from onehead.aim.kernels.losses import CROSS_ENTROPY, SQUARED, softmax
from onehead.aim.kernels.multi_start import multi_start
from onehead.numerics.jit import njit
from onehead.numerics.newton import LONGEST, newton_on_vectors

TIGHTEST = 1e12  # factor of the hold of a point on the way to its minimum


@njit
def row_loss(kind, h, y, p, g, w):
    """Loss of a row; fills p = softmax(h), the gradient and w, and returns s and t with it."""
    n = h.shape[0]
    softmax(h, p)
    if kind == CROSS_ENTROPY:
        top, total, mean = h[0], 0.0, 0.0
        for b in range(1, n):
            top = max(top, h[b])
        for b in range(n):
            total += np.exp(h[b] - top)
            mean += y[b] * (h[b] - top)
            g[b] = p[b] - y[b]
            w[b] = 0.0
        return np.log(total) - mean, 0.0, 0.0
    value, s, t = 0.0, 0.0, 0.0
    for b in range(n):
        r = p[b] - y[b]
        value += r * r
        s += r * p[b]
        w[b] = p[b] * (r + p[b])
        t += w[b]
    for b in range(n):
        g[b] = 2.0 * p[b] * (p[b] - y[b] - s)
    return value, s, t


@njit
def _bend(kind, held, p, w, s, t, D):
    """Fill the diagonal of Hessian + held; return the 2 x 2 matrix between p and w of the inverse, and whether
    Hessian + held is positive definite.

    By Sylvester's law of inertia it is where K^-1 + G has one negative eigenvalue more than the diagonal D has negative
    entries.
    """
    n = p.shape[0]
    k00, k01 = -1.0, 0.0
    if kind == SQUARED:
        k00, k01 = 2.0 * (s + t), -2.0
    a, b, c, negative = 0.0, 0.0, 0.0, 0
    for i in range(n):
        D[i] = held[i] + (p[i] if kind == CROSS_ENTROPY else 2.0 * (w[i] - s * p[i]))
        negative += 1 if D[i] < 0.0 else 0
        along, across = p[i] / D[i], w[i] / D[i]
        a += p[i] * along
        b += w[i] * along
        c += w[i] * across
    # M = (1 + K G)^-1 K with G the Gram matrix of p and w over D
    u00, u01, u10, u11 = 1.0 + k00 * a + k01 * b, k00 * b + k01 * c, k01 * a, 1.0 + k01 * b
    determinant = u00 * u11 - u01 * u10
    m00 = (u11 * k00 - u01 * k01) / determinant
    m01 = u11 * k01 / determinant
    m11 = -u10 * k01 / determinant
    # det K = -4, so that the determinant is positive where K^-1 + G has one negative eigenvalue
    definite = determinant > 1e-12 if negative == 0 else negative == 1 and determinant < -1e-12 and a < 0.0
    return m00, m01, m11, definite


@njit
def solve_row(D, p, w, m00, m01, m11, r, x):
    """x = (Hessian + held)^-1 r."""
    one, two = 0.0, 0.0
    for i in range(r.shape[0]):
        x[i] = r[i] / D[i]
        one += p[i] * x[i]
        two += w[i] * x[i]
    along, across = m00 * one + m01 * two, m01 * one + m11 * two
    for i in range(r.shape[0]):
        x[i] -= (p[i] * along + w[i] * across) / D[i]


@njit
def row_work(n):
    """Allocate the work space of `newton_row`: gradient, step, trial point, p, w, diagonal of the Hessian, spare."""
    return np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)


@njit
def _objective(problem, h, work):
    """Value of sum held (h - v)²/2 + loss, with s and t of its Hessian; fills the gradient."""
    kind, held, v, y = problem
    g, _, _, p, w, _, _ = work
    value, s, t = row_loss(kind, h, y, p, g, w)
    for i in range(h.shape[0]):
        value += 0.5 * held[i] * (h[i] - v[i]) ** 2
        g[i] += held[i] * (h[i] - v[i])
    return value, s, t


@njit
def _newton_step(problem, h, state, work):
    """Newton's step; where the Hessian is not positive definite that of a tighter hold, which always leads
    downhill.
    """
    kind, held, _, _ = problem
    g, move, _, p, w, D, tight = work
    _, s, t = state
    n = h.shape[0]
    m00, m01, m11, regular = _bend(kind, held, p, w, s, t, D)
    definite, more = regular, 1.0
    while not definite and more < TIGHTEST:
        more *= 2.0
        for i in range(n):
            tight[i] = more * held[i]
        m00, m01, m11, definite = _bend(kind, tight, p, w, s, t, D)
    solve_row(D, p, w, m00, m01, m11, g, move)
    size, scale, slope = 0.0, 1.0, 0.0
    for i in range(n):
        size = max(size, abs(move[i]))
        scale = max(scale, 1.0 + abs(h[i]))
    factor = -1.0 if regular or size < LONGEST else -LONGEST / size
    for i in range(n):
        move[i] *= factor
        slope += g[i] * move[i]
    return move, slope, size / scale, regular


_minimise = newton_on_vectors(_objective, _newton_step)


@njit
def newton_row(problem, h, work):
    """Move ``h`` to the minimum of sum held (h - v)²/2 + loss that Newton's method reaches from it.

    Parameters
    ----------
    problem : tuple
        Code of the loss, ``held``, ``v`` and the label.
    h : array
        Where the method starts, overwritten by the minimum.
    work : tuple
        See `row_work`.

    Returns
    -------
    h : array
    state : tuple
        The value, the largest gradient entry, and the 2 x 2 matrix between p and w of the inverse Hessian.
    """
    _, (value, s, t) = _minimise(problem, h, work)
    g, _, _, p, w, D, _ = work
    steepest = 0.0
    for i in range(h.shape[0]):
        steepest = max(steepest, abs(g[i]))
    m00, m01, m11, _ = _bend(problem[0], problem[1], p, w, s, t, D)
    return h, (value, steepest, m00, m01, m11)


@njit
def _start_at_learner(problem, starts, number, point):
    """Start at the learner's logits."""
    point[:] = problem[2]


search_row = multi_start(newton_row, _start_at_learner)


@njit(types.void(int64, VECTOR, NODES, STATE, MODES, SLICES, MATRIX))
def independent_row_sums(kind, variances, nodes, state, modes, slices, out):
    """`prox_sums` for one row of independent logits, with the moments of its controls; nodes are independent normals,
    mirror images in turn.

    Hard labels: of columns that are alike the label is the first one, towards which logits are tilted, and the weight
    is what that changes (U7). The last column may differ from the others; then both kinds of labels are summed over.
    """
    label_nodes, free_nodes, weights, kept = nodes
    Q, q, m, sigma = state
    search, detail, warm_start, hard, stein, rich = modes
    length, first, last = slices
    n = variances.shape[0]
    y, h, other, v, target = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    work, spare_points = row_work(n), (other, np.empty(n))
    _, move, trial, p, w, D, _ = work
    held, free, label = np.empty(n), np.empty(n), np.empty(n)
    value_of, control = np.empty(AVERAGE_COUNT), np.empty(CONTROL_COUNT)
    values, controls = np.empty(AVERAGE_COUNT), np.empty(CONTROL_COUNT)  # of a node and its mirror image
    slope, spare = m / Q, np.sqrt(max(q - m * m / Q, 0.0))
    precision = 0.0
    for i in range(n):
        held[i] = 1.0 / (sigma * variances[i])
        precision += 1.0 / variances[i]
    problem = (kind, held, v, y)
    label_power, own_power, both = Q * variances, q * variances, m * variances
    left = np.array([Q, q, m]) / precision
    label_kinds = 2 if hard == 1 and variances[n - 1] != variances[0] else 1
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            if node % 2 == 0:
                values[:], controls[:] = 0.0, 0.0
            for kind_of_label in range(label_kinds):
                chosen = n - 1 if kind_of_label == 1 else 0
                alike = n if label_kinds == 1 else 1 if kind_of_label == 1 else n - 1
                for i in range(n):
                    root = np.sqrt(variances[i])
                    target[i] = np.sqrt(Q) * root * label_nodes[node, i]
                    if hard == 1:
                        target[i] += Q * ((variances[i] if i == chosen else 0.0) - 1.0 / precision)
                    v[i] = slope * target[i] + spare * root * free_nodes[node, i]
                softmax(target, label)
                weight = 1.0
                if hard == 1:
                    top, total = target[0], 0.0  # logits have no constant, so that none stands in the weight
                    for i in range(1, n):
                        top = max(top, target[i])
                    for i in range(n):
                        total += np.exp(target[i] - top)
                    weight = alike * np.exp(0.5 * Q * (variances[chosen] - 1.0 / precision) - top) / total
                    for i in range(n):
                        y[i] = 1.0 if i == chosen else 0.0
                else:
                    for i in range(n):
                        y[i] = label[i]
                for i in range(n):
                    start = v[i] if hard == 1 else target[i]
                    h[i] = kept[node, n * kind_of_label + i] if warm_start == 2 else start
                _, state_there = newton_row(problem, h, work)
                lower = 0.0
                if search > 0 and hard == 0:
                    found, state_there = search_row(problem, (), 1, h, state_there[0], search, work, spare_points)
                    lower = 1.0 if found else 0.0
                value, steepest, m00, m01, m11 = state_there
                distance, by_label, by_own = 0.0, 0.0, 0.0
                for i in range(n):
                    pull = (h[i] - v[i]) / variances[i]
                    distance += pull * (h[i] - v[i])
                    by_label += pull * target[i]
                    by_own += pull * v[i]
                    if warm_start > 0:
                        kept[node, n * kind_of_label + i] = h[i]
                trace, squares, cross = 0.0, 0.0, 0.0
                if detail > 0:
                    twice, m_a, m_b, m_c = 0.0, 0.0, 0.0, 0.0  # tr (held/D)², and X held X' of the two directions
                    n_a, n_b, n_c, overlap = 0.0, 0.0, 0.0, 0.0
                    for i in range(n):
                        x, z = p[i] / D[i], w[i] / D[i]
                        diagonal = 1.0 / D[i] - (m00 * x * x + 2.0 * m01 * x * z + m11 * z * z)
                        trace += 1.0 - diagonal * held[i]
                        m_a += x * x * held[i]
                        m_b += x * z * held[i]
                        m_c += z * z * held[i]
                        n_a += x * x * held[i] * held[i] / D[i]
                        n_b += x * z * held[i] * held[i] / D[i]
                        n_c += z * z * held[i] * held[i] / D[i]
                        twice += (held[i] / D[i]) ** 2
                        overlap += p[i] * y[i]
                        if hard == 1:
                            cross += (y[i] - label[i]) * (h[i] - v[i])
                        else:
                            cross += diagonal * (y[i] if kind == CROSS_ENTROPY else 2.0 * p[i] * y[i])
                    # tr (1 - A^-1 held)²
                    mixed = m00 * n_a + 2.0 * m01 * n_b + m11 * n_c
                    e00, e01 = m00 * m_a + m01 * m_b, m00 * m_b + m01 * m_c
                    e10, e11 = m01 * m_a + m11 * m_b, m01 * m_b + m11 * m_c
                    squares = 2.0 * trace - n + twice - 2.0 * mixed + e00 * e00 + 2.0 * e01 * e10 + e11 * e11
                    if hard == 0 and kind == CROSS_ENTROPY:
                        solve_row(D, p, w, m00, m01, m11, y, move)
                        for i in range(n):
                            cross -= y[i] * move[i]
                    elif hard == 0:
                        for i in range(n):
                            free[i] = 2.0 * p[i] * (overlap - y[i])
                        solve_row(D, p, w, m00, m01, m11, free, move)
                        solve_row(D, p, w, m00, m01, m11, p, trial)
                        for i in range(n):
                            cross += y[i] * move[i] - 2.0 * p[i] * y[i] * trial[i]
                value_of[0], value_of[1], value_of[2], value_of[3] = distance, by_label, by_own, trace
                value_of[4], value_of[5], value_of[6], value_of[7] = (
                    squares,
                    cross,
                    value - 0.5 * distance / sigma,
                    lower,
                )
                softmax(v, trial)
                control[:] = 0.0
                row_controls(target, v, label, trial, label_power, own_power, both, left, rich, control)
                if rich == 1:
                    for i in range(n):
                        quartics(target[i] / np.sqrt(Q * variances[i]), free_nodes[node, i], control)
                if stein == 1:
                    control[0] = by_own + q * trace - m * cross
                    control[1] = by_label + m * trace - Q * cross
                if hard == 1:
                    (
                        control[BASIC_CONTROLS - 5],
                        control[BASIC_CONTROLS - 4],
                        control[BASIC_CONTROLS - 3],
                        control[BASIC_CONTROLS - 2],
                    ) = (
                        label[chosen],
                        trial[chosen],
                        target[chosen],
                        v[chosen],
                    )
                control[BASIC_CONTROLS - 1] = 1.0
                sums[AVERAGE_COUNT] = max(sums[AVERAGE_COUNT], steepest)
                for i in range(AVERAGE_COUNT):
                    values[i] += 0.5 * weight * value_of[i]
                for i in range(CONTROL_COUNT):
                    controls[i] += 0.5 * weight * control[i]
            if node % 2 == 1:
                add_moments(sums, values, controls, 2.0 * weights[node])
