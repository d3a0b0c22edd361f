"""Sample ratios where behaviour changes: interpolation, recovery, Bayes-optimal, direct, emergence."""

from dataclasses import dataclass
from typing import ClassVar

from onehead.aim.equations.emergence import emergence_ratio
from onehead.aim.equations.head import equations_of
from onehead.aim.equations.plateau import plateau_of
from onehead.aim.equations.separability import KNOWN
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import INFINITE, Interpolating
from onehead.aim.solve.certificate import NARROW
from onehead.aim.task import Learner, Task
from onehead.aim.words import posed
from onehead.arguments import instance, optional
from onehead.results import Certificate, Result

UNKNOWN = "; recovery of self-attention that sees its own logit is not known"

__all__ = ["Plateau", "Thresholds", "plateau", "thresholds"]


@dataclass(frozen=True, kw_only=True)
class Thresholds(Result):
    """Values of α = n/d² where something changes, and the test error at the interpolation peak.

    ``interpolation``: up to here the labels can be fitted exactly as λ → 0⁺. ``recovery``: from here on λ → 0⁺ finds the
    target itself (infinite with noise, and for a target that no map of the learner equals). ``bayes_optimal``: the best
    learner, which knows the spectrum of the target, recovers from here on, without noise.
    ``direct``: interpolation of direct training. ``emergence``: below it S = 0 at the learner's own weight decay.
    ``peak_test_error``: test error at interpolation as λ → 0⁺. Hard labels are fitted up to their ``separability``, which is
    then the interpolation; there is none for soft ones. What is not known of a head is missing, and the status says so.
    """

    MEANINGS: ClassVar[dict[str, str]] = {
        "interpolation": "up to here every label can be fitted (λ → 0⁺)",
        "recovery": "from here on λ → 0⁺ finds the target exactly (no noise)",
        "bayes_optimal": "the best possible learner recovers from here on (no noise)",
        "direct": "interpolation when S is trained directly",
        "emergence": "below, S = 0 at the weight decay of the learner",
        "peak_test_error": "test error at interpolation (λ → 0⁺)",
        "separability": "up to here hard labels can be fitted",
    }

    interpolation: float | None
    recovery: float | None
    bayes_optimal: float | None
    direct: float | None
    emergence: float
    peak_test_error: float | None
    separability: float | None
    certificate: Certificate
    task: Task
    learner: Learner


@posed(learner=optional(instance(Learner, "Learner()")))
def thresholds(task: Task, learner: Learner | None = None) -> Thresholds:
    """Sample ratios where the behaviour of a head changes (4).

    Parameters
    ----------
    task : Task
    learner : Learner, optional
        Its width and parameterisation set interpolation, its weight decay the emergence.

    Examples
    --------
    >>> from onehead.aim import Task, thresholds
    >>> found = thresholds(Task())
    >>> round(found.interpolation, 8), round(found.peak_test_error, 4)
    (0.1534821, 0.5011)
    """
    learner = learner if learner is not None else Learner()
    problem = equations_of(task, learner)
    if problem.output.loss.hard:
        return _of_hard_labels(task, learner, problem)
    ratio, state = problem.input.interpolation(problem.labels)
    # without a state the ridgeless solution grows without bound, trained directly or to a target of no positive mean: pure noise
    peak = problem.output.noise_error if state is None else _peak(problem, state)
    cautions = [NARROW] if problem.narrow_interpolation or problem.narrow_recovery else []
    if ratio > problem.direct_interpolation:
        # the A of a narrow learner can exceed one (3); a narrow map is one that direct training could find as well
        ratio = problem.direct_interpolation
        cautions.append(
            "interpolation is bounded by that of direct training: the theory of a learner this narrow overshoots"
        )
    known = problem.ridgeless
    return Thresholds(
        interpolation=ratio,
        recovery=problem.recovery if known else None,
        bayes_optimal=problem.bayes_optimal if known else None,
        direct=problem.direct_interpolation,
        emergence=emergence_ratio(problem),
        peak_test_error=peak,
        separability=None,
        certificate=Certificate(
            status=f"converged{_never(problem) if known else UNKNOWN}",
            kind="heuristic" if cautions else "conjecture" if task.sees_kurtosis else "claim",
            residual=state.residual if state is not None else 0.0,
            warnings=tuple(cautions),
        ),
        task=task,
        learner=learner,
    )


def _peak(problem: StateEvolution, state: Interpolating) -> float:
    """Test error at interpolation."""
    return problem.output.fresh_loss(*problem.limit(state.overlaps).pair, loss="squared")


def _of_hard_labels(task: Task, learner: Learner, problem: StateEvolution) -> Thresholds:
    """Hard labels: separability where it is known, and emergence; a drawn label never tells the target exactly (U7.1)."""
    found = problem.separability
    ratio, error = found if found is not None else (None, None)
    unknown = "" if found is not None else f"; separability is known for {KNOWN}, alone"
    return Thresholds(
        interpolation=ratio,
        recovery=INFINITE,
        bayes_optimal=INFINITE,
        direct=ratio,
        emergence=emergence_ratio(problem),
        peak_test_error=None,
        separability=ratio,
        certificate=Certificate(
            status=f"converged; recovery is infinite: a drawn label is never sure{unknown}",
            kind="conjecture",
            errors={} if error is None else {"separability": error, "interpolation": error, "direct": error},
        ),
        task=task,
        learner=learner,
    )


def _never(problem: StateEvolution) -> str:
    """Why the target is never found exactly, if it is not."""
    why = "the labels are noisy" if problem.noise > 0.0 else problem.input.obstacle
    return "" if why is None else f"; recovery is infinite: the target is never found exactly, because {why}"


@dataclass(frozen=True, kw_only=True)
class Plateau(Result):
    """The head after infinitely many samples: S = ``shrinkage`` times the target, or the best that it can hold of it.

    That is the target without its negative eigenvalues and, below full width, with the largest of the others alone; trained
    directly a map holds any target.
    """

    shrinkage: float
    test_error: float
    task: Task
    learner: Learner


@posed(learner=optional(instance(Learner, "Learner()")))
def plateau(task: Task, learner: Learner | None = None) -> Plateau:
    """Where the learning curve ends: S → c P, P the best that a map can hold of S*, c = argmin_c of the loss there (8.1).

    Examples
    --------
    >>> from onehead.aim import Task, plateau
    >>> end = plateau(Task())
    >>> round(end.shrinkage, 4), round(end.test_error, 5)
    (0.8762, 0.07408)
    """
    learner = learner if learner is not None else Learner()
    end = plateau_of(equations_of(task, learner))
    shrinkage = end.c * task.beta0 / learner.beta
    return Plateau(shrinkage=shrinkage, test_error=end.test_error, task=task, learner=learner)
