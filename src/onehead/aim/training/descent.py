"""gradient_descent(): singular values of a head in the course of plain gradient descent (M9)."""

import threading
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.flat_parameters import validate_problem
from onehead.aim.task import Learner, Task
from onehead.aim.training.instance import Instance, sample_count
from onehead.aim.training.objective import Objective
from onehead.aim.training.run import Plan
from onehead.aim.training.settings import Method, Variant
from onehead.errors import InvalidArgument
from onehead.numerics.interrupts import raise_if_interrupted, record_interrupts
from onehead.results import Certificate, Result
from onehead.validation import Seed, integer, number, numbers, seed_number, valid_seed

Array = NDArray[np.float64]

MAX_STEPS = 50_000
CHECKED = 50  # steps after which a run that diverges is noticed
ROUNDING = 1e-15  # singular values below this share of the largest are rounding errors


@dataclass(frozen=True, kw_only=True)
class GradientDescent(Result):
    """A head of finite size in the course of gradient descent with a small constant step.

    Attributes
    ----------
    dim : int
        Dimension d of a token.
    alpha : float
        Sample ratio n/d².
    times : tuple of float
        Times λ t, learning rate times weight decay summed over the steps.
    train_loss : tuple of float
        Objective over d² at these times.
    imbalance : tuple of float
        |W_Q W_Q' - W_K W_K'| relative to its value at the start, which falls as exp(-2 λ t) (M9.1).
    rank_above : tuple of float
        Share of singular values above the cut.
    start, cut, rate : float
        Size of the singular values at the start, the cut, and the learning rate for the objective times d².
    steps : int
        Number of steps to the last time.
    seconds : float
        Wall time.
    values : array of shape (times, d)
        Singular values of the map, the largest first.
    certificate : Certificate
        Status.
    task, learner : Task, Learner
        The problem.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ()

    dim: int
    alpha: float
    times: tuple[float, ...]
    train_loss: tuple[float, ...]
    imbalance: tuple[float, ...]
    rank_above: tuple[float, ...]
    start: float
    cut: float
    rate: float
    steps: int
    seconds: float
    values: Array
    certificate: Certificate
    task: Task
    learner: Learner

    def to_dict(self) -> dict[str, Any]:
        """Result as a dictionary of plain values."""
        return super().to_dict() | {"values": self.values.tolist()}


@validate_problem(
    dim=integer(2),
    times=numbers(),
    start=number(above=0.0),
    cut=number(above=0.0),
    rate=number(above=0.0),
    seed=valid_seed,
)
def gradient_descent(
    task: Task,
    learner: Learner,
    *,
    dim: int,
    alpha: float,
    times: Sequence[float],
    start: float = 0.1,
    cut: float = 1e-3,
    rate: float = 0.05,
    seed: Seed = 0,
    progress: Callable[[], None] | None = None,
) -> GradientDescent:
    """Train one untied head by gradient descent, and record its singular values at some times.

    The objective is that of `train` times d², sum of losses plus λ/2 (|W_Q|² + |W_K|²) with S = W_Q'W_K/d, so that
    times are those of `training_time`. The instance is that of the first run of `train` with this seed.

    Parameters
    ----------
    task : Task
        What is learned, by an untied head.
    learner : Learner
        The head, trained through factors of full width.
    dim : int
        Dimension d of a token.
    alpha : float
        Sample ratio α = n/d².
    times : sequence of float
        Times λ t at which singular values are recorded.
    start : float
        Size of the singular values at the start: entries of both factors are normal with this variance.
    cut : float
        Value above which singular values are counted.
    rate : float
        Learning rate. It must be small, so that descent is close to a gradient flow.
    seed : int or numpy.random.Generator
        Seed of target, data and start.
    progress : callable, optional
        Called at every recorded time.

    Returns
    -------
    GradientDescent

    Raises
    ------
    InvalidArgument
        If the head is not of this kind, the rate too large, or more than 50,000 steps are needed.

    Examples
    --------
    >>> from onehead import aim
    >>> task, learner = aim.Task(attention="cross"), aim.Learner(weight_decay=0.3)
    >>> run = aim.gradient_descent(task, learner, dim=12, alpha=1.0, times=[1.0, 2.0])
    >>> run.values.shape, run.steps
    ((2, 12), 133)
    """
    _check_head(task, learner)
    recorded = tuple(sorted({float(time) for time in times}))
    if not recorded or recorded[0] <= 0.0:
        raise InvalidArgument("times", times, "a list of numbers > 0")
    steps = [max(round(time / (learner.decay * rate)), 1) for time in recorded]
    if steps[-1] > MAX_STEPS:
        raise InvalidArgument("times", recorded[-1], f"at most {MAX_STEPS * learner.decay * rate:g} at this rate")
    began = clock.perf_counter()
    objective, theta = _begin(task, learner, dim, alpha, seed_number(seed), start)
    first, initial = _imbalance(theta, dim), objective(theta)[0]
    losses, imbalances, values = [], [], []
    with record_interrupts():
        for step in range(1, steps[-1] + 1):
            value, gradient = objective(theta)
            if step % CHECKED == 0 and not value < 2.0 * initial:
                raise InvalidArgument("rate", rate, "smaller: gradient descent diverges")
            theta = theta - rate * dim**2 * gradient
            raise_if_interrupted()
            if step in steps:
                losses.append(float(objective(theta)[0]))
                imbalances.append(_imbalance(theta, dim) / first)
                values.append(np.linalg.svd(objective.weights.maps(theta)[0], compute_uv=False))
                if progress is not None:
                    progress()
    found = np.array(values)
    if not np.isfinite(found).all():
        raise InvalidArgument("rate", rate, "smaller: gradient descent diverges")
    warnings: tuple[str, ...] = ()
    if float(found[-1, -1]) < ROUNDING * float(found[-1, 0]):
        warnings = (f"singular values below {ROUNDING:g} of the largest are rounding errors",)
    return GradientDescent(
        dim=dim,
        alpha=alpha,
        times=tuple(step * learner.decay * rate for step in steps),
        train_loss=tuple(losses),
        imbalance=tuple(imbalances),
        rank_above=tuple(np.mean(found > cut, axis=1).tolist()),
        start=start,
        cut=cut,
        rate=rate,
        steps=steps[-1],
        seconds=clock.perf_counter() - began,
        values=found,
        certificate=Certificate(status="finished", kind="measurement", evaluations=steps[-1], warnings=warnings),
        task=task,
        learner=learner,
    )


def _check_head(task: Task, learner: Learner) -> None:
    """Refuse heads other than one untied head trained through its factors."""
    plain = task.single_sector and task.standard_tokens
    if learner.decay == 0.0:
        raise InvalidArgument("weight_decay", "0+", "a number > 0 to train with")
    several = task.heads > 1 or learner.values == "learnt"
    if task.tied or not plain or several or learner.param == "direct" or learner.width < 1.0:
        allowed = "that of one untied head with one sector and isotropic tokens, trained through factors of full width"
        raise InvalidArgument("task", task, allowed)


def _begin(task: Task, learner: Learner, dim: int, alpha: float, seed: int, start: float) -> tuple[Objective, Array]:
    """Objective of the first run of `train` with this seed, and random weights of a given size."""
    method, variant = Method(), Variant().for_task(task)
    plan = Plan(
        task=task,
        learner=learner,
        dim=dim,
        count=sample_count(alpha, dim),
        seed=seed,
        variant=variant,
        method=method,
        target=None,
        stop=threading.Event(),
    )
    drawn = Instance.draw(
        task, dim, plan.count, np.random.SeedSequence(seed, spawn_key=(0,)), variant=variant, method=method
    )
    weights = plan.weights
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 3, 0)))
    objective = Objective(samples=drawn.train, weights=weights, loss=plan.training_loss, decay=learner.decay)
    return objective, sqrt(start) * weights.start(rng)


def _imbalance(theta: Array, dim: int) -> float:
    """Norm of W_Q W_Q' - W_K W_K'."""
    Q, K = theta.reshape(2, -1, dim)
    return float(np.linalg.norm(Q @ Q.T - K @ K.T))
