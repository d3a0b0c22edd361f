"""Every figure of the two papers and our own, theory and training, one module each.

A module asks its `Lab` for numbers, which come through sweeps into one store, and draws them; it computes nothing itself.
"""

from onehead.figures.make import make
from onehead.figures.registry import NAMES, Figure, figure_named, figures

__all__ = ["NAMES", "Figure", "figure_named", "figures", "make"]
