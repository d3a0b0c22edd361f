"""Operations on many quadrature nodes side by side, in loops that the compiler turns into vector instructions.

Arrays have a column for each of `LANES` nodes. Innermost loops run over this constant number of columns, and indices
that the compiler cannot see to be positive stay out of them. Of fewer nodes it unrolls the loops before it could make
vector instructions of them.
"""

from typing import Any

import numpy as np

from onehead.numerics.jit import njit
from onehead.numerics.newton import ARMIJO, FLAT, LAST_STEP, MAX_NEWTON, ROUNDING, SHORTEST, SLACK

LANES = 64
LEAST = -700.0  # e to the power of less is nothing, and must not be rounded to a number that is not normal
LOG2E, LN2_HIGH, LN2_LOW = 1.4426950408889634, 0.693147180369123816490, 1.90821492927058770002e-10
MAGIC = 1.5 * 2.0**52  # added to a number it leaves the nearest integer in the last bits


@njit
def exponentials(x, bits, count):
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


@njit
def softmax_rows(h, place, p, bits, scale):
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


@njit
def log_normalisations(scale, rows, log_z):
    """Fill log Z of every row from what `softmax_rows` left."""
    for a in range(rows):
        for k in range(LANES):
            log_z[a, k] = scale[2 * a, k] - np.log(scale[2 * a + 1, k])


def newton_side_by_side(objective: Any, fill_steps: Any) -> Any:
    """Make a compiled function ``minimise(problem, h, work)``: `onehead.numerics.newton` for many nodes side by side.

    All nodes take their steps together; those at their minimum wait. ``work`` has the arrays gradient, move and trial
    of the shape of ``h``, and for every node value, new, slope, size, length, regular, waits and worst.

    Parameters
    ----------
    objective : compiled function (problem, h, work)
        Fills ``new`` with the objective at h, and the gradient.
    fill_steps : compiled function (problem, h, work)
        Fills move, slope, size and regular of the nodes that do not wait.
    """

    @njit(cache=False)  # compiled into the functions that call it, and cached with them
    def minimise(problem, h, work):
        """Move every node of ``h`` to the minimum that Newton's method reaches from it; what is left belongs to these
        points.
        """
        gradient, move, trial, value, new, slope, size, length, regular, waits, worst = (
            work.gradient, work.move, work.trial, work.value, work.new, work.slope, work.size, work.length,
            work.regular, work.waits, work.worst,
        )  # fmt: skip
        count = h.shape[0]
        steady = np.zeros(LANES)
        objective(problem, h, work)
        for k in range(LANES):
            value[k], waits[k], length[k] = new[k], 0.0, 1.0
        move[:] = 0.0
        for _ in range(MAX_NEWTON):
            was_regular = regular.copy()
            fill_steps(problem, h, work)
            for k in range(LANES):  # of those that wait for a shorter step the Hessian was another one
                regular[k] = was_regular[k] if waits[k] > 0.0 else regular[k]
                length[k] = 0.0 if steady[k] > 0.0 else length[k]
            for i in range(count):
                at = i
                for k in range(LANES):
                    trial[at, k] = h[at, k] + length[k] * move[at, k]
            objective(problem, trial, work)
            for k in range(LANES):
                worst[k] = 0.0
            for i in range(count):
                at = i
                for k in range(LANES):
                    worst[k] = max(worst[k], abs(gradient[at, k]))
            left = 0.0
            for k in range(LANES):
                if steady[k] > 0.0:
                    continue
                allowed = value[k] + SLACK * (1.0 + abs(value[k])) + ARMIJO * length[k] * slope[k]
                if new[k] <= allowed or length[k] < SHORTEST:
                    waits[k], value[k] = 0.0, new[k]
                    flat = size[k] < LAST_STEP and (worst[k] < FLAT or size[k] < ROUNDING)
                    if length[k] < SHORTEST or (regular[k] > 0.0 and length[k] == 1.0 and flat):
                        steady[k], waits[k] = 1.0, 1.0
                    for i in range(count):
                        h[i, k] = trial[i, k]
                    length[k] = 1.0
                else:
                    waits[k], length[k] = 1.0, 0.5 * length[k]
                left += 1.0 - steady[k]
            if left == 0.0:
                break

    return minimise
