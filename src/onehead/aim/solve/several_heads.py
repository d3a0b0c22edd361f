"""Solution of the equations of several heads, its errors and its certificate (M4)."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.solve.certificate import AimCertificate, Numbers, numbers_at
from onehead.aim.theory.input.several_heads import ModeHats, ModeOverlaps, SampledHeads
from onehead.aim.theory.order_parameters import INFINITE, SpectralMap
from onehead.aim.theory.output.several_heads import ModeAverages, ModeState
from onehead.aim.theory.several_heads import SeveralHeads
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import NotConverged, OutsideDomain, SolveError
from onehead.numerics.fixed_point import fixed_point
from onehead.results import Kind

__all__ = ["HeadsSolution", "solve_several_heads"]

Array = NDArray[np.float64]

TOLERANCE = 1e-6  # residual of the logarithms of the unknowns
MAX_ROUNDS, CHOICE_TOLERANCE = (
    5,
    1e-5,
)  # rounds in which the minima of the nodes are chosen, and their effect at the end
MEMORY, DAMPING, MAX_STEP = 6, 0.6, 0.7  # of Anderson acceleration (M4)
PATH = (0.5, 0.8, 0.9)  # overlaps of the values through which strongly shared values are reached
COARSE, FINE = 0, 1  # levels of the quadrature rules; their difference is the stated error
FINEST = 3
MAXIMUM_SWITCH_MASS, MAXIMUM_JUMP, ALARM = 0.005, 0.05, 0.004  # limits of the certificate (M3.1, M4)
DRAWS, DRAWN_DIM, LARGEST_DRAWN_DIM = 2, 60, 200  # sampled maps, and their dimension
DRAWN_TOLERANCE = 2e-3  # far below the scatter of the sampled maps
ZERO_STATUS = "not emerged: S = 0 is the minimum"


class HeadsSolution(NamedTuple):
    """State, conjugate fields, spectrum of one head, training loss over d² and certificate."""

    state: ModeState
    hats: ModeHats
    overlaps: ModeOverlaps
    train: float
    certificate: AimCertificate


@dataclass(frozen=True)
class _Point:
    """A solution on one rule."""

    state: ModeState
    hats: ModeHats
    overlaps: ModeOverlaps
    averages: ModeAverages
    residual: float
    evaluations: int

    def train(self, problem: SeveralHeads, alpha: float) -> float:
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
    try:
        coarse = _reached(problem, single, alpha, near)
        fine, level = coarse, COARSE
        error = np.inf
        while level < FINEST:
            level += 1
            coarse, fine = fine, _iterate(problem, alpha, level, fine.state)
            error = abs(_test(problem, fine) - _test(problem, coarse))
            if level >= FINE and (accuracy is None or error < accuracy * _test(problem, fine)):
                break
    except OutsideDomain as failure:
        if problem.values.learnt and "zero" in str(failure):
            return _zero(problem, alpha)
        raise
    certificate = _certified(problem, alpha, coarse, fine, level)
    if accuracy is not None and error > accuracy * _test(problem, fine):
        text = f"numerical error of the test error: {error / _test(problem, fine):.1e}, relative (wanted: {accuracy:g})"
        certificate = _with_warning(certificate, text)
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
            return _iterate(problem, alpha, COARSE, near)
    state = _start(problem, single, alpha)
    sharing = problem.modes.sharing
    size = abs(sharing)
    if not problem.modes.stiff:
        try:
            return _iterate(problem, alpha, COARSE, state)
        except SolveError:
            if size <= PATH[0]:
                raise
    for overlap in PATH:
        if overlap < size:
            with suppress(SolveError):  # the path continues from the last overlap that could be solved
                state = _iterate(problem.with_sharing(np.copysign(overlap, sharing)), alpha, COARSE, state).state
    return _iterate(problem, alpha, COARSE, state)


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


def _iterate(problem: SeveralHeads, alpha: float, level: int, start: ModeState) -> _Point:
    """Iterate the equations on one rule.

    Where the proximal operator may jump, the lower minimum of every node is chosen at the start of a round and kept
    during its iterations, which makes the equations smooth; rounds end when a new choice changes nothing.
    """
    points = problem.output.points_at(level)
    if not problem.modes.stiff:
        return _round(problem, alpha, level, start, points, choose=False)
    point = _round(problem, alpha, level, start, points, choose=True)
    for _ in range(MAX_ROUNDS - 1):
        new = _round(problem, alpha, level, point.state, points, choose=True)
        Q = problem.output.label_power
        change = float(np.max(np.abs(new.state.coordinates(Q) - point.state.coordinates(Q))))
        point = replace(new, residual=max(new.residual, change), evaluations=point.evaluations + new.evaluations)
        if change < CHOICE_TOLERANCE:
            break
    return point


def _round(problem: SeveralHeads, alpha: float, level: int, start: ModeState, points: Array, *, choose: bool) -> _Point:
    """Iterate the equations on one rule; with ``choose`` the first call takes the lower of two minima at each node."""
    output, Q = problem.output, problem.output.label_power
    derivatives = not problem.modes.stiff
    last: dict[str, tuple[ModeState, ModeHats, ModeOverlaps, ModeAverages]] = {}

    def step(x: Array) -> Array:
        state = ModeState.at(x, Q)
        check = choose and not last
        averages = output.averages(state, level, derivatives=derivatives, check=check, points=points)
        hats = problem.hats(averages, alpha)
        overlaps = problem.input.overlaps(hats)
        scales = problem.scales(averages, alpha)
        last["now"] = (state, hats, overlaps, averages)
        if not (np.min(overlaps.q - overlaps.m**2 / Q) > 0.0 and np.min(overlaps.m) > 0.0):
            raise OutsideDomain("an overlap of a mode of the heads is not positive; lower sharing or raise alpha.")
        return ModeState(overlaps.q, overlaps.m, overlaps.sigma, scales).coordinates(Q)

    found = fixed_point(
        step,
        start.coordinates(Q),
        tolerance=TOLERANCE,
        damping=DAMPING,
        memory=MEMORY,
        max_step=MAX_STEP,
        limit=100.0,
        max_evaluations=150,
    )
    state, hats, overlaps, averages = last["now"]
    return _Point(state, hats, overlaps, averages, found.residual, found.evaluations)


def _certified(problem: SeveralHeads, alpha: float, coarse: _Point, fine: _Point, level: int) -> AimCertificate:
    """Return the certificate: replicon, share of nodes with several minima, jump of the proximal operator (M4)."""
    checked = problem.output.averages(fine.state, level, derivatives=True, check=True)
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
    status, warnings = "converged", []
    if checked.switch_mass > MAXIMUM_SWITCH_MASS or checked.jump > MAXIMUM_JUMP:
        kind, status = "heuristic", "converged, approximate: the proximal operator has several minima"
        warnings.append(
            f"heads share so much of their values that the proximal operator has several minima for "
            f"{checked.switch_mass:.1%} of the samples and jumps by {checked.jump:.1%}; the numbers are approximate"
        )
    if replicon is not None and replicon >= 1.0:
        kind = "heuristic"
        warnings.append("the replicon is not below one: the solution is unstable and the numbers approximate")
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


def _reported(problem: SeveralHeads, alpha: float, point: _Point, clean: float) -> dict[str, float]:
    """Return the numbers of a point that have an error, in reduced units."""
    modes, output, state = problem.modes, problem.output, point.state
    q, m = modes.own(state.q), modes.own(state.m)
    return {
        "test_error": output.fresh_error(state),
        "test_error_clean": output.fresh_error(state, clean),
        "train_loss": point.train(problem, alpha),
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
    """Return the difference of every number between two rules, the error of the coarser one."""
    clean = problem.input.single.target_power
    one, two = (_reported(problem, alpha, point, clean) for point in (coarse, fine))
    rounding = 10.0 * fine.residual
    errors = {name: abs(two[name] - one[name]) + rounding * abs(two[name]) for name in two}
    return errors | {"test_loss": errors["test_error"], "excess_error": errors["test_error"]}


def _with_warning(certificate: AimCertificate, text: str) -> AimCertificate:
    return replace(certificate, warnings=(*certificate.warnings, text))


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
    target = problem.input.single.target
    dim = target.dimension or DRAWN_DIM
    if dim > LARGEST_DRAWN_DIM:
        text = (
            f"the modes of the heads are joined by expectation consistency, which is not accurate here, and targets of "
            f"dimension {dim} are too large to be sampled in its place; overlaps between heads may be off by 20 %"
        )
        certificate = replace(_with_warning(certificate, text), kind="heuristic")
        return HeadsSolution(near.state, near.hats, near.overlaps, near.train(problem, alpha), certificate)
    draws = [_with_sampled_maps(problem, alpha, near, SampledHeads.of(problem.input, dim, k)) for k in range(DRAWS)]
    clean = problem.input.single.target_power
    rows = [_reported(problem, alpha, draw, clean) for draw in draws]
    scatter = {name: float(np.std([row[name] for row in rows], ddof=1) / np.sqrt(DRAWS)) for name in rows[0]}
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
        _with_warning(certificate, text),
        errors=errors,
        quadrature_error=errors["test_error"],
        residual=max(draw.residual for draw in draws),
        evaluations=certificate.evaluations + sum(draw.evaluations for draw in draws),
    )
    return HeadsSolution(state, hats, overlaps, float(np.mean([row["train_loss"] for row in rows])), certificate)


def _with_sampled_maps(problem: SeveralHeads, alpha: float, near: _Point, maps: SampledHeads) -> _Point:
    """Solve the equations with one sample of the maps."""
    output, Q = problem.output, problem.output.label_power
    points, derivatives = output.points_at(COARSE), not problem.modes.stiff
    last: dict[str, tuple[ModeState, ModeHats, ModeOverlaps, ModeAverages]] = {}

    def step(x: Array) -> Array:
        state = ModeState.at(x, Q)
        averages = output.averages(state, COARSE, derivatives=derivatives, points=points)
        hats = problem.hats(averages, alpha)
        overlaps = maps.at(hats)
        last["now"] = (state, hats, overlaps, averages)
        q = np.maximum(overlaps.q, overlaps.m**2 / Q * (1.0 + 1e-9))
        m, sigma = np.maximum(overlaps.m, 1e-12), np.maximum(overlaps.sigma, 1e-12)
        return ModeState(q, m, sigma, problem.scales(averages, alpha)).coordinates(Q)

    found = fixed_point(
        step, near.state.coordinates(Q), tolerance=DRAWN_TOLERANCE, damping=0.8, max_step=MAX_STEP, limit=100.0
    )
    state, hats, overlaps, averages = last["now"]
    if not np.isfinite(overlaps.q).all():
        raise NotConverged("the sampled maps did not converge; lower sharing.", residual=found.residual)
    return _Point(state, hats, overlaps, averages, found.residual, found.evaluations)
