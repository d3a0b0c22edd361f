"""Figures of training time and of several heads."""

from typing import TYPE_CHECKING

import numpy as np

from onehead.plot._axes import resolve_axes
from onehead.plot.style import GREY, THEORY, TRAINING, finish_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.aim.training.descent import GradientDescent
    from onehead.aim.verbs.training_time import FiniteTimeSpectrum

CURVE_POINTS = 300
LOWEST = 1e-15  # singular values below it, relative to the largest, are rounding errors in training


def fading(
    found: "FiniteTimeSpectrum", *, trained: "GradientDescent | None" = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw the singular values after a finite time of gradient descent by rank, on a logarithmic axis.

    Parameters
    ----------
    found : FiniteTimeSpectrum
        Result of `onehead.aim.training_time`.
    trained : GradientDescent, optional
        Result of `onehead.aim.gradient_descent`; singular values at the time nearest to that of ``found`` are points.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes.

    Examples
    --------
    >>> from onehead import aim, plot
    >>> point = aim.predict(aim.Task(attention="cross"), aim.Learner(weight_decay=0.3), 1.0)
    >>> plot.fading(aim.training_time(point, 9.0)).get_yscale()
    'log'
    """
    axes = resolve_axes(ax)
    shares = (np.arange(CURVE_POINTS) + 0.5) / CURVE_POINTS
    values = np.maximum(found.quantiles(CURVE_POINTS), LOWEST * found.largest)
    axes.plot(shares, values, color=THEORY, label=f"λt = {found.time:g}")
    if trained is not None:
        nearest = int(np.argmin(np.abs(np.array(trained.times) - found.time)))
        places = (np.arange(trained.dim) + 0.5) / trained.dim
        points = np.maximum(trained.values[nearest], LOWEST * found.largest)
        axes.plot(places, points, "o", ms=3.0, color=TRAINING, label=f"gradient descent, d = {trained.dim}")
    axes.axhline(found.cut, color=GREY, lw=0.8, ls=":")
    axes.axvline(found.rank, color=GREY, lw=0.8, ls="--")
    axes.annotate("rank at the minimum", (found.rank, found.largest), textcoords="offset points", xytext=(4, -4))
    axes.annotate(f"cut {found.cut:g}", (0.0, found.cut), textcoords="offset points", xytext=(2, 3))
    axes.set_yscale("log")
    finish_axes(axes, "share of singular values above", "singular value")
    return axes
