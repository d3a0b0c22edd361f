"""directions(): leading directions of a trained map: elements, noise in their rows, eigenvectors (P10)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onehead.aim.solve.leading_noise import solve_direction_noise
from onehead.aim.theory.order_parameters import INFINITE
from onehead.aim.theory.output.averages import parts_error
from onehead.aim.theory.output.leading_noise import DirectionNoiseEvolution, DirectionNoiseOverlaps
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.aim.verbs.predict import Prediction
from onehead.errors import InvalidArgument, OutsideDomain
from onehead.results import Certificate, Result
from onehead.validation import checked, instance

LITTLE_BULK = (
    "almost all of the map lies in its leading directions, as close to emergence: the noise of these directions is of "
    "the order of "
    "the terms that are neglected, and the prediction is as accurate"
)


@dataclass(frozen=True, kw_only=True)
class LearnedDirection(Result):
    """A leading direction k of the target in the trained map S, with the noise of its own row.

    Attributes
    ----------
    target : float
        Eigenvalue of S* in this direction.
    learned : float
        Element S_kk.
    scatter : float
        Sum of S_kj² over all other j, which is noise.
    position : float or None
        Eigenvalue of S that belongs to the direction; None where it lies inside the bulk.
    overlap : float or None
        Squared overlap of its eigenvector with that of the target; None where it lies inside the bulk.
    learned_err, scatter_err, position_err, overlap_err : float or None
        Quadrature errors of these numbers.
    """

    target: float
    learned: float
    scatter: float
    position: float | None
    overlap: float | None
    learned_err: float = 0.0
    scatter_err: float = 0.0
    position_err: float | None = None
    overlap_err: float | None = None


@dataclass(frozen=True, kw_only=True)
class LearnedDirections(Result):
    """Size and overlap of a trained map and its leading directions, with the noise of each direction solved for.

    A prediction takes the noise of a leading direction to be that of all others. Here it is an unknown, and ``q`` and
    ``m`` change accordingly. Errors do not become more accurate by it and are those of the prediction, ``point``.

    Attributes
    ----------
    q : float
        Size of the map, |S|²/d, in the learner's units.
    m : float
        Overlap with the target, Tr S'S*/d, in the learner's units.
    directions : tuple of LearnedDirection
        The leading directions, in the order of the target's eigenvalues.
    certificate : Certificate
        Status and numerical errors.
    point : Prediction
        The prediction.
    """

    _MAIN: ClassVar[str] = "q"
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("q", "m")
    MEANINGS: ClassVar[dict[str, str]] = {
        "q": "|S|²/d, size of the map",
        "m": "Tr S'S*/d, overlap with the target",
    }

    q: float
    m: float
    directions: tuple[LearnedDirection, ...]
    certificate: Certificate
    point: Prediction


@checked(point=instance(Prediction, "a result of predict"))
def directions(point: Prediction) -> LearnedDirections:
    """Leading directions of a trained map, from a prediction that averages them exactly (P10).

    Derived for tied heads with two tokens, trained as S = W'W at full width; others are refused.

    Parameters
    ----------
    point : Prediction
        A prediction with at least one leading direction.

    Returns
    -------
    LearnedDirections
        Elements, noise, eigenvalues and eigenvectors of the leading directions.

    Raises
    ------
    InvalidArgument
        If the prediction has no leading direction, or the noise is not derived for this head.
    OutsideDomain
        If λ → 0⁺ and every label is fitted.

    Examples
    --------
    >>> from onehead.aim import Learner, PowerLaw, Task, directions, predict
    >>> task = Task(target=PowerLaw(gamma=0.75, dim=100))
    >>> found = directions(predict(task, Learner(weight_decay=0.01, leading=3), alpha=0.1585))
    >>> [round(one.scatter, 1) for one in found.directions]
    [0.8, 0.7, 0.6]
    """
    problem = _supported_equations(point)
    if point.rank == 0.0:
        return _zero_map(point)
    if not 0.0 < point.sigma < INFINITE:
        raise OutsideDomain(
            "the noise of leading directions is not known where λ → 0⁺ fits every label; raise weight_decay."
        )
    effective = tuple(direction.effective for direction in point.directions)
    hats = problem.hats(point.q_hat, point.m_hat, point.sigma_hat, effective)
    solved = solve_direction_noise(problem, point.alpha, problem.overlaps_of(hats))
    # one solution on all sampled points, then one on each of their independent parts
    table = [_numbers(problem, point.alpha, one) for one in (solved.found, *solved.parts)]
    (q, m), *by_part = (columns[:2] for columns in table)
    errors = [parts_error(np.array(values)) for values in zip(*by_part, strict=True)]
    found = [
        _direction(direction.target, [columns[2][k] for columns in table])
        for k, direction in enumerate(point.directions)
    ]
    certificate = Certificate.of(
        point.certificate,
        residual=solved.residual,
        evaluations=point.certificate.evaluations + solved.evaluations,
        quadrature_error=errors[0],
        errors=dict(zip(("q", "m"), errors, strict=True)),
        warnings=(*point.certificate.warnings, *((LITTLE_BULK,) if solved.found.bulk_exhausted else ())),
    )
    return LearnedDirections(q=q, m=m, directions=tuple(found), certificate=certificate, point=point)


def _supported_equations(point: Prediction) -> StateEvolution:
    """State evolution of a prediction, if the noise of its leading directions is derived; refused otherwise."""
    problem, learner = point.equations, point.learner
    if not problem.directions.sampled:
        raise InvalidArgument(
            "leading", learner.leading, "at least 1: this prediction averages no leading direction exactly"
        )
    if not point.task.tied:
        raise InvalidArgument(
            "attention", point.task.attention, "tied: the noise of leading directions is derived for tied heads"
        )
    if point.task.tokens != 2:
        raise InvalidArgument(
            "tokens", point.task.tokens, "2: the noise of leading directions is derived for two tokens"
        )
    if learner.param != "factorised":
        raise InvalidArgument(
            "param", learner.param, "factorised: the noise of leading directions is derived for S = W'W"
        )
    if problem.input.rank_limited(point.rank):
        raise InvalidArgument(
            "width",
            learner.width,
            "larger than the rank that weight decay leaves: the noise is not derived for a narrower head",
        )
    return problem


def _zero_map(point: Prediction) -> LearnedDirections:
    """Result for S = 0."""
    found = [
        LearnedDirection(target=direction.target, learned=0.0, scatter=0.0, position=None, overlap=None)
        for direction in point.directions
    ]
    certificate = Certificate.of(point.certificate, quadrature_error=0.0, errors={})
    return LearnedDirections(q=0.0, m=0.0, directions=tuple(found), certificate=certificate, point=point)


def _numbers(
    problem: StateEvolution, alpha: float, at: DirectionNoiseOverlaps
) -> tuple[float, float, list[list[float | None]]]:
    """Overlaps q and m, and (learned, scatter, position, overlap) of every direction, in the learner's units."""
    beta, root = problem.units.beta, problem.directions.length
    found = DirectionNoiseEvolution(problem, alpha).eigenvectors(at)
    rows: list[list[float | None]] = []
    for strength, scatter, vector in zip(at.overlaps.learned, at.scatter.tolist(), found, strict=True):
        outlier = (None, None) if vector is None else (vector.position / beta, vector.overlap)
        rows.append([root * strength / beta, root**2 * scatter / beta**2, *outlier])
    return *problem.units.own(at.q, at.overlaps.m), rows


def _direction(target: float, values: Sequence[list[float | None]]) -> LearnedDirection:
    """A direction with errors: its numbers on all sampled points come first, then those on each part of them."""
    names = ("learned", "scatter", "position", "overlap")
    on_all, *on_parts = values
    errors = [
        None if None in column else parts_error(np.array(column, dtype=float)) for column in zip(*on_parts, strict=True)
    ]
    stated = {
        f"{name}_err": error if value is not None else None
        for name, value, error in zip(names, on_all, errors, strict=True)
    }
    return LearnedDirection(target=target, **dict(zip(names, on_all, strict=True)), **stated)  # type: ignore[arg-type]
