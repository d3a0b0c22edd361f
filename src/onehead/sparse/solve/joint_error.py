"""Test error of jointly trained weights, from their order parameters (J4)."""

from collections.abc import Sequence

import numpy as np

from onehead.sparse.solve.readout import gaussian_error
from onehead.sparse.task import Task
from onehead.sparse.theory.features import affordable, attention_features
from onehead.sparse.theory.joint.attention_forces import JointWeights

TEST_LOG2_POINTS = 12  # log2 of the points per class


def cosine(overlap: float, square: float) -> float:
    """Return the cosine of a vector with the signal, from its overlap and its squared norm; zero for a zero vector."""
    return float(np.clip(overlap / np.sqrt(square), -1.0, 1.0)) if square > 0.0 else 0.0


def joint_test_error(
    task: Task,
    weights: JointWeights,
    *,
    log2_points: int = TEST_LOG2_POINTS,
    seed: int = 0,
    length: int | None = None,
    bias_shifts: Sequence[float] = (0.0,),
) -> float:
    """Return E Phi(-y mean/(|a| sd)) over the attention of a fresh sample, given overlaps, Gram matrix and bias (J4).

    The logit of a sample has mean sum_l a_l E[G_l | H_l] + b and variance |a|^2 sd^2, where sd^2 is the part of |w|^2
    orthogonal to the query. ``length`` replaces the length of the task; ``seed`` scrambles the points. The result
    is the mean over the biases b + shift.
    """
    (m_q, m_w), gram = weights.overlap.tolist(), weights.gram
    norm = float(np.sqrt(max(gram[0, 0], 0.0)))
    s = cosine(m_q, gram[0, 0])
    along = float(gram[0, 1]) / norm if norm > 0.0 else 0.0
    rest = float(np.sqrt(max(1.0 - s * s, 0.0)))
    across = (m_w - s * along) / rest if rest > 0.0 else 0.0
    features = attention_features(
        task,
        cos_query=s,
        sharpness=norm,
        log2_points=affordable(log2_points, length or task.length),
        seed=seed,
        length=length,
    )
    spread = float(np.sqrt(max(gram[1, 1] - along**2, across**2)))
    errors = [
        gaussian_error(features, np.array([along, across, weights.bias + shift]), spread) for shift in bias_shifts
    ]
    return float(np.mean(errors))
