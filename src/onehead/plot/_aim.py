"""Pictures of the attention-indexed model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.aim.words import threshold_marks
from onehead.plot._call import SERIES, Pen, drawing, on, pen
from onehead.plot._training import training_points
from onehead.plot.style import ACCENT, ALPHA, BEST, GREY, THEORY, TRAINING, bulks, dress, unusual

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

__all__ = ["best_possible", "learning_curve", "spectrum", "tuning"]

BEST_POSSIBLE = "best possible (known model)"
BEST_ERROR = "bayes_test_error"
LINES = {  # of a learning curve: colour, dash, width, name
    "test_error": (THEORY, "-", 1.9, "test error (theory)"),
    "test_error_clean": (THEORY, "--", 1.3, "test error, clean labels"),
    BEST_ERROR: (BEST, ":", 1.6, BEST_POSSIBLE),
    "objective": (ACCENT, "-.", 1.3, "objective per sample"),
}


@drawing
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
    """Test error against α, noisy and clean, with the training loss per sample and the thresholds inside the range.

    With the best possible learner beside it the test error is drawn alone, and what separates the two is shaded.

    Parameters
    ----------
    curve : Curve
        Of either half; further ones are laid over it by calling again with the same ``ax``.
    runs : TrainingResult or sequence of them
        Trained heads, laid over it.
    thresholds : Thresholds, optional
    quantity : str, optional
        One column of the curve, drawn alone.
    label, color : optional
        Of the curve in the legend, and of its lines.
    ax : matplotlib Axes, optional
        Where to draw; else a new figure.
    """
    if not hasattr(curve, "learner"):
        from onehead.plot._sparse import error_curve

        other: Any = curve  # of sparse tokens
        return error_curve(other, quantity=quantity or "test_error", label=label, color=color, ax=ax)
    ax = on(ax)
    alpha = curve.column("alpha")
    order = np.argsort(alpha)
    alpha, single = alpha[order], "o" if len(alpha) == 1 else ""  # one point has no line
    look, title = pen(ax, label, color), _describe(curve)
    beside = ("test_error_clean", "objective") if curve.best is None else (BEST_ERROR,)
    shown = ("test_error", *beside) if quantity is None else (quantity,)
    tops = [0.0]
    for name in shown:
        usual, dash, width, text = LINES.get(name, (THEORY, "-", 1.9, name.replace("_", " ")))
        y = _along(curve, name)[order]
        words = look.main(text, title) if name == shown[0] else {"label": text.replace(" (theory)", "")}
        ax.plot(alpha, y, color=look.colour(usual), lw=width, ls=dash, marker=single, **words)
        tops += [float(np.nanmax(y))] if np.isfinite(y).any() and name in ("test_error", "objective") else []
    if quantity is None and curve.best is not None:
        low, high = (_along(curve, name)[order] for name in (BEST_ERROR, "test_error"))
        ax.fill_between(alpha, low, high, color=look.colour(THEORY), alpha=0.1, lw=0.0)
    if thresholds is not None:
        _mark_thresholds(ax, thresholds, float(alpha[0]), float(alpha[-1]))
    if runs:
        training_points(
            runs, quantity=quantity, label=None if label is None else f"{label}, trained", color=color, ax=ax
        )
    limits = (0.0, max(1.18 * max(tops), 0.0 if look.first else ax.get_ylim()[1])) if max(tops) else None
    up = "error" if quantity is None else LINES.get(quantity, ("", "", 0, quantity.replace("_", " ")))[3]
    up = up if look.first else ax.get_ylabel()
    where = "best" if runs or quantity is not None else "center right"
    first = title if look.first else ax.get_title(loc="left")
    dress(ax, ALPHA, up.replace(" (theory)", ""), log=_log(alpha), ylim=limits, legend=where)
    ax.set_title(title if first == title else "", fontsize=9.5, loc="left", color="#333333")
    return ax


def _along(curve: "Curve", name: str) -> "NDArray[np.float64]":
    """A column of a curve; the objective is what is minimised, over the number of samples."""
    return curve.column("train_loss") / curve.column("alpha") if name == "objective" else curve.column(name)


def _log(alpha: "NDArray[np.float64]") -> str:
    """Which axes have a logarithm: that of sample ratios, if a logarithmic range was asked for."""
    steps = np.diff(alpha)
    return "x" if len(alpha) > 2 and steps[-1] > 4.0 * steps[0] else ""


@drawing
def best_possible(
    found: "BestCurve",
    *,
    quantity: str | None = None,
    label: str | None = None,
    color: Any = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Errors of the best possible learner against α: its best answer, clean and noisy, its estimate as a head, and the floor.

    ``quantity`` draws one column alone, ``label`` and ``color`` are those of the curve, ``ax`` is where to draw.
    """
    ax = on(ax)
    alpha = found.column("alpha")
    order = np.argsort(alpha)
    alpha, single, look = alpha[order], "o" if len(alpha) == 1 else "", pen(ax, label, color)
    lines = {
        "test_error": (THEORY, "-", "best possible"),
        "test_error_clean": (THEORY, "--", "best possible, clean labels"),
        "plugin_error": (ACCENT, "-.", "head with the estimate itself"),
    }
    shown = (*lines,) if quantity is None else (quantity,)
    for name in shown:
        colour, dash, text = lines.get(name, (THEORY, "-", name.replace("_", " ")))
        words = look.main(text) if name == shown[0] else {"label": text}
        ax.plot(alpha, found.column(name)[order], color=look.colour(colour), lw=1.6, ls=dash, marker=single, **words)
    floor = next((float(point.floor) for point in found.points if hasattr(point, "floor")), None)
    if floor is not None and quantity is None:
        ax.axhline(floor, color=look.colour(GREY), lw=0.9, ls=":", label="infinitely many samples")
    up = "error" if quantity is None else quantity.replace("_", " ")
    return dress(ax, ALPHA, up, _described(found.task), log=_log(alpha), ylim=(0.0, None), legend="upper right")


def _mark_thresholds(axes: "Axes", thresholds: "Thresholds", low: float, high: float) -> None:
    """Thin vertical lines with their names along the top, each on its own height so that names never meet."""
    for i, (value, name) in enumerate(threshold_marks(thresholds.task, thresholds, low, high)):
        axes.axvline(value, color=GREY, lw=0.8, ls=":")
        axes.annotate(
            name,
            (value, 0.985 - 0.055 * i),
            xycoords=("data", "axes fraction"),
            xytext=(3, 0),
            textcoords="offset points",
            fontsize=7.5,
            color="#444444",
            va="top",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.9},
        )


def _described(task: "Task", *learner: str) -> str:
    """A task in a few symbols, and what is said of the learner."""
    kappa0 = getattr(task.target, "kappa0", None)
    parts = [
        rf"$\kappa_0={kappa0:g}$" if kappa0 is not None else type(task.target).__name__,
        rf"$\Delta={task.noise:g}$",
        rf"$T={task.tokens}$",
        *learner,
        *unusual(task),
    ]
    return ", ".join(parts)


def _describe(curve: "Curve") -> str:
    learner = curve.learner
    decay = r"best $\lambda$ at every $\alpha$" if curve.tuned else rf"$\lambda={learner.weight_decay}$"
    parts = [_described(curve.task, decay, learner.param)]
    if learner.width < 1.0:
        parts.append(rf"$\kappa={learner.width:g}$")
    if str(learner.loss) != "squared":
        parts.append(str(learner.loss))
    return ", ".join(parts)


@drawing
def spectrum(law: "Spectrum", *, label: str | None = None, color: Any = None, ax: "Axes | None" = None) -> "Axes":
    """Density of the eigenvalues of S, the target's beside it, the atom at zero and the edges.

    ``label`` and ``color`` are those of the trained map; a further law on the same ``ax`` is drawn without the target.
    """
    axes = on(ax)
    look, point = pen(axes, label, color), law.point
    colour, name_of_map = look.colour(THEORY), look.label or "trained map S"
    if not look.first:
        return _second_law(axes, law, look)
    target, value = point.task.target, point.task.value
    scale = point.task.beta0 / point.learner.beta
    low, high = (scale * edge for edge in target.edges)
    inner = np.array([0.0])
    if isinstance(values := getattr(target, "values", None), np.ndarray):
        name, zero = f"target {value}s", np.zeros(len(values))
        axes.plot(scale * values, zero, "|", color="#9a9a9a", ms=16, label=name, clip_on=False, zorder=1)
    else:
        x = low + (high - low) * 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, 600)))
        height = target.density(x / scale) / scale
        axes.fill_between(x, height, color="#d9d9d9", lw=0.0, label="target (non-zero part)")
        inner = height[x > low + 0.02 * (high - low)]
    for i, (x, height) in enumerate(bulks(law.x, law.density_values, len(law.edges))):
        axes.plot(x, height, color=colour, lw=1.9, label=None if i else name_of_map, gid=None if i else SERIES)
        axes.fill_between(x, height, color=colour, alpha=0.10, lw=0.0)
        for edge in law.edges[i]:
            if abs(edge) > 1e-9:
                axes.plot([edge], [0.0], marker="|", ms=11, color=colour, clip_on=False)
    positive = law.density_values[law.x > 0.02 * (law.x.max() if law.x.size else 1.0)]
    top = 1.35 * max(float(positive.max()) if positive.size else 0.0, min(float(inner.max()), 1.0))
    if law.levels:  # shares, not a density: the tallest is the zeros or one of them
        top = 1.35 * max(law.zero_mass, *(share for _, share in law.levels))
        places, shares = zip(*law.levels, strict=True)
        axes.vlines(places, 0.0, shares, color=colour, lw=1.2, label=f"{name_of_map}: the target itself")
        axes.plot(places, shares, "o", color=colour, ms=3.5, gid=SERIES)
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
        axes.plot([outlier.position], [0.22 * top * outlier.overlap], "v", ms=6, color=TRAINING, label=label)
    title = rf"$\alpha={point.alpha:g}$, test error {point.test_error:.4f}"
    upwards = f"share of the {value}s" if law.levels else "density"
    return dress(axes, f"{value} of the query-key map S", upwards, title, legend="upper right")


def _second_law(axes: "Axes", law: "Spectrum", look: Pen) -> "Axes":
    """Another law over the first: its density, its levels and its outliers."""
    words = look.main(rf"$\alpha={law.point.alpha:g}$")
    for i, (x, height) in enumerate(bulks(law.x, law.density_values, len(law.edges))):
        axes.plot(x, height, color=look.color, lw=1.9, **({} if i else words))
    for outlier in law.outliers:
        axes.plot([outlier.position], [0.22 * axes.get_ylim()[1] * outlier.overlap], "v", ms=6, color=look.color)
    if law.levels:
        axes.plot(*zip(*law.levels, strict=True), "o", color=look.color, ms=3.5, **words)
    ends = [edge for _, edge in law.edges] + [outlier.position for outlier in law.outliers]
    axes.set_xlim(right=max([axes.get_xlim()[1], *(1.05 * end for end in ends)]))
    axes.set_title("")
    return dress(axes, axes.get_xlabel(), axes.get_ylabel(), legend="upper right")


@drawing
def tuning(tuned: "Tuned", *, label: str | None = None, color: Any = None, ax: "Axes | None" = None) -> "Axes":
    """Test error against the weight decay, the best one marked; ``label`` and ``color`` are those of the curve."""
    axes = on(ax)
    look, scan = pen(axes, label, color), sorted((decay, error) for decay, error in tuned.scan if decay > 0.0)
    words = look.main("test error (theory)", rf"$\alpha={tuned.point.alpha:g}$")
    axes.plot(*zip(*scan, strict=True), color=look.colour(THEORY), lw=1.9, marker=".", ms=5, **words)
    limit = dict(tuned.scan).get(0.0)
    if limit is not None:
        axes.axhline(limit, color=look.colour(GREY), lw=0.9, ls="--", label=r"limit $\lambda \to 0^+$")
    if tuned.weight_decay > 0.0:
        best = "best" if look.own else rf"best, $\lambda={tuned.weight_decay:.3g}$"
        axes.plot([tuned.weight_decay], [tuned.test_error], "o", color=look.colour(TRAINING), ms=7, label=best)
        shade = look.colour(TRAINING)
        axes.axvspan(max(tuned.flat_from, scan[0][0]), tuned.flat_to, color=shade, alpha=0.12, lw=0.0)
    if tuned.bayes_test_error is not None:
        axes.axhline(tuned.bayes_test_error, color=BEST, lw=1.6, ls=":", label=BEST_POSSIBLE)
    title = rf"$\alpha={tuned.point.alpha:g}$: {tuned.certificate.status}" if look.first else " "
    return dress(axes, r"weight decay $\lambda$", "test error", title, log="xy")
