"""Pictures of the attention-indexed model."""

from typing import TYPE_CHECKING

import numpy as np

from onehead.aim.words import threshold_marks
from onehead.plot.style import ACCENT, ALPHA, BEST, GREY, THEORY, TRAINING, bulks, dress, fresh_axes, unusual

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from onehead.aim.task import Task
    from onehead.aim.verbs.bayes import BestCurve
    from onehead.aim.verbs.curve import Curve
    from onehead.aim.verbs.spectrum import Spectrum
    from onehead.aim.verbs.thresholds import Thresholds
    from onehead.aim.verbs.tune import Tuned

__all__ = ["best_possible", "learning_curve", "spectrum", "tuning"]

BEST_POSSIBLE = "best possible (known model)"


def learning_curve(
    curve: "Curve",
    *,
    thresholds: "Thresholds | None" = None,
    axes: "Axes | None" = None,
    label: str = "theory",
) -> "Axes":
    """Test error against α, noisy and clean, with the training loss per sample and the thresholds inside the range."""
    axes = axes if axes is not None else fresh_axes()
    alpha = curve.column("alpha")
    order = np.argsort(alpha)
    alpha = alpha[order]
    loss = curve.column("train_loss")[order] / alpha
    single = "o" if len(alpha) == 1 else ""  # one point has no line
    noisy, clean = (curve.column(name)[order] for name in ("test_error", "test_error_clean"))
    axes.plot(alpha, noisy, color=THEORY, lw=1.9, label=f"test error ({label})", marker=single)
    axes.plot(alpha, clean, color=THEORY, lw=1.3, ls="--", label="test error, clean labels", marker=single)
    if curve.best is not None:
        best = curve.column("bayes_test_error")[order]
        axes.plot(alpha, best, color=BEST, lw=1.6, ls=":", label=BEST_POSSIBLE, marker=single)
    axes.plot(alpha, loss, color=ACCENT, lw=1.3, ls="-.", label="objective per sample", marker=single)
    top = float(np.nanmax([np.nanmax(noisy), np.nanmax(loss)]))
    if thresholds is not None:
        _mark_thresholds(axes, thresholds, float(alpha[0]), float(alpha[-1]))
    return dress(axes, ALPHA, "error", _describe(curve), log=_log(alpha), ylim=(0.0, 1.18 * top), legend="center right")


def _log(alpha: "NDArray[np.float64]") -> str:
    """Which axes have a logarithm: that of sample ratios, if a logarithmic range was asked for."""
    steps = np.diff(alpha)
    return "x" if len(alpha) > 2 and steps[-1] > 4.0 * steps[0] else ""


def best_possible(found: "BestCurve", *, axes: "Axes | None" = None) -> "Axes":
    """Errors of the best possible learner against α: its best answer, clean and noisy, its estimate as a head, and the floor."""
    axes = axes if axes is not None else fresh_axes()
    alpha = found.column("alpha")
    order = np.argsort(alpha)
    alpha, single = alpha[order], "o" if len(alpha) == 1 else ""
    lines = (
        ("test_error", THEORY, "-", "best possible"),
        ("test_error_clean", THEORY, "--", "best possible, clean labels"),
        ("plugin_error", ACCENT, "-.", "head with the estimate itself"),
    )
    for name, colour, dash, label in lines:
        axes.plot(alpha, found.column(name)[order], color=colour, lw=1.6, ls=dash, label=label, marker=single)
    floor = next((float(point.floor) for point in found.points if hasattr(point, "floor")), None)
    if floor is not None:
        axes.axhline(floor, color=GREY, lw=0.9, ls=":", label="infinitely many samples")
    return dress(axes, ALPHA, "error", _described(found.task), log=_log(alpha), ylim=(0.0, None), legend="upper right")


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
    parts = [_described(curve.task, rf"$\lambda={learner.weight_decay}$", learner.param)]
    if learner.width < 1.0:
        parts.append(rf"$\kappa={learner.width:g}$")
    if str(learner.loss) != "squared":
        parts.append(str(learner.loss))
    return ", ".join(parts)


def spectrum(law: "Spectrum", *, axes: "Axes | None" = None) -> "Axes":
    """Density of the eigenvalues of S, the target's beside it, the atom at zero and the edges."""
    axes = axes if axes is not None else fresh_axes()
    point = law.point
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
        axes.plot(x, height, color=THEORY, lw=1.9, label=None if i else "trained map S")
        axes.fill_between(x, height, color=THEORY, alpha=0.10, lw=0.0)
        for edge in law.edges[i]:
            if abs(edge) > 1e-9:
                axes.plot([edge], [0.0], marker="|", ms=11, color=THEORY, clip_on=False)
    positive = law.density_values[law.x > 0.02 * (law.x.max() if law.x.size else 1.0)]
    top = 1.35 * max(float(positive.max()) if positive.size else 0.0, min(float(inner.max()), 1.0))
    if law.levels:  # shares, not a density: the tallest is the zeros or one of them
        top = 1.35 * max(law.zero_mass, *(share for _, share in law.levels))
        places, shares = zip(*law.levels, strict=True)
        axes.vlines(places, 0.0, shares, color=THEORY, lw=1.2, label="trained map S: the target itself")
        axes.plot(places, shares, "o", color=THEORY, ms=3.5)
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
            arrowprops={"arrowstyle": "-|>", "color": THEORY, "lw": 2.2, "shrinkA": 0, "shrinkB": 0},
        )
        axes.annotate(
            f"{law.zero_mass:.1%} of the {value}s are zero\n(target: {1.0 - target.rank:.1%})",
            (0.0, (0.95 if left_end == 0.0 else 0.8) * top),  # below the legend if zero is in the middle
            xytext=(9, 0),
            textcoords="offset points",
            fontsize=8.5,
            color=THEORY,
            va="top",
        )
    for i, outlier in enumerate(law.outliers):
        axes.plot([outlier.position] * 2, [0.0, 0.22 * top * outlier.overlap], color=THEORY, lw=1.2)
        label = None if i else "learned features (height: overlap)"
        axes.plot([outlier.position], [0.22 * top * outlier.overlap], "v", ms=6, color=TRAINING, label=label)
    title = rf"$\alpha={point.alpha:g}$, test error {point.test_error:.4f}"
    upwards = f"share of the {value}s" if law.levels else "density"
    return dress(axes, f"{value} of the query-key map S", upwards, title, legend="upper right")


def tuning(tuned: "Tuned", *, axes: "Axes | None" = None) -> "Axes":
    """Test error against the weight decay, the best one marked."""
    axes = axes if axes is not None else fresh_axes()
    scan = [(decay, error) for decay, error in tuned.scan if decay > 0.0]
    axes.plot(*zip(*scan, strict=True), color=THEORY, lw=1.9, marker=".", ms=5, label="test error (theory)")
    limit = dict(tuned.scan).get(0.0)
    if limit is not None:
        axes.axhline(limit, color=GREY, lw=0.9, ls="--", label=r"limit $\lambda \to 0^+$")
    if tuned.weight_decay > 0.0:
        label = rf"best, $\lambda={tuned.weight_decay:.3g}$"
        axes.plot([tuned.weight_decay], [tuned.test_error], "o", color=TRAINING, ms=7, label=label)
        axes.axvspan(max(tuned.flat_from, scan[0][0]), tuned.flat_to, color=TRAINING, alpha=0.12, lw=0.0)
    if tuned.bayes_test_error is not None:
        axes.axhline(tuned.bayes_test_error, color=BEST, lw=1.6, ls=":", label=BEST_POSSIBLE)
    title = rf"$\alpha={tuned.point.alpha:g}$: {tuned.certificate.status}"
    return dress(axes, r"weight decay $\lambda$", "test error", title, log="xy")
