"""Scrambled Sobol nets, bit for bit those of scipy.stats.qmc, whose import takes longer than most predictions."""

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

BITS = 30  # of a coordinate
TABLE_FILE = Path(__file__).with_name("sobol_table.npz")  # of Joe and Kuo, for the first coordinates
TABLE_COORDINATES = 2048

Integers = NDArray[np.uint32]


def scrambled_net(dim: int, log2_points: int, seed: int | list[int]) -> Integers:
    """Return 2^log2_points points of a Sobol net, randomly scrambled and shifted, as integers below 2^BITS.

    Examples
    --------
    >>> sorted((scrambled_net(1, 2, seed=0)[:, 0] >> (BITS - 2)).tolist())
    [0, 1, 2, 3]
    """
    rng = np.random.default_rng(seed)
    if dim > TABLE_COORDINATES:
        from scipy.stats import qmc

        cube = qmc.Sobol(dim, scramble=True, bits=BITS, rng=rng).random_base2(log2_points)
        return np.asarray(cube * 2.0**BITS, dtype=np.uint32)
    (rng,) = rng.spawn(1)
    powers = 2 ** np.arange(BITS, dtype=np.uint32)
    shift = rng.integers(2, size=(dim, BITS), dtype=np.uint32) @ powers
    mixing = np.tril(rng.integers(2, size=(dim, BITS, BITS), dtype=np.uint32), -1) + np.eye(BITS, dtype=np.uint32)
    directions = _scrambled(_directions(dim), mixing)
    points = np.empty((2**log2_points, dim), dtype=np.uint32)
    points[0] = shift
    # in Gray code order the second half is the first half reversed, with one more bit set
    for j in range(log2_points):
        points[2**j : 2 ** (j + 1)] = points[2**j - 1 :: -1][: 2**j] ^ directions[:, j]
    return points


@cache
def _directions(dim: int) -> Integers:
    """Return direction numbers m_j 2^(BITS - 1 - j), one row per coordinate, by the recurrences of the polynomials."""
    with np.load(TABLE_FILE, allow_pickle=False) as table:
        polynomials, initial = (table[name][:dim].astype(np.int64) for name in ("polynomials", "initial"))
    degrees = np.frexp(polynomials.astype(float))[1] - 1
    m = np.ones((dim, BITS), dtype=np.int64)
    for degree in sorted(set(degrees[1:].tolist())):
        same = np.flatnonzero(degrees == degree)
        same = same[same > 0]  # the first coordinate is the van der Corput sequence, with m_j = 1
        m[same, :degree] = initial[same, :degree]
        for j in range(degree, BITS):
            value = m[same, j - degree]
            for k in range(1, degree + 1):
                coefficient = (polynomials[same] >> (degree - k)) & 1
                value = value ^ (coefficient * m[same, j - k] << k)
            m[same, j] = value
    return np.asarray(m << np.arange(BITS - 1, -1, -1), dtype=np.uint32)


def _scrambled(directions: Integers, mixing: Integers) -> Integers:
    """Multiply the bits of direction numbers, the most significant first, by lower triangular matrices."""
    bit_positions = np.arange(BITS - 1, -1, -1, dtype=np.uint32)
    bits = (directions[:, :, None] >> bit_positions) & 1
    mixed = np.matmul(bits, mixing.transpose(0, 2, 1)) & 1
    return np.asarray(mixed @ (np.uint32(1) << bit_positions), dtype=np.uint32)
