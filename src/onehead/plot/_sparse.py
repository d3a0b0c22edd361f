"""Figures of the sparse-token model: alignment, error curves, capacity, tuning."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.errors import InvalidArgument
from onehead.plot._axes import line_style, resolve_axes
from onehead.plot._grids import SPARSE_LABELS
from onehead.plot._sparse_best import draw_best
from onehead.plot._sparse_lines import MODEL_DASHES, draw_lines, finish_parameter_axes, marker_of
from onehead.plot.style import BEST_LABEL, BEST_STYLE, GREY, MODEL_COLOURS, OPTIMUM, TRAINING, finish_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.sparse import (
        Alignment,
        Best,
        Capacity,
        Curve,
        Prediction,
        TrainingResult,
        Tuned,
    )

NONNEGATIVE = ("test_error", "train_error", "train_loss")


def alignment(
    results: "Sequence[Alignment]",
    x: Sequence[float],
    name: str = "alpha0",
    ax: "Axes | None" = None,
    *,
    quantity: str | None = None,
    label: str | None = None,
    color: Any = None,
) -> "Axes":
    """Draw the cosines of query and first readout with the signal against a parameter.

    Parameters
    ----------
    results : sequence of Alignment
        Results of `onehead.sparse.align`.
    x : sequence of float
        Value of the parameter for each result.
    name : str
        Name of the parameter.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    quantity : str, optional
        One of "cos_query" and "cos_readout" to draw alone.
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
        If ``ax`` is not a matplotlib Axes, or ``quantity`` is not one of the two.

    Examples
    --------
    >>> from onehead import plot, sparse
    >>> task, protocol, ratios = sparse.Task(), sparse.Protocol(), [0.5, 2.0]
    >>> results = [sparse.align(task, protocol.changed(alpha0=ratio)) for ratio in ratios]
    >>> plot.alignment(results, ratios).get_ylabel()
    'cosine with the signal'
    """
    axes = resolve_axes(ax)
    lines = {
        "cos_query": ("query", MODEL_COLOURS["attention"], "-"),
        "cos_readout": ("first readout", MODEL_COLOURS["pooled"], "--"),
    }
    draw_lines(axes, x, results, lines, quantity, label, color)
    axes.axhline(0.0, color=GREY, linewidth=0.8)
    return finish_parameter_axes(axes, name, x, "cosine with the signal")


def error_curve(
    curves: "Curve | Sequence[Curve] | Mapping[str, Curve | tuple[Sequence[float], Sequence[Prediction]]]",
    name: str = "alpha",
    ax: "Axes | None" = None,
    runs: "TrainingResult | Sequence[TrainingResult] | Mapping[str, Any] | None" = None,
    best: "tuple[Sequence[float], Sequence[Best]] | None" = None,
    *,
    quantity: str = "test_error",
    label: str | None = None,
    color: Any = None,
) -> "Axes":
    """Draw predicted test errors against α or another parameter, with trained models and the best possible learner.

    Parameters
    ----------
    curves : Curve, sequence of Curve, or mapping
        Results of `onehead.sparse.curve`; or a mapping from labels to such results, or to pairs of parameter values and
        predictions.
    name : str
        Name of the parameter on the horizontal axis.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default. To overlay further curves, call again with the same axes.
    runs : TrainingResult, sequence of TrainingResult, or mapping, optional
        Trained models; or a mapping from labels to pairs of parameter values and results.
    best : pair of parameter values and results of `onehead.sparse.bayes`, optional
        The best possible learner; a curve computed with ``bayes=True`` contains it already.
    quantity : str
        Name of the quantity to draw.
    label : str, optional
        Label of a single curve in the legend.
    color : matplotlib color, optional
        Colour of a single curve.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes, or ``curves`` are not results of `onehead.sparse.curve`.

    Examples
    --------
    >>> from onehead import plot, sparse
    >>> task, protocol = sparse.Task(), sparse.Protocol(loss="square", ridge=0.1)
    >>> plot.error_curve(sparse.curve(task, protocol, [0.5, 2.0], model="pooled")).get_ylabel()
    'test error'
    """
    axes, values = resolve_axes(ax), list[float]()
    if best is not None:
        draw_best(axes, *best)
    for text, x, y, best_errors in _series(curves, quantity):
        look = line_style(axes, label if label is not None or text in MODEL_COLOURS else text, color)
        entry = look.legend_entry(text, text)
        by_model = text in MODEL_COLOURS and color is None and label is None
        dash, colour = (MODEL_DASHES[text], MODEL_COLOURS[text]) if by_model else ("-", look.color)
        if best_errors is not None and best is None:
            axes.plot(x, best_errors, label=BEST_LABEL, **BEST_STYLE)
        axes.plot(x, y, color=colour, linestyle=dash, marker=marker_of(y), **entry)
        values += list(x)
    for text, x, results in _grouped_runs(runs):
        means, errors = ([f(result, quantity) for result in results] for f in (getattr, _standard_error))
        colour = MODEL_COLOURS.get(text, TRAINING) if color is None else color
        group = text if label is None else label
        axes.errorbar(x, means, errors, fmt="o", ms=4, color=colour, label=f"{group}, trained", zorder=5)
        values += list(x)
    ylim = (0.0, None) if quantity in NONNEGATIVE else None
    return finish_parameter_axes(axes, name, values, quantity.replace("_", " "), ylim)


def _standard_error(run: Any, name: str) -> float:
    """Return the standard error of a mean, zero for a single run, which has none."""
    return float(np.nan_to_num(run.errors.get(name, 0.0)))


Line = tuple[str, Sequence[float], Sequence[float], Any]


def _series(curves: Any, quantity: str) -> Iterator[Line]:
    """Yield label, parameter values, quantity, and errors of the best possible learner or None, for every curve."""
    if isinstance(curves, Mapping):
        for text, given in curves.items():
            if isinstance(given, tuple):
                x, results = given
                yield text, x, [getattr(r, quantity) for r in results], None
            else:
                yield (text, *_columns(given, quantity))
        return
    for given in curves if isinstance(curves, (list, tuple)) else [curves]:
        if not hasattr(given, "column"):
            raise InvalidArgument("curves", given, "an answer of curve, a list of them, or a mapping of labels to them")
        yield (getattr(given, "model", "theory"), *_columns(given, quantity))


def _columns(curve: Any, quantity: str) -> tuple[Any, Any, Any]:
    """Return ascending sample ratios, the quantity there, and the errors of the best possible learner or None."""
    alpha = curve.column("alpha")
    order = np.argsort(alpha)
    best = (
        curve.column("bayes_test_error")[order] if quantity == "test_error" and getattr(curve, "best", None) else None
    )
    return alpha[order], curve.column(quantity)[order], best


def _grouped_runs(runs: Any) -> Iterator[tuple[str, Sequence[float], Sequence[Any]]]:
    """Yield label, parameter values and results of every group of trained models, by default grouped by model."""
    if isinstance(runs, Mapping):
        yield from ((text, *given) for text, given in runs.items())
        return
    several = list(runs) if isinstance(runs, (list, tuple)) else [runs] if runs is not None else []
    for model in dict.fromkeys(run.model for run in several):
        group = [run for run in several if run.model == model]
        yield model, [run.protocol.alpha for run in group], group


def capacity(
    results: "Sequence[Capacity]",
    x: Sequence[float],
    name: str = "cos_query",
    ax: "Axes | None" = None,
    *,
    quantity: str | None = None,
    label: str | None = None,
    color: Any = None,
) -> "Axes":
    """Draw the largest separable sample ratios of the three models against a parameter.

    Parameters
    ----------
    results : sequence of Capacity
        Results of `onehead.sparse.capacity`.
    x : sequence of float
        Value of the parameter for each result.
    name : str
        Name of the parameter.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.
    quantity : str, optional
        Model to draw alone: "attention", "pooled" or "vectorised".
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
        If ``ax`` is not a matplotlib Axes, or ``quantity`` is not a model.

    Examples
    --------
    >>> from onehead import plot, sparse
    >>> cosines = [0.2, 0.8]
    >>> results = [sparse.capacity(sparse.Task(), sparse.Protocol(cos_query=s, sharpness=2.0)) for s in cosines]
    >>> plot.capacity(results, cosines).get_ylabel()
    'largest separable sample ratio'
    """
    axes = resolve_axes(ax)
    lines = {model: (model, MODEL_COLOURS[model], dash) for model, dash in MODEL_DASHES.items()}
    draw_lines(axes, x, results, lines, quantity, label, color)
    axes.set_yscale("log")
    for set_formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        set_formatter("{x:g}")
    return finish_parameter_axes(axes, name, x, "largest separable sample ratio")


def tuned(found: "Tuned", ax: "Axes | None" = None) -> "Axes":
    """Draw the predicted test error over split and sharpness, at the best ridge for each, with the optimum marked.

    Parameters
    ----------
    found : Tuned
        Result of `onehead.sparse.tune`.
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
    >>> from onehead import plot, sparse
    >>> found = sparse.tune(sparse.Task(), sparse.Protocol(loss="square"), alpha=2.0)
    >>> plot.tuned(found).get_yscale()
    'log'
    """
    axes = resolve_axes(ax)
    splits, sharpnesses = (sorted({row[i] for row in found.scan}) for i in (0, 1))
    best: dict[tuple[float, float], float] = {}
    for split, sharpness, _, error in found.scan:
        best[split, sharpness] = min(error, best.get((split, sharpness), 1.0))
    values = np.array([[best[split, sharpness] for split in splits] for sharpness in sharpnesses])
    levels = np.linspace(values.min(), min(values.max(), 0.5), 15)
    filled = axes.contourf(splits, sharpnesses, values, levels=levels, cmap="Blues_r", extend="max")
    axes.figure.colorbar(filled, ax=axes, label="test error at the best ridge", format="%.3f")
    axes.plot([found.alpha0 / found.alpha], [found.sharpness], "o", color=OPTIMUM, ms=8, label="best")
    errors = f"{found.test_error:.4f}, {found.given_test_error:.4f} as given, {found.pooled_test_error:.4f} pooled"
    title = rf"$\alpha={found.alpha:g}$: test error {errors}"
    xlabel, ylabel = SPARSE_LABELS["split"], SPARSE_LABELS["sharpness"]
    finish_axes(axes, xlabel, ylabel, title, log="y", legend="upper right", frameon=True)
    axes.set_yticks(sharpnesses, [f"{value:g}" for value in sharpnesses])
    axes.minorticks_off()
    return axes
