"""Plotly figures as plain values, in symbolic colours that are painted for the light or the dark page at the end."""

import math
from collections.abc import Sequence
from html import escape
from textwrap import wrap
from typing import Any

__all__ = ["Figure", "figure", "heatmap", "line", "mark", "marked", "narrowed", "paint", "points", "said", "show"]

Figure = dict[str, Any]

# the same roles as in onehead.plot: theory solid, training orange markers, target and helpers grey; light, then dark
COLOURS = {
    "@theory": ("#1f4e9c", "#8ab0f5"),
    "@soft": ("rgba(31,78,156,0.12)", "rgba(138,176,245,0.16)"),
    "@second": ("#2f8080", "#6cc3c0"),
    "@third": ("#8a5a9e", "#c9a0dc"),
    "@training": ("#c85a14", "#f0965a"),
    "@grey": ("#7a7f87", "#9aa1ab"),
    "@fill": ("rgba(122,127,135,0.22)", "rgba(154,161,171,0.25)"),
    "@ink": ("#22262c", "#e4e7ec"),
    "@grid": ("#e6e8ec", "#2f353e"),
    "@paper": ("rgba(0,0,0,0)", "rgba(0,0,0,0)"),
    "@label": ("#ffffff", "#1a1e24"),
}
PAINTS = {theme: {role: pair[i] for role, pair in COLOURS.items()} for i, theme in enumerate(("light", "dark"))}
LINE = 44  # characters of a sentence in a picture: as many as a narrow screen holds
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def show(value: Any) -> str:
    """A number as the page shows it: five digits, the same as ``f"{value:.5g}"``.

    Examples
    --------
    >>> show(0.135987), show(None), show(float("inf"))
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
    panel: str = "",
    smooth: bool = False,
    **more: Any,
) -> Figure:
    """A curve; values that are not finite are gaps."""
    trace = _trace("lines", x, y, name, line={"color": colour, "dash": dash, "width": width}, **more)
    if smooth:
        trace["line"] |= {"shape": "spline", "smoothing": 0.6}
    if panel:
        trace["yaxis"] = panel
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
    """Markers, with error bars where there are any."""
    trace = _trace("markers", x, y, name, marker={"color": colour, "symbol": symbol, "size": size}, **more)
    if error is not None:
        bars = [_finite(v) or 0.0 for v in error]
        trace["error_y"] = {"type": "data", "array": bars, "color": colour, "thickness": 1.3, "width": 4}
    return trace


def _trace(mode: str, x: Sequence[float], y: Sequence[float], name: str, **more: Any) -> Figure:
    values = {"x": [_finite(v) for v in x], "y": [_finite(v) for v in y]}
    return {"type": "scatter", "mode": mode, "name": name, **values, "hovertemplate": "%{x:.4g}, %{y:.5g}", **more}


def heatmap(
    x: Sequence[float], y: Sequence[float], z: Any, colours: tuple[str, str], bar: Figure, **more: Any
) -> Figure:
    """A table in colours from low to high, with a bar that says which is which."""
    scale = [[0.0, colours[0]], [1.0, colours[1]]]
    return {"type": "heatmap", "x": x, "y": y, "z": z, "colorscale": scale, "colorbar": bar, **more}


def mark(layout: Figure, x: float, text: str, *, row: int = 0) -> None:
    """A thin vertical line with its name at the top, each name on its own height; the axis is logarithmic."""
    _vertical(layout, x, line={"color": "@grey", "width": 1, "dash": "dot"})
    layout.setdefault("annotations", []).append(
        {
            "x": math.log10(x),
            "y": 1.0 - 0.052 * row,
            "yref": "paper",
            "text": text,
            "showarrow": False,
            "xanchor": "left",
            "yanchor": "top",
            "xshift": 3,
            "font": {"size": 11, "color": "@grey"},
            "bgcolor": "@label",
            "opacity": 0.92,
        }
    )


def marked(drawn: Figure, x: float, ends: tuple[float, float] = (0.0, math.inf)) -> Figure:
    """The figure with a solid line at the marked point, if that lies between the ends of the axis."""
    if ends[0] <= x <= ends[1]:
        _vertical(drawn["layout"], x, line={"color": "@theory", "width": 1.2}, opacity=0.55)
    return drawn


def _vertical(layout: Figure, x: float, **style: Any) -> None:
    ends = {"x0": x, "x1": x, "y0": 0.0, "y1": 1.0, "yref": "paper"}
    layout.setdefault("shapes", []).append({"type": "line", **ends, **style})


def figure(data: list[Figure], *, x: str, y: str, log_x: bool = False, log_y: bool = False, **layout: Any) -> Figure:
    """A figure in the style of the explorer."""
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
        "legend": {"orientation": "h", "y": -0.17, "yanchor": "top", "x": 0, "font": {"size": 12}},
        "hovermode": "closest",
        "uirevision": "keep",
        "hoverlabel": {"font": {"family": FONT}},
        **layout,
    }
    for name, extra in base.items():
        if name.startswith("yaxis") and name != "yaxis":
            base[name] = {**axis, **extra}
    return {"data": data, "layout": base}


def said(sentence: str) -> Figure:
    """A sentence in place of a picture.

    Examples
    --------
    >>> said("there is nothing to see here.")["layout"]["annotations"][0]["text"]
    'there is nothing to see here.'
    """
    hidden, middle = {"visible": False}, {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5, "showarrow": False}
    text = "<br>".join(escape(line, quote=False) for line in wrap(sentence, LINE, break_on_hyphens=False))
    return figure(
        [],
        x="",
        y="",
        xaxis=hidden,
        yaxis=hidden,
        annotations=[{**middle, "text": text, "font": {"size": 15, "color": "@ink"}}],
    )


def _logarithmic(data: list[Figure], axis: str) -> Figure:
    """A logarithmic axis: as many ticks as its decades have room for."""
    own = [trace for trace in data if f"{axis}axis" not in trace]  # the others have an axis of their own
    values = [v for trace in own for v in trace.get(axis, []) if v is not None and v > 0.0]
    decades = math.log10(max(values) / min(values)) if values else 1.0
    step = "D1" if decades < 0.9 else "D2" if decades < 2.6 else 1
    return {"type": "log", "dtick": step, "tickformat": "~g" if decades < 2.6 else ""}


def narrowed(drawn: Figure) -> Figure:
    """The same figure for a narrow screen: smaller letters, the legend clear of the axis, names further apart."""
    layout = drawn["layout"]
    layout = {**layout, "font": {**layout["font"], "size": 11}, "legend": {**layout["legend"], "y": -0.3}}
    if "annotations" in layout:
        layout["annotations"] = [
            {**note, "y": 1.0 - 1.5 * (1.0 - note["y"]), "font": {**note["font"], "size": 10}}
            if "xref" not in note  # a sentence stays in the middle
            else note
            for note in layout["annotations"]
        ]
    return {**drawn, "layout": layout}


def paint(value: Any, theme: str) -> Any:
    """Replace the symbolic colours by those of the theme.

    Examples
    --------
    >>> paint({"line": {"color": "@theory"}}, "light")
    {'line': {'color': '#1f4e9c'}}
    """
    if isinstance(value, dict):
        return {key: paint(item, theme) for key, item in value.items()}
    if isinstance(value, list):
        return [paint(item, theme) for item in value]
    if isinstance(value, str) and value.startswith("@"):
        return PAINTS[theme].get(value, value)
    return value


def _finite(value: Any) -> float | None:
    """JSON has no infinity: what is not finite is a gap."""
    number = float(value) if value is not None else math.nan
    return number if math.isfinite(number) else None
