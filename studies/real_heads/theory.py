"""What the theory says beside the runs: how weight decay cuts rank, how many outliers there are, and symmetric shares.

The theory has one head, Gaussian tokens and a target; a token of the text is taken for a sample. Its penalty λ d‖S‖_* on S = A (width/head_dim)^½ and the
sum of losses (U1) make the λ of the mean loss and ‖A‖_* here this many times smaller: α width (head_dim/width)^½. What the theory
cannot know is how strongly the loss of a transformer depends on the attention of one head; it shows as one factor on λ.
"""

from typing import Any

import numpy as np

from onehead.aim import Learner, PowerLaw, Task, predict, scaling
from onehead.weights import predicted_share
from studies.real_heads.runs import FEW, MOST, WIDTH, Run

__all__ = ["predictions", "unit"]

HEADS = Run.heads
TARGET = PowerLaw(gamma=0.75, dim=WIDTH)  # features of all sizes
LAMBDAS = np.geomspace(0.3, 8.0, 16)  # of the theory, over α
PENALTY = 3e-4  # at which shares are predicted
HARD: dict[str, Any] = {"labels": "hard"}
ENTROPY: dict[str, Any] = {"loss": "cross-entropy"}


def unit(tokens: int, width: int, head_dim: int) -> float:
    """The λ of the theory over that of the mean loss and ‖A‖_*."""
    return tokens / width * (head_dim / width) ** 0.5


def predictions() -> dict[str, Any]:
    """Rank of a narrow head against λ at most tokens, outliers against tokens, symmetric shares against tokens."""
    alpha = MOST / WIDTH**2
    narrow = Task(attention="cross", target=TARGET, **HARD)
    ranks = [
        predict(narrow, Learner(weight_decay=float(x * alpha), width=1 / HEADS, **ENTROPY), alpha=alpha).rank * HEADS
        for x in LAMBDAS
    ]
    tokens = [*FEW, MOST]
    law = scaling(narrow, Learner(weight_decay=0.001, width=1 / HEADS, **ENTROPY), np.array(tokens, dtype=float))
    causal = Task(attention="self", mask="causal", **HARD)
    shares = [
        predicted_share(
            predict(
                causal,
                Learner(weight_decay=PENALTY * unit(n, WIDTH, WIDTH // HEADS), **ENTROPY),
                alpha=n / WIDTH**2,
            )
        )
        for n in tokens
    ]
    return {
        "lambda": (LAMBDAS * alpha / unit(MOST, WIDTH, WIDTH // HEADS)).tolist(),
        "used": ranks,
        "tokens": tokens,
        "outliers": [point.outliers for point in law],
        "shares": shares,
    }
