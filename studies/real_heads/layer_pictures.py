"""Figures of the second study on the page "Real heads", drawn from the files of `layer_data`."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onehead.plot.style import (
    GREY,
    SERIES_STYLES,
    THEORY,
    finish_panel,
    guide,
    panels,
    theory_line,
    training_marks,
    write_picture,
)
from studies.real_heads.layer_data import LayerData
from studies.real_heads.layer_fading import adam_courses, descent_heads, run_of
from studies.real_heads.layer_report import widths_of
from studies.real_heads.layer_statistics import (
    alive,
    at_place,
    at_start,
    by_run,
    course_of,
    mean_of,
    only,
    penalised,
    select,
)
from studies.real_heads.layer_theory import strength
from studies.real_heads.runs import Run
from studies.real_heads.training_times import descent_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw_layer"]

SMALLEST, LARGEST = 0.03, 300.0  # λ/R that is shown; heads beyond are drawn at the edge
BINS = np.geomspace(SMALLEST, LARGEST, 9)
NO_DECAY = 1e-4  # position of runs without decay on a logarithmic axis


def draw_layer(data: LayerData, folder: Path) -> None:
    """Write all figures."""
    for name, picture in PICTURES.items():
        write_picture(picture(data), folder / f"real-heads-layer-{name}.png", dpi=130)


def dots(axes: "Axes", x: Sequence[float], y: Sequence[float], k: int, label: str | None = None) -> None:
    """Draw one small mark per head."""
    look = SERIES_STYLES[k % len(SERIES_STYLES)]
    face = look.marks if look.filled else "white"
    axes.plot(x, y, ls="none", color=look.marks, marker=look.marker, mfc=face, ms=3.2, mew=0.7, alpha=0.6, label=label)


def jitter(count: int, size: float) -> np.ndarray:
    """Return small shifts that are the same at every call."""
    return size * np.random.default_rng(0).uniform(-1.0, 1.0, count)


def rank(data: LayerData) -> "Figure":
    """Return the figure of directions left against λ/R, and of the directions that are pulled at A = 0."""
    figure, (own, before, pulled) = panels(1, 3)
    first = at_start(data.heads)
    for k, width in enumerate(widths_of(data)):
        every = penalised(data.heads, width=width)
        known = [row for row in every if at_place(row) in first]  # a seed may have no run without decay
        for axes, kind, rows in ((before, "before", known), (own, "own", every)):
            shares = np.array([row["left"] / row["head_dim"] for row in rows])
            forces = [row["force"] if kind == "own" else first[at_place(row)]["force"] for row in rows]
            x = [strength(row["penalty"], width, force) for row, force in zip(rows, forces, strict=True)]
            x = np.clip(x, SMALLEST, LARGEST)
            dots(axes, x, shares + jitter(len(rows), 0.015), k)
            _binned(axes, x, shares, k, f"heads of width {width}")
            for name in ("one", "measured"):
                theory = data.theory["curves"][str(width)][name]
                dash = "-" if name == "one" else "--"
                label = {"one": "theory, v = 1", "measured": "theory, v measured"}[name] if not k else None
                line = [*theory["share"], 0.0]
                theory_line(axes, [*theory[kind], 1.4 * theory[kind][-1]], line, label, ls=dash, lw=1.2, alpha=0.8)
        dots(
            pulled,
            [row["pulled"] / row["head_dim"] for row in rows] + jitter(len(rows), 0.012),
            shares,
            k,
            f"width {width}",
        )
    pulled.plot([0.0, 1.0], [0.0, 1.0], color=THEORY, lw=1.6, label="theory")
    for axes, title in ((own, "R of the head itself"), (before, "R of the run at λ = 0")):
        finish_panel(
            axes,
            "λ d/(R √H)",
            "share of directions left",
            title,
            log="x",
            legend="upper right" if axes is own else None,
            ylim=(-0.05, 1.08),
        )
    finish_panel(
        pulled, "share pulled by more than λ at A = 0", "share of directions left", "the condition itself",
        legend="upper left", ylim=(-0.05, 1.08),
    )  # fmt: skip
    return figure


def _binned(axes: "Axes", x: np.ndarray, y: np.ndarray, k: int, label: str) -> None:
    """Draw means and standard errors in bins of x with at least four heads."""
    found = []
    for low, high in pairwise(BINS):
        here = (x >= low) & (x < high)
        if here.sum() >= 4:
            found.append((np.exp(np.log(x[here]).mean()), y[here].mean(), y[here].std(ddof=1) / here.sum() ** 0.5))
    if found:
        training_marks(axes, *zip(*found, strict=True), label, k)


def unasked(data: LayerData) -> "Figure":
    """Return the figure of the first direction, of the strength of both parts of the logits, and of their order."""
    figure, (parts, sizes, order) = panels(1, 3)
    directions = course_of(data.directions)
    for k, width in enumerate(widths_of(data)):
        rows = alive(select(data.heads, width=width))
        others = [
            entry["part"]
            for row in rows
            for entry in directions[row["run"], row["layer"], row["head"]][1 : row["left"]]
        ]
        for shift, values in ((0.0, [row["part"] for row in rows]), (0.5, others)):
            dots(parts, k + shift + jitter(len(values), 0.16), values, k)
            parts.plot([k + shift - 0.2, k + shift + 0.2], [np.median(values)] * 2, color="#2d2d2d", lw=1.4)
    ticks = [
        (k + shift, f"{kind}\n{width}")
        for k, width in enumerate(widths_of(data))
        for shift, kind in ((0, "first"), (0.5, "others"))
    ]
    parts.set_xticks([x for x, _ in ticks], [text for _, text in ticks], fontsize=7)
    guide(parts, y=1.0, text="theory")
    finish_panel(
        parts, "directions left, by width", "(μ·u)²/(u'Mu)", "how much of a direction is mean", ylim=(-0.03, 1.1)
    )
    k = 0
    for layer in range(Run.layers):
        for name in ("unasked", "asked"):
            found = []
            for penalty in sorted({row["penalty"] for row in select(data.heads)}):
                runs = by_run(only(select(data.heads, penalty=penalty), layer=layer))
                found.append(
                    (
                        max(penalty, NO_DECAY),
                        *mean_of([float(np.mean([row[name] ** 0.5 for row in run])) for run in runs]),
                    )
                )
            training_marks(
                sizes, *zip(*found, strict=True), f"layer {layer}, {name}", k, ls=":" if name == "asked" else "-"
            )
            k += 1
    guide(sizes, x=NO_DECAY, text="no decay", at=0.3)
    finish_panel(
        sizes, "λ", "standard deviation of the logits", "both parts of the logits", log="x", legend="upper right"
    )
    _order(data, order)
    return figure


def _order(data: LayerData, axes: "Axes") -> None:
    """Draw the unasked share of the logits along the training without decay."""
    for k, width in enumerate(widths_of(data)):
        usual = {row["run"] for row in select(data.heads, penalty=0.0, width=width)}
        rows = [row for row in data.steps if row["run"] in usual]
        found = []
        for step in sorted({row["step"] for row in rows}):
            shares = [float(np.median([row["share"] for row in run])) for run in by_run(only(rows, step=step))]
            found.append((max(step, 16), *mean_of(shares)))
        training_marks(axes, *zip(*found, strict=True), f"width {width}", k, ls="-")
    finish_panel(
        axes, "step", "unasked share of the logit variance", "order of learning",
        log="x", legend="lower right", ylim=(0.0, 1.02),
    )  # fmt: skip


def fading(data: LayerData) -> "Figure":
    """Return the figure of singular values that fade under plain gradient descent, and under Adam in its own time."""
    figure, (courses, slopes, adam) = panels(1, 3)
    heads = descent_heads(data)
    _courses(data, courses)
    for k, few in enumerate((True, False)):
        points = [point for head in heads if head.few == few for point in head.slopes]
        label = "at most a quarter left" if few else "more left"
        dots(slopes, [x for x, _, _ in points], [y for _, y, _ in points], k, f"heads with {label}")
    slopes.plot([-1.6, 0.4], [-1.6, 0.4], color=THEORY, lw=1.6, label="theory")
    finish_panel(
        slopes, "γ/λ − 1, from the pull at the end", "d log s/dt in units of 2λ", "plain descent: rates of fading",
        legend="upper left", ylim=(-2.0, 0.6),
    )  # fmt: skip
    slopes.set_xlim(-1.6, 0.4)
    dots(adam, [-head.predicted for head in heads], [-head.measured for head in heads], 0, "plain descent")
    for k, steps in enumerate(sorted({head.steps for head in adam_courses(data)}), 1):
        here = [head for head in adam_courses(data) if head.steps == steps]
        dots(adam, [-head.predicted for head in here], [-head.measured for head in here], k, f"Adam, {steps:,} steps")
    adam.plot([0.8, 60.0], [0.8, 60.0], color=THEORY, lw=1.6, label="theory")
    adam.set_yscale("log")
    finish_panel(
        adam, "decades predicted, 2 λ t/ln 10", "decades measured", "faintest value of every head",
        log="x", legend="upper left",
    )  # fmt: skip
    return figure


def _courses(data: LayerData, axes: "Axes") -> None:
    """Draw singular values against time for the head of plain descent that keeps half of its directions, or nearly."""
    rows = [row for row in data.heads if row["descent"] and row["left"]]
    row = min(rows, key=lambda row: abs(row["left"] / row["head_dim"] - 0.5))
    run = run_of(row)
    steps = run.checkpoints
    times = 2.0 * run.penalty * np.array([descent_time(run, step) for step in steps])
    values = only(data.fading, run=row["run"], layer=row["layer"], head=row["head"])
    for course in values:
        style = SERIES_STYLES[0 if course["place"] < row["left"] else 1]
        axes.plot(times, [course[f"at {step}"] for step in steps], color=style.marks, lw=0.9, marker=".", ms=3.0)
    start = values[-1]["at 0"]
    axes.plot(times, start * np.exp(-times), color=THEORY, lw=1.8, label="theory, no direction is below")
    finish_panel(
        axes, "2 λ t", "singular value", f"plain descent: layer {row['layer']}, head {row['head']}",
        log="y", legend="lower left",
    )  # fmt: skip


def values(data: LayerData) -> "Figure":
    """Return the figure of R against the values of a head, of gains with decay on values, and of whitened bulks."""
    figure, (forces, gains, bulks) = panels(1, 3)
    for layer in range(Run.layers):
        rows = only(penalised(data.heads), layer=layer)
        dots(forces, [row["weight"] for row in rows], [row["force"] for row in rows], layer, f"layer {layer}")
    forces.set_yscale("log")
    finish_panel(forces, "tr V'FVC/d", "R", "how much of the loss sees a head", log="x", legend="upper left")
    ticks = []
    for penalty in sorted({row["penalty"] for row in data.heads if row["value_penalty"]}):
        for decayed in (0.0, penalty):
            rows = select(data.heads, penalty=penalty, value_penalty=decayed, width=64)
            place = len(ticks)
            for k, (shift, part) in enumerate(((-0.15, alive(rows)), (0.15, [row for row in rows if not row["left"]]))):
                label = ("left", "gone")[k] if not place else None
                dots(gains, place + shift + jitter(len(part), 0.08), [max(row["gain"], 1e-6) for row in part], k, label)
            ticks.append(f"λ = {penalty:g}\n{'values too' if decayed else 'values free'}")
    gains.set_xticks(range(len(ticks)), ticks, fontsize=7)
    finish_panel(gains, "", "G = tr V'VC/d", "values of heads left and gone", log="y", legend="lower left")
    rows = [row for row in select(data.heads) if row["slope"] is not None]
    for k, width in enumerate(sorted({row["width"] for row in rows})):
        here = only(rows, width=width)
        dots(bulks, [row["raw_distance"] for row in here], [row["white_distance"] for row in here], k, f"width {width}")
    top = 1.05 * max((max(row["raw_distance"], row["white_distance"]) for row in rows), default=1.0)
    bulks.plot([0.0, top], [0.0, top], color=GREY, lw=1.0, ls=":")
    finish_panel(
        bulks, "distance of A to the untied law", "distance of the whitened map", "whitening of the bulk",
        legend="upper left",
    )  # fmt: skip
    return figure


PICTURES = {"rank": rank, "unasked": unasked, "fading": fading, "values": values}
