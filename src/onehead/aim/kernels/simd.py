"""Operations on many quadrature nodes side by side, in loops that the compiler turns into vector instructions.

Arrays have a column for each of `LANES` nodes. Innermost loops run over this constant number of columns, and indices
that the compiler cannot see to be positive stay out of them. Of fewer nodes it unrolls the loops before it could make
vector instructions of them.
"""

import numpy as np

from onehead.numerics.jit import njit

__all__ = [
    "LANES",
    "LEAST",
    "LN2_HIGH",
    "LN2_LOW",
    "LOG2E",
    "MAGIC",
    "exponentials",
    "log_normalisations",
    "softmax_rows",
]

LANES = 64
LEAST = -700.0  # e to the power of less is nothing, and must not be rounded to a number that is not normal
LOG2E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.693147180369123816490, 1.90821492927058770002e-10
MAGIC = 1.5 * 2.0**52  # added to a number it leaves the nearest integer in the last bits


@njit(cache=True, nogil=True, error_model="numpy")
def exponentials(x, bits, count):  # type: ignore[no-untyped-def]
    """Replace the numbers of the first ``count`` rows, none above zero, by their exponentials: 2^n times a power
    series.

    The next ``count`` rows are overwritten; ``bits`` is the array seen as integers.
    """
    for i in range(count):
        spare = count + i
        for k in range(LANES):
            y = max(x[i, k], LEAST)
            shifted = y * LOG2E + MAGIC
            n = shifted - MAGIC
            r = (y - n * LN2_HIGH) - n * LN2_LOW
            x[i, k] = 1 + r * (1 + r * (1 / 2 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720 + r * (
                1 / 5040 + r * (1 / 40320 + r * (1 / 362880 + r * (1 / 3628800 + r * (1 / 39916800 + r * (
                    1 / 479001600))))))))))))  # fmt: skip
            x[spare, k] = shifted
    for i in range(count):
        spare = count + i
        for k in range(LANES):
            bits[i, k] += bits[spare, k] << 52


@njit(cache=True, nogil=True, error_model="numpy")
def softmax_rows(h, place, p, bits, scale):  # type: ignore[no-untyped-def]
    """Fill the softmax ``p`` of every row.

    Parameters
    ----------
    h : array
        Logits; that of row a in column b is number ``place[a, b]``.
    place : array of int, shape (rows, width)
    p, bits : array
        Room for twice the numbers of all rows, and the same array seen as integers.
    scale : array
        Two numbers for each row: its largest logit, and the largest probability.
    """
    rows, width = place.shape
    for a in range(rows):
        top = 2 * a
        i = place[a, 0]
        for k in range(LANES):
            scale[top, k] = h[i, k]
        for b in range(1, width):
            i = place[a, b]
            for k in range(LANES):
                scale[top, k] = max(scale[top, k], h[i, k])
        for b in range(width):
            i, ab = place[a, b], a * width + b
            for k in range(LANES):
                p[ab, k] = h[i, k] - scale[top, k]
    exponentials(p, bits, rows * width)
    for a in range(rows):
        share = 2 * a + 1
        for k in range(LANES):
            scale[share, k] = 0.0
        for b in range(width):
            ab = a * width + b
            for k in range(LANES):
                scale[share, k] += p[ab, k]
        for k in range(LANES):
            scale[share, k] = 1.0 / scale[share, k]
        for b in range(width):
            ab = a * width + b
            for k in range(LANES):
                p[ab, k] *= scale[share, k]


@njit(cache=True, nogil=True, error_model="numpy")
def log_normalisations(scale, rows, log_z):  # type: ignore[no-untyped-def]
    """Fill log Z of every row from what `softmax_rows` left."""
    for a in range(rows):
        for k in range(LANES):
            log_z[a, k] = scale[2 * a, k] - np.log(scale[2 * a + 1, k])
