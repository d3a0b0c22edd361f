"""Sparse-token classification (arXiv 2509.25153): attention against pooled and vectorised linear classifiers.

A positive sequence carries a weak signal in a few random tokens. `predict` gives the errors of the three
models without training, `train` measures them; `align`, `oracle`, `capacity`, `tune` and `landscape` answer
the questions around them.
"""

from onehead.sparse.alignment import Alignment, align, critical_bias_rate, misalignment_constant
from onehead.sparse.capacity import Capacity, capacity
from onehead.sparse.compare import Comparison, compare
from onehead.sparse.curve import Curve, curve
from onehead.sparse.finite import FiniteSize, finite_size
from onehead.sparse.landscape import Landscape, landscape
from onehead.sparse.losses import Hinge, Logistic, Loss, Square, SquaredHinge
from onehead.sparse.oracle import Oracle, grow, oracle
from onehead.sparse.task import Protocol, Task, draw
from onehead.sparse.theory import Prediction, predict, ridgeless
from onehead.sparse.train import TrainingResult, separable_share, train
from onehead.sparse.tune import Tuned, tune

__all__ = [
    "Alignment",
    "Capacity",
    "Comparison",
    "Curve",
    "FiniteSize",
    "Hinge",
    "Landscape",
    "Logistic",
    "Loss",
    "Oracle",
    "Prediction",
    "Protocol",
    "Square",
    "SquaredHinge",
    "Task",
    "TrainingResult",
    "Tuned",
    "align",
    "capacity",
    "compare",
    "critical_bias_rate",
    "curve",
    "draw",
    "finite_size",
    "grow",
    "landscape",
    "misalignment_constant",
    "oracle",
    "predict",
    "ridgeless",
    "separable_share",
    "train",
    "tune",
]
