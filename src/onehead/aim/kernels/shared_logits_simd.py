"""Rows of a tied head, many nodes side by side: minima of the proximal objective, and factors of its Hessian (L7).

The equations are those of `onehead.aim.kernels.shared_logits`, and the method is that of `onehead.numerics.newton`,
which takes one node at a time: Newton's step, with a tighter hold where the Hessian is not positive definite, halved
until the objective falls. Here all nodes of a group take their steps together, and nodes at their minimum wait.
"""

from typing import NamedTuple

import numpy as np

from onehead.aim.kernels.independent_rows import TIGHTEST
from onehead.aim.kernels.losses import CROSS_ENTROPY
from onehead.aim.kernels.simd import LANES, log_normalisations, newton_side_by_side, softmax_rows
from onehead.numerics.jit import njit
from onehead.numerics.newton import LONGEST

SMALLEST_PIVOT = 1e-13  # below which a pivot is rounding


class Problem(NamedTuple):
    """Code of the loss, number of the logit ab, 1/(Sigma variance) of every logit, the learner's logits, labels."""

    kind: int
    place: np.ndarray
    held: np.ndarray
    v: np.ndarray
    y: np.ndarray


class Workspace(NamedTuple):
    """Numbers of every node: at a point those of logits, of rows and columns, and of rows; then those of the node.

    ``inverse`` is 1/D, and ``R`` the factors of K^-1 + U' D^-1 U with the reciprocals of the pivots.
    """

    gradient: np.ndarray
    move: np.ndarray
    trial: np.ndarray
    inverse: np.ndarray
    p: np.ndarray
    bits: np.ndarray
    w: np.ndarray
    scale: np.ndarray
    log_z: np.ndarray
    s: np.ndarray
    t: np.ndarray
    R: np.ndarray
    c: np.ndarray
    value: np.ndarray
    new: np.ndarray
    slope: np.ndarray
    size: np.ndarray
    length: np.ndarray
    hold: np.ndarray
    regular: np.ndarray
    definite: np.ndarray
    waits: np.ndarray
    worst: np.ndarray
    spare: np.ndarray


@njit
def workspace(T, size):
    """Allocate the work space for T tokens and ``size`` directions of the Hessian."""
    pairs = (T * (T + 1) // 2, LANES)
    p = np.zeros((2 * T * T, LANES))
    return Workspace(
        np.zeros(pairs), np.zeros(pairs), np.zeros(pairs), np.zeros(pairs),
        p, p.view(np.int64), np.zeros((T * T, LANES)), np.zeros((2 * T, LANES)), np.zeros((T, LANES)),
        np.zeros((T, LANES)), np.zeros((T, LANES)), np.zeros((size * size, LANES)), np.zeros((size, LANES)),
        np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES),
        np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros((4, LANES)),
    )  # fmt: skip


@njit
def evaluate(problem, h, work):
    """Fill ``new`` with the objective at ``h``, and the gradient and what the rows have of it."""
    kind, place, held, v, y = problem
    gradient, p, w, s, t, new, scale, log_z = (
        work.gradient, work.p, work.w, work.s, work.t, work.new, work.scale, work.log_z
    )  # fmt: skip
    T = place.shape[0]
    softmax_rows(h, place, p, work.bits, scale)
    for k in range(LANES):
        new[k] = 0.0
    for i in range(held.shape[0]):
        hold = held[i]
        for k in range(LANES):
            pull = hold * (h[i, k] - v[i, k])
            gradient[i, k] = pull
            new[k] += 0.5 * pull * (h[i, k] - v[i, k])
    if kind == CROSS_ENTROPY:
        log_normalisations(scale, T, log_z)
        for a in range(T):
            for k in range(LANES):
                new[k] += log_z[a, k]
            for b in range(T):
                i, ab = place[a, b], a * T + b
                for k in range(LANES):
                    new[k] -= y[ab, k] * h[i, k]
                for k in range(LANES):
                    gradient[i, k] += p[ab, k] - y[ab, k]
        return
    for a in range(T):
        row = a
        for k in range(LANES):
            s[row, k] = 0.0
            t[row, k] = 0.0
        for b in range(T):
            ab = a * T + b
            for k in range(LANES):
                r = p[ab, k] - y[ab, k]
                new[k] += r * r
                s[row, k] += r * p[ab, k]
                w[ab, k] = p[ab, k] * (r + p[ab, k])
                t[row, k] += w[ab, k]
        for b in range(T):
            i, ab = place[a, b], a * T + b
            for k in range(LANES):
                gradient[i, k] += 2.0 * p[ab, k] * (p[ab, k] - y[ab, k] - s[row, k])


@njit
def add_directions(T, both, place, p, w, by, R):
    """Fill the lower half of R with U' diag(by) U: p of every row first, then w if there is room for it."""
    size = 2 * T if both else T
    R[:] = 0.0
    for a in range(T):
        aa, la, ll = a * size + a, (T + a) * size + a, (T + a) * size + T + a
        for b in range(T):
            i, ab, ba = place[a, b], a * T + b, b * T + a
            for k in range(LANES):
                R[aa, k] += p[ab, k] * p[ab, k] * by[i, k]
            if both:
                for k in range(LANES):
                    R[la, k] += p[ab, k] * w[ab, k] * by[i, k]
                for k in range(LANES):
                    R[ll, k] += w[ab, k] * w[ab, k] * by[i, k]
            if b < a:
                at = a * size + b
                for k in range(LANES):
                    R[at, k] = p[ab, k] * p[ba, k] * by[i, k]
            if both and b != a:
                at = (T + a) * size + b
                for k in range(LANES):
                    R[at, k] = w[ab, k] * p[ba, k] * by[i, k]
            if both and b < a:
                at = (T + a) * size + T + b
                for k in range(LANES):
                    R[at, k] = w[ab, k] * w[ba, k] * by[i, k]


@njit
def _factor(problem, work):
    """Fill 1/D and the factors of K^-1 + U' D^-1 U with every node's ``hold``, and whether the Hessian is positive
    definite: whether there are as many negative pivots as rows and negative entries of D.
    """
    kind, place, held, _, _ = problem
    p, w, s, t, D, R, hold, definite, negative = (
        work.p, work.w, work.s, work.t, work.inverse, work.R, work.hold, work.definite, work.spare
    )  # fmt: skip
    T, both = place.shape[0], kind != CROSS_ENTROPY
    size = 2 * T if both else T
    expected = 3
    for k in range(LANES):
        definite[k] = 1.0
        negative[0, k] = 0.0
        negative[expected, k] = T
    for a in range(T):
        for b in range(a, T):
            i, ab, ba, tight = place[a, b], a * T + b, b * T + a, held[place[a, b]]
            other = 0.0 if a == b else 1.0
            if both:
                row, column = a, b
                for k in range(LANES):
                    one = w[ab, k] - s[row, k] * p[ab, k]
                    D[i, k] = hold[k] * tight + 2.0 * (one + other * (w[ba, k] - s[column, k] * p[ba, k]))
            else:
                for k in range(LANES):
                    D[i, k] = hold[k] * tight + p[ab, k] + other * p[ba, k]
            for k in range(LANES):
                negative[expected, k] += 1.0 if D[i, k] < 0.0 else 0.0
                D[i, k] = 1.0 / D[i, k]
    add_directions(T, both, place, p, w, D, R)
    for a in range(T):
        aa = a * size + a
        if not both:
            for k in range(LANES):
                R[aa, k] -= 1.0
            continue
        la, ll, row = (T + a) * size + a, (T + a) * size + T + a, a
        for k in range(LANES):
            R[la, k] -= 0.5
            R[ll, k] -= 0.5 * (s[row, k] + t[row, k])
    if both:
        _eliminate_pairs(T, R, definite, negative)
    else:
        _eliminate(T, R, definite, negative)
    for k in range(LANES):
        definite[k] = definite[k] if negative[0, k] == negative[expected, k] else 0.0


@njit
def _eliminate(size, R, definite, spare):
    """Put L and the reciprocals of the pivots of R = L D L' in its place, and count negative pivots."""
    negative, factor = 0, 1
    for j in range(size):
        jj = j * size + j
        for k in range(LANES):
            definite[k] = definite[k] if abs(R[jj, k]) >= SMALLEST_PIVOT else 0.0
            spare[negative, k] += 1.0 if R[jj, k] < 0.0 else 0.0
            R[jj, k] = 1.0 / R[jj, k]
        for i in range(j + 1, size):
            ij = i * size + j
            for k in range(LANES):
                spare[factor, k] = R[ij, k] * R[jj, k]
            for m in range(j + 1, i + 1):
                im, mj = i * size + m, m * size + j
                for k in range(LANES):
                    R[im, k] -= spare[factor, k] * R[mj, k]
        for i in range(j + 1, size):
            ij = i * size + j
            for k in range(LANES):
                R[ij, k] *= R[jj, k]


@njit
def _eliminate_pairs(T, R, definite, spare):
    """`_eliminate` with both directions of a row as one pivot, whose inverse is put in its place.

    Two rows whose largest weight is that of the logit they share have parallel p, and the entries of p alone are
    singular; a pair (p, w) has -1/2 off its diagonal.
    """
    size, negative, one, two = 2 * T, 0, 1, 2
    for a in range(T):
        aa, la, ll = a * size + a, (T + a) * size + a, (T + a) * size + T + a
        for k in range(LANES):
            determinant = R[aa, k] * R[ll, k] - R[la, k] * R[la, k]
            definite[k] = definite[k] if abs(determinant) >= SMALLEST_PIVOT else 0.0
            both_negative = 2.0 if R[aa, k] < 0.0 else 0.0
            spare[negative, k] += 1.0 if determinant < 0.0 else both_negative
            inverse = 1.0 / determinant
            R[aa, k], R[ll, k], R[la, k] = R[ll, k] * inverse, R[aa, k] * inverse, -R[la, k] * inverse
        for half in range(2):
            for b in range(a + 1, T):
                i = half * T + b
                ip, iw = i * size + a, max(i, T + a) * size + min(i, T + a)
                for k in range(LANES):
                    spare[one, k] = R[ip, k] * R[aa, k] + R[iw, k] * R[la, k]
                    spare[two, k] = R[ip, k] * R[la, k] + R[iw, k] * R[ll, k]
                for n in range(a + 1, i + 1):
                    if T <= n <= T + a:
                        continue
                    in_, mp, mw = i * size + n, n * size + a, max(n, T + a) * size + min(n, T + a)
                    for k in range(LANES):
                        R[in_, k] -= spare[one, k] * R[mp, k] + spare[two, k] * R[mw, k]
        for half in range(2):
            for b in range(a + 1, T):
                i = half * T + b
                ip, iw = i * size + a, max(i, T + a) * size + min(i, T + a)
                for k in range(LANES):
                    p, w = R[ip, k], R[iw, k]
                    R[ip, k] = p * R[aa, k] + w * R[la, k]
                    R[iw, k] = p * R[la, k] + w * R[ll, k]


@njit
def _solve(R, size, x, at, first):
    """Replace the numbers from ``at`` on by the solution of L D L' y = x; those before number ``first`` are zero."""
    for i in range(first, size):
        xi, ii = at + i, i * size + i
        for j in range(first, i):
            ij, xj = i * size + j, at + j
            for k in range(LANES):
                x[xi, k] -= R[ij, k] * x[xj, k]
    for i in range(first, size):
        xi, ii = at + i, i * size + i
        for k in range(LANES):
            x[xi, k] *= R[ii, k]
    for i in range(size - 1, -1, -1):
        xi = at + i
        for j in range(i + 1, size):
            ji, xj = j * size + i, at + j
            for k in range(LANES):
                x[xi, k] -= R[ji, k] * x[xj, k]


@njit
def _solve_pairs(R, T, x, at, first):
    """`_solve` for the factors of `_eliminate_pairs`; the numbers of rows before ``first`` are zero."""
    size = 2 * T
    for a in range(first, T):  # rows after a lose what they share with the pair
        xp, xw = at + a, at + T + a
        for half in range(2):
            for b in range(a + 1, T):
                i, xi = half * T + b, at + half * T + b
                ip, iw = i * size + a, max(i, T + a) * size + min(i, T + a)
                for k in range(LANES):
                    x[xi, k] -= R[ip, k] * x[xp, k] + R[iw, k] * x[xw, k]
    for a in range(first, T):
        xp, xw, aa, la, ll = at + a, at + T + a, a * size + a, (T + a) * size + a, (T + a) * size + T + a
        for k in range(LANES):
            p, w = x[xp, k], x[xw, k]
            x[xp, k], x[xw, k] = R[aa, k] * p + R[la, k] * w, R[la, k] * p + R[ll, k] * w
    for a in range(T - 1, -1, -1):
        xp, xw = at + a, at + T + a
        for half in range(2):
            for b in range(a + 1, T):
                i, xi = half * T + b, at + half * T + b
                ip, iw = i * size + a, max(i, T + a) * size + min(i, T + a)
                for k in range(LANES):
                    x[xp, k] -= R[ip, k] * x[xi, k]
                    x[xw, k] -= R[iw, k] * x[xi, k]


@njit
def invert(R, T, both, M):
    """M = (L D L')^-1."""
    size = 2 * T if both else T
    M[:] = 0.0
    for i in range(size):
        ii = i * size + i
        for k in range(LANES):
            M[ii, k] = 1.0
        if both:
            _solve_pairs(R, T, M, i * size, i % T)
        else:
            _solve(R, size, M, i * size, i)


@njit
def row_vector(f, at, row, place, both, p, w, D, c):
    """c = U' D^-1 f for a vector f over the logits of one row, which begins at ``at``."""
    T = place.shape[0]
    c[:] = 0.0
    for b in range(T):
        i, rb, br, fb = place[row, b], row * T + b, b * T + row, at + b
        one, other, mine, its = row, T + row, b, T + b
        for k in range(LANES):
            c[one, k] += p[rb, k] * f[fb, k] * D[i, k]
        if both:
            for k in range(LANES):
                c[other, k] += w[rb, k] * f[fb, k] * D[i, k]
        if b == row:
            continue
        for k in range(LANES):
            c[mine, k] += p[br, k] * f[fb, k] * D[i, k]
        if both:
            for k in range(LANES):
                c[its, k] += w[br, k] * f[fb, k] * D[i, k]


@njit
def _steps(problem, h, work):
    """Fill the steps of all nodes that do not wait for a shorter one, the slopes along them and their sizes."""
    kind, place, _, _, _ = problem
    gradient, move, D, p, w, R, c, hold, regular, definite, waits, slope, size_of, spare = (
        work.gradient, work.move, work.inverse, work.p, work.w, work.R, work.c, work.hold, work.regular,
        work.definite, work.waits, work.slope, work.size, work.spare,
    )  # fmt: skip
    T, both = place.shape[0], kind != CROSS_ENTROPY
    for k in range(LANES):
        hold[k] = 1.0
    _factor(problem, work)
    for k in range(LANES):
        regular[k] = definite[k]
    while True:
        tighter = False
        for k in range(LANES):
            if definite[k] == 0.0 and waits[k] == 0.0 and hold[k] < TIGHTEST:
                hold[k] *= 2.0
                tighter = True
        if not tighter:
            break
        _factor(problem, work)
    c[:] = 0.0
    for a in range(T):
        for b in range(T):
            i, ab, at = place[a, b], a * T + b, a
            for k in range(LANES):
                c[at, k] += p[ab, k] * gradient[i, k] * D[i, k]
            if both:
                at = T + a
                for k in range(LANES):
                    c[at, k] += w[ab, k] * gradient[i, k] * D[i, k]
    if both:
        _solve_pairs(R, T, c, 0, 0)
    else:
        _solve(R, T, c, 0, 0)
    steps, largest, slopes = 0, 1, 2
    spare[:] = 0.0
    for a in range(T):
        for b in range(a, T):
            i, ab, ba = place[a, b], a * T + b, b * T + a
            other, ca, cb, da, db = 0.0 if a == b else 1.0, a, b, T + a, T + b
            for k in range(LANES):
                along = p[ab, k] * c[ca, k] + other * p[ba, k] * c[cb, k]
                if both:
                    along += w[ab, k] * c[da, k] + other * w[ba, k] * c[db, k]
                step = -(gradient[i, k] - along) * D[i, k]
                step = move[i, k] if waits[k] > 0.0 else step
                move[i, k] = step
                spare[steps, k] = max(spare[steps, k], abs(step))
                spare[largest, k] = max(spare[largest, k], abs(h[i, k]))
                spare[slopes, k] += gradient[i, k] * step
    for k in range(LANES):
        if waits[k] > 0.0:
            continue
        slope[k], size_of[k] = spare[slopes, k], spare[steps, k] / (1.0 + spare[largest, k])
        if regular[k] == 0.0 and spare[steps, k] >= LONGEST:
            factor = LONGEST / spare[steps, k]
            for i in range(place[T - 1, T - 1] + 1):
                move[i, k] *= factor
            slope[k] *= factor


minimise = newton_side_by_side(evaluate, _steps)


@njit
def factor_at_minimum(problem, work):
    """Factor the Hessian where it was evaluated; a minimum that is about to vanish is held just enough."""
    hold, definite = work.hold, work.definite
    for k in range(LANES):
        hold[k] = 1.0
    _factor(problem, work)
    excess = 1e-9
    while np.min(definite) == 0.0 and excess < TIGHTEST:
        for k in range(LANES):
            if definite[k] == 0.0:
                hold[k] = 1.0 + excess
        _factor(problem, work)
        excess *= 10.0
