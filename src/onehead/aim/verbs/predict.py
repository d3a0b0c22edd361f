"""predict(): exact learning curve of an attention head, one point at a time."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.head import equations_of
from onehead.aim.equations.input import InputChannel
from onehead.aim.equations.leading_evolution import LeadingEvolution
from onehead.aim.equations.plateau import plateau_of
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import INFINITE, AnyOverlaps, LeadingOverlaps, SectorOverlaps
from onehead.aim.solve.certificate import AimCertificate, Numbers, numbers_at, with_caution
from onehead.aim.solve.iterate import Start
from onehead.aim.task import Learner, Task, check_alpha
from onehead.aim.verbs.bayes import beside
from onehead.aim.words import posed
from onehead.arguments import instance, number, optional
from onehead.errors import OutsideDomain, SolveError
from onehead.results import Result, in_lines

__all__ = ["Direction", "Prediction", "overlaps_of", "predict"]

# of a Newton step of log q, log m or log Sigma: what is nearer needs no coarse rule, what is further away is solved from the state as it is
NEAR, FAR = 0.3, 2.0


@dataclass(frozen=True, kw_only=True)
class Direction(Result):
    """A leading direction of the target, averaged exactly (P3, P4), or the identity, where tokens have another kurtosis (P11).

    ``target`` is its eigenvalue there, ``effective`` the one that training sees, and ``learned`` the element of S in it; of the
    identity these are traces over d.
    """

    target: float
    effective: float
    learned: float


@dataclass(frozen=True, kw_only=True)
class Prediction(Result):
    """What the theory predicts for one task, learner and sample ratio.

    ``q`` = |S|²/d and ``m`` = Tr S'S*/d belong to the learner's own map S; ``sigma`` (Σ) and the hats are in
    reduced units. The eigenvalues of S, of an untied head its singular values, are slope (x - threshold) with x drawn from the
    target spectrum blurred by a semicircle of variance ``spread``, for x > ``cut``, and zero below. ``zero_one_error`` is the share of
    rows whose most attended token is not the label, where labels are hard. ``directions`` are the leading ones of the target that are
    averaged exactly; in them x is drawn from their effective eigenvalues, blurred like all others. On tokens of another kurtosis it is
    the identity, and the threshold is less by what its effective trace exceeds that of the target. Of self-attention that sees its own logit q, m and Σ are
    means of two ``sectors``, the symmetric and the antisymmetric part of the map.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("jacobian",)
    _SHOWN: ClassVar[tuple[str, ...]] = ("alpha", "test_error", "train_loss", "rank")
    MEANINGS: ClassVar[dict[str, str]] = {
        "test_error": "on fresh samples, labels with noise",
        "test_error_clean": "on fresh samples, labels without noise",
        "test_cross_entropy": "on fresh samples, in nats",
        "excess_error": "above the limit of infinitely many samples",
        "train_loss": "objective over d² at the minimum, penalty included",
        "rank": "share of eigenvalues, or singular values, of S that are not zero",
        "q": "|S|²/d, size of the map",
        "m": "Tr S'S*/d, overlap with the target",
        "sigma": "Σ, reaction of the logits to one sample",
    }

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
    sectors: dict[str, tuple[float, ...]] | None  # q, m and sigma of the symmetric and of the antisymmetric part
    directions: tuple[Direction, ...]
    jacobian: (
        tuple[tuple[float, ...], ...] | None
    )  # F' in the numbers that are solved for; none where a limit needs no solve
    task: Task
    learner: Learner

    @property
    def equations(self) -> StateEvolution:
        """The equations that it solves."""
        return equations_of(self.task, self.learner)

    @property
    def channel(self) -> InputChannel:
        """The input channel that it ends in: that of effective eigenvalues in leading directions (P4)."""
        problem = self.equations
        return problem.channel_at(overlaps_of(self)) if self.directions else problem.input

    def explain(self) -> str:
        """Say in words what the numbers mean for this head.

        Examples
        --------
        >>> from onehead.aim import Learner, Task, predict
        >>> print(predict(Task(), Learner(), alpha=0.5).explain().splitlines()[0])
        With n = 0.5 d² samples (alpha = 0.5) the error on a fresh sample is 0.136;
        """
        target_power, value = self.task.target.second_moment, self.task.value
        cosine = self.m / (self.q * target_power) ** 0.5 if self.q > 0.0 else 0.0
        obstacle = self.equations.input.obstacle
        lines = [
            f"With n = {self.alpha:g} d² samples (alpha = {self.alpha:g}) the error on a fresh sample is "
            f"{self.test_error:.3g}; infinitely many would give {self.test_error - self.excess_error:.3g}"
            + (f", not less, because {obstacle}." if obstacle else "."),
            f"Against labels without noise the error is {self.test_error_clean:.3g}.",
            *(() if self.directions else beside(self.task, self.alpha, self.test_error)),
            *(
                [f"On {self.zero_one_error:.1%} of rows the most attended token is not the label."]
                if self.zero_one_error is not None
                else []
            ),
            f"Size: q = {self.q:.4g} is the mean squared {value} of the trained map S; the target's is {target_power:.4g}.",
            f"Overlap: m = {self.m:.4g}, so the cosine between S and the target is {cosine:.3f}.",
            *self._explain_sectors(),
            self._explain_rank(),
            self._explain_sigma(),
        ]
        replicon = self.certificate.replicon
        if replicon is not None:
            verdict = "stable: one well-defined minimum" if replicon < 1.0 else "unstable: many competing minima"
            lines.append(f"Replicon {replicon:.3f} ({'<' if replicon < 1.0 else '>='} 1): the solution is {verdict}.")
        return in_lines([*lines, *self._closing()])

    def _explain_sectors(self) -> list[str]:
        """The two parts of the map in words, where there are two."""
        if self.sectors is None or self.q == 0.0:
            return []
        (q_s, q_a), (m_s, m_a) = self.sectors["q"], self.sectors["m"]
        return [
            f"A token's logit with itself knows the symmetric part of S alone: size {q_s:.4g} and overlap {m_s:.4g} there, "
            f"{q_a:.4g} and {m_a:.4g} in the antisymmetric part."
        ]

    def _explain_rank(self) -> str:
        """The rank in words."""
        value = self.task.value
        if self.spread == 0.0 and self.rank > 0.0:
            return f"Rank: S is the target itself, and {self.rank:.1%} of its {value}s are not zero."
        if self.cut == -INFINITE:
            half = "; about half of the noise bulk is negative" if self.task.tied else ""
            return f"Rank: direct training sets no {value} to zero{half}."
        if self.rank == 0.0:
            return f"Rank: 0. Weight decay keeps every {value} at zero: too few samples for this weight decay."
        share = f"{self.rank:.1%} of the {value}s of S are not zero (the target has {self.task.target.rank:.1%})"
        narrow = self.equations.input.narrow(self.rank)
        return f"Rank: {share}; {'the width of the learner allows no more' if narrow else 'weight decay removes the others'}."

    def _explain_sigma(self) -> str:
        """Sigma in words."""
        if self.rank == 0.0:
            return "Sigma = 0: the logits do not react to a single sample."
        if self.sigma == INFINITE:
            return "Sigma is infinite: every training label is fitted exactly, and one sample moves the logits freely."
        return (
            f"Sigma = {self.sigma:.4g}: how far a training sample pulls its own logits; small with many samples, large "
            "near interpolation."
        )


@posed(
    near=optional(instance(Prediction, "the answer of predict")),
    accuracy=optional(number(above=0.0)),
)
def predict(
    task: Task, learner: Learner, alpha: float, *, near: Prediction | None = None, accuracy: float | None = None
) -> Prediction:
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
    accuracy : float, optional
        Wanted error of the test error, relative: a finer rule is used until it is met, or a warning says what was reached. If not
        given it is 1e-4, for which no more than the usual points are sampled.

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
    problem = equations_of(task, learner)
    start = _start(problem, near, task, learner, alpha) if near is not None else None
    return _finish(task, learner, problem, alpha, numbers_at(problem, alpha, start, accuracy))


def _start(problem: StateEvolution, near: Prediction, task: Task, learner: Learner, alpha: float) -> Start | None:
    """Where to begin beside a neighbour: a Newton step from its state, by its own F', to this sample ratio and weight decay.

    Only the input channel moves with them, the hats being proportional to α: nothing is averaged.
    """
    state = _state_of(problem, near)
    if state is None:
        return None
    same = near.task == task and near.learner.changed(weight_decay=learner.weight_decay) == learner
    if not same or near.jacobian is None or problem.leading:
        return Start(state)
    turn = np.asarray(near.jacobian)
    seen = [one.effective for one in near.directions]
    hats = problem.hats_of(near.q_hat, near.m_hat, near.sigma_hat, seen).times(alpha / near.alpha)
    try:
        step = np.linalg.solve(np.eye(len(turn)) - turn, problem.overlaps_of(hats).logs - state)
    except (SolveError, np.linalg.LinAlgError):  # the map of these hats is zero
        return Start(state)
    size = float(np.max(np.abs(step)))
    if not size < FAR:
        return Start(state)
    return Start(problem.inside(state + step), turn if size < NEAR else None)


def _state_of(problem: StateEvolution, near: Prediction) -> NDArray[np.float64] | None:
    """The state of a neighbour, in reduced units, if it can be continued."""
    if not (near.q > 0.0 and near.m > 0.0 and 0.0 < near.sigma < INFINITE):
        return None
    if near.directions or problem.told:
        fits = len(near.directions) == problem.told
        return overlaps_of(near).logs if fits else None
    if near.sectors is None:
        return np.log([*problem.units.reduced(near.q, near.m), near.sigma])
    pairs = [problem.units.reduced(q, m) for q, m in zip(near.sectors["q"], near.sectors["m"], strict=True)]
    return np.log([*(q for q, _ in pairs), *(m for _, m in pairs), *near.sectors["sigma"]])


def overlaps_of(point: Prediction) -> LeadingOverlaps:
    """The overlaps of a point with leading directions, in reduced units."""
    problem = point.equations
    assert isinstance(problem, LeadingEvolution)
    (q, m), told = problem.units.reduced(point.q, point.m), np.array(problem.output.directions.told)
    strengths = problem.units.beta * np.array([one.learned for one in point.directions]) / problem.root
    hats = problem.hats_of(point.q_hat, point.m_hat, point.sigma_hat, [one.effective for one in point.directions])
    rest = q - float(strengths @ strengths), m - float(strengths @ told)
    return problem.zero_at(hats).at(*rest, *strengths.tolist(), point.sigma)


def _directions(problem: StateEvolution, overlaps: AnyOverlaps) -> tuple[Direction, ...]:
    """The leading directions of a solution, in the learner's own units."""
    if not (isinstance(overlaps, LeadingOverlaps) and isinstance(problem, LeadingEvolution)):
        return ()
    root, units = problem.root, problem.units
    return tuple(
        Direction(
            target=root * told / units.beta0, effective=root * seen / units.beta0, learned=root * own / units.beta
        )
        for told, seen, own in zip(overlaps.directions.told, overlaps.effective, overlaps.strengths, strict=True)
    )


def _sectors(problem: StateEvolution, overlaps: AnyOverlaps) -> dict[str, tuple[float, ...]] | None:
    """q, m and Sigma of both sectors, in the learner's own units, where there are two."""
    if not isinstance(overlaps, SectorOverlaps):
        return None
    pairs = [problem.units.own(q, m) for q, m in zip(overlaps[:2], overlaps[2:4], strict=True)]
    return {"q": tuple(q for q, _ in pairs), "m": tuple(m for _, m in pairs), "sigma": overlaps.sigmas}


def _finish(task: Task, learner: Learner, problem: StateEvolution, alpha: float, numbers: Numbers) -> Prediction:
    """Errors on fresh samples, and back to the learner's own units."""
    output, (overlaps, hats, train, certificate, jacobian) = problem.output, numbers
    pair, where = overlaps.pair, overlaps.map
    test = output.fresh_loss(*pair, loss="squared")
    clean = output.fresh_loss(*pair, loss="squared", power=problem.target_power)
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
        certificate=with_caution(certificate, task, problem.leading),
        test_loss=test if output.loss.yardstick else output.fresh_loss(*pair),
        test_cross_entropy=output.fresh_loss(*pair, loss="cross-entropy"),
        zero_one_error=output.zero_one(*pair) if output.loss.hard else None,
        excess_error=test - plateau_of(problem).test_error,
        spread=where.s,
        threshold=where.eps,
        cut=where.cut,
        slope=where.slope / learner.beta,
        sectors=_sectors(problem, overlaps),
        directions=_directions(problem, overlaps),
        jacobian=tuple(map(tuple, jacobian.tolist()))
        if jacobian is not None and overlaps.sigmas == (overlaps.sigma,)
        else None,
        task=task,
        learner=learner,
    )
