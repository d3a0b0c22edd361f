"""Drawing of the head view: maps and attention of teacher and learner side by side, spectra, and a row of attention."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.app.drawing import Figure, figure, heatmap, points

Array = NDArray[np.float64]

# labels of the tokens, which are random vectors: a word has no meaning here, but it can be pointed at and talked about
QUERY_WORDS = ("a", "small", "cat", "sat", "on", "the", "old", "mat")
KEY_WORDS = ("un", "petit", "chat", "dort", "sur", "son", "vieux", "tapis")  # of the other sequence in cross-attention
FIRST_ROW = 2  # token whose row of attention is shown first; the page shows that of the token pointed at
COLUMNS, ROWS = ([0.0, 0.29], [0.345, 0.635], [0.735, 1.0]), ([0.58, 1.0], [0.0, 0.42])


class HeadPanels(NamedTuple):
    """What is drawn of teacher and learner, in this order: maps, attention, eigenvalues or singular values."""

    maps: tuple[Array, Array]
    attention: tuple[Array, Array]
    values: tuple[list[float], list[float]]
    spectral_value: str


def _words(words: tuple[str, ...], count: int) -> list[str]:
    """Return labels of tokens: words, then numbers."""
    return [words[i] if i < len(words) else str(i + 1) for i in range(count)]


def draw_head(panels: HeadPanels, attention: str) -> Figure:
    """Draw two columns, teacher and learner, with map and attention; beside them both spectra and a row of attention.

    Parameters
    ----------
    panels : HeadPanels
    attention : str
        Kind of attention; the keys of cross-attention are another sequence.
    """
    count = len(panels.attention[0])
    queries = _words(QUERY_WORDS, count)
    keys = _words(KEY_WORDS if attention == "cross" else QUERY_WORDS, count)
    ranks = list(range(1, len(panels.maps[0]) + 1))
    most = float(np.abs(panels.maps[0]).max())
    row = min(FIRST_ROW, count - 1)
    data: list[Figure] = []
    for i, (name, colour) in enumerate((("teacher", "@grey"), ("learner", "@theory"))):
        weights = panels.attention[i].round(4).tolist()
        data += [
            heatmap(
                ranks, ranks, panels.maps[i].round(4).tolist(), ("@second", "@label", "@theory"), None,
                zmin=-most, zmax=most, name=f"map of the {name}", **_on(1 + i),
                hovertemplate="entry %{y}, %{x} of S: %{z:.3f}<extra></extra>",
            ),
            points(
                ranks, panels.values[i], f"values of the {('target', 'learner')[i]}", colour=colour, size=5 + i,
                showlegend=False, **_on(3),
            ),
            heatmap(
                keys, queries, weights, ("@label", "@theory"), None, zmin=0.0, zmax=1.0,
                name=f"attention of the {name}", **_on(4 + i),
                hovertemplate="token %{y} attends to token %{x}: %{z:.1%}<extra></extra>",
            ),
        ]  # fmt: skip
    for i, (name, colour) in enumerate((("teacher", "@grey"), ("learner", "@theory"))):
        bar = {"type": "bar", "name": f"row of the {name}", "x": keys, "marker": {"color": colour}, "showlegend": False}
        hover = f"{name}: %{{y:.1%}} on %{{x}}<extra></extra>"
        data.append({**bar, "y": data[3 * i + 2]["z"][row], "hovertemplate": hover, **_on(6)})
    chart = figure(data, x="", y="", barmode="group", bargap=0.25, **_axes(panels.values))
    chart["layout"]["annotations"] = _titles(panels.spectral_value, queries[row])
    chart["layout"]["shapes"] = [_row_outline(n, row, count) for n in (4, 5)]
    chart["layout"]["margin"] = {"l": 46, "r": 10, "t": 30, "b": 46}
    return chart


def _end(n: int) -> str:
    return str(n) if n > 1 else ""


def _on(n: int) -> dict[str, Any]:
    """Return the axes of the n-th panel."""
    return {"xaxis": f"x{_end(n)}", "yaxis": f"y{_end(n)}"}


def _row_outline(n: int, row: int, count: int) -> Figure:
    """Return a frame around a row of the n-th panel."""
    ends = {"x0": -0.5, "x1": count - 0.5, "y0": row - 0.5, "y1": row + 0.5}
    axes = {"xref": f"x{_end(n)}", "yref": f"y{_end(n)}"}
    return {"type": "rect", "name": "row", **ends, **axes, "line": {"color": "@ink", "width": 1.5}}


def _axes(values: tuple[list[float], list[float]]) -> dict[str, Any]:
    """Return the axes of three columns and two rows; matrices are square, and their first row is on top."""
    low, high = min(0.0, *map(min, values)), max(map(max, values))
    limits = [low - 0.06 * (high - low), high + 0.06 * (high - low)]
    found: dict[str, Any] = {}
    for n in range(1, 7):
        x_domain, y_domain = COLUMNS[(n - 1) % 3], ROWS[(n - 1) // 3]
        table, words = n not in (3, 6), n > 3
        common = {
            "showgrid": not table, "zeroline": not table, "gridcolor": "@grid", "zerolinecolor": "@grey",
            "ticks": "", "title": {"text": ""}, "linecolor": "@grey", "automargin": False, "tickfont": {"size": 10},
        }  # fmt: skip
        across = {**common, "domain": x_domain, "anchor": f"y{_end(n)}"}
        up = {**common, "domain": y_domain, "anchor": f"x{_end(n)}", "showticklabels": n not in (2, 5)}
        if words:
            across |= {"type": "category", "tickangle": -90, "tickmode": "linear", "dtick": 1, "showgrid": False}
        if table:
            across |= {"constrain": "domain"}
            up |= {
                "autorange": "reversed",
                "scaleanchor": f"x{_end(n)}",
                "constrain": "domain",
                "constraintoward": "top",
            }
            up |= {"type": "category", "dtick": 1} if words else {}
        else:
            up |= {"range": [0.0, 1.0], "dtick": 0.5} if words else {"range": limits}
        found[f"xaxis{_end(n)}"], found[f"yaxis{_end(n)}"] = across, up
    return found


def _titles(value: str, word: str) -> list[Figure]:
    middle = [sum(ends) / 2.0 for ends in COLUMNS]
    texts = (
        ("<span style='color:@target'>teacher: map S*</span>", "<span style='color:@theory'>learner: map S</span>",
         f"their {value}s"),
        ("<span style='color:@target'>teacher attends</span>", "<span style='color:@theory'>learner attends</span>",
         f"row of “{word}”"),
    )  # fmt: skip
    return [
        {
            "xref": "paper", "yref": "paper", "x": middle[column], "y": ROWS[row][1],
            "xanchor": "center", "yanchor": "bottom",
            "text": text, "showarrow": False, "font": {"size": 12, "color": "@ink"},
        }
        for row, line in enumerate(texts)
        for column, text in enumerate(line)
    ]  # fmt: skip
