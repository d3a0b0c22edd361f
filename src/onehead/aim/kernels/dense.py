"""Compiled sums over quadrature nodes: everything the output channel averages, one pass each.

The loops over nodes, labels and minima are the same whatever is summed. They are made by `dense_loop`
for a reducer, which adds the numbers of one proximal point to the sums: scalars here, matrices in
`onehead.aim.kernels.matrix_sums`.
"""

from typing import Any

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
from onehead.aim.kernels.multi_start import multi_start
from onehead.numerics.cholesky import factorise, invert_factored
from onehead.numerics.jit import njit
from onehead.numerics.prox import ROW, minimise_prox, scratch


@njit
def labels(select, u, row_x, y):
    """Rows of the label: softmax of the label logits."""
    for a in range(select.shape[0]):
        for b in range(select.shape[1]):
            row_x[b] = u[select[a, b]] if select[a, b] >= 0 else 0.0
        softmax(row_x, y[a])


@njit
def _fill_response(response, select, u, y, w, block, matrix):
    """Fill ``matrix`` with R = - d(gradient of the loss)/d(label logits) at ``u``, summed row by row."""
    rows, width = select.shape
    matrix[:] = 0.0
    for a in range(rows):
        for b in range(width):
            w.row_x[b] = u[select[a, b]] if select[a, b] >= 0 else 0.0
            w.row_label[b] = y[a, b]
        response(w.row_x, w.row_label, block)
        for b in range(width):
            i = select[a, b]
            if i >= 0:
                for c in range(width):
                    k = select[a, c]
                    if k >= 0:
                        matrix[i, k] += block[b, c]


@njit
def _place_start(problem, starts, start, point):
    """Start at the learner's logits, or with one row at its label and the others at their conditional means (2.7)."""
    v = problem[3]
    target, conditional_means = starts
    n = v.shape[0]
    for i in range(n):
        point[i] = v[i]
        if start > 0:
            for j in range(n):
                point[i] += conditional_means[start - 1, i, j] * (target[j] - v[j])


_search = multi_start(minimise_prox, _place_start)


def dense_loop(add_point: Any, add_derivatives: Any, finish: Any) -> Any:
    """Make the loop over nodes and labels for any number of coordinates.

    A hard label is summed over all its values, each with the probability that the target's softmax gives it, and has a
    warm point each. Its loss is convex, so that no other minimum is searched for.

    Parameters
    ----------
    add_point : compiled function (sums, weight, point, numbers, hard)
        Adds a proximal point. ``point`` has the arrays u*, v, prox, P (prox - v) and the score of the label;
        ``numbers`` are the loss, the squared distance, whether there is a lower minimum, and the largest gradient
        entry.
    add_derivatives : compiled function (sums, weight, inverse, response, metric, sigma, modes)
        Adds the derivatives of a proximal point, from the inverse of the Hessian and from R.
    finish : compiled function (sums, metric, mass, modes)
        Completes the sums of a slice of this total weight.
    """

    @njit(cache=False)
    def loop(row, response, block_arrays, nodes, scaling, modes, slices, out):
        select, metric, conditional_means = block_arrays
        label_nodes, free_nodes, weights, warm_points = nodes
        label_root, slope, free_root, sigma = scaling
        branch, detail, start, hard = modes.branch, modes.detail, modes.start, modes.hard == 1
        length, first, last = slices
        n, rows, width = metric.shape[0], select.shape[0], select.shape[1]
        w = scratch(n, width)
        p, y = np.empty((rows, width)), np.empty((rows, width))
        target, v, u, pull, score = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.zeros(n)
        block, inverse, answer = np.empty((width, width)), np.empty((n, n)), np.empty((n, n))
        problem, point = (select, metric, 1.0 / sigma, v, y, row), (target, v, u, pull, score)
        starts, spare = (target, conditional_means), (np.empty(n), np.empty(n))
        label_count = width**rows if hard else 1
        for part in range(first, last):
            sums, mass = out[part], 0.0
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
                    _, (value,) = minimise_prox(problem, u, w)
                    lower = False
                    if branch > Branch.LABEL and not hard:
                        lower, (value,) = _search(problem, starts, rows + 1, u, value, branch, w, spare)
                    distance, steepest = 0.0, 0.0
                    for i in range(n):
                        if start > Start.LABEL:
                            warm_points[node, choice * n + i] = u[i]
                        steepest = max(steepest, abs(w.gradient[i]))
                        pull[i] = 0.0
                        for j in range(n):
                            pull[i] += metric[i, j] * (u[j] - v[j])
                        distance += pull[i] * (u[i] - v[i])
                    add_point(sums, weight, point, (value - 0.5 * distance / sigma, distance, lower, steepest), hard)
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
                        _fill_response(response, select, u, y, w, block, answer)
                    add_derivatives(sums, weight, inverse, answer, metric, sigma, modes)
                    mass += weight
            finish(sums, metric, mass, modes)

    return loop


@njit
def _add_scalars(sums, weight, point, numbers, hard):
    """Add a proximal point to `onehead.aim.theory.output.averages.Averages`; entry 8 is the largest gradient entry.

    A hard label depends on the label logits through its probabilities alone (U7): E dprox_j/du*_j = E sum_y p_y
    (1[y = j] - p_j) (prox_y - v)_j, summed over the rows that see coordinate j.
    """
    target, v, u, pull, score = point
    loss, distance, lower, steepest = numbers
    sums[0] += weight * distance
    sums[6] += weight * loss
    sums[8] = max(sums[8], steepest)
    if lower:
        sums[7] += weight
    for i in range(u.shape[0]):
        sums[1] += weight * pull[i] * target[i]
        sums[2] += weight * pull[i] * v[i]
        if hard:
            sums[5] += weight * score[i] * (u[i] - v[i])


@njit
def _add_traces(sums, weight, inverse, response, metric, sigma, modes):
    """Add tr K and tr K² with K = 1 - (Hessian)^-1 P/Sigma, and of a soft label tr (Hessian)^-1 R."""
    n = metric.shape[0]
    for i in range(n):
        share = 0.0
        for k in range(n):
            share += inverse[i, k] * metric[k, i]
            if modes.hard == 0:
                sums[5] += weight * inverse[k, i] * response[i, k]
        sums[3] += weight * (1.0 - share / sigma)
    if modes.detail == Detail.DERIVATIVE:
        return
    for i in range(n):
        for k in range(n):
            one, other = 0.0, 0.0
            for j in range(n):
                one += inverse[i, j] * metric[j, k]
                other += inverse[k, j] * metric[j, i]
            same = 1.0 if i == k else 0.0
            sums[4] += weight * (same - one / sigma) * (same - other / sigma)


@njit
def keep_scalars(sums, metric, mass, modes):
    """Leave the sums of a slice as they are."""


_scalar_loop = dense_loop(_add_scalars, _add_traces, keep_scalars)


@njit(types.void(ROW, RESPONSE, BLOCK, NODES, SCALING, MODES, SLICES, MATRIX))
def prox_sums(row, response, block_arrays, nodes, scaling, modes, slices, out):
    """Weighted sums of `onehead.aim.theory.output.averages.Averages` over slices of nodes; entry 8 is the largest
    gradient entry.
    """
    _scalar_loop(row, response, block_arrays, nodes, scaling, modes, slices, out)


@njit(types.void(ROW, MATRIX, MATRIX, VECTOR, SCALING, SLICES, MATRIX))
def loss_sums(row, label_nodes, free_nodes, weights, scaling, slices, out):
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


@njit(types.void(ROW, RESPONSE, INDICES, MATRIX, MATRIX, VECTOR, SLICES, MATRIX))
def origin_sums(row, response, select, covariance, label_logits, weights, slices, out):
    """E g'Cg and E tr C (-dg/du*) for the gradient g of the loss at zero logits (4.6)."""
    length, first, last = slices
    n, rows, width = label_logits.shape[1], select.shape[0], select.shape[1]
    w = scratch(n, width)
    y, target, zero, g = np.empty((rows, width)), np.empty(n), np.zeros(n), np.empty(n)
    block, answer = np.empty((width, width)), np.empty((n, n))
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
            _fill_response(response, select, zero, y, w, block, answer)
            for i in range(n):
                for j in range(n):
                    sums[0] += weights[node] * g[i] * covariance[i, j] * g[j]
                    sums[1] += weights[node] * covariance[j, i] * answer[i, j]
