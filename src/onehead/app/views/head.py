"""The head: the query-key map and the attention of teacher and learner on one sequence, drawn from the law of the theory."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.app.drawing import Figure, figure, heatmap, line, points
from onehead.app.state import State
from onehead.app.views.base import (
    Line,
    Panel,
    Picture,
    Report,
    View,
    badge_of,
    failed,
    numbers,
    predicted,
    waiting,
    worded,
)
from onehead.app.views.words import code_of
from onehead.errors import OneheadError

__all__ = ["VIEW", "Law", "drawn_map"]

Array = NDArray[np.float64]

DIM = 24  # of a token in the drawing
SHOWN = 8  # tokens in the drawn sequence
SEED = 7
HOW = (
    f"Drawn, not trained: d = {DIM}, one sequence of {{shown}} tokens, one seed. The learner's map is the target plus noise of variance s, "
    "its {value}s below ε set to zero and the rest scaled by c: the law the theory gives for a head trained at this α. Grey: the target's."
)
LINES: tuple[Line, ...] = (
    ("Test error", "", "test_error", "on fresh samples"),
    ("Rank", "", "rank", "share of {value}s of S that are not zero"),
    ("Overlap", "m", "m", "Tr S'S*/d"),
    ("Size", "q", "q", "|S|²/d"),
    ("Noise variance", "s", "spread", "of the blurred target"),
    ("Soft threshold", "ε", "threshold", "of weight decay"),
    ("Slope", "c", "slope", "shrinkage of learned {value}s"),
)


class Law(NamedTuple):
    """How a trained map follows from its target: its values are slope (x - threshold) for x > cut, of the target with noise of variance
    ``spread``; an ``empty`` one has learned nothing.
    """

    spread: float
    threshold: float
    cut: float
    slope: float
    empty: bool


class Scene(NamedTuple):
    """What does not change while α is dragged: the target, the noise, the tokens, the keys if they are others."""

    target: Array
    noise: Array
    tokens: Array
    keys: Array | None


@lru_cache(maxsize=64)
def scene(task: Task, dim: int, shown: int) -> Scene:
    """A target, noise and a sequence from one seed."""
    from onehead.aim.training.data import draw_target  # noqa: PLC0415

    of_target, of_noise, of_tokens = (np.random.default_rng([SEED, child]) for child in range(3))
    target = draw_target(task.target, dim, of_target, tied=task.tied)
    noise = of_noise.standard_normal((dim, dim))
    noise = (noise + noise.T) / np.sqrt(2.0 * dim) if task.tied else noise / np.sqrt(dim)
    tokens = of_tokens.standard_normal((2, shown, 1, dim))
    return Scene(target, noise, tokens[0], tokens[1] if task.attention == "cross" else None)


def drawn_map(task: Task, learner: Learner, law: Law, target: Array, noise: Array) -> Array:
    """A trained map as the theory draws it: the blurred target, its values cut and scaled in their own bases."""
    if law.empty:
        return np.zeros_like(target)
    if law.spread <= 0.0:  # the target itself
        return np.asarray(task.beta0 / learner.beta * target)
    blurred = task.beta0 * target + np.sqrt(law.spread) * noise
    if task.tied:
        x, left = np.linalg.eigh(blurred)
        right = left
    else:
        left, x, turned = np.linalg.svd(blurred)
        right = turned.T
    values = np.where(x > law.cut, law.slope * (x - law.threshold), 0.0)
    return np.asarray((left * values) @ right.T)


def _attention(task: Task, S: Array, beta: float, found: Scene) -> Array:
    from onehead.aim.training.data import labels  # noqa: PLC0415

    long = task.changed(tokens=len(found.tokens))
    return np.asarray(labels(S, found.tokens, beta, None, keys=found.keys, columns=long.columns)[0])


def _values(task: Task, S: Array) -> list[float]:
    """Eigenvalues, or singular values, the largest first."""
    found = np.linalg.eigvalsh(S) if task.tied else np.linalg.svd(S, compute_uv=False)
    return sorted(found.tolist(), reverse=True)


def sketch(state: State) -> Picture:
    """The drawing at a point solved for the eye."""
    from onehead.aim.sketch.curves import dot  # noqa: PLC0415  (loads the theory)

    found = dot(state.task, state.learner, state["alpha"])
    if found is None:
        return waiting()
    s, eps, cut, slope = found.map
    law = Law(s, eps, cut, slope / state.learner.beta, found.rank == 0.0)
    return _picture(state, law, exact=False)


def picture(state: State) -> Picture:
    """The drawing from the library's own answer."""
    point = predicted(state)
    return _picture(state, _law(point), exact=True)


def _law(point: Any) -> Law:
    return Law(point.spread, point.threshold, point.cut, point.slope, point.rank == 0.0)


def _drawn(state: State, law: Law) -> tuple[Scene, Array]:
    found = scene(state.task, DIM, max(SHOWN, state["tokens"]))
    return found, drawn_map(state.task, state.learner, law, found.target, found.noise)


def _picture(state: State, law: Law, *, exact: bool) -> Picture:
    task, learner = state.task, state.learner
    found, S = _drawn(state, law)
    teacher = _attention(task, found.target, task.beta0, found)
    learned = _attention(task, S, learner.beta, found)
    caption = HOW.format(value=task.value, shown=len(found.tokens))
    rows = [
        {"query": i + 1, "key": j + 1, "teacher": float(teacher[i, j]), "learner": float(learned[i, j])}
        for i, j in np.ndindex(teacher.shape)
    ]
    return Picture(_draw(state, found.target, S, teacher, learned), caption, rows, exact=exact)


def _draw(state: State, target: Array, S: Array, teacher: Array, learned: Array) -> Figure:
    """Two rows, teacher and learner: the map, its values, the attention."""
    tokens = [str(i + 1) for i in range(len(teacher))]
    ranks = list(range(1, DIM + 1))
    most = float(np.abs(target).max())
    values = _values(state.task, target), _values(state.task, S)
    data: list[Figure] = []
    for row, (name, matrix, weights) in enumerate((("teacher", target, teacher), ("learner", S, learned))):
        own, beside, last = (f"{3 * row + k}" if row or k > 1 else "" for k in (1, 2, 3))
        data += [
            heatmap(
                ranks, ranks, matrix.round(4).tolist(), ("@second", "@label", "@theory"), None, zmin=-most, zmax=most, name=f"map of the {name}",
                xaxis=f"x{own}", yaxis=f"y{own}", hovertemplate="entry %{y}, %{x} of S: %{z:.3f}<extra></extra>",
            ),
            line(ranks, values[0], "values of the target", colour="@grey", width=1.4, xaxis=f"x{beside}", yaxis=f"y{beside}", showlegend=False)
            if row
            else points(ranks, values[0], "values of the target", colour="@grey", size=5, xaxis=f"x{beside}", yaxis=f"y{beside}", showlegend=False),
            heatmap(
                tokens, tokens, weights.round(4).tolist(), ("@label", "@theory"), None, zmin=0.0, zmax=1.0, name=f"attention of the {name}",
                xaxis=f"x{last}", yaxis=f"y{last}",
                hovertemplate="token %{y} attends to token %{x}: %{z:.1%}<extra></extra>",
            ),
        ]  # fmt: skip
    data.append(
        points(
            ranks,
            values[1],
            "values of the learner",
            size=6,
            colour="@theory",
            xaxis="x5",
            yaxis="y5",
            showlegend=False,
        )
    )
    drawn = figure(data, x="", y="", **_axes(values))
    drawn["layout"]["annotations"] = [_title(*title) for title in _titles(state)]
    drawn["layout"]["margin"] = {"l": 40, "r": 10, "t": 30, "b": 30}
    return drawn


def _axes(values: tuple[list[float], list[float]]) -> dict[str, Any]:
    """Three columns and two rows; tables have their first row on top."""
    columns, rows = ([0.0, 0.27], [0.37, 0.62], [0.73, 1.0]), ([0.56, 1.0], [0.0, 0.44])
    low, high = min(0.0, *map(min, values)), max(map(max, values))
    span = [low - 0.06 * (high - low), high + 0.06 * (high - low)]
    found: dict[str, Any] = {}
    for row, up in enumerate(rows):
        for column, across in enumerate(columns):
            n = 3 * row + column + 1
            end = str(n) if n > 1 else ""
            table = column != 1
            plain = {
                "showgrid": not table,
                "ticks": "",
                "zeroline": not table,
                "gridcolor": "@grid",
                "zerolinecolor": "@grey",
            }
            hidden = {"showticklabels": column != 0, "title": {"text": ""}, "linecolor": "@grey", "automargin": False}
            found[f"xaxis{end}"] = {**plain, **hidden, "domain": across, "anchor": f"y{end}", "tickfont": {"size": 10}}
            found[f"yaxis{end}"] = {**plain, **hidden, "domain": up, "anchor": f"x{end}", "tickfont": {"size": 10}}
            found[f"yaxis{end}"] |= {"autorange": "reversed"} if table else {"range": span}
    return found


def _titles(state: State) -> list[tuple[float, float, str]]:
    value = f"{state.task.value}s"
    return [
        (0.135, 1.0, "teacher: map S*"), (0.495, 1.0, f"its {value}"), (0.865, 1.0, "its attention"),
        (0.135, 0.44, "learner: map S"), (0.495, 0.44, f"its {value}"), (0.865, 0.44, "its attention"),
    ]  # fmt: skip


def _title(x: float, y: float, text: str) -> Figure:
    place = {"xref": "paper", "yref": "paper", "x": x, "y": y, "xanchor": "center", "yanchor": "bottom"}
    return {**place, "text": text, "showarrow": False, "font": {"size": 12, "color": "@ink"}}


def report(state: State) -> Report:
    """The exact numbers of the theory, and those of the drawing beside them."""
    try:
        point = predicted(state)
    except OneheadError as error:
        return failed(error)
    found, S = _drawn(state, _law(point))
    size, overlap = float(np.sum(S**2)) / DIM, float(np.sum(S * found.target)) / DIM
    own = (
        ("Overlap in the drawing", "", lambda _: overlap, f"d = {DIM}; the theory's is for large d"),
        ("Size in the drawing", "", lambda _: size, f"d = {DIM}"),
    )
    return Report(badge_of(point.certificate), numbers(point, *worded(state, *LINES), *own))


code = code_of(
    "aim",
    "point = oh.aim.predict(task, head, alpha={alpha!r})\n"
    "print(point.spread, point.threshold, point.slope)   # s, ε, c of the drawing\n"
    "print(point.q, point.m)",
    "predict --alpha {alpha!r}",
)
ABOUT = (
    "Above, what the teacher looks at; below, what a head trained on α d² of its labels looks at, on the same sequence. "
    "Drag α and watch the map fill with features."
)
FORMULA = r"\mathrm{attention}=\mathrm{softmax}\big(\beta\,x^\top S\,x/\sqrt d\big),\qquad "
SHRUNK = r"S=c\,\big(S^\star+\sqrt s\,G-\epsilon\big)_+"
VIEW = View(
    name="head",
    title="The head",
    about=ABOUT,
    formula=FORMULA + SHRUNK,
    problems=(MarchenkoPastur, Task, Learner),
    own=("alpha",),
    panels={"": Panel(sketch, report, picture, code)},
    plays="alpha",
)
