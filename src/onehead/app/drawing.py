"""Plotly figures as plain dictionaries, with symbolic colours (``@theory``) that the page replaces by its theme's."""

import math
from collections.abc import Sequence
from html import escape
from textwrap import wrap
from typing import Any

Figure = dict[str, Any]

LABEL_HEIGHT = 16  # pixels of a line of names above a plot
RIGHT_SHARE = 0.7  # of the horizontal axis, beyond which a name stands to the left of its line

# role -> colour in the light and in the dark theme; the roles are those of onehead.plot
COLOURS = {
    "@theory": ("#1f4e9c", "#8ab0f5"),
    "@soft": ("rgba(31,78,156,0.12)", "rgba(138,176,245,0.16)"),
    "@pale": ("#eef3fb", "#1d2838"),
    "@deep": ("#7396d1", "#46659f"),  # the other end of a map: lines and labels in @ink are legible on both
    "@second": ("#2f8080", "#6cc3c0"),
    "@third": ("#8a5a9e", "#c9a0dc"),
    "@training": ("#c85a14", "#f0965a"),
    "@optimum": ("#a3286f", "#f08cc4"),
    "@target": ("#5c636d", "#a3abb6"),
    "@grey": ("#7a7f87", "#9aa1ab"),
    "@fill": ("rgba(122,127,135,0.22)", "rgba(154,161,171,0.25)"),
    "@ink": ("#22262c", "#e4e7ec"),
    "@grid": ("#e6e8ec", "#2f353e"),
    "@paper": ("rgba(0,0,0,0)", "rgba(0,0,0,0)"),
    "@label": ("#ffffff", "#1a1e24"),
}
THEME_COLOURS = {theme: {role: pair[i] for role, pair in COLOURS.items()} for i, theme in enumerate(("light", "dark"))}
MAX_LINE_LENGTH = 44  # characters per line of a sentence in a picture, so that it fits a narrow screen
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def format_value(value: Any) -> str:
    """Format a value for the page: a number with five digits, as ``f"{value:.5g}"``; None and NaN as a dash.

    Examples
    --------
    >>> format_value(0.135987), format_value(None), format_value(float("inf"))
    ('0.13599', '–', '∞')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        if math.isinf(value):
            return "∞" if value > 0 else "-∞"
        return "–" if math.isnan(value) else f"{value:.5g}"
    return str(value)


def line(
    x: Sequence[float],
    y: Sequence[float],
    name: str,
    *,
    colour: str = "@theory",
    dash: str = "solid",
    width: float = 2.2,
    smooth: bool = False,
    dots: bool = False,
    **more: Any,
) -> Figure:
    """Return a curve; values that are not finite are gaps.

    ``smooth`` draws a spline through the points, ``dots`` also marks them; ``more`` are other properties of a plotly
    trace, such as ``yaxis``.
    """
    trace = _trace("lines", x, y, name, line={"color": colour, "dash": dash, "width": width}, **more)
    if dots:
        trace |= {"mode": "lines+markers", "marker": {"color": colour, "size": 5}}
    if smooth or dots:
        trace["line"] |= {"shape": "spline", "smoothing": 0.6}
    return trace


def points(
    x: Sequence[float],
    y: Sequence[float],
    name: str,
    *,
    colour: str = "@training",
    symbol: str = "circle",
    size: int = 8,
    error: Sequence[float] | None = None,
    **more: Any,
) -> Figure:
    """Return markers, with error bars of half length ``error`` if given."""
    trace = _trace("markers", x, y, name, marker={"color": colour, "symbol": symbol, "size": size}, **more)
    if error is not None:
        bars = [_finite(v) or 0.0 for v in error]
        trace["error_y"] = {"type": "data", "array": bars, "color": colour, "thickness": 1.3, "width": 4}
    return trace


def _trace(mode: str, x: Sequence[float], y: Sequence[float], name: str, **more: Any) -> Figure:
    values = {"x": [_finite(v) for v in x], "y": [_finite(v) for v in y]}
    return {"type": "scatter", "mode": mode, "name": name, **values, **more}


def heatmap(
    x: Sequence[Any], y: Sequence[Any], z: Any, colours: tuple[str, ...], bar: Figure | None, **more: Any
) -> Figure:
    """Return a table drawn in colours from low to high; ``bar`` describes the colour bar, None leaves it out."""
    scale = [[i / (len(colours) - 1), colour] for i, colour in enumerate(colours)]
    key = {"colorbar": bar} if bar is not None else {"showscale": False}
    return {"type": "heatmap", "x": x, "y": y, "z": z, "colorscale": scale, **key, **more}


def contour_levels(z: Sequence[Sequence[float | None]]) -> Figure:
    """Return round contour levels that divide the range of a table into at most twelve parts.

    Examples
    --------
    >>> contour_levels([[0.08, 0.3], [None, 0.21]])
    {'start': 0.08, 'end': 0.3, 'size': 0.02}
    """
    cells = [cell for row in z for cell in row if cell is not None]
    low, high = min(cells, default=0.0), max(cells, default=1.0)
    least = max(high - low, 1e-12) / 12.0
    decade = 10.0 ** math.floor(math.log10(least))
    size = next(step * decade for step in (1.0, 2.0, 5.0, 10.0) if step * decade >= least)
    ends = math.ceil(low / size - 1e-9) * size, math.floor(high / size + 1e-9) * size
    return {"start": round(ends[0], 12), "end": round(ends[1], 12), "size": round(size, 12)}


def contours(
    x: Sequence[float], y: Sequence[float], z: Any, name: str, hover: str, levels: Figure | None = None, **more: Any
) -> Figure:
    """Return contour lines of a table over interpolated colours; without ``levels`` there are about twelve."""
    scale = [[0.0, "@deep"], [1.0, "@pale"]]
    lines = {"showlabels": True, "coloring": "heatmap", "labelfont": {"size": 10, "color": "@ink"}, **(levels or {})}
    bar = {"title": {"text": name, "side": "right"}, "thickness": 12}
    found = {
        "type": "contour",
        "name": name,
        "x": x,
        "y": y,
        "z": z,
        "colorscale": scale,
        "colorbar": bar,
        "contours": lines,
    }
    return {
        **found,
        "line": {"width": 0.7, "color": "@ink"},
        **({"autocontour": False} if levels else {"ncontours": 12}),
        "hovertemplate": hover,
        **more,
    }


def add_vertical_mark(layout: Figure, x: float, text: str, *, row: int = 0, log: bool = True) -> None:
    """Add a thin dotted vertical line at ``x`` of a (logarithmic) axis, with its name above the plot in line ``row``.

    The name stands outside the plot, because a curve often has its peak at the line.
    """
    _add_vertical_line(layout, x, line={"color": "@grey", "width": 1, "dash": "dot"})
    at = math.log10(x) if log else x
    low, high = layout["xaxis"].get("range", (-math.inf, math.inf))
    near_the_end = (at - low) > RIGHT_SHARE * (high - low) if math.isfinite(high - low) else False
    layout.setdefault("annotations", []).append(
        {
            "x": at,
            "y": 1.0,
            "yref": "paper",
            "yshift": LABEL_HEIGHT * row,
            "text": text,
            "showarrow": False,
            "xanchor": "right" if near_the_end else "left",
            "yanchor": "bottom",
            "xshift": -3 if near_the_end else 3,
            "font": {"size": 11, "color": "@grey"},
        }
    )
    layout["margin"] = {**layout["margin"], "t": max(layout["margin"]["t"], LABEL_HEIGHT * (row + 1) + 4)}


def with_marked_point(chart: Figure, x: float, ends: tuple[float, float] = (0.0, math.inf), *, by: str) -> Figure:
    """Add a solid vertical line at the marked point to a figure, if it lies between the ends of the axis.

    ``by`` names the knob that dragging the line moves; with several names, as in "alpha0 alpha1", their ratio is kept.
    """
    chart["layout"]["meta"] = {"by": by, "at": x}
    if ends[0] <= x <= ends[1]:
        _add_vertical_line(chart["layout"], x, line={"color": "@theory", "width": 1.2}, opacity=0.55)
    return chart


def _add_vertical_line(layout: Figure, x: float, **style: Any) -> None:
    ends = {"x0": x, "x1": x, "y0": 0.0, "y1": 1.0, "yref": "paper"}
    layout.setdefault("shapes", []).append({"type": "line", **ends, **style})


def figure(data: list[Figure], *, x: str, y: str, log_x: bool = False, log_y: bool = False, **layout: Any) -> Figure:
    """Return a figure in the style of the explorer; ``layout`` are plotly properties that extend or replace its own."""
    axis = {
        "gridcolor": "@grid",
        "zerolinecolor": "@grid",
        "linecolor": "@grey",
        "ticks": "outside",
        "tickcolor": "@grey",
        "automargin": True,
        "exponentformat": "power",
    }
    horizontal = {**axis, "title": {"text": x, "standoff": 8}, **(_logarithmic(data, "x") if log_x else {})}
    vertical = {**axis, "title": {"text": y, "standoff": 6}, **(_logarithmic(data, "y") if log_y else {})}
    base: Figure = {
        "xaxis": {**horizontal, **layout.pop("xaxis", {})},
        "yaxis": {**vertical, **layout.pop("yaxis", {})},
        "font": {"family": FONT, "size": 13, "color": "@ink"},
        "paper_bgcolor": "@paper",
        "plot_bgcolor": "@paper",
        "margin": {"l": 62, "r": 16, "t": 12, "b": 48},
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "font": {"size": 12}},
        "hovermode": "closest",
        "hoverlabel": {"font": {"family": FONT}},
        **layout,
    }
    for name, extra in base.items():
        if name.startswith("yaxis") and name != "yaxis":
            base[name] = {**axis, **extra}
    for trace in data:
        if trace["type"] == "scatter":
            trace.setdefault("hovertemplate", _hover_template(trace, base))
    return {"data": data, "layout": base}


def _hover_template(trace: Figure, layout: Figure) -> str:
    """Return the text beside the pointer: the name of the curve, and both values with the titles of their axes."""
    x_title = layout["xaxis"]["title"]["text"]
    y_title = layout["yaxis" + trace.get("yaxis", "y")[1:]].get("title", {}).get("text", "")
    return f"<b>{trace['name']}</b><br>{x_title}: %{{x:.4g}}<br>{y_title}: %{{y:.5g}}<extra></extra>"


def alt_text(chart: Figure, caption: str) -> str:
    """Describe a figure in words: its axes, where each curve begins and ends, its notes, and the caption.

    Examples
    --------
    >>> alt_text(figure([line([1.0, 2.0], [0.5, 0.25], "test error")], x="samples", y="error"), "Two points.")
    'error against samples. test error: from 0.5 at 1 to 0.25 at 2, falling. Two points.'
    """
    layout = chart["layout"]
    x_title, y_title = (layout[axis].get("title", {}).get("text", "") for axis in ("xaxis", "yaxis"))
    notes = [note["text"].replace("<br>", " ") for note in layout.get("annotations", []) if "xref" in note]
    parts = [f"{y_title} against {x_title}"] if x_title and y_title else []
    parts += [_describe_trace(trace) for trace in chart["data"]]
    return " ".join(f"{part.rstrip('.')}." for part in (*parts, *notes, caption) if part)


def _describe_trace(trace: Figure) -> str:
    """Describe one curve, table or bar in words."""
    name = trace.get("name", "")
    if trace["type"] != "scatter":
        shape = " by ".join(str(len(trace[axis])) for axis in ("y", "x") if axis in trace)
        return name if trace["type"] == "bar" else f"{name or 'map'}: {shape} cells"
    pairs = [(x, y) for x, y in zip(trace["x"], trace["y"], strict=True) if x is not None and y is not None]
    if not pairs:
        return f"{name}: nothing to draw"
    (x0, y0), (x1, y1) = pairs[0], pairs[-1]
    if isinstance(y0, str):  # rows with names in the place of a vertical axis
        return f"{name}: {format_value(x0)}"
    if len(pairs) == 1:
        return f"{name}: {format_value(y0)} at {format_value(x0)}"
    low, high = min(y for _, y in pairs), max(y for _, y in pairs)
    ends = f"from {format_value(y0)} at {format_value(x0)} to {format_value(y1)} at {format_value(x1)}"
    edge = 0.02 * (high - low)
    if high > max(y0, y1) + edge:
        return f"{name}: {ends}, highest {format_value(high)} at {format_value(next(x for x, y in pairs if y == high))}"
    if low < min(y0, y1) - edge:
        return f"{name}: {ends}, lowest {format_value(low)} at {format_value(next(x for x, y in pairs if y == low))}"
    return f"{name}: {ends}, {'level' if y0 == y1 else 'falling' if y1 < y0 else 'rising'}"


def text_figure(sentence: str) -> Figure:
    """Return a figure that shows only a sentence, in place of a picture.

    Examples
    --------
    >>> text_figure("The solver did not converge.")["layout"]["annotations"][0]["text"]
    'The solver did not converge.'
    """
    hidden, middle = {"visible": False}, {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5, "showarrow": False}
    text = "<br>".join(escape(line, quote=False) for line in wrap(sentence, MAX_LINE_LENGTH, break_on_hyphens=False))
    return figure(
        [],
        x="",
        y="",
        xaxis=hidden,
        yaxis=hidden,
        annotations=[{**middle, "text": text, "font": {"size": 15, "color": "@ink"}}],
    )


def _logarithmic(data: list[Figure], axis: str) -> Figure:
    """Return the properties of a logarithmic axis, with fewer ticks per decade the more decades it covers."""
    own = [trace for trace in data if f"{axis}axis" not in trace]  # others are drawn on a second axis
    values = [v for trace in own for v in trace.get(axis, []) if v is not None and v > 0.0]
    decades = math.log10(max(values) / min(values)) if values else 1.0
    step = "D1" if decades < 0.9 else "D2" if decades < 2.6 else 1
    return {"type": "log", "dtick": step, "tickformat": "~g" if decades < 2.6 else ""}


def _finite(value: Any) -> float | None:
    """Return a number that JSON can hold; None, a gap in a curve, where it is not finite."""
    number = float(value) if value is not None else math.nan
    return number if math.isfinite(number) else None
