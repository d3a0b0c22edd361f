"""Superfluous heads: which survive weight decay, in the limit of many samples and in training."""

import numpy as np

from onehead.aim import Learner, Task, survivors
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import rows_with
from onehead.figures.registry import Drawing
from onehead.figures.sweep_calls import call_name
from onehead.plot.style import GREY, finish_panel, panels, theory_line, training_marks

HEADS = {"heads": 2, "kappa0": 0.5, "noise": 0.5, "target": "product"}
LABELS = {
    "random_weights": "random weights",
    "heads_nearly_alike": "heads nearly alike",
    "one_head": "one head",
}
SHIFT = 0.06  # of the markers of a start, as a share of the weight decay
ALPHA = 1.0


def draw(source: DataSource) -> Drawing:
    """Draw the survivor against weight decay, and the smaller head over the larger one in training."""
    task = Task(attention="cross", heads=2)
    decays = np.geomspace(0.01, 0.8, source.pick(15, 29))
    limits = [survivors(task, Learner(weight_decay=decay, values="learnt"), float("inf")) for decay in decays]
    columns = {
        "scale": [found.scales[0] for found in limits],
        "other_scale": [found.scales[1] for found in limits],
        "trace_norm": [found.trace_norms[0] for found in limits],
        "other_trace_norm": [found.trace_norms[1] for found in limits],
    }
    source.add("many samples", weight_decay=decays.tolist(), **columns)
    dim, seeds = source.pick((20, 2), (30, 2))
    measured = source.pick((0.003, 0.01, 0.03, 0.1), (0.003, 0.007, 0.01, 0.014, 0.02, 0.05))
    runs = source.train(
        "trained",
        call_name("surviving_heads"),
        {"weight_decay": measured},
        {**HEADS, "alpha": ALPHA, "dim": dim},
        seeds=seeds,
    )
    picture, (left, right) = panels(1, 2, width=4.6)
    theory_line(left, decays, columns["scale"], "values of the survivor", 0)
    theory_line(left, decays, columns["trace_norm"], "map of the survivor, mean singular value", 1)
    theory_line(left, decays, columns["other_trace_norm"], "the other head", 2)
    finish_panel(left, "λ/α", "size", "many samples: one head, all or nothing", log="x", ylim=(-0.05, 1.45))
    for k, (start, label) in enumerate(LABELS.items()):
        rows = rows_with(runs)
        if rows:
            places = [row["weight_decay"] * (1.0 + SHIFT * (k - 1)) for row in rows]
            training_marks(right, places, [row[start] for row in rows], [0.0] * len(rows), label, k)
    right.axhline(0.0, color=GREY, lw=0.8, ls=":")
    finish_panel(
        right, "λ", "smaller head over the larger one", f"training, α = {ALPHA:g}", log="x", ylim=(-0.05, 1.05)
    )
    caption = f"""Two learner heads for one head of the target, weight decay on values as on query and key, κ₀ = 0.5,
        Δ = 0.5, T = 2. Left: infinitely many samples. The lowest of the minima from four starts has one head; the other
        is exactly zero, query-key and values together. Right: training at d = {dim}, {seeds} seeds: size of the smaller
        head, mean singular value times scale of the values, over that of the larger one, where training ends from three
        starts. With enough weight decay one head is left from every start; with less, two heads stay alive from random
        weights, by fitting noise. Around λ = 0.01 both minima exist, and which one is reached depends on the start:
        heads vanish by a jump, as at a first-order transition."""
    return Drawing(picture=picture, caption=caption)
