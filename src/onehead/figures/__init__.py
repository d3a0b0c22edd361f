"""Figures of the two papers and further ones, each in a module of its own that computes nothing itself.

A figure requests its numbers from a `DataSource`, which runs sweeps into one store, and draws them. Figures of the
first paper are in `aim`, those of the second in `sparse`, further ones in `own`; plotting functions for users belong
to `onehead.plot`.
"""

from onehead.figures.make import make
from onehead.figures.registry import NAMES, Figure, figure_named, figures

__all__ = ["NAMES", "Figure", "figure_named", "figures", "make"]
