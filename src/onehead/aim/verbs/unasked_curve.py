"""unasked_curve(): how the logits that all queries share are learned at n ~ d samples, before the rest of the map."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.flat_parameters import validate_problem
from onehead.aim.task import Learner, Task
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.limits.unasked_learning import MAX_TOKENS, UnaskedRegression
from onehead.errors import InvalidArgument
from onehead.results import Certificate, Result
from onehead.validation import numbers


@dataclass(frozen=True, kw_only=True)
class UnaskedPoint(Result):
    """What a head has learned of the logits that all queries share, from n ~ d samples (D4).

    Attributes
    ----------
    samples_per_dim : float
        Number of samples over d.
    samples : float or None
        Number of samples, where the task has a dimension d.
    unasked_scale : float
        Size of the learned logits that all queries share over that of the target's; zero below their emergence.
    unasked_noise : float
        Power of what is learned across them, over the power of the target's.
    certificate : Certificate
        Status and errors.
    task, learner : Task, Learner
        The problem.
    """

    MEANINGS: ClassVar[dict[str, str]] = {
        "samples_per_dim": "number of samples over d",
        "samples": "number of samples",
        "unasked_scale": "size of the logits that all queries share, over the target's",
        "unasked_noise": "power of what is learned across them, over that of the target's",
    }

    samples_per_dim: float
    samples: float | None
    unasked_scale: float
    unasked_noise: float
    certificate: Certificate
    task: Task
    learner: Learner


@validate_problem(samples_per_dim=numbers(single=True))
def unasked_curve(
    task: Task, learner: Learner, samples_per_dim: Sequence[float] | NDArray[np.float64]
) -> tuple[UnaskedPoint, ...]:
    """Size of the logits that all queries share, learned from n = a d samples, where the rest of the map is zero (D4).

    Parameters
    ----------
    task : Task
        Cross-attention, or self-attention with a strict mask, of at most 8 tokens that have a mean (``unasked``).
    learner : Learner
        The head.
    samples_per_dim : sequence of float
        Numbers of samples over d.

    Returns
    -------
    tuple of UnaskedPoint
        One point for each number of samples, in the same order.

    Raises
    ------
    InvalidArgument
        If queries have no mean, or the theory does not cover the head.
    NotConverged
        If the equations could not be solved.

    Examples
    --------
    >>> from onehead.aim import Learner, Task, unasked_curve
    >>> task, learner = Task(attention="cross", unasked=0.5), Learner(loss="cross-entropy", weight_decay=0.4)
    >>> [round(point.unasked_scale, 1) for point in unasked_curve(task, learner, [0.1, 4.0])]
    [0.0, 0.5]
    """
    if not task.unasked:
        raise InvalidArgument("unasked", task.unasked, "above 0: without a share nothing is learned from n ~ d samples")
    if task.own_logit:
        raise InvalidArgument("attention", task.attention, "cross, or self with mask strict, for samples over d")
    if task.tokens > MAX_TOKENS:
        raise InvalidArgument("tokens", task.tokens, f"at most {MAX_TOKENS} for samples over d")
    ratios = [float(ratio) for ratio in np.atleast_1d(np.asarray(samples_per_dim, dtype=float))]
    if not ratios or not all(0.0 < ratio < np.inf for ratio in ratios):
        raise InvalidArgument("samples_per_dim", samples_per_dim, "one or several numbers > 0")
    problem, dim = build_state_evolution(task, learner), task.dimension
    if not problem.output.geometry.nested:
        allowed = "a mask in which the columns of each row are among those of all longer ones, for samples over d"
        raise InvalidArgument("mask", task.mask, allowed)
    if problem.output.loss.compiled_kind is None:
        raise InvalidArgument("loss", str(learner.loss), "squared or cross-entropy for samples over d")
    if problem.decay == 0.0:
        raise InvalidArgument("weight_decay", "0+", "a number > 0 for samples over d")
    regression, found = UnaskedRegression(problem, task.token_mean), {}
    own, near = problem.units.beta0 / problem.units.beta, None
    for ratio in sorted(ratios, reverse=True):
        near = regression.at(ratio, near)
        found[ratio] = UnaskedPoint(
            samples_per_dim=ratio,
            samples=None if dim is None else ratio * dim,
            unasked_scale=own * near.scale,
            unasked_noise=own**2 * near.noise / regression.field_power,
            certificate=Certificate(status="converged", kind="conjecture", errors={"unasked_scale": own * near.error}),
            task=task,
            learner=learner,
        )
        if near.scale == 0.0:
            near = None
    return tuple(found[ratio] for ratio in ratios)
