"""Solution of the equations of several heads, its errors and its certificate (M4)."""

from contextlib import suppress
from dataclasses import replace
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
from onehead.aim.solve.heads_one_rule import HeadsPoint, solve_on_rule, solve_round
from onehead.aim.solve.one_level import no_solution_error
from onehead.aim.solve.sampled import standard_error
from onehead.aim.theory.input.several_heads import ModeHats, ModeOverlaps, SampledHeads
from onehead.aim.theory.order_parameters import INFINITE, SpectralMap
from onehead.aim.theory.output.several_heads import ModeAverages, ModeState
from onehead.aim.theory.several_heads import SeveralHeads
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import NotConverged, OutsideDomain, SolveError
from onehead.results import Kind

Array = NDArray[np.float64]

PATH_TOLERANCE = 1e-2  # the same for a solution that only serves as a start
VISIBLE_CHANGE = 0.01  # the same that is mentioned by a warning
PATH = (0.5, 0.8, 0.9)  # overlaps of the values through which strongly shared values are reached
COARSE, FINER, FINEST = 0, 2, 6  # levels of the quadrature rules: the coarsest, from one solution to the next, the last
MAXIMUM_SWITCH_MASS, MAXIMUM_JUMP, ALARM = 0.005, 0.05, 0.004  # limits of the certificate (M3.1, M4)
VISIBLE_JUMP = 0.002  # difference of the two forms from which on the derivative forms, which do not see jumps, are left
LARGER_MAP = 4.0  # factor on q, on the square of m, and on Sigma, of a second start
STRONG_SHARING = "heads share so much of their values"  # why a proximal operator has several minima
WEAK_DECAY = "weight decay is so weak, for labels with this much noise and so few samples,"
NOT_FOLLOWED = (
    "the proximal operator jumps between minima, and no solution of the equations that follow the jumps was found: "
    "training may end at larger maps and a larger test error"
)
DRAWS, DRAWN_DIM, LARGEST_DRAWN_DIM = 2, 60, 200  # sampled maps, and their dimension
DRAWN_TOLERANCE = 2e-3  # far below the scatter of the sampled maps
ZERO_STATUS = "not emerged: S = 0 is the minimum"
SAMPLED_STATUS = "converged: sampled maps"


class HeadsSolution(NamedTuple):
    """State, conjugate fields, spectrum of one head, training loss over d², certificate and other solutions.

    ``without_jumps`` is the solution of the equations that do not follow jumps of the proximal operator, where it was
    solved too.
    """

    state: ModeState
    hats: ModeHats
    overlaps: ModeOverlaps
    train: float
    certificate: AimCertificate
    others: tuple[OtherSolution, ...] = ()
    without_jumps: "HeadsSolution | None" = None


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
        Whether to solve by expectation consistency even where it is not accurate, and on two rules, for differences.

    Raises
    ------
    SolveError
        If the equations have no solution here, or none was found.
    """
    if not problem.values.learnt and problem.input.vanishes(problem.at_origin(alpha, COARSE)):
        return _zero(problem, alpha)
    if problem.stiff:
        return _solve(problem, single, alpha, near, accuracy, smooth=smooth)
    jumping, failure = replace(problem, prox_jumps=True), None
    found: HeadsSolution | None
    try:
        found = _solve(problem, single, alpha, near, accuracy, smooth=smooth)
        if not _jumps(found.certificate):
            return found
    except NotConverged as error:  # what jumps of the proximal operator may cause, on finer rules first
        failure = error
        found = _on_coarse_rule(problem, single, alpha, near)
    # derivatives do not see jumps: few as they are here, they may be many at the solution that follows them
    first = found.state if found is not None else near or _start(problem, single, alpha)
    for start in (first, larger_map(first)):
        with suppress(SolveError):
            return _solve(jumping, single, alpha, start, accuracy, smooth=smooth)._replace(without_jumps=found)
    if found is None or failure is not None:
        raise failure or NotConverged("no solution was found.")
    return found._replace(certificate=replace(with_warning(found.certificate, NOT_FOLLOWED), kind="heuristic"))


def _on_coarse_rule(
    problem: SeveralHeads, single: StateEvolution, alpha: float, near: ModeState | None
) -> HeadsSolution | None:
    """Return the solution on the coarsest rule, without errors, or None."""
    try:
        point = _reached(problem, single, alpha, near)
    except SolveError:
        return None
    certificate = AimCertificate(status="on the coarsest rule", kind="heuristic", residual=point.residual)
    return HeadsSolution(point.state, point.hats, point.overlaps, point.train(problem, alpha), certificate)


def _jumps(certificate: AimCertificate) -> bool:
    """Whether the proximal operator jumps visibly between minima."""
    return certificate.stein_gap > VISIBLE_JUMP and certificate.switch_mass > 0.0


def larger_map(state: ModeState) -> ModeState:
    """Return a start with larger maps than a solution."""
    return ModeState(LARGER_MAP * state.q, np.sqrt(LARGER_MAP) * state.m, LARGER_MAP * state.sigma, state.scales)


def _solve(
    problem: SeveralHeads,
    single: StateEvolution,
    alpha: float,
    near: ModeState | None,
    accuracy: float | None,
    *,
    smooth: bool,
) -> HeadsSolution:
    """Solve the equations with the forms of the conjugate fields that the problem asks for, on finer rules in turn."""
    try:
        level, fine = COARSE, _reached(problem, single, alpha, near)
        while level < FINEST:
            level, coarse = level + FINER, fine
            fine = solve_on_rule(problem, alpha, level, coarse.state, coarse.secants)
            # a difference quotient needs no error of its own
            others = (coarse,) if smooth else (coarse, *_on_another_rule(problem, alpha, level - 1, fine))
            errors = _errors(problem, alpha, fine, others)
            if accuracy is None or errors["test_error"] < accuracy * _test(problem, fine):
                break
    except OutsideDomain as failure:
        if problem.values.learnt and "zero" in str(failure):
            return _zero(problem, alpha)
        raise
    except NotConverged as failure:
        raise no_solution_error(single, alpha, failure) from failure
    certificate = _certified(problem, alpha, fine, errors, level)
    if accuracy is not None:
        certificate = with_accuracy_warning(certificate, _test(problem, fine), accuracy)
    rank = problem.input.single.target.rank
    if not smooth and problem.input.alarm(fine.hats, fine.overlaps, min(rank, 1.0)) > ALARM:
        return _sampled(problem, alpha, fine, certificate)
    return HeadsSolution(fine.state, fine.hats, fine.overlaps, fine.train(problem, alpha), certificate)


def _test(problem: SeveralHeads, point: HeadsPoint) -> float:
    """Return the test error of a point."""
    return problem.output.fresh_error(point.state)


def _reached(problem: SeveralHeads, single: StateEvolution, alpha: float, near: ModeState | None) -> HeadsPoint:
    """Return the solution on the coarse rule, from a neighbour or from one head, through weaker overlaps if needed."""
    if near is not None:
        with suppress(SolveError):
            return solve_on_rule(problem, alpha, COARSE, near)
    state = _start(problem, single, alpha)
    secants: Secants = ()
    sharing = problem.modes.sharing
    size = abs(sharing)
    if not problem.stiff:
        try:
            return solve_on_rule(problem, alpha, COARSE, state)
        except SolveError:
            if size <= PATH[0]:
                raise
    for overlap in PATH:
        if overlap < size:
            with suppress(SolveError):  # the path continues from the last overlap that could be solved
                easier = problem.with_sharing(np.copysign(overlap, sharing))
                found = solve_round(easier, alpha, COARSE, state, secants=secants, tolerance=PATH_TOLERANCE)
                state, secants = found.state, found.secants
    return solve_on_rule(problem, alpha, COARSE, state, secants)


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


def _on_another_rule(problem: SeveralHeads, alpha: float, level: int, near: HeadsPoint) -> tuple[HeadsPoint, ...]:
    """Return the solution on one more rule, if it is found.

    The difference of two rules alone is a bad error where nodes are sampled or the proximal operator changes fast: two
    independent errors of equal size agree within a third of it in one case of ten.
    """
    with suppress(SolveError):
        return (solve_on_rule(problem, alpha, level, near.state, near.secants),)
    return ()


def _certified(
    problem: SeveralHeads, alpha: float, fine: HeadsPoint, errors: dict[str, float], level: int
) -> AimCertificate:
    """Return the certificate: replicon, share of nodes with several minima, jump of the proximal operator (M4)."""
    checked = fine.checked or problem.output.averages(fine.state, level, derivatives=True, check=True)
    replicon = None
    if checked.curvature is not None:
        curvature = checked.curvature if problem.modes.heads > 1 else np.full((2, 2), checked.curvature[0, 0]) / 2.0
        replicon = problem.input.replicon(fine.hats, fine.overlaps, curvature, alpha)
    return _judged(problem, checked, replicon, errors, fine)


def _judged(
    problem: SeveralHeads, checked: ModeAverages, replicon: float | None, errors: dict[str, float], point: HeadsPoint
) -> AimCertificate:
    """Return the certificate with the kind of truth that its numbers allow."""
    kind: Kind = "conjecture"
    status, warnings, change = "converged", [], point.change(problem)
    if checked.switch_mass > MAXIMUM_SWITCH_MASS or (checked.jump > MAXIMUM_JUMP and checked.switch_mass > 0.0):
        kind, status = "heuristic", "converged, approximate: the proximal operator has several minima"
        warnings.append(
            f"{STRONG_SHARING if problem.modes.stiff else WEAK_DECAY} that the proximal operator has several minima "
            f"for {checked.switch_mass:.1%} of the samples and jumps by {checked.jump:.1%}; the numbers are approximate"
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


def reported_numbers(problem: SeveralHeads, point: HeadsPoint | HeadsSolution, train: float) -> dict[str, float]:
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


def _errors(problem: SeveralHeads, alpha: float, fine: HeadsPoint, others: tuple[HeadsPoint, ...]) -> dict[str, float]:
    """Return the error of every number: its differences to those of other rules, added in squares.

    A choice between minima that does not settle adds what it changes.
    """

    def numbers(point: HeadsPoint) -> Array:
        return np.array(list(reported_numbers(problem, point, point.train(problem, alpha)).values()))

    names = list(reported_numbers(problem, fine, 0.0))
    found = numbers(fine)
    sizes = np.abs([found[names.index(name.removesuffix("_cross"))] for name in names])  # differences of two modes
    error = np.sqrt(sum((numbers(other) - found) ** 2 for other in others)) + 10.0 * fine.residual * sizes
    if fine.unsettled is not None:
        error = error + np.abs(numbers(fine.unsettled) - found)
    errors = dict(zip(names, error.tolist(), strict=True))
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


def _sampled(problem: SeveralHeads, alpha: float, near: HeadsPoint, certificate: AimCertificate) -> HeadsSolution:
    """Return the mean over sampled maps, which replace expectation consistency where its alarm is raised (M3.2)."""
    dim = problem.input.single.target.dimension or DRAWN_DIM
    draws: list[HeadsPoint] = []
    obstacle = f"targets of dimension {dim} are too large to be sampled in its place"
    if dim <= LARGEST_DRAWN_DIM:
        obstacle = "the equations have no solution with sampled maps in its place"
        with suppress(SolveError):
            for k in range(DRAWS):
                maps = SampledHeads.of(problem.input, dim, k)
                draws.append(solve_round(problem, alpha, COARSE, near.state, maps=maps, tolerance=DRAWN_TOLERANCE))
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
