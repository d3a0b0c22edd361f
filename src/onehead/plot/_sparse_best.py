"""Figures of the best possible learners of sparse tokens: errors, hard phase, oracle rules."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.errors import InvalidArgument
from onehead.plot._axes import resolve_axes
from onehead.plot._grids import SPARSE_LABELS
from onehead.plot._sparse_lines import draw_lines, finish_parameter_axes
from onehead.plot.style import (
    ACCENT,
    AMBER,
    BEST,
    BEST_LABEL,
    BEST_STYLE,
    GREY,
    MODEL_COLOURS,
    PALE_BLUE,
    THEORY,
    TRAINING,
    guide,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.sparse import AmpResult, Best, Oracle


def draw_best(axes: "Axes", x: Sequence[float], results: "Sequence[Best]") -> None:
    """Draw the best possible learner, and message passing in the hard phase, where it is worse."""
    axes.plot(x, [r.test_error for r in results], label=BEST_LABEL, **BEST_STYLE)
    if any(r.hard for r in results):
        behind = [r.test_error_amp if r.hard else np.nan for r in results]
        axes.plot(x, behind, color=GREY, linestyle=(0, (1, 1.2)), linewidth=1.8, label="message passing, hard phase")


def best_error(
    results: "Sequence[Best]",
    x: Sequence[float],
    name: str = "alpha",
    ax: "Axes | None" = None,
    runs: "tuple[Sequence[float], Sequence[AmpResult]] | None" = None,
) -> "Axes":
    """Draw the error of the best possible learner against a parameter.

    Against length or strength, and without ``runs``, a problem with a hard phase is drawn by `hard_phase` instead.

    Parameters
    ----------
    results : sequence of Best
        Results of `onehead.sparse.bayes`.
    x : sequence of float
        Value of the parameter for each result.
    name : str
        Name of the parameter.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    runs : pair of parameter values and results of `onehead.sparse.amp`, optional
        Measurements to draw as markers with standard errors.

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
    >>> ratios = [0.5, 2.0]
    >>> results = [sparse.bayes(sparse.Task(), ratio) for ratio in ratios]
    >>> plot.best_error(results, ratios).get_legend_handles_labels()[1]
    ['best possible (known model)', 'signal known']
    """
    if runs is None and name in ("length", "strength") and any(r.algorithmic_threshold is not None for r in results):
        return hard_phase(results, x, name, ax)
    axes = resolve_axes(ax)
    draw_best(axes, x, results)
    axes.plot(x, [r.floor for r in results], color=THEORY, linestyle="--", linewidth=1.2, label="signal known")
    if runs is not None:
        where, found = runs
        label = f"{found[0].method}, d = {found[0].dim}" if found else ""
        means, errors = [r.test_error for r in found], [r.errors["test_error"] for r in found]
        axes.errorbar(where, means, errors, fmt="o", ms=4, color=TRAINING, label=label)
    if name == "alpha" and results and results[0].algorithmic_threshold is not None:
        guide(axes, x=results[0].information_threshold, text="possible from here on", at=0.6)
        guide(axes, x=results[0].algorithmic_threshold, text="easy from here on", at=0.6)
    return finish_parameter_axes(axes, name, x, "test error", (0.0, None))


def hard_phase(results: "Sequence[Best]", x: Sequence[float], name: str = "length", ax: "Axes | None" = None) -> "Axes":
    """Draw the sample ratios from which on the signal can be found, in principle and by message passing.

    The hard phase lies between the two. For balanced classes the samples that the two gradient steps need are drawn as
    well.

    Parameters
    ----------
    results : sequence of Best
        Results of `onehead.sparse.bayes`; those without a hard phase are left out.
    x : sequence of float
        Value of the parameter for each result.
    name : str
        Name of the parameter.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes, or no result has a hard phase.

    Examples
    --------
    >>> from onehead import plot, sparse
    >>> lengths = [100, 300]
    >>> results = [sparse.bayes(sparse.Task(length=length, strength=8.0), 1.0) for length in lengths]
    >>> plot.hard_phase(results, lengths).get_yscale()
    'log'
    """
    axes = resolve_axes(ax)
    hard = [(value, r) for value, r in zip(x, results, strict=True) if r.algorithmic_threshold is not None]
    if not hard:
        raise InvalidArgument("results", len(results), "results of which at least one has a hard phase")
    values = [value for value, _ in hard]
    possible, easy = (
        [float(getattr(r, key)) for _, r in hard] for key in ("information_threshold", "algorithmic_threshold")
    )
    axes.plot(values, easy, color=THEORY, label="message passing finds it")
    axes.plot(values, possible, color=ACCENT, linestyle="--", label="some learner can find it")
    axes.fill_between(values, possible, easy, color=GREY, alpha=0.18, linewidth=0.0, label="hard")
    if all(r.task.positive_rate == 0.5 for _, r in hard):
        steps = [4.0 * r.task.length / (r.task.strength**3 * r.task.signal_tokens**2) for _, r in hard]
        axes.plot(values, steps, color=PALE_BLUE, linestyle="-.", label="two gradient steps")
    finish_parameter_axes(axes, name, values, SPARSE_LABELS["alpha"])
    axes.set_yscale("log")
    return axes


def oracle(
    results: "Sequence[Oracle]",
    x: Sequence[float],
    name: str = "length",
    ax: "Axes | None" = None,
    *,
    quantity: str | None = None,
    label: str | None = None,
    color: Any = None,
) -> "Axes":
    """Draw the lowest achievable errors of several decision rules against a parameter.

    Parameters
    ----------
    results : sequence of Oracle
        Results of `onehead.sparse.oracle`.
    x : sequence of float
        Value of the parameter for each result.
    name : str
        Name of the parameter.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    quantity : str, optional
        Rule to draw alone: "bayes", "softmax", "hardmax", "elementwise", "pooled" or "vectorised".
    label : str, optional
        Label of the first line in the legend.
    color : matplotlib color, optional
        Colour of the lines.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes, or ``quantity`` is not a rule.

    Examples
    --------
    >>> from onehead import plot, sparse
    >>> lengths = [5, 10]
    >>> results = [sparse.oracle(sparse.Task(length=length)) for length in lengths]
    >>> plot.oracle(results, lengths).get_ylabel()
    'lowest test error'
    """
    axes = resolve_axes(ax)
    lines = {
        "bayes": ("any rule", BEST, ":"),
        "softmax": ("softmax attention", MODEL_COLOURS["attention"], "-"),
        "hardmax": ("hardmax attention", MODEL_COLOURS["attention"], "--"),
        "elementwise": ("element-wise attention", AMBER, "-"),
        "pooled": ("pooled", MODEL_COLOURS["pooled"], "-"),
        "vectorised": ("best linear", MODEL_COLOURS["vectorised"], ":"),
    }
    draw_lines(axes, x, results, lines, quantity, label, color)
    return finish_parameter_axes(axes, name, x, "lowest test error", (0.0, None))
