"""Figures of sparse tokens whose query and readout are trained together."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from onehead.plot._axes import resolve_axes
from onehead.plot.style import ACCENT, THEORY, TRAINING, finish_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.sparse import Descent


def descent(
    results: "Sequence[Descent]",
    ax: "Axes | None" = None,
    *,
    runs: "Sequence[Sequence[float]] | None" = None,
    labels: Sequence[str] | None = None,
) -> "Axes":
    """Draw the test error after every step of joint descent, with a ring at the step at which to stop.

    A single result is drawn with its training error as well.

    Parameters
    ----------
    results : sequence of Descent
        Results of `onehead.sparse.descend`.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    runs : sequence of sequences of float, optional
        Measured test errors of the first result: one sequence of errors after step 1, 2, ... per run. Means are drawn
        as markers with standard errors.
    labels : sequence of str, optional
        Labels of the results in the legend.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes.

    Examples
    --------
    >>> from onehead import plot, sparse
    >>> plan = sparse.Protocol(beta=1.0, eta_b=3.0, ridge=0.1)
    >>> plot.descent([sparse.descend(sparse.Task(), plan, steps=3)]).get_xlabel()
    'step'
    """
    axes = resolve_axes(ax)
    shades = np.linspace(1.0, 0.35, len(results))
    for index, (result, shade) in enumerate(zip(results, shades, strict=True)):
        steps = [step.step for step in result.steps]
        label = labels[index] if labels is not None else "test error"
        colour = THEORY if len(results) == 1 else (0.0, 0.27, 0.55, float(shade))
        axes.plot(steps, [step.test_error for step in result.steps], color=colour, label=label)
        if len(results) == 1:
            axes.plot(
                steps, [step.train_error for step in result.steps], color=THEORY, linestyle="--", label="training error"
            )
        axes.plot(
            result.best_step,
            result.steps[result.best_step - 1].test_error,
            "o",
            markersize=10,
            markerfacecolor="none",
            color=ACCENT,
            label="stop here" if index == len(results) - 1 else None,
        )
    if runs is not None:
        table = np.array(runs, dtype=float)
        error = table.std(axis=0, ddof=1) / np.sqrt(len(table)) if len(table) > 1 else None
        axes.errorbar(
            np.arange(1, table.shape[1] + 1), table.mean(axis=0), error, fmt="o", color=TRAINING, markersize=4,
            label="trained",
        )  # fmt: skip
    return finish_axes(axes, "step", "error", log="y")
