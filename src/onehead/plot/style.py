"""One visual language for every picture.

Theory is a solid blue line, training are orange markers with error bars, the target is grey; every pair is told apart by
shape as well as by colour, and series of one panel by dash and marker as well as by shade, so that the pictures can be
read in grey.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onehead.files import Name, check_file, whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from onehead.aim.task import Task

__all__ = [
    "ACCENT", "ALPHA", "BEST", "GREY", "LAWS", "OVERLAPS", "SERIES", "THEORY", "TRAINING", "VERDICTS", "bare", "bulks",
    "cell_edges",
    "dress", "finish", "fresh_axes", "guide", "histogram", "panels", "save", "theory_line", "training_marks", "unusual",
    "write_picture",
]  # fmt: skip

THEORY = "#1f4e9c"
ACCENT = "#3a8f8f"
TRAINING = "#d1641d"
GREY = "#7a7a7a"
BEST = "#2d2d2d"  # the best possible learner, dotted wherever it stands beside others
OVERLAPS = {"q": "q = |S|²/d", "m": "m = Tr S'S*/d", "sigma": "Σ"}
LAWS = {  # of singular values: colour, line, legend
    "untied": (THEORY, "-", "untied head"),
    "tied": ("#5b8fd6", (0, (5, 1.2)), "tied head"),
    "marchenko-pastur": (ACCENT, "--", "Marchenko-Pastur"),
    "noise": (GREY, ":", "two random matrices"),
    "power-law": ("#9467bd", "-.", "power law"),
}
VERDICTS = {"low rank": "#6a3d9a", "features": TRAINING, "deformed": ACCENT, "noise": "#c9c9c9"}  # colour of each word
SHORT = 2.5  # decades of an axis that has numbers within them
SERIES_MARK = "onehead-series"  # what the main line of every call is marked with
JOURNAL: dict[Any, Any] = {
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "none",
}  # text stays text, in fonts that journals take
ALPHA = r"samples per squared dimension, $\alpha = n/d^2$"


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


def fresh_axes(width: float = 6.4, height: float = 4.0) -> "Axes":
    """Axes on a new figure, without a window."""
    from matplotlib.figure import Figure

    axes = Figure(figsize=(width, height), layout="constrained").subplots()
    bare(axes, label_size=10.0)
    return axes


def panels(rows: int = 1, columns: int = 1, *, width: float = 4.3, height: float = 3.5) -> "tuple[Figure, list[Axes]]":
    """A new figure with a grid of panels, in reading order."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width * columns, height * rows), layout=ConstrainedLayoutEngine(wspace=0.06))
    found = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in found:
        bare(axes)
    return figure, found


def bare(axes: "Axes", label_size: float = 8.5) -> None:
    """No frame on top and right."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(direction="out", length=3, labelsize=label_size)


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


def dress(
    axes: "Axes",
    xlabel: str,
    ylabel: str,
    title: str = "",
    *,
    log: str = "",
    legend: str | None = "best",
    ylim: Sequence[float | None] | None = None,
    label_size: float = 10.0,
    title_size: float = 9.5,
    **options: Any,
) -> "Axes":
    """Labels, scales (``log`` names the axes with a logarithm), limits and legend of a picture, and the axes back.

    ``legend`` says where it stands; ``options`` are its own.
    """
    axes.set_xlabel(xlabel, fontsize=label_size)
    axes.set_ylabel(ylabel, fontsize=label_size)
    if title:
        axes.set_title(title, fontsize=title_size, loc="left", color="#333333")
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    if ylim is not None:
        if ylim[1] is None:  # as high as what is drawn, also by calls before
            axes.autoscale(axis="y")
        axes.set_ylim(*ylim)
    for axis in (axes.xaxis, axes.yaxis):
        _ticks(axis)
    once: dict[str, Any] = {}  # what several curves have in common is said once, and after them
    entries = [*zip(*axes.get_legend_handles_labels(), strict=True)]
    main = [pair for pair in entries if getattr(pair[0], "get_gid", str)() == SERIES_MARK]
    for handle, name in (*main, *entries) if len(main) > 1 else entries:
        once.setdefault(name, handle)
    if legend is not None and once:
        look: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "loc": legend, **options}
        axes.legend([*once.values()], [*once], **look)
    return axes


def _ticks(axis: Any) -> None:
    """Numbers on a logarithmic axis that do not meet: at 1, 2, 5 where it is short, at powers of ten where it is long."""
    if axis.get_scale() != "log":
        return
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    decades = np.log10(high / low) if low > 0.0 else np.inf
    if decades < SHORT:
        axis.set_major_locator(LogLocator(subs=[1.0, 2.0, 5.0] if decades > 0.7 else [float(i) for i in range(1, 10)]))
        axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def finish(axes: "Axes", xlabel: str, ylabel: str, title: str = "", **options: Any) -> None:
    """The same for a panel of several, in smaller letters."""
    dress(axes, xlabel, ylabel, title, **{"label_size": 9.5, "fontsize": 7.8, **options})


def bulks(x: NDArray[Any], density: NDArray[Any], count: int) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """The parts of a density that belong to each of its bulks, which have as many points each."""
    size = len(x) // max(count, 1)
    for start in range(0, count * size, max(size, 1)):
        yield x[start : start + size], density[start : start + size]


def unusual(task: "Task") -> list[str]:
    """What is not usual about a head, in words.

    Examples
    --------
    >>> from onehead.aim import Task
    >>> unusual(Task()), unusual(Task(attention="cross", mask="causal", labels="hard"))
    ([], ['cross', 'causal mask', 'hard labels'])
    """
    words = {"attention": "{}", "mask": "{} mask", "labels": "{} labels"}
    defaults = {name: type(task).model_fields[name].default for name in words}
    return [text.format(own) for name, text in words.items() if (own := getattr(task, name)) != defaults[name]]


def cell_edges(centres: ArrayLike) -> NDArray[np.float64]:
    """Borders of cells half-way between their centres; a single cell is one wide."""
    x = np.asarray(centres, dtype=float)
    half = 0.5 * np.diff(x) if x.size > 1 else np.array([0.5])
    return np.concatenate([[x[0] - half[0]], x[:-1] + half[: x.size - 1], [x[-1] + half[-1]]])


def save(axes: "Axes", path: Name) -> None:
    """Write the figure of the axes to a file, as PNG unless its name ends otherwise; an older file stays until it is whole."""
    named = Path(path)
    write_picture(axes.figure, named if named.suffix else named.with_name(f"{named.name}.png"), dpi=160)


def write_picture(figure: Any, path: Path, **options: Any) -> None:
    """Write a figure in the format that the name of its file ends in."""
    formats = [f".{ending}" for ending in figure.canvas.get_supported_filetypes()]
    check_file("path", path, endings=formats)
    import matplotlib

    with whole_file(path, "path") as part, matplotlib.rc_context(JOURNAL):
        figure.savefig(part, format=path.suffix[1:].lower(), **options)
