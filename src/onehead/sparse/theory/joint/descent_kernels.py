"""Compiled sums over the process of one sample in the dynamical mean-field theory of joint descent (J8, J9).

Arrays of the history are indexed (time, sample, ..., token), with the positive samples first. Response and memory
matrices are 2 x 2 blocks: index 0 is the query, index 1 the readout.
"""

import numpy as np
from numba import float64, int64, types

from onehead.numerics.jit import njit
from onehead.sparse.theory.joint.descent_samples import SampleHistory

_vector = types.Array(float64, 1, "C")
_matrix = types.Array(float64, 2, "C")
_cube = types.Array(float64, 3, "C")
_four = types.Array(float64, 4, "C")
_history = types.NamedTuple((_four, _cube, _cube, _matrix, _matrix), SampleHistory)


@njit(_vector(int64, int64, _cube, _matrix, _vector, _four, _history))
def attend(time, signal_tokens, normals, root, shift, response, history):
    """Compute the attention and the deviations G_l - ubar of every sample at ``time``; return ubar (J8).

    ``normals`` (n, 2 (k + 1), L) are shared by both classes, ``root`` (2, 2 (k + 1)) has the rows of this time of the
    root of the covariance, ``shift`` is theta m, ``response`` (k + 1, k + 1, 2, 2) is R/alpha.
    """
    force, att, deviation, _, _ = history
    points, _, length = normals.shape
    ubar = np.empty(2 * points)
    fields = np.empty((2, length))
    for n in range(2 * points):
        e = normals[n % points]
        for c in range(2):
            row = fields[c]
            row[:] = 0.0
            if n < points:
                row[:signal_tokens] = shift[c]
            for j in range(2 * time + 2):
                if root[c, j] != 0.0:
                    for x in range(length):
                        row[x] += root[c, j] * e[j, x]
            for s in range(time):
                for k in range(2):
                    factor = response[time, s, c, k]
                    if factor != 0.0:
                        for x in range(length):
                            row[x] += factor * force[s, n, k, x]
        largest = fields[0].max()
        total = 0.0
        mean = 0.0
        for x in range(length):
            weight = np.exp(fields[0, x] - largest)
            att[time, n, x] = weight
            total += weight
            mean += weight * fields[1, x]
        mean /= total
        for x in range(length):
            att[time, n, x] /= total
            deviation[time, n, x] = fields[1, x] - mean
        ubar[n] = mean
    return ubar


@njit
def _hessian_product(a, d, h, c, vector, out):
    """Write minus the Hessian of l by the fields of a sample, times a vector (2, L), to ``out`` (J2)."""
    du = 0.0
    mean = 0.0
    for x in range(a.size):
        du += a[x] * (d[x] * vector[0, x] + vector[1, x])
        mean += a[x] * vector[0, x]
    for x in range(a.size):
        da = a[x] * (vector[0, x] - mean)
        out[0, x] = -(c * du * a[x] * d[x] + h * (da * d[x] + a[x] * (vector[1, x] - du)))
        out[1, x] = -(c * du * a[x] + h * da)


@njit(types.void(int64, int64, _matrix, _four, _history, _matrix, _four, _four))
def correlations(time, first, weight, response, history, probe, gamma, memory):
    """Write the forces of ``time`` and add up Gamma[time, s] and K[time, s] for first <= s <= time (J9).

    The derivatives K[time, s] with s < time are found by one backward pass per component of the force, from a random
    sign per token (``probe``); K[time, time] is minus the exact block trace (J3).
    """
    force, att, deviation, h, c = history
    _, samples, length = att.shape
    adjoint = np.empty((time + 1, 2, length))
    vector = np.empty((2, length))
    for n in range(samples):
        share = weight[0, n]
        h_now, c_now = h[time, n], c[time, n]
        a, d = att[time, n], deviation[time, n]
        for x in range(length):
            force[time, n, 0, x] = -h_now * a[x] * d[x]
            force[time, n, 1, x] = -h_now * a[x]
        for s in range(time + 1):
            for i in range(2):
                for j in range(2):
                    total = 0.0
                    for x in range(length):
                        total += force[time, n, i, x] * force[s, n, j, x]
                    gamma[time, s, i, j] += share * total
        hh = hg = gg = 0.0
        for x in range(length):
            a_d = a[x] * d[x]
            hh += c_now * a_d * a_d + h_now * a_d * (1.0 - 2.0 * a[x])
            hg += c_now * a_d * a[x] + h_now * a[x] * (1.0 - a[x])
            gg += c_now * a[x] * a[x]
        memory[time, time, 0, 0] -= share * hh
        memory[time, time, 0, 1] -= share * hg
        memory[time, time, 1, 0] -= share * hg
        memory[time, time, 1, 1] -= share * gg
        sign = probe[n % probe.shape[0]]
        for i in range(2):
            vector[:] = 0.0
            vector[i] = sign
            _hessian_product(a, d, h_now, c_now, vector, adjoint[time])
            for s in range(time - 1, first - 1, -1):
                vector[:] = 0.0
                for u in range(s + 1, time + 1):
                    block = response[u, s]
                    for x in range(length):
                        vector[0, x] += block[0, 0] * adjoint[u, 0, x] + block[1, 0] * adjoint[u, 1, x]
                        vector[1, x] += block[0, 1] * adjoint[u, 0, x] + block[1, 1] * adjoint[u, 1, x]
                _hessian_product(att[s, n], deviation[s, n], h[s, n], c[s, n], vector, adjoint[s])
                for j in range(2):
                    total = 0.0
                    for x in range(length):
                        total += sign[x] * adjoint[s, j, x]
                    memory[time, s, i, j] += share * total
