"""predict(): errors, order parameters and spectrum of a trained head at one sample ratio."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from onehead.aim.flat_parameters import validate_problem
from onehead.aim.solve.assumptions import with_caution
from onehead.aim.solve.certificate import AimCertificate, Numbers, OtherSolution, numbers_at
from onehead.aim.solve.fixed_sample_ratio import Start
from onehead.aim.solve.strategy import project
from onehead.aim.task import Learner, Task, check_alpha
from onehead.aim.theory.build import build_state_evolution, heads_are_coupled
from onehead.aim.theory.directions import Direction
from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.limits.infinite_data import plateau_of
from onehead.aim.theory.order_parameters import INFINITE, Hats, Overlaps
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import OutsideDomain, SolveError
from onehead.results import Result, wrap_sentences
from onehead.validation import instance, number, optional

# Largest change of log q, log m or log Σ in the Newton step from a neighbouring solution.
MAX_LOG_STEP_FINE = 0.3  # up to which the solve starts on the fine quadrature rule
MAX_LOG_STEP = 2.0  # beyond which the step is not used and the solve starts from the neighbour itself


@dataclass(frozen=True, kw_only=True)
class Prediction(Result):
    """What the theory predicts for one task, learner and sample ratio.

    The eigenvalues of S, for an untied head its singular values, are slope (x - threshold) for x > cut and zero below,
    with x sampled from the target spectrum blurred by a semicircle of variance ``spread``. In leading directions x
    comes from the effective eigenvalue; for tokens of another kurtosis the threshold is lowered by the excess of the
    effective trace. For self-attention that sees its own logit, q, m and Σ are means over two ``sectors``.

    Attributes
    ----------
    alpha : float
        Sample ratio α = n/d².
    test_error : float
        Mean squared error |softmax(β h(S)) - y|² on a fresh sample, labels with noise.
    test_error_clean : float
        Mean squared error on a fresh sample, labels without noise.
    train_loss : float
        Minimum of the training objective over d², penalty included.
    rank : float
        Share of eigenvalues (singular values) of S that are not zero.
    q : float
        Size of the map, |S|²/d, in the learner's units.
    m : float
        Overlap with the target, Tr S'S*/d, in the learner's units.
    sigma : float
        Susceptibility Σ, in reduced units: how far a training sample pulls its own logits.
    q_hat, m_hat, sigma_hat : float
        Conjugate fields, in reduced units.
    certificate : AimCertificate
        Status, kind of truth, residual, numerical errors and warnings.
    test_loss : float
        The learner's own loss on a fresh sample.
    test_cross_entropy : float
        Cross-entropy on a fresh sample, in nats.
    zero_one_error : float or None
        Share of rows whose most attended token is not the label; None for soft labels.
    excess_error : float
        Test error minus its limit for infinitely many samples.
    spread : float
        Variance s = q_hat/m_hat² of the semicircle that blurs the target spectrum.
    threshold : float
        Soft threshold ε = 2λ/m_hat of the spectrum.
    cut : float
        Value of x below which eigenvalues of S are zero; minus infinity where none is.
    slope : float
        Shrinkage factor c = m_hat/sigma_hat, in the learner's units.
    sectors : dict or None
        q, m and Σ of the symmetric and of the antisymmetric part of the map, where the head has two sectors.
    directions : tuple of Direction
        Leading directions of the target that were averaged exactly.
    other_solutions : tuple of OtherSolution
        Local minima of the objective above this one, where the loss is not convex; empty if there is one minimum. For
        several heads, where the solution is unstable, another solution of the equations.
    unasked_scale : float
        c, the size of the logits that all queries share relative to the target's; zero where the target has none.
    unasked_share : float
        Share of these logits in the variance of the head's logits within a row.
    effective_dim : float or None
        Participation ratio of the eigenvalues of the tokens' covariance; None where it has no dimension.
    q_cross, m_cross, sigma_cross : float or None
        Overlaps S_h'S_k/d, S_h'S*_k/d and susceptibility between two different heads; None for one head. q, m and Σ
        are then those of one head, errors and training loss those of the whole output.
    head_error : float or None
        Squared error of the attention of one head by itself; None for one head.
    value_scale : tuple of float or None
        Scales of the values relative to the target's: of the mean of the heads and of their differences; None for one
        head with fixed values.
    jacobian : tuple of tuples or None
        Jacobian of the state evolution in the logarithms of its unknowns; None for limits that need no solve.
    task, learner : Task, Learner
        The problem.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("jacobian",)
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("alpha", "test_error", "train_loss", "rank")
    MEANINGS: ClassVar[dict[str, str]] = {
        "test_error": "on fresh samples, labels with noise",
        "test_error_clean": "on fresh samples, labels without noise",
        "test_cross_entropy": "on fresh samples, in nats",
        "excess_error": "above the limit of infinitely many samples",
        "train_loss": "objective over d² at the minimum, penalty included",
        "rank": "share of eigenvalues, or singular values, of S that are not zero",
        "q": "|S|²/d, size of the map",
        "m": "Tr S'S*/d, overlap with the target",
        "sigma": "Σ, how far a training sample pulls its own logits",
        "unasked_scale": "size of the logits that all queries share, over the target's",
        "unasked_share": "their share in the variance of the head's logits within a row",
    }
    _RARE: ClassVar[tuple[str, ...]] = ("unasked_scale", "unasked_share")

    alpha: float
    test_error: float
    test_error_clean: float
    train_loss: float
    rank: float
    q: float
    m: float
    sigma: float
    q_hat: float
    m_hat: float
    sigma_hat: float
    certificate: AimCertificate
    test_loss: float
    test_cross_entropy: float
    zero_one_error: float | None
    excess_error: float
    spread: float
    threshold: float
    cut: float
    slope: float
    sectors: dict[str, tuple[float, ...]] | None
    directions: tuple[Direction, ...] = ()
    other_solutions: tuple[OtherSolution, ...]
    unasked_scale: float = 0.0
    unasked_share: float = 0.0
    effective_dim: float | None
    q_cross: float | None = None
    m_cross: float | None = None
    sigma_cross: float | None = None
    head_error: float | None = None
    value_scale: tuple[float, float] | None = None
    jacobian: tuple[tuple[float, ...], ...] | None
    task: Task
    learner: Learner

    @property
    def equations(self) -> StateEvolution:
        """State evolution that this prediction solves."""
        return build_state_evolution(self.task, self.learner)

    @property
    def channel(self) -> InputChannel:
        """Input channel at the solution; with leading directions it has their effective eigenvalues (P4)."""
        problem = self.equations
        return problem.channel_at(hats_of(problem, self))

    def sensitivity(self, parameter: str) -> dict[str, float]:
        """Return the derivative of every number with respect to one parameter, at fixed values of the others.

        The linear system of the solve gives the derivatives of q, m and Σ; all other numbers follow from these. Heads
        with two sectors or explicit directions, and limits, are solved again at two neighbouring values instead.

        Parameters
        ----------
        parameter : str
            A continuous parameter that this task and learner have: alpha, weight_decay, noise, beta, beta0, kappa0 or
            gamma of the target, width, kurtosis, unasked, fluctuation, sharing or value_decay. Its value must not be
            zero, nor at a bound.

        Returns
        -------
        dict
            Derivatives by the name of the number.

        Raises
        ------
        InvalidArgument
            If the parameter is not one of these, is zero, or is at a bound.

        Examples
        --------
        >>> from onehead.aim import Learner, Task, predict
        >>> slopes = predict(Task(), Learner(weight_decay=0.01), alpha=0.5).sensitivity("weight_decay")
        >>> round(slopes["test_error"], 2), round(slopes["rank"], 2)
        (-1.26, -2.48)
        """
        from onehead.aim.verbs.sensitivity import sensitivity

        return sensitivity(self, parameter)

    def explain(self) -> str:
        """Explain in sentences what the numbers mean for this head.

        Examples
        --------
        >>> from onehead.aim import Learner, Task, predict
        >>> print(predict(Task(), Learner(), alpha=0.5).explain().splitlines()[0])
        With n = 0.5 d² samples (alpha = 0.5) the error on a fresh sample is 0.136;
        """
        from onehead.aim.verbs.explanation import explain_prediction

        return wrap_sentences([*explain_prediction(self), *self._closing()])


@validate_problem(
    near=optional(instance(Prediction, "a result of predict")),
    accuracy=optional(number(above=0.0)),
)
def predict(
    task: Task, learner: Learner, alpha: float, *, near: Prediction | None = None, accuracy: float | None = None
) -> Prediction:
    """Predict errors, overlaps and spectrum of a trained head, without training it.

    Solves the state evolution of the attention-indexed model: six scalars (q, m, Σ and their conjugate fields) that
    describe the minimiser of sum_μ |softmax(β h(S)) - y|² + λ d Tr S as n = α d² and d go to infinity (2, 3, 4, 6).

    Parameters
    ----------
    task : Task
        What is learned: target, noise, tokens, kind of attention.
    learner : Learner
        The head that learns it: weight decay, width, loss.
    alpha : float
        Sample ratio α = n/d².
    near : Prediction, optional
        Solution at a neighbouring sample ratio or weight decay, to start from.
    accuracy : float, optional
        Wanted relative error of the test error. Finer quadrature rules are used until it is met, else a warning says
        what was reached. If not given, it is 1e-4 with at most the default number of sampled points.

    Returns
    -------
    Prediction
        The zero map S = 0 (status "not emerged") is a valid prediction, not a failure.

    Raises
    ------
    InvalidArgument
        If an argument is not allowed, or the theory does not cover this combination of task and learner.
    SolveError
        If no solution was found to tolerance; the message says what to change.

    Examples
    --------
    >>> from onehead.aim import Learner, MarchenkoPastur, Task, predict
    >>> task = Task(target=MarchenkoPastur(kappa0=0.5), noise=0.5, tokens=2)
    >>> point = predict(task, Learner(weight_decay=0.01), alpha=0.5)
    >>> round(point.test_error, 4), round(point.rank, 3), point.status
    (0.136, 0.644, 'converged')
    """
    alpha = check_alpha(alpha)
    if task.heads > 1 or heads_are_coupled(task, learner):
        from onehead.aim.verbs.several_heads import predict_several_heads

        return predict_several_heads(task, learner, alpha, near, accuracy)
    return predict_one_head(task, learner, alpha, near, accuracy)


def predict_one_head(
    task: Task, learner: Learner, alpha: float, near: Prediction | None, accuracy: float | None
) -> Prediction:
    """Predict one head; the arguments are those of `predict`."""
    problem = build_state_evolution(task, learner)
    start = _start(problem, near, task, learner, alpha) if near is not None else None
    return finish_prediction(task, learner, problem, alpha, numbers_at(problem, alpha, start, accuracy))


def _start(problem: StateEvolution, near: Prediction, task: Task, learner: Learner, alpha: float) -> Start | None:
    """Start from a neighbouring solution by a Newton step with its Jacobian, to this α and weight decay.

    The conjugate fields are proportional to α, so that only the input channel is evaluated and no average is needed.
    """
    overlaps = overlaps_of(problem, near)
    if overlaps is None:
        return None
    state = overlaps.coordinates
    same = near.task == task and near.learner.changed(weight_decay=learner.weight_decay) == learner
    if not same or near.jacobian is None or problem.directions.sampled:
        return Start(state)
    jacobian = np.asarray(near.jacobian)
    hats = hats_of(problem, near).times(alpha / near.alpha)
    try:
        step = np.linalg.solve(np.eye(len(jacobian)) - jacobian, problem.overlaps_of(hats).coordinates - state)
    except (SolveError, np.linalg.LinAlgError):  # the map is zero at these conjugate fields
        return Start(state)
    size = float(np.max(np.abs(step)))
    if not size < MAX_LOG_STEP:
        return Start(state)
    return Start(project(problem, state + step), jacobian if size < MAX_LOG_STEP_FINE else None)


def hats_of(problem: StateEvolution, point: Prediction) -> Hats:
    """Return the hats of a point, in reduced units."""
    if problem.directions.separate_power:  # those of a field of its own sector have the field that they give
        field = problem.directions.learned_of(point, problem.units)
        return Hats(point.q_hat, point.m_hat, point.sigma_hat, field or ())
    effective = tuple(direction.effective for direction in point.directions)
    return problem.hats(point.q_hat, point.m_hat, point.sigma_hat, effective)


def overlaps_of(problem: StateEvolution, point: Prediction) -> Overlaps | None:
    """Return the order parameters of a point as a state of ``problem``; None if it has none to start from.

    The point must have the same number of sectors and of explicit directions.
    """
    if not (point.q > 0.0 and point.m > 0.0 and 0.0 < point.sigma < INFINITE):
        return None
    units, known = problem.units, problem.directions
    learned = known.learned_of(point, units)
    if learned is None or (problem.sectors == 2) != (point.sectors is not None):
        return None
    sectors = point.sectors or {"q": (point.q,), "m": (point.m,), "sigma": (point.sigma,)}
    q, m = zip(*(units.reduced(q, m) for q, m in zip(sectors["q"], sectors["m"], strict=True)), strict=True)
    inside = np.zeros(known.count) if known.separate else np.array(learned)
    return replace(
        problem.zero,
        q_sectors=tuple(one - float(inside @ inside) for one in q),
        m_sectors=tuple(one - float(inside @ np.array(known.target_eigenvalues)) for one in m),
        sigma_sectors=sectors["sigma"],
        learned=learned,
        effective=hats_of(problem, point).effective,
    )


def _sectors(problem: StateEvolution, overlaps: Overlaps) -> dict[str, tuple[float, ...]] | None:
    """Return q, m and Sigma of both sectors in the learner's own units, where there are two."""
    if problem.sectors == 1:
        return None
    values = [problem.units.own(q, m) for q, m in overlaps.sectors[:2].T.tolist()]
    return {"q": tuple(q for q, _ in values), "m": tuple(m for _, m in values), "sigma": overlaps.sigmas}


def finish_prediction(
    task: Task, learner: Learner, problem: StateEvolution, alpha: float, numbers: Numbers
) -> Prediction:
    """Assemble the prediction: errors on fresh samples, and overlaps in the learner's units."""
    output, (overlaps, hats, train, certificate, jacobian, _) = problem.output, numbers
    values, spectral_map = overlaps.values, overlaps.map
    test = output.fresh_loss(*values, loss="squared")
    clean = output.fresh_loss(*values, loss="squared", power=problem.clean_power)
    if not np.isfinite([test, clean, train]).all():
        raise OutsideDomain(f"the errors at alpha = {alpha:g} are not finite; change weight_decay or alpha.")
    own_q, own_m = problem.units.own(overlaps.q, overlaps.m)
    return Prediction(
        alpha=alpha,
        test_error=test,
        test_error_clean=clean,
        train_loss=train,
        rank=overlaps.rank,
        q=own_q,
        m=own_m,
        sigma=overlaps.sigma,
        q_hat=hats.q,
        m_hat=hats.m,
        sigma_hat=hats.sigma,
        certificate=with_caution(certificate, task, problem.directions.count if problem.directions.sampled else 0),
        test_loss=test if output.loss.is_test_error else output.fresh_loss(*values),
        test_cross_entropy=output.fresh_loss(*values, loss="cross-entropy"),
        zero_one_error=output.zero_one(*values) if output.loss.hard else None,
        excess_error=test - plateau_of(problem).test_error,
        spread=spectral_map.s,
        threshold=spectral_map.eps,
        cut=spectral_map.cut,
        slope=spectral_map.slope / learner.beta,
        sectors=_sectors(problem, overlaps),
        other_solutions=numbers.others,
        **problem.directions.reported(overlaps, problem.units),
        effective_dim=None if task.isotropic else task.effective_dim,
        jacobian=tuple(map(tuple, jacobian.tolist())) if jacobian is not None and problem.sectors == 1 else None,
        task=task,
        learner=learner,
    )
