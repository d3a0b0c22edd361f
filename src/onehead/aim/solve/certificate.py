"""The numbers of a solution in reduced units, and how far they can be trusted."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.averages import ProxMemory
from onehead.aim.equations.emergence import is_zero
from onehead.aim.equations.leading import kurtosis_left, leading_count
from onehead.aim.equations.nodes import forget_rules
from onehead.aim.equations.separability import KNOWN
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import INFINITE, AnyHats, AnyOverlaps, Hats, SpectralMap
from onehead.aim.solve.doubt import Doubt, doubt_of_limit, doubt_of_zero, stated_errors
from onehead.aim.solve.iterate import Start
from onehead.aim.solve.solver import FINE_ENOUGH, VISIBLE_SWITCH, Solution, solve
from onehead.aim.task import Learner, Task
from onehead.errors import OutsideDomain
from onehead.results import Certificate, Kind

__all__ = ["ACCURACY", "NARROW", "AimCertificate", "Numbers", "numbers_at", "with_caution"]

ORIGIN = 1  # level of the rule at the zero map
ACCURACY = 1e-4  # relative error of the test error that an answer should have
ROUNDING = 1e-12  # of a test error that is zero
FAR_FROM_GAUSSIAN = 0.5  # excess kurtosis of a logit; a single instance of a limiting law at d = 100 has about 0.2
MANY_TOKENS, VISIBLE_SHARE = 16, 0.05  # tokens, and tokens over dimension, from which on that is said
NARROW = (
    "the learner is narrower than the rank it would choose; the theory of this case is a heuristic, and its gap to training, "
    "up to 6 % of the test error and 19 % of q in what was tried, may not shrink as d grows"
)


@dataclass(frozen=True, kw_only=True)
class AimCertificate(Certificate):
    """The certificate of an AIM prediction (2.8).

    ``train_loss_gap``: relative difference of the two forms of the training loss (2.4), zero at a fixed point.
    ``stein_gap``: Stein over derivative form of Sigmahat, minus one; what the prox jumps over shows here.
    ``switch_mass``: share of samples whose proximal operator has a lower minimum than the one near the label.
    ``replicon``: below one the replica-symmetric solution is stable.
    """

    train_loss_gap: float = 0.0
    stein_gap: float = 0.0
    switch_mass: float = 0.0
    replicon: float | None = None


class Numbers(NamedTuple):
    """What a sample ratio gives, in reduced units."""

    overlaps: AnyOverlaps
    hats: AnyHats
    train: float
    certificate: AimCertificate
    jacobian: NDArray[np.float64] | None = None


def numbers_at(
    problem: StateEvolution, alpha: float, start: Start | None = None, accuracy: float | None = None
) -> Numbers:
    """The numbers at one sample ratio: a limit where there is one, else a solve, from a neighbouring state if one is given.

    ``accuracy`` is the relative error that the test error should have, `ACCURACY` if nobody asks; a warning says where it is not
    reached. Whoever asks gets as many sampled points as it takes.
    """
    if problem.decay == 0.0:
        found = _limit(problem, alpha)
    else:
        found = _not_emerged(problem, alpha) if is_zero(problem, alpha) else None
    if found is None:  # errors of q and m are about half as large as that of the test error
        try:
            fine_enough = FINE_ENOUGH * ((accuracy or ACCURACY) / ACCURACY)
            found = _solved(problem, solve(problem, alpha, start, fine_enough, accuracy))
        finally:
            if accuracy and problem.output.geometry.sampled:
                forget_rules()
    return found._replace(certificate=_held(problem, found, accuracy or ACCURACY))


def _held(problem: StateEvolution, found: Numbers, accuracy: float) -> AimCertificate:
    """The certificate, with a warning where the error of the test error is larger than it should be."""
    test = problem.output.fresh_loss(*found.overlaps.pair, loss="squared")
    certificate, error = found.certificate, found.certificate.errors["test_error"]
    if error <= accuracy * test + ROUNDING:
        return certificate
    told = f"the test error is good to {error / test:.1e}, relative, not to {accuracy:g}"
    return replace(certificate, warnings=(*certificate.warnings, told))


def _solved(problem: StateEvolution, solution: Solution) -> Numbers:
    """Numbers and certificate of a converged solution."""
    overlaps, hats, alpha = solution.overlaps, solution.hats, solution.alpha
    output = replace(problem.output, steady=solution.steady)
    state, sigma = overlaps.state, overlaps.sigma
    there = ProxMemory(follow=True, points=solution.memory.points)  # every prox is at its minimum already
    full = solution.memory.averages
    if not solution.memory.whole:
        full = output.averages(*state, level=solution.level, detail=2, memory=there)
    penalty = problem.input.penalty(overlaps)
    train = alpha * full.loss + penalty
    # the same by the other form (2.4): the Moreau envelope plus a combination of the six scalars, which equals half of
    # Tr S grad(penalty) at a fixed point: the penalty times its degree in S
    other = alpha * full.envelope(sigma) + overlaps.balance(hats) / output.geometry.unit
    other -= (problem.input.degree - 1) * penalty
    switch = 0.0 if solution.steady else solution.switch_mass
    if switch is None:
        switch = output.switch_mass(*state, level=solution.level)
    stein, from_trace = (output.hats_of(full, *state, derivative=derivative).sigma for derivative in (False, True))
    spectral = problem.channel_at(overlaps).replicon(overlaps, hats)
    replicon = None
    if spectral is not None:
        replicon = output.geometry.unit * alpha / sigma**2 * full.trace_square * spectral
    status, kind, warnings = _judged(problem, overlaps.rank, switch, replicon)
    certificate = AimCertificate(
        status=status,
        kind=kind,
        residual=solution.residual,
        evaluations=solution.evaluations,
        warnings=warnings,
        train_loss_gap=abs(other - train) / abs(train),
        stein_gap=stein / from_trace - 1.0,
        switch_mass=switch,
        replicon=replicon,
    )
    certificate = _with_errors(problem, certificate, alpha, solution.doubt)
    return Numbers(overlaps, hats, train, certificate, solution.jacobian)


def _with_errors(problem: StateEvolution, certificate: AimCertificate, alpha: float, doubt: Doubt) -> AimCertificate:
    """The error of every number."""
    errors = stated_errors(problem, alpha, doubt)
    return replace(certificate, errors=errors, quadrature_error=errors["test_error"])


def _judged(
    problem: StateEvolution, rank: float, switch: float, replicon: float | None
) -> tuple[str, Kind, tuple[str, ...]]:
    """Status, kind of truth and warnings of a converged solution."""
    warnings, status, kind = [], "converged", problem.output.loss.kind
    if switch > VISIBLE_SWITCH:
        status, kind = "converged, approximate: the two branches differ", "heuristic"
        warnings.append(
            f"for {switch:.1%} of the samples the output layer has a lower minimum than the one near the label, so the "
            "theory is approximate here; compare branch='label' with branch='global'"
        )
    for text in (NARROW if problem.input.narrow(rank) else None, problem.input.heuristic):
        if text is not None:
            kind = "heuristic"
            warnings.append(text)
    if replicon is not None and replicon >= 1.0:
        kind = "heuristic"
        warnings.append("the replicon is not below one: the solution is unstable and the numbers approximate")
    return status, kind, tuple(warnings)


def _not_emerged(problem: StateEvolution, alpha: float) -> Numbers:
    """S = 0: weight decay keeps the map at zero (4.6)."""
    s, hats = problem.at_origin(alpha, ORIGIN)
    eps = problem.input.unit * problem.decay / hats.m - problem.channel_at(hats).lift
    overlaps = problem.zero_at(hats)._replace(map=SpectralMap(s, eps, eps, 0.0))
    hats = Hats(hats.q, hats.m, INFINITE)
    certificate = AimCertificate(status="not emerged: S = 0 is the minimum", kind=problem.output.loss.kind)
    certificate = _with_errors(problem, certificate, alpha, doubt_of_zero(problem, alpha, ORIGIN, overlaps, hats))
    return Numbers(overlaps, hats, alpha * problem.output.fresh_loss(*overlaps.pair), certificate)


def _limit(problem: StateEvolution, alpha: float) -> Numbers | None:
    """The limit λ → 0⁺ where it needs no proximal operator: interpolation (4.1) and perfect recovery (4.4)."""
    if problem.output.loss.hard:
        _check_limit_of_hard_labels(problem, alpha)
        return None
    if not problem.ridgeless:
        if alpha > problem.interpolation:
            return None
        raise OutsideDomain(
            f"below alpha = {problem.interpolation:.4g} the limit λ → 0⁺ of self-attention that sees its own logit is not known; give "
            "weight_decay a small positive number, or use attention cross or mask strict."
        )
    floor = alpha * problem.output.fresh_loss(*problem.output.label)
    if alpha >= problem.recovery:
        status = "perfect recovery: S equals the target; sigma and the hats have no finite limit"
        kind, warnings = _narrow(problem.output.loss.kind, narrow=problem.narrow_recovery)
        certificate = AimCertificate(status=status, kind=kind, warnings=warnings)
        return _of_limit(problem, alpha, problem.limit(problem.input.recovered), floor, certificate)
    threshold, state = problem.input.interpolation(problem.labels)
    if alpha > threshold * (1.0 + 1e-12):
        return None
    if state is None or alpha <= threshold * (1.0 - 1e-9):  # at the threshold itself, the state that was found with it
        state = problem.input.interpolating(problem.labels, alpha)
    status = "interpolating: every training label is fitted; sigma is infinite and the hats vanish"
    kind, warnings = _narrow(problem.output.loss.kind, narrow=problem.input.narrow(state.overlaps.rank))
    certificate = AimCertificate(status=status, kind=kind, residual=state.residual, warnings=warnings)
    return _of_limit(problem, alpha, problem.limit(state.overlaps), floor, certificate)


def _check_limit_of_hard_labels(problem: StateEvolution, alpha: float) -> None:
    """Where hard labels are separable the map grows without bound as λ → 0⁺ (U7.1); beyond, it is solved for."""
    known = problem.separability
    if known is None:
        raise OutsideDomain(
            f"the limit λ → 0⁺ of hard labels is known for {KNOWN}, alone; give weight_decay a small positive number."
        )
    if alpha <= known[0]:
        raise OutsideDomain(
            f"at alpha = {alpha:.4g} the hard labels are separable, as they are up to {known[0]:.4g}: as λ → 0⁺ the map grows without "
            "bound; give weight_decay a positive number."
        )


def _of_limit(
    problem: StateEvolution, alpha: float, overlaps: AnyOverlaps, train: float, certificate: AimCertificate
) -> Numbers:
    """Numbers of a limit in which the hats have none, with their errors."""
    lost = Hats(INFINITE, INFINITE, INFINITE)
    doubt = doubt_of_limit(overlaps, lost, certificate.residual)
    return Numbers(overlaps, lost, train, _with_errors(problem, certificate, alpha, doubt))


def _narrow(kind: Kind, *, narrow: bool) -> tuple[Kind, tuple[str, ...]]:
    """Kind of truth and warning of a map that the width of the learner limits (3)."""
    return ("heuristic", (NARROW,)) if narrow else (kind, ())


def with_caution(certificate: AimCertificate, task: Task, leading: int = 0) -> AimCertificate:
    """Say when the target itself breaks an assumption: many tokens beside its dimension, or logits that are not Gaussian."""
    return _with_kurtosis(_with_length(certificate, task), task, leading)


def _with_length(certificate: AimCertificate, task: Task) -> AimCertificate:
    """Soft labels of many tokens: so few samples of T tokens each that these are not all independent directions (L5)."""
    share = task.tokens / getattr(task.target, "dim", np.inf)
    if task.labels == "hard" or task.tokens < MANY_TOKENS or share < VISIBLE_SHARE:
        return certificate
    caution = (
        f"the theory needs far fewer tokens than dimensions: at T/d = {share:.2g} expect trained heads to have a q lower by about "
        f"{0.14 * share:.2g} (0.14 T/d was measured with cross-entropy)"
    )
    return replace(certificate, warnings=(*certificate.warnings, caution))


def _with_kurtosis(certificate: AimCertificate, task: Task, leading: int) -> AimCertificate:
    """Say when the target breaks the assumption of Gaussian logits beyond its leading directions; what remains is a conjecture.

    So is what leading directions, or tokens of another kurtosis, make of the claims of the paper: derived, and held against training.
    """
    kurtosis = kurtosis_left(task, leading)
    kind: Kind = "conjecture" if certificate.kind == "claim" else certificate.kind
    if kurtosis < FAR_FROM_GAUSSIAN:
        return replace(certificate, kind=kind) if leading or task.sees_kurtosis else certificate
    more = leading_count(task, Learner()) > leading
    advice = (
        f"leading auto averages the largest directions exactly, which training agrees with, and this has {leading}"
        if more
        else "heads trained on power laws had an excess error 6 to 36 % above the prediction, at every dimension tried"
    )
    caution = f"a few large {task.value}s make single logits far from Gaussian (excess kurtosis {kurtosis:.2g}, at any dimension); {advice}"
    return replace(certificate, kind=kind, warnings=(*certificate.warnings, caution))
