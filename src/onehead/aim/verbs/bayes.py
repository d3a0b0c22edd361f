"""bayes(): the best anybody could do with the same data, one sample ratio or many; and how much data that needs for an error."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.bayes import Posterior, logit_nuclear
from onehead.aim.equations.head import equations_of
from onehead.aim.equations.leading import leading_count
from onehead.aim.equations.unknowns import INFINITE
from onehead.aim.solve.certificate import FAR_FROM_GAUSSIAN
from onehead.aim.task import Learner, Task, check_alpha
from onehead.arguments import checked, instance, number, numbers
from onehead.errors import InvalidArgument, SolveError
from onehead.numerics.line import lowest_between, root_between
from onehead.numerics.parallel import walk_chains
from onehead.results import INTERRUPTED, Certificate, Kind, NoAnswer, Points, Result, in_lines

__all__ = ["Best", "BestCurve", "Yardstick", "bayes", "bayes_curve", "beside", "data_for"]

SCALES = (0.0, 2.0)  # of the estimate, between which the best head lies
CLOSE = 1e-4  # of a scale: its error is flat there, to the square of this
STEP = 1e-6  # of q, over the power of the target: small enough for a slope, and large beside rounding
FORMULA = 1e-9  # relative error to which averages over more than two tokens were checked (2.9)


@dataclass(frozen=True, kw_only=True)
class Best(Result):
    """The best possible learner: it knows the law of the target, noise and temperature, and of the target what the labels say.

    ``overlap`` is |Ŝ|²/d of its estimate Ŝ of the target, the posterior mean, and ``mmse`` the mean squared error |Ŝ - S*|²/d, both
    in the units of S*. ``test_error`` is that of its best answer, which no attention head needs to equal; ``head_error`` that of the
    best head, Ŝ times ``head_scale``, ``plugin_error`` that of Ŝ itself, and ``floor`` what infinitely many samples leave.
    """

    _SHOWN: ClassVar[tuple[str, ...]] = ("alpha", "test_error", "head_error", "overlap")
    MEANINGS: ClassVar[dict[str, str]] = {
        "test_error": "of the best possible answer, labels with noise",
        "test_error_clean": "the same, labels without noise",
        "head_error": "of the best attention head",
        "head_scale": "of that head, times the best estimate of the target",
        "plugin_error": "of the best estimate of the target as a head",
        "floor": "after infinitely many samples",
        "overlap": "|Ŝ|²/d, what is known of the target",
        "mmse": "|Ŝ - S*|²/d, what is not",
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
        """Say in words what the best possible learner is, and what it can do here.

        Examples
        --------
        >>> from onehead.aim import Task, bayes
        >>> print(bayes(Task(), alpha=0.5).explain().splitlines()[0])
        Who knows how the data were made (the law of the target, the noise, the temperature)
        """
        power = self.task.target.second_moment
        lines = [
            "Who knows how the data were made (the law of the target, the noise, the temperature) and sees "
            f"n = {self.alpha:g} d² samples (alpha = {self.alpha:g}) can do no better than a test error of {self.test_error:.4g}; "
            f"infinitely many would leave {self.floor:.4g}.",
            f"Against labels without noise the best is {self.test_error_clean:.4g}.",
            f"The best attention head has {self.head_error:.4g}: the best estimate of the target times {self.head_scale:.3g}. The "
            f"estimate itself is over-confident and has {self.plugin_error:.4g}.",
            f"Of the target's mean squared {self.task.value} {power:.4g} the data tell {self.overlap:.4g} and leave "
            f"{self.mmse:.4g} open.",
        ]
        return in_lines([*lines, *self._closing()])


@dataclass(frozen=True, kw_only=True)
class NotSolved(NoAnswer):
    """A sample ratio at which the equation could not be solved, with the reason."""

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
    """The best possible learner at many sample ratios, in the order asked for."""

    _SHOWN: ClassVar[tuple[str, ...]] = ("alpha", "test_error", "test_error_clean", "head_error", "mmse", "status")

    task: Task
    points: tuple[Best | NotSolved, ...]


class Yardstick:
    """Errors of the best possible learner of one task, as functions of what it knows, in reduced units (A.4).

    A fresh label given the data is Gaussian around the estimate: two labels drawn so have overlap q, and half their distance is the
    error of the best answer.
    """

    def __init__(self, task: Task) -> None:
        check_known(task)
        self.task, self.problem = task, equations_of(task, Learner().gaussian)
        self.posterior = Posterior(self.problem)
        self.power, self.label_power = self.problem.target_power, self.problem.label_power
        self._known: dict[tuple[float, float, float | None], float] = {}  # asked for more than once

    def _fresh(self, q: float, m: float, power: float | None = None) -> float:
        if (q, m, power) not in self._known:
            self._known[q, m, power] = self.problem.output.fresh_loss(q, m, loss="squared", power=power)
        return self._known[q, m, power]

    def test_error(self, q: float) -> float:
        """Of the best answer."""
        return 0.5 * self._fresh(self.label_power, q)

    def clean(self, q: float) -> float:
        """The same against labels without noise."""
        return 0.5 * self._fresh(self.power, q, self.power)

    def plugin(self, q: float) -> float:
        """Of the estimate as a head."""
        return self._fresh(q, q)

    def head(self, q: float, m: float | None = None) -> tuple[float, float]:
        """Error and scale of the best head c S, S with overlaps (q, m); of the estimate m = q."""
        m = q if m is None else m
        scale, error = lowest_between(lambda c: self._fresh(c * c * q, c * m), *SCALES, xatol=CLOSE)
        # at the end of the range, or where the error has its kink, no step is better
        return min((error, scale), (self._fresh(q, m), 1.0), (self._fresh(0.0, 0.0), 0.0))

    def ratio_for(self, error: float) -> float:
        """The sample ratio with which the best test error is ``error``: zero if the trace is enough, infinite if none is."""
        known = self.posterior.known
        if error >= self.test_error(known):
            return 0.0
        if error <= self.test_error(self.power):
            return INFINITE
        q = root_between(lambda q: self.test_error(q) - error, known, self.power, xtol=1e-13 * self.power)
        s = self.posterior.blur_of(self.power - float(q))
        if s == 0.0:  # nothing is left open: known exactly from here on
            return self.problem.bayes_optimal
        return self.posterior.ratio(s) if s < INFINITE else 0.0

    def at(self, alpha: float) -> Best:
        """All numbers at one sample ratio, with their errors."""
        s, unit = self.posterior.blur(alpha), self.task.beta0**2
        left, error = self.posterior.left(s), self.posterior.left_error(s)
        q = max(self.power - left, 0.0)
        head, scale = self.head(q)
        clean = (self.label_power, None), (self.power, self.power)
        rules = [0.5 * self._rule_error(own, q, power) for own, power in clean]
        of = {"test_error": self.test_error, "test_error_clean": self.clean, "plugin_error": self.plugin}
        errors = {name: abs(self._slope(f, q)) * error for name, f in of.items()}
        errors["test_error"] += rules[0]
        errors["test_error_clean"] += rules[1]
        errors["plugin_error"] += self._rule_error(q, q)
        errors["head_error"] = errors["test_error"] + self._rule_error(scale**2 * q, scale * q) + CLOSE**2 * head
        errors["floor"] = 0.5 * self._rule_error(self.label_power, self.power)
        return Best(
            alpha=alpha,
            mmse=left / unit,
            overlap=q / unit,
            test_error=self.test_error(q),
            test_error_clean=self.clean(q),
            head_error=head,
            head_scale=scale,
            plugin_error=self.plugin(q),
            floor=self.test_error(self.power),
            certificate=Certificate(
                status="converged" if s > 0.0 else "perfect recovery: the target is known exactly",
                kind=_kind(self.task),
                quadrature_error=errors["test_error"],
                errors=errors | {"mmse": error / unit, "overlap": error / unit},
                warnings=_cautions(self.task),
            ),
            task=self.task,
        )

    def _rule_error(self, q: float, m: float, power: float | None = None) -> float:
        by_rule = self.problem.output.fresh_loss_error(q, m, power=power, loss="squared")
        return by_rule + (FORMULA * self._fresh(q, m, power) if self.task.tokens > 2 else 0.0)

    def _slope(self, error: Callable[[float], float], q: float) -> float:
        step = min(STEP * self.power, 0.5 * q)
        return (error(q) - error(q - step)) / step if step > 0.0 else 0.0

    def logit_nuclear(self, alpha: float) -> float:
        """Test error of least squares on the logits with the best penalty λ Tr S, best scaled (A.8)."""
        return self.head(*logit_nuclear(self.posterior, alpha))[0]


def check_known(task: Task) -> None:
    """Refuse a task whose best possible learner is not known."""
    if task.labels == "hard":
        raise InvalidArgument("labels", "hard", "soft: the best possible learner of drawn labels is not known")
    if task.sees_kurtosis:
        raise InvalidArgument("kurtosis", task.kurtosis, "3: the best possible learner on other tokens is not known")
    if not task.best_known:
        raise InvalidArgument(
            "attention",
            task.attention,
            "tied or cross, or self with mask strict: the best possible learner of self-attention that sees its own logit is not known",
        )


def check_beside(task: Task, learner: Learner) -> None:
    """Refuse a head whose best possible learner is another one: that of leading directions is not known."""
    count = leading_count(task, learner)
    if count > 0:
        raise InvalidArgument(
            "leading",
            learner.leading,
            f"0 beside the best possible learner, who is not known with {count} directions told apart",
        )


def _cautions(task: Task) -> tuple[str, ...]:
    kurtosis = task.target.excess_kurtosis
    if kurtosis < FAR_FROM_GAUSSIAN:
        return ()
    return (
        f"a few large {task.value}s make single logits far from Gaussian (excess kurtosis {kurtosis:.2g}, at any dimension); message "
        "passing on power laws ended about 6 % above",
    )


def _kind(task: Task) -> Kind:
    return "conjecture" if _cautions(task) else "claim"


@checked(task=instance(Task, "Task()"))
def bayes(task: Task, alpha: float) -> Best:
    """The best anybody could do with n = α d² samples, who knows how they were made (A).

    A label tells all informative combinations of logits with Gaussian noise, so that learning is denoising a matrix of known law:
    one equation, F(s) + Δ/(2s) = 2 α J, with one root. The estimate is the posterior mean; heads that are trained never
    have a larger m²/q, nor a smaller test error.

    Parameters
    ----------
    task : Task
        With soft labels; tied, cross-attention, or self-attention with a strict mask.
    alpha : float

    Examples
    --------
    >>> from onehead.aim import Task, bayes
    >>> best = bayes(Task(), alpha=0.5)
    >>> round(best.test_error, 5), round(best.mmse, 5), round(best.floor, 5)
    (0.10496, 0.11139, 0.07406)
    """
    return Yardstick(task).at(check_alpha(alpha))


@checked(task=instance(Task, "Task()"), alphas=numbers(single=True))
def bayes_curve(
    task: Task, alphas: Sequence[float] | NDArray[np.float64], *, progress: Callable[[], None] | None = None
) -> BestCurve:
    """The best possible learner at many sample ratios.

    Parameters
    ----------
    task : Task
    alphas : sequence of float
    progress : callable, optional
        Called once for every finished point.

    Examples
    --------
    >>> from onehead.aim import Task, bayes_curve
    >>> [round(float(e), 3) for e in bayes_curve(Task(), [0.1, 1.0]).column("test_error")]
    [0.228, 0.088]
    """
    ratios = [check_alpha(float(alpha)) for alpha in np.atleast_1d(alphas)]
    if not ratios:
        raise InvalidArgument("alphas", list(alphas), "at least one sample ratio")
    yardstick = Yardstick(task)

    def step(i: int, _: None) -> tuple[Best | NotSolved, None]:
        try:
            return yardstick.at(ratios[i]), None
        except SolveError as failure:
            return NotSolved(alpha=ratios[i], reason=str(failure)), None

    points = walk_chains(step, [[i] for i in range(len(ratios))], progress)
    lost = (NotSolved(alpha=ratio, reason=INTERRUPTED) for ratio in ratios)
    return BestCurve(task=task, points=tuple(points.get(i, missing) for i, missing in enumerate(lost)))


def beside(task: Task, alpha: float, test_error: float) -> list[str]:
    """A learner's test error beside the best possible one, in words; nothing where that is not known."""
    if not task.best_known:
        return []
    yardstick = Yardstick(task)
    best, needed = yardstick.at(alpha).test_error, yardstick.ratio_for(test_error)
    if needed == 0.0:
        told = "and needs next to no samples for this error: the trace of the target is enough"
    else:
        told = f"and needs {needed:.3g} d² samples for this error; yours {alpha:g} d²"
    return [f"The best possible learner, who knows how the data were made, has {best:.3g} here, {told}."]


@checked(task=instance(Task, "Task()"), test_error=number(above=0.0))
def data_for(task: Task, test_error: float) -> float:
    """The sample ratio with which the best possible learner reaches a test error.

    Zero if next to no samples are enough, which tell the trace of the target; infinite below the floor.

    Examples
    --------
    >>> from onehead.aim import Task, data_for
    >>> round(data_for(Task(), 0.12121), 3)
    0.345
    """
    return Yardstick(task).ratio_for(test_error)
