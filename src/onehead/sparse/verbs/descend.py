"""Query, readout and bias trained together by gradient descent, step by step (J5-J14)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from onehead.errors import Diverged, InvalidArgument
from onehead.results import Certificate, wrap_sentences
from onehead.sparse.solve.descent import (
    MAX_REPLICATE_LOG2_POINTS,
    REPLICATE_LOG2_POINTS,
    REPLICATES,
    STEP_QUANTITIES,
    Plan,
    Trajectory,
    solve_trajectory,
)
from onehead.sparse.task import PROBLEM, Answer, Batch, Protocol, Task
from onehead.validation import checked, integer, number, one_of, optional

BATCHES: tuple[Batch, ...] = ("same", "fresh", "one-pass")
FRESH_ONLY = "left out unless batch is fresh: other batches are a share of the given samples"
MAX_STEPS = 200  # the time of a solve grows with the cube of the steps
MAX_LOSS_RISE = 0.03  # relative rise of the training loss above its lowest value from which a descent is unstable


class DescentStep(NamedTuple):
    """Numbers after one step: samples used over dimension, errors, cosines with the signal, norms and bias."""

    step: int
    alpha: float
    test_error: float
    test_error_err: float
    train_loss: float
    train_error: float
    cos_query: float
    cos_readout: float
    norm_query: float
    norm_readout: float
    bias: float


@dataclass(frozen=True, kw_only=True)
class Descent(Answer):
    """Joint descent of query, readout and bias from zero weights: the best step, its numbers, and all steps.

    ``test_error`` and the other numbers are those after ``best_step`` steps, where the test error is lowest; `after`
    returns those of another step.
    ``unstable_step`` is the first step after which the training loss lies more than 3 % above its lowest value, or
    None. ``steps`` has one entry per step.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("protocol", "plan", "trajectory")
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("best_step", "test_error", "train_loss", "cos_query")
    MEANINGS: ClassVar[dict[str, str]] = {
        "best_step": "step with the lowest test error, at which to stop",
        "test_error": "share of mistakes on fresh samples, after the best step",
        "train_loss": "training loss, without the ridge",
        "train_error": "share of mistakes on training samples",
        "cos_query": "cosine of the query with the signal",
        "cos_readout": "cosine of the readout with the signal",
        "norm_query": "length of the query",
        "norm_readout": "length of the readout",
        "sharpness": "beta times the length of the query",
        "bias": "bias of the logit",
        "last_test_error": "test error after the last step",
    }

    batch: str
    batch_ratio: float | None
    best_step: int
    test_error: float
    train_loss: float
    train_error: float
    cos_query: float
    cos_readout: float
    norm_query: float
    norm_readout: float
    overlap_query: float
    overlap_readout: float
    query_readout: float
    sharpness: float
    bias: float
    last_test_error: float
    unstable_step: int | None
    steps: tuple[DescentStep, ...]
    certificate: Certificate
    plan: Plan
    trajectory: Trajectory

    def after(self, step: int) -> "Descent":
        """Return the descent stopped after ``step`` steps: its numbers are those of that step.

        Examples
        --------
        >>> from onehead.sparse import Protocol, Task, descend
        >>> found = descend(Task(), Protocol(beta=1.0, eta_b=3.0), steps=3)
        >>> found.after(2).test_error == found.steps[1].test_error
        True
        """
        integer(1)("step", step)
        if step > len(self.trajectory.means):
            raise InvalidArgument("step", step, f"at most {len(self.trajectory.means)}, the last step of the descent")
        return _descent(self.task, self.protocol, self.plan, self.trajectory, step)

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values; ``steps`` is a list with one dict per step."""
        return super().to_dict() | {"steps": [step._asdict() for step in self.steps]}

    def explain(self) -> str:
        """Describe in sentences where to stop, and what happens afterwards."""
        best, last = self.steps[self.best_step - 1], self.steps[-1]
        data = {
            "same": f"the same n = {self.protocol.alpha:g} d samples",
            "fresh": f"{self.batch_ratio or 0.0:g} d fresh samples per step",
            "one-pass": f"{self.protocol.alpha:g} d samples, each used once",
        }[self.batch]
        sentences = [
            f"Query, readout and bias descend together from zero on {data}.",
            f"The test error is lowest after step {best.step}: {best.test_error:.2%}, with cos {best.cos_query:.3f} "
            f"between query and signal and a training error of {best.train_error:.2%}.",
        ]
        if last.step > best.step:
            sentences.append(
                f"After step {last.step} it is {last.test_error:.2%}, with cos {last.cos_query:.3f} and a training "
                f"error of {last.train_error:.2%}: stop in time."
            )
        return wrap_sentences([*sentences, *self._closing()])


@checked(
    **PROBLEM,
    steps=integer(1),
    batch=one_of(BATCHES),
    batch_ratio=number(above=0.0),
    accuracy=optional(number(above=0.0)),
)
def descend(
    task: Task,
    protocol: Protocol,
    *,
    steps: int = 15,
    batch: Batch = "same",
    batch_ratio: float = 0.5,
    schedule: Sequence[tuple[float, float, float]] | None = None,
    accuracy: float | None = None,
    progress: Callable[[], None] | None = None,
) -> Descent:
    """Predict joint gradient descent of query, readout and bias, and the step at which to stop (J5-J14).

    All weights start at zero. A step is W <- W - eta (gradient of the mean loss + ridge W), with the rates ``eta_q``,
    ``eta_w``, ``eta_b`` and the ridges ``ridge_query`` and ``ridge`` of the protocol. The inverse temperature enters
    through eta_q beta^2 and ridge_query/beta^2; the default of the protocol, beta = 8, is meant for two steps only, and
    beta = 1 is a better choice here. Rates that are too large make the descent unstable; the status says so.

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Rates, ridges, loss and inverse temperature; alpha0 + alpha1 samples over dimension are used.
    steps : int
        Number of steps, at most 200; for one-pass SGD the number of equidistant records.
    batch : {"same", "fresh", "one-pass"}
        The same samples at every step (dynamical mean-field theory), ``batch_ratio`` d fresh ones at every step, or
        each sample once in small batches: rates are then per alpha, eta n_b/d for a batch of n_b samples.
    batch_ratio : float
        Samples of a fresh batch over dimension.
    schedule : sequence of (eta_q, eta_w, eta_b), optional
        Rates of every step in place of those of the protocol; the last entry is repeated. Not for one-pass SGD.
    accuracy : float, optional
        Wanted relative error of the lowest test error. Points are doubled until it is met; a warning says if it is not.
    progress : callable, optional
        Called after every step of each of 8 independent point sets.

    Returns
    -------
    Descent
        The best step, its numbers with errors, and the numbers of all steps.

    Raises
    ------
    InvalidArgument
        If an argument is out of range, the protocol fixes ``cos_query``, or the loss has no second derivative.
    SolveError
        If the weights diverge at the first step.

    Examples
    --------
    >>> plan = Protocol(alpha0=1.0, alpha1=1.0, beta=1.0, eta_w=0.5, eta_b=3.0, ridge=0.1, ridge_query=0.03)
    >>> found = descend(Task(length=10, strength=5.0), plan, steps=12)
    >>> found.best_step, round(found.test_error, 3), found.steps[-1].test_error > found.test_error
    (9, 0.025, True)
    """
    plan = check_plan(protocol, Plan(int(steps), batch, float(batch_ratio), schedule))
    level = REPLICATE_LOG2_POINTS
    while True:
        found = solve_trajectory(task, protocol, plan, level, progress)
        if len(found.means) == 0:
            raise Diverged("the weights diverge at the first step; lower the rates.")
        result = _descent(task, protocol, plan, found)
        error = result.certificate.quadrature_error
        if accuracy is None or error <= accuracy * result.test_error:
            return result
        if level >= MAX_REPLICATE_LOG2_POINTS:
            return _with_warning(result, f"the test error is good to {error:.1e}, not to {accuracy:g} of its value.")
        level += 1


def progress_steps(steps: int) -> int:
    """Return how often a descent reports progress, without a wanted accuracy."""
    return REPLICATES * steps


def check_plan(protocol: Protocol, plan: Plan) -> Plan:
    """Return the plan with its schedule as tuples of numbers; refuse what the theory does not cover."""
    if protocol.cos_query is not None:
        raise InvalidArgument("cos_query", protocol.cos_query, "None, because the descent finds the query")
    if plan.steps > MAX_STEPS:
        raise InvalidArgument("steps", plan.steps, f"an integer from 1 to {MAX_STEPS}")
    if plan.batch != "fresh" and plan.batch_ratio != Plan(plan.steps).batch_ratio:
        raise InvalidArgument("batch_ratio", plan.batch_ratio, FRESH_ONLY)
    if plan.schedule is None:
        return plan
    allowed = "a list of (eta_q, eta_w, eta_b), each of three finite numbers, eta_w and eta_b not negative"
    try:
        table = np.array([tuple(entry) for entry in plan.schedule], dtype=float)
    except (TypeError, ValueError):
        raise InvalidArgument("schedule", plan.schedule, allowed) from None
    if table.ndim != 2 or table.shape[1] != 3 or not np.isfinite(table).all() or table[:, 1:].min() < 0.0:
        raise InvalidArgument("schedule", plan.schedule, allowed)
    if plan.batch == "one-pass":
        raise InvalidArgument("schedule", plan.schedule, "left out for one-pass SGD, whose rates are constant")
    return plan._replace(schedule=[(q, w, b) for q, w, b in table.tolist()])


def _descent(task: Task, protocol: Protocol, plan: Plan, found: Trajectory, stop: int | None = None) -> Descent:
    """Return the public result of a trajectory, with the numbers after ``stop`` steps, or after the best step."""
    column = {name: index for index, name in enumerate(STEP_QUANTITIES)}
    per_step = {"same": 0.0, "fresh": plan.batch_ratio, "one-pass": protocol.alpha / plan.steps}[plan.batch]
    steps = []
    for index, row in enumerate(found.means):
        numbers = {name: float(row[column[name]]) for name in DescentStep._fields if name in column}
        used = protocol.alpha if plan.batch == "same" else per_step * (index + 1)
        error = float(found.errors[index, column["test_error"]])
        steps.append(DescentStep(step=index + 1, alpha=used, test_error_err=error, **numbers))
    best = int(np.argmin(found.means[:, column["test_error"]]))
    shown = best if stop is None else stop - 1
    values = dict(zip(STEP_QUANTITIES, found.means[shown].tolist(), strict=True))
    errors = dict(zip(STEP_QUANTITIES, found.errors[shown].tolist(), strict=True))
    rises = found.means[:, column["train_loss"]]
    unstable = next((k + 1 for k in range(1, len(rises)) if rises[k] > (1.0 + MAX_LOSS_RISE) * rises[:k].min()), None)
    warnings = []
    if unstable is not None:
        warnings.append(f"the training loss rises at step {unstable}: the rates are too large, and runs scatter.")
    if len(steps) < plan.steps:
        warnings.append(f"the weights diverge after step {len(steps)}; later steps are left out.")
    elif best == len(steps) - 1 and plan.steps > 1:
        warnings.append("the test error is lowest at the last step; more steps may lower it further.")
    status = f"{len(steps)} steps of joint descent" if unstable is None else f"unstable from step {unstable} on"
    return Descent(
        task=task,
        protocol=protocol,
        batch=plan.batch,
        batch_ratio=plan.batch_ratio if plan.batch == "fresh" else None,
        best_step=best + 1,
        **values,
        last_test_error=steps[-1].test_error,
        unstable_step=unstable,
        steps=tuple(steps),
        certificate=Certificate(
            status=status,
            kind="claim",
            quadrature_error=errors["test_error"],
            errors=errors | {"last_test_error": steps[-1].test_error_err},
            evaluations=REPLICATES * len(steps),
            warnings=tuple(warnings),
        ),
        plan=plan,
        trajectory=found,
    )


def _with_warning(result: Descent, warning: str) -> Descent:
    """Return the result with one more warning."""
    known = result.certificate
    return replace(result, certificate=Certificate.of(known, warnings=(*known.warnings, warning)))
