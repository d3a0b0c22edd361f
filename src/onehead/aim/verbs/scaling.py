"""Scaling laws: excess error against the number of samples, its local exponent and where it comes from (7, 8)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.emergence import emergence_ratio
from onehead.aim.equations.head import equations_of
from onehead.aim.targets import Discrete
from onehead.aim.task import Learner, Task
from onehead.aim.verbs.curve import Failure, curve
from onehead.aim.verbs.decompose import SPLIT, decompose
from onehead.aim.verbs.outliers import features_apart
from onehead.aim.verbs.predict import Prediction
from onehead.aim.verbs.response import local_exponent
from onehead.aim.verbs.tune import best_decay
from onehead.aim.words import needed_dimension, posed
from onehead.arguments import numbers
from onehead.errors import InvalidArgument, SolveError
from onehead.numerics.parallel import thread_map, walk_chains
from onehead.results import INTERRUPTED, Certificate, NoAnswer, Points, Result

__all__ = ["Feature", "Scaling", "ScalingFailure", "ScalingPoint", "features", "scaling"]


PARTS = ("underfitting", "approximation", "overfitting", "mismatch")  # of the excess error (8.2)


@dataclass(frozen=True, kw_only=True)
class ScalingPoint(Result):
    """One number of samples of a scaling law.

    ``local_exponent`` is d log(excess)/d log n, at fixed weight decay or, for ``optimal`` laws, along the best one (the two
    agree there: at the best weight decay the error does not change with it to first order). ``outliers`` counts the target
    eigenvalues that have left the noise bulk.
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
class ScalingFailure(NoAnswer):
    """A number of samples without an answer, with the reason."""

    _EMPTY: ClassVar[tuple[str, ...]] = tuple(f.name for f in fields(ScalingPoint) if f.name != "certificate")

    samples: float
    weight_decay: float


@dataclass(frozen=True, kw_only=True)
class Scaling(Points[ScalingPoint, ScalingFailure]):
    """A scaling law: points in the order of the samples asked for."""

    _SHOWN: ClassVar[tuple[str, ...]] = (
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


@posed(samples=numbers(single=True))
def scaling(
    task: Task,
    learner: Learner,
    samples: Sequence[float] | NDArray[np.float64],
    *,
    optimal: bool = False,
    progress: Callable[[], None] | None = None,
) -> Scaling:
    """How the excess error over the plateau falls with the number of samples, and why.

    Logits are Gaussian here unless the learner says how many ``leading`` directions are averaged exactly; its excess error and
    exponent are then those, and its four parts stay those of Gaussian logits (P8).

    Parameters
    ----------
    task : Task
        Its target must have a dimension d: PowerLaw, Spikes or Atoms.
    learner : Learner
    samples : sequence of float
        Numbers of samples n, in any order; α = n/d².
    optimal : bool
        Use the best weight decay at each n instead of the learner's own.
    progress : callable, optional
        Called once for every finished point.

    Examples
    --------
    >>> from onehead.aim import Learner, PowerLaw, Task, scaling
    >>> law = scaling(Task(target=PowerLaw(gamma=0.75, dim=200)), Learner(weight_decay=1.0), [1e5, 1e6])
    >>> [round(float(e), 2) for e in law.column("local_exponent")], law.column("outliers").astype(int).tolist()
    ([-0.88, -1.46], [15, 34])
    """
    dim = needed_dimension(task)
    counts = [_count(n) for n in np.atleast_1d(np.asarray(samples, dtype=float))]
    if not counts:
        raise InvalidArgument("samples", list(samples), "at least one number of samples")
    own = learner.splitting
    if optimal:
        points = _along_best(task, own, counts, dim, progress)
    else:
        solved = curve(task, own, [n / dim**2 for n in counts], progress=progress).points
        points = thread_map(lambda pair: _row(*pair, learner), list(zip(counts, solved, strict=True)), level="curve")
    return Scaling(task=task, learner=learner, points=tuple(points), optimal=optimal)


def _count(n: float) -> float:
    if not 0.0 < n < float("inf"):
        raise InvalidArgument("samples", float(n), "a number > 0")
    return float(n)


def _row(samples: float, point: Prediction | Failure, learner: Learner) -> ScalingPoint | ScalingFailure:
    """Exponent, parts and outliers of a solved point."""
    if isinstance(point, Failure):
        return ScalingFailure(samples=samples, weight_decay=learner.decay, reason=point.reason)
    try:
        parts = decompose(point) if point.sectors is None else None  # two sectors are not split
        exponent, told = local_exponent(point), (*point.certificate.warnings, *((SPLIT,) if point.directions else ()))
    except SolveError as failure:
        return ScalingFailure(samples=samples, weight_decay=point.learner.decay, reason=str(failure))
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
        certificate=Certificate.of(point.certificate, evaluations=0, warnings=told),
    )


def _count_outliers(point: Prediction) -> int:
    """Target eigenvalues that have left the noise bulk and pass the threshold."""
    if point.rank == 0.0 or point.spread <= 0.0:
        return 0
    return features_apart(point.channel.law(point.spread), needed_dimension(point.task), point.cut)


def _along_best(
    task: Task, learner: Learner, counts: list[float], dim: int, progress: Callable[[], None] | None
) -> list[ScalingPoint | ScalingFailure]:
    """The law along the best weight decay at each number of samples; Ctrl-C keeps the points that are done."""

    def step(i: int, _: None) -> tuple[ScalingPoint | ScalingFailure, None]:
        try:
            best = best_decay(task, learner, counts[i] / dim**2)
        except SolveError as failure:
            return ScalingFailure(samples=counts[i], weight_decay=float("nan"), reason=str(failure)), None
        return _row(counts[i], best, best.learner), None

    points = walk_chains(step, [[i] for i in range(len(counts))], progress)
    missing = [ScalingFailure(samples=n, weight_decay=float("nan"), reason=INTERRUPTED) for n in counts]
    return [points.get(i, missing[i]) for i in range(len(counts))]


@dataclass(frozen=True, kw_only=True)
class Feature(Result):
    """A target eigenvalue, counted from one, and the number of samples at which it leaves the noise and is learned."""

    feature: int
    target: float
    samples: float
    warning: str = ""


@posed(samples=numbers())
def features(
    task: Task,
    learner: Learner,
    samples: Sequence[float] | NDArray[np.float64],
    *,
    progress: Callable[[], None] | None = None,
) -> tuple[Feature, ...]:
    """The order in which features emerge as data grows (sequential spectral recovery).

    Solves the law over the range of ``samples``, and finds between its points where each target eigenvalue first leaves the
    noise bulk upwards and passes the threshold: log s and log eps are interpolated in log n, and the support of the blurred
    target is exact. Features that are out before the range begins, or not within it, are left out; one that is placed
    across a number of samples without an answer says so in ``warning``.

    Examples
    --------
    >>> from onehead.aim import Learner, PowerLaw, Task, features
    >>> task = Task(target=PowerLaw(gamma=0.75, dim=200))
    >>> found = features(task, Learner(weight_decay=1.0), [3000, 10_000, 30_000])
    >>> [item.feature for item in found], round(found[0].samples, -2)
    ([1, 2, 3, 4, 5, 6, 7, 8, 9], 4600.0)
    """
    dim = needed_dimension(task)
    if learner.splitting.leading != 0:
        allowed = "auto or 0: the order of features is known for Gaussian logits"
        raise InvalidArgument("leading", learner.leading, allowed)
    learner = learner.gaussian
    problem = equations_of(task, learner)
    ratios = sorted(_count(float(n)) / dim**2 for n in samples)
    first = emergence_ratio(problem)  # the equations have a corner there: make it a point of the curve
    if ratios and ratios[0] < first < ratios[-1]:
        ratios = sorted({*ratios, first})
    solved = curve(task, learner, ratios, progress=progress).points
    if any(isinstance(point, Failure) and point.reason == INTERRUPTED for point in solved):
        raise KeyboardInterrupt  # a range with holes would put features at the wrong place
    known = [point for point in solved if isinstance(point, Prediction) and point.spread > 0.0]
    if len(known) < 2:
        raise InvalidArgument("samples", list(samples), "at least two numbers of samples that can be solved")
    log_n = np.log([point.alpha * dim**2 for point in known])
    log_s = np.log([point.spread for point in known])
    log_cut = np.log([max(point.cut, 1e-300) for point in known])

    def out(x: float) -> int:
        law = problem.input.law(float(np.exp(np.interp(x, log_n, log_s))))
        return features_apart(law, dim, float(np.exp(np.interp(x, log_n, log_cut))))

    target = problem.input.target
    values = target.values if isinstance(target, Discrete) else np.empty(0)
    lost = np.log([point.alpha * dim**2 for point in solved if isinstance(point, Failure)])
    found, counts = [], [out(x) for x in log_n]
    for i in range(1, len(log_n)):
        across = [f"{np.exp(x):.4g}" for x in lost if log_n[i - 1] < x < log_n[i]]
        warning = f"placed across n = {', '.join(across)}, which has no answer." if across else ""
        for k in range(counts[i - 1] + 1, counts[i] + 1):
            low, high = float(log_n[i - 1]), float(log_n[i])
            while high - low > 1e-4:
                middle = 0.5 * (low + high)
                low, high = (low, middle) if out(middle) >= k else (middle, high)
            place = float(np.exp(0.5 * (low + high)))
            found.append(Feature(feature=k, target=float(values[k - 1]), samples=place, warning=warning))
    rises: dict[int, Feature] = {}
    for item in found:  # a feature can sink back into the bulk near interpolation: its first rise counts
        rises.setdefault(item.feature, item)
    return tuple(sorted(rises.values(), key=lambda item: item.feature))
