"""Power laws in two theories and in training: errors and plateaus, emergence, effective eigenvalues."""

from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.figures.agreement import Pair, pair
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import GAUSSIAN_STYLE, SAMPLES_LABEL, line, mean_by_rank, plain_ticks, rows_with
from onehead.figures.registry import Drawing
from onehead.figures.sweep_calls import call_name
from onehead.plot.style import RULE, finish_panel, panels, training_marks
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAMMAS = {0.75: "γ = 0.75", 1.25: "γ = 1.25"}
SHOWN_DIRECTIONS = 3


def draw(source: DataSource) -> Drawing:
    """Draw the test error, the largest eigenvalue, and effective over true eigenvalues, against samples."""
    dim = source.pick(50, 100)
    target = {"target": "power-law", "dim": dim, "noise": 0.5, "weight_decay": "1"}
    counts = source.pick((400, 600, 1000, 2500, 6000), (1200, 1600, 2000, 2500, 4000, 10000, 30000))
    grid = np.round(np.geomspace(0.5 * counts[0], 20.0 * counts[-1], source.pick(16, 28))).tolist()
    axes = {"gamma": list(GAMMAS), "leading": ["0", "auto"], "samples": sorted({*grid, *map(float, counts)})}
    theory = source.theory("theory", call_name("leading_point"), axes, target)
    settings = [(gamma, float(n)) for gamma in GAMMAS for n in counts]
    size = {**target, "seeds": source.pick(6, 8), "starts": 1}
    runs = source.train("trained", "aim.train", {("gamma", "samples"): settings}, size)

    picture, (first, second, third) = panels(1, 3, width=4.0, height=3.7)
    pairs: list[Pair] = []
    for k, (gamma, label) in enumerate(GAMMAS.items()):
        for leading, style in (("0", GAUSSIAN_STYLE), ("auto", {})):
            rows = rows_with(theory, gamma=gamma, leading=leading)
            text = label if leading == "auto" else "Gaussian logits" if k == 0 else None
            line(first, rows, "samples", "test_error", text, k, **style)
            line(second, rows, "samples", "top", text, k, **style)
            first.axhline(rows[-1]["plateau"], color=RULE, zorder=0, lw=0.8, ls=str(style.get("ls", "-")))
        pairs += _trained(first, second, theory, runs, gamma, k)
    for k in range(1, SHOWN_DIRECTIONS + 1):
        rows = [row for row in rows_with(theory, gamma=0.75, leading="auto") if row.get(f"seen_{k}") is not None]
        line(third, rows, "samples", f"seen_{k}", f"eigenvalue {k}, γ = 0.75", k - 1)
    finish_panel(first, SAMPLES_LABEL, "test error", f"λ = 1, d = {dim}", log="x", ylim=(0.05, None))
    finish_panel(second, SAMPLES_LABEL, "largest eigenvalue of S", "emergence", log="x", legend="upper left")
    second.set_xlim(grid[0], 12.0 * counts[0])
    plain_ticks(second, source.pick((200, 500, 1000, 2000, 5000), (1000, 2000, 5000, 10000)))
    second.set_ylim(0.0, 0.75 * max(row["top"] for row in rows_with(theory)))
    finish_panel(
        third,
        SAMPLES_LABEL,
        "effective eigenvalue / true one",
        "effective size of features",
        log="x",
        legend="lower right",
    )
    caption = f"""Left: the test error of heads that learn a power law, with Gaussian logits (dotted), with leading
        directions averaged exactly (solid), and trained; grey lines are the plateaus of both theories. Middle: the
        largest eigenvalue of the trained map; it emerges later than with Gaussian logits. Right: the effective
        eigenvalues of the target that training sees, over the true ones. A token with a large component along a leading
        direction saturates the softmax, so that its label carries little information on that direction: until a feature
        is learned, the samples act as if its eigenvalue were smaller; with many samples the ratio is one. Δ = 0.5, T =
        2, λ = 1, d = {dim}; training with {size["seeds"]} seeds."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _trained(errors: "Axes", tops: "Axes", theory: Table, runs: Table | None, gamma: float, k: int) -> list[Pair]:
    """Draw markers of trained heads, and return each with its prediction."""
    found: list[Pair] = []
    for index, run in enumerate(runs or ()):
        if run["state"] != "done" or run["gamma"] != gamma or runs is None:
            continue
        label: str | None = f"trained, {run['seeds']} seeds" if k == 0 and not found else None
        prediction: dict[str, Any] = rows_with(theory, gamma=gamma, leading="auto", samples=float(run["samples"]))[0]
        training_marks(errors, [run["samples"]], [run["test_error"]], [run["test_error_err"]], label, k)
        mean, error = mean_by_rank(runs, index)
        training_marks(tops, [run["samples"]], [mean[0]], [error[0]], label, k)
        setting = f"γ = {gamma:g}, n = {run['samples']:g}"
        found.append(
            pair(run, "test error", setting, prediction["test_error"], run["test_error"], run["test_error_err"])
        )
    return found
