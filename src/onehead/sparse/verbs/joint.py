"""Where joint training ends: the minimum over query, readout and bias with a ridge on both (J25-J31)."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from onehead.errors import InvalidArgument
from onehead.numerics.parallel import thread_map
from onehead.numerics.replicate_error import error_from_replicates
from onehead.results import Certificate
from onehead.sparse.solve.descent import StepNumbers, joint_numbers
from onehead.sparse.solve.joint_error import joint_test_error
from onehead.sparse.solve.joint_minimum import JointSolution, solve_joint_minimum
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task
from onehead.sparse.theory.joint.attention_forces import check_smooth
from onehead.sparse.theory.joint.joint_minimum import JointMinimum
from onehead.sparse.theory.joint.same_data import DescentState
from onehead.validation import checked, integer

__all__ = ["JointTraining", "joint"]

REPLICATES = 4  # independent point sets, each with a solution of its own
LOG2_POINTS = 9  # log2 of the points per class of each
MAX_LENGTH = 200  # tokens; the certificate tries one start per token
MAX_NUMBERS = 2**16  # upper limit of points times tokens of a replicate


class _Numbers(NamedTuple):
    """Numbers of one solution beyond those of a step of descent."""

    objective: float
    stability: float


@dataclass(frozen=True, kw_only=True)
class JointTraining(Answer):
    """Minimum of the mean loss + (ridge_query/2)|q|^2 + (ridge/2)|w|^2 over query, readout and bias, d -> infinity.

    ``stability`` is the spectral radius of the replicon map, below 1 where the solution is stable. ``switching`` is the
    share of samples whose inner minimum is not the lowest one found, 0 where the minimum is unique. Where one of them
    fails there are several minima and the numbers are approximate: the kind of truth is then "heuristic".
    """

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("test_error", "train_loss", "cos_query", "stability")
    MEANINGS: ClassVar[dict[str, str]] = {
        "test_error": "share of mistakes on fresh samples",
        "train_loss": "training loss, without the ridges",
        "train_error": "share of mistakes on training samples",
        "objective": "training loss with both ridges",
        "cos_query": "cosine of the query with the signal",
        "cos_readout": "cosine of the readout with the signal",
        "norm_query": "length of the query",
        "norm_readout": "length of the readout",
        "sharpness": "beta times the length of the query",
        "bias": "bias of the logit",
        "stability": "spectral radius of the replicon map; stable below 1",
        "switching": "share of samples with another, lower minimum; unique at 0",
    }

    test_error: float
    train_loss: float
    train_error: float
    objective: float
    cos_query: float
    cos_readout: float
    norm_query: float
    norm_readout: float
    overlap_query: float
    overlap_readout: float
    query_readout: float
    sharpness: float
    bias: float
    stability: float
    switching: float
    certificate: Certificate


@checked(**PROBLEM, log2_points=integer(4))
def joint(task: Task, protocol: Protocol, *, log2_points: int = LOG2_POINTS) -> JointTraining:
    """Predict the minimum over query, readout and bias, with a certificate of its stability (J25-J31).

    Parameters
    ----------
    task : Task
        Data of the classification problem, of at most 200 tokens.
    protocol : Protocol
        Ridges ``ridge`` and ``ridge_query``, both positive, loss and inverse temperature; alpha0 + alpha1 samples over
        dimension are used, and the rates do not matter.
    log2_points : int
        Logarithm to base 2 of the points per class of each of 4 independent sets; more points give smaller errors.

    Returns
    -------
    JointTraining
        Errors, norms and cosines; the certificate has the kind "claim" where the solution is stable and unique, and
        "heuristic" elsewhere.

    Raises
    ------
    InvalidArgument
        If an argument is out of range, a ridge is zero, or the loss has no continuous second derivative.
    SolveError
        If the equations do not converge: several minima compete, and there is no prediction.

    Examples
    --------
    >>> plan = Protocol(beta=1.0, ridge=0.1, ridge_query=0.3, loss="square")
    >>> found = joint(Task(), plan, log2_points=6)
    >>> abs(found.test_error - 0.0816) < 0.005, found.certificate.kind
    (True, 'claim')
    """
    _check(task, protocol)
    affordable = int(np.log2(MAX_NUMBERS / task.length))
    points = min(int(log2_points), affordable)
    unit = protocol.beta**2

    def solve(index: int, start: JointSolution | None = None) -> tuple[JointMinimum, JointSolution]:
        equations = JointMinimum(task, protocol.loss, points, [index])
        found = solve_joint_minimum(
            equations,
            alpha=protocol.alpha,
            ridge_query=protocol.ridge_query / unit,
            ridge=protocol.ridge,
            start=None if start is None else start.point,
        )
        return equations, found

    equations, first = solve(0)
    others = thread_map(lambda index: solve(index, first), range(1, REPLICATES), level="trajectory")
    solved = [(equations, first), *others]
    rows = np.array([_numbers(task, protocol, found, index) for index, (_, found) in enumerate(solved)])
    names = (*StepNumbers._fields, *_Numbers._fields)
    means = dict(zip(names, rows.mean(axis=0).tolist(), strict=True))
    errors = dict(zip(names, error_from_replicates(rows - rows.mean(axis=0)).tolist(), strict=True))
    shares = thread_map(lambda pair: pair[0].switching_share(pair[1].point), solved, level="trajectory")
    switching = float(np.mean(shares))
    return JointTraining(
        task=task,
        protocol=protocol,
        **means,
        switching=switching,
        certificate=_certificate(first, means["stability"], switching, errors),
    )


def _check(task: Task, protocol: Protocol) -> None:
    """Refuse what the equations do not cover."""
    if protocol.cos_query is not None:
        raise InvalidArgument("cos_query", protocol.cos_query, "None, because the query is trained")
    for name in ("ridge", "ridge_query", "beta"):
        if getattr(protocol, name) == 0.0:
            raise InvalidArgument(name, 0.0, "a number > 0 for the joint minimum")
    if not 2 <= task.length <= MAX_LENGTH:
        raise InvalidArgument("length", task.length, f"an integer from 2 to {MAX_LENGTH} for the joint minimum")
    check_smooth(protocol.loss, "joint", twice=True)


def _numbers(task: Task, protocol: Protocol, found: JointSolution, seed: int) -> tuple[float, ...]:
    """Return the numbers of one solution, those of a step of descent first."""
    weights = found.point.weights
    state = DescentState(weights=weights, train_loss=found.averages.train_loss, train_error=found.averages.train_error)
    numbers = joint_numbers(protocol, state, joint_test_error(task, weights, seed=seed))
    ridges = protocol.ridge_query * numbers.norm_query**2 + protocol.ridge * numbers.norm_readout**2
    return (*numbers, numbers.train_loss + 0.5 * ridges, protocol.alpha * found.averages.stability)


def _certificate(found: JointSolution, stability: float, switching: float, errors: dict[str, float]) -> Certificate:
    """Return a certificate that says whether the minimum is stable and unique (J31)."""
    unique = stability < 1.0 and switching == 0.0
    warning = (
        f"several minima (stability {stability:.3g}, switching {switching:.2g}): the numbers are approximate, and runs "
        "from different starts end in different minima."
    )
    return Certificate(
        status="converged: stable" if unique else "converged, approximate: several minima",
        kind="claim" if unique else "heuristic",
        residual=found.residual,
        quadrature_error=errors["test_error"],
        errors=errors,
        evaluations=found.sweeps,
        warnings=() if unique else (warning,),
    )
