"""Figures of results, drawn with matplotlib.

Every function takes results and axes, computes nothing, and returns the axes.
"""

from onehead.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__, old_names={"course": "trajectory"})
