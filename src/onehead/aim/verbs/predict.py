"""predict(): exact learning curve of a tied attention head, one point at a time."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.emergence import is_zero, plateau_state
from onehead.aim.equations.output import ProxMemory
from onehead.aim.equations.ridgeless import Interpolating, direct_threshold, interpolating, interpolation, recovery
from onehead.aim.equations.state_evolution import Hats, Overlaps, Reduced, SpectralMap, reduce
from onehead.aim.solve.solver import Solution, solve
from onehead.aim.task import Learner, Task, check_alpha
from onehead.aim.verbs.prediction import AimCertificate, Prediction
from onehead.arguments import checked, instance, optional
from onehead.errors import OutsideDomain
from onehead.results import Kind
from onehead.spectra.law import replicon_integral

__all__ = ["predict"]

VISIBLE_SWITCH = 1e-4  # below this mass the two branches agree within about 2e-4 (2.7)
INFINITE = float("inf")
FAR_FROM_GAUSSIAN = 0.5  # excess kurtosis of a logit; a single instance of a limiting law at d = 100 has about 0.2


@checked(
    task=instance(Task, "Task()"),
    learner=instance(Learner, "Learner()"),
    near=optional(instance(Prediction, "the answer of predict")),
)
def predict(task: Task, learner: Learner, alpha: float, *, near: Prediction | None = None) -> Prediction:
    """Predict errors, overlaps and spectrum of a trained head, without training it.

    Solves the state evolution of the attention-indexed model: six scalars (q, m, Σ and their hats) that describe the
    minimiser of sum_μ |softmax(β h(S)) - y|² + λ d Tr S as n = α d² and d go to infinity (2, 3, 4, 6).

    Parameters
    ----------
    task : Task
    learner : Learner
    alpha : float
        Samples per squared dimension, α = n/d².
    near : Prediction, optional
        A neighbouring solution of the same task and learner, to start from.

    Returns
    -------
    Prediction
        S = 0 ("not emerged") is an answer, not a failure.

    Raises
    ------
    SolveError
        When no solution was found to tolerance; the text says what to change.

    Examples
    --------
    >>> from onehead.aim import Learner, MarchenkoPastur, Task, predict
    >>> task = Task(target=MarchenkoPastur(kappa0=0.5), noise=0.5, tokens=2)
    >>> point = predict(task, Learner(weight_decay=0.01), alpha=0.5)
    >>> round(point.test_error, 4), round(point.rank, 3), point.status
    (0.136, 0.644, 'converged')
    """
    alpha = check_alpha(alpha)
    problem = reduce(task, learner)
    if problem.decay == 0.0:
        limit = _limit_point(problem, alpha)
        if limit is not None:
            return _finish(task, learner, problem, alpha, limit)
    elif is_zero(problem, alpha):
        return _finish(task, learner, problem, alpha, _not_emerged(problem, alpha))
    start = _state_of(problem, near) if near is not None else None
    solution = solve(problem, alpha, start)
    return _finish(task, learner, problem, alpha, _solved(problem, solution))


def _state_of(problem: Reduced, near: Prediction) -> NDArray[np.float64] | None:
    """The state of a neighbour, in reduced units, if it can be continued."""
    if not (near.q > 0.0 and near.m > 0.0 and 0.0 < near.sigma < INFINITE):
        return None
    beta, beta0 = near.learner.beta, near.task.beta0
    return np.log([near.q * beta**2, near.m * beta * beta0, near.sigma])


class _Numbers(NamedTuple):
    """What a solve gives, in reduced units."""

    overlaps: Overlaps
    hats: Hats
    train: float
    certificate: AimCertificate
    error: float = 0.0  # relative, of q
    jacobian: NDArray[np.float64] | None = None


def _solved(problem: Reduced, solution: Solution) -> _Numbers:
    """Numbers and certificate of a converged solution."""
    overlaps, hats, alpha = solution.overlaps, solution.hats, solution.alpha
    q, m, sigma = overlaps.q, overlaps.m, overlaps.sigma
    there = ProxMemory(follow=True, points=solution.memory.points)  # every prox is at its minimum already
    full = problem.output.averages(q, m, sigma, level=solution.level, detail=2, memory=there)
    penalty = problem.decay * (q if problem.direct else overlaps.tau)
    train = alpha * full.loss + penalty
    # the same by the other form (2.4): the Moreau envelope plus a combination of the six scalars, which equals half of
    # Tr S grad(penalty) at a fixed point: the penalty itself where that is linear, twice the penalty where quadratic
    moreau = full.loss + 0.5 * full.distance / sigma
    other = alpha * moreau + 0.5 * (hats.m * m - hats.sigma * q) + 0.25 * hats.q * sigma
    if problem.direct:
        other -= penalty
    switch = 0.0
    if not problem.output.convex_at(sigma):
        switch = problem.output.averages(q, m, sigma, level=0, search=True).switch_mass
    stein = problem.unit_hats(full, q, m, sigma, derivative=False).sigma
    from_trace = 2.0 * full.trace / sigma
    narrow = not problem.direct and overlaps.rank >= problem.width
    if problem.direct:
        spectral = 1.0 / (hats.sigma + 4.0 * problem.decay) ** 2
    else:
        spectral = replicon_integral(problem.law(overlaps.map.s), overlaps.map.eps) / hats.sigma**2
    replicon = None if narrow else 2.0 * alpha / sigma**2 * full.trace_square * spectral
    warnings, kind, status = [], problem.output.channel.kind, "converged"
    if switch > VISIBLE_SWITCH:
        status, kind = "converged, approximate: the two branches differ", "heuristic"
        warnings.append(
            f"for {switch:.1%} of the samples the output layer has a lower minimum than the one near the label, so the "
            "theory is approximate here; compare branch='label' with branch='global'"
        )
    if narrow:
        kind = "heuristic"
        warnings.append(
            "the learner is narrower than the rank it would choose; the theory of this case is confirmed only by "
            "simulation"
        )
    if replicon is not None and replicon >= 1.0:
        kind = "heuristic"
        warnings.append("the replicon is not below one: the solution is unstable and the numbers approximate")
    certificate = AimCertificate(
        status=status,
        kind=kind,
        residual=solution.residual,
        evaluations=solution.evaluations,
        warnings=tuple(warnings),
        train_loss_gap=abs(other - train) / abs(train),
        stein_gap=stein / from_trace - 1.0,
        switch_mass=switch,
        replicon=replicon,
        quadrature_error=_propagated(problem, solution),
    )
    return _Numbers(overlaps, hats, train, certificate, float(abs(solution.error[0])), solution.jacobian)


def _propagated(problem: Reduced, solution: Solution) -> float:
    """Quadrature error of the test error: what that of q and m causes, and that of the average over fresh samples."""
    q, m, fresh = solution.overlaps.q, solution.overlaps.m, problem.output.fresh_loss
    moved_q = q * float(np.exp(solution.error[0]))
    moved_m = min(m * float(np.exp(solution.error[1])), float(np.sqrt(moved_q * problem.target_power)))
    before, after = (fresh(*at, coarse=True, loss="squared") for at in ((q, m), (moved_q, moved_m)))
    own = fresh(q, m, loss="squared") - fresh(q, m, loss="squared", twin=True)
    return abs(after - before) + abs(own)


def _not_emerged(problem: Reduced, alpha: float) -> _Numbers:
    """S = 0: weight decay keeps the map at zero (4.6)."""
    q0, m0 = problem.output.at_origin(1)
    s, eps = q0 / (alpha * m0**2), 2.0 * problem.decay / (alpha * m0)
    overlaps = Overlaps(0.0, 0.0, 0.0, 0.0, 0.0, SpectralMap(s, eps, eps, 0.0, True))
    certificate = AimCertificate(status="not emerged: S = 0 is the minimum", kind=problem.output.channel.kind)
    train = alpha * problem.output.fresh_loss(0.0, 0.0)
    return _Numbers(overlaps, Hats(alpha * q0, alpha * m0, INFINITE), train, certificate)


def _limit_point(problem: Reduced, alpha: float) -> _Numbers | None:
    """The limit λ → 0⁺ where it needs no proximal operator: interpolation (4.1) and perfect recovery (4.4)."""
    lost = Hats(INFINITE, INFINITE, INFINITE)
    kind: Kind = problem.output.channel.kind
    floor = alpha * problem.output.fresh_loss(problem.label_power, problem.label_power)  # loss at the label
    if problem.noise == 0.0 and problem.width >= problem.target.rank and alpha >= recovery(problem):
        Q0 = problem.target_power
        where = SpectralMap(0.0, 0.0, 0.0, 1.0, not problem.direct)
        overlaps = Overlaps(Q0, Q0, 0.0, np.nan, problem.target.rank if not problem.direct else 1.0, where)
        status = "perfect recovery: S equals the target; sigma and the hats have no finite limit"
        return _Numbers(overlaps, lost, floor, AimCertificate(status=status, kind=kind))
    threshold = direct_threshold(problem) if problem.direct else interpolation(problem)[0]
    if alpha > threshold * (1.0 + 1e-12):
        return None
    status = "interpolating: every training label is fitted; sigma is infinite and the hats vanish"
    if problem.direct:
        twice, Q0, Q = 2.0 * alpha * problem.informative, problem.target_power, problem.label_power
        if twice >= 1.0:
            raise OutsideDomain(
                "at its interpolation threshold direct training has an infinite test error; move alpha."
            )
        q, m = twice * (Q - twice * Q0) / (1.0 - twice), twice * Q0
        s = (q / twice**2 - Q0) if twice > 0.0 else INFINITE
        where = SpectralMap(s, 0.0, -np.inf, twice, False)
        overlaps = Overlaps(q, m, INFINITE, np.nan, 1.0, where)
        return _Numbers(overlaps, lost, floor, AimCertificate(status=status, kind=kind))
    point = _at_threshold(problem, alpha, threshold)
    part = point.integrals
    where = SpectralMap(point.s, point.eps, part.cut, 1.0, True)
    certificate = AimCertificate(status=status, kind=kind, residual=point.residual)
    return _Numbers(Overlaps(point.q, point.m, INFINITE, part.B, part.rank, where), lost, floor, certificate)


def _at_threshold(problem: Reduced, alpha: float, threshold: float) -> Interpolating:
    """The interpolating state; at the threshold itself the one found with it."""
    state = interpolation(problem)[1]
    if state is not None and alpha > threshold * (1.0 - 1e-9):
        return state
    return interpolating(problem, alpha)


def _finish(task: Task, learner: Learner, problem: Reduced, alpha: float, numbers: _Numbers) -> Prediction:
    """Errors on fresh samples, and back to the learner's own units."""
    output = problem.output
    overlaps, hats, train, certificate, error, jacobian = numbers
    q, m = overlaps.q, overlaps.m
    test = output.fresh_loss(q, m, loss="squared")
    clean = output.fresh_loss(q, m, loss="squared", power=problem.target_power)
    same = output.channel.name == "squared"
    best = plateau_state(problem)
    Q0 = problem.target_power
    floor = best.loss if same else output.fresh_loss(best.c**2 * Q0, best.c * Q0, loss="squared")
    if not np.isfinite([test, clean, train]).all():
        raise OutsideDomain(f"the errors at alpha = {alpha:g} are not finite; change weight_decay or alpha.")
    beta, scale = learner.beta, learner.beta * task.beta0
    certificate = _with_caution(certificate, task)
    return Prediction(
        alpha=alpha,
        test_error=test,
        test_error_clean=clean,
        train_loss=train,
        rank=overlaps.rank,
        q=q / beta**2,
        m=m / scale,
        sigma=overlaps.sigma,
        q_hat=hats.q,
        m_hat=hats.m,
        sigma_hat=hats.sigma,
        certificate=replace(certificate, quadrature_error=certificate.quadrature_error or error),
        test_loss=test if same else output.fresh_loss(q, m),
        excess_error=test - floor,
        spread=overlaps.map.s,
        threshold=overlaps.map.eps,
        cut=overlaps.map.cut,
        slope=overlaps.map.slope / beta,
        thresholded=overlaps.map.thresholded,
        jacobian=tuple(map(tuple, jacobian.tolist())) if jacobian is not None else None,
        task=task,
        learner=learner,
    )


def _with_caution(certificate: AimCertificate, task: Task) -> AimCertificate:
    """Say when the target itself breaks the assumption of Gaussian logits; what remains is a conjecture."""
    kurtosis = task.target.excess_kurtosis
    if kurtosis < FAR_FROM_GAUSSIAN:
        return certificate
    caution = (
        f"a few large eigenvalues make single logits far from Gaussian (excess kurtosis {kurtosis:.2g}, at any dimension); "
        "heads trained on power laws had an excess error 6 to 36 % above the prediction, at every dimension tried"
    )
    kind: Kind = "conjecture" if certificate.kind == "claim" else certificate.kind
    return replace(certificate, kind=kind, warnings=(*certificate.warnings, caution))
