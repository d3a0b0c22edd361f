"""What a head has learned of its leading directions: elements, noise around them, eigenvectors (P10)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onehead.aim.equations.averages import of_parts
from onehead.aim.equations.leading_block import BlockEvolution, BlockOverlaps
from onehead.aim.equations.leading_evolution import LeadingEvolution
from onehead.aim.equations.unknowns import INFINITE
from onehead.aim.solve.block import with_blocks
from onehead.aim.verbs.predict import Prediction
from onehead.arguments import checked, instance
from onehead.errors import InvalidArgument, OutsideDomain
from onehead.results import Certificate, Result

__all__ = ["LearnedDirection", "LearnedDirections", "directions"]

CRAMPED = (
    "hardly anything of the map lies outside its leading directions, as close to emergence: what their noise is worth there is of the order "
    "of what is left out, and the prediction is as good"
)


@dataclass(frozen=True, kw_only=True)
class LearnedDirection(Result):
    """A leading direction k of the target in the trained map S, with the noise of its own row.

    ``target`` is its eigenvalue there, ``learned`` the element S_kk, and ``scatter`` the sum of squares S_kj² over all others, which is
    noise. ``position`` is the eigenvalue of S that comes from it and ``overlap`` the squared overlap of its eigenvector with the
    target's; both are missing where it does not stand apart. Names that end in ``_err`` are errors of quadrature.
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
    """Size and overlap of a trained map and its leading directions, better than a prediction has them.

    A prediction takes the noise of a leading direction to be that of all others. Here it is solved for; ``q`` and ``m`` differ by that
    and go with these ``directions``. Errors do not gain by it, and stay with the prediction, ``point``.
    """

    _MAIN: ClassVar[str] = "q"
    _SHOWN: ClassVar[tuple[str, ...]] = ("q", "m")
    MEANINGS: ClassVar[dict[str, str]] = {
        "q": "|S|²/d, size of the map",
        "m": "Tr S'S*/d, overlap with the target",
    }

    q: float
    m: float
    directions: tuple[LearnedDirection, ...]
    certificate: Certificate
    point: Prediction


@checked(point=instance(Prediction, "the answer of predict"))
def directions(point: Prediction) -> LearnedDirections:
    """What a trained map has in its leading directions, from a prediction that averages them exactly (P10).

    Derived for tied heads of two tokens, trained as S = W'W at full width; others are refused.

    Examples
    --------
    >>> from onehead.aim import Learner, PowerLaw, Task, directions, predict
    >>> task = Task(target=PowerLaw(gamma=0.75, dim=100))
    >>> found = directions(predict(task, Learner(weight_decay=0.01, leading=3), alpha=0.1585))
    >>> [round(one.scatter, 1) for one in found.directions]
    [0.8, 0.7, 0.6]
    """
    problem = _derived(point)
    if point.rank == 0.0:
        return _nothing(point)
    if not 0.0 < point.sigma < INFINITE:
        raise OutsideDomain(
            "the noise of leading directions is not known where λ → 0⁺ fits every label; raise weight_decay."
        )
    seen = [one.effective for one in point.directions]
    hats = problem.hats_of(point.q_hat, point.m_hat, point.sigma_hat, seen)
    solved = with_blocks(problem, point.alpha, problem.overlaps_of(hats))
    table = [_numbers(problem, point.alpha, one) for one in (solved.found, *solved.parts)]
    (q, m), *rest = (columns[:2] for columns in table)
    errors = [of_parts(np.array(values)) for values in zip(*rest, strict=True)]
    found = [_direction(one.target, [columns[2][k] for columns in table]) for k, one in enumerate(point.directions)]
    certificate = Certificate.of(
        point.certificate,
        residual=solved.residual,
        evaluations=point.certificate.evaluations + solved.evaluations,
        quadrature_error=errors[0],
        errors=dict(zip(("q", "m"), errors, strict=True)),
        warnings=(*point.certificate.warnings, *((CRAMPED,) if solved.found.cramped else ())),
    )
    return LearnedDirections(q=q, m=m, directions=tuple(found), certificate=certificate, point=point)


def _derived(point: Prediction) -> LeadingEvolution:
    """The equations of a point, if blocks are known there; refused otherwise."""
    problem, learner = point.equations, point.learner
    if not isinstance(problem, LeadingEvolution):
        allowed = "so many directions, one or more, that are averaged exactly: this head has none"
        raise InvalidArgument("leading", learner.leading, allowed)
    if point.task.tokens != 2:
        raise InvalidArgument(
            "tokens", point.task.tokens, "2: the noise of leading directions is derived for two tokens"
        )
    if learner.param != "factorised":
        raise InvalidArgument(
            "param", learner.param, "factorised: the noise of leading directions is derived for S = W'W"
        )
    if problem.input.narrow(point.rank):
        raise InvalidArgument(
            "width", learner.width, "above the rank that weight decay leaves: a narrower head is not worked out"
        )
    return problem


def _nothing(point: Prediction) -> LearnedDirections:
    """Those of no map."""
    none = [
        LearnedDirection(target=one.target, learned=0.0, scatter=0.0, position=None, overlap=None)
        for one in point.directions
    ]
    certificate = Certificate.of(point.certificate, quadrature_error=0.0, errors={})
    return LearnedDirections(q=0.0, m=0.0, directions=tuple(none), certificate=certificate, point=point)


def _numbers(
    problem: LeadingEvolution, alpha: float, at: BlockOverlaps
) -> tuple[float, float, list[list[float | None]]]:
    """q, m and of every direction (learned, scatter, position, overlap), in the learner's own units."""
    beta, root = problem.units.beta, problem.root
    found = BlockEvolution(problem, alpha).eigenvectors(at)
    rows: list[list[float | None]] = []
    for strength, scatter, vector in zip(at.overlaps.strengths, at.scatter.tolist(), found, strict=True):
        apart = (None, None) if vector is None else (vector.position / beta, vector.overlap)
        rows.append([root * strength / beta, root**2 * scatter / beta**2, *apart])
    return *problem.units.own(at.q, at.overlaps.m), rows


def _direction(target: float, values: Sequence[list[float | None]]) -> LearnedDirection:
    """A direction from its numbers on all points and on the parts of them."""
    names = ("learned", "scatter", "position", "overlap")
    whole, *parts = values
    errors = [
        None if None in column else of_parts(np.array(column, dtype=float)) for column in zip(*parts, strict=True)
    ]
    stated = {
        f"{name}_err": error if value is not None else None
        for name, value, error in zip(names, whole, errors, strict=True)
    }
    return LearnedDirection(target=target, **dict(zip(names, whole, strict=True)), **stated)  # type: ignore[arg-type]
