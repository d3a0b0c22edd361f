"""What a real checkpoint looks like beside the law of a trained head."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.figures.calls import name
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import LAWS, finish, panels, theory_line, training_marks
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS = {law: LAWS[law] for law in ("untied", "tied", "marchenko-pastur", "noise")}


def draw(lab: Lab) -> Drawing:
    """Singular values by rank with the fitted laws: heads trained by ourselves first, then heads of the checkpoint."""
    own = [(0.5, 0.01), (2.0, 0.01)] if lab.checkpoint else [(0.2, 0.01), (0.5, 0.01), (1.0, 0.01), (2.0, 0.01)]
    words = {("alpha", "weight_decay"): own}
    size = {"dim": lab.measured(80, 160), "kappa0": 0.5, "noise": 0.5}
    # without trained heads there is nothing to lay a law beside, so that these are computed under --theory as well
    trained = lab.theory("our own heads", name("trained_head"), words, size)
    shown: list[tuple[Table, int, str]] = [
        (trained, i, f"our own, α = {row['alpha']:g}, tied") for i, row in enumerate(trained)
    ]
    if lab.checkpoint:
        places = [(0, 0), (2, 5), (3, 2), (5, 11)]
        real = lab.theory(
            "checkpoint", name("checkpoint_head"), {("layer", "head"): places}, {"path": str(lab.checkpoint)}
        )
        shown += [(real, i, f"checkpoint, layer {a}, head {b}") for i, (a, b) in enumerate(places)]

    columns = 3 if len(shown) == 6 else 2
    picture, panes = panels(-(-len(shown) // columns), columns, width=3.7, height=3.0)
    for axes, (table, i, title) in zip(panes, shown, strict=False):
        _head(lab, axes, table, i, title)
    entries = {label: handle for axes in panes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    picture.legend(
        entries.values(), entries.keys(), loc="outside lower center", ncols=len(entries), frameon=False, fontsize=8.0
    )
    what = f"four heads of {_title(lab.checkpoint)}" if lab.checkpoint else "nothing, no checkpoint was at hand"
    caption = f"""Singular values of W_Q'W_K by rank (dots; triangles lie beyond the bulk edge), and what four laws expect at
        each rank: the laws of an untied and of a tied head, Marchenko-Pastur, and two independent random matrices. Heads trained by
        ourselves are tied and follow their law (best: the law with the lowest BIC; in small heads a simpler one may come close); heads
        of a real checkpoint are not tied (their symmetric share s is near one half), and the laws are laid beside them as a
        description, not a prediction. Shown beside ours: {what}. Ours: κ₀ = 0.5, Δ = 0.5,
        T = 2, λ = 0.01, d = {size["dim"]}."""
    return Drawing(picture=picture, caption=caption)


def _title(path: Any) -> str:
    """The name of a checkpoint: that of its file or of the folder around it that says something."""
    names = [part for part in Path(path).resolve().parts if part not in ("model", "model.safetensors")]
    return names[-1]


def _head(lab: Lab, axes: "Axes", table: Table, index: int, title: str) -> None:
    row, arrays = table[index], table.arrays(index)
    if row["state"] == "failed":
        axes.text(0.5, 0.5, "no answer", ha="center", transform=axes.transAxes)
        return
    values, beyond = np.asarray(arrays["values"], dtype=float), row["beyond"]
    ranks = np.arange(1, values.size + 1)
    for law, (colour, dash, label) in LOOKS.items():
        if f"expected_{law}" in arrays:
            expected = arrays[f"expected_{law}"]
            theory_line(axes, ranks[beyond : beyond + len(expected)], expected, label, color=colour, ls=dash, lw=1.5)
    zero = np.zeros(values.size)
    training_marks(axes, ranks[beyond:], values[beyond:], zero[beyond:], "singular values", ms=2.6, capsize=0.0)
    if beyond:
        training_marks(axes, ranks[:beyond], values[:beyond], zero[:beyond], "beyond the bulk", 2, ms=5.0, capsize=0.0)
    lab.add(f"singular values, {title}", rank_of=ranks, singular_value=values)
    best = LOOKS.get(row["best_law"], ("", "", str(row["best_law"])))[2]
    axes.text(
        0.97, 0.95, f"s = {row['symmetric_share']:.2f}\nbest: {best}", transform=axes.transAxes, ha="right", va="top",
        fontsize=7.8, color="#333333",
    )  # fmt: skip
    finish(axes, "rank", "singular value", title, legend=None, ylim=(0.0, None))
