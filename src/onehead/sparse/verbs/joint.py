"""Where joint training ends: the minimum over query, readout and bias with a ridge on both (J25-J31)."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from onehead.errors import InvalidArgument, SolveError
from onehead.numerics.parallel import thread_map
from onehead.numerics.replicate_error import error_from_replicates
from onehead.results import Certificate, Result
from onehead.sparse.losses import Array
from onehead.sparse.solve.descent import StepNumbers, joint_numbers
from onehead.sparse.solve.joint_error import joint_test_error
from onehead.sparse.solve.joint_minimum import (
    SMALL_WEIGHTS,
    JointSolution,
    RidgeProblem,
    distinct_minima,
    find_minima,
    solve_from_neighbour,
)
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task
from onehead.sparse.theory.joint.attention_forces import check_smooth
from onehead.sparse.theory.joint.joint_minimum import JointMinimum
from onehead.sparse.theory.joint.same_data import DescentState
from onehead.validation import checked, integer

Found = TypeVar("Found")

REPLICATES = 4  # independent point sets, each with a solution of its own
SPARE_SETS = 3  # sets that are tried for each of them
LOG2_POINTS = 9  # log2 of the points per class of each
SEARCH_LOG2_POINTS = 6  # in the search for all solutions
MAX_LENGTH = 200  # tokens; the certificate tries one start per token
MAX_NUMBERS = 2**16  # upper limit of points times tokens of a replicate


class _Numbers(NamedTuple):
    """Numbers of one solution beyond those of a step of descent."""

    objective: float
    stability: float


@dataclass(frozen=True, kw_only=True)
class OtherMinimum(Result):
    """A solution of the equations whose objective is not the lowest.

    ``reached_from`` names the start that leads to it: "small weights", "the signal", or "larger ridges", from which it
    is continued.
    """

    objective: float
    test_error: float
    train_loss: float
    cos_query: float
    cos_readout: float
    stability: float
    reached_from: str


@dataclass(frozen=True, kw_only=True)
class JointTraining(Answer):
    """Minimum of the mean loss + (ridge_query/2)|q|^2 + (ridge/2)|w|^2 over query, readout and bias, d -> infinity.

    ``stability`` is the spectral radius of the replicon map, below 1 where the solution is stable. ``switching`` is the
    share of samples whose inner minimum is not the lowest one found, 0 where the minimum is unique. Where one of them
    fails there are several minima and the numbers are approximate: the kind of truth is then "heuristic".
    The equations are solved from several starts; ``other_solutions`` are those with a higher objective, and `trained`
    is the one that training from zero weights reaches.
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
    reached_from: str
    other_solutions: tuple[OtherMinimum, ...]
    certificate: Certificate

    @property
    def trained(self) -> "JointTraining | OtherMinimum":
        """The solution that training from zero weights reaches; it need not be the one with the lowest objective."""
        return next((one for one in self.other_solutions if one.reached_from == SMALL_WEIGHTS), self)


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
        Errors, norms and cosines of the solution with the lowest objective; the certificate has the kind "claim" where
        it is stable and every sample has one minimum, and "heuristic" elsewhere.

    Raises
    ------
    InvalidArgument
        If an argument is out of range, a ridge is zero, or the loss has no continuous second derivative.
    SolveError
        If the equations do not converge from any start, nor continued from larger ridges: there is no prediction.

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
    problem = RidgeProblem(protocol.alpha, protocol.ridge_query / protocol.beta**2, protocol.ridge)

    def sets(first: int) -> list[JointMinimum]:
        """Independent sets of points; a set with a sample between two inner minima may have no solution."""
        return [JointMinimum(task, protocol.loss, points, [first + k * REPLICATES]) for k in range(SPARE_SETS)]

    equations, (lowest, *others) = _first(lambda one: _all_minima(one, problem), sets(0))
    solved = [
        (equations, lowest),
        *thread_map(
            lambda index: _first(lambda one: solve_from_neighbour(one, problem, lowest), sets(index)),
            range(1, REPLICATES),
            level="trajectory",
        ),
    ]
    replaced = any(one.seed[0] >= REPLICATES for one, _ in solved)
    rows = np.array([_numbers(task, protocol, found, index) for index, (_, found) in enumerate(solved)])
    means = _named(rows.mean(axis=0))
    errors = _named(error_from_replicates(rows - rows.mean(axis=0)))
    shares = thread_map(lambda pair: pair[0].switching_share(pair[1].point), solved, level="trajectory")
    switching = float(np.mean(shares))
    other_solutions = tuple(_other(_named(_numbers(task, protocol, one, 0)), one.reached_from) for one in others)
    return JointTraining(
        task=task,
        protocol=protocol,
        **means,
        switching=switching,
        reached_from=lowest.reached_from,
        other_solutions=other_solutions,
        certificate=_certificate(lowest, means, switching, errors, other_solutions, replaced=replaced),
    )


def _first(solve: Callable[[JointMinimum], Found], sets: Sequence[JointMinimum]) -> tuple[JointMinimum, Found]:
    """Return the first of some sets of points that has a solution, with it; the failure of the last one if none has."""
    for equations in sets[:-1]:
        with suppress(SolveError):
            return equations, solve(equations)
    return sets[-1], solve(sets[-1])


def _all_minima(equations: JointMinimum, problem: RidgeProblem) -> tuple[JointSolution, ...]:
    """Return all solutions found, the lowest objective first; they are searched on a small set of points."""
    search = JointMinimum(
        equations.task, equations.loss, min(SEARCH_LOG2_POINTS, equations.log2_points), equations.seed
    )

    found = []
    for one in find_minima(search, problem):
        equations.fields = None
        with suppress(SolveError):  # a solution of the small set only
            found.append(solve_from_neighbour(equations, problem, one))
    if found:
        return distinct_minima(sorted(found, key=_is_continued))
    equations.fields = None
    return find_minima(equations, problem)


def _is_continued(solution: JointSolution) -> bool:
    return solution.reached_from != SMALL_WEIGHTS


def _named(row: Sequence[float] | Array) -> dict[str, float]:
    """Return the numbers of a solution by name."""
    return dict(zip((*StepNumbers._fields, *_Numbers._fields), np.asarray(row).tolist(), strict=True))


def _other(numbers: dict[str, float], reached_from: str) -> OtherMinimum:
    """Return a solution that is not the lowest."""
    names = (field.name for field in fields(OtherMinimum) if field.name != "reached_from")
    return OtherMinimum(reached_from=reached_from, **{name: numbers[name] for name in names})


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


def _certificate(
    found: JointSolution,
    means: dict[str, float],
    switching: float,
    errors: dict[str, float],
    others: tuple[OtherMinimum, ...],
    *,
    replaced: bool,
) -> Certificate:
    """Return a certificate that says whether the minimum is stable and unique (J31)."""
    stability = means["stability"]
    unique = stability < 1.0 and switching == 0.0 and not replaced
    warnings = [
        f"another minimum is reached from {one.reached_from}: objective {one.objective:.5g}, test error "
        f"{one.test_error:.4g}; the lowest objective is {means['objective']:.5g}."
        for one in others
    ]
    if not unique:
        warnings.insert(
            0,
            f"several minima (stability {stability:.3g}, switching {switching:.2g}): the numbers are approximate, and "
            "runs from different starts end in different minima.",
        )
    if replaced:
        warnings.append(
            "a set of points had no solution, because a sample lies between two minima; it was replaced by another."
        )
    return Certificate(
        status="converged: stable" if unique else "converged, approximate: several minima",
        kind="claim" if unique else "heuristic",
        residual=found.residual,
        quadrature_error=errors["test_error"],
        errors=errors,
        evaluations=found.evaluations,
        warnings=tuple(warnings),
    )
