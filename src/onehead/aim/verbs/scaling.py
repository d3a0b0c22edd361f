"""scaling(), features(): excess error against samples, its exponent and parts, emergence of features (7, 8)."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.flat_parameters import require_dimension, validate_problem
from onehead.aim.task import Learner, Task
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.limits.emergence import emergence_ratio
from onehead.aim.verbs.curve import Failure, curve
from onehead.aim.verbs.decompose import GAUSSIAN_PARTS, decompose
from onehead.aim.verbs.implicit_derivatives import local_exponent
from onehead.aim.verbs.outliers import count_features
from onehead.aim.verbs.predict import Prediction
from onehead.aim.verbs.tune import best_decay
from onehead.errors import InvalidArgument, SolveError
from onehead.numerics.parallel import map_chains, thread_map
from onehead.numerics.progress import Progress
from onehead.results import INTERRUPTED, Certificate, Column, FailedPoint, Points, Result
from onehead.validation import numbers

PARTS = ("underfitting", "approximation", "overfitting", "mismatch")  # of the excess error (8.2)
LOG_SAMPLES_TOLERANCE = 1e-4  # of log n at which a feature emerges


@dataclass(frozen=True, kw_only=True)
class ScalingPoint(Result):
    """One point of a scaling law.

    Attributes
    ----------
    samples : float
        Number of samples n.
    weight_decay : float
        Weight decay λ, the best one for an ``optimal`` law.
    test_error : float
        Test error, labels with noise.
    excess_error : float
        Test error minus its limit for infinitely many samples.
    local_exponent : float
        d log(excess error) / d log n at fixed weight decay; also that along the best weight decay, where the error does
        not change with it to first order.
    underfitting, approximation, overfitting, mismatch : float or None
        Parts of the excess error, see `Decomposition`; None for a head with two sectors, and where queries have a mean
        and a token sees its own logit.
    outliers : int
        Number of target eigenvalues above the noise bulk.
    rank : float
        Share of eigenvalues of S that are not zero.
    alpha : float
        Sample ratio α = n/d².
    train_loss : float
        Minimum of the training objective over d².
    spread, threshold : float
        Variance s of the blur and soft threshold ε, see `Prediction`.
    certificate : Certificate
        Certificate of the prediction.
    """

    samples: float
    weight_decay: float
    test_error: float
    excess_error: float
    local_exponent: float
    underfitting: float | None
    approximation: float | None
    overfitting: float | None
    mismatch: float | None
    outliers: int
    rank: float
    alpha: float
    train_loss: float
    spread: float
    threshold: float
    certificate: Certificate


@dataclass(frozen=True, kw_only=True)
class ScalingFailure(FailedPoint):
    """Point of a scaling law that could not be solved, with the reason."""

    _EMPTY: ClassVar[tuple[str, ...]] = tuple(f.name for f in fields(ScalingPoint) if f.name != "certificate")

    samples: float
    weight_decay: float


@dataclass(frozen=True, kw_only=True)
class Scaling(Points[ScalingPoint, ScalingFailure]):
    """A scaling law: points in the order of the numbers of samples asked for.

    Attributes
    ----------
    task, learner : Task, Learner
        The problem.
    points : tuple of ScalingPoint or ScalingFailure
        One per number of samples; a failed point has a reason.
    optimal : bool
        Whether every point has its own best weight decay.
    """

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = (
        "samples",
        "weight_decay",
        "excess_error",
        "local_exponent",
        "outliers",
        "status",
    )

    task: Task
    learner: Learner
    points: tuple[ScalingPoint | ScalingFailure, ...]
    optimal: bool

    samples = Column()
    weight_decay = Column()
    test_error = Column()
    excess_error = Column()
    local_exponent = Column()
    underfitting = Column()
    approximation = Column()
    overfitting = Column()
    mismatch = Column()
    outliers = Column()
    rank = Column()
    alpha = Column()
    train_loss = Column()
    spread = Column()
    threshold = Column()


@validate_problem(samples=numbers(single=True))
def scaling(
    task: Task,
    learner: Learner,
    samples: Sequence[float] | NDArray[np.float64],
    *,
    optimal: bool = False,
    progress: Progress = None,
) -> Scaling:
    """Excess error over the plateau against the number of samples, its local exponent and its parts.

    Logits are treated as Gaussian unless the learner sets a number of ``leading`` directions. With leading directions
    the excess error and its exponent are those of the exact average, and the four parts those of Gaussian logits (P8).

    Parameters
    ----------
    task : Task
        Its target must have a dimension d: PowerLaw, Spikes or Atoms.
    learner : Learner
        The head.
    samples : sequence of float
        Numbers of samples n, in any order; α = n/d².
    optimal : bool
        Whether to use the best weight decay at each n instead of the learner's own.
    progress : callable or True, optional
        Called once for every finished point.

    Returns
    -------
    Scaling
        One point per number of samples.

    Raises
    ------
    InvalidArgument
        If the target has no dimension, or a number of samples is not positive.

    Examples
    --------
    >>> from onehead.aim import Learner, PowerLaw, Task, scaling
    >>> law = scaling(Task(target=PowerLaw(gamma=0.75, dim=200)), Learner(weight_decay=1.0), [1e5, 1e6])
    >>> [round(float(e), 2) for e in law.column("local_exponent")], law.column("outliers").astype(int).tolist()
    ([-0.88, -1.46], [15, 34])
    """
    dim = require_dimension(task)
    counts = [_check_samples(n) for n in np.atleast_1d(np.asarray(samples, dtype=float))]
    if not counts:
        raise InvalidArgument("samples", list(samples), "at least one number of samples")
    own = learner.for_decomposition
    if optimal:
        points = _at_best_decay(task, own, counts, dim, progress)
    else:
        solved = curve(task, own, [n / dim**2 for n in counts], progress=progress).points
        points = thread_map(
            lambda pair: _scaling_point(*pair, learner), list(zip(counts, solved, strict=True)), level="curve"
        )
    return Scaling(task=task, learner=learner, points=tuple(points), optimal=optimal)


def _check_samples(n: float) -> float:
    """Return a number of samples if it is positive and finite."""
    if not 0.0 < n < float("inf"):
        raise InvalidArgument("samples", float(n), "a number > 0")
    return float(n)


def _scaling_point(samples: float, point: Prediction | Failure, learner: Learner) -> ScalingPoint | ScalingFailure:
    """Add exponent, parts and outliers to a prediction."""
    if isinstance(point, Failure):
        return ScalingFailure(samples=samples, weight_decay=learner.decay, reason=point.reason)
    try:
        # no decomposition is derived for two sectors, nor for a mean with own logits
        known = point.sectors is None and not point.task.own_field
        parts = decompose(point) if known else None
        exponent = local_exponent(point)
    except SolveError as failure:
        return ScalingFailure(samples=samples, weight_decay=point.learner.decay, reason=str(failure))
    warnings = (*point.certificate.warnings, *((GAUSSIAN_PARTS,) if point.directions else ()))
    return ScalingPoint(
        samples=samples,
        weight_decay=point.learner.decay,
        test_error=point.test_error,
        excess_error=point.excess_error,
        local_exponent=exponent,
        **{name: None if parts is None else getattr(parts, name) for name in PARTS},
        outliers=_count_outliers(point),
        rank=point.rank,
        alpha=point.alpha,
        train_loss=point.train_loss,
        spread=point.spread,
        threshold=point.threshold,
        certificate=Certificate.of(point.certificate, evaluations=0, warnings=warnings),
    )


def _count_outliers(point: Prediction) -> int:
    """Number of target eigenvalues above the noise bulk and the threshold."""
    if point.rank == 0.0 or point.spread <= 0.0:
        return 0
    return count_features(point.channel.law(point.spread), require_dimension(point.task), point.cut)


def _at_best_decay(
    task: Task, learner: Learner, counts: list[float], dim: int, progress: Progress
) -> list[ScalingPoint | ScalingFailure]:
    """Points at the best weight decay for each number of samples; Ctrl-C keeps the points that are done."""

    def step(i: int, _: None) -> tuple[ScalingPoint | ScalingFailure, None]:
        try:
            best = best_decay(task, learner, counts[i] / dim**2)
        except SolveError as failure:
            return ScalingFailure(samples=counts[i], weight_decay=float("nan"), reason=str(failure)), None
        return _scaling_point(counts[i], best, best.learner), None

    points = map_chains(step, [[i] for i in range(len(counts))], progress)
    missing = [ScalingFailure(samples=n, weight_decay=float("nan"), reason=INTERRUPTED) for n in counts]
    return [points.get(i, missing[i]) for i in range(len(counts))]


@dataclass(frozen=True, kw_only=True)
class Feature(Result):
    """The number of samples at which one target eigenvalue rises above the noise bulk and is learned.

    Attributes
    ----------
    feature : int
        Rank of the target eigenvalue, from one.
    target : float
        The target eigenvalue.
    samples : float
        Number of samples n.
    warning : str
        Says so if ``samples`` was interpolated across a point that could not be solved.
    """

    feature: int
    target: float
    samples: float
    warning: str = ""


@validate_problem(samples=numbers())
def features(
    task: Task,
    learner: Learner,
    samples: Sequence[float] | NDArray[np.float64],
    *,
    progress: Progress = None,
) -> tuple[Feature, ...]:
    """Numbers of samples at which features emerge, in order (sequential spectral recovery).

    Solves the learning curve over the range of ``samples`` and finds between its points where each target eigenvalue
    first rises above the noise bulk and the threshold: log s and log eps are interpolated in log n, and the support of
    the blurred target is exact. Features that emerge outside the range are left out.

    Parameters
    ----------
    task : Task
        Its target must have a dimension d: PowerLaw, Spikes or Atoms.
    learner : Learner
        The head, with Gaussian logits (``leading`` auto or 0).
    samples : sequence of float
        At least two numbers of samples n.
    progress : callable or True, optional
        Called once for every finished point of the curve.

    Returns
    -------
    tuple of Feature
        One per feature that emerges within the range.

    Raises
    ------
    InvalidArgument
        If the target has no dimension, the learner has leading directions, or fewer than two points could be solved.

    Examples
    --------
    >>> from onehead.aim import Learner, PowerLaw, Task, features
    >>> task = Task(target=PowerLaw(gamma=0.75, dim=200))
    >>> found = features(task, Learner(weight_decay=1.0), [3000, 10_000, 30_000])
    >>> [item.feature for item in found], round(found[0].samples, -2)
    ([1, 2, 3, 4, 5, 6, 7, 8, 9], 4600.0)
    """
    dim = require_dimension(task)
    if learner.for_decomposition.leading != 0:
        allowed = "auto or 0: the order of features is known for Gaussian logits"
        raise InvalidArgument("leading", learner.leading, allowed)
    learner = learner.gaussian
    problem = build_state_evolution(task, learner)
    ratios = sorted(_check_samples(float(n)) / dim**2 for n in samples)
    first = emergence_ratio(problem)  # added to the curve, because the solution has a kink there
    if ratios and ratios[0] < first < ratios[-1]:
        ratios = sorted({*ratios, first})
    solved = curve(task, learner, ratios, progress=progress).points
    if any(isinstance(point, Failure) and point.reason == INTERRUPTED for point in solved):
        raise KeyboardInterrupt  # features interpolated across missing points would be wrong
    points = [point for point in solved if isinstance(point, Prediction) and point.spread > 0.0]
    if len(points) < 2:
        raise InvalidArgument("samples", list(samples), "at least two numbers of samples that can be solved")
    log_n = np.log([point.alpha * dim**2 for point in points])
    log_s = np.log([point.spread for point in points])
    log_cut = np.log([max(point.cut, 1e-300) for point in points])

    def emerged(x: float) -> int:
        """Number of features that have emerged at log n = x."""
        law = problem.input.law(float(np.exp(np.interp(x, log_n, log_s))))
        return count_features(law, dim, float(np.exp(np.interp(x, log_n, log_cut))))

    values = problem.input.target.values
    assert values is not None  # a target without a dimension was refused
    unsolved = np.log([point.alpha * dim**2 for point in solved if isinstance(point, Failure)])
    found, counts = [], [emerged(x) for x in log_n]
    for i in range(1, len(log_n)):
        across = [f"{np.exp(x):.4g}" for x in unsolved if log_n[i - 1] < x < log_n[i]]
        warning = f"interpolated across n = {', '.join(across)}, which could not be solved." if across else ""
        for k in range(counts[i - 1] + 1, counts[i] + 1):
            low, high = float(log_n[i - 1]), float(log_n[i])
            while high - low > LOG_SAMPLES_TOLERANCE:
                middle = 0.5 * (low + high)
                low, high = (low, middle) if emerged(middle) >= k else (middle, high)
            count = float(np.exp(0.5 * (low + high)))
            found.append(Feature(feature=k, target=float(values[k - 1]), samples=count, warning=warning))
    first_emergence: dict[int, Feature] = {}
    for item in found:  # near interpolation a feature can fall back into the bulk and emerge again
        first_emergence.setdefault(item.feature, item)
    return tuple(sorted(first_emergence.values(), key=lambda item: item.feature))
