"""Heads people have: learning curves of tied, self- and cross-attention, without and with a causal mask."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from onehead.figures.agreement import compare
from onehead.figures.drawing import curves
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import finish, guide, panels
from onehead.sweep import Table

HEADS = {"tied": "tied", "self": "untied, self-attention", "cross": "untied, cross-attention"}
MASKS = {("none", 2): "two tokens that see each other", ("causal", 3): "three tokens that see those before (causal)"}
WORDS = ("attention", "mask", "tokens", "alpha")
COMBINATIONS = r"samples per informative combination of logits, $\alpha J$"
TASK = {"target": "mp", "kappa0": 0.5, "noise": 0.5, "weight_decay": 0.02}


def draw(lab: Lab) -> Drawing:
    """Test error against αJ, without a mask on the left and with the causal one on the right."""
    measured = lab.pick((0.3, 1.0, 3.0), (0.2, 0.6, 1.2, 3.0))
    grid = sorted({*np.geomspace(0.08, 10.0, lab.pick(10, 24)).tolist(), *measured})
    size = {**TASK, "dim": lab.pick(40, 100), "seeds": lab.pick(2, 4), "starts": 1}
    theory = _counted(lab.theory("theory", "aim.predict", {WORDS: _places(grid)}, TASK))
    found = lab.train("trained", "aim.train", {WORDS: _places(measured)}, size)
    runs = None if found is None else _counted(found)

    picture, both = panels(1, 2, width=4.6)
    for axes, ((mask, tokens), title) in zip(both, MASKS.items(), strict=True):
        only = {"mask": mask, "tokens": tokens}
        curves(axes, theory, runs, "combinations", "test_error", "attention", HEADS, only=only)
        guide(axes, x=1.0, text="untied: every label fits", before=True)
        finish(axes, COMBINATIONS, "test error", title, log="x", ylim=(0.0, None), legend="lower left")
    caption = f"""Test error of three heads whose targets have the same singular values, against samples per informative
        combination of logits (J = 2 on the left, 3 on the right). A tied head knows that its map is symmetric and needs fewer samples;
        untied heads can fit every label up to αJ = 1 (dotted). Self-attention is a little ahead of cross-attention, because the logit of
        a token with itself tells more of the symmetric part of the map. The errors that infinitely many samples leave differ: with
        itself a token has a larger logit in a symmetric map. κ₀ = 0.5, Δ = 0.5, λ = 0.02; training with d = {size["dim"]},
        {size["seeds"]} seeds."""
    pairs = compare(theory, runs, WORDS, ("test_error", "train_loss", "rank"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _informative(head: str, mask: str, tokens: int) -> float:
    """Combinations of logits that a sample tells about (U1.1)."""
    from onehead.aim.equations.geometry import geometry_of  # noqa: PLC0415

    return geometry_of(head, mask, tokens).informative


def _places(ratios: Iterable[float]) -> list[tuple[str, str, int, float]]:
    """Every head with these ratios of samples to informative combinations."""
    return [(head, *seen, ratio / _informative(head, *seen)) for head in HEADS for seen in MASKS for ratio in ratios]


def _counted(table: Table) -> Table:
    """The rows with samples per informative combination."""

    def row(found: dict[str, Any]) -> dict[str, Any]:
        return {**found, "combinations": found["alpha"] * _informative(*(found[word] for word in WORDS[:3]))}

    return Table([row(found) for found in table], lambda _: {})
