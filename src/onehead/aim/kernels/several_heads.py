"""Compiled proximal operator and sums over nodes for several heads that add to one output (M2, M7).

A row has the logits of all heads in orthonormal contrasts of its columns, T - 1 numbers for each head. With attention
A_h = softmax of head h, labels A*_h and the scales B of the values (the identity where values are fixed) the loss is

    sum_b r_b' G r_b,     r_b = B A_b - A*_b,

with the Gram matrix G of the values. G and B are alike in all heads: each is given by two numbers, for the mean of the
heads and for differences between heads.

The numbers of heads and of columns are the lengths of the two entries of ``sizes``. The length of a tuple is known when
the kernel is compiled, which halves the time of two heads with two columns; that of an array is not, and one compiled
kernel serves all other layers.
"""

from typing import Any

import numpy as np

from onehead.numerics.cholesky import factorise, invert_factored, saddle_free, solve_factored
from onehead.numerics.jit import njit
from onehead.numerics.newton import is_lower, newton_on_vectors

# where Newton's method starts: at the label, at the label and at the learner's logits, at the last proximal point
FROM_LABEL, FROM_BOTH, WARM = 0, 1, 2

# sums over nodes: loss; weight of nodes with two minima; e², e w, e z, tr K, tr of the response for the mean of the
# heads and for the differences; |K|² between them; attention times label and attention squared for both
SUMS = 19


COMPILED_SIZES = (2, 2)  # heads and columns of the kernel that is compiled for its sizes


def sizes_of(heads: int, columns: int) -> tuple[Any, Any]:
    """Objects with these lengths: tuples for `COMPILED_SIZES`, arrays for all others."""
    if (heads, columns) == COMPILED_SIZES:
        return (0,) * heads, (0,) * columns
    return np.zeros(heads), np.zeros(columns)


@njit
def _attention(sizes, basis, x, p):
    """Softmax of every head: ``p`` (heads, columns) from contrasts ``x`` (heads * contrasts)."""
    heads, columns = len(sizes[0]), len(sizes[1])
    contrasts = columns - 1
    for h in range(heads):
        largest = -np.inf
        for b in range(columns):
            total = 0.0
            for k in range(contrasts):
                total += basis[b, k] * x[h * contrasts + k]
            p[h, b] = total
            largest = max(largest, total)
        normaliser = 0.0
        for b in range(columns):
            p[h, b] = np.exp(p[h, b] - largest)
            normaliser += p[h, b]
        for b in range(columns):
            p[h, b] /= normaliser


@njit
def _slopes(sizes, basis, p, slopes):
    """Derivatives of the attention in the contrasts: ``slopes`` (heads, contrasts, columns)."""
    heads, columns = len(sizes[0]), len(sizes[1])
    contrasts = columns - 1
    for h in range(heads):
        for k in range(contrasts):
            mean = 0.0
            for b in range(columns):
                mean += p[h, b] * basis[b, k]
            for b in range(columns):
                slopes[h, k, b] = p[h, b] * (basis[b, k] - mean)


@njit
def _objective(problem, x, work):
    """Proximal objective in a tuple; fills its gradient and its Hessian."""
    sizes, basis, v, y, gains, scales, precisions = problem
    gradient, _, _, hessian, _, p, slopes, residual, force, loss_gradient = work
    heads, columns = len(sizes[0]), len(sizes[1])
    contrasts = columns - 1
    _attention(sizes, basis, x, p)
    _slopes(sizes, basis, p, slopes)
    between = (scales[0] - scales[1]) / heads
    gram = (gains[0] - gains[1]) / heads
    own_force = 2.0 * scales[1] * gains[1]
    common_force = 2.0 * (scales[0] * gains[0] - scales[1] * gains[1]) / heads
    value = 0.0
    for b in range(columns):
        total = 0.0
        for h in range(heads):
            total += p[h, b]
        summed = 0.0
        for h in range(heads):
            r = scales[1] * p[h, b] + between * total - y[h, b]
            residual[h] = r
            summed += r
            value += gains[1] * r * r
        value += gram * summed * summed
        for h in range(heads):
            force[h, b] = own_force * residual[h] + common_force * summed
    own = 2.0 * gains[1] * scales[1] ** 2
    common = 2.0 * (gains[0] * scales[0] ** 2 - gains[1] * scales[1] ** 2) / heads
    own_precision, common_precision = precisions[1], (precisions[0] - precisions[1]) / heads
    for h in range(heads):
        mean_force = 0.0
        for b in range(columns):
            mean_force += p[h, b] * force[h, b]
        for k in range(contrasts):
            i = h * contrasts + k
            total = 0.0
            for b in range(columns):
                total += slopes[h, k, b] * force[h, b]
            loss_gradient[i] = total
            pull = own_precision * (x[i] - v[i])
            for g in range(heads):
                j = g * contrasts + k
                pull += common_precision * (x[j] - v[j])
            gradient[i] = total + pull
            value += 0.5 * pull * (x[i] - v[i])
            for g in range(h + 1):
                weight = common + (own if g == h else 0.0)
                for m in range(contrasts):
                    j = g * contrasts + m
                    curvature = 0.0
                    for b in range(columns):
                        curvature += slopes[h, k, b] * slopes[g, m, b]
                    curvature *= weight
                    if g == h:
                        # second derivative of the softmax, for the force on its columns
                        for b in range(columns):
                            curvature += (force[h, b] - mean_force) * slopes[h, k, b] * basis[b, m]
                        mean = 0.0
                        for b in range(columns):
                            mean += p[h, b] * basis[b, m]
                        curvature -= total * mean
                    if k == m:
                        curvature += common_precision + (own_precision if g == h else 0.0)
                    hessian[i, j] = curvature
                    hessian[j, i] = curvature
    return (value,)


@njit
def _newton_step(problem, x, state, work):
    """Newton's step where the Hessian is positive definite, else one that leads downhill."""
    gradient, move, _, hessian, factor = work[:5]
    n = len(problem[0][0]) * (len(problem[0][1]) - 1)
    regular = factorise(hessian, factor)
    if regular:
        for i in range(n):
            move[i] = -gradient[i]
        solve_factored(factor, move)
    else:
        saddle_free(hessian, gradient, move)
    slope, size, largest = 0.0, 0.0, 1.0
    for i in range(n):
        slope += gradient[i] * move[i]
        size = max(size, abs(move[i]))
        largest = max(largest, abs(x[i]))
    return move, slope, size / largest, regular


_minimise = newton_on_vectors(_objective, _newton_step)


@njit
def _add_classes(sums, place, weight, left, right, sizes):
    """Add the product of two vectors over the heads, for the mean of the heads and for all differences."""
    heads, contrasts = len(sizes[0]), len(sizes[1]) - 1
    whole, mean = 0.0, 0.0
    for k in range(contrasts):
        a, b = 0.0, 0.0
        for h in range(heads):
            i = h * contrasts + k
            whole += left[i] * right[i]
            a += left[i]
            b += right[i]
        mean += a * b / heads
    sums[place] += weight * mean
    sums[place + 1] += weight * (whole - mean)


@njit
def _add_derivatives(sums, weight, problem, work, p_star, spare):
    """Add tr K and |K|², K = (1 + Hess Sigma)^-1 Hess, and the response to the labels, for both kinds of modes."""
    sizes, basis, _, _, gains, scales, precisions = problem
    hessian, factor, slopes = work[3], work[4], work[6]
    inverse, kernel, half, star = spare
    heads, columns = len(sizes[0]), len(sizes[1])
    contrasts = columns - 1
    n = heads * contrasts
    if not factorise(hessian, factor):
        return
    invert_factored(factor, inverse)
    _slopes(sizes, basis, p_star, star)
    own, common = precisions[1], (precisions[0] - precisions[1]) / heads
    # kernel = P - P A^-1 P with the prior precision P and the Hessian A of the proximal objective
    for i in range(n):
        for k in range(contrasts):
            column = 0.0
            for g in range(heads):
                column += inverse[i, g * contrasts + k]
            for h in range(heads):
                j = h * contrasts + k
                half[i, j] = own * inverse[i, j] + common * column
    for j in range(n):
        for k in range(contrasts):
            column = 0.0
            for g in range(heads):
                column += half[g * contrasts + k, j]
            for h in range(heads):
                i = h * contrasts + k
                kernel[i, j] = -(own * half[i, j] + common * column)
                if i % contrasts == j % contrasts:
                    kernel[i, j] += common + (own if i == j else 0.0)
    trace, square = 0.0, 0.0
    for i in range(n):
        trace += kernel[i, i]
        for j in range(n):
            square += kernel[i, j] ** 2
    mean_trace, mean_square, corner = 0.0, 0.0, 0.0
    for k in range(contrasts):
        for m in range(contrasts):
            both = 0.0
            for g in range(heads):
                row = 0.0
                for h in range(heads):
                    row += kernel[h * contrasts + k, g * contrasts + m]
                mean_square += row * row / heads
                both += row
            corner += (both / heads) ** 2
            if k == m:
                mean_trace += both / heads
    sums[8] += weight * mean_trace
    sums[9] += weight * (trace - mean_trace)
    sums[12] += weight * corner
    sums[13] += weight * (mean_square - corner)
    sums[14] += weight * (square - 2.0 * mean_square + corner)
    # response of the gradient to the label logits, then P A^-1 times it
    alone = 2.0 * scales[1] * gains[1]
    shared = 2.0 * (scales[0] * gains[0] - scales[1] * gains[1]) / heads
    for h in range(heads):
        for k in range(contrasts):
            for g in range(heads):
                for m in range(contrasts):
                    total = 0.0
                    for b in range(columns):
                        total += slopes[h, k, b] * star[g, m, b]
                    half[h * contrasts + k, g * contrasts + m] = total * (shared + (alone if g == h else 0.0))
    whole, mean = 0.0, 0.0
    for i in range(n):
        for k in range(contrasts):
            total = 0.0
            for g in range(heads):
                value = 0.0
                for j in range(n):
                    value += inverse[i, j] * half[j, g * contrasts + k]
                total += value
                if i == g * contrasts + k:
                    whole += value
            if i % contrasts == k:
                mean += total / heads
    sums[10] += weight * precisions[0] * mean
    sums[11] += weight * precisions[1] * (whole - mean)


@njit
def several_heads_sums(nodes, sizes, modes, basis, state, start, derivatives, points, slices, out):
    """Add up the averages of a slice of the nodes.

    Parameters
    ----------
    nodes : tuple
        Nodes of the label and of the rest, (count, heads * contrasts) in head modes, and their weights.
    sizes : tuple
        `sizes_of` the numbers of heads and of columns.
    modes : array (heads, heads)
        Orthonormal modes of the heads, the first of which is the mean.
    basis : array (columns, contrasts)
        Orthonormal contrasts of the columns.
    state : array (6, 2)
        For the mean of the heads and for the differences: standard deviation of the label, slope of the learner's
        logits on it, their standard deviation beside it, Sigma, gain, scale of the values.
    start : int
        Where Newton's method starts.
    derivatives : bool
        Whether to add derivatives.
    points : array (count, heads * contrasts)
        Proximal points, from which a warm start begins; overwritten.
    slices : tuple
        First and last node.
    out : array (SUMS,)
        The sums; overwritten.
    """
    label_nodes, rest_nodes, weights = nodes
    heads, columns = len(sizes[0]), len(sizes[1])
    contrasts = columns - 1
    n = heads * contrasts
    gains, scales, precisions = state[4], state[5], 1.0 / state[3]
    p, y, p_star = np.empty((heads, columns)), np.empty((heads, columns)), np.empty((heads, columns))
    slopes, force = np.empty((heads, contrasts, columns)), np.empty((heads, columns))
    work = (
        np.empty(n), np.empty(n), np.empty(n), np.empty((n, n)), np.empty((n, n)),
        p, slopes, np.empty(heads), force, np.empty(n),
    )  # fmt: skip
    spare = (np.empty((n, n)), np.empty((n, n)), np.empty((n, n)), np.empty((heads, contrasts, columns)))
    target, v, z, w, other, e = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    problem = (sizes, basis, v, y, gains, scales, precisions)
    out[:] = 0.0
    for node in range(slices[0], slices[1]):
        weight, x = weights[node], points[node]
        for h in range(heads):
            for k in range(contrasts):
                i = h * contrasts + k
                target[i], v[i], z[i], w[i] = 0.0, 0.0, 0.0, 0.0
                for c in range(heads):
                    kind, j, part = min(c, 1), c * contrasts + k, modes[c, h]
                    label = state[0, kind] * label_nodes[node, j]
                    target[i] += part * label
                    v[i] += part * (state[1, kind] * label + state[2, kind] * rest_nodes[node, j])
                    z[i] += part * label_nodes[node, j]
                    w[i] += part * rest_nodes[node, j]
        _attention(sizes, basis, target, y)
        p_star[:] = y
        if start != WARM:
            x[:] = target
        _, (value,) = _minimise(problem, x, work)
        if start == FROM_BOTH:
            other[:] = v
            _, (second,) = _minimise(problem, other, work)
            gap = 0.0
            for i in range(n):
                gap = max(gap, abs(other[i] - x[i]))
            if gap > 1e-3:
                out[1] += weight
            if is_lower(second, value):
                x[:] = other
            (value,) = _objective(problem, x, work)
        distance = 0.0
        for i in range(n):
            e[i] = -work[9][i]
            distance += 0.5 * e[i] * (x[i] - v[i])  # at a minimum x - v = Sigma e
        out[0] += weight * (value - distance)
        _add_classes(out, 2, weight, e, e, sizes)
        _add_classes(out, 4, weight, e, w, sizes)
        _add_classes(out, 6, weight, e, z, sizes)
        for b in range(columns):
            own, cross, total, label = 0.0, 0.0, 0.0, 0.0
            for h in range(heads):
                own += p[h, b] ** 2
                cross += p[h, b] * y[h, b]
                total += p[h, b]
                label += y[h, b]
            out[15] += weight * total * label / heads
            out[16] += weight * (cross - total * label / heads)
            out[17] += weight * total * total / heads
            out[18] += weight * (own - total * total / heads)
        if derivatives:
            _add_derivatives(out, weight, problem, work, p_star, spare)
