"""Solution of the equations of several heads, its errors and its certificate (M4)."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.solve.certificate import (
    COARSE_RULE,
    UNSTABLE,
    AimCertificate,
    Numbers,
    OtherSolution,
    numbers_at,
    with_accuracy_warning,
    with_warning,
)
from onehead.aim.solve.fixed_sample_ratio import Secants
from onehead.aim.solve.one_level import no_solution_error
from onehead.aim.solve.sampled import standard_error
from onehead.aim.theory.input.several_heads import ModeHats, ModeOverlaps, SampledHeads
from onehead.aim.theory.order_parameters import INFINITE, SpectralMap
from onehead.aim.theory.output.several_heads import ModeAverages, ModeState
from onehead.aim.theory.several_heads import SeveralHeads
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import NotConverged, OutsideDomain, SolveError
from onehead.numerics.fixed_point import fixed_point
from onehead.results import Kind

Array = NDArray[np.float64]

TOLERANCE = 1e-6  # residual of the logarithms of the unknowns
PATH_TOLERANCE = 1e-2  # the same for a solution that only serves as a start
MAX_ROUNDS = 6  # in which the minima of the nodes are chosen
CHOICE_TOLERANCE = 1e-5  # change of the logarithms of the unknowns by a choice that counts as none
VISIBLE_CHANGE = 0.01  # the same that is mentioned by a warning
MEMORY, DAMPING, MAX_STEP, LIMIT = 6, 0.6, 0.7, 100.0  # of Anderson acceleration (M4)
PATH = (0.5, 0.8, 0.9)  # overlaps of the values through which strongly shared values are reached
COARSE, FINE = 0, 1  # levels of the quadrature rules; their difference is the stated error
FINEST = 3
MAXIMUM_SWITCH_MASS, MAXIMUM_JUMP, ALARM = 0.005, 0.05, 0.004  # limits of the certificate (M3.1, M4)
VISIBLE_JUMP = 0.02  # difference of the two forms from which on the derivative forms, which do not see jumps, are left
DRAWS, DRAWN_DIM, LARGEST_DRAWN_DIM = 2, 60, 200  # sampled maps, and their dimension
DRAWN_TOLERANCE = 2e-3  # far below the scatter of the sampled maps
ALIKE = 3e-3  # scale of the values of the differences, relative to that of the mean, below which they vanish
ZERO_STATUS = "not emerged: S = 0 is the minimum"
SAMPLED_STATUS = "converged: sampled maps"


class HeadsSolution(NamedTuple):
    """State, conjugate fields, spectrum of one head, training loss over d², certificate and other solutions."""

    state: ModeState
    hats: ModeHats
    overlaps: ModeOverlaps
    train: float
    certificate: AimCertificate
    others: tuple[OtherSolution, ...] = ()


@dataclass(frozen=True)
class _Point:
    """A solution on one rule.

    ``unsettled`` is the solution of the round before, where the choice between the minima of the nodes goes on
    changing; ``checked`` has the averages with both minima of every node, where they are known at the solution.
    """

    state: ModeState
    hats: ModeHats
    overlaps: ModeOverlaps
    averages: ModeAverages
    residual: float
    evaluations: int
    secants: Secants
    checked: ModeAverages | None = None
    unsettled: "_Point | None" = None

    def change(self, problem: SeveralHeads) -> float:
        """Change of the logarithms of the unknowns by the last choice between minima; zero if that has settled."""
        if self.unsettled is None:
            return 0.0
        now, before = (one.state.coordinates(problem.output.label_power) for one in (self, self.unsettled))
        return float(np.max(np.abs(now - before)))

    def train(self, problem: SeveralHeads, alpha: float) -> float:
        """Training loss over d²."""
        return alpha * self.averages.loss + problem.penalty(self.overlaps, self.state.scales)


def solve_several_heads(
    problem: SeveralHeads,
    single: StateEvolution,
    alpha: float,
    *,
    near: ModeState | None = None,
    accuracy: float | None = None,
    smooth: bool = False,
) -> HeadsSolution:
    """Solve the equations of several heads at one sample ratio.

    Parameters
    ----------
    problem : SeveralHeads
    single : StateEvolution
        The equations of one head, whose solution is the start.
    alpha : float
        Sample ratio.
    near : ModeState, optional
        A neighbouring solution to start from.
    accuracy : float, optional
        Wanted relative error of the test error, for which finer rules are used.
    smooth : bool
        Whether to solve by expectation consistency even where it is not accurate.

    Raises
    ------
    SolveError
        If the equations have no solution here, or none was found.
    """
    if not problem.values.learnt and problem.input.vanishes(problem.at_origin(alpha, COARSE)):
        return _zero(problem, alpha)
    if problem.stiff:
        return _solve(problem, single, alpha, near, accuracy, smooth=smooth)
    jumping = replace(problem, prox_jumps=True)
    try:
        found = _solve(problem, single, alpha, near, accuracy, smooth=smooth)
    except NotConverged:  # what jumps of the proximal operator may cause
        return _solve(jumping, single, alpha, near, accuracy, smooth=smooth)
    certificate = found.certificate
    if certificate.stein_gap > VISIBLE_JUMP and certificate.switch_mass > 0.0:  # derivatives do not see these jumps
        with suppress(SolveError):
            return _solve(jumping, single, alpha, found.state, accuracy, smooth=smooth)
    return found


def _solve(
    problem: SeveralHeads,
    single: StateEvolution,
    alpha: float,
    near: ModeState | None,
    accuracy: float | None,
    *,
    smooth: bool,
) -> HeadsSolution:
    """Solve the equations with the forms of the conjugate fields that the problem asks for."""
    try:
        coarse = _reached(problem, single, alpha, near)
        fine, level = coarse, COARSE
        error = np.inf
        while level < FINEST:
            level += 1
            coarse, fine = fine, _solve_on_rule(problem, alpha, level, fine.state, fine.secants)
            error = abs(_test(problem, fine) - _test(problem, coarse))
            if level >= FINE and (accuracy is None or error < accuracy * _test(problem, fine)):
                break
    except OutsideDomain as failure:
        if problem.values.learnt and "zero" in str(failure):
            return _zero(problem, alpha)
        raise
    except NotConverged as failure:
        raise no_solution_error(single, alpha, failure) from failure
    certificate = _certified(problem, alpha, coarse, fine, level)
    if accuracy is not None:
        certificate = with_accuracy_warning(certificate, _test(problem, fine), accuracy)
    rank = problem.input.single.target.rank
    if not smooth and problem.input.alarm(fine.hats, fine.overlaps, min(rank, 1.0)) > ALARM:
        return _sampled(problem, alpha, fine, certificate)
    return HeadsSolution(fine.state, fine.hats, fine.overlaps, fine.train(problem, alpha), certificate)


def _test(problem: SeveralHeads, point: _Point) -> float:
    """Return the test error of a point."""
    return problem.output.fresh_error(point.state)


def _reached(problem: SeveralHeads, single: StateEvolution, alpha: float, near: ModeState | None) -> _Point:
    """Return the solution on the coarse rule, from a neighbour or from one head, through weaker overlaps if needed."""
    if near is not None:
        with suppress(SolveError):
            return _solve_on_rule(problem, alpha, COARSE, near)
    state = _start(problem, single, alpha)
    secants: Secants = ()
    sharing = problem.modes.sharing
    size = abs(sharing)
    if not problem.stiff:
        try:
            return _solve_on_rule(problem, alpha, COARSE, state)
        except SolveError:
            if size <= PATH[0]:
                raise
    for overlap in PATH:
        if overlap < size:
            with suppress(SolveError):  # the path continues from the last overlap that could be solved
                easier = problem.with_sharing(np.copysign(overlap, sharing))
                found = _solve_round(easier, alpha, COARSE, state, secants=secants, tolerance=PATH_TOLERANCE)
                state, secants = found.state, found.secants
    return _solve_on_rule(problem, alpha, COARSE, state, secants)


def _start(problem: SeveralHeads, single: StateEvolution, alpha: float) -> ModeState:
    """Return a start from the solution of one head."""
    Q0, ones = single.target_power, np.ones(2)
    q, m, sigma = 0.7 * Q0, 0.8 * Q0, 1.0 / alpha
    with suppress(SolveError):
        found: Numbers = numbers_at(single, alpha)
        overlaps = found.overlaps
        if overlaps.q > 0.0 and 0.0 < overlaps.sigma < INFINITE:
            q, m, sigma = overlaps.q, overlaps.m, overlaps.sigma
    return ModeState(q * ones, m * ones, sigma * np.array([0.8, 1.5]), ones)


def _solve_on_rule(problem: SeveralHeads, alpha: float, level: int, start: ModeState, secants: Secants = ()) -> _Point:
    """Solve the equations on one rule.

    Where the proximal operator may jump, the lower minimum of every node is chosen at the start of a round and kept
    during its iterations, which makes the equations smooth; rounds end when a new choice changes nothing. The rounds
    are a fixed point of their own, and are extrapolated like one.
    """
    if not problem.stiff:
        return _solve_round(problem, alpha, level, start, secants=secants)
    Q, points = problem.output.label_power, problem.output.points_at(level)
    rounds: list[tuple[float, _Point]] = []

    def next_round(x: Array) -> Array:
        known = rounds[-1][1].secants if rounds else secants
        point = _solve_round(problem, alpha, level, ModeState.at(x, Q), points=points, secants=known)
        found = point.state.coordinates(Q)
        rounds.append((float(np.max(np.abs(found - x))), point))
        return found

    try:
        fixed_point(
            next_round,
            start.coordinates(Q),
            tolerance=CHOICE_TOLERANCE,
            damping=1.0,
            memory=2,
            max_step=MAX_STEP,
            limit=LIMIT,
            max_evaluations=MAX_ROUNDS,
        )
    except NotConverged:
        if len(rounds) < MAX_ROUNDS:  # a round failed
            raise
    evaluations = sum(point.evaluations for _, point in rounds)
    change, point = rounds[-1]
    before = None if change < CHOICE_TOLERANCE else rounds[-2][1]
    return replace(point, evaluations=evaluations, unsettled=before)


def _solve_round(
    problem: SeveralHeads,
    alpha: float,
    level: int,
    start: ModeState,
    *,
    points: Array | None = None,
    secants: Secants = (),
    maps: SampledHeads | None = None,
    tolerance: float = TOLERANCE,
) -> _Point:
    """Iterate the equations on one rule, where the operator may jump with the minima that the first evaluation chose.

    Sampled ``maps`` replace the input channel.
    """
    output, Q, stiff = problem.output, problem.output.label_power, problem.stiff
    overlaps_of = problem.input.overlaps if maps is None else maps.at
    work = output.points_at(level) if points is None else points
    last: dict[str, tuple[ModeState, ModeHats, ModeOverlaps, ModeAverages]] = {}
    checked: list[ModeAverages] = []

    def step(x: Array) -> Array:
        state, check = ModeState.at(x, Q), stiff and not last
        averages = output.averages(state, level, derivatives=check or not stiff, check=check, points=work)
        checked[:] = [averages] if check else []
        scales = problem.scales(averages, alpha)
        if problem.modes.heads > 1 and scales[1] < ALIKE * scales[0]:
            raise OutsideDomain(
                "weight decay on the values makes all heads alike here, for which there is no solution; lower "
                "value_decay or raise alpha."
            )
        hats = problem.hats(averages, alpha)
        overlaps = overlaps_of(hats)
        last["now"] = (state, hats, overlaps, averages)
        if not (np.min(overlaps.q - overlaps.m**2 / Q) > 0.0 and np.min([overlaps.m, overlaps.sigma]) > 0.0):
            raise OutsideDomain("an overlap of a mode of the heads is not positive; lower sharing or raise alpha.")
        return ModeState(overlaps.q, overlaps.m, overlaps.sigma, scales).coordinates(Q)

    found = fixed_point(
        step,
        start.coordinates(Q),
        tolerance=tolerance,
        damping=DAMPING,
        memory=MEMORY,
        max_step=MAX_STEP,
        limit=LIMIT,
        max_evaluations=150,
        secants=secants,
    )
    return _Point(*last["now"], found.residual, found.evaluations, found.secants, next(iter(checked), None))


def _certified(problem: SeveralHeads, alpha: float, coarse: _Point, fine: _Point, level: int) -> AimCertificate:
    """Return the certificate: replicon, share of nodes with several minima, jump of the proximal operator (M4)."""
    checked = fine.checked or problem.output.averages(fine.state, level, derivatives=True, check=True)
    replicon = None
    if checked.curvature is not None:
        curvature = checked.curvature if problem.modes.heads > 1 else np.full((2, 2), checked.curvature[0, 0]) / 2.0
        replicon = problem.input.replicon(fine.hats, fine.overlaps, curvature, alpha)
    return _judged(problem, checked, replicon, _errors(problem, alpha, coarse, fine), fine)


def _judged(
    problem: SeveralHeads, checked: ModeAverages, replicon: float | None, errors: dict[str, float], point: _Point
) -> AimCertificate:
    """Return the certificate with the kind of truth that its numbers allow."""
    kind: Kind = "conjecture"
    status, warnings, change = "converged", [], point.change(problem)
    if checked.switch_mass > MAXIMUM_SWITCH_MASS or (checked.jump > MAXIMUM_JUMP and checked.switch_mass > 0.0):
        kind, status = "heuristic", "converged, approximate: the proximal operator has several minima"
        warnings.append(
            f"heads share so much of their values that the proximal operator has several minima for "
            f"{checked.switch_mass:.1%} of the samples and jumps by {checked.jump:.1%}; the numbers are approximate"
        )
    elif checked.jump > MAXIMUM_JUMP:
        kind = "heuristic"
        warnings.append(f"the two forms of Sigmahat differ by {checked.jump:.1e}, relative: {COARSE_RULE}")
    if change > VISIBLE_CHANGE:
        kind = "heuristic"
        warnings.append(
            f"the choice between minima of the proximal operator does not settle: order parameters change by "
            f"{change:.1%} with it, which the errors include"
        )
    if replicon is not None and replicon >= 1.0:
        kind = "heuristic"
        warnings.append(UNSTABLE)
    return AimCertificate(
        status=status,
        kind=kind,
        residual=point.residual,
        quadrature_error=errors["test_error"],
        evaluations=point.evaluations,
        errors=errors,
        warnings=tuple(warnings),
        stein_gap=checked.jump,
        switch_mass=checked.switch_mass,
        replicon=replicon,
    )


def reported_numbers(problem: SeveralHeads, point: _Point | HeadsSolution, train: float) -> dict[str, float]:
    """Return the numbers of a solution that have an error, in reduced units."""
    modes, output, state = problem.modes, problem.output, point.state
    q, m = modes.own(state.q), modes.own(state.m)
    return {
        "test_error": output.fresh_error(state),
        "test_error_clean": output.fresh_error(state, problem.input.single.target_power),
        "train_loss": float(train),
        "rank": point.overlaps.rank,
        "q": q,
        "m": m,
        "sigma": modes.own(state.sigma),
        "q_cross": modes.cross(state.q),
        "m_cross": modes.cross(state.m),
        "head_error": output.head_error(q, m),
        "q_hat": modes.own(point.hats.q),
        "m_hat": modes.own(point.hats.m),
        "sigma_hat": modes.own(point.hats.sigma),
    }


def _errors(problem: SeveralHeads, alpha: float, coarse: _Point, fine: _Point) -> dict[str, float]:
    """Return the difference of every number between two rules, the error of the coarser one.

    A choice between minima that does not settle adds what it changes.
    """
    points = (fine, coarse, *(() if fine.unsettled is None else (fine.unsettled,)))
    found, *others = (reported_numbers(problem, point, point.train(problem, alpha)) for point in points)
    rounding = 10.0 * fine.residual
    errors = {
        name: sum(abs(value - other[name]) for other in others) + rounding * abs(value) for name, value in found.items()
    }
    return errors | {"test_loss": errors["test_error"], "excess_error": errors["test_error"]}


def _zero(problem: SeveralHeads, alpha: float) -> HeadsSolution:
    """Return the zero map, at which weight decay keeps all heads."""
    zero, scales = np.zeros(2), np.ones(2)
    if problem.values.learnt:  # a head that averages its tokens; differences between heads cannot be seen
        shift = problem.values.decay / (2.0 * alpha * problem.output.tokens)
        square = problem.modes.heads / problem.output.tokens  # of the mean of the heads, summed over columns
        squares = problem.values.penalty == "squares"
        scales = np.array([square / (square + shift) if squares else max(square - shift, 0.0) / square, 0.0])
    state = ModeState(zero, zero, zero, scales)
    overlaps = ModeOverlaps(state.q, state.m, state.sigma, 0.0, 0.0, SpectralMap(0.0, 0.0, 0.0, 0.0))
    certificate = AimCertificate(status=ZERO_STATUS, kind="conjecture")
    infinite = np.full(2, INFINITE)
    train = alpha * problem.output.fresh_error(state) + problem.penalty(overlaps, scales)
    return HeadsSolution(state, ModeHats(infinite, infinite, infinite), overlaps, train, certificate)


def _sampled(problem: SeveralHeads, alpha: float, near: _Point, certificate: AimCertificate) -> HeadsSolution:
    """Return the mean over sampled maps, which replace expectation consistency where its alarm is raised (M3.2)."""
    dim = problem.input.single.target.dimension or DRAWN_DIM
    draws: list[_Point] = []
    obstacle = f"targets of dimension {dim} are too large to be sampled in its place"
    if dim <= LARGEST_DRAWN_DIM:
        obstacle = "the equations have no solution with sampled maps in its place"
        with suppress(SolveError):
            for k in range(DRAWS):
                maps = SampledHeads.of(problem.input, dim, k)
                draws.append(_solve_round(problem, alpha, COARSE, near.state, maps=maps, tolerance=DRAWN_TOLERANCE))
    if len(draws) < DRAWS:
        text = (
            f"the modes of the heads are joined by expectation consistency, which is not accurate here, and "
            f"{obstacle}; overlaps between heads may be off by 20 %"
        )
        certificate = replace(with_warning(certificate, text), kind="heuristic")
        return HeadsSolution(near.state, near.hats, near.overlaps, near.train(problem, alpha), certificate)
    rows = [reported_numbers(problem, draw, draw.train(problem, alpha)) for draw in draws]
    scatter = {name: standard_error([row[name] for row in rows]) for name in rows[0]}
    errors = {name: error + scatter.get(name, scatter["test_error"]) for name, error in certificate.errors.items()}

    def mean(values: list[Array]) -> Array:
        return np.asarray(np.mean(values, axis=0))

    state = ModeState(*(mean([getattr(draw.state, name) for draw in draws]) for name in ("q", "m", "sigma", "scales")))
    hats = ModeHats(*(mean([draw.hats[k] for draw in draws]) for k in range(3)))
    tau, rank = (float(np.mean([getattr(draw.overlaps, name) for draw in draws])) for name in ("tau", "rank"))
    overlaps = ModeOverlaps(state.q, state.m, state.sigma, tau, rank, near.overlaps.map)
    text = (
        f"expectation consistency is not accurate here: {DRAWS} sampled maps of dimension {dim} replace it; errors are "
        "standard errors over the maps, and the spectrum of one head is approximate"
    )
    certificate = replace(
        with_warning(certificate, text),
        status=SAMPLED_STATUS if certificate.status == "converged" else certificate.status,
        errors=errors,
        quadrature_error=errors["test_error"],
        residual=max(draw.residual for draw in draws),
        evaluations=certificate.evaluations + sum(draw.evaluations for draw in draws),
    )
    return HeadsSolution(state, hats, overlaps, float(np.mean([row["train_loss"] for row in rows])), certificate)
