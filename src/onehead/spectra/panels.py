"""Storage of panels of quadrature nodes, which laws found by subordination halve until each has its exact mass."""

import numpy as np

from onehead.numerics.jit import njit


@njit
def grow_if_full(nodes, used):  # type: ignore[no-untyped-def]
    """Return the array of panels with space for at least one more panel, doubled if it was full."""
    return np.concatenate((nodes, np.empty_like(nodes))) if used == nodes.shape[0] else nodes


@njit
def push_halves(stack, height, low, middle, high):  # type: ignore[no-untyped-def]
    """Push both halves of a panel onto a stack, the lower half on top, and return the new height of the stack."""
    stack[height, 0], stack[height, 1] = middle, high
    stack[height + 1, 0], stack[height + 1, 1] = low, middle
    return height + 2


@njit
def flatten_nodes(nodes, used):  # type: ignore[no-untyped-def]
    """Return x, mass and Re g of the nodes of all panels as flat arrays."""
    flat = nodes[:used].copy().reshape((used * nodes.shape[1], nodes.shape[2]))
    return flat[:, 0].copy(), flat[:, 1].copy(), flat[:, 2].copy()
