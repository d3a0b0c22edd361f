"""Predictions of the second study: directions left against λ/Σ̂, for heads of every width.

The theory adds λ d‖S‖_* to the sum of all losses, S = A (d/head_dim)^½ (U1); the study adds λ‖A‖_* to the mean loss of
a row. The squared force R of the loss on the logits of a row takes the place of the information of a sample, Σ̂ over the
number of samples, so that λ/Σ̂ of the theory is λ d/(R H^½) of a head of the study, whatever a sample is.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from onehead.aim import Learner, PowerLaw, Task, predict
from onehead.errors import ApproximationWarning
from studies.real_heads.measure import Row
from studies.real_heads.runs import MOST_TOKENS, Run

__all__ = ["curve", "layer_predictions", "measured_variances", "strength"]

LAMBDAS = np.geomspace(0.1, 6.0, 14)  # λ over α
WEAKEST = 1e-3  # λ over α at which Σ̂ is that of training without decay
GAMMA = 0.75  # of the power law of the target, as in the first study


def strength(penalty: float, width: int, force: float) -> float:
    """Return what takes the place of λ/Σ̂ for a head of the study."""
    return penalty * width / Run.heads**0.5 / force


def curve(width: int, variance: float, lambdas: Any = LAMBDAS) -> dict[str, Any]:
    """Return the share of the directions of a narrow head that are not zero, against λ/Σ̂.

    ``own`` has Σ̂ of the trained head itself, ``before`` that of training without decay; ``information`` is the latter
    over the number of samples.
    """
    target = PowerLaw(gamma=GAMMA, dim=width)
    task = Task(attention="cross", target=target, labels="hard", beta0=variance**0.5)
    alpha = MOST_TOKENS / width**2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)  # of narrow heads; the page says how good this is
        points = [
            predict(task, Learner(weight_decay=x * alpha, width=1 / Run.heads, loss="cross-entropy"), alpha=alpha)
            for x in (WEAKEST, *lambdas)
        ]
    information = points[0].sigma_hat / alpha
    kept = [(x, point) for x, point in zip(lambdas, points[1:], strict=True) if point.rank > 0.0]
    return {
        "variance": variance,
        "information": information,
        "share": [point.rank * Run.heads for _, point in kept],
        "own": [x * alpha / point.sigma_hat for x, point in kept],
        "before": [x / information for x, _ in kept],
    }


def layer_predictions(variances: Mapping[int, float]) -> dict[str, Any]:
    """Return the curves of every width, at logit variance one and at the measured one."""
    return {
        str(width): {"one": curve(width, 1.0), "measured": curve(width, variance)}
        for width, variance in variances.items()
    }


def measured_variances(rows: list[Row]) -> dict[int, float]:
    """Return, for every width, the median variance of the logits that depend on the query in heads without decay."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if not row["penalty"] and not row["decay"]:
            found.setdefault(row["width"], []).append(row["asked"])
    return {width: float(np.median(values)) for width, values in sorted(found.items())}
