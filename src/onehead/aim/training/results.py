"""What training gave: runs, and averages over them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.geometry import geometry_of
from onehead.aim.task import Learner, Task
from onehead.aim.training.instance import as_trained
from onehead.aim.training.settings import Method, Variant
from onehead.measured import FINITE_SIZE, Measured
from onehead.results import Certificate, Result

__all__ = ["QUANTITIES", "Sectors", "TrainingCertificate", "TrainingResult", "TrainingRun"]

Array = NDArray[np.float64]

QUANTITIES = (
    "test_error",
    "test_error_clean",
    "test_loss",
    "test_cross_entropy",
    "zero_one_error",
    "train_loss",
    "rank",
    "q",
    "m",
    "seconds",
)
Sectors = dict[str, list[float]]


@dataclass(frozen=True, kw_only=True)
class TrainingCertificate(Certificate):
    """``residual`` is the relative stationarity |gradient| |θ| / objective at the weights returned.

    ``gradient_norm``: norm of the gradient of objective/d². ``starts_gap``: largest relative gap of the
    objective between starts, or None when there was one.
    """

    gradient_norm: float
    objective: float
    starts_gap: float | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingRun(Result):
    """One trained head: its errors on fresh samples, its map S, the target map, and the spectrum of S.

    ``eigenvalues`` are those of S, or its singular values when query and key are untied; with several heads S
    is the mean of their maps. ``zero_one_error`` belongs to hard labels; ``sectors`` to untied self-attention: q = 2|S|²/d and
    m = 2 Tr S'S*/d of the symmetric and of the antisymmetric part (U5).
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("eigenvalues", "map", "target")

    seed: int
    test_error: float
    test_error_clean: float
    test_loss: float
    train_loss: float
    rank: float
    q: float
    m: float
    seconds: float
    test_cross_entropy: float
    zero_one_error: float | None
    sectors: Sectors | None
    certificate: TrainingCertificate
    eigenvalues: Array
    map: Array
    target: Array


@dataclass(frozen=True, kw_only=True)
class TrainingResult(Measured):
    """Averages over seeds; ``spread`` has for each its ``_std`` over seeds and the ``_err`` of the mean.

    ``trained_alpha``, ``trained_width`` and ``trained_kappa0`` (of an mp or product target) are n/d², m/d and m₀/d: what was asked
    for, rounded to whole numbers of samples and rows. ``sectors`` has means and spreads of its own, [symmetric, antisymmetric].
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("runs", "variant", "method")
    _SHOWN: ClassVar[tuple[str, ...]] = ("dim", "alpha", "seeds", "test_error", "train_loss", "rank")
    _COMPARED: ClassVar[tuple[str, ...]] = (
        "test_error",
        "test_error_clean",
        "test_cross_entropy",
        "zero_one_error",
        "train_loss",
        "rank",
        "q",
        "m",
    )
    MEANINGS: ClassVar[dict[str, str]] = {
        "test_error": "squared error on fresh samples",
        "test_error_clean": "the same against labels without noise",
        "test_loss": "the learner's own loss on fresh samples",
        "test_cross_entropy": "cross-entropy on fresh samples, in nats",
        "zero_one_error": "share of rows whose most attended token is not the label",
        "train_loss": "objective over d², weight decay included",
        "rank": "share of the eigenvalues of S that are not zero",
        "q": "mean squared eigenvalue of S",
        "m": "overlap of S with the target",
    }

    alpha: float
    dim: int
    samples: int
    test_error: float
    test_error_clean: float
    test_loss: float
    train_loss: float
    rank: float
    q: float
    m: float
    seconds: float
    test_cross_entropy: float
    zero_one_error: float | None = None
    sectors: Sectors | None = None
    trained_alpha: float
    trained_width: float
    trained_kappa0: float | None
    spread: dict[str, float]
    seeds: int
    setting: str
    certificate: TrainingCertificate
    runs: tuple[TrainingRun, ...]
    variant: Variant
    method: Method
    task: Task
    learner: Learner

    @property
    def trained(self) -> tuple[Task, Learner, float]:
        """Task, learner and sample ratio that were trained: the arguments of the prediction to lay beside it."""
        return as_trained(self.task, self.learner, self.alpha, self.dim, self.variant)

    @property
    def finite_size(self) -> float:
        """(3 + 1/(α J))/d: measured, most of all in q where combinations of logits are few (1.8)."""
        task = self.task
        combinations = self.trained_alpha * geometry_of(task.attention, task.mask, task.tokens).informative
        return (FINITE_SIZE + 1.0 / combinations) / self.dim

    @property
    def eigenvalues(self) -> Array:
        """The spectra of all runs, pooled."""
        return np.concatenate([run.eigenvalues for run in self.runs])
