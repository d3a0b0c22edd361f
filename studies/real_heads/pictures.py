"""Figures of the page "Real heads", drawn from the files of `data`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.plot.style import (
    GREY,
    LAW_STYLES,
    SERIES_STYLES,
    THEORY,
    TRAINING,
    VERDICT_COLOURS,
    finish_panel,
    guide,
    panels,
    theory_line,
    write_picture,
)
from onehead.weights.symmetric_share import NEUTRAL_SHARE_RANGE
from studies.real_heads.data import Data
from studies.real_heads.measure import Row
from studies.real_heads.report import GROUPS, HEAD_DIM, PENALTIES, of, outliers, remaining, runs_of
from studies.real_heads.runs import FEWER_TOKENS, MOST_TOKENS, WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["draw"]

NO_DECAY_POSITION = 3e-5  # of runs without decay on a logarithmic axis


def draw(data: Data, folder: Path) -> None:
    """Write all figures."""
    for name, picture in PICTURES.items():
        write_picture(picture(data), folder / f"real-heads-{name}.png", dpi=130)


def marks(axes: "Axes", x: Sequence[float], y: Sequence[float], k: int, label: str, **style: Any) -> None:
    """Draw medians over the heads of runs, joined by a line."""
    look = SERIES_STYLES[k]
    face = look.marks if look.filled else "white"
    axes.plot(x, y, color=look.marks, marker=look.marker, markerfacecolor=face, ms=4.6, lw=0.9, label=label, **style)


def scatter(axes: "Axes", x: float, rows: Sequence[Row], name: str, k: int) -> None:
    """Draw one small dot per head, spread around x."""
    positions = x * np.exp(0.06 * np.linspace(-1.0, 1.0, len(rows)))
    axes.plot(positions, [row[name] for row in rows], ".", color=SERIES_STYLES[k].marks, ms=4.0, alpha=0.55)


def rank(data: Data) -> "Figure":
    """Return the figure of directions left, singular values, and the pull of the loss."""
    figure, (left, values, pulls) = panels(1, 3)
    here = of(data.final, width=WIDTH, tokens=MOST_TOKENS)
    penalties = {key[2]: rows for key, rows in sorted(runs_of(of(here, decay=0)).items())}
    decays = [rows for key, rows in sorted(runs_of(here).items()) if key[3]]
    theory_line(
        left,
        data.theory["lambda"],
        HEAD_DIM * np.array(data.theory["used"]),
        "theory, scale of λ measured",
    )
    for k, (label, runs) in enumerate((("penalty λ", list(penalties.values())), ("AdamW, decay x √v", decays))):
        x = [rows[0]["penalty"] or rows[0]["decay"] * rows[0]["gradient"] or NO_DECAY_POSITION for rows in runs]
        marks(left, x, [float(np.median([row["left"] for row in rows])) for rows in runs], k, f"{label}: median head")
        for place, rows in zip(x, runs, strict=True):
            scatter(left, place, rows, "left", k)
    guide(left, x=NO_DECAY_POSITION, text="no decay", at=0.5)
    finish_panel(left, "λ", f"directions left of {HEAD_DIM}", "weight decay cuts rank", log="x", legend="lower left")
    for k, penalty in enumerate(sorted({row["penalty"] for row in data.directions})):
        rows = of(data.directions, penalty=penalty)
        table = np.array([row["value"] for row in rows]).reshape(-1, HEAD_DIM)
        theory_line(
            values,
            np.arange(1, HEAD_DIM + 1),
            np.median(table, axis=0),
            f"λ = {penalty:g}",
            k,
            color=SERIES_STYLES[k].marks,
        )
    finish_panel(
        values, "place of the singular value", "singular value", "median over 8 heads", log="y", legend="upper right"
    )
    values.set_ylim(1e-7, 30.0)
    _pulls(data, pulls)
    return figure


def _pulls(data: Data, axes: "Axes") -> None:
    """Draw pull over λ against the singular value, in bins with equal numbers."""
    axes.axhspan(-1.0, 1.0, color=THEORY, alpha=0.12, lw=0, label="theory, directions cut")
    axes.axhline(1.0, color=THEORY, lw=1.8, label="theory, directions left")
    for k, penalty in enumerate(sorted({row["penalty"] for row in data.directions})):
        rows = sorted(of(data.directions, penalty=penalty), key=lambda row: row["value"])
        for part in np.array_split(np.array([(row["value"], row["pull"] / penalty) for row in rows]), 10):
            look = SERIES_STYLES[k]
            axes.errorbar(
                np.median(part[:, 0]),
                part[:, 1].mean(),
                yerr=part[:, 1].std() / len(part) ** 0.5,
                color=look.marks,
                marker=look.marker,
                markerfacecolor=look.marks if look.filled else "white",
                ms=4.6,
                lw=1.0,
                label=f"λ = {penalty:g}" if part[0, 0] == rows[0]["value"] else None,
            )
    axes.set_xlim(1e-5, 20.0)
    finish_panel(
        axes,
        "singular value",
        "pull of the loss / λ",
        "pull along directions left and cut",
        log="x",
        legend="upper left",
        ylim=(-1.5, 3.0),
    )


def samples(data: Data) -> "Figure":
    """Return the figure of outliers, directions left and losses against the number of tokens."""
    figure, (features, left, losses) = panels(1, 3)
    tokens = [*FEWER_TOKENS, MOST_TOKENS]
    theory_line(features, tokens, data.theory["outliers"], "theory, power law γ = 0.75")
    for k, penalty in enumerate(PENALTIES):
        runs = [rows for n in tokens if (rows := of(data.final, width=WIDTH, tokens=n, penalty=penalty, decay=0))]
        x, label = [rows[0]["tokens"] for rows in runs], f"λ = {penalty:g}"
        marks(losses, x, [rows[0]["held"] for rows in runs], k, f"held out, {label}")
        losses.plot(x, [rows[0]["train"] for rows in runs], color=SERIES_STYLES[k].marks, ls=":", lw=1.1)
        marks(features, x, [outliers(rows) for rows in runs], k, label)
        if penalty:  # without decay all directions are left
            marks(left, x, [float(np.median([row["left"] for row in rows])) for rows in runs], k, label)
            for n, rows in zip(x, runs, strict=True):
                scatter(left, n, rows, "left", k)
    for k, (penalty, expected) in enumerate(data.theory["left"].items(), 1):
        theory_line(left, tokens, expected, f"theory, λ = {float(penalty):g}", k)
    finish_panel(features, "tokens", "outliers per head", "outliers with data", log="x", legend="upper left")
    finish_panel(
        left,
        "tokens",
        f"directions left of {HEAD_DIM}",
        "directions with data",
        log="x",
        legend="upper center",
        ncols=2,
        ylim=(-1.5, 44.0),
    )
    finish_panel(losses, "tokens", "loss in nats", "losses (dotted: trained on)", log="x")
    return figure


def trajectory(data: Data) -> "Figure":
    """Return the figure of verdicts, outliers and effective ranks along the training."""
    figure, (verdicts, features, ranks) = panels(1, 3)
    here = of(data.steps, width=WIDTH, tokens=MOST_TOKENS, decay=0)
    every = sorted({row["step"] for row in here})
    x = [max(step, every[1] / 2) for step in every]
    counts = [[len(remaining(of(here, step=step, verdict=verdict))) for step in every] for verdict in VERDICT_COLOURS]
    counts.append([len(of(here, step=step, left=0)) for step in every])
    verdicts.stackplot(
        x, counts, colors=[*VERDICT_COLOURS.values(), "#2d2d2d"], labels=[*VERDICT_COLOURS, "gone"], lw=0.0
    )
    verdicts.margins(x=0.0, y=0.0)
    finish_panel(verdicts, "step", "heads", "verdicts, all λ together", log="x", legend="lower right", frameon=True)
    for k, penalty in enumerate(sorted({row["penalty"] for row in here})):
        rows = [of(here, step=step, penalty=penalty) for step in every]
        label = f"λ = {penalty:g}"
        marks(features, x, [outliers(found) for found in rows], k, label)
        marks(ranks, x, [float(np.median([row["effective_rank"] for row in found])) for found in rows], k, label)
    finish_panel(features, "step", "outliers per head", "outliers with steps", log="x")
    finish_panel(
        ranks, "step", f"effective rank of {HEAD_DIM}", "effective rank, median head", log="x", legend="lower left"
    )
    return figure


def laws(data: Data) -> "Figure":
    """Return the figure of symmetric shares, best laws, and the part of the logits common to all queries."""
    figure, (shares, best, unasked) = panels(1, 3)
    shares.axhspan(*NEUTRAL_SHARE_RANGE, color=THEORY, alpha=0.12, lw=0, label="theory, target without preference")
    guide(shares, y=0.5, text="random")
    colours = [TRAINING, "#e39a5c", "#8f3f0c", GREY]
    bottom = np.zeros(len(GROUPS))
    for place, belongs in enumerate(GROUPS.values()):
        rows = [row for row in remaining(data.final) if belongs(row)]
        for axes, column in ((shares, "share"), (unasked, "unasked")):
            found = [row[column] for row in rows]
            positions = place + 0.25 * np.linspace(-1.0, 1.0, len(found))
            axes.plot(positions, found, ".", color=colours[place], ms=4.0, alpha=0.7)
            axes.plot([place - 0.3, place + 0.3], [np.median(found)] * 2, color="#2d2d2d", lw=1.4)
    for law, (colour, _, label) in LAW_STYLES.items():
        heights = [
            np.mean([row["law"] == law for row in remaining(data.final) if belongs(row) and row["law"]])
            for belongs in GROUPS.values()
        ]
        best.bar(range(len(GROUPS)), heights, 0.7, bottom, color=colour, label=label)
        bottom += heights
    for axes in (shares, best, unasked):
        axes.set_xticks(range(len(GROUPS)), [name.replace(" ", "\n", 1) for name in GROUPS])
    shares.set_xlim(-0.5, len(GROUPS) + 0.1)  # with space for the text "random"
    best.set_yticks([0.0, 0.5, 1.0])
    finish_panel(shares, "", "symmetric share", "shares of heads that are left", ylim=(0.25, 1.0), legend="upper left")
    finish_panel(
        best, "", "part of the heads", "law that fits the bulk best", ylim=(0.0, 1.45), legend="upper center", ncols=2
    )
    guide(unasked, y=0.0, text="theory")
    finish_panel(
        unasked, "", "part of the logits' variance", "the same for every query", ylim=(-0.05, 1.0), legend=None
    )
    return figure


PICTURES = {"rank": rank, "data": samples, "course": trajectory, "laws": laws}
