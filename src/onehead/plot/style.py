"""Colours, line styles and helpers that all figures share.

A colour has one meaning: theory is blue, training and other measurements orange, the target grey, the best possible
learner dark and dotted, an optimum magenta; the three models of sparse tokens have a colour each. Theory and training
differ by shape as well as by colour, and the series of one panel by dash and marker as well as by shade, so that the
figures can be read without colours. No other module of `plot` or `figures` defines a colour.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onehead.atomic_io import Name, atomic_file, check_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from onehead.aim.task import Task

THEORY = "#1f4e9c"
ACCENT = "#3a8f8f"
TRAINING = "#d1641d"
GREY = "#7a7a7a"
BEST = "#2d2d2d"  # the best possible learner, always dotted
BEST_LABEL = "best possible (known model)"
BEST_STYLE: dict[str, Any] = {"color": BEST, "linestyle": ":", "linewidth": 1.6}
OPTIMUM = "#a3286f"  # an optimum, such as the best weight decay, and lines that mark one
PURPLE, AMBER, PALE_BLUE = "#6a4a9c", "#b8860b", "#5b8fd6"  # further series of one panel
TEXT, RULE, TARGET_FILL, TARGET_LINE = "#333333", "#bbbbbb", "#d9d9d9", "#9a9a9a"
OVERLAY_COLOURS = (THEORY, "#b5403a", ACCENT, PURPLE, AMBER, GREY)  # of successive calls
MODEL_COLOURS = {"attention": THEORY, "pooled": PURPLE, "vectorised": ACCENT}  # models of sparse tokens
OVERLAP_LABELS = {"q": "q = |S|²/d", "m": "m = Tr S'S*/d", "sigma": "Σ"}
LAW_STYLES = {  # laws of singular values: colour, dash, label
    "untied": (THEORY, "-", "untied head"),
    "tied": (PALE_BLUE, (0, (5, 1.2)), "tied head"),
    "marchenko-pastur": (ACCENT, "--", "Marchenko-Pastur"),
    "noise": (GREY, ":", "two random matrices"),
    "power-law": (PURPLE, "-.", "power law"),
}
VERDICT_COLOURS = {"low rank": PURPLE, "features": AMBER, "deformed": ACCENT, "noise": "#c9c9c9"}
SHORT_AXIS_DECADES = 2.5  # logarithmic axes shorter than this have labels between powers of ten
SERIES_GID = "onehead-series"  # group of the main line of every call
# text in vector files stays text, in TrueType fonts, which journals accept
JOURNAL_FONTS: dict[Any, Any] = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none"}
ALPHA_LABEL = r"samples per squared dimension, $\alpha = n/d^2$"


class SeriesStyle(NamedTuple):
    """Style of one series of a panel: colour and dash of its line, colour, shape and filling of its markers."""

    line: str
    dash: Any
    marks: str
    marker: str
    filled: bool


SERIES_STYLES = (
    SeriesStyle(THEORY, "-", TRAINING, "o", True),
    SeriesStyle("#5b8fd6", "--", "#e39a5c", "s", False),
    SeriesStyle("#0c2a57", "-.", "#8f3f0c", "^", True),
    SeriesStyle("#8fb4e8", (0, (1, 1.2)), "#f0b98c", "D", False),
    SeriesStyle("#3f6fb5", (0, (5, 1.2, 1, 1.2, 1, 1.2)), "#c9822f", "v", True),
    SeriesStyle("#16407f", (0, (8, 2)), "#a8551c", "P", False),
)


def fresh_axes(width: float = 6.4, height: float = 4.0) -> "Axes":
    """Return axes on a new figure, without opening a window.

    Parameters
    ----------
    width, height : float
        Size of the figure in inches, both positive.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    ValueError
        If a size is not finite or negative.

    Examples
    --------
    >>> axes = fresh_axes(5.0, 3.0)
    >>> [float(size) for size in axes.figure.get_size_inches()]
    [5.0, 3.0]
    """
    from matplotlib.figure import Figure

    axes = Figure(figsize=(width, height), layout="constrained").subplots()
    despine(axes, label_size=10.0)
    return axes


def panels(rows: int = 1, columns: int = 1, *, width: float = 4.3, height: float = 3.5) -> "tuple[Figure, list[Axes]]":
    """Return a new figure with a grid of panels, in reading order; the size is that of one panel in inches."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width * columns, height * rows), layout=ConstrainedLayoutEngine(wspace=0.06))
    found = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in found:
        despine(axes)
    return figure, found


def despine(axes: "Axes", label_size: float = 8.5) -> None:
    """Remove the frame at the top and on the right, and set the size of the tick labels."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(direction="out", length=3, labelsize=label_size)


def theory_line(axes: "Axes", x: ArrayLike, y: ArrayLike, label: str | None = None, k: int = 0, **style: Any) -> None:
    """Draw a predicted curve in the style of the k-th series; missing values (NaN) leave a gap."""
    a, b = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    order = np.argsort(a)
    look = SERIES_STYLES[k % len(SERIES_STYLES)]
    axes.plot(a[order], b[order], **{"color": look.line, "ls": look.dash, "lw": 1.8, "label": label, **style})


def training_marks(
    axes: "Axes", x: ArrayLike, y: ArrayLike, error: ArrayLike, label: str | None = None, k: int = 0, **style: Any
) -> None:
    """Draw measured means with standard errors in the style of the k-th series."""
    look = SERIES_STYLES[k % len(SERIES_STYLES)]
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
    """Draw a histogram of measured values with area ``share``."""
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
    """Draw a thin dotted line at ``x`` or ``y`` across the panel, with a text at the fraction ``at`` of its length.

    ``before`` places the text of a vertical line on its left.
    """
    if x is not None:
        axes.axvline(x, color=GREY, lw=0.9, ls=":", zorder=1)
        axes.annotate(
            text,
            (x, at),
            xycoords=("data", "axes fraction"),
            xytext=(-2 if before else 3, 0),
            textcoords="offset points",
            fontsize=7.5,
            color="#444444",
            va="top",
            ha="right" if before else "left",
            rotation=90,
        )
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
        )  # fmt: skip  (with a light background, because curves may pass behind the text)


def finish_axes(
    axes: "Axes",
    xlabel: str,
    ylabel: str,
    title: str = "",
    *,
    log: str = "",
    legend: str | None = "best",
    ylim: Sequence[float | None] | None = None,
    label_size: float = 10.0,
    **options: Any,
) -> "Axes":
    """Set labels, scales, limits and legend of axes, and return them.

    ``log`` contains the letters of the logarithmic axes, ``legend`` is the location of the legend or None, and
    ``options`` are passed to it.
    """
    axes.set_xlabel(xlabel, fontsize=label_size)
    axes.set_ylabel(ylabel, fontsize=label_size)
    if title:
        axes.set_title(title, fontsize=9.5, loc="left", color="#333333")
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    if ylim is not None:
        if ylim[1] is None:  # include the lines of earlier calls
            axes.autoscale(axis="y")
        axes.set_ylim(*ylim)
    for axis in (axes.xaxis, axes.yaxis):
        _set_log_ticks(axis)
    # labels that several curves share appear once, after the labels of the curves themselves
    unique: dict[str, Any] = {}
    entries = [*zip(*axes.get_legend_handles_labels(), strict=True)]
    main = [pair for pair in entries if getattr(pair[0], "get_gid", str)() == SERIES_GID]
    for handle, name in (*main, *entries) if len(main) > 1 else entries:
        unique.setdefault(name, handle)
    if legend is not None and unique:
        style: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "loc": legend, **options}
        axes.legend([*unique.values()], [*unique], **style)
    return axes


def _set_log_ticks(axis: Any) -> None:
    """Label a logarithmic axis without overlaps: at 1, 2, 5 if it is short, at powers of ten if it is long."""
    if axis.get_scale() != "log":
        return
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    decades = np.log10(high / low) if low > 0.0 else np.inf
    if decades < SHORT_AXIS_DECADES:
        axis.set_major_locator(LogLocator(subs=[1.0, 2.0, 5.0] if decades > 0.7 else [float(i) for i in range(1, 10)]))
        axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def finish_panel(axes: "Axes", xlabel: str, ylabel: str, title: str = "", **options: Any) -> None:
    """Set labels, scales, limits and legend of one of several panels, in smaller letters than `finish_axes`."""
    finish_axes(axes, xlabel, ylabel, title, **{"label_size": 9.5, "fontsize": 7.8, **options})


def split_bulks(x: NDArray[Any], density: NDArray[Any], count: int) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield the parts of a tabulated density that belong to each of its ``count`` bulks, which have equal sizes."""
    size = len(x) // max(count, 1)
    for start in range(0, count * size, max(size, 1)):
        yield x[start : start + size], density[start : start + size]


def nondefault_settings(task: "Task") -> list[str]:
    """Return short descriptions of the settings of a head that are not the default, for titles.

    Examples
    --------
    >>> from onehead.aim import Task
    >>> nondefault_settings(Task()), nondefault_settings(Task(attention="cross", mask="causal", labels="hard"))
    ([], ['cross', 'causal mask', 'hard labels'])
    """
    texts = {"attention": "{}", "mask": "{} mask", "labels": "{} labels"}
    defaults = {name: type(task).model_fields[name].default for name in texts}
    values = {"attention": task.attention, "mask": task.mask_name, "labels": task.labels}
    return [text.format(values[name]) for name, text in texts.items() if values[name] != defaults[name]]


def cell_edges(centres: ArrayLike) -> NDArray[np.float64]:
    """Return the edges of cells, half-way between their centres; a single cell has width one."""
    x = np.asarray(centres, dtype=float)
    half = 0.5 * np.diff(x) if x.size > 1 else np.array([0.5])
    return np.concatenate([[x[0] - half[0]], x[:-1] + half[: x.size - 1], [x[-1] + half[-1]]])


def save(axes: "Axes", path: Name) -> None:
    """Write the figure of the axes to a file; an existing file is replaced only once the new one is complete.

    Parameters
    ----------
    axes : matplotlib Axes
        Axes of the figure.
    path : str or Path
        File to write; its suffix gives the format, PNG if it has none.

    Returns
    -------
    None

    Raises
    ------
    InvalidArgument
        If the format is unknown or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(fresh_axes(), f"{folder}/empty.svg")
    ...     Path(folder, "empty.svg").exists()
    True
    """
    named = Path(path)
    write_picture(axes.figure, named if named.suffix else named.with_name(f"{named.name}.png"), dpi=160)


def write_picture(figure: Any, path: Path, **options: Any) -> None:
    """Write a figure in the format given by the suffix of its file; ``options`` are those of ``savefig``."""
    formats = [f".{ending}" for ending in figure.canvas.get_supported_filetypes()]
    check_file("path", path, endings=formats)
    import matplotlib

    with atomic_file(path, "path") as part, matplotlib.rc_context(JOURNAL_FONTS):
        figure.savefig(part, format=path.suffix[1:].lower(), **options)
