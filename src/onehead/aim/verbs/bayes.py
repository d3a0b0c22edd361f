"""bayes(), bayes_curve(), data_for(): the Bayes-optimal learner, which knows how the data were generated.

The equations are in `onehead.aim.theory.bayes`; here they become errors, certificates and sentences.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.solve.assumptions import LARGE_EXCESS_KURTOSIS
from onehead.aim.solve.certificate import ACCURACY, ROUNDING
from onehead.aim.task import Learner, Task, check_alpha
from onehead.aim.theory.bayes import Posterior, logit_nuclear
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.input.leading import leading_count
from onehead.aim.theory.order_parameters import INFINITE
from onehead.errors import InvalidArgument, SolveError
from onehead.numerics.brent import brent_minimum, brent_root
from onehead.numerics.parallel import map_chains
from onehead.numerics.progress import Progress
from onehead.results import INTERRUPTED, Certificate, Column, FailedPoint, Kind, Points, Result, wrap_sentences
from onehead.validation import checked, instance, numbers

HEAD_SCALE_RANGE = (0.0, 2.0)  # factors c of the estimate Ŝ that are searched for the best head c Ŝ
HEAD_SCALE_TOLERANCE = 1e-4  # of that search; the error at its minimum is then exact to the square of this
DIFFERENCE_STEP = 1e-6  # step of q for numerical slopes, over the power of the target: well above rounding
FORMULA_ERROR = 1e-9  # relative error to which averages over more than two tokens were checked (2.9)


@dataclass(frozen=True, kw_only=True)
class Best(Result):
    """The best possible learner, which knows the law of the target, the noise and the temperature.

    Its estimate Ŝ of the target is the posterior mean. Overlap and mean squared error are in the units of S*.

    Attributes
    ----------
    alpha : float
        Sample ratio α = n/d².
    mmse : float
        Mean squared error |Ŝ - S*|²/d of the estimate.
    overlap : float
        |Ŝ|²/d, which equals the overlap of Ŝ with S*.
    test_error : float
        Test error of the optimal output, labels with noise; no attention head needs to reach it.
    test_error_clean : float
        Test error of the optimal output, labels without noise.
    head_error : float
        Test error of the best attention head, whose map is Ŝ times ``head_scale``.
    head_scale : float
        Factor of Ŝ in the map of the best attention head.
    plugin_error : float
        Test error of the attention head with the map Ŝ.
    floor : float
        Test error in the limit of infinitely many samples.
    certificate : Certificate
        Status, kind of truth and numerical errors.
    task : Task
        The task.
    """

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("alpha", "test_error", "head_error", "overlap")
    MEANINGS: ClassVar[dict[str, str]] = {
        "test_error": "of the best possible output, labels with noise",
        "test_error_clean": "of the best possible output, labels without noise",
        "head_error": "test error of the best attention head",
        "head_scale": "map of that head, over the best estimate of the target",
        "plugin_error": "test error of the best estimate of the target, used as a head",
        "floor": "test error with infinitely many samples",
        "overlap": "|Ŝ|²/d, the part of the target that is known",
        "mmse": "|Ŝ - S*|²/d, the part that is not known",
    }

    alpha: float
    mmse: float
    overlap: float
    test_error: float
    test_error_clean: float
    head_error: float
    head_scale: float
    plugin_error: float
    floor: float
    certificate: Certificate
    task: Task

    def explain(self) -> str:
        """Explain in sentences what the best possible learner is and which errors it reaches.

        Examples
        --------
        >>> from onehead.aim import Task, bayes
        >>> print(bayes(Task(), alpha=0.5).explain().splitlines()[0])
        A learner that knows how the data were generated (the law of the target, the noise,
        """
        power = self.task.target.second_moment
        lines = [
            "A learner that knows how the data were generated (the law of the target, the noise, the temperature) and "
            "sees "
            f"n = {self.alpha:g} d² samples (alpha = {self.alpha:g}) cannot get below a test error of "
            f"{self.test_error:.4g}; "
            f"with infinitely many samples the floor is {self.floor:.4g}.",
            f"Against labels without noise its error is {self.test_error_clean:.4g}.",
            f"The best attention head has a test error of {self.head_error:.4g}: its map is the best estimate of the "
            f"target times "
            f"{self.head_scale:.3g}. The estimate itself is over-confident and has {self.plugin_error:.4g}.",
            f"Of the target's mean squared {self.task.spectral_value} {power:.4g}, the part {self.overlap:.4g} is "
            f"known from the "
            f"data and {self.mmse:.4g} is not.",
        ]
        return wrap_sentences([*lines, *self._closing()])


@dataclass(frozen=True, kw_only=True)
class NotSolved(FailedPoint):
    """Sample ratio at which the equation could not be solved, with the reason."""

    _EMPTY: ClassVar[tuple[str, ...]] = (
        "mmse",
        "overlap",
        "test_error",
        "test_error_clean",
        "head_error",
        "plugin_error",
    )

    alpha: float


@dataclass(frozen=True, kw_only=True)
class BestCurve(Points[Best, NotSolved]):
    """The best possible learner at many sample ratios, in the order asked for.

    Attributes
    ----------
    task : Task
        The task.
    points : tuple of Best or NotSolved
        One per sample ratio; a failed point has a reason.
    """

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = (
        "alpha",
        "test_error",
        "test_error_clean",
        "head_error",
        "mmse",
        "status",
    )

    task: Task
    points: tuple[Best | NotSolved, ...]

    alpha = Column()
    mmse = Column()
    overlap = Column()
    test_error = Column()
    test_error_clean = Column()
    head_error = Column()
    head_scale = Column()
    plugin_error = Column()
    floor = Column()


class BayesReference:
    """Errors of the Bayes-optimal learner of one task, as functions of its overlap q, in reduced units (A.4).

    Given the data, a fresh label is distributed as a label of the estimate with Gaussian noise. Two labels sampled so
    have overlap q, and half their mean squared distance is the error of the optimal output.
    """

    def __init__(self, task: Task) -> None:
        check_bayes_known(task)
        self.task, self.problem = task, build_state_evolution(task, Learner().gaussian)
        self.posterior = Posterior(self.problem)
        self.power, self.label_power = self.problem.target_power, self.problem.label_power
        self.field = self.problem.directions.separate_power  # known from n ~ d samples, where tokens have a mean (D5)
        self._fresh_errors: dict[tuple[float, float, float | None], float] = {}  # cache: most are needed several times

    def _fresh_error(self, q: float, m: float, power: float | None = None) -> float:
        """Mean squared distance of the attention of a map with overlaps (q, m) from labels of the given power."""
        if (q, m, power) not in self._fresh_errors:
            self._fresh_errors[q, m, power] = self.problem.output.fresh_loss(q, m, loss="squared", power=power)
        return self._fresh_errors[q, m, power]

    def test_error(self, q: float) -> float:
        """Test error of the optimal output, labels with noise."""
        return 0.5 * self._fresh_error(self.label_power, q + self.field)

    def test_error_clean(self, q: float) -> float:
        """Test error of the optimal output, labels without noise."""
        clean = self.power + self.field
        return 0.5 * self._fresh_error(clean, q + self.field, clean)

    def plugin_error(self, q: float) -> float:
        """Test error of the estimate Ŝ used as a head."""
        return self._fresh_error(q + self.field, q + self.field)

    def best_head(self, q: float, m: float | None = None) -> tuple[float, float]:
        """Lowest test error of a head c S over the factor c, and that c; S has overlaps (q, m), by default m = q.

        The unasked field of the target is known. Its factor in the head that makes logits and labels most alike is
        c q/m (D5).
        """
        m = q if m is None else m
        if self.field:
            field = q / m if m > 0.0 else 1.0
            q, m = q + field**2 * self.field, m + field * self.field
        scale, error = brent_minimum(
            lambda c: self._fresh_error(c * c * q, c * m), *HEAD_SCALE_RANGE, xatol=HEAD_SCALE_TOLERANCE
        )
        # the search may miss a minimum at the end of the range, or at the kink of the error at c = 1
        return min((error, scale), (self._fresh_error(q, m), 1.0), (self._fresh_error(0.0, 0.0), 0.0))

    def sample_ratio_for(self, error: float) -> float:
        """Sample ratio at which the optimal test error is ``error``.

        Zero if the trace of the target is enough, infinite if no number of samples is.
        """
        known = self.posterior.known
        if error >= self.test_error(known):
            return 0.0
        if error <= self.test_error(self.power):
            return INFINITE
        q = brent_root(lambda q: self.test_error(q) - error, known, self.power, xtol=1e-13 * self.power)
        s = self.posterior.blur_of(self.power - float(q))
        if s == 0.0:  # exact recovery from this sample ratio on
            return self.problem.bayes_optimal
        return self.posterior.ratio(s) if s < INFINITE else 0.0

    def at(self, alpha: float) -> Best:
        """All numbers of `Best` at one sample ratio, with their errors."""
        s, unit = self.posterior.blur(alpha), self.task.beta0**2
        mmse, mmse_error = self.posterior.left(s), self.posterior.left_error(s)
        q = max(self.power - mmse, 0.0)
        head_error, head_scale = self.best_head(q)
        functions = {
            "test_error": self.test_error,
            "test_error_clean": self.test_error_clean,
            "plugin_error": self.plugin_error,
        }
        errors = {name: abs(self._slope(function, q)) * mmse_error for name, function in functions.items()}
        total, clean = q + self.field, self.power + self.field
        errors["test_error"] += 0.5 * self._quadrature_error(self.label_power, total)
        errors["test_error_clean"] += 0.5 * self._quadrature_error(clean, total, clean)
        errors["plugin_error"] += self._quadrature_error(total, total)
        errors["head_error"] = (
            errors["test_error"]
            + self._quadrature_error(head_scale**2 * total, head_scale * total)
            + HEAD_SCALE_TOLERANCE**2 * head_error
        )
        errors["floor"] = 0.5 * self._quadrature_error(self.label_power, clean)
        return Best(
            alpha=alpha,
            mmse=mmse / unit,
            overlap=q / unit,
            test_error=self.test_error(q),
            test_error_clean=self.test_error_clean(q),
            head_error=head_error,
            head_scale=head_scale,
            plugin_error=self.plugin_error(q),
            floor=self.test_error(self.power),
            certificate=Certificate(
                status="converged" if s > 0.0 else "perfect recovery: the target is known exactly",
                kind=_kind(self.task),
                quadrature_error=errors["test_error"],
                errors=errors | {"mmse": mmse_error / unit, "overlap": mmse_error / unit},
                warnings=(*_warnings(self.task), *_accuracy_warning(errors["test_error"], self.test_error(q))),
            ),
            task=self.task,
        )

    def _quadrature_error(self, q: float, m: float, power: float | None = None) -> float:
        """Error of `_fresh_error` by its quadrature rule, or by the formula for more than two tokens (2.9)."""
        by_rule = self.problem.output.fresh_loss_error(q, m, power=power, loss="squared")
        return by_rule + (FORMULA_ERROR * self._fresh_error(q, m, power) if self.task.tokens > 2 else 0.0)

    def _slope(self, function: Callable[[float], float], q: float) -> float:
        """Derivative of a function of q by a backward difference."""
        step = min(DIFFERENCE_STEP * self.power, 0.5 * q)
        return (function(q) - function(q - step)) / step if step > 0.0 else 0.0

    def logit_nuclear(self, alpha: float) -> float:
        """Test error of least squares on the logits with the best penalty λ Tr S and the best scale (A.8)."""
        return self.best_head(*logit_nuclear(self.posterior, alpha))[0]


def check_bayes_known(task: Task) -> None:
    """Refuse a task whose Bayes-optimal learner is not known."""
    task.check_verb("bayes")
    if task.labels == "hard":
        raise InvalidArgument("labels", "hard", "soft: the best possible learner is not known for hard labels")
    if task.depends_on_kurtosis:
        raise InvalidArgument("kurtosis", task.kurtosis, "3: the best possible learner is not known for other tokens")
    if task.own_field:
        raise InvalidArgument("unasked", task.unasked, "0 unless attention is cross, or self with mask strict")
    if not task.bayes_known:
        raise InvalidArgument(
            "attention",
            task.attention,
            "tied or cross, or self with mask strict: the best possible learner is not known for self-attention that "
            "sees its own logit",
        )


def check_bayes_comparison(task: Task, learner: Learner) -> None:
    """Refuse a comparison with leading directions, for which the Bayes-optimal learner is not known."""
    count = leading_count(task, learner)
    if count > 0:
        raise InvalidArgument(
            "leading",
            learner.leading,
            f"0 to compare with the best possible learner, which is not known with {count} leading directions",
        )


def _warnings(task: Task) -> tuple[str, ...]:
    kurtosis = task.target.excess_kurtosis
    if kurtosis < LARGE_EXCESS_KURTOSIS:
        return ()
    return (
        f"a few large {task.spectral_value}s make single logits far from Gaussian (excess kurtosis {kurtosis:.2g}, at "
        f"any dimension); "
        "message passing on power laws ended about 6 % above this error",
    )


def _accuracy_warning(error: float, test_error: float) -> tuple[str, ...]:
    """Warning where the numerical error of the test error is larger than that of other results."""
    if error <= ACCURACY * test_error + ROUNDING:
        return ()
    return (f"numerical error of the test error: {error / test_error:.1e}, relative (wanted: {ACCURACY:g})",)


def _kind(task: Task) -> Kind:
    return "conjecture" if _warnings(task) else "claim"


@checked(task=instance(Task, "Task()"))
def bayes(task: Task, alpha: float) -> Best:
    """Lowest error that any learner can reach with n = α d² samples, if it knows how they were generated (A).

    Each label reveals all informative combinations of its logits with Gaussian noise, so that learning is denoising a
    matrix of known law: one equation, F(s) + Δ/(2s) = 2 α J, with one root. The estimate is the posterior mean; a
    trained head has neither a larger m²/q nor a smaller test error.

    Parameters
    ----------
    task : Task
        With soft labels and Gaussian tokens; tied, cross-attention, or self-attention with a strict mask.
    alpha : float
        Sample ratio α = n/d².

    Returns
    -------
    Best
        Errors of the best output and of the best head, overlap and mean squared error of the estimate.

    Raises
    ------
    InvalidArgument
        If the Bayes-optimal learner of the task is not known, or ``alpha`` is not allowed.
    SolveError
        If the equation could not be solved.

    Examples
    --------
    >>> from onehead.aim import Task, bayes
    >>> best = bayes(Task(), alpha=0.5)
    >>> round(best.test_error, 5), round(best.mmse, 5), round(best.floor, 5)
    (0.10496, 0.11139, 0.07406)
    """
    return BayesReference(task).at(check_alpha(alpha))


@checked(task=instance(Task, "Task()"), alphas=numbers(single=True))
def bayes_curve(task: Task, alphas: Sequence[float] | NDArray[np.float64], *, progress: Progress = None) -> BestCurve:
    """Lowest error that any learner can reach, at many sample ratios.

    Parameters
    ----------
    task : Task
        As for `bayes`.
    alphas : sequence of float
        Sample ratios α = n/d²; the points come back in the same order.
    progress : callable or True, optional
        Called once for every finished point.

    Returns
    -------
    BestCurve
        One point per sample ratio; a point that could not be solved has a reason.

    Raises
    ------
    InvalidArgument
        If the Bayes-optimal learner of the task is not known, or a sample ratio is not allowed.

    Examples
    --------
    >>> from onehead.aim import Task, bayes_curve
    >>> [round(float(e), 3) for e in bayes_curve(Task(), [0.1, 1.0]).column("test_error")]
    [0.228, 0.088]
    """
    ratios = [check_alpha(float(alpha)) for alpha in np.atleast_1d(alphas)]
    if not ratios:
        raise InvalidArgument("alphas", list(alphas), "at least one sample ratio")
    reference = BayesReference(task)

    def step(i: int, _: None) -> tuple[Best | NotSolved, None]:
        try:
            return reference.at(ratios[i]), None
        except SolveError as failure:
            return NotSolved(alpha=ratios[i], reason=str(failure)), None

    points = map_chains(step, [[i] for i in range(len(ratios))], progress)
    unsolved = (NotSolved(alpha=ratio, reason=INTERRUPTED) for ratio in ratios)
    return BestCurve(task=task, points=tuple(points.get(i, missing) for i, missing in enumerate(unsolved)))


def describe_bayes_gap(task: Task, alpha: float, test_error: float) -> list[str]:
    """Sentence that compares a test error with the Bayes-optimal one; empty where that is not known."""
    if not task.bayes_known:
        return []
    reference = BayesReference(task)
    best, needed = reference.at(alpha).test_error, reference.sample_ratio_for(test_error)
    if needed == 0.0:
        data = "and needs next to no samples for this error: the trace of the target is enough"
    else:
        data = f"and needs {needed:.3g} d² samples for this error; you have {alpha:g} d²"
    return [f"The best possible learner, which knows how the data were generated, has {best:.3g} here, {data}."]
