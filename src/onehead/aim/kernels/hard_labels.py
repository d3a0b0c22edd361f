"""Compiled sums over quadrature nodes for hard labels: one token per row, drawn from the target's softmax (U7)."""

import math

from onehead.numerics.jit import njit

# hard labels of rows that share logits which are all summed over, those of two tokens; of more one is drawn (L7.2)
MAX_ENUMERATED_LABELS = 4


@njit
def draw(choice, weight, p, select, y, score):
    """Fill the label ``y`` of this number, and its score in every coordinate; return the weight times its probability.

    Choices are counted in the base of the width: the label of the first row is the last digit.
    """
    rows, width = select.shape
    score[:] = 0.0
    for a in range(rows):
        chosen, choice = choice % width, choice // width
        weight *= p[a, chosen]
        for b in range(width):
            y[a, b] = 1.0 if b == chosen else 0.0
            if select[a, b] >= 0:
                score[select[a, b]] += y[a, b] - p[a, b]
    return weight


@njit
def draw_rows(chances, normals, y):
    """Fill ``y`` with one token for every row, that which a standard normal says (L7.2)."""
    for a in range(chances.shape[0]):
        left, chosen = 0.5 * math.erfc(-normals[a] / math.sqrt(2.0)), 0
        while chosen < chances.shape[1] - 1 and left >= chances[a, chosen]:
            left -= chances[a, chosen]
            chosen += 1
        for b in range(chances.shape[1]):
            y[a, b] = 1.0 if b == chosen else 0.0
