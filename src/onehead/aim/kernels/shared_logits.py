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
    factor_at_minimum,
    invert,
    minimise,
    workspace,
)
from onehead.aim.kernels.shared_logits_traces import (
    Factored,
    add_field_responses,
    add_responses,
    add_squares,
    add_turned,
    fill_diagonal,
)
from onehead.aim.kernels.simd import LANES, log_normalisations, softmax_rows
from onehead.aim.kernels.woodbury import MOST_STARTS
from onehead.numerics.jit import njit
from onehead.numerics.newton import is_lower


@njit
def _draw_labels(chances, tokens, normals, node, stop, place, y):
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


@njit
def _sampled_label_controls(place, t, h, chances, p, y, control):
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


@njit
def _copy(source, target, rows):
    """Copy the first rows; a slice would be compiled with all of its error messages."""
    for i in range(rows):
        for k in range(LANES):
            target[i, k] = source[i, k]


@njit
def _search(problem, target, starts, h, branch, work, found):
    """Fill ``lowest`` with one where a minimum is lower than the one at ``h``, from the learner's logits and from
    there with one of a few rows at its label; if ``branch`` is global, move there.

    ``found`` is (lowest, best, other), where the last two are work space.
    """
    (_, place, held, v, _), (lowest, best, other) = problem, found
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


@njit
def _quartics(variances, Q, target, free_nodes, node, stop, control):
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


@njit(types.void(int64, int64, NODES, STATE, MODES, SLICES, MATRIX))
def shared_logit_sums(kind, tokens, nodes, state, modes, slices, out):
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
    p, scale, spare_c, value, worst = work.p, work.scale, work.c, work.value, work.worst
    factored = Factored(place, p, work.w, work.inverse, M)
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
                _search(problem, target, starts, h, search, work, (lower, best, other))
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
                fill_diagonal(both, factored, inverse)
                for i in range(count):
                    for k in range(LANES):
                        values[trace, k] += 1.0 - held[i] * inverse[i, k]
                if hard == 0:
                    add_responses(kind, factored, y, inverse, rows, cross, spread)
                else:
                    for a in range(T):
                        for b in range(T):
                            i, ab = place[a, b], a * T + b
                            for k in range(LANES):
                                cross[k] += (y[ab, k] - label[ab, k]) * (h[i, k] - v[i, k])
            if detail == Detail.FULL:
                add_squares(both, factored, held, other, G, values[squares])
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
                    add_turned(kind, place, (target, v, h), y, p, state, spare, turned)
                if kind == SQUARED:
                    add_field_responses(factored, y, other, best, spare, along)
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
