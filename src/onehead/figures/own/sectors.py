"""Untied self-attention learns the symmetric part of its map faster than the antisymmetric one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from onehead.figures.agreement import compare
from onehead.figures.data_source import DataSource
from onehead.figures.drawing import line, marks
from onehead.figures.registry import Drawing
from onehead.plot.style import ALPHA_LABEL, finish_panel, guide, panels
from onehead.sweep import Table

SECTORS = {"s": "symmetric part", "a": "antisymmetric part"}
TASK = {"attention": "self", "mask": "causal", "kappa0": 0.5, "weight_decay": 0.02}


def draw(source: DataSource) -> Drawing:
    """Draw size and overlap with the target of both parts against α."""
    measured = source.pick((0.3, 1.0, 3.0), (0.2, 0.5, 1.0, 3.0))
    alphas = sorted({*np.geomspace(0.1, 10.0, source.pick(14, 28)).tolist(), *measured})
    size = {**TASK, "dim": source.pick(40, 100), "seeds": source.pick(4, 6), "starts": 1}
    theory = _with_parts(source, source.theory("theory", "aim.predict", {"alpha": alphas}, TASK))
    found = source.train("trained", "aim.train", {"alpha": measured}, size)
    runs = None if found is None else _with_parts(source, found)

    picture, both = panels(1, 2, width=4.6)
    for axes, name in zip(both, "qm", strict=True):
        for k, (part, label) in enumerate(SECTORS.items()):
            line(axes, theory, "alpha", f"{name}_{part}", f"{label}, ${name}_\\mathrm{{{part}}}$", k)
            marks(axes, runs, "alpha", f"{name}_{part}", f"trained, d = {size['dim']}" if k == 0 else None, k)
        guide(axes, y=1.0, text="target", at=0.2)
    look = {"log": "x", "ylim": (0.0, 1.25), "legend": "lower right"}
    finish_panel(both[0], ALPHA_LABEL, "size, q = 2 |part of S|²/d", "size of the map", **look)
    finish_panel(both[1], ALPHA_LABEL, "overlap, m = 2 Tr (part of S)'S*/d", "overlap with the target", **look)
    caption = f"""Size q and overlap with the target m of the symmetric and the antisymmetric part of the map of causal
        self-attention. The logit of a token with itself depends on the symmetric part alone, which is therefore learned
        from fewer samples; from α = 1 on, where labels can no longer be fitted exactly, the antisymmetric part is the
        larger one and has the smaller overlap: it contains more noise. κ₀ = 0.5, Δ = 0.5, T = 2, λ = 0.02; training
        with d = {size["dim"]}, {size["seeds"]} seeds."""
    numbers = tuple(f"{name}_{part}" for name in "qm" for part in SECTORS)
    pairs = compare(theory, runs, ("alpha",), ("test_error", "train_loss", "rank", *numbers))
    return Drawing(picture=picture, caption=caption, pairs=pairs)


def _with_parts(source: DataSource, table: Table) -> Table:
    """Return the rows with a column for q and m of each part, and add them to the data of the figure."""

    def row(found: dict[str, Any]) -> dict[str, Any]:
        numbers: dict[str, Sequence[float]] = found.get("sectors") or {}
        return {
            **found,
            **{
                f"{name[0]}_{part}{name[1:]}": value
                for name in ("q", "q_err", "m", "m_err")
                for part, value in zip(SECTORS, numbers.get(name, ()), strict=False)
            },
        }

    rows = [row(found) for found in table]
    series = "parts of the map, " + ("trained" if "dim" in rows[0] else "theory")
    columns = ["alpha", *(key for key in rows[0] if key[:2] in ("q_", "m_") and key[2] in SECTORS)]
    source.add(series, **{name: [found.get(name) for found in rows] for name in columns})
    return Table(rows, lambda _: {})
