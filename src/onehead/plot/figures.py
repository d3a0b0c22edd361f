"""The common language of all figures: theory as blue lines, training as orange markers with bars, the target in grey.

Series of one panel differ by dash and marker as well as by shade, so that they can be told apart without colour.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from onehead.plot.style import GREY, THEORY, TRAINING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SERIES", "bare", "finish", "guide", "histogram", "panels", "theory_line", "training_marks"]


class Series(NamedTuple):
    """How the k-th series of a panel looks."""

    line: str
    dash: Any
    marks: str
    marker: str
    filled: bool


SERIES = (
    Series(THEORY, "-", TRAINING, "o", True),
    Series("#5b8fd6", "--", "#e39a5c", "s", False),
    Series("#0c2a57", "-.", "#8f3f0c", "^", True),
    Series("#8fb4e8", (0, (1, 1.2)), "#f0b98c", "D", False),
    Series("#3f6fb5", (0, (5, 1.2, 1, 1.2, 1, 1.2)), "#c9822f", "v", True),
    Series("#16407f", (0, (8, 2)), "#a8551c", "P", False),
)


def panels(rows: int = 1, columns: int = 1, *, width: float = 4.3, height: float = 3.5) -> "tuple[Figure, list[Axes]]":
    """A new figure with a grid of panels, in reading order."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width * columns, height * rows), layout=ConstrainedLayoutEngine(wspace=0.06))
    found = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in found:
        bare(axes)
    return figure, found


def bare(axes: "Axes") -> None:
    """No frame on top and right."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(direction="out", length=3, labelsize=8.5)


def theory_line(axes: "Axes", x: ArrayLike, y: ArrayLike, label: str | None = None, k: int = 0, **style: Any) -> None:
    """A predicted curve; points without an answer leave a gap."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    order = np.argsort(a)
    look = SERIES[k % len(SERIES)]
    axes.plot(a[order], b[order], **{"color": look.line, "ls": look.dash, "lw": 1.8, "label": label, **style})


def training_marks(
    axes: "Axes", x: ArrayLike, y: ArrayLike, error: ArrayLike, label: str | None = None, k: int = 0, **style: Any
) -> None:
    """Measured means with standard errors."""
    look = SERIES[k % len(SERIES)]
    axes.errorbar(
        np.asarray(x, dtype=float),
        np.asarray(y, dtype=float),
        yerr=np.nan_to_num(np.asarray(error, dtype=float)),
        **{
            "color": look.marks,
            "marker": look.marker,
            "markerfacecolor": look.marks if look.filled else "white",
            "ls": "none",
            "ms": 4.6,
            "lw": 1.1,
            "capsize": 2.0,
            "label": label,
            "zorder": 5,
            **style,
        },
    )


def histogram(axes: "Axes", values: ArrayLike, *, share: float = 1.0, bins: int = 30, label: str | None = None) -> None:
    """Histogram of measured values whose area is ``share``."""
    found = np.asarray(values, dtype=float)
    if not found.size:
        return
    heights, edges = np.histogram(found, bins=bins)
    axes.stairs(
        heights * share / (found.size * np.diff(edges)),
        edges,
        fill=True,
        color=TRAINING,
        alpha=0.45,
        label=label,
    )


def guide(
    axes: "Axes",
    *,
    x: float | None = None,
    y: float | None = None,
    text: str = "",
    at: float = 0.98,
    before: bool = False,
) -> None:
    """A thin grey dotted line across the panel, named; ``at`` places the name along it, ``before`` left of it."""
    if x is not None:
        axes.axvline(x, color=GREY, lw=0.9, ls=":", zorder=1)
        axes.annotate(
            text, (x, at), xycoords=("data", "axes fraction"), xytext=(-2 if before else 3, 0), textcoords="offset points",
            fontsize=7.5, color="#444444", va="top", ha="right" if before else "left", rotation=90,
        )  # fmt: skip
    if y is not None:
        axes.axhline(y, color=GREY, lw=0.9, ls=":", zorder=1)
        axes.annotate(
            text,
            (at, y),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            fontsize=7.5,
            color="#444444",
            ha="right",
            va="bottom",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6},
            zorder=4,
        )  # fmt: skip  (a light ground: curves may pass behind the words)


def finish(
    axes: "Axes",
    xlabel: str,
    ylabel: str,
    title: str = "",
    *,
    log: str = "",
    legend: str | None = "best",
    ylim: Sequence[float | None] | None = None,
    **options: Any,
) -> None:
    """Labels, scales (``log`` names the axes with a logarithm), limits and legend of a panel."""
    axes.set_xlabel(xlabel, fontsize=9.5)
    axes.set_ylabel(ylabel, fontsize=9.5)
    axes.set_title(title, fontsize=9.5, loc="left", color="#333333")
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    if ylim is not None:
        axes.set_ylim(*ylim)
    if legend is not None and axes.get_legend_handles_labels()[0]:
        look: dict[str, Any] = {"frameon": False, "fontsize": 7.8, "loc": legend, **options}
        axes.legend(**look)
