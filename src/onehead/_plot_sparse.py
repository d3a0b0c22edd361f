"""Pictures of sparse-token results: each function takes results and axes, computes nothing, returns the
axes.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.sparse import Alignment, Capacity, Landscape, Measurement, Oracle, Prediction

__all__ = ["alignment", "capacity", "error_curve", "landscape", "oracle"]

COLOURS = {"attention": "#0b5fa5", "pooled": "#c8571b", "vectorised": "#4c7a34"}
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


def _axes(ax: "Axes | None") -> "Axes":
    """Fresh axes on a figure of their own, unless some are given."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure  # noqa: PLC0415  (drawing is paid for by who draws)

    return Figure(figsize=(5.2, 3.8), layout="constrained").subplots()


def _spread_out(values: Sequence[float]) -> bool:
    """Whether an axis reads better in logarithms."""
    return min(values) > 0.0 and max(values) / min(values) >= 20.0


def _finish(ax: "Axes", name: str, values: Sequence[float], ylabel: str) -> "Axes":
    ax.set_xlabel(WORDS.get(name, name.replace("_", " ")))
    ax.set_ylabel(ylabel)
    if _spread_out(values):
        ax.set_xscale("log")
    ax.grid(alpha=0.25, linewidth=0.6)
    ax.legend(frameon=False)
    return ax


def alignment(
    results: "Sequence[Alignment]", x: Sequence[float], name: str = "alpha0", ax: "Axes | None" = None
) -> "Axes":
    """Cosines of query and first readout with the signal, against ``x``."""
    ax = _axes(ax)
    ax.plot(x, [r.cos_query for r in results], color=COLOURS["attention"], label="query")
    ax.plot(
        x, [r.cos_readout for r in results], color=COLOURS["pooled"], linestyle="--", label="first readout"
    )
    ax.axhline(0.0, color="0.6", linewidth=0.8)
    return _finish(ax, name, x, "cosine with the signal")


def error_curve(
    curves: "Mapping[str, tuple[Sequence[float], Sequence[Prediction]]]",
    name: str = "alpha",
    ax: "Axes | None" = None,
    runs: "Mapping[str, tuple[Sequence[float], Sequence[Measurement]]] | None" = None,
) -> "Axes":
    """Predicted test error of the models against ``x``, measurements (with standard errors) laid over it."""
    ax = _axes(ax)
    seen: list[float] = []
    for model, (x, results) in curves.items():
        ax.plot(x, [r.test_error for r in results], color=COLOURS[model], label=model)
        seen += list(x)
    for model, (x, measured) in (runs or {}).items():
        ax.errorbar(
            x,
            [r.test_error for r in measured],
            yerr=[r.test_error_err for r in measured],
            fmt="o",
            markersize=4,
            color=COLOURS[model],
            label=f"{model}, trained",
        )
        seen += list(x)
    ax.set_ylim(bottom=0.0)
    return _finish(ax, name, seen, "test error")


def capacity(
    results: "Sequence[Capacity]", x: Sequence[float], name: str = "cos_query", ax: "Axes | None" = None
) -> "Axes":
    """Largest separable sample ratios of the three models, against ``x``."""
    ax = _axes(ax)
    for model, style in (("attention", "-"), ("pooled", "--"), ("vectorised", ":")):
        ax.plot(x, [getattr(r, model) for r in results], style, color=COLOURS[model], label=model)
    ax.set_yscale("log")
    for axis in (ax.yaxis.set_major_formatter, ax.yaxis.set_minor_formatter):
        axis("{x:g}")
    return _finish(ax, name, x, "largest separable sample ratio")


def oracle(
    results: "Sequence[Oracle]", x: Sequence[float], name: str = "length", ax: "Axes | None" = None
) -> "Axes":
    """Best achievable errors against ``x``."""
    ax = _axes(ax)
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
            ax.plot(*zip(*points, strict=True), style, color=colour, label=label, linewidth=width)
    ax.set_ylim(bottom=0.0)
    return _finish(ax, name, x, "lowest test error")


def landscape(found: "Landscape", ax: "Axes | None" = None) -> "Axes":
    """Predicted test error over two hyperparameters; anti-aligned and worse-than-pooled regions are
    hatched.
    """
    ax = _axes(ax)
    shape = (len(found.y_values), len(found.x_values))

    def grid(values: Sequence[Any]) -> "np.ndarray[Any, np.dtype[np.float64]]":
        return np.array([np.nan if v is None else float(v) for v in values]).reshape(shape)

    x, y = np.array(found.x_values), np.array(found.y_values)
    colours = ax.pcolormesh(
        x, y, grid([s.test_error for s in found.spots]), cmap="viridis_r", shading="nearest"
    )
    figure = ax.get_figure()
    if figure is not None:
        figure.colorbar(colours, ax=ax, label="test error of attention")
    if min(shape) > 1:
        for field, hatch in (("anti_aligned", "//"), ("worse_than_pooled", "..")):
            mask = np.nan_to_num(grid([getattr(s, field) for s in found.spots]))
            if mask.any():
                ax.contourf(x, y, mask, levels=[0.5, 1.5], colors="none", hatches=[hatch])
    for set_scale, values in ((ax.set_xscale, found.x_values), (ax.set_yscale, found.y_values)):
        if _spread_out(values):
            set_scale("log")
    ax.set_xlabel(WORDS[found.x_name])
    ax.set_ylabel(WORDS[found.y_name])
    ax.set_title("// anti-aligned    . . worse than pooled", fontsize=9)
    return ax
