"""Many tokens: what is left of the length of a sequence, and how much more a soft label says than a drawn one."""

from collections.abc import Iterable

import numpy as np

from onehead.figures.agreement import compare
from onehead.figures.drawing import curves
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing
from onehead.plot.style import ALPHA, finish, panels
from onehead.sweep import Table

# loss and labels -> what is said of them, samples and weight decay in units of the length with their powers of T (L1)
KINDS: dict[tuple[str, str], tuple[str, float, int, float, int]] = {
    ("squared", "soft"): ("soft labels, squared: α T² = 2", 2.0, 2, 0.5, 2),
    ("cross-entropy", "soft"): ("soft labels, cross-entropy: α T² = 2", 2.0, 2, 0.5, 1),
    ("cross-entropy", "hard"): ("hard labels: α T = 2", 2.0, 1, 0.3, 0),
}
WORDS = ("loss", "labels", "tokens", "alpha", "weight_decay")
TASK = {"attention": "cross", "target": "product", "kappa0": 0.5, "noise": 0.5}
MANY = 64


def draw(lab: Lab) -> Drawing:
    """Overlap of trained map and target against the length, and against samples at one length."""
    lengths = np.unique(np.round(np.geomspace(2, 100_000, lab.pick(9, 24))).astype(int)).tolist()
    measured, size = lab.pick((4, 16), (4, 8, 16, 32)), {**TASK, "dim": 64, "seeds": lab.pick(2, 4), "starts": 1}
    ratios = np.geomspace(0.1, 10.0, lab.pick(7, 16)).tolist()
    theory = _with_kind(lab.theory("theory", "aim.predict", {WORDS: _places(sorted({*lengths, *measured}))}, TASK))
    found = lab.train("trained", "aim.train", {WORDS: _places(measured)}, size)
    runs = None if found is None else _with_kind(found)
    samples = _with_kind(lab.theory("samples", "aim.predict", {WORDS: _places([MANY], ratios)}, TASK))

    picture, (left, right) = panels(1, 2, width=4.6)
    names = {kind: words[0] for kind, words in KINDS.items()}
    curves(left, theory, runs, "tokens", "m", "kind", names)
    curves(right, samples, None, "alpha", "m", "kind", {kind: name.split(":")[0] for kind, name in names.items()})
    finish(
        left, "tokens T", "overlap with the target, m", "samples in units of the length", log="x", legend="lower right"
    )
    finish(right, ALPHA, "", f"T = {MANY}", log="x", ylim=(0.0, None), legend="lower right")
    caption = f"""Left: overlap m between the trained map and the target of cross-attention (m = 1: the target itself) against the number of tokens, samples and
        weight decay in units of the length. From a few dozen tokens on the length is gone: what counts is αT² with soft labels,
        where every logit tells something, and αT with hard ones, where every row does. Training with d = {size["dim"]}, {size["seeds"]}
        seeds, falls below the theory of soft labels as T approaches d; that of hard labels holds. Right: the same against samples at
        T = {MANY}: soft labels need T times fewer. κ₀ = 0.5, Δ = 0.5; λT² = 0.5 (squared), λT = 0.5 (cross-entropy), λ = 0.3 (hard)."""
    pairs = compare(theory, runs, WORDS, ("train_loss", "q", "m"))
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _places(lengths: Iterable[int], ratios: Iterable[float] = (1.0,)) -> list[tuple[str, str, int, float, float]]:
    """Every kind of label at these lengths, with so many times its samples."""
    ratios = tuple(ratios)
    return [
        (*kind, tokens, ratio * samples / tokens**power, decay / tokens**its)
        for kind, (_, samples, power, decay, its) in KINDS.items()
        for tokens in lengths
        for ratio in ratios
    ]


def _with_kind(table: Table) -> Table:
    """The rows with loss and labels in one."""
    return Table([{**row, "kind": (row["loss"], row["labels"])} for row in table], lambda _: {})
