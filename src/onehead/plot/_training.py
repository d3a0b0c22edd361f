"""Pictures of training: markers over theory. Each takes results and axes and returns the axes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.plot.style import ACCENT, ALPHA, GREY, OVERLAPS, THEORY, TRAINING, bulks, dress, fresh_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.aim.training.amp import AmpResult
    from onehead.aim.training.compare import Comparison
    from onehead.aim.training.results import TrainingResult
    from onehead.aim.verbs.spectrum import Spectrum

__all__ = ["comparison", "message_passing", "trained_spectrum", "training_points"]

MARKERS = "osD^vP*X"
BARS: dict[str, Any] = {"ls": "none", "ms": 5.0, "lw": 1.2, "capsize": 2.5}


def training_points(results: "Sequence[TrainingResult]", *, axes: "Axes | None" = None) -> "Axes":
    """Test errors of trained heads, noisy and clean, with standard errors, to lay over a learning curve."""
    axes = axes if axes is not None else fresh_axes()
    alpha = [result.trained_alpha for result in results]
    for name, face, text in (
        ("test_error", TRAINING, "trained"),
        ("test_error_clean", "white", "trained, clean labels"),
    ):
        axes.errorbar(
            alpha,
            [float(getattr(result, name)) for result in results],
            yerr=np.nan_to_num([result.spread[f"{name}_err"] for result in results]),
            marker="o" if name == "test_error" else "s",
            color=TRAINING,
            markerfacecolor=face,
            label=f"{text} (d = {results[0].dim}, {results[0].seeds} seeds)" if name == "test_error" else text,
            zorder=5,
            **BARS,
        )
    return dress(axes, ALPHA, "error", legend="upper right")


def trained_spectrum(result: "TrainingResult", law: "Spectrum", *, axes: "Axes | None" = None) -> "Axes":
    """Histogram of the non-zero eigenvalues of trained maps over the predicted density."""
    axes = axes if axes is not None else fresh_axes()
    values = result.eigenvalues
    cut = 1e-3 * float(np.abs(values).max())
    kept = values[np.abs(values) > cut]
    bins = int(np.clip(1.5 * np.sqrt(kept.size), 8, 60))
    # heights are shares of all eigenvalues, so that the histogram and the density have the same area
    axes.hist(
        kept,
        bins=bins,
        weights=np.full(kept.size, bins / (values.size * float(np.ptp(kept)))),
        color=TRAINING,
        alpha=0.45,
        label=f"trained, d = {result.dim}, {result.seeds} seeds",
    )
    for i, (x, height) in enumerate(bulks(law.x, law.density_values, len(law.edges))):
        axes.plot(x, height, color=THEORY, lw=1.9, label=None if i else "theory")
    value = law.point.task.value
    title = f"zero {value}s: {1.0 - kept.size / values.size:.1%} trained, {law.zero_mass:.1%} theory"
    inner = law.density_values[law.x > 0.1 * float(law.x.max(initial=0.0))]
    return dress(axes, f"{value} of S", "density", title, ylim=(0.0, 1.6 * float(inner.max()) if inner.size else None))


def message_passing(result: "AmpResult", *, axes: "Axes | None" = None) -> "Axes":
    """Overlaps of every iterate (markers) over state evolution (lines)."""
    axes = axes if axes is not None else fresh_axes()
    steps = [step.iteration for step in result.steps]
    styles = (("q", THEORY, "-", "o"), ("m", ACCENT, "--", "s"), ("sigma", GREY, "-.", "^"))
    for name, colour, line, marker in styles:
        label = OVERLAPS[name]
        theory = [float(getattr(step, f"{name}_theory")) for step in result.steps]
        axes.plot(steps, theory, color=colour, ls=line, lw=1.5, label=f"{label}, state evolution")
        found = [float(getattr(step, name)) for step in result.steps]
        axes.plot(steps, found, marker, color=TRAINING, ms=3.5, mfc="none", label=f"{label[0]}, message passing")
    title = f"d = {result.dim}, α = {result.alpha:g}, damping {result.damping:g}"
    return dress(axes, "iteration", "overlap", title, ylim=(0.0, None), fontsize=8.0, ncols=2)


def comparison(table: "Comparison", *, axes: "Axes | None" = None) -> "Axes":
    """Test error of training over theory against 1/d, with the extrapolation at 1/d = 0, one marker per α."""
    axes = axes if axes is not None else fresh_axes()
    widest = max(1.0 / run.dim for point in table.points for run in point.runs)
    for k, point in enumerate(table.points):
        theory = point.prediction.test_error
        own = np.array([beside.test_error for beside in point.beside])
        inverse = np.array([1.0 / run.dim for run in point.runs])
        ratio = np.array([run.test_error for run in point.runs]) / own
        error = np.nan_to_num([run.spread["test_error_err"] for run in point.runs]) / own
        colour, marker = f"C{k}", MARKERS[k % len(MARKERS)]
        shift = 0.008 * widest * (k - 0.5 * (len(table.points) - 1))  # so that error bars do not hide each other
        axes.errorbar(inverse + shift, ratio, error, color=colour, marker=marker, label=f"α = {point.alpha:g}", **BARS)
        for limit in point.limits:
            if limit.quantity == "test_error":
                axes.errorbar(
                    [shift], [limit.value / theory], yerr=[limit.standard_error / theory],
                    color=colour, marker=marker, markerfacecolor="white", **BARS,
                )  # fmt: skip
                line = np.array([0.0, float(inverse.max())])
                axes.plot(line + shift, (limit.value + limit.slope * line) / theory, color=colour, lw=0.9, ls=":")
        if table.best is not None:
            best = float(table.best.column("test_error")[k]) / theory
            axes.axhline(best, color=colour, lw=1.2, ls=(0, (1, 2)), label=f"best possible, α = {point.alpha:g}")
    axes.axhline(1.0, color=THEORY, lw=1.9, label="theory")
    axes.axvline(0.0, color=GREY, lw=0.8)
    axes.set_xlim(-0.06 * widest, 1.08 * widest)
    across = "1/d (open markers: extrapolated to infinite dimension)"
    return dress(axes, across, "test error, training over theory", table.setting)
