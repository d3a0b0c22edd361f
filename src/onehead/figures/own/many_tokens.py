"""Long sequences: dependence of the overlap on the length and on samples, with soft and hard labels."""

from collections.abc import Iterable

import numpy as np

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import curves
from onehead.figures.registry import Drawing
from onehead.plot.style import ALPHA_LABEL, finish_panel, panels
from onehead.sweep import Table

# loss and labels -> label, samples and their power of T, weight decay and its power of T (L1)
KINDS: dict[tuple[str, str], tuple[str, float, int, float, int]] = {
    ("squared", "soft"): ("soft labels, squared: α T² = 2", 2.0, 2, 0.5, 2),
    ("cross-entropy", "soft"): ("soft labels, cross-entropy: α T² = 2", 2.0, 2, 0.5, 1),
    ("cross-entropy", "hard"): ("hard labels: α T = 2", 2.0, 1, 0.3, 0),
}
PARAMETERS = ("loss", "labels", "tokens", "alpha", "weight_decay")
TASK = {"attention": "cross", "target": "product", "kappa0": 0.5, "noise": 0.5}
FIXED_LENGTH = 64  # of the right panel


def draw(source: DataSource) -> Drawing:
    """Draw the overlap of trained map and target against the length, and against samples at one length."""
    lengths = np.unique(np.round(np.geomspace(2, 100_000, source.pick(9, 24))).astype(int)).tolist()
    measured, size = source.pick((4, 16), (4, 8, 16, 32)), {**TASK, "dim": 64, "seeds": source.pick(2, 4), "starts": 1}
    ratios = np.geomspace(0.1, 10.0, source.pick(7, 16)).tolist()
    theory = _with_kind(
        source.theory("theory", "aim.predict", {PARAMETERS: _settings(sorted({*lengths, *measured}))}, TASK)
    )
    found = source.train("trained", "aim.train", {PARAMETERS: _settings(measured)}, size)
    runs = None if found is None else _with_kind(found)
    samples = _with_kind(source.theory("samples", "aim.predict", {PARAMETERS: _settings([FIXED_LENGTH], ratios)}, TASK))

    picture, (left, right) = panels(1, 2, width=4.6)
    names = {kind: settings[0] for kind, settings in KINDS.items()}
    curves(left, theory, runs, "tokens", "m", "kind", names)
    curves(right, samples, None, "alpha", "m", "kind", {kind: name.split(":")[0] for kind, name in names.items()})
    finish_panel(
        left, "tokens T", "overlap with the target, m", "samples in units of the length", log="x", legend="lower right"
    )
    finish_panel(right, ALPHA_LABEL, "", f"T = {FIXED_LENGTH}", log="x", ylim=(0.0, None), legend="lower right")
    caption = f"""Left: overlap m between the trained map and the target of cross-attention (m = 1: the target itself)
        against the number of tokens, with samples and weight decay in units of the length. From a few dozen tokens on
        the result depends only on αT² with soft labels, where every logit carries information, and on αT with hard
        labels, where every row does. Training with d = {size["dim"]}, {size["seeds"]} seeds, falls below the theory for
        soft labels as T approaches d; with hard labels it agrees. Right: the overlap against samples at T =
        {FIXED_LENGTH}: soft labels need T times fewer. κ₀ = 0.5, Δ = 0.5; λT² = 0.5 (squared), λT = 0.5
        (cross-entropy), λ = 0.3 (hard)."""
    pairs = compare(theory, runs, PARAMETERS, ("train_loss", "q", "m"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _settings(lengths: Iterable[int], ratios: Iterable[float] = (1.0,)) -> list[tuple[str, str, int, float, float]]:
    """Return all kinds of labels at these lengths, with these multiples of their samples."""
    ratios = tuple(ratios)
    return [
        (*kind, tokens, ratio * samples / tokens**power, decay / tokens**decay_power)
        for kind, (_, samples, power, decay, decay_power) in KINDS.items()
        for tokens in lengths
        for ratio in ratios
    ]


def _with_kind(table: Table) -> Table:
    """Return the rows with loss and labels combined in one column."""
    return Table([{**row, "kind": (row["loss"], row["labels"])} for row in table], lambda _: {})
