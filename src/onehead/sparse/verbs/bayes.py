"""The Bayes-optimal learner: its overlap and test error, and the samples it needs for an error (B.1, B.6)."""

from dataclasses import dataclass
from math import inf, sqrt
from typing import ClassVar

from onehead.errors import InvalidArgument
from onehead.numerics.brent import brent_root
from onehead.results import Certificate, Result, wrap_sentences
from onehead.sparse.solve.bayes import Root, Thresholds, state_equation
from onehead.sparse.task import Task
from onehead.sparse.theory.bayes_rule import bayes_error
from onehead.validation import checked, instance, number

MIN_SIGNAL = 1e-100  # alpha pi theta^2 below which the overlap is zero
ZERO_OVERLAP = 1e-9  # overlap that counts as zero
NO_ROOT = Root(0.0, 0.0, 0.0)  # result without a signal


@dataclass(frozen=True, kw_only=True)
class Best(Result):
    """The best possible learner of n = alpha d labelled sequences, which knows everything about them but the direction.

    ``overlap`` q is the squared cosine of its estimate with the signal. In a ``hard`` phase, message passing and every
    fast algorithm we know stay at ``overlap_amp`` and ``test_error_amp``. ``floor`` is the test error if the signal is
    known. The three sample ratios are None where the overlap has no jump.
    """

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("alpha", "overlap", "test_error", "hard")
    MEANINGS: ClassVar[dict[str, str]] = {
        "overlap": "squared cosine of the best estimate with the signal",
        "test_error": "share of mistakes on fresh samples",
        "overlap_amp": "overlap that message passing reaches",
        "test_error_amp": "test error that message passing reaches",
        "hard": "whether message passing stays below the best overlap",
        "floor": "test error if the signal is known",
        "spinodal": "sample ratio from which a second, better estimate exists",
        "information_threshold": "sample ratio from which it is the best one",
        "algorithmic_threshold": "sample ratio from which message passing finds it",
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
        """Describe in sentences what can be learned from these data.

        Examples
        --------
        >>> from onehead.sparse import Task, bayes
        >>> print(bayes(Task(length=300, strength=8.0), 0.035).explain().splitlines()[4])
        Hard phase: message passing, like every fast algorithm we know, reaches only an
        """
        chance = min(self.task.positive_rate, 1.0 - self.task.positive_rate)
        return wrap_sentences(
            [
                f"From n = {self.alpha:g} d labelled sequences the best possible learner errs on {self.test_error:.2%} "
                f"of fresh ones; a learner that knows the signal errs on {self.floor:.2%}, guessing on {chance:.1%}.",
                f"It knows the sequence length and the number and strength of the signal tokens, and estimates the "
                f"direction with a cosine of {sqrt(self.overlap):.3f}.",
                *self._explain_phase(),
                *self._closing(),
            ]
        )

    def _explain_phase(self) -> list[str]:
        """Return sentences on the hard phase and the thresholds, where there are any."""
        sentences = []
        if self.hard:
            sentences.append(
                "Hard phase: message passing, like every fast algorithm we know, reaches only an overlap of "
                f"{self.overlap_amp:.2g} and errs on {self.test_error_amp:.1%}."
            )
        if self.information_threshold is not None and self.algorithmic_threshold is not None:
            sentences.append(
                f"The direction can be found from n = {self.information_threshold:.4g} d on, and by fast algorithms "
                f"from n = {self.algorithmic_threshold:.4g} d on."
            )
        return sentences


def check_exchangeable_positions(task: Task) -> None:
    """Refuse a task with weighted positions, for which the Bayes-optimal learner is not implemented."""
    if task.positions is not None:
        raise InvalidArgument(
            "positions", task.positions, "None for the best learner, which assumes equally likely positions"
        )


@checked(task=instance(Task, "Task()"), alpha=number(above=0.0))
def bayes(task: Task, alpha: float) -> Best:
    """Return overlap and test error of the best possible learner of ``alpha`` labelled sequences over dimension (B.1).

    Its overlap q is the root of the state equation with the largest potential; its test error is the one of a learner
    that knows the signal, at strength theta sqrt(q) (B.3).

    Parameters
    ----------
    task : Task
        Data of the classification problem; its positions must be exchangeable.
    alpha : float
        Labelled sequences over dimension, to be compared with alpha0 + alpha1 of a protocol.

    Returns
    -------
    Best
        Overlap, test error, and the thresholds of a hard phase.

    Raises
    ------
    InvalidArgument
        If alpha is not positive, the positions are weighted, or the sequence is too long for several signal tokens.

    Examples
    --------
    >>> found = bayes(Task(length=10, strength=5.0), 0.5)
    >>> round(found.overlap, 6), round(found.test_error, 5), found.hard
    (0.861327, 0.02864, False)
    """
    check_exchangeable_positions(task)
    floor, floor_err = bayes_error(task)
    thresholds, best, lowest = None, NO_ROOT, NO_ROOT
    if alpha * task.positive_rate * task.strength**2 > MIN_SIGNAL:
        equation = state_equation(task)
        roots, thresholds = equation.roots(alpha), equation.thresholds
        best, lowest = roots.best, roots.lowest
    (error, error_err), (error_amp, error_amp_err) = (_error(task, root) for root in (best, lowest))
    ratios, ratio_errs = _ratios(thresholds)
    return Best(
        task=task,
        alpha=float(alpha),
        overlap=best.value,
        test_error=error,
        overlap_amp=lowest.value,
        test_error_amp=error_amp,
        hard=best.value > lowest.value,
        floor=floor,
        **ratios,
        certificate=Certificate(
            status="converged",
            kind="claim",
            quadrature_error=error_err,
            errors={
                "overlap": best.error,
                "test_error": error_err,
                "overlap_amp": lowest.error,
                "test_error_amp": error_amp_err,
                "floor": floor_err,
                **ratio_errs,
            },
        ),
    )


def _error(task: Task, root: Root) -> tuple[float, float]:
    """Return the test error at strength theta sqrt(q), and its error from sampling and from the error of q."""
    here, error = bayes_error(_at_overlap(task, root.value))
    if root.error < 1e-9:
        return here, error
    return here, error + abs(bayes_error(_at_overlap(task, min(root.value + root.error, 1.0)))[0] - here)


def _at_overlap(task: Task, q: float) -> Task:
    """Return the task at strength theta sqrt(q), as observed with an estimate of overlap q."""
    return task.changed(strength=task.strength * sqrt(q))


def _ratios(found: Thresholds | None) -> tuple[dict[str, float | None], dict[str, float]]:
    """Return the thresholds and their errors under the names of the result."""
    names = ("spinodal", "information_threshold", "algorithmic_threshold")
    if found is None:
        return dict.fromkeys(names), {}
    return {name: pair[0] for name, pair in zip(names, found, strict=True)}, {
        name: pair[1] for name, pair in zip(names, found, strict=True)
    }


@checked(task=instance(Task, "Task()"), test_error=number(above=0.0))
def data_for(task: Task, test_error: float) -> float:
    """Return the sample ratio alpha from which the best possible learner has at most this test error (B.6).

    Parameters
    ----------
    task : Task
        Data of the classification problem; its positions must be exchangeable.
    test_error : float
        Wanted test error, positive.

    Returns
    -------
    float
        Labelled sequences over dimension; 0 if guessing is as good, infinite below the error for a known signal.

    Raises
    ------
    InvalidArgument
        If the test error is not positive, the positions are weighted, or the sequence is too long for several signal
        tokens.

    Examples
    --------
    >>> round(data_for(Task(length=10, strength=5.0), 0.0327), 2)
    0.37
    """
    check_exchangeable_positions(task)
    equation = state_equation(task)
    if test_error >= min(task.positive_rate, 1.0 - task.positive_rate):
        return 0.0
    if task.strength == 0.0 or test_error <= bayes_error(task)[0]:
        return inf
    if bayes_error(_at_overlap(task, ZERO_OVERLAP))[0] <= test_error:
        return 0.0
    q = brent_root(lambda q: bayes_error(_at_overlap(task, q))[0] - test_error, ZERO_OVERLAP, 1.0, xtol=ZERO_OVERLAP)
    return equation.alpha_for(min(q, 1.0 - ZERO_OVERLAP))


def describe_bayes_gap(best: float, own: float, needed: float, alpha: float) -> str:
    """Return a sentence that compares a learner of test error ``own`` with the best possible one.

    >>> print(describe_bayes_gap(0.02, 0.03, 0.25, 2.0))
    The best possible learner errs on 2.00%; it reaches this error of 3.00% with n = 0.25 d instead of n = 2 d samples.
    """
    return (
        f"The best possible learner errs on {best:.2%}; it reaches this error of {own:.2%} with n = {needed:.3g} d "
        f"instead of n = {alpha:.3g} d samples."
    )
