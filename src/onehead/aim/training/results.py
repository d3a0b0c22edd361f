"""Results of training: single runs, averages over them, and their certificates."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.logits.geometry import geometry_of
from onehead.aim.solve.branches import SMALL_WEIGHTS, TARGET
from onehead.aim.solve.certificate import OtherSolution
from onehead.aim.task import Learner, Task
from onehead.aim.training.instance import problem_as_trained
from onehead.aim.training.settings import Method, Start, Variant
from onehead.aim.verbs.predict import Prediction
from onehead.results import Certificate, Result
from onehead.results.replicates import FINITE_SIZE_BIAS, Agreement, Measured

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
    "unasked_scale",
    "unasked_share",
    "q_cross",
    "m_cross",
    "head_error",
    "seconds",
)
Sectors = dict[str, list[float]]


@dataclass(frozen=True, kw_only=True)
class TrainingCertificate(Certificate):
    """Certificate of a training run; ``residual`` is the relative stationarity |gradient| |θ| / objective.

    Attributes
    ----------
    gradient_norm : float
        Norm of the gradient of the objective over d².
    objective : float
        Objective over d² at the weights returned.
    starts_gap : float or None
        Largest relative difference of the objective between random starts; None if there was one start.
    """

    gradient_norm: float
    objective: float
    starts_gap: float | None = None


@dataclass(frozen=True, kw_only=True)
class TrainingRun(Result):
    """One trained head: its errors on fresh samples, its map S, the target map, and the spectrum of S.

    With averaged heads S is the mean of their maps; with heads that add to one output there is one for each.

    Attributes
    ----------
    seed : int
        Index of the run.
    start : str
        Start that led to it: "random" or "informed".
    by_start : tuple of TrainingRun
        The run from each start, this one among them.
    test_error, test_error_clean : float
        Mean squared error on fresh samples, labels with and without noise.
    test_loss : float
        The learner's own loss on fresh samples.
    train_loss : float
        Objective over d² at the minimum, penalty included.
    rank : float
        Share of eigenvalues (singular values) of S that are not zero.
    q, m : float
        |S|²/d and Tr S'S*/d; without the row along the mean of the queries, if they have one.
    unasked_scale, unasked_share : float or None
        Size of the logits that all queries share relative to the target's, and their share in the variance of the
        head's logits within a row; None where queries have no mean (D2).
    seconds : float
        Wall time of the run.
    test_cross_entropy : float
        Cross-entropy on fresh samples, in nats.
    zero_one_error : float or None
        Share of rows whose most attended token is not the label; None for soft labels.
    sectors : dict or None
        q = 2|S|²/d and m = 2 Tr S'S*/d of the symmetric and of the antisymmetric part, for untied self-attention (U5).
    q_cross, m_cross : float or None
        Tr S_h'S_k/d and Tr S_h'S*_k/d, means over all pairs of different heads; None for one head.
    head_error : float or None
        Squared error of the attention of one head, mean over the heads; None for one head.
    value_scale : tuple of float or None
        Size of the values relative to the target's, in the mean of the heads and in their differences; None unless
        there are several heads or learnt values.
    head_overlaps : dict or None
        Matrices q and m of the overlaps of all heads.
    certificate : TrainingCertificate
        Status and stationarity.
    eigenvalues : ndarray
        Eigenvalues of S, or its singular values when query and key are untied; those of all heads.
    map, target : ndarray
        S and S*, or stacks of them for several heads.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("eigenvalues", "map", "target", "by_start")

    seed: int
    start: Start
    test_error: float
    test_error_clean: float
    test_loss: float
    train_loss: float
    rank: float
    q: float
    m: float
    unasked_scale: float | None = None
    unasked_share: float | None = None
    seconds: float
    test_cross_entropy: float
    zero_one_error: float | None
    sectors: Sectors | None
    certificate: TrainingCertificate
    eigenvalues: Array
    map: Array
    target: Array
    q_cross: float | None = None
    m_cross: float | None = None
    head_error: float | None = None
    value_scale: tuple[float, float] | None = None
    head_overlaps: dict[str, list[list[float]]] | None = None
    by_start: "tuple[TrainingRun, ...]" = ()


@dataclass(frozen=True, kw_only=True)
class TrainedSolution(Result):
    """What training from one start reaches: means over seeds, with their standard errors.

    Attributes
    ----------
    start : str
        "random" or "informed".
    train_loss, test_error, q : float
        Objective over d², test error, |S|²/d.
    train_loss_err, test_error_err, q_err : float
        Standard errors.
    """

    start: Start
    train_loss: float
    test_error: float
    q: float
    train_loss_err: float
    test_error_err: float
    q_err: float


def solution_reached(prediction: Prediction, start: Start) -> Prediction | OtherSolution:
    """Return the predicted solution that training from a start reaches; the minimum for both starts together.

    Random weights lead to the solution reached from small weights, informed ones to that reached from the target.
    """
    name = {"random": SMALL_WEIGHTS, "informed": TARGET}.get(start)
    return next((other for other in prediction.other_solutions if other.reached_from == name), prediction)


@dataclass(frozen=True, kw_only=True)
class TrainingResult(Measured):
    """Averages of trained heads over seeds, with their standard deviations and standard errors.

    Attributes
    ----------
    alpha : float
        Sample ratio α = n/d² asked for.
    dim : int
        Dimension d of a token.
    samples : int
        Number of samples n.
    test_error, test_error_clean, test_loss, train_loss, rank, q, m, seconds, test_cross_entropy, zero_one_error : float
        Means over seeds, see `TrainingRun`.
    unasked_scale, unasked_share : float or None
        Means over seeds of the unasked part of the head; None where queries have no mean.
    q_cross, m_cross, head_error : float or None
        Means over seeds for several heads.
    value_scale : tuple of float or None
        Means over seeds for several heads, or learnt values.
    sectors : dict or None
        Means, ``_std`` and ``_err`` of q and m, each as [symmetric, antisymmetric], for untied self-attention.
    trained_alpha, trained_width, trained_kappa0 : float
        n/d², m/d and m₀/d (of an mp or product target) after rounding to whole numbers of samples and rows.
    spread : dict
        For every mean its standard deviation over seeds, ``_std``, and its standard error, ``_err``.
    seeds : int
        Number of runs.
    setting : str
        The variant, in words.
    certificate : TrainingCertificate
        The worst of the runs.
    runs : tuple of TrainingRun
        The runs.
    solutions : tuple of TrainedSolution
        What each start reached, where there were both; the means above are of the lower objective of each seed.
    by_start : tuple of TrainingResult
        The averages for each start, where there were both.
    variant, method, task, learner : Variant, Method, Task, Learner
        The problem.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("runs", "variant", "method", "by_start")
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("dim", "alpha", "seeds", "test_error", "train_loss", "rank")
    _COMPARED: ClassVar[tuple[str, ...]] = tuple(name for name in QUANTITIES if name not in ("test_loss", "seconds"))
    MEANINGS: ClassVar[dict[str, str]] = {
        "test_error": "squared error on fresh samples, labels with noise",
        "test_error_clean": "squared error on fresh samples, labels without noise",
        "test_loss": "the learner's own loss on fresh samples",
        "test_cross_entropy": "cross-entropy on fresh samples, in nats",
        "zero_one_error": "share of rows whose most attended token is not the label",
        "train_loss": "objective over d², weight decay included",
        "rank": "share of the eigenvalues of S that are not zero",
        "q": "mean squared eigenvalue of S",
        "m": "overlap of S with the target",
        "unasked_scale": "size of the logits that all queries share, over the target's",
        "unasked_share": "share of these logits in the variance within a row",
        "q_cross": "overlap of two heads",
        "m_cross": "overlap of a head with the target of another",
        "head_error": "squared error of the attention of one head",
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
    unasked_scale: float | None = None
    unasked_share: float | None = None
    q_cross: float | None = None
    m_cross: float | None = None
    head_error: float | None = None
    value_scale: tuple[float, float] | None = None
    sectors: Sectors | None = None
    trained_alpha: float
    trained_width: float
    trained_kappa0: float | None
    spread: dict[str, float]
    seeds: int
    setting: str
    certificate: TrainingCertificate
    runs: tuple[TrainingRun, ...]
    solutions: tuple[TrainedSolution, ...] = ()
    by_start: "tuple[TrainingResult, ...]" = ()
    variant: Variant
    method: Method
    task: Task
    learner: Learner

    @property
    def trained(self) -> tuple[Task, Learner, float]:
        """Task, learner and sample ratio as trained: the arguments of `predict` for a comparison."""
        return problem_as_trained(self.task, self.learner, self.alpha, self.dim, self.variant)

    def from_start(self, start: Start) -> "TrainingResult":
        """Averages over the runs from one start; all averages where there was one start."""
        return next((part for part in self.by_start if part.method.start == start), self)

    def solution(self) -> TrainedSolution:
        """Objective, test error and q with their standard errors, under the name of the start."""
        names = ("train_loss", "test_error", "q")
        values = {name: getattr(self, name) for name in names} | {f"{name}_err": self.errors[name] for name in names}
        return TrainedSolution(start=self.method.start, **values)

    def against(self, prediction: Result) -> tuple[Agreement, ...]:
        """Compare the means with the predicted solution that this start leads to, number by number.

        A prediction with one solution is compared as it is. Of several solutions, runs from random weights are compared
        with that reached from small weights, informed ones with that reached from the target, and the lower of both
        starts with the minimum. z = (measured - predicted) / standard error; a difference below 3 standard errors plus
        ``finite_size`` times the value counts as agreement.
        """
        if isinstance(prediction, Prediction):
            prediction = solution_reached(prediction, self.method.start)
        return super().against(prediction)

    @property
    def finite_size(self) -> float:
        """Empirical relative finite-size bias (3 + 1/(α J))/d, largest for q at small α J (1.8)."""
        task = self.task
        combinations = self.trained_alpha * geometry_of(task.attention, task.mask, task.tokens).informative
        return (FINITE_SIZE_BIAS + 1.0 / combinations) / self.dim

    @property
    def eigenvalues(self) -> Array:
        """Eigenvalues (singular values) of all runs, pooled."""
        return np.concatenate([run.eigenvalues for run in self.runs])
