"""Power laws in two theories and in training: errors with their plateaus, emergence, and how large a feature looks."""

from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.figures.agreement import Pair, pair
from onehead.figures.calls import name
from onehead.figures.drawing import GAUSSIAN, SAMPLES, by_rank, line, plain_ticks, where
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import finish, panels, training_marks
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAMMAS = {0.75: "γ = 0.75", 1.25: "γ = 1.25"}
SHOWN = 3  # directions


def draw(lab: Lab) -> Drawing:
    """Test error, largest eigenvalue, and effective over true eigenvalues, against samples."""
    dim = lab.pick(50, 100)
    target = {"target": "power-law", "dim": dim, "noise": 0.5, "weight_decay": "1"}
    counts = lab.pick((400, 600, 1000, 2500, 6000), (1200, 1600, 2000, 2500, 4000, 10000, 30000))
    grid = np.round(np.geomspace(0.5 * counts[0], 20.0 * counts[-1], lab.pick(16, 28))).tolist()
    axes = {"gamma": list(GAMMAS), "leading": ["0", "auto"], "samples": sorted({*grid, *map(float, counts)})}
    theory = lab.theory("theory", name("leading_point"), axes, target)
    places = [(gamma, float(n)) for gamma in GAMMAS for n in counts]
    size = {**target, "seeds": lab.pick(6, 8), "starts": 1}
    runs = lab.train("trained", "aim.train", {("gamma", "samples"): places}, size)

    picture, (first, second, third) = panels(1, 3, width=4.0, height=3.7)
    pairs: list[Pair] = []
    for k, (gamma, label) in enumerate(GAMMAS.items()):
        for leading, style in (("0", GAUSSIAN), ("auto", {})):
            rows = where(theory, gamma=gamma, leading=leading)
            said = label if leading == "auto" else "Gaussian logits" if k == 0 else None
            line(first, rows, "samples", "test_error", said, k, **style)
            line(second, rows, "samples", "top", said, k, **style)
            first.axhline(rows[-1]["plateau"], color="#bbbbbb", zorder=0, lw=0.8, ls=str(style.get("ls", "-")))
        pairs += _trained(first, second, theory, runs, gamma, k)
    for k in range(1, SHOWN + 1):
        rows = [row for row in where(theory, gamma=0.75, leading="auto") if row.get(f"seen_{k}") is not None]
        line(third, rows, "samples", f"seen_{k}", f"eigenvalue {k}, γ = 0.75", k - 1)
    finish(first, SAMPLES, "test error", f"λ = 1, d = {dim}", log="x", ylim=(0.05, None))
    finish(second, SAMPLES, "largest eigenvalue of S", "emergence", log="x", legend="upper left")
    second.set_xlim(grid[0], 12.0 * counts[0])
    plain_ticks(second, lab.pick((200, 500, 1000, 2000, 5000), (1000, 2000, 5000, 10000)))
    second.set_ylim(0.0, 0.75 * max(row["top"] for row in where(theory)))
    finish(
        third,
        SAMPLES,
        "eigenvalue that training sees / true one",
        "how large a feature looks",
        log="x",
        legend="lower right",
    )
    caption = f"""Left: the test error of heads that learn a power law, with Gaussian logits (dotted), with leading directions averaged
        exactly (solid), and trained; grey lines are the plateaus of both theories. Middle: the largest eigenvalue of the trained map;
        it emerges later than Gaussian logits say. Right: how large the first eigenvalues of the target look to training,
        over what they are. A token that is long in a leading direction saturates the softmax, and its label says little of that direction:
        until a feature is learned the samples pull at it as if its eigenvalue were smaller; with many samples the ratio is one. Δ = 0.5, T = 2, λ = 1, d = {dim}; training with {size["seeds"]} seeds."""
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _trained(errors: "Axes", tops: "Axes", theory: Table, runs: Table | None, gamma: float, k: int) -> list[Pair]:
    """Markers of trained heads, and each beside its prediction."""
    found: list[Pair] = []
    for index, run in enumerate(runs or ()):
        if run["state"] != "done" or run["gamma"] != gamma or runs is None:
            continue
        said: str | None = f"trained, {run['seeds']} seeds" if k == 0 and not found else None
        at: dict[str, Any] = where(theory, gamma=gamma, leading="auto", samples=float(run["samples"]))[0]
        training_marks(errors, [run["samples"]], [run["test_error"]], [run["test_error_err"]], said, k)
        mean, error = by_rank(runs, index)
        training_marks(tops, [run["samples"]], [mean[0]], [error[0]], said, k)
        place = f"γ = {gamma:g}, n = {run['samples']:g}"
        found.append(pair(run, "test error", place, at["test_error"], run["test_error"], run["test_error_err"]))
    return found
