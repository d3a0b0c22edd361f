"""Panels of nodes that are halved until they have their exact mass: what the laws found by subordination share."""

import numpy as np

from onehead.numerics.compiled import njit

__all__ = ["columns", "halve", "with_room"]


@njit(cache=True, nogil=True, error_model="numpy")
def with_room(nodes, used):  # type: ignore[no-untyped-def]
    """The same panels of nodes, with room for at least one more."""
    return np.concatenate((nodes, np.empty_like(nodes))) if used == nodes.shape[0] else nodes


@njit(cache=True, nogil=True, error_model="numpy")
def halve(stack, waiting, low, middle, high):  # type: ignore[no-untyped-def]
    """Put both halves of a panel on the stack, the lower one on top; return how many wait there."""
    stack[waiting, 0], stack[waiting, 1] = middle, high
    stack[waiting + 1, 0], stack[waiting + 1, 1] = low, middle
    return waiting + 2


@njit(cache=True, nogil=True, error_model="numpy")
def columns(nodes, used):  # type: ignore[no-untyped-def]
    """x, masses and Re g of the nodes of all panels."""
    flat = nodes[:used].copy().reshape((used * nodes.shape[1], nodes.shape[2]))
    return flat[:, 0].copy(), flat[:, 1].copy(), flat[:, 2].copy()
