"""Averages over a row of self-attention that sees its own logit, in a time that grows with the number of columns (U5.2,
D2.2, L6).

The logits of a row are independent; all are alike but the last, the token's own, which knows the symmetric part of the
map alone. Fields that all queries share add to the variances of label and learner, and not to Sigma. What sectors take
is a combination of sums over the others and of the own one. The equations of a row are those of
`onehead.aim.kernels.independent_rows`; nodes are taken side by side (`onehead.aim.kernels.simd`).
"""

from typing import NamedTuple

import numpy as np
from numba import int64, types

from onehead.aim.kernels.arguments import MATRIX, MODES, NODES, SLICES, Branch, Start
from onehead.aim.kernels.control_variates import (
    BASIC_CONTROLS,
    CONTROL_COUNT,
    GROUPED_AVERAGES,
    add_mirror_pairs,
    row_controls_simd,
)
from onehead.aim.kernels.independent_rows import TIGHTEST
from onehead.aim.kernels.losses import CROSS_ENTROPY
from onehead.aim.kernels.simd import LANES, log_normalisations, newton_side_by_side, softmax_rows
from onehead.numerics.jit import njit
from onehead.numerics.newton import LONGEST, is_lower


class _Problem(NamedTuple):
    """Code of the loss, number of the logit of a column, 1/Sigma of every logit, the learner's logits, labels."""

    kind: int
    place: np.ndarray
    held: np.ndarray
    v: np.ndarray
    y: np.ndarray


class _Workspace(NamedTuple):
    """Numbers of every node: of logits at a point, and of the node.

    ``inverse`` is 1/D; ``sums`` has s and t of the Hessian, sums for it, and its matrix between p and w of the inverse.
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
    sums: np.ndarray
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


@njit
def _workspace(n):
    """Allocate the work space for rows of n columns."""
    p, row = np.zeros((2 * n, LANES)), (n, LANES)
    return _Workspace(
        np.zeros(row), np.zeros(row), np.zeros(row), np.zeros(row), p, p.view(np.int64), np.zeros(row),
        np.zeros((2, LANES)), np.zeros((1, LANES)), np.zeros((8, LANES)),
        np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES),
        np.zeros(LANES), np.zeros(LANES), np.zeros(LANES), np.zeros(LANES),
    )  # fmt: skip


@njit
def _evaluate(problem, h, work):
    """Fill ``new`` with the objective at ``h``, and the gradient, p, w, s and t."""
    kind, place, held, v, y = problem
    gradient, p, w, sums, new, scale, log_z = (
        work.gradient, work.p, work.w, work.sums, work.new, work.scale, work.log_z
    )  # fmt: skip
    n = held.shape[0]
    softmax_rows(h, place, p, work.bits, scale)
    for k in range(LANES):
        new[k], sums[0, k], sums[1, k] = 0.0, 0.0, 0.0
    if kind == CROSS_ENTROPY:
        log_normalisations(scale, 1, log_z)
        for k in range(LANES):
            new[k] = log_z[0, k]
        for i in range(n):
            for k in range(LANES):
                new[k] -= y[i, k] * h[i, k]
                gradient[i, k] = p[i, k] - y[i, k]
    else:
        for i in range(n):
            for k in range(LANES):
                r = p[i, k] - y[i, k]
                new[k] += r * r
                sums[0, k] += r * p[i, k]
                w[i, k] = p[i, k] * (r + p[i, k])
                sums[1, k] += w[i, k]
        for i in range(n):
            for k in range(LANES):
                gradient[i, k] = 2.0 * p[i, k] * (p[i, k] - y[i, k] - sums[0, k])
    for i in range(n):
        hold = held[i]
        for k in range(LANES):
            pull = hold * (h[i, k] - v[i, k])
            new[k] += 0.5 * pull * (h[i, k] - v[i, k])
            gradient[i, k] += pull


@njit
def _factor(problem, work):
    """Fill 1/D and the matrix between p and w of the inverse Hessian with every node's ``hold``, and whether the
    Hessian is positive definite, which it may be with one negative entry of D (see `independent_rows`).
    """
    kind, _, held, _, _ = problem
    p, w, D, sums, hold, definite = work.p, work.w, work.inverse, work.sums, work.hold, work.definite
    negative = definite  # counted in its place
    for k in range(LANES):
        negative[k], sums[2, k], sums[3, k], sums[4, k] = 0.0, 0.0, 0.0, 0.0
    for i in range(held.shape[0]):
        tight = held[i]
        if kind == CROSS_ENTROPY:
            for k in range(LANES):
                D[i, k] = 1.0 / (hold[k] * tight + p[i, k])
                sums[2, k] += p[i, k] * p[i, k] * D[i, k]
        else:
            for k in range(LANES):
                D[i, k] = hold[k] * tight + 2.0 * (w[i, k] - sums[0, k] * p[i, k])
                negative[k] += 0.0 if D[i, k] > 0.0 else 1.0
                D[i, k] = 1.0 / D[i, k]
                sums[2, k] += p[i, k] * p[i, k] * D[i, k]
                sums[3, k] += p[i, k] * w[i, k] * D[i, k]
                sums[4, k] += w[i, k] * w[i, k] * D[i, k]
    for k in range(LANES):
        k00, k01 = -1.0, 0.0
        if kind != CROSS_ENTROPY:
            k00, k01 = 2.0 * (sums[0, k] + sums[1, k]), -2.0
        a, b, c = sums[2, k], sums[3, k], sums[4, k]
        # M = (1 + K G)^-1 K with G the Gram matrix of p and w over D
        u00, u01, u10, u11 = 1.0 + k00 * a + k01 * b, k00 * b + k01 * c, k01 * a, 1.0 + k01 * b
        determinant = u00 * u11 - u01 * u10
        sums[5, k], sums[6, k], sums[7, k] = (
            (u11 * k00 - u01 * k01) / determinant, u11 * k01 / determinant, -u10 * k01 / determinant
        )  # fmt: skip
        with_one = 1.0 if (negative[k] == 1.0) & (determinant < -1e-12) & (a < 0.0) else 0.0
        with_none = 1.0 if determinant > 1e-12 else 0.0
        definite[k] = with_none if negative[k] == 0.0 else with_one


@njit
def _solve(p, w, D, sums, r, x):
    """x = Hessian^-1 r."""
    for k in range(LANES):
        sums[2, k], sums[3, k] = 0.0, 0.0
    for i in range(D.shape[0]):
        for k in range(LANES):
            x[i, k] = r[i, k] * D[i, k]
            sums[2, k] += p[i, k] * x[i, k]
            sums[3, k] += w[i, k] * x[i, k]
    for k in range(LANES):
        one, two = sums[2, k], sums[3, k]
        sums[2, k], sums[3, k] = sums[5, k] * one + sums[6, k] * two, sums[6, k] * one + sums[7, k] * two
    for i in range(D.shape[0]):
        for k in range(LANES):
            x[i, k] -= (p[i, k] * sums[2, k] + w[i, k] * sums[3, k]) * D[i, k]


@njit
def _fill_steps(problem, h, work):
    """Fill the steps of all nodes that do not wait for a shorter one, the slopes along them and their sizes."""
    gradient, move, step, D, p, w, sums, hold, regular, definite, waits, slope, size = (
        work.gradient, work.move, work.trial, work.inverse, work.p, work.w, work.sums, work.hold, work.regular,
        work.definite, work.waits, work.slope, work.size,
    )  # fmt: skip
    n = D.shape[0]
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
    _solve(p, w, D, sums, gradient, step)
    for k in range(LANES):
        sums[2, k], sums[3, k], sums[4, k] = 0.0, 0.0, 0.0
    for i in range(n):
        for k in range(LANES):
            sums[2, k] = max(sums[2, k], abs(step[i, k]))
            sums[3, k] = max(sums[3, k], abs(h[i, k]))
            sums[4, k] += gradient[i, k] * step[i, k]
    for k in range(LANES):
        if waits[k] > 0.0:
            continue
        longest = sums[2, k]
        factor = -1.0 if regular[k] > 0.0 or longest < LONGEST else -LONGEST / longest
        slope[k], size[k] = factor * sums[4, k], longest / (1.0 + sums[3, k])
        for i in range(n):
            move[i, k] = factor * step[i, k]


_minimise = newton_side_by_side(_evaluate, _fill_steps)


@njit
def _search(problem, h, branch, work, other, lower):
    """Fill ``lower`` with one where the minimum reached from the learner's logits is lower than the one at ``h``; if
    ``branch`` is global, move there.
    """
    v, value, count = problem.v, work.value, h.shape[0]
    least = value.copy()
    for i in range(count):
        for k in range(LANES):
            other[i, k] = v[i, k]
    _minimise(problem, other, work)
    for k in range(LANES):
        lower[k] = 1.0 if is_lower(value[k], least[k]) else 0.0
        if lower[k] > 0.0 and branch == Branch.GLOBAL:
            for i in range(count):
                h[i, k] = other[i, k]
    _minimise(problem, h, work)  # minima already: this refills the work space


@njit(types.void(int64, MATRIX, NODES, MODES, SLICES, MATRIX))
def two_sector_row_sums(kind, powers, nodes, modes, slices, out):
    """Sums over nodes, mirror images in turn; ``powers`` are q, m, Sigma and Q of the other logits and of the own one.

    A hard label is summed over all its values, each with the probability that the target's softmax gives it, and has a
    warm point each. It depends on the logits of the target through these probabilities alone, so that de/dt is e times
    the score (U7).
    """
    label_nodes, free_nodes, weights, kept = nodes
    search, detail, warm_start, _, stein, rich = modes
    hard = modes.hard == 1
    length, first, last = slices
    n = label_nodes.shape[1]
    row, place = (n, LANES), np.arange(n).reshape(1, n)
    y, h, v, target, other, answer, ones = (
        np.zeros(row), np.zeros(row), np.zeros(row), np.zeros(row), np.zeros(row), np.zeros(row), np.zeros(row)
    )  # fmt: skip
    label, fresh, label_z, fresh_z = (
        np.zeros((2 * n, LANES)),
        np.zeros((2 * n, LANES)),
        np.zeros((1, LANES)),
        np.zeros((1, LANES)),
    )
    label_bits, fresh_bits, held = label.view(np.int64), fresh.view(np.int64), np.empty(n)
    work = _workspace(n)
    p, w, D, scale, sums_of, value, worst = work.p, work.w, work.inverse, work.scale, work.sums, work.value, work.worst
    solved, spread = work.move, work.trial
    problem = _Problem(kind, place, held, v, y)
    label_power, own_power, both, left = np.empty(n), np.empty(n), np.empty(n), np.zeros(3)
    values, control, spare = np.zeros((GROUPED_AVERAGES, LANES)), np.zeros((CONTROL_COUNT, LANES)), np.zeros(9 * LANES)
    means = np.empty((LANES // 2, CONTROL_COUNT + GROUPED_AVERAGES))
    chances, tilts, lower, largest, chance = (
        np.zeros(LANES), np.ones(LANES), np.zeros(LANES), np.zeros(LANES), np.ones(LANES)
    )  # fmt: skip
    overlap, distance = np.zeros(LANES), np.zeros(LANES)
    label_count = n if hard else 1
    for i in range(n):
        group = 1 if i == n - 1 else 0
        own_power[i], both[i], held[i] = powers[0, group], powers[1, group], 1.0 / powers[2, group]
        label_power[i] = powers[3, group]
    all_powers = (label_power, own_power, both)
    for part in range(first, last):
        sums = out[part]
        sums[:] = 0.0
        stop = min((part + 1) * length, weights.shape[0])
        for node in range(part * length, stop, LANES):
            for k in range(LANES):  # beyond the end is the last node without a weight
                chances[k] = weights[node + k] if node + k < stop else 0.0
                largest[k] = 0.0
            for i in range(n):
                root, slope = np.sqrt(label_power[i]), both[i] / label_power[i]
                free = np.sqrt(max(own_power[i] - slope * both[i], 0.0))
                for k in range(LANES):
                    target[i, k] = root * label_nodes[min(node + k, stop - 1), i]
                    v[i, k] = slope * target[i, k] + free * free_nodes[min(node + k, stop - 1), i]
            softmax_rows(target, place, label, label_bits, scale)
            log_normalisations(scale, 1, label_z)
            values[:] = 0.0
            control[:] = 0.0
            for choice in range(label_count):
                for k in range(LANES if hard else 0):
                    chance[k] = label[choice, k]
                for i in range(n):
                    chosen = 1.0 if i == choice else 0.0
                    for k in range(LANES):
                        y[i, k] = chosen if hard else label[i, k]
                        h[i, k] = v[i, k] if hard else target[i, k]
                    for k in range(LANES if warm_start == Start.WARM else 0):
                        h[i, k] = kept[min(node + k, stop - 1), n * choice + i]
                _minimise(problem, h, work)
                if search > 0 and not hard:
                    _search(problem, h, search, work, other, lower)
                for i in range(n):
                    for k in range(min(LANES, stop - node) if warm_start > Start.LABEL else 0):
                        kept[node + k, n * choice + i] = h[i, k]
                for k in range(LANES):
                    largest[k] = max(largest[k], worst[k])
                    work.hold[k] = 1.0
                    distance[k], overlap[k] = 0.0, 0.0
                for i in range(n):
                    group = 1 if i == n - 1 else 0
                    for k in range(LANES):
                        e = held[i] * (h[i, k] - v[i, k])
                        distance[k] += e * (h[i, k] - v[i, k])
                        values[3 + group, k] += chance[k] * e * e
                        values[5 + group, k] += chance[k] * e * target[i, k]
                        values[7 + group, k] += chance[k] * e * v[i, k]
                for k in range(LANES):
                    values[0, k] += chance[k] * (value[k] - 0.5 * distance[k])
                    values[1, k] += chance[k] * distance[k]
                    values[2, k] = lower[k]
                if detail == 0:
                    continue
                _factor(problem, work)
                if not hard:
                    for i in range(n):
                        for k in range(LANES):
                            overlap[k] += p[i, k] * y[i, k]
                    for i in range(n):
                        for k in range(LANES):
                            by_loss = 2.0 * p[i, k] * (y[i, k] - overlap[k])
                            answer[i, k] = y[i, k] if kind == CROSS_ENTROPY else by_loss
                            ones[i, k] = p[i, k]
                    _solve(p, w, D, sums_of, answer, solved)
                    _solve(p, w, D, sums_of, ones, spread)
                for i in range(n):
                    group = 1 if i == n - 1 else 0
                    for k in range(LANES):
                        x, z = p[i, k] * D[i, k], w[i, k] * D[i, k]
                        form = sums_of[5, k] * x * x + 2.0 * sums_of[6, k] * x * z + sums_of[7, k] * z * z
                        diagonal = D[i, k] - form
                        values[9 + group, k] += chance[k] * held[i] * (1.0 - held[i] * diagonal)
                        if hard:
                            response = (h[i, k] - v[i, k]) * (y[i, k] - label[i, k])
                        elif kind == CROSS_ENTROPY:
                            response = y[i, k] * (diagonal - solved[i, k])
                        else:
                            response = y[i, k] * (2.0 * p[i, k] * (diagonal - spread[i, k]) - solved[i, k])
                        values[11 + group, k] += chance[k] * held[i] * response
            softmax_rows(v, place, fresh, fresh_bits, scale)
            log_normalisations(scale, 1, fresh_z)
            row_controls_simd(
                0, place, (target, v), (label, fresh), all_powers, (label_z, fresh_z), left, rich, control, spare
            )
            if rich == 1:
                for i in range(n):
                    for k in range(LANES):
                        at = min(node + k, stop - 1)
                        t, own = label_nodes[at, i], free_nodes[at, i]
                        control[BASIC_CONTROLS, k] += t * t * t * t
                        control[BASIC_CONTROLS + 1, k] += t * t * t * own
                        control[BASIC_CONTROLS + 2, k] += t * t * own * own
                        control[BASIC_CONTROLS + 3, k] += t * own * own * own
                        control[BASIC_CONTROLS + 4, k] += own * own * own * own
            if stein == 1:
                for group in range(2):
                    q, m, Q = powers[0, group], powers[1, group], powers[3, group]
                    for k in range(LANES):
                        pull, response = values[9 + group, k], values[11 + group, k]
                        control[2 * group, k] = values[5 + group, k] - Q * response + m * pull
                        control[2 * group + 1, k] = values[7 + group, k] - m * response + q * pull
            add_mirror_pairs(sums, chances, tilts, largest, values, control, means)
