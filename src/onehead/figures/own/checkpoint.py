"""Spectra of heads of a real checkpoint compared with the laws of trained heads."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onehead.figures.data_source import DataSource
from onehead.figures.registry import Drawing
from onehead.figures.sweep_calls import call_name
from onehead.plot.style import LAW_STYLES, TEXT, finish_panel, panels, theory_line, training_marks
from onehead.sweep import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STYLES = {law: LAW_STYLES[law] for law in ("untied", "tied", "marchenko-pastur", "noise")}


def draw(source: DataSource) -> Drawing:
    """Draw singular values by rank with the fitted laws, first of trained tied heads, then of the checkpoint."""
    own = [(0.5, 0.01), (2.0, 0.01)] if source.checkpoint else [(0.2, 0.01), (0.5, 0.01), (1.0, 0.01), (2.0, 0.01)]
    axes = {("alpha", "weight_decay"): own}
    size = {"dim": source.pick_instance(80, 160), "kappa0": 0.5, "noise": 0.5}
    # the laws are compared with trained heads, so these are computed under --theory as well
    trained = source.theory("our own heads", call_name("trained_head"), axes, size)
    heads: list[tuple[Table, int, str]] = [
        (trained, i, f"our own, α = {row['alpha']:g}, tied") for i, row in enumerate(trained)
    ]
    if source.checkpoint:
        chosen = [(0, 0), (2, 5), (3, 2), (5, 11)]
        real = source.theory(
            "checkpoint", call_name("checkpoint_head"), {("layer", "head"): chosen}, {"path": str(source.checkpoint)}
        )
        heads += [(real, i, f"checkpoint, layer {a}, head {b}") for i, (a, b) in enumerate(chosen)]

    columns = 3 if len(heads) == 6 else 2
    picture, panes = panels(-(-len(heads) // columns), columns, width=3.7, height=3.0)
    for panel, (table, i, title) in zip(panes, heads, strict=False):
        _draw_head(source, panel, table, i, title)
    entries = {label: handle for axes in panes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    picture.legend(
        entries.values(), entries.keys(), loc="outside lower center", ncols=len(entries), frameon=False, fontsize=8.0
    )
    real_heads = (
        f"four heads of {_title(source.checkpoint)}"
        if source.checkpoint
        else "none, because no checkpoint was available"
    )
    caption = f"""Singular values of W_Q'W_K by rank (dots; triangles lie beyond the bulk edge), and what four laws
        expect at each rank: the laws of an untied and of a tied head, Marchenko-Pastur, and two independent random
        matrices. Heads that we trained are tied and follow their law (best: the law with the lowest BIC; for small
        heads a simpler one may be close); heads of a real checkpoint are not tied (their symmetric share s is near one
        half), and the laws describe them without predicting them. Real heads shown: {real_heads}. Our heads: κ₀ = 0.5,
        Δ = 0.5, T = 2, λ = 0.01, d = {size["dim"]}."""
    return Drawing(picture=picture, caption=caption)


def _title(path: Any) -> str:
    """Return the name of a checkpoint: that of its file, or of the closest folder with a specific name."""
    names = [part for part in Path(path).resolve().parts if part not in ("model", "model.safetensors")]
    return names[-1]


def _draw_head(source: DataSource, axes: "Axes", table: Table, index: int, title: str) -> None:
    row, arrays = table[index], table.arrays(index)
    if row["state"] == "failed":
        axes.text(0.5, 0.5, "no answer", ha="center", transform=axes.transAxes)
        return
    values, beyond = np.asarray(arrays["values"], dtype=float), row["beyond"]
    ranks = np.arange(1, values.size + 1)
    for law, (colour, dash, label) in STYLES.items():
        if f"expected_{law}" in arrays:
            expected = arrays[f"expected_{law}"]
            fitted = ranks[values.size - len(expected) :]  # the bulk, or all values
            theory_line(axes, fitted, expected, label, color=colour, ls=dash, lw=1.5)
    zero = np.zeros(values.size)
    training_marks(axes, ranks[beyond:], values[beyond:], zero[beyond:], "singular values", ms=2.6, capsize=0.0)
    if beyond:
        training_marks(axes, ranks[:beyond], values[:beyond], zero[:beyond], "beyond the bulk", 2, ms=5.0, capsize=0.0)
    source.add(f"singular values, {title}", rank_of=ranks, singular_value=values)
    best = STYLES.get(row["best_law"], ("", "", str(row["best_law"])))[2]
    axes.text(
        0.97, 0.95, f"s = {row['symmetric_share']:.2f}\nbest: {best}", transform=axes.transAxes, ha="right", va="top",
        fontsize=7.8, color=TEXT,
    )  # fmt: skip
    finish_panel(axes, "rank", "singular value", title, legend=None, ylim=(0.0, None))
