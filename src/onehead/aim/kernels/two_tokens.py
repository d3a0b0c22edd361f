"""Compiled sums over quadrature nodes for two tokens and for rows of two columns, whose points are held in registers
(2.5, U2.1).
"""

from typing import Any

import numpy as np
from numba import types

from onehead.aim.kernels.arguments import BLOCK, MATRIX, MODES, NODES, SCALING, SLICES, Branch, Detail, Start
from onehead.aim.kernels.dense import keep_scalars
from onehead.numerics.jit import njit
from onehead.numerics.newton import is_lower
from onehead.numerics.prox import PAIR, newton_line, newton_pair

STEP_LABEL = 1e-5  # central difference in the label logits: error about 1e-10 of the derivative


@njit
def sigmoid(x):
    """sig(x) and sig(-x), both to full relative precision."""
    e = np.exp(-abs(x))
    high = 1.0 / (1.0 + e)
    low = e * high
    return (high, low) if x >= 0.0 else (low, high)


@njit
def label_response(pair, u, t):
    """Minus the derivative of the slope of the loss at ``u`` by its label logit ``t``, by a central difference."""
    y, c = sigmoid(t + STEP_LABEL)
    up = pair(u, y, c)[1]
    y, c = sigmoid(t - STEP_LABEL)
    return (pair(u, y, c)[1] - up) / (2.0 * STEP_LABEL)


@njit
def _search_pair(problem, target, fits, u, state, branch):
    """`multi_start` for two coordinates in registers: the point and its state, and whether a minimum is lower."""
    v0, v1 = problem[1]
    t0, t1 = target
    lowest, found = state[0], False
    for start in range(3):
        s0, s1 = v0, v1
        if start > 0:
            s0 += fits[start - 1, 0, 0] * (t0 - v0) + fits[start - 1, 0, 1] * (t1 - v1)
            s1 += fits[start - 1, 1, 0] * (t0 - v0) + fits[start - 1, 1, 1] * (t1 - v1)
        other, other_state = newton_pair(problem, (s0, s1), ())
        if is_lower(other_state[0], lowest):
            lowest, found = other_state[0], True
            if branch == Branch.GLOBAL:
                u, state = other, other_state
    return u, state, found


def pair_loop(add_point: Any, add_derivatives: Any, finish: Any) -> Any:
    """Make the loop over nodes and labels for two tokens: two coordinates, each row seeing one of them (2.5).

    The reducers are those of `onehead.aim.kernels.dense.dense_loop`, with pairs of numbers in the place of arrays;
    ``add_derivatives`` takes (sums, weight, hessian, response, over_step, modes), where ``hessian`` has the diagonal of
    the Hessian and its determinant.
    """

    @njit(cache=False)
    def loop(pair, block_arrays, nodes, scaling, modes, slices, out):
        _, metric, fits = block_arrays
        label_nodes, free_nodes, weights, kept = nodes
        root_q, overlap, root_w, step = scaling
        branch, detail, start, hard = modes.branch, modes.detail, modes.start, modes.hard == 1
        length, first, last = slices
        over_step = (metric[0, 0] / step, metric[0, 1] / step, metric[1, 1] / step)
        p00, p01, p11 = over_step
        for part in range(first, last):
            sums, mass = out[part], 0.0
            sums[:] = 0.0
            for node in range(part * length, min((part + 1) * length, weights.shape[0])):
                t = (root_q * label_nodes[node, 0], root_q * label_nodes[node, 1])
                v = (overlap * t[0] + root_w * free_nodes[node, 0], overlap * t[1] + root_w * free_nodes[node, 1])
                (y0, c0), (y1, c1) = sigmoid(t[0]), sigmoid(t[1])
                for choice in range(4 if hard else 1):
                    weight, label, u = weights[node], (y0, c0, y1, c1), t
                    if hard:
                        l0, l1 = float(choice % 2), float(choice // 2)
                        weight *= (y0 if l0 == 1.0 else c0) * (y1 if l1 == 1.0 else c1)
                        if weight == 0.0:
                            continue
                        label, u = (l0, 1.0 - l0, l1, 1.0 - l1), v
                    if start == Start.WARM:
                        u = (kept[node, 2 * choice], kept[node, 2 * choice + 1])
                    problem = (over_step, v, label, pair)
                    u, state = newton_pair(problem, u, ())
                    lower = False
                    if branch > Branch.LABEL and not hard:
                        u, state, lower = _search_pair(problem, t, fits, u, state, branch)
                    value, g0, g1, h0, h1 = state
                    if start > Start.LABEL:
                        kept[node, 2 * choice], kept[node, 2 * choice + 1] = u
                    x0, x1 = u[0] - v[0], u[1] - v[1]
                    pull = (metric[0, 0] * x0 + metric[0, 1] * x1, metric[1, 0] * x0 + metric[1, 1] * x1)
                    distance = pull[0] * x0 + pull[1] * x1
                    point = (t, v, u, pull, (label[0] - y0, label[2] - y1))
                    numbers = (value - 0.5 * distance / step, distance, lower, max(abs(g0), abs(g1)))
                    add_point(sums, weight, point, numbers, hard)
                    if detail == Detail.STEIN:
                        continue
                    # the floor keeps a minimum that is about to vanish
                    hessian = (h0, h1, max(h0 * h1 - p01 * p01, 1e-9 * p00 * p11))
                    response = (0.0, 0.0)
                    if not hard:
                        response = (label_response(pair, u[0], t[0]), label_response(pair, u[1], t[1]))
                    add_derivatives(sums, weight, hessian, response, over_step, modes)
                    mass += weight
            finish(sums, metric, mass, modes)

    return loop


@njit
def _add_pair_scalars(sums, weight, point, numbers, hard):
    """`_add_scalars` for two coordinates."""
    t, v, u, pull, score = point
    loss, distance, lower, steepest = numbers
    sums[0] += weight * distance
    sums[1] += weight * (pull[0] * t[0] + pull[1] * t[1])
    sums[2] += weight * (pull[0] * v[0] + pull[1] * v[1])
    sums[6] += weight * loss
    sums[8] = max(sums[8], steepest)
    if lower:
        sums[7] += weight
    if hard:
        sums[5] += weight * (score[0] * (u[0] - v[0]) + score[1] * (u[1] - v[1]))


@njit
def _add_pair_traces(sums, weight, hessian, response, over_step, modes):
    """`_add_traces` for two coordinates: K = (P/Sigma + H)^-1 H with H = diag(l0, l1)."""
    h0, h1, determinant = hessian
    p00, p01, p11 = over_step
    l0, l1 = h0 - p00, h1 - p11
    k00, k11 = h1 * l0 / determinant, h0 * l1 / determinant
    k01, k10 = -p01 * l1 / determinant, -p01 * l0 / determinant
    sums[3] += weight * (k00 + k11)
    sums[4] += weight * (k00 * k00 + 2.0 * k01 * k10 + k11 * k11)
    sums[5] += weight * (h1 * response[0] + h0 * response[1]) / determinant


_pair_scalar_loop = pair_loop(_add_pair_scalars, _add_pair_traces, keep_scalars)


@njit(types.void(PAIR, BLOCK, NODES, SCALING, MODES, SLICES, MATRIX))
def two_token_sums(pair, block_arrays, nodes, scaling, modes, slices, out):
    """`prox_sums` for two tokens: two coordinates, each row seeing one of them (2.5)."""
    _pair_scalar_loop(pair, block_arrays, nodes, scaling, modes, slices, out)


@njit(types.void(PAIR, BLOCK, NODES, SCALING, MODES, SLICES, MATRIX))
def two_column_sums(pair, block_arrays, nodes, scaling, modes, slices, out):
    """`prox_sums` for one row of two columns: one coordinate (U2.1)."""
    _, metric, _ = block_arrays
    label_nodes, free_nodes, weights, kept = nodes
    root_q, overlap, root_w, step = scaling
    length, first, last = slices
    p = metric[0, 0] / step
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            weight = weights[node]
            t = root_q * label_nodes[node, 0]
            v = overlap * t + root_w * free_nodes[node, 0]
            problem = (p, v, sigmoid(t), pair)
            u, state = newton_line(problem, kept[node, 0] if modes.start == Start.WARM else t, ())
            if modes.branch > Branch.LABEL:
                other, other_state = newton_line(problem, v, ())
                if is_lower(other_state[0], state[0]):
                    sums[7] += weight
                    if modes.branch == Branch.GLOBAL:
                        u, state = other, other_state
            value, g, h = state
            sums[8] = max(sums[8], abs(g))
            if modes.start > Start.LABEL:
                kept[node, 0] = u
            pull = metric[0, 0] * (u - v)
            quadratic = pull * (u - v)
            sums[0] += weight * quadratic
            sums[1] += weight * pull * t
            sums[2] += weight * pull * v
            sums[6] += weight * (value - 0.5 * quadratic / step)
            if modes.detail == Detail.STEIN:
                continue
            h = max(h, 1e-9 * p)  # the floor keeps a minimum that is about to vanish
            k = (h - p) / h
            sums[3] += weight * k
            sums[4] += weight * k * k
            sums[5] += weight * label_response(pair, u, t) / h
