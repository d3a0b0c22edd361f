"""Predictions for the runs: reduction of the rank by weight decay, number of outliers, and symmetric shares.

The theory has one head, Gaussian tokens and a target; a token of the text counts as a sample. The theory adds λ d‖S‖_*
to the sum of all losses, S = A (width/head_dim)^½ (U1); here λ‖A‖_* is added to their mean, so that the λ of the theory
is ``unit`` times that of a run. How strongly the loss of a transformer depends on the attention of one head is
measured: the squared force R of the loss on the logits of a row takes the place of the information of a sample of the
theory, Σ̂/α, and their ratio is the ``scale`` of λ.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from onehead.aim import Learner, PowerLaw, Task, predict, scaling
from onehead.weights import predicted_share
from studies.real_heads.measure import Row
from studies.real_heads.runs import FEWER_TOKENS, MOST_TOKENS, WIDTH, Run

__all__ = ["predictions", "unit"]

HEADS = Run.heads
TARGET = PowerLaw(gamma=0.75, dim=WIDTH)  # a target with features of all sizes
LAMBDAS = np.geomspace(0.3, 8.0, 16)  # λ of the theory over α
HARD: dict[str, Any] = {"labels": "hard"}
ENTROPY: dict[str, Any] = {"loss": "cross-entropy"}
TOKENS = (*FEWER_TOKENS, MOST_TOKENS)
WEAKEST = 1e-3  # λ over α at which Σ̂ is that of training without decay
PENALTIES = (3e-4, 1e-3)  # for which directions are counted at every number of tokens
SHARE_PENALTY = 3e-4  # for which symmetric shares are predicted


def unit(tokens: int) -> float:
    """Return the λ of the theory over that of a run of the default width."""
    return tokens / WIDTH / HEADS**0.5


def used(tokens: int, decay: float) -> float:
    """Return the share of the directions of a narrow head that are not zero."""
    task = Task(attention="cross", target=TARGET, **HARD)
    return predict(task, Learner(weight_decay=decay, width=1 / HEADS, **ENTROPY), alpha=tokens / WIDTH**2).rank * HEADS


def share(tokens: int) -> float:
    """Return the symmetric share of a causal head with two tokens."""
    task = Task(attention="self", mask="causal", **HARD)
    learner = Learner(weight_decay=SHARE_PENALTY * unit(tokens), **ENTROPY)
    return predicted_share(predict(task, learner, alpha=tokens / WIDTH**2))


def predictions(rows: Sequence[Row]) -> dict[str, Any]:
    """Return all predictions; rows of heads of the second study give the force of the loss on their logits.

    The force is the median over heads of the default width that have the penalty and at least one direction left.
    """
    usual = {"width": WIDTH, "value_penalty": 0, "decay": 0, "descent": 0, "steps": Run.steps}
    forces = [
        row["force"]
        for row in rows
        if row["penalty"] and row["left"] and all(row[name] == value for name, value in usual.items())
    ]
    lambdas = LAMBDAS * MOST_TOKENS / WIDTH**2 / unit(MOST_TOKENS)
    narrow, weak = (
        Task(attention="cross", target=TARGET, **HARD),
        Learner(weight_decay=0.001, width=1 / HEADS, **ENTROPY),
    )
    alpha = MOST_TOKENS / WIDTH**2
    information = (
        predict(narrow, Learner(weight_decay=WEAKEST * alpha, width=1 / HEADS, **ENTROPY), alpha=alpha).sigma_hat
        / alpha
    )
    scale = float(np.median(forces)) / information
    return {
        "force": float(np.median(forces)),
        "information": information,
        "scale": scale,
        "lambda": (scale * lambdas).tolist(),
        "used": [used(MOST_TOKENS, float(x * unit(MOST_TOKENS))) for x in lambdas],
        "tokens": TOKENS,
        "left": {str(x): [used(n, x / scale * unit(n)) * WIDTH / HEADS for n in TOKENS] for x in PENALTIES},
        "outliers": [point.outliers for point in scaling(narrow, weak, np.array(TOKENS, dtype=float))],
        "shares": [share(n) for n in TOKENS],
    }
