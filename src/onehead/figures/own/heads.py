"""Learning curves of tied, self- and cross-attention, without and with a causal mask."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves
from onehead.figures.registry import Drawing
from onehead.plot.style import finish_panel, guide, panels
from onehead.sweep import Table

HEADS = {"tied": "tied", "self": "untied, self-attention", "cross": "untied, cross-attention"}
MASKS = {("none", 2): "two tokens, no mask", ("causal", 3): "three tokens, causal mask"}
PARAMETERS = ("attention", "mask", "tokens", "alpha")
COMBINATIONS = r"samples per informative combination of logits, $\alpha J$"
TASK = {"target": "mp", "kappa0": 0.5, "noise": 0.5, "weight_decay": 0.02}


def draw(source: DataSource) -> Drawing:
    """Draw the test error against αJ, without a mask and with the causal one."""
    measured = source.pick((0.3, 1.0, 3.0), (0.2, 0.6, 1.2, 3.0))
    grid = sorted({*np.geomspace(0.08, 10.0, source.pick(10, 24)).tolist(), *measured})
    size = {**TASK, "dim": source.pick(40, 100), "seeds": source.pick(2, 4), "starts": 1}
    theory = _with_combinations(source.theory("theory", "aim.predict", {PARAMETERS: _settings(grid)}, TASK))
    found = source.train("trained", "aim.train", {PARAMETERS: _settings(measured)}, size)
    runs = None if found is None else _with_combinations(found)

    picture, both = panels(1, 2, width=4.6)
    for axes, ((mask, tokens), title) in zip(both, MASKS.items(), strict=True):
        only = {"mask": mask, "tokens": tokens}
        curves(axes, theory, runs, "combinations", "test_error", "attention", HEADS, only=only)
        guide(axes, x=1.0, text="untied: all labels can be fitted", before=True)
        finish_panel(axes, COMBINATIONS, "test error", title, log="x", ylim=(0.0, None), legend="lower left")
    caption = f"""Test error of three heads whose targets have the same singular values, against samples per informative
        combination of logits (J = 2 on the left, 3 on the right). A tied head knows that its map is symmetric and needs
        fewer samples; untied heads can fit every label up to αJ = 1 (dotted). Self-attention is a little ahead of
        cross-attention, because the logit of a token with itself carries more information on the symmetric part of the
        map. The errors that remain with infinitely many samples differ, because in a symmetric map the logit of a token
        with itself is larger. κ₀ = 0.5, Δ = 0.5, λ = 0.02; training with d = {size["dim"]}, {size["seeds"]} seeds."""
    pairs = compare(theory, runs, PARAMETERS, ("test_error", "train_loss", "rank"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _informative(head: str, mask: str, tokens: int) -> float:
    """Return the number J of combinations of logits that a sample determines (U1.1)."""
    from onehead.aim.logits.geometry import geometry_of

    return geometry_of(head, mask, tokens).informative


def _settings(ratios: Iterable[float]) -> list[tuple[str, str, int, float]]:
    """Return all heads with these ratios of samples to informative combinations."""
    return [(head, *mask, ratio / _informative(head, *mask)) for head in HEADS for mask in MASKS for ratio in ratios]


def _with_combinations(table: Table) -> Table:
    """Return the rows with samples per informative combination as a further column."""

    def row(found: dict[str, Any]) -> dict[str, Any]:
        return {**found, "combinations": found["alpha"] * _informative(*(found[name] for name in PARAMETERS[:3]))}

    return Table([row(found) for found in table], lambda _: {})
