"""Pictures of scaling laws: excess error and its parts, the order of features, the phase diagram."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.plot._call import drawing, on, pen
from onehead.plot.style import ACCENT, GREY, THEORY, TRAINING, cell_edges, dress, unusual

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from onehead.aim.task import Task
    from onehead.aim.verbs.phases import PhaseDiagram
    from onehead.aim.verbs.scaling import Feature, Scaling

__all__ = ["features", "phases", "predicted_exponents", "scaling"]

PARTS = {
    "underfitting": (TRAINING, "--", "underfitting: cut off by weight decay"),
    "overfitting": (ACCENT, "-.", "overfitting: noise that was learned"),
    "approximation": ("#8a5fa8", ":", "approximation: features learned wrongly"),
}
NAMES = {
    "not emerged": "S = 0\nnothing learned",
    "threshold": "threshold\nfeatures one by one",
    "bias": "bias\nall shrunk",
    "noise": "noise\nmore data, less noise",
    "interpolating": "interpolating\nlabels fitted",
}


def predicted_exponents(gamma: float) -> dict[str, float]:
    """What scaling arguments say: n^-(1 - 1/2γ) where noise sets the cut, n^-(2 - 1/γ) where weight decay does (7)."""
    return {r"$1-\frac{1}{2\gamma}$": -(1.0 - 0.5 / gamma), r"$2-\frac{1}{\gamma}$": -(2.0 - 1.0 / gamma)}


@drawing
def scaling(
    law: "Scaling",
    *,
    quantity: str | None = None,
    label: str | None = None,
    color: Any = None,
    ax: "Axes | Sequence[Axes] | None" = None,
) -> "Axes":
    """Excess error with its parts above, its local exponent below, against the number of samples.

    ``ax`` are two axes, or one for the upper panel alone; ``quantity`` draws one column alone, such as "excess_error", and
    ``label`` and ``color`` are those of its line.
    """
    order = np.argsort(law.column("samples"))
    n = law.column("samples")[order]
    mark = "o" if len(n) == 1 else ""
    if quantity is not None:
        return _one(law, quantity, n, order, on(_first(ax)), label, color)
    if ax is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 6.2), layout="constrained")
        ax = figure.subplots(2, 1, sharex=True, height_ratios=(1.5, 1.0))
    top = on(_first(ax))
    bottom = ax[1] if isinstance(ax, (Sequence, np.ndarray)) and len(ax) > 1 else None
    look = pen(top, label, color)
    words, colour = look.main("excess error"), look.colour(THEORY)
    top.plot(n, law.column("excess_error")[order], color=colour, lw=2.1, marker=mark, **words)
    for name, (usual, dash, text) in PARTS.items():
        part = law.column(name)[order]
        if np.isnan(part).all():  # an error that is not split
            continue
        part = np.where(part > 0.0, part, np.nan)
        top.plot(n, part, color=look.colour(usual), ls=dash, lw=1.4, label=text, marker=mark)
    low = 0.02 * float(np.nanmin(law.column("excess_error")))
    style: dict[str, Any] = {"log": "xy", "ylim": (low, None), "legend": "lower left", "fontsize": 8}
    across = "" if bottom is not None else "samples n"
    dress(top, across, "error above the plateau", _describe(law), **style)
    if bottom is not None:
        _exponents(law, n, law.column("local_exponent")[order], bottom, colour, mark)
    for each in (top, bottom):
        if each is not None:
            each.spines[["top", "right"]].set_visible(False)
    return top


def _first(ax: Any) -> Any:
    """The first of some axes, or the only one."""
    return ax[0] if isinstance(ax, (Sequence, np.ndarray)) else ax


def _one(law: "Scaling", quantity: str, n: Any, order: Any, ax: "Axes", label: str | None, color: Any) -> "Axes":
    """One column of a scaling law."""
    look, y, mark = pen(ax, label, color), law.column(quantity)[order], "o" if len(n) == 1 else ""
    words = look.main(quantity.replace("_", " "), _describe(law))
    ax.plot(n, y, color=look.colour(THEORY), lw=1.9, marker=mark, **words)
    log = "xy" if np.nanmin(y) > 0.0 else "x"
    return dress(ax, "samples n", quantity.replace("_", " "), _describe(law) if look.first else " ", log=log)


def _exponents(law: "Scaling", n: Any, exponent: Any, bottom: "Axes", colour: Any, mark: str) -> None:
    """Local exponents, and those that scaling arguments expect."""
    bottom.plot(n, exponent, color=colour, lw=1.9, marker=mark)
    gamma = getattr(law.task.target, "gamma", None)
    guides = {"parametric rate": -1.0, **(predicted_exponents(gamma) if gamma and gamma > 0.5 else {})}
    for text, value in guides.items():
        bottom.axhline(value, color=GREY, lw=0.9, ls=":")
        bottom.annotate(
            text, (1.0, value), xycoords=("axes fraction", "data"), fontsize=8, ha="right", va="bottom", color="#444444"
        )
    dress(bottom, "samples n", "local exponent\nd log(excess) / d log n", log="x", legend=None)


def _describe(law: "Scaling") -> str:
    decay = "best at each n" if law.optimal else f"{law.learner.decay:.4g}"
    return rf"{_task(law.task)}, $\lambda$: {decay}"


def _task(task: "Task") -> str:
    """Target, dimension, noise, tokens and what is not usual about the head."""
    gamma, dim = getattr(task.target, "gamma", None), len(getattr(task.target, "values", ()))
    name = rf"power law $\gamma={gamma:g}$" if gamma is not None else type(task.target).__name__
    return ", ".join([rf"{name}, $d={dim}$, $\Delta={task.noise:g}$, $T={task.tokens}$", *unusual(task)])


@drawing
def features(
    found: "Sequence[Feature]", *, label: str | None = None, color: Any = None, ax: "Axes | None" = None
) -> "Axes":
    """The target eigenvalues, of an untied head singular values, against the number of samples at which each is learned.

    ``label`` and ``color`` are those of the line, ``ax`` is where to draw.
    """
    axes = on(ax)
    look, places = pen(axes, label, color), [(item.samples, item.target) for item in found]
    words = look.main("leaves the noise bulk (theory)")
    axes.plot(*np.reshape(places, (-1, 2)).T, color=look.colour(THEORY), lw=1.2, marker="o", ms=4, **words)
    for item, place in zip(found[:3], places, strict=False):
        axes.annotate(f"feature {item.feature}", place, xytext=(6, 3), textcoords="offset points", fontsize=8)
    return dress(
        axes, "samples n at which the feature appears", "eigenvalue of the target (untied: singular value)", log="xy"
    )


@drawing
def phases(found: "PhaseDiagram", *, ax: "Axes | None" = None) -> "Axes":
    """Local exponents as colour, mechanisms as outlined regions, predicted exponents as contours."""
    from matplotlib.colors import TwoSlopeNorm

    axes = on(ax, 8.2, 4.8)
    x, y = np.array(found.log_n), np.array(found.log_lambda)
    slope = found.grid("local_exponent")
    mesh = axes.pcolormesh(
        cell_edges(x),
        cell_edges(y),
        slope,
        cmap="RdBu_r",
        norm=TwoSlopeNorm(vmin=-2.0, vcenter=0.0, vmax=2.0),
        rasterized=True,
    )
    figure: Any = axes.figure
    bar = figure.colorbar(mesh, ax=axes, label="local exponent, d log(excess) / d log n", pad=0.02)
    bar.ax.set_ylim(-2.0, 0.6)
    gamma = getattr(found.task.target, "gamma", None)
    if gamma and gamma > 0.5 and min(slope.shape) > 1:
        learned = np.where(slope == 0.0, np.nan, slope)
        for (text, value), dash in zip(predicted_exponents(gamma).items(), ("--", "-"), strict=True):
            axes.contour(x, y, learned, levels=[value], colors="black", linewidths=1.1, linestyles=dash)
            axes.plot([], [], color="black", ls=dash, lw=1.1, label=f"exponent $-$({text}) = {value:.3g}")
        axes.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize=8, loc="lower right")
    _outline(axes, found, x, y)
    title = f"{_task(found.task)}: which mechanism limits the head"
    return dress(axes, r"$\log_d n$ (samples)", r"$\log_d \lambda$ (weight decay)", title, legend=None)


def _outline(axes: "Axes", found: "PhaseDiagram", x: Any, y: Any) -> None:
    """A line around every region and its name in its middle; cells without a value are hatched."""
    regions = np.array([cell.region or "failed" for cell in found.cells]).reshape(len(y), len(x))
    left, low = cell_edges(x), cell_edges(y)
    for i, j in np.ndindex(regions.shape):
        if j + 1 < len(x) and regions[i, j] != regions[i, j + 1]:
            axes.plot([left[j + 1]] * 2, low[i : i + 2], color="#222222", lw=1.6)
        if i + 1 < len(y) and regions[i, j] != regions[i + 1, j]:
            axes.plot(left[j : j + 2], [low[i + 1]] * 2, color="#222222", lw=1.6)
        if regions[i, j] == "failed":
            axes.fill_between(left[j : j + 2], low[i], low[i + 1], facecolor="none", hatch="///", edgecolor=GREY, lw=0)
    for name, text in NAMES.items():
        where = np.argwhere(regions == name)
        if len(where) < 3:
            continue
        middle = where.mean(axis=0)
        inside = where[np.argmin(((where - middle) / regions.shape) ** 2 @ np.ones(2))]  # the mean may lie outside
        ground = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
        axes.annotate(text, (x[inside[1]], y[inside[0]]), ha="center", va="center", fontsize=8, bbox=ground)
