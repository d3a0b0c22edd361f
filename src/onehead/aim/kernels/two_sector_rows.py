"""Averages over a row of untied self-attention that sees its own logit, in a time that grows with the number of columns
(U5.2, L6).

The logits of a row are independent; all are alike but the last, the token's own, which knows the symmetric part of the
map alone. What sectors take is a combination of sums over the others and of the own one.
"""

import numpy as np
from numba import float64, int64, types

from onehead.aim.kernels.arguments import MATRIX, MODES, NODES, SLICES, Start
from onehead.aim.kernels.control_variates import (
    CONTROL_COUNT,
    GROUPED_AVERAGES,
    add_mirror_pair,
    quartics,
    row_controls,
    two_group_stein_controls,
)
from onehead.aim.kernels.independent_rows import newton_row, row_work, search_row, solve_row
from onehead.aim.kernels.losses import CROSS_ENTROPY, softmax
from onehead.numerics.jit import njit

__all__ = ["two_sector_row_sums"]


@njit(types.void(int64, MATRIX, float64, NODES, MODES, SLICES, MATRIX), cache=True, nogil=True, error_model="numpy")
def two_sector_row_sums(kind, powers, Q, nodes, modes, slices, out):  # type: ignore[no-untyped-def]
    """Sums over nodes, mirror images in turn; ``powers`` are q, m and Sigma of the other logits and of the own one.

    A hard label is summed over all its values, each with the probability that the target's softmax gives it, and has a
    warm point each. It depends on the logits of the target through these probabilities alone, so that de/dt is e times
    the score (U7).
    """
    label_nodes, free_nodes, weights, kept = nodes
    search, detail, warm_start, _, stein, rich = modes
    hard = modes.hard == 1
    length, first, last = slices
    n = label_nodes.shape[1]
    y, h, v, target, label = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    work, spare_points = row_work(n), (np.empty(n), np.empty(n))
    _, move, trial, p, w, D, _ = work
    held, answer = np.empty(n), np.empty(n)
    problem = (kind, held, v, y)
    label_power, own_power, both, left = np.full(n, Q), np.empty(n), np.empty(n), np.zeros(3)
    values, control = np.empty(GROUPED_AVERAGES), np.empty(CONTROL_COUNT)
    mean_of, mean = np.empty(GROUPED_AVERAGES), np.empty(CONTROL_COUNT)
    label_count = n if hard else 1
    for i in range(n):
        group = 1 if i == n - 1 else 0
        own_power[i], both[i], held[i] = powers[0, group], powers[1, group], 1.0 / powers[2, group]
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        for node in range(part * length, min((part + 1) * length, weights.shape[0])):
            for i in range(n):
                target[i] = np.sqrt(Q) * label_nodes[node, i]
                spare = np.sqrt(max(own_power[i] - both[i] * both[i] / Q, 0.0))
                v[i] = both[i] / Q * target[i] + spare * free_nodes[node, i]
            softmax(target, label)
            values[:], control[:], largest = 0.0, 0.0, 0.0
            for choice in range(label_count):
                chance = label[choice] if hard else 1.0
                if chance == 0.0:
                    continue
                for i in range(n):
                    y[i] = label[i] if not hard else 1.0 if i == choice else 0.0
                    h[i] = kept[node, n * choice + i] if warm_start == Start.WARM else v[i] if hard else target[i]
                _, state = newton_row(problem, h, work)
                if search > 0 and not hard:
                    found, state = search_row(problem, (), 1, h, state[0], search, work, spare_points)
                    values[2] = 1.0 if found else 0.0
                value, steepest, m00, m01, m11 = state
                largest = max(largest, steepest)
                if detail > 0 and not hard:
                    overlap = 0.0
                    for i in range(n):
                        overlap += p[i] * y[i]
                    if kind == CROSS_ENTROPY:
                        solve_row(D, p, w, m00, m01, m11, y, move)
                    else:
                        for i in range(n):
                            answer[i] = 2.0 * p[i] * (y[i] - overlap)
                        solve_row(D, p, w, m00, m01, m11, answer, move)
                        solve_row(D, p, w, m00, m01, m11, p, trial)
                distance = 0.0
                for i in range(n):
                    group = 1 if i == n - 1 else 0
                    e = held[i] * (h[i] - v[i])
                    distance += e * (h[i] - v[i])
                    values[3 + group] += chance * e * e
                    values[5 + group] += chance * e * target[i]
                    values[7 + group] += chance * e * v[i]
                    if warm_start > Start.LABEL:
                        kept[node, n * choice + i] = h[i]
                    if detail == 0:
                        continue
                    x, z = p[i] / D[i], w[i] / D[i]
                    diagonal = 1.0 / D[i] - (m00 * x * x + 2.0 * m01 * x * z + m11 * z * z)
                    values[9 + group] += chance * held[i] * (1.0 - held[i] * diagonal)
                    if hard:
                        values[11 + group] += chance * e * (y[i] - label[i])
                    elif kind == CROSS_ENTROPY:
                        values[11 + group] += held[i] * y[i] * (diagonal - move[i])
                    else:
                        values[11 + group] += held[i] * y[i] * (2.0 * p[i] * (diagonal - trial[i]) - move[i])
                values[0] += chance * (value - 0.5 * distance)
                values[1] += chance * distance
            softmax(v, trial)
            row_controls(target, v, label, trial, label_power, own_power, both, left, rich, control)
            if rich == 1:
                for i in range(n):
                    quartics(label_nodes[node, i], free_nodes[node, i], control)
            if stein == 1:
                two_group_stein_controls(Q, powers, values, control)
            add_mirror_pair(sums, node, weights[node], largest, values, control, mean_of, mean)
