"""The numbers of a solution in reduced units and their certificate: errors, kind of truth, warnings."""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.logits.quadrature import clear_rules
from onehead.aim.solve.branches import (
    SMALL_WEIGHTS,
    TARGET,
    coarse_branches,
    is_distinct,
    is_saddle,
    may_have_several,
    unsearched,
)
from onehead.aim.solve.error_estimate import ErrorEstimate, limit_error_estimate, stated_errors, zero_map_error_estimate
from onehead.aim.solve.fixed_sample_ratio import Start
from onehead.aim.solve.near_emergence import NearEmergence, solve_near_emergence
from onehead.aim.solve.sampled import solve_sampled
from onehead.aim.solve.small_decay import numbers_near_recovery
from onehead.aim.solve.solver import FINE_ENOUGH, VISIBLE_SWITCH_MASS, Solution, solve
from onehead.aim.theory.limits.emergence import is_zero
from onehead.aim.theory.limits.separability import KNOWN
from onehead.aim.theory.order_parameters import INFINITE, Hats, Overlaps, SpectralMap
from onehead.aim.theory.output.averages import ProxCache
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import OutsideDomain, SolveError
from onehead.results import Certificate, Kind, Result

ZERO_MAP_LEVEL = 1  # quadrature level at the zero map
ACCURACY = 1e-4  # relative error of the test error that a result should have
ROUNDING = 1e-12  # absolute error of a test error that is zero
MAXIMUM_RESIDUAL = 1e-5  # of the equations, which are solved to 3e-7
MAXIMUM_STEIN_GAP = 0.03  # of the two forms of Sigmahat; the coarsest rules of sampled points leave about 0.01
MAXIMUM_TRAIN_LOSS_GAP = 1e-5  # of the two forms of the training loss, which agree to 1e-8 at a solution
BRANCH_TOLERANCE = 1e-2  # residual of solutions on the coarsest rule that only tell branches apart and are starts
COARSE_RULE = "rounding or a quadrature rule that is too coarse; the numbers may be off by more than stated"
UNSTABLE = "the replicon is not below one: the solution is unstable and the numbers approximate"
NARROW = (
    "the learner is narrower than the rank it would choose; the theory of this case is a heuristic, and its gap to "
    "training, "
    "up to 6 % of the test error and 19 % of q in what was tried, may not shrink as d grows"
)


@dataclass(frozen=True, kw_only=True)
class AimCertificate(Certificate):
    """The certificate of an AIM prediction (2.8).

    ``train_loss_gap``: relative difference of the two forms of the training loss (2.4), zero at a fixed point.
    ``stein_gap``: Stein over derivative form of Sigmahat, minus one; what the prox jumps over shows here.
    ``switch_mass``: share of samples whose proximal operator has a lower minimum than the one near the label, summed
    over the rows of a sample that share no logit.
    ``replicon``: below one the replica-symmetric solution is stable.
    """

    train_loss_gap: float = 0.0
    stein_gap: float = 0.0
    switch_mass: float = 0.0
    replicon: float | None = None


@dataclass(frozen=True, kw_only=True)
class OtherSolution(Result):
    """A local minimum of the objective that is not the lowest one.

    Attributes
    ----------
    test_error : float
        Test error, labels with noise.
    train_loss : float
        Objective over d².
    q : float
        |S|²/d in the learner's own units.
    reached_from : str
        Start from which training reaches it: "small weights" or "the target"; "another start of the solver" for
        several heads, where that is not known.
    """

    test_error: float
    train_loss: float
    q: float
    reached_from: str


class Numbers(NamedTuple):
    """Order parameters, hats, training loss, certificate and Jacobian at one sample ratio, in reduced units."""

    overlaps: Overlaps
    hats: Hats
    train: float
    certificate: AimCertificate
    jacobian: NDArray[np.float64] | None = None
    others: tuple[OtherSolution, ...] = ()


def numbers_at(
    problem: StateEvolution, alpha: float, start: Start | None = None, accuracy: float | None = None
) -> Numbers:
    """Return the numbers at one sample ratio: a limit where there is one, else a solution of the equations.

    Parameters
    ----------
    problem : StateEvolution
    alpha : float
        Sample ratio.
    start : Start, optional
        A neighbouring state.
    accuracy : float, optional
        Wanted relative error of the test error, for which finer rules are used until it is met; `ACCURACY` with the
        default rules if not given. A warning of the certificate says where it is not met.
    """
    found = _limit(problem, alpha) if problem.decay == 0.0 else None
    if found is None and problem.decay > 0.0 and is_zero(problem, alpha):
        found = _not_emerged(problem, alpha)
    if may_have_several(problem):
        found = _lowest(problem, alpha, found, start, accuracy)
    elif found is None:
        found = _solve(problem, alpha, start, accuracy)
    if problem.input.sampled_maps and found.overlaps.q > 0.0:
        return _sampled(problem, alpha, found)
    test = problem.output.fresh_loss(*found.overlaps.values, loss="squared")
    return found._replace(certificate=with_accuracy_warning(found.certificate, test, accuracy or ACCURACY))


def _sampled(problem: StateEvolution, alpha: float, near: Numbers) -> Numbers:
    """Return the means over sampled maps, which replace an approximate input channel (D8.3).

    Errors are standard errors over the maps, whose targets differ.
    """
    found = solve_sampled(problem, alpha, near.overlaps)
    warning = (
        f"{len(found.draws)} sampled maps of dimension {found.dim} replace expectation consistency; errors are "
        "standard errors over their targets, and terms of order 1/d remain"
    )
    certificate = AimCertificate(
        status="converged",
        kind="conjecture",
        residual=found.residual,
        evaluations=found.evaluations,
        errors=near.certificate.errors | found.errors(problem),
        quadrature_error=near.certificate.quadrature_error,
        warnings=(warning,),
    )
    return Numbers(found.overlaps, found.hats, found.train, certificate)


def _solve(problem: StateEvolution, alpha: float, start: Start | None, accuracy: float | None) -> Numbers:
    """Solve the equations; close to emergence and to recovery by way of an easier weight decay."""
    if problem.decay > 0.0:
        if (near := solve_near_emergence(problem, alpha)) is not None:
            return _near_emergence(problem, near)
        found = numbers_near_recovery(problem, alpha, lambda easier: _solve_directly(easier, alpha, None, accuracy))
        if found is not None:
            return found
    return _solve_directly(problem, alpha, start, accuracy)


def _solve_directly(problem: StateEvolution, alpha: float, start: Start | None, accuracy: float | None) -> Numbers:
    """Solve the equations, on rules that are fine enough for the wanted accuracy of the test error."""
    # relative errors of q and m are about half as large as that of the test error
    fine_enough = FINE_ENOUGH * ((accuracy or ACCURACY) / ACCURACY)
    try:
        return _solved(problem, solve(problem, alpha, start, fine_enough, accuracy))
    finally:
        if accuracy and problem.output.geometry.sampled:
            clear_rules()


def _near_emergence(problem: StateEvolution, near: NearEmergence) -> Numbers:
    """Return the numbers of a map that a quadrature rule cannot tell from S = 0."""
    numbers, alpha = _solved(near.problem, near.solution), near.solution.alpha
    if near.problem.decay == problem.decay:
        return numbers
    kept = numbers.train + problem.input.penalty(numbers.overlaps) - near.problem.input.penalty(numbers.overlaps)
    zero = alpha * problem.output.fresh_loss(*problem.zero.values)
    errors = numbers.certificate.errors
    errors = errors | {"train_loss": errors["train_loss"] + abs(kept - zero)}
    warning = (
        f"the map emerges within {1.0 - near.problem.decay / problem.decay:.0%} of this weight decay, which the "
        f"quadrature rule does not resolve; the errors stated include S = 0"
    )
    warnings = (*numbers.certificate.warnings, warning)
    certificate = replace(numbers.certificate, errors=errors, warnings=warnings)
    return numbers._replace(train=min(kept, zero), certificate=certificate, jacobian=None)


def _lowest(
    problem: StateEvolution, alpha: float, zero: Numbers | None, start: Start | None, accuracy: float | None
) -> Numbers:
    """Return the solution with the lowest objective among those reached from small weights and from the target (4.7).

    The others are kept with it. ``zero`` has the numbers of S = 0 where that is stable, ``start`` is a neighbour.
    """
    solutions = [] if zero is None else [(zero, SMALL_WEIGHTS)]
    failure: SolveError | None = None
    branches = coarse_branches(problem, alpha, BRANCH_TOLERANCE)
    if zero is None:
        reached = ""
        if start is None and branches:
            first = min(branches, key=lambda branch: branch.objective)
            branches = [branch for branch in branches if branch is not first]
            start, reached = Start(first.coordinates), first.reached_from
        try:
            solutions.append((_solve(problem, alpha, start, accuracy), reached))
        except SolveError as error:
            failure = error
    for branch in branches:
        at = problem.zero.at(branch.coordinates)
        same = next((k for k, (known, _) in enumerate(solutions) if not is_distinct(at, known.overlaps)), None)
        if same is not None:
            solutions[same] = solutions[same][0], solutions[same][1] or branch.reached_from
            continue
        with suppress(SolveError):
            other = _solve_directly(problem, alpha, Start(branch.coordinates), accuracy)
            if all(is_distinct(other.overlaps, known.overlaps) for known, _ in solutions):
                solutions.append((other, branch.reached_from))
    if failure is not None and not solutions:
        raise failure
    solutions.sort(key=lambda solution: solution[0].train)
    (best, reached), *others = solutions
    listed = tuple(
        _other_solution(problem, other, begun or TARGET) for other, begun in others if not is_saddle(other.jacobian)
    )
    best = best._replace(others=listed)
    texts = unsearched(problem) if best.overlaps.q == 0.0 else []
    if listed:
        ends = (f"training from {other.reached_from} ends at test error {other.test_error:.4g}" for other in listed)
        many = f"the objective has {len(listed) + 1} minima: this is the lowest, reached from {reached or TARGET}; "
        texts.append(many + "; ".join(ends))
    for text in texts:
        best = best._replace(certificate=with_warning(best.certificate, text))
    return best


def _other_solution(problem: StateEvolution, numbers: Numbers, reached_from: str) -> OtherSolution:
    """Return a solution with a higher objective, in the learner's own units."""
    test = problem.output.fresh_loss(*numbers.overlaps.values, loss="squared")
    q, _ = problem.units.own(numbers.overlaps.q, numbers.overlaps.m)
    return OtherSolution(test_error=test, train_loss=numbers.train, q=q, reached_from=reached_from)


def with_warning(certificate: AimCertificate, text: str) -> AimCertificate:
    """Return the certificate with one more warning."""
    return replace(certificate, warnings=(*certificate.warnings, text))


def with_accuracy_warning(certificate: AimCertificate, test_error: float, accuracy: float) -> AimCertificate:
    """Return the certificate, with a warning where the error of the test error is larger than wanted."""
    error = certificate.errors["test_error"]
    if error <= accuracy * test_error + ROUNDING:
        return certificate
    return with_warning(
        certificate,
        f"numerical error of the test error: {error / test_error:.1e}, relative (wanted: {accuracy:g})",
    )


def _solved(problem: StateEvolution, solution: Solution) -> Numbers:
    """Return numbers and certificate of a converged solution."""
    overlaps, hats, alpha = solution.overlaps, solution.hats, solution.alpha
    output = replace(problem.output, single_minimum=solution.single_minimum)
    state, sigma = overlaps.state, overlaps.sigma
    full = solution.cache.averages
    if not solution.cache.has_second_moments:
        at_minimum = ProxCache(track_minimum=True, points=solution.cache.points)
        full = output.averages(*state, level=solution.level, detail=2, cache=at_minimum)
    penalty = problem.input.penalty(overlaps)
    train = alpha * full.loss + penalty
    # second form of the training loss (2.4): the Moreau envelope plus a combination of the order parameters, which
    # equals half of
    # Tr S grad(penalty) at a fixed point, that is the penalty times its degree in S
    other = alpha * full.envelope(sigma) + overlaps.balance(hats) / output.geometry.unit
    other -= (problem.input.degree - 1) * penalty
    switch = 0.0 if solution.single_minimum else solution.switch_mass
    if switch is None:
        switch = output.switch_mass(*state, level=solution.level)
    stein, from_trace = (output.hats_of(full, *state, derivative=derivative).sigma for derivative in (False, True))
    spectral = problem.channel_at(overlaps).replicon(overlaps, hats)
    replicon = None
    if spectral is not None and np.isfinite(full.trace_square):
        replicon = output.geometry.unit * alpha / sigma**2 * full.trace_square * spectral
    status, kind, warnings = _judged(problem, overlaps.rank, switch, replicon)
    gap, stein_gap = abs(other - train) / abs(train), stein / from_trace - 1.0
    warnings = (*warnings, *_out_of_range(solution.residual, gap, stein_gap))
    certificate = AimCertificate(
        status=status,
        kind=kind,
        residual=solution.residual,
        evaluations=solution.evaluations,
        warnings=warnings,
        train_loss_gap=gap,
        stein_gap=stein_gap,
        switch_mass=switch,
        replicon=replicon,
    )
    certificate = _with_errors(problem, certificate, alpha, solution.error_estimate)
    return Numbers(overlaps, hats, train, certificate, solution.jacobian)


def _out_of_range(residual: float, train_loss_gap: float, stein_gap: float) -> list[str]:
    """Return a warning for every figure that is larger than at a solution."""
    warnings = []
    if not residual <= MAXIMUM_RESIDUAL:
        warnings.append(f"the residual of the equations is {residual:.1e}; the numbers may be off by more than stated")
    if not train_loss_gap <= MAXIMUM_TRAIN_LOSS_GAP:
        warnings.append(f"the two forms of the training loss differ by {train_loss_gap:.1e}, relative: {COARSE_RULE}")
    if not abs(stein_gap) <= MAXIMUM_STEIN_GAP:
        warnings.append(f"the two forms of Sigmahat differ by {abs(stein_gap):.1e}, relative: {COARSE_RULE}")
    return warnings


def _with_errors(
    problem: StateEvolution, certificate: AimCertificate, alpha: float, error_estimate: ErrorEstimate
) -> AimCertificate:
    """Return the certificate with the error of every number."""
    errors = stated_errors(problem, alpha, error_estimate)
    return replace(certificate, errors=errors, quadrature_error=errors["test_error"])


def _judged(
    problem: StateEvolution, rank: float, switch: float, replicon: float | None
) -> tuple[str, Kind, tuple[str, ...]]:
    """Return status, kind of truth and warnings of a converged solution."""
    warnings, status, kind = [], "converged", problem.output.loss.kind
    if switch > VISIBLE_SWITCH_MASS:
        status, kind = "converged, approximate: the two branches differ", "heuristic"
        # ``switch`` is summed over the rows of a sample that share no logit
        count = sum(block.multiplicity for block in problem.output.geometry.blocks)
        share = f"{switch / count:.1%}" if switch >= 5e-4 * count else "less than 0.05%"
        warnings.append(
            f"for {share} of the {'rows' if count > 1.0 else 'samples'} the output layer has a lower minimum than the "
            "one near the label, so the theory is approximate here; compare branch='label' with branch='global'"
        )
    for text in (NARROW if problem.input.rank_limited(rank) else None, problem.input.heuristic):
        if text is not None:
            kind = "heuristic"
            warnings.append(text)
    if replicon is not None and replicon >= 1.0:
        kind = "heuristic"
        warnings.append(UNSTABLE)
    return status, kind, tuple(warnings)


def _not_emerged(problem: StateEvolution, alpha: float) -> Numbers:
    """Return the numbers of S = 0, at which weight decay keeps the map (4.6)."""
    s, hats = problem.at_origin(alpha, ZERO_MAP_LEVEL)
    eps = problem.input.unit * problem.decay / hats.m - problem.channel_at(hats).spectral_shift
    overlaps = replace(problem.zero_at(hats), map=SpectralMap(s, eps, eps, 0.0))
    hats = Hats(hats.q, hats.m, INFINITE)
    certificate = AimCertificate(status="not emerged: S = 0 is the minimum", kind=problem.output.loss.kind)
    certificate = _with_errors(
        problem, certificate, alpha, zero_map_error_estimate(problem, alpha, ZERO_MAP_LEVEL, overlaps, hats)
    )
    return Numbers(overlaps, hats, alpha * problem.output.fresh_loss(*overlaps.values), certificate)


def _limit(problem: StateEvolution, alpha: float) -> Numbers | None:
    """Return the limit λ → 0⁺ where it needs no proximal operator: interpolation (4.1) and perfect recovery (4.4)."""
    if problem.output.loss.hard:
        _check_limit_of_hard_labels(problem, alpha)
        return None
    if not problem.ridgeless:
        if alpha > problem.interpolation:
            return None
        raise OutsideDomain(
            f"below alpha = {problem.interpolation:.4g} the limit λ → 0⁺ of self-attention that sees its own logit is "
            f"not known; give "
            "weight_decay a small positive number, or use attention cross or mask strict."
        )
    floor = alpha * problem.output.fresh_loss(*problem.output.label_values())
    if alpha >= problem.recovery:
        status = "perfect recovery: S equals the target; sigma and the hats have no finite limit"
        kind, warnings = _narrow(problem.output.loss.kind, narrow=problem.narrow_recovery)
        certificate = AimCertificate(status=status, kind=kind, warnings=warnings)
        return _of_limit(problem, alpha, problem.interpolating(problem.input.recovered), floor, certificate)
    threshold, state = problem.input.interpolation(problem.labels)
    if alpha > threshold * (1.0 + 1e-12):
        return None
    if state is None or alpha <= threshold * (1.0 - 1e-9):  # at the threshold itself, the state that was found with it
        state = problem.input.interpolating(problem.labels, alpha)
    status = "interpolating: every training label is fitted; sigma is infinite and the hats vanish"
    kind, warnings = _narrow(problem.output.loss.kind, narrow=problem.input.rank_limited(state.overlaps.rank))
    certificate = AimCertificate(status=status, kind=kind, residual=state.residual, warnings=warnings)
    return _of_limit(problem, alpha, problem.interpolating(state.overlaps), floor, certificate)


def _check_limit_of_hard_labels(problem: StateEvolution, alpha: float) -> None:
    """Refuse the limit λ → 0⁺ where hard labels are separable, and the map grows without bound (U7.1)."""
    known = problem.separability
    if known is None:
        raise OutsideDomain(
            f"the limit λ → 0⁺ of hard labels is computed only for {KNOWN}; give weight_decay a small positive number."
        )
    if alpha <= known[0]:
        raise OutsideDomain(
            f"at alpha = {alpha:.4g} the hard labels are separable, as they are up to {known[0]:.4g}: as λ → 0⁺ the "
            f"map grows without "
            "bound; give weight_decay a positive number."
        )


def _of_limit(
    problem: StateEvolution, alpha: float, overlaps: Overlaps, train: float, certificate: AimCertificate
) -> Numbers:
    """Return the numbers of a limit in which the hats diverge, with their errors."""
    infinite = Hats(INFINITE, INFINITE, INFINITE)
    error_estimate = limit_error_estimate(overlaps, infinite, certificate.residual)
    return Numbers(overlaps, infinite, train, _with_errors(problem, certificate, alpha, error_estimate))


def _narrow(kind: Kind, *, narrow: bool) -> tuple[Kind, tuple[str, ...]]:
    """Return kind of truth and warning of a map that the width of the learner limits (3)."""
    return ("heuristic", (NARROW,)) if narrow else (kind, ())
