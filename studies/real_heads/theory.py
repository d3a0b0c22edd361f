"""What the theory says beside the runs: how weight decay cuts rank, how many outliers there are, and symmetric shares.

The theory has one head, Gaussian tokens and a target; a token of the text is taken for a sample. The theory adds λ d‖S‖_* to the sum of all
losses, S = A (width/head_dim)^½ (U1); here λ‖A‖_* is added to their mean, so that the λ of the theory is ``unit`` times that of a run. What
the theory cannot know is how strongly the loss of a transformer depends on the attention of one head. It shows as one factor on λ, the
``scale``, chosen such that half of the directions are cut at the same λ.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from onehead.aim import Learner, PowerLaw, Task, predict, scaling
from onehead.weights import predicted_share
from studies.real_heads.runs import FEW, MOST, WIDTH, Run

__all__ = ["predictions", "unit"]

HEADS = Run.heads
TARGET = PowerLaw(gamma=0.75, dim=WIDTH)  # features of all sizes
LAMBDAS = np.geomspace(0.3, 8.0, 16)  # of the theory, over α
HARD: dict[str, Any] = {"labels": "hard"}
ENTROPY: dict[str, Any] = {"loss": "cross-entropy"}
TOKENS = (*FEW, MOST)
PENALTIES = (3e-4, 1e-3)  # at which directions are counted for every number of tokens
SHARED = 3e-4  # at which shares are predicted


def unit(tokens: int) -> float:
    """The λ of the theory over that of a run at the usual width."""
    return tokens / WIDTH / HEADS**0.5


def used(tokens: int, decay: float) -> float:
    """Part of the directions of a narrow head that are not zero."""
    task = Task(attention="cross", target=TARGET, **HARD)
    return predict(task, Learner(weight_decay=decay, width=1 / HEADS, **ENTROPY), alpha=tokens / WIDTH**2).rank * HEADS


def share(tokens: int) -> float:
    """The symmetric share of a head that sees itself and one token before."""
    task = Task(attention="self", mask="causal", **HARD)
    learner = Learner(weight_decay=SHARED * unit(tokens), **ENTROPY)
    return predicted_share(predict(task, learner, alpha=tokens / WIDTH**2))


def half(x: Sequence[float], y: Sequence[float]) -> float:
    """Where a falling curve passes one half, by a line in log x."""
    return float(np.exp(np.interp(-0.5, -np.array(y), np.log(x))))


def predictions(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Everything, with the scale of λ that fits these rows of heads at their end."""
    lambdas = LAMBDAS * MOST / WIDTH**2 / unit(MOST)
    curve = [used(MOST, float(x * unit(MOST))) for x in lambdas]
    kept: dict[float, list[float]] = {}
    for row in rows:
        if row["penalty"] and (row["width"], row["tokens"]) == (WIDTH, MOST):
            kept.setdefault(row["penalty"], []).append(row["left"] / row["head_dim"])
    known = sorted(kept)
    scale = half(known, [float(np.mean(kept[penalty])) for penalty in known]) / half(lambdas.tolist(), curve)
    narrow, weak = (
        Task(attention="cross", target=TARGET, **HARD),
        Learner(weight_decay=0.001, width=1 / HEADS, **ENTROPY),
    )
    return {
        "scale": scale,
        "lambda": (scale * lambdas).tolist(),
        "used": curve,
        "tokens": TOKENS,
        "left": {str(x): [used(n, x / scale * unit(n)) * WIDTH / HEADS for n in TOKENS] for x in PENALTIES},
        "outliers": [point.outliers for point in scaling(narrow, weak, np.array(TOKENS, dtype=float))],
        "shares": [share(n) for n in TOKENS],
    }
