"""Figures of the attention-indexed model: learning curves, spectra, tuning of the weight decay."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.aim.flat_parameters import threshold_marks
from onehead.plot._axes import LineStyle, line_style, resolve_axes
from onehead.plot._training import training_points
from onehead.plot.style import (
    ACCENT,
    ALPHA_LABEL,
    BEST,
    BEST_LABEL,
    GREY,
    OPTIMUM,
    SERIES_GID,
    TARGET_FILL,
    TARGET_LINE,
    TEXT,
    THEORY,
    finish_axes,
    nondefault_settings,
    split_bulks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from onehead.aim.task import Task
    from onehead.aim.training.results import TrainingResult
    from onehead.aim.verbs.bayes import BestCurve
    from onehead.aim.verbs.curve import Curve
    from onehead.aim.verbs.spectrum import Spectrum
    from onehead.aim.verbs.thresholds import Thresholds
    from onehead.aim.verbs.tune import Tuned

APPROXIMATE_DASH = (0, (3, 1.5))
BEST_COLUMN = "bayes_test_error"
CURVE_LINES = {  # columns of a learning curve: colour, dash, width, label
    "test_error": (THEORY, "-", 1.9, "test error (theory)"),
    "test_error_clean": (THEORY, "--", 1.3, "test error, clean labels"),
    BEST_COLUMN: (BEST, ":", 1.6, BEST_LABEL),
    "objective": (ACCENT, "-.", 1.3, "objective per sample"),
}


def learning_curve(
    curve: "Curve",
    runs: "TrainingResult | Sequence[TrainingResult]" = (),
    *,
    thresholds: "Thresholds | None" = None,
    quantity: str | None = None,
    label: str | None = None,
    color: Any = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a learning curve: test error against α on noisy and clean labels, and the training objective per sample.

    For a curve computed with ``bayes=True`` the test error and that of the best possible learner are drawn instead, and
    the gap between them is shaded.

    Parameters
    ----------
    curve : Curve
        Result of `onehead.aim.curve` or `onehead.sparse.curve`; to overlay several, call again with the same ``ax``.
    runs : TrainingResult or sequence of TrainingResult
        Trained heads to draw as markers.
    thresholds : Thresholds, optional
        Thresholds to mark where they lie inside the range of α.
    quantity : str, optional
        Name of a column of the curve to draw alone, such as "rank".
    label : str, optional
        Label of the curve in the legend.
    color : matplotlib color, optional
        Colour of its lines.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes, or ``quantity`` is not a column of the curve.

    Notes
    -----
    Solid lines are dashed where results are approximate, and have a gap where there is no result.

    Examples
    --------
    >>> from onehead import aim, plot
    >>> curve = aim.curve(aim.Task(), aim.Learner(), [0.5, 1.0])
    >>> axes = plot.learning_curve(curve, label="noise 0.5")
    >>> [text.get_text() for text in axes.get_legend().get_texts()]
    ['noise 0.5', 'test error, clean labels', 'objective per sample']
    """
    if not hasattr(curve, "learner"):
        from onehead.plot._sparse import error_curve

        sparse_curve: Any = curve
        return error_curve(sparse_curve, quantity=quantity or "test_error", label=label, color=color, ax=ax)
    ax = resolve_axes(ax)
    alpha = curve.column("alpha")
    order = np.argsort(alpha)
    alpha, marker = alpha[order], "o" if len(alpha) == 1 else ""  # a single point has no line
    approximate = np.array(["approximate" in (point.status or "") for point in curve])[order]
    look, title = line_style(ax, label, color), _describe_curve(curve)
    others = ("test_error_clean", "objective") if curve.best is None else (BEST_COLUMN,)
    columns = ("test_error", *others) if quantity is None else (quantity,)
    tops = [0.0]
    for name in columns:
        default, dash, width, text = CURVE_LINES.get(name, (THEORY, "-", 1.9, name.replace("_", " ")))
        y = _column(curve, name)[order]
        entry = look.legend_entry(text, title) if name == columns[0] else {"label": text.replace(" (theory)", "")}
        style = {"color": look.colour(default), "lw": width, "marker": marker}
        sure = y if dash != "-" else np.where(approximate, np.nan, y)
        ax.plot(alpha, sure, ls=dash, **style, **entry)
        if dash == "-" and approximate.any():  # dashed up to the neighbours, so that no gap looks like a missing point
            near = np.convolve(approximate, (1, 1, 1), mode="same") > 0
            ax.plot(alpha, np.where(near, y, np.nan), ls=APPROXIMATE_DASH, label="approximate", **style)
        tops += [float(np.nanmax(y))] if np.isfinite(y).any() and name in ("test_error", "objective") else []
    if quantity is None and curve.best is not None:
        low, high = (_column(curve, name)[order] for name in (BEST_COLUMN, "test_error"))
        ax.fill_between(alpha, low, high, color=look.colour(THEORY), alpha=0.1, lw=0.0)
    if thresholds is not None:
        _mark_thresholds(ax, thresholds, float(alpha[0]), float(alpha[-1]))
    if runs:
        training_points(
            runs, quantity=quantity, label=None if label is None else f"{label}, trained", color=color, ax=ax
        )
    limits = (0.0, max(1.18 * max(tops), 0.0 if look.first else ax.get_ylim()[1])) if max(tops) else None
    ylabel = "error" if quantity is None else CURVE_LINES.get(quantity, ("", "", 0, quantity.replace("_", " ")))[3]
    ylabel = ylabel if look.first else ax.get_ylabel()
    where = "best" if runs or quantity is not None else "center right"
    first_title = title if look.first else ax.get_title(loc="left")
    finish_axes(ax, ALPHA_LABEL, ylabel.replace(" (theory)", ""), log=_log(alpha), ylim=limits, legend=where)
    ax.set_title(title if first_title == title else "", fontsize=9.5, loc="left", color=TEXT)
    return ax


def _column(curve: "Curve", name: str) -> "NDArray[np.float64]":
    """Return a column of a curve; ``objective`` is the minimised objective over the number of samples."""
    return curve.column("train_loss") / curve.column("alpha") if name == "objective" else curve.column(name)


def _log(alpha: "NDArray[np.float64]") -> str:
    """Return "x" if the values of α are spaced logarithmically, otherwise an empty text, for `finish_axes`."""
    steps = np.diff(alpha)
    return "x" if len(alpha) > 2 and steps[-1] > 4.0 * steps[0] else ""


def best_possible(
    found: "BestCurve",
    *,
    quantity: str | None = None,
    label: str | None = None,
    color: Any = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the errors of the best possible learner against α.

    Lines are its test error on noisy and clean labels, the error of a head with its estimate of the map, and the error
    that remains with infinitely many samples.

    Parameters
    ----------
    found : BestCurve
        Result of `onehead.aim.bayes_curve`; to overlay several, call again with the same ``ax``.
    quantity : str, optional
        Name of a column to draw alone.
    label : str, optional
        Label of the curve in the legend.
    color : matplotlib color, optional
        Colour of its lines.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InvalidArgument
        If ``ax`` is not a matplotlib Axes, or ``quantity`` is not a column of the curve.

    Examples
    --------
    >>> from onehead import aim, plot
    >>> axes = plot.best_possible(aim.bayes_curve(aim.Task(), [0.5, 1.0]))
    >>> axes.get_legend_handles_labels()[1][0]
    'best possible'
    """
    ax = resolve_axes(ax)
    alpha = found.column("alpha")
    order = np.argsort(alpha)
    alpha, marker, look = alpha[order], "o" if len(alpha) == 1 else "", line_style(ax, label, color)
    lines = {
        "test_error": (THEORY, "-", "best possible"),
        "test_error_clean": (THEORY, "--", "best possible, clean labels"),
        "plugin_error": (ACCENT, "-.", "head with the estimate itself"),
    }
    columns = (*lines,) if quantity is None else (quantity,)
    for name in columns:
        colour, dash, text = lines.get(name, (THEORY, "-", name.replace("_", " ")))
        entry = look.legend_entry(text) if name == columns[0] else {"label": text}
        ax.plot(alpha, found.column(name)[order], color=look.colour(colour), lw=1.6, ls=dash, marker=marker, **entry)
    floor = next((float(point.floor) for point in found.points if hasattr(point, "floor")), None)
    if floor is not None and quantity is None:
        ax.axhline(floor, color=look.colour(GREY), lw=0.9, ls=":", label="infinitely many samples")
    ylabel = "error" if quantity is None else quantity.replace("_", " ")
    title = _describe_task(found.task)
    return finish_axes(ax, ALPHA_LABEL, ylabel, title, log=_log(alpha), ylim=(0.0, None), legend="upper right")


def _mark_thresholds(axes: "Axes", thresholds: "Thresholds", low: float, high: float) -> None:
    """Draw thin vertical lines at thresholds, with names at different heights so that they do not overlap."""
    for i, (value, name) in enumerate(threshold_marks(thresholds.task, thresholds, low, high)):
        axes.axvline(value, color=GREY, lw=0.8, ls=":")
        axes.annotate(
            name,
            (value, 0.985 - 0.055 * i),
            xycoords=("data", "axes fraction"),
            xytext=(3, 0),
            textcoords="offset points",
            fontsize=7.5,
            color=TEXT,
            va="top",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.9},
        )


def _describe_task(task: "Task", *learner: str) -> str:
    """Return a task in symbols, with parts that describe the learner."""
    kappa0 = getattr(task.target, "kappa0", None)
    parts = [
        rf"$\kappa_0={kappa0:g}$" if kappa0 is not None else type(task.target).__name__,
        rf"$\Delta={task.noise:g}$",
        rf"$T={task.tokens}$",
        *learner,
        *nondefault_settings(task),
    ]
    return ", ".join(parts)


def _describe_curve(curve: "Curve") -> str:
    """Return the task and the learner of a curve in symbols."""
    learner = curve.learner
    decay = r"best $\lambda$ at every $\alpha$" if curve.tuned else rf"$\lambda={learner.weight_decay}$"
    parts = [_describe_task(curve.task, decay, learner.param)]
    if learner.width < 1.0:
        parts.append(rf"$\kappa={learner.width:g}$")
    if str(learner.loss) != "squared":
        parts.append(str(learner.loss))
    return ", ".join(parts)


def spectrum(law: "Spectrum", *, label: str | None = None, color: Any = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the density of the eigenvalues of the trained map S, its atom at zero and outliers, and the target.

    Parameters
    ----------
    law : Spectrum
        Result of `onehead.aim.spectrum`. Called again with the same ``ax``, further laws are drawn without their
        targets.
    label : str, optional
        Label of the trained map in the legend.
    color : matplotlib color, optional
        Colour of its lines.
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
    >>> point = aim.predict(aim.Task(), aim.Learner(), alpha=1.0)
    >>> plot.spectrum(aim.spectrum(point)).get_xlabel()
    'eigenvalue of the query-key map S'
    """
    axes = resolve_axes(ax)
    look, point = line_style(axes, label, color), law.point
    colour, map_label = look.colour(THEORY), look.label or "trained map S"
    if not look.first:
        return _overlay_spectrum(axes, law, look)
    target, value = point.task.target, point.task.spectral_value
    scale = point.task.beta0 / point.learner.beta
    low, high = (scale * edge for edge in target.edges)
    inner = np.array([0.0])
    if isinstance(values := getattr(target, "values", None), np.ndarray):
        name, zero = f"target {value}s", np.zeros(len(values))
        axes.plot(scale * values, zero, "|", color=TARGET_LINE, ms=16, label=name, clip_on=False, zorder=1)
    else:
        x = low + (high - low) * 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, 600)))
        height = target.density(x / scale) / scale
        axes.fill_between(x, height, color=TARGET_FILL, lw=0.0, label="target (non-zero part)")
        inner = height[x > low + 0.02 * (high - low)]
    for i, (x, height) in enumerate(split_bulks(law.x, law.density_values, len(law.edges))):
        axes.plot(x, height, color=colour, lw=1.9, label=None if i else map_label, gid=None if i else SERIES_GID)
        axes.fill_between(x, height, color=colour, alpha=0.10, lw=0.0)
        for edge in law.edges[i]:
            if abs(edge) > 1e-9:
                axes.plot([edge], [0.0], marker="|", ms=11, color=colour, clip_on=False)
    positive = law.density_values[law.x > 0.02 * (law.x.max() if law.x.size else 1.0)]
    top = 1.35 * max(float(positive.max()) if positive.size else 0.0, min(float(inner.max()), 1.0))
    if law.levels:  # the spectrum is discrete: heights are shares of the eigenvalues instead of a density
        top = 1.35 * max(law.zero_mass, *(share for _, share in law.levels))
        positions, shares = zip(*law.levels, strict=True)
        axes.vlines(positions, 0.0, shares, color=colour, lw=1.2, label=f"{map_label}: the target itself")
        axes.plot(positions, shares, "o", color=colour, ms=3.5, gid=SERIES_GID)
    axes.set_ylim(0.0, top)
    right_end = max([high, 0.0, *(edge for _, edge in law.edges), *(outlier.position for outlier in law.outliers)])
    left_end = min(0.0, low, law.edges[0][0] if law.edges else 0.0)
    pad = 0.06 * (right_end - left_end)
    axes.set_xlim(left_end - pad, right_end + 0.5 * pad)
    if law.zero_mass > 0.0:
        axes.annotate(
            "",
            (0.0, law.zero_mass if law.levels else 0.97 * top),
            (0.0, 0.0),
            arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 2.2, "shrinkA": 0, "shrinkB": 0},
        )
        axes.annotate(
            f"{law.zero_mass:.1%} of the {value}s are zero\n(target: {1.0 - target.rank:.1%})",
            (0.0, (0.95 if left_end == 0.0 else 0.8) * top),  # below the legend if zero is in the middle
            xytext=(9, 0),
            textcoords="offset points",
            fontsize=8.5,
            color=colour,
            va="top",
        )
    for i, outlier in enumerate(law.outliers):
        axes.plot([outlier.position] * 2, [0.0, 0.22 * top * outlier.overlap], color=colour, lw=1.2)
        label = None if i else "learned features (height: overlap)"
        axes.plot([outlier.position], [0.22 * top * outlier.overlap], "v", ms=6, color=colour, label=label)
    title = rf"$\alpha={point.alpha:g}$, test error {point.test_error:.4f}"
    ylabel = f"share of the {value}s" if law.levels else "density"
    return finish_axes(axes, f"{value} of the query-key map S", ylabel, title, legend="upper right")


def _overlay_spectrum(axes: "Axes", law: "Spectrum", look: LineStyle) -> "Axes":
    """Draw a further law over the first: its density, its levels and its outliers."""
    entry = look.legend_entry(rf"$\alpha={law.point.alpha:g}$")
    for i, (x, height) in enumerate(split_bulks(law.x, law.density_values, len(law.edges))):
        axes.plot(x, height, color=look.color, lw=1.9, **({} if i else entry))
    for outlier in law.outliers:
        axes.plot([outlier.position], [0.22 * axes.get_ylim()[1] * outlier.overlap], "v", ms=6, color=look.color)
    if law.levels:
        axes.plot(*zip(*law.levels, strict=True), "o", color=look.color, ms=3.5, **entry)
    ends = [edge for _, edge in law.edges] + [outlier.position for outlier in law.outliers]
    axes.set_xlim(right=max([axes.get_xlim()[1], *(1.05 * end for end in ends)]))
    axes.set_title("")
    return finish_axes(axes, axes.get_xlabel(), axes.get_ylabel(), legend="upper right")


def tuning(tuned: "Tuned", *, label: str | None = None, color: Any = None, ax: "Axes | None" = None) -> "Axes":
    """Draw the test error against the weight decay, with the optimum and the range around it that is nearly as good.

    Parameters
    ----------
    tuned : Tuned
        Result of `onehead.aim.tune`; to overlay several, call again with the same ``ax``.
    label : str, optional
        Label of the curve in the legend.
    color : matplotlib color, optional
        Colour of its lines.
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
    >>> plot.tuning(aim.tune(aim.Task(), aim.Learner(), alpha=0.5)).get_ylabel()
    'test error'
    """
    axes = resolve_axes(ax)
    look, scan = line_style(axes, label, color), sorted((decay, error) for decay, error in tuned.scan if decay > 0.0)
    entry = look.legend_entry("test error (theory)", rf"$\alpha={tuned.point.alpha:g}$")
    axes.plot(*zip(*scan, strict=True), color=look.colour(THEORY), lw=1.9, marker=".", ms=5, **entry)
    limit = dict(tuned.scan).get(0.0)
    if limit is not None:
        axes.axhline(limit, color=look.colour(GREY), lw=0.9, ls="--", label=r"limit $\lambda \to 0^+$")
    if tuned.weight_decay > 0.0:
        best = "best" if look.custom else rf"best, $\lambda={tuned.weight_decay:.3g}$"
        axes.plot([tuned.weight_decay], [tuned.test_error], "o", color=look.colour(OPTIMUM), ms=7, label=best)
        shade = look.colour(OPTIMUM)
        axes.axvspan(max(tuned.flat_from, scan[0][0]), tuned.flat_to, color=shade, alpha=0.12, lw=0.0)
    if tuned.bayes_test_error is not None:
        axes.axhline(tuned.bayes_test_error, color=BEST, lw=1.6, ls=":", label=BEST_LABEL)
    title = rf"$\alpha={tuned.point.alpha:g}$: {tuned.certificate.status}" if look.first else " "
    return finish_axes(axes, r"weight decay $\lambda$", "test error", title, log="xy")
