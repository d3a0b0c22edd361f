"""Heads people have: learning curves of tied, self- and cross-attention, which see all columns or only those before."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from onehead.figures.agreement import compare
from onehead.figures.drawing import curves
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import finish, guide, panels
from onehead.sweep import Table

HEADS = {"tied": "tied", "self": "untied, self-attention", "cross": "untied, cross-attention"}
MASKS = {"none": "each row sees both columns", "causal": "causal: the first row sees itself alone"}
COMBINATIONS = r"samples per informative combination of logits, $\alpha J$"
TASK = {"target": "mp", "kappa0": 0.5, "noise": 0.5, "weight_decay": 0.02}


def draw(lab: Lab) -> Drawing:
    """Test error against αJ, without a mask on the left and with the causal one on the right."""
    from onehead.aim.equations.geometry import geometry_of  # noqa: PLC0415  (loads what only this figure needs)

    informative = {mask: geometry_of("self", mask, 2).informative for mask in MASKS}
    measured = lab.pick((0.3, 1.0, 3.0), (0.2, 0.6, 1.2, 3.0))
    grid = sorted({*np.geomspace(0.08, 10.0, lab.pick(10, 24)).tolist(), *measured})

    def places(ratios: Iterable[float]) -> list[tuple[str, str, float]]:
        return [(head, mask, ratio / informative[mask]) for head in HEADS for mask in MASKS for ratio in ratios]

    words = ("attention", "mask", "alpha")
    size = {**TASK, "dim": lab.pick(40, 100), "seeds": lab.pick(2, 4), "starts": 1}
    theory = lab.theory("theory", "aim.predict", {words: places(grid)}, TASK)
    runs = lab.train("trained", "aim.train", {words: places(measured)}, size)

    picture, both = panels(1, 2, width=4.6)
    shown = [None if table is None else _counted(table, informative) for table in (theory, runs)]
    for axes, (mask, title) in zip(both, MASKS.items(), strict=True):
        assert shown[0] is not None
        curves(axes, shown[0], shown[1], "combinations", "test_error", "attention", HEADS, only={"mask": mask})
        guide(axes, x=1.0, text="untied: every label fits", before=True)
        finish(axes, COMBINATIONS, "test error", title, log="x", ylim=(0.0, None), legend="lower left")
    caption = f"""Test error of three heads whose targets have the same singular values, against samples per informative
        combination of logits: J = 2 for two tokens without a mask and 1 with the causal one, tied or not. A tied head knows that its
        map is symmetric and needs fewer samples; untied heads can fit every label up to αJ = 1 (dotted). Self-attention is a little ahead
        of cross-attention, because the logit of a token with itself tells more of the symmetric part of the map. The errors that
        infinitely many samples leave differ: with itself a token has a larger logit in a symmetric map. κ₀ = 0.5, Δ = 0.5, T = 2,
        λ = 0.02; training with d = {size["dim"]}, {size["seeds"]} seeds."""
    pairs = compare(theory, runs, words, ("test_error", "train_loss", "rank"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _counted(table: Table, informative: Mapping[str, float]) -> Table:
    """The rows with samples per informative combination."""

    def row(found: dict[str, Any]) -> dict[str, Any]:
        return {**found, "combinations": found["alpha"] * informative[found["mask"]]}

    return Table([row(found) for found in table], lambda _: {})
