"""Compiled sums over quadrature nodes: everything the output channel averages, one pass each."""

import numpy as np
from numba import types

from onehead.aim.kernels.arguments import (
    BLOCK,
    INDICES,
    MATRIX,
    MODES,
    NODES,
    SCALING,
    SLICES,
    VECTOR,
    Branch,
    Detail,
    Start,
)
from onehead.aim.kernels.hard_labels import draw
from onehead.aim.kernels.losses import RESPONSE, softmax
from onehead.numerics.jit import njit
from onehead.numerics.prox import PAIR, ROW, factorise, invert_factored, newton_line, newton_pair, newton_prox, scratch

__all__ = [
    "STEP_LABEL",
    "label_response_difference",
    "labels",
    "loss_sums",
    "origin_sums",
    "prox_sums",
    "sigmoid",
    "two_column_sums",
    "two_token_sums",
]

STEP_LABEL = 1e-5  # central difference in the label logits: error about 1e-10 of the derivative


@njit(cache=True, nogil=True, error_model="numpy")
def labels(select, u, row_x, y):  # type: ignore[no-untyped-def]
    """Rows of the label: softmax of the label logits."""
    for a in range(select.shape[0]):
        for b in range(select.shape[1]):
            row_x[b] = u[select[a, b]] if select[a, b] >= 0 else 0.0
        softmax(row_x, y[a])


@njit(cache=True, nogil=True, error_model="numpy")
def _response_trace(response, select, u, y, inverse, w, block):  # type: ignore[no-untyped-def]
    """tr(inverse R) with R = - d(gradient of the loss)/d(label logits) at ``u``, summed row by row."""
    total = 0.0
    for a in range(select.shape[0]):
        for b in range(select.shape[1]):
            w.row_x[b] = u[select[a, b]] if select[a, b] >= 0 else 0.0
            w.row_label[b] = y[a, b]
        response(w.row_x, w.row_label, block)
        for b in range(select.shape[1]):
            i = select[a, b]
            if i >= 0:
                for c in range(select.shape[1]):
                    k = select[a, c]
                    if k >= 0:
                        total += inverse[k, i] * block[b, c]
    return total


@njit(
    types.void(ROW, RESPONSE, BLOCK, NODES, SCALING, MODES, SLICES, MATRIX), cache=True, nogil=True, error_model="numpy"
)
def prox_sums(row, response, block_arrays, nodes, scaling, modes, slices, out):  # type: ignore[no-untyped-def]
    """Weighted sums of `onehead.aim.theory.output.averages.Averages` over slices of nodes; entry 8 is the largest
    gradient entry.

    A hard label is summed over all its values, each with the probability that the target's softmax gives it, and has a
    warm point each. It depends on the label logits through these probabilities alone (U7): E dprox_j/du*_j = E sum_y
    p_y (1[y = j] - p_j) (prox_y - v)_j, summed over the rows that see coordinate j. Its loss is convex, so that no
    other minimum is searched for.
    """
    select, metric, conditional_means = block_arrays
    label_nodes, free_nodes, weights, warm_points = nodes
    label_root, slope, free_root, sigma = scaling
    branch, detail, start, hard = modes.branch, modes.detail, modes.start, modes.hard == 1
    length, first, last = slices
    n, rows, width = metric.shape[0], select.shape[0], select.shape[1]
    w = scratch(n, width)
    p, y = np.empty((rows, width)), np.empty((rows, width))
    target, v, u, other, lowest_point = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    score, block, inverse, kernel = np.empty(n), np.empty((width, width)), np.empty((n, n)), np.empty((n, n))
    label_count = width**rows if hard else 1
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            for i in range(n):
                target[i] = label_root * label_nodes[node, i]
                v[i] = slope * target[i] + free_root * free_nodes[node, i]
            labels(select, target, w.row_x, p)
            for choice in range(label_count):
                weight = weights[node]
                if hard:
                    weight = draw(choice, weight, p, select, y, score)
                    if weight == 0.0:
                        continue
                else:
                    y[:] = p
                for i in range(n):
                    u[i] = warm_points[node, choice * n + i] if start == Start.WARM else v[i] if hard else target[i]
                value = newton_prox(row, select, metric, sigma, v, y, u, w)
                if branch > Branch.LABEL and not hard:
                    lowest, found = value, False
                    for row_start in range(rows + 1):
                        for i in range(n):
                            other[i] = v[i]
                            if row_start > 0:
                                for j in range(n):
                                    other[i] += conditional_means[row_start - 1, i, j] * (target[j] - v[j])
                        candidate = newton_prox(row, select, metric, sigma, v, y, other, w)
                        if candidate < lowest - 1e-10 * (1.0 + abs(lowest)):
                            lowest, found = candidate, True
                            lowest_point[:] = other
                    if found:
                        sums[7] += weight
                        if branch == Branch.GLOBAL:
                            u[:] = lowest_point
                    value = newton_prox(row, select, metric, sigma, v, y, u, w)  # already there: refills the scratch
                quadratic = 0.0
                for i in range(n):
                    if start > Start.LABEL:
                        warm_points[node, choice * n + i] = u[i]
                    sums[8] = max(sums[8], abs(w.gradient[i]))
                    pull = 0.0
                    for j in range(n):
                        pull += metric[i, j] * (u[j] - v[j])
                    quadratic += pull * (u[i] - v[i])
                    sums[1] += weight * pull * target[i]
                    sums[2] += weight * pull * v[i]
                    if hard:
                        sums[5] += weight * score[i] * (u[i] - v[i])
                sums[0] += weight * quadratic
                sums[6] += weight * (value - 0.5 * quadratic / sigma)
                if detail == Detail.STEIN:
                    continue
                shift = 1e-9
                while not factorise(w.hessian, w.factor):
                    # nearly singular Hessian: add the smallest diagonal shift that makes it positive definite
                    for i in range(n):
                        w.hessian[i, i] += shift * metric[i, i] / sigma
                    shift *= 10.0
                invert_factored(w.factor, inverse)
                if not hard:
                    sums[5] += weight * _response_trace(response, select, u, y, inverse, w, block)
                # K = 1 - (Hessian)^-1 P/Sigma
                for i in range(n):
                    share = 0.0
                    for k in range(n):
                        share += inverse[i, k] * metric[k, i]
                    sums[3] += weight * (1.0 - share / sigma)
                if detail == Detail.DERIVATIVE:
                    continue
                for i in range(n):
                    for k in range(n):
                        total = 0.0
                        for j in range(n):
                            total += inverse[i, j] * metric[j, k]
                        kernel[i, k] = (1.0 if i == k else 0.0) - total / sigma
                for i in range(n):
                    for k in range(n):
                        sums[4] += weight * kernel[i, k] * kernel[k, i]


@njit(cache=True, nogil=True, error_model="numpy")
def sigmoid(x):  # type: ignore[no-untyped-def]
    """sig(x) and sig(-x), both to full relative precision."""
    e = np.exp(-abs(x))
    high = 1.0 / (1.0 + e)
    low = e * high
    return (high, low) if x >= 0.0 else (low, high)


@njit(cache=True, nogil=True, error_model="numpy")
def label_response_difference(pair, u, t):  # type: ignore[no-untyped-def]
    """How the slope of the loss at ``u`` answers to its label logit ``t``: a difference over twice `STEP_LABEL`."""
    y, c = sigmoid(t + STEP_LABEL)
    up = pair(u, y, c)[1]
    y, c = sigmoid(t - STEP_LABEL)
    return up - pair(u, y, c)[1]


@njit(types.void(PAIR, BLOCK, NODES, SCALING, MODES, SLICES, MATRIX), cache=True, nogil=True, error_model="numpy")
def two_token_sums(pair, block_arrays, nodes, scaling, modes, slices, out):  # type: ignore[no-untyped-def]
    """`prox_sums` for two tokens: two coordinates, each row seeing one of them (2.5)."""
    _, metric, fits = block_arrays
    label_nodes, free_nodes, weights, kept = nodes
    root_q, overlap, root_w, step = scaling
    search, detail, warm_start = modes.branch, modes.detail, modes.start
    length, first, last = slices
    p00, p01, p11 = metric[0, 0] / step, metric[0, 1] / step, metric[1, 1] / step
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            weight = weights[node]
            t0, t1 = root_q * label_nodes[node, 0], root_q * label_nodes[node, 1]
            v0, v1 = overlap * t0 + root_w * free_nodes[node, 0], overlap * t1 + root_w * free_nodes[node, 1]
            y0, c0 = sigmoid(t0)
            y1, c1 = sigmoid(t1)
            u0, u1 = (kept[node, 0], kept[node, 1]) if warm_start == 2 else (t0, t1)
            value, u0, u1, g0, g1, h0, h1 = newton_pair(pair, p00, p01, p11, v0, v1, y0, c0, y1, c1, u0, u1)
            if search > 0:
                found = False
                lowest = value
                for start in range(3):
                    s0, s1 = v0, v1
                    if start > 0:
                        s0 += fits[start - 1, 0, 0] * (t0 - v0) + fits[start - 1, 0, 1] * (t1 - v1)
                        s1 += fits[start - 1, 1, 0] * (t0 - v0) + fits[start - 1, 1, 1] * (t1 - v1)
                    other, s0, s1, a0, a1, b0, b1 = newton_pair(pair, p00, p01, p11, v0, v1, y0, c0, y1, c1, s0, s1)
                    if other < lowest - 1e-10 * (1.0 + abs(lowest)):
                        lowest, found = other, True
                        if search == 2:
                            value, u0, u1, g0, g1, h0, h1 = other, s0, s1, a0, a1, b0, b1
                if found:
                    sums[7] += weight
            sums[8] = max(sums[8], abs(g0), abs(g1))
            if warm_start > 0:
                kept[node, 0], kept[node, 1] = u0, u1
            x0, x1 = u0 - v0, u1 - v1
            pull0, pull1 = metric[0, 0] * x0 + metric[0, 1] * x1, metric[1, 0] * x0 + metric[1, 1] * x1
            quadratic = pull0 * x0 + pull1 * x1
            sums[0] += weight * quadratic
            sums[1] += weight * (pull0 * t0 + pull1 * t1)
            sums[2] += weight * (pull0 * v0 + pull1 * v1)
            sums[6] += weight * (value - 0.5 * quadratic / step)
            if detail == 0:
                continue
            # K = (P/Sigma + H)^-1 H with H = diag(l0, l1); the floor lifts a minimum on the verge of losing itself
            l0, l1 = h0 - p00, h1 - p11
            determinant = max(h0 * h1 - p01 * p01, 1e-9 * p00 * p11)
            k00, k01, k10, k11 = (
                h1 * l0 / determinant,
                -p01 * l1 / determinant,
                -p01 * l0 / determinant,
                h0 * l1 / determinant,
            )
            sums[3] += weight * (k00 + k11)
            sums[4] += weight * (k00 * k00 + 2.0 * k01 * k10 + k11 * k11)
            change = h1 * label_response_difference(pair, u0, t0) + h0 * label_response_difference(pair, u1, t1)
            sums[5] -= weight * change / (2.0 * STEP_LABEL * determinant)


@njit(types.void(PAIR, BLOCK, NODES, SCALING, MODES, SLICES, MATRIX), cache=True, nogil=True, error_model="numpy")
def two_column_sums(pair, block_arrays, nodes, scaling, modes, slices, out):  # type: ignore[no-untyped-def]
    """`prox_sums` for one row of two columns: one coordinate (U2.1)."""
    _, metric, _ = block_arrays
    label_nodes, free_nodes, weights, kept = nodes
    root_q, overlap, root_w, step = scaling
    search, detail, warm_start = modes.branch, modes.detail, modes.start
    length, first, last = slices
    p = metric[0, 0] / step
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            weight = weights[node]
            t = root_q * label_nodes[node, 0]
            v = overlap * t + root_w * free_nodes[node, 0]
            y, c = sigmoid(t)
            value, u, g, h = newton_line(pair, p, v, y, c, kept[node, 0] if warm_start == 2 else t)
            if search > 0:
                other, s, a, b = newton_line(pair, p, v, y, c, v)
                if other < value - 1e-10 * (1.0 + abs(value)):
                    sums[7] += weight
                    if search == 2:
                        value, u, g, h = other, s, a, b
            sums[8] = max(sums[8], abs(g))
            if warm_start > 0:
                kept[node, 0] = u
            pull = metric[0, 0] * (u - v)
            quadratic = pull * (u - v)
            sums[0] += weight * quadratic
            sums[1] += weight * pull * t
            sums[2] += weight * pull * v
            sums[6] += weight * (value - 0.5 * quadratic / step)
            if detail == 0:
                continue
            h = max(h, 1e-9 * p)  # the floor lifts a minimum on the verge of losing itself
            k = (h - p) / h
            sums[3] += weight * k
            sums[4] += weight * k * k
            sums[5] -= weight * label_response_difference(pair, u, t) / (2.0 * STEP_LABEL * h)


@njit(types.void(ROW, MATRIX, MATRIX, VECTOR, SCALING, SLICES, MATRIX), cache=True, nogil=True, error_model="numpy")
def loss_sums(row, label_nodes, free_nodes, weights, scaling, slices, out):  # type: ignore[no-untyped-def]
    """Average loss of one row of a fresh sample whose learner logits are v, labels from u*; the last logit is zero."""
    root_q, overlap, root_w, _ = scaling
    length, first, last = slices
    width = label_nodes.shape[1] + 1
    target, v, y = np.zeros(width), np.zeros(width), np.empty(width)
    gradient, hessian = np.empty(width), np.empty((width, width))
    for part in range(first, last):
        out[part, 0] = 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            for i in range(width - 1):
                target[i] = root_q * label_nodes[node, i]
                v[i] = overlap * target[i] + root_w * free_nodes[node, i]
            softmax(target, y)
            out[part, 0] += weights[node] * row(v, y, gradient, hessian)


@njit(
    types.void(ROW, RESPONSE, INDICES, MATRIX, MATRIX, VECTOR, SLICES, MATRIX),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def origin_sums(row, response, select, covariance, label_logits, weights, slices, out):  # type: ignore[no-untyped-def]
    """E g'Cg and E tr C (-dg/du*) for the gradient g of the loss at zero logits (4.6)."""
    length, first, last = slices
    n, rows, width = label_logits.shape[1], select.shape[0], select.shape[1]
    w = scratch(n, width)
    y, target, zero, g = np.empty((rows, width)), np.empty(n), np.zeros(n), np.empty(n)
    block = np.empty((width, width))
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            for i in range(n):
                target[i] = label_logits[node, i]
            labels(select, target, w.row_x, y)
            g[:] = 0.0
            for a in range(rows):
                w.row_x[:] = 0.0
                row(w.row_x, y[a], w.row_gradient, w.row_hessian)
                for b in range(width):
                    if select[a, b] >= 0:
                        g[select[a, b]] += w.row_gradient[b]
            for i in range(n):
                for j in range(n):
                    sums[0] += weights[node] * g[i] * covariance[i, j] * g[j]
            sums[1] += weights[node] * _response_trace(response, select, zero, y, covariance, w, block)
