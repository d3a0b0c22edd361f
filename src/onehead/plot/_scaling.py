"""Pictures of scaling laws: excess error and its parts, the order of features, the phase diagram."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.plot.style import ACCENT, GREY, THEORY, TRAINING, fresh_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


def scaling(law: "Scaling", *, axes: "Sequence[Axes] | None" = None) -> "Axes":
    """Excess error with its parts above, its local exponent below, against the number of samples."""
    if axes is None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 6.2), layout="constrained")
        axes = figure.subplots(2, 1, sharex=True, height_ratios=(1.5, 1.0))
    top, bottom = axes
    order = np.argsort(law.column("samples"))
    n = law.column("samples")[order]
    mark = "o" if len(n) == 1 else ""
    top.plot(n, law.column("excess_error")[order], color=THEORY, lw=2.1, label="excess error", marker=mark)
    for name, (colour, dash, text) in PARTS.items():
        part = law.column(name)[order]
        top.plot(n, np.where(part > 0.0, part, np.nan), color=colour, ls=dash, lw=1.4, label=text, marker=mark)
    top.set_xscale("log")
    top.set_yscale("log")
    low = float(np.nanmin(law.column("excess_error")))
    top.set_ylim(bottom=0.02 * low)
    top.set_ylabel("error above the plateau")
    top.legend(frameon=False, fontsize=8, loc="lower left")
    top.set_title(_describe(law), fontsize=9.5, loc="left", color="#333333")
    bottom.plot(n, law.column("local_exponent")[order], color=THEORY, lw=1.9, marker=mark)
    gamma = getattr(law.task.target, "gamma", None)
    guides = {"parametric rate": -1.0, **(predicted_exponents(gamma) if gamma and gamma > 0.5 else {})}
    for text, value in guides.items():
        bottom.axhline(value, color=GREY, lw=0.9, ls=":")
        bottom.annotate(
            text, (1.0, value), xycoords=("axes fraction", "data"), fontsize=8, ha="right", va="bottom", color="#444444"
        )
    bottom.set_xlabel("samples n")
    bottom.set_ylabel("local exponent\nd log(excess) / d log n")
    for each in (top, bottom):
        each.spines[["top", "right"]].set_visible(False)
    return top


def _describe(law: "Scaling") -> str:
    target = law.task.target
    gamma, dim = getattr(target, "gamma", None), len(getattr(target, "values", ()))
    decay = "best at each n" if law.optimal else f"{law.learner.decay:.4g}"
    parts = [
        rf"power law $\gamma={gamma:g}$" if gamma is not None else type(target).__name__,
        rf"$d={dim}$",
        rf"$\Delta={law.task.noise:g}$",
        rf"$T={law.task.tokens}$",
        rf"$\lambda$: {decay}",
    ]
    return ", ".join(parts)


def features(found: "Sequence[Feature]", *, axes: "Axes | None" = None) -> "Axes":
    """The target eigenvalues against the number of samples at which each is learned."""
    axes = axes if axes is not None else fresh_axes()
    axes.plot(
        [item.samples for item in found],
        [item.target for item in found],
        color=THEORY,
        lw=1.2,
        marker="o",
        ms=4,
        label="leaves the noise bulk (theory)",
    )
    for item in list(found)[:3]:
        axes.annotate(
            f"feature {item.feature}",
            (item.samples, item.target),
            xytext=(6, 3),
            textcoords="offset points",
            fontsize=8,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("samples n at which the feature appears")
    axes.set_ylabel("eigenvalue of the target")
    axes.legend(frameon=False, fontsize=8.5)
    return axes


def phases(found: "PhaseDiagram", *, axes: "Axes | None" = None) -> "Axes":
    """Local exponents as colour, mechanisms as outlined regions, predicted exponents as contours."""
    from matplotlib.colors import TwoSlopeNorm

    axes = axes if axes is not None else fresh_axes(8.2, 4.8)
    x, y = np.array(found.log_n), np.array(found.log_lambda)
    slope = found.grid("local_exponent")
    mesh = axes.pcolormesh(
        _ends(x), _ends(y), slope, cmap="RdBu_r", norm=TwoSlopeNorm(vmin=-2.0, vcenter=0.0, vmax=2.0), rasterized=True
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
    dim = len(getattr(found.task.target, "values", ()))
    axes.set_xlabel(r"$\log_d n$ (samples)")
    axes.set_ylabel(r"$\log_d \lambda$ (weight decay)")
    name = rf"power law $\gamma={gamma:g}$" if gamma is not None else type(found.task.target).__name__
    axes.set_title(
        rf"{name}, $d={dim}$, $\Delta={found.task.noise:g}$, $T={found.task.tokens}$: which mechanism limits the head",
        fontsize=9.5,
        loc="left",
        color="#333333",
    )
    return axes


def _outline(axes: "Axes", found: "PhaseDiagram", x: Any, y: Any) -> None:
    """A line around every region and its name in its middle; cells without a value are hatched."""
    regions = np.array([cell.region or "failed" for cell in found.cells]).reshape(len(y), len(x))
    left, low = _ends(x), _ends(y)
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
        axes.annotate(
            text,
            (x[inside[1]], y[inside[0]]),
            ha="center",
            va="center",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
        )


def _ends(centres: Any) -> Any:
    """Cell boundaries half-way between centres."""
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    half = 0.5 * np.diff(centres)
    return np.concatenate([[centres[0] - half[0]], centres[:-1] + half, [centres[-1] + half[-1]]])
