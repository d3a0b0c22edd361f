"""bayes(): what the best possible learner makes of the same data; data_for(): how many samples it needs for an error (B.1, B.6)."""

from dataclasses import dataclass
from math import inf, sqrt
from typing import ClassVar

from onehead.arguments import checked, instance, number
from onehead.errors import InvalidArgument
from onehead.numerics.line import root_between
from onehead.results import Certificate, Result, in_lines
from onehead.sparse.equations.rule import bayes_error
from onehead.sparse.solve.bayes import Overlap, Thresholds, state_equation
from onehead.sparse.task import Task

__all__ = ["Best", "bayes", "beside", "check_places", "data_for"]

WEAKEST = 1e-100  # alpha pi theta^2 below which nothing is found
NOTHING = 1e-9  # an overlap that tells nothing
NEVER = Overlap(0.0, 0.0, 0.0)  # without a signal there is nothing to find


@dataclass(frozen=True, kw_only=True)
class Best(Result):
    """The best possible learner of n = alpha d labelled sequences; it knows how they were made, all but the signal direction.

    ``overlap`` q is the squared cosine of its estimate with the signal. Where the phase is ``hard``, message passing and every
    quick algorithm we know stay at ``overlap_amp`` and ``test_error_amp``. ``floor`` is the error of who knows the direction. The three
    sample ratios are None where there is no jump.
    """

    _SHOWN: ClassVar[tuple[str, ...]] = ("alpha", "overlap", "test_error", "hard")
    MEANINGS: ClassVar[dict[str, str]] = {
        "overlap": "squared cosine of the best estimate with the signal",
        "test_error": "share of mistakes on fresh samples",
        "overlap_amp": "what message passing finds",
        "test_error_amp": "what message passing errs",
        "hard": "whether it stays behind",
        "floor": "error of who knows the signal",
        "spinodal": "samples from which a better estimate exists at all",
        "information_threshold": "samples from which it is the best one",
        "algorithmic_threshold": "samples from which message passing finds it",
    }

    task: Task
    alpha: float
    overlap: float
    test_error: float
    overlap_amp: float
    test_error_amp: float
    hard: bool
    floor: float
    spinodal: float | None
    information_threshold: float | None
    algorithmic_threshold: float | None
    certificate: Certificate

    def explain(self) -> str:
        """Say in words what anybody could learn from these data.

        Examples
        --------
        >>> from onehead.sparse import Task, bayes
        >>> print(bayes(Task(length=300, strength=8.0), 0.035).explain().splitlines()[4])
        Hard phase: message passing, and every quick algorithm we know, finds an overlap of
        """
        chance = min(self.task.positive_rate, 1.0 - self.task.positive_rate)
        return in_lines(
            [
                f"From n = {self.alpha:g} d labelled sequences the best possible learner errs on {self.test_error:.2%} of fresh "
                f"ones; who knows the signal errs on {self.floor:.2%}, guessing on {chance:.1%}.",
                f"It knows length, number and strength of the signal tokens, and finds the direction to a cosine of "
                f"{sqrt(self.overlap):.3f}.",
                *self._explain_phase(),
                *self._closing(),
            ]
        )

    def _explain_phase(self) -> list[str]:
        """Where the jump is, if there is one, and on which side of it the data are."""
        said = []
        if self.hard:
            said.append(
                f"Hard phase: message passing, and every quick algorithm we know, finds an overlap of {self.overlap_amp:.2g} "
                f"only and errs on {self.test_error_amp:.1%}."
            )
        if self.information_threshold is not None and self.algorithmic_threshold is not None:
            said.append(
                f"The direction can be found from n = {self.information_threshold:.4g} d on, and found quickly from "
                f"n = {self.algorithmic_threshold:.4g} d on."
            )
        return said


def check_places(task: Task) -> None:
    """Refuse places that are not alike."""
    if task.positions is not None:
        raise InvalidArgument("positions", task.positions, "None for the best learner, whose places are all alike")


@checked(task=instance(Task, "Task()"), alpha=number(above=0.0))
def bayes(task: Task, alpha: float) -> Best:
    """The best possible learner of ``alpha`` labelled sequences over dimension in all; compare with alpha0 + alpha1.

    Its overlap is a root of the state equation, of several the one with the largest potential; its error is that of a learner who
    knows the signal, at strength theta sqrt(q).

    Examples
    --------
    >>> found = bayes(Task(length=10, strength=5.0), 0.5)
    >>> round(found.overlap, 6), round(found.test_error, 5), found.hard
    (0.861327, 0.02864, False)
    """
    check_places(task)
    floor, floor_err = bayes_error(task)
    thresholds, best, reached = None, NEVER, NEVER
    if alpha * task.positive_rate * task.strength**2 > WEAKEST:
        equation = state_equation(task)
        roots, thresholds = equation.roots(alpha), equation.thresholds
        best, reached = roots.best, roots.reached
    (error, error_err), (error_amp, error_amp_err) = (_error(task, root) for root in (best, reached))
    ratios, ratio_errs = _ratios(thresholds)
    return Best(
        task=task,
        alpha=float(alpha),
        overlap=best.value,
        test_error=error,
        overlap_amp=reached.value,
        test_error_amp=error_amp,
        hard=best.value > reached.value,
        floor=floor,
        **ratios,
        certificate=Certificate(
            status="converged",
            kind="claim",
            quadrature_error=error_err,
            errors={
                "overlap": best.error,
                "test_error": error_err,
                "overlap_amp": reached.error,
                "test_error_amp": error_amp_err,
                "floor": floor_err,
                **ratio_errs,
            },
        ),
    )


def _error(task: Task, root: Overlap) -> tuple[float, float]:
    """That of a learner who knows the signal, at strength theta sqrt(q), and what its sampling and that of q leave open."""
    here, error = bayes_error(_blurred(task, root.value))
    if root.error < 1e-9:
        return here, error
    return here, error + abs(bayes_error(_blurred(task, min(root.value + root.error, 1.0)))[0] - here)


def _blurred(task: Task, q: float) -> Task:
    return task.changed(strength=task.strength * sqrt(q))


def _ratios(found: Thresholds | None) -> tuple[dict[str, float | None], dict[str, float]]:
    """Thresholds under the names of the result, and their errors."""
    names = ("spinodal", "information_threshold", "algorithmic_threshold")
    if found is None:
        return dict.fromkeys(names), {}
    return {name: pair[0] for name, pair in zip(names, found, strict=True)}, {
        name: pair[1] for name, pair in zip(names, found, strict=True)
    }


@checked(task=instance(Task, "Task()"), test_error=number(above=0.0))
def data_for(task: Task, test_error: float) -> float:
    """Labelled sequences over dimension from which the best possible learner errs no more than this; infinite below its floor.

    Examples
    --------
    >>> round(data_for(Task(length=10, strength=5.0), 0.0327), 2)
    0.37
    """
    check_places(task)
    equation = state_equation(task)
    if test_error >= min(task.positive_rate, 1.0 - task.positive_rate):
        return 0.0
    if task.strength == 0.0 or test_error <= bayes_error(task)[0]:
        return inf
    if bayes_error(_blurred(task, NOTHING))[0] <= test_error:
        return 0.0
    q = root_between(lambda q: bayes_error(_blurred(task, q))[0] - test_error, NOTHING, 1.0, xtol=NOTHING)
    return equation.alpha_for(min(q, 1.0 - NOTHING))


def beside(best: float, own: float, needed: float, alpha: float) -> str:
    """A learner beside the best possible one, in one sentence.

    >>> beside(0.02, 0.03, 0.25, 2.0)
    'The best possible learner errs on 2.00% and needs n = 0.25 d samples for this error of 3.00%; yours n = 2 d.'
    """
    return (
        f"The best possible learner errs on {best:.2%} and needs n = {needed:.3g} d samples for this error of {own:.2%}; "
        f"yours n = {alpha:.3g} d."
    )
