"""Scrambled Sobol nets, the very numbers of scipy.stats.qmc, which takes longer to load than most answers take."""

from functools import cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

__all__ = ["BITS", "net"]

BITS = 30  # of a coordinate
NUMBERS = "_sobol_direction_numbers.npz"  # those of Joe and Kuo, as scipy keeps them

Whole = NDArray[np.uint32]


def net(dim: int, log2_points: int, seed: int | list[int]) -> Whole:
    """2^log2_points points of a net under a random linear scrambling and a digital shift, as whole numbers below 2^BITS.

    Examples
    --------
    >>> sorted((net(1, 2, seed=0)[:, 0] >> (BITS - 2)).tolist())
    [0, 1, 2, 3]
    """
    rng = np.random.default_rng(seed)
    if _numbers() is None:  # kept elsewhere by now
        from scipy.stats import qmc  # noqa: PLC0415

        cube = qmc.Sobol(dim, scramble=True, bits=BITS, rng=rng).random_base2(log2_points)
        return np.asarray(cube * 2.0**BITS, dtype=np.uint32)
    (rng,) = rng.spawn(1)
    places = 2 ** np.arange(BITS, dtype=np.uint32)
    shift = rng.integers(2, size=(dim, BITS), dtype=np.uint32) @ places
    mixing = np.tril(rng.integers(2, size=(dim, BITS, BITS), dtype=np.uint32), -1) + np.eye(BITS, dtype=np.uint32)
    directions = _scrambled(_directions(dim), mixing)
    points = np.empty((2**log2_points, dim), dtype=np.uint32)
    points[0] = shift
    # in the order of Gray's code the second half is the first one backwards, with one more bit
    for j in range(log2_points):
        points[2**j : 2 ** (j + 1)] = points[2**j - 1 :: -1][: 2**j] ^ directions[:, j]
    return points


@cache
def _numbers() -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Polynomials and first direction numbers of every coordinate."""
    import scipy  # noqa: PLC0415  (loaded when first needed)

    try:
        with np.load(Path(scipy.__file__).parent / "stats" / NUMBERS, allow_pickle=False) as kept:
            return kept["poly"], kept["vinit"]
    except (OSError, KeyError, BadZipFile):
        return None


@cache
def _directions(dim: int) -> Whole:
    """Direction numbers of every coordinate, a row each: m_j 2^(BITS - 1 - j), m_j by the recurrence of its polynomial."""
    found = _numbers()
    assert found is not None
    polynomials, first = (column[:dim] for column in found)
    degrees = np.frexp(polynomials.astype(float))[1] - 1
    m = np.ones((dim, BITS), dtype=np.int64)
    for degree in sorted(set(degrees[1:].tolist())):
        same = np.flatnonzero(degrees == degree)
        same = same[same > 0]  # the first coordinate counts backwards, bit by bit
        m[same, :degree] = first[same, :degree]
        for j in range(degree, BITS):
            value = m[same, j - degree]
            for k in range(1, degree + 1):
                taken = (polynomials[same] >> (degree - k)) & 1
                value = value ^ (taken * m[same, j - k] << k)
            m[same, j] = value
    return np.asarray(m << np.arange(BITS - 1, -1, -1), dtype=np.uint32)


def _scrambled(directions: Whole, mixing: Whole) -> Whole:
    """Direction numbers whose bits, the largest first, are multiplied by a triangular matrix."""
    falling = np.arange(BITS - 1, -1, -1, dtype=np.uint32)
    bits = (directions[:, :, None] >> falling) & 1
    mixed = np.matmul(bits, mixing.transpose(0, 2, 1)) & 1
    return np.asarray(mixed @ (np.uint32(1) << falling), dtype=np.uint32)
