"""Pictures of sparse-token results: each function takes results and axes, computes nothing, returns the axes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.plot.style import ACCENT, GREY, THEORY, TRAINING, cell_edges, dress, fresh_axes, guide

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.sparse import (
        Alignment,
        AmpResult,
        Best,
        Capacity,
        Landscape,
        Oracle,
        Prediction,
        TrainingResult,
        Tuned,
    )

__all__ = ["alignment", "best_error", "capacity", "error_curve", "hard_phase", "landscape", "oracle", "tuned"]

COLOURS = {"attention": THEORY, "pooled": TRAINING, "vectorised": ACCENT}
STYLES = {"attention": "-", "pooled": "--", "vectorised": ":"}
WORDS = {
    "alpha": r"samples over dimension $\alpha$",
    "alpha0": r"samples for the query $\alpha_0$",
    "alpha1": r"samples for the readout $\alpha_1$",
    "beta": r"inverse temperature $\beta$",
    "cos_query": "cosine of query and signal",
    "eta_b": r"bias rate $\eta_b$",
    "eta_q": r"query rate $\eta_q$",
    "eta_w": r"readout rate $\eta_w$",
    "length": "sequence length $L$",
    "ridge": r"ridge $\lambda$",
    "sharpness": r"sharpness $\kappa$",
    "split": r"share of samples for the query $\alpha_0/\alpha$",
    "strength": r"signal strength $\theta$",
}


def _spread_out(values: Sequence[float]) -> bool:
    """Whether an axis reads better in logarithms."""
    return bool(values) and min(values) > 0.0 and max(values) / min(values) >= 20.0


def _finish(axes: "Axes", name: str, values: Sequence[float], ylabel: str) -> "Axes":
    axes.grid(alpha=0.25, linewidth=0.6)
    log = "x" if _spread_out(values) else ""
    return dress(axes, WORDS.get(name, name.replace("_", " ")), ylabel, log=log, fontsize=10.0)


def alignment(
    results: "Sequence[Alignment]", x: Sequence[float], name: str = "alpha0", axes: "Axes | None" = None
) -> "Axes":
    """Cosines of query and first readout with the signal, against ``x``."""
    axes = axes if axes is not None else fresh_axes()
    axes.plot(x, [r.cos_query for r in results], color=COLOURS["attention"], label="query")
    axes.plot(x, [r.cos_readout for r in results], color=COLOURS["pooled"], linestyle="--", label="first readout")
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    return _finish(axes, name, x, "cosine with the signal")


def error_curve(
    curves: "Mapping[str, tuple[Sequence[float], Sequence[Prediction]]]",
    name: str = "alpha",
    axes: "Axes | None" = None,
    runs: "Mapping[str, tuple[Sequence[float], Sequence[TrainingResult]]] | None" = None,
    best: "tuple[Sequence[float], Sequence[Best]] | None" = None,
) -> "Axes":
    """Predicted test error of the models against ``x``, measurements (with standard errors) and the best possible laid over it."""
    axes = axes if axes is not None else fresh_axes()
    seen: list[float] = []
    if best is not None:
        _best_line(axes, *best)
    for model, (x, results) in curves.items():
        axes.plot(x, [r.test_error for r in results], color=COLOURS[model], linestyle=STYLES[model], label=model)
        seen += list(x)
    for model, (x, measured) in (runs or {}).items():
        means, errors = [r.test_error for r in measured], [r.errors["test_error"] for r in measured]
        axes.errorbar(x, means, errors, fmt="o", ms=4, color=COLOURS[model], label=f"{model}, trained")
        seen += list(x)
    axes.set_ylim(bottom=0.0)
    return _finish(axes, name, seen, "test error")


def _best_line(axes: "Axes", x: Sequence[float], results: "Sequence[Best]") -> None:
    """The best possible learner, wide and grey as any rule is elsewhere; message passing where it stays behind."""
    axes.plot(x, [r.test_error for r in results], color="0.75", linewidth=4.0, label="best possible learner")
    if any(r.hard for r in results):
        behind = [r.test_error_amp if r.hard else np.nan for r in results]
        axes.plot(x, behind, color=GREY, linestyle=(0, (1, 1.2)), linewidth=1.8, label="message passing, hard phase")


def best_error(
    results: "Sequence[Best]",
    x: Sequence[float],
    name: str = "alpha",
    axes: "Axes | None" = None,
    runs: "tuple[Sequence[float], Sequence[AmpResult]] | None" = None,
) -> "Axes":
    """Error of the best possible learner against ``x``; against length or strength the phases, where there are any.

    Measurements, with standard errors, are laid over the errors.
    """
    if runs is None and name in ("length", "strength") and any(r.algorithmic_threshold is not None for r in results):
        return hard_phase(results, x, name, axes)
    axes = axes if axes is not None else fresh_axes()
    _best_line(axes, x, results)
    axes.plot(x, [r.floor for r in results], color=THEORY, linestyle="--", linewidth=1.2, label="signal known")
    if runs is not None:
        where, found = runs
        label = f"{found[0].method}, d = {found[0].dim}" if found else ""
        means, errors = [r.test_error for r in found], [r.errors["test_error"] for r in found]
        axes.errorbar(where, means, errors, fmt="o", ms=4, color=TRAINING, label=label)
    if name == "alpha" and results and results[0].algorithmic_threshold is not None:
        guide(axes, x=results[0].information_threshold, text="possible from here on", at=0.6)
        guide(axes, x=results[0].algorithmic_threshold, text="easy from here on", at=0.6)
    axes.set_ylim(bottom=0.0)
    return _finish(axes, name, x, "test error")


def hard_phase(
    results: "Sequence[Best]", x: Sequence[float], name: str = "length", axes: "Axes | None" = None
) -> "Axes":
    """Samples from which the signal can be found, and found quickly, against ``x``; for balanced classes those of the two steps, too."""
    axes = axes if axes is not None else fresh_axes()
    kept = [(at, r) for at, r in zip(x, results, strict=True) if r.algorithmic_threshold is not None]
    where = [at for at, _ in kept]
    possible, easy = (
        [float(getattr(r, key)) for _, r in kept] for key in ("information_threshold", "algorithmic_threshold")
    )
    axes.plot(where, easy, color=THEORY, label="message passing finds it")
    axes.plot(where, possible, color=ACCENT, linestyle="--", label="anybody could find it")
    axes.fill_between(where, possible, easy, color=TRAINING, alpha=0.18, linewidth=0.0, label="hard")
    if all(r.task.positive_rate == 0.5 for _, r in kept):
        steps = [4.0 * r.task.length / (r.task.strength**3 * r.task.signal_tokens**2) for _, r in kept]
        axes.plot(where, steps, color=TRAINING, linestyle="-.", label="two gradient steps")
    _finish(axes, name, where, WORDS["alpha"])
    axes.set_yscale("log")
    return axes


def capacity(
    results: "Sequence[Capacity]", x: Sequence[float], name: str = "cos_query", axes: "Axes | None" = None
) -> "Axes":
    """Largest separable sample ratios of the three models, against ``x``."""
    axes = axes if axes is not None else fresh_axes()
    for model, style in STYLES.items():
        axes.plot(x, [getattr(r, model) for r in results], linestyle=style, color=COLOURS[model], label=model)
    axes.set_yscale("log")
    for write in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        write("{x:g}")
    return _finish(axes, name, x, "largest separable sample ratio")


def oracle(results: "Sequence[Oracle]", x: Sequence[float], name: str = "length", axes: "Axes | None" = None) -> "Axes":
    """Best achievable errors against ``x``."""
    axes = axes if axes is not None else fresh_axes()
    lines = {
        "bayes": ("any rule", "0.8", "-"),
        "softmax": ("softmax attention", COLOURS["attention"], "-"),
        "hardmax": ("hardmax attention", COLOURS["attention"], "--"),
        "elementwise": ("element-wise attention", "#7a4b9a", "-"),
        "pooled": ("pooled", COLOURS["pooled"], "-"),
        "vectorised": ("best linear", COLOURS["vectorised"], ":"),
    }
    for field, (label, colour, style) in lines.items():
        values = [getattr(r, field) for r in results]
        points = [(a, b) for a, b in zip(x, values, strict=True) if b is not None]
        if points:
            width = 4.0 if field == "bayes" else 1.5  # what lies on it stays visible
            axes.plot(*zip(*points, strict=True), style, color=colour, label=label, linewidth=width)
    axes.set_ylim(bottom=0.0)
    return _finish(axes, name, x, "lowest test error")


def landscape(found: "Landscape", axes: "Axes | None" = None) -> "Axes":
    """Predicted test error over two hyperparameters; anti-aligned and worse-than-pooled regions are hatched."""
    axes = axes if axes is not None else fresh_axes()
    edges = [_cell_edges(values) for values in (found.x_values, found.y_values)]
    colours = axes.pcolormesh(*edges, found.grid("test_error"), cmap="viridis_r")
    axes.figure.colorbar(colours, ax=axes, label="test error of attention")
    for field, hatch, label in (
        ("anti_aligned", "///", "anti-aligned"),
        ("worse_than_pooled", "...", "worse than pooled"),
    ):
        mask = np.nan_to_num(found.grid(field)) > 0.5
        if mask.any():
            for row, column in zip(*np.nonzero(mask), strict=True):
                left, right = edges[0][column : column + 2]
                low, high = edges[1][row : row + 2]
                corners = [left, right, right, left], [low, low, high, high]
                axes.fill(*corners, facecolor="none", edgecolor="white", hatch=hatch, lw=0.0)
            axes.fill([], [], facecolor="#888888", edgecolor="white", hatch=hatch, label=label)
    log = "".join(axis for axis, v in (("x", found.x_values), ("y", found.y_values)) if _spread_out(v))
    above: dict[str, Any] = {"legend": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 2}
    return dress(axes, WORDS[found.x_name], WORDS[found.y_name], log=log, **above)


def _cell_edges(values: Sequence[float]) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Borders half-way between neighbouring values, in the scale of the axis."""
    return np.exp(cell_edges(np.log(values))) if _spread_out(values) else cell_edges(values)


def tuned(found: "Tuned", axes: "Axes | None" = None) -> "Axes":
    """Predicted test error over split and sharpness, each at its best ridge, with the optimum marked."""
    axes = axes if axes is not None else fresh_axes()
    splits, sharpnesses = (sorted({row[i] for row in found.scan}) for i in (0, 1))
    best: dict[tuple[float, float], float] = {}
    for split, sharpness, _, error in found.scan:
        best[split, sharpness] = min(error, best.get((split, sharpness), 1.0))
    values = np.array([[best[split, sharpness] for split in splits] for sharpness in sharpnesses])
    levels = np.linspace(values.min(), min(values.max(), 0.5), 15)
    filled = axes.contourf(splits, sharpnesses, values, levels=levels, cmap="Blues_r", extend="max")
    axes.figure.colorbar(filled, ax=axes, label="test error at the best ridge", format="%.3f")
    axes.plot([found.alpha0 / found.alpha], [found.sharpness], "o", color=TRAINING, ms=8, label="best")
    errors = f"{found.test_error:.4f}, {found.given_test_error:.4f} as given, {found.pooled_test_error:.4f} pooled"
    title = rf"$\alpha={found.alpha:g}$: test error {errors}"
    dress(axes, WORDS["split"], WORDS["sharpness"], title, log="y", legend="upper right", frameon=True)
    axes.set_yticks(sharpnesses, [f"{value:g}" for value in sharpnesses])
    axes.minorticks_off()
    return axes
