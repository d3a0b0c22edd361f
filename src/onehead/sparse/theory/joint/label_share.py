"""Alignment of long sequences: the samples it needs, and the effect of the random share of positives (J32-J34)."""

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from onehead.sparse.losses import Logistic, Square
from onehead.sparse.task import Protocol, Task
from onehead.sparse.theory.alignment import two_steps

NODES = 41  # of the Gauss-Hermite rule over the share of positives
EXTREME_SHARE = 1e-6  # smallest share of positives or negatives of a node


class AlignmentSpread(NamedTuple):
    """Mean and standard deviation of cos(query, signal) over the share of positives in the sample."""

    mean: float
    spread: float


def samples_needed(task: Task) -> float:
    """Return alpha0 at which cos(query, signal) = 1/sqrt(2), for long sequences and a balanced bias rate (J32).

    With x = L/alpha0, tan^2 = x/(pi (1-pi) theta^4 nu^2) (1 + x/(pi^2 theta^2 R^2)) equals one.
    """
    pi, theta2 = task.positive_rate, task.strength**2
    a = pi * (1.0 - pi) * theta2**2 * task.mask_variance**2
    b = pi**2 * theta2 * task.signal_tokens**2
    if a == 0.0 or b == 0.0:
        return np.inf
    x = 2.0 * a / (1.0 + sqrt(1.0 + 4.0 * a / b))
    return task.length / x


def balanced_bias_rate(task: Task, protocol: Protocol) -> float | None:
    """Return the bias rate at which E h = 0 after the first step, for small eta_w (J34); None for other losses.

    Logistic: 2 logit(pi)/(2 pi - 1), which is 4 at pi = 1/2. Square: 1.
    """
    if isinstance(protocol.loss, Square):
        return 1.0
    if not isinstance(protocol.loss, Logistic):
        return None
    pi = task.positive_rate
    imbalance = 2.0 * pi - 1.0
    return 4.0 if abs(imbalance) < 1e-6 else 2.0 * log(pi / (1.0 - pi)) / imbalance


def alignment_spread(task: Task, protocol: Protocol, dim: int) -> AlignmentSpread:
    """Average the alignment over the share of positives among round(alpha0 dim) samples, taken as Gaussian (J33)."""
    samples = max(1, round(protocol.alpha0 * dim))
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    pi = task.positive_rate
    shares = np.clip(pi + sqrt(pi * (1.0 - pi) / samples) * nodes, EXTREME_SHARE, 1.0 - EXTREME_SHARE)
    cosines = np.array([two_steps(task.changed(positive_rate=float(p)), protocol).cos_query for p in shares])
    weights = weights / weights.sum()
    mean = float(weights @ cosines)
    return AlignmentSpread(mean, sqrt(max(float(weights @ (cosines - mean) ** 2), 0.0)))
