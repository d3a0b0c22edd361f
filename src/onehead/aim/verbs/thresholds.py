"""thresholds(), plateau(): sample ratios where behaviour changes, and the limit of infinitely many samples."""

from dataclasses import dataclass
from typing import ClassVar

from onehead.aim.flat_parameters import validate_problem
from onehead.aim.solve.branches import emergence_transition, unsearched
from onehead.aim.solve.certificate import NARROW
from onehead.aim.task import Learner, Task
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.limits.infinite_data import plateau_of
from onehead.aim.theory.limits.separability import KNOWN
from onehead.aim.theory.limits.unasked_emergence import LONGEST, unasked_emergence
from onehead.aim.theory.order_parameters import INFINITE, Interpolating
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.results import Certificate, Result
from onehead.validation import instance, optional

RECOVERY_UNKNOWN = "; recovery of self-attention that sees its own logit is not known"
UNASKED_UNKNOWN = (
    "; unasked_emergence is known only for heads that do not see their own logit, with a loss of this package, nested "
    f"masks and at most {LONGEST} tokens in a row"
)


@dataclass(frozen=True, kw_only=True)
class Thresholds(Result):
    """Sample ratios α = n/d² where the behaviour of a head changes, and the test error at the interpolation peak.

    A threshold that is not known for a head is None, and the status says so.

    Attributes
    ----------
    interpolation : float or None
        Up to here all labels can be fitted exactly as λ → 0⁺; for hard labels equal to ``separability``.
    recovery : float or None
        From here on λ → 0⁺ gives S = S*; infinite with noise, and for a target that the learner cannot represent.
    bayes_optimal : float or None
        From here on the best possible learner, which knows the spectrum of the target, recovers it from labels without
        noise.
    direct : float or None
        Interpolation threshold when S is trained directly.
    emergence : float
        Below it S = 0 minimises the objective at the learner's weight decay.
    emergence_spinodal : float or None
        Sample ratio at which S = 0 becomes unstable, where the map emerges discontinuously; None where it emerges
        continuously.
    map_spinodal : float or None
        Sample ratio below which S = 0 is the only solution, where the map emerges discontinuously; between it and
        ``emergence_spinodal`` both solutions exist.
    peak_test_error : float or None
        Test error at interpolation as λ → 0⁺; None for hard labels.
    separability : float or None
        Up to here hard labels can be fitted; None for soft labels.
    unasked_emergence : float or None
        Number of samples over d, not d², from which on the logits that all queries share are learned (D4); None where
        tokens have no mean, or it is not known.
    certificate : Certificate
        Status, kind of truth and warnings.
    task, learner : Task, Learner
        The problem.
    """

    MEANINGS: ClassVar[dict[str, str]] = {
        "interpolation": "up to here every label can be fitted (λ → 0⁺)",
        "recovery": "from here on λ → 0⁺ finds the target exactly (no noise)",
        "bayes_optimal": "the best possible learner recovers from here on (no noise)",
        "direct": "interpolation when S is trained directly",
        "emergence": "below it S = 0 at the weight decay of the learner",
        "emergence_spinodal": "from here on S = 0 is unstable (several solutions below it)",
        "map_spinodal": "below it S = 0 is the only solution",
        "peak_test_error": "test error at interpolation (λ → 0⁺)",
        "separability": "up to here hard labels can be fitted",
        "unasked_emergence": "n/d from which on the logits that all queries share are learned",
    }
    _RARE: ClassVar[tuple[str, ...]] = ("emergence_spinodal", "map_spinodal", "unasked_emergence")

    interpolation: float | None
    recovery: float | None
    bayes_optimal: float | None
    direct: float | None
    emergence: float
    emergence_spinodal: float | None
    map_spinodal: float | None
    peak_test_error: float | None
    separability: float | None
    unasked_emergence: float | None
    certificate: Certificate
    task: Task
    learner: Learner


@validate_problem(learner=optional(instance(Learner, "Learner()")))
def thresholds(task: Task, learner: Learner | None = None) -> Thresholds:
    """Sample ratios where the behaviour of a head changes (4).

    Parameters
    ----------
    task : Task
        What is learned.
    learner : Learner, optional
        Its width and parametrisation set interpolation, its weight decay emergence.

    Returns
    -------
    Thresholds
        Interpolation, recovery, Bayes-optimal recovery, direct interpolation and emergence.

    Raises
    ------
    InvalidArgument
        If the theory does not cover this combination of task and learner.
    SolveError
        If a threshold could not be solved for.

    Examples
    --------
    >>> from onehead.aim import Task, thresholds
    >>> found = thresholds(Task())
    >>> round(found.interpolation, 8), round(found.peak_test_error, 4)
    (0.1534821, 0.5011)
    """
    learner = learner if learner is not None else Learner()
    problem = build_state_evolution(task, learner)
    if problem.output.loss.hard:
        return _hard_label_thresholds(task, learner, problem)
    ratio, state = problem.input.interpolation(problem.labels)
    # without a state (direct training, or a target without positive mean) the ridgeless solution diverges to pure noise
    peak = problem.output.noise_error if state is None else _peak(problem, state)
    warnings = [NARROW] if problem.narrow_interpolation or problem.narrow_recovery else []
    if ratio > problem.direct_interpolation:
        # A of a narrow learner can exceed one (3); direct training can represent every narrow map and is an upper bound
        ratio = problem.direct_interpolation
        warnings.append(
            "interpolation is set to that of direct training, an upper bound: the theory of a learner this narrow "
            "exceeds it"
        )
    known = problem.ridgeless
    transition = emergence_transition(problem)
    if transition.zero_spinodal is None:
        warnings += unsearched(problem)
    first = unasked_emergence(problem, task.token_mean) if task.unasked else None
    unrecovered = _why_never_recovered(problem) if known else RECOVERY_UNKNOWN
    return Thresholds(
        interpolation=ratio,
        recovery=problem.recovery if known else None,
        bayes_optimal=problem.bayes_optimal if known else None,
        direct=problem.direct_interpolation,
        emergence=transition.ratio,
        emergence_spinodal=transition.zero_spinodal,
        map_spinodal=transition.map_spinodal,
        peak_test_error=peak,
        separability=None,
        unasked_emergence=None if first is None else first[0],
        certificate=Certificate(
            status=f"converged{unrecovered}{_why_no_first(task, first)}",
            kind="heuristic" if warnings else "conjecture" if task.depends_on_kurtosis else "claim",
            residual=state.residual if state is not None else 0.0,
            errors={} if first is None else {"unasked_emergence": first[1]},
            warnings=tuple(warnings),
        ),
        task=task,
        learner=learner,
    )


def _peak(problem: StateEvolution, state: Interpolating) -> float:
    """Test error at interpolation, as λ → 0⁺."""
    return problem.output.fresh_loss(*problem.interpolating(state.overlaps).values, loss="squared")


def _hard_label_thresholds(task: Task, learner: Learner, problem: StateEvolution) -> Thresholds:
    """Thresholds of hard labels: separability where it is known, and emergence; exact recovery is impossible (U7.1)."""
    found = problem.separability
    transition = emergence_transition(problem)
    ratio, error = found if found is not None else (None, None)
    first = unasked_emergence(problem, task.token_mean) if task.unasked else None
    errors = {} if error is None else {"separability": error, "interpolation": error, "direct": error}
    unknown = "" if found is not None else f"; separability is computed only for {KNOWN}"
    return Thresholds(
        interpolation=ratio,
        recovery=INFINITE,
        bayes_optimal=INFINITE,
        direct=ratio,
        emergence=transition.ratio,
        emergence_spinodal=transition.zero_spinodal,
        map_spinodal=transition.map_spinodal,
        peak_test_error=None,
        separability=ratio,
        unasked_emergence=None if first is None else first[0],
        certificate=Certificate(
            status=f"converged; recovery is infinite: a drawn label is never sure{unknown}{_why_no_first(task, first)}",
            kind="conjecture",
            errors=errors if first is None else errors | {"unasked_emergence": first[1]},
        ),
        task=task,
        learner=learner,
    )


def _why_no_first(task: Task, first: tuple[float, float] | None) -> str:
    """End of the status that says why the emergence of the unasked part is not given; empty if it is."""
    return UNASKED_UNKNOWN if task.unasked and first is None else ""


def _why_never_recovered(problem: StateEvolution) -> str:
    """End of the status that says why exact recovery is impossible; empty if it is possible."""
    reason = "the labels are noisy" if problem.noise > 0.0 else problem.input.misfit_reason
    return "" if reason is None else f"; recovery is infinite: the target is never found exactly, because {reason}"


@dataclass(frozen=True, kw_only=True)
class Plateau(Result):
    """The head trained on infinitely many samples: S is ``shrinkage`` times the best representable part of the target.

    That is the target without its negative eigenvalues and, below full width, with the largest of the others only;
    direct training can represent any target.

    Attributes
    ----------
    shrinkage : float
        Factor c of the target in S, in the learner's units.
    test_error : float
        Test error, labels with noise.
    task, learner : Task, Learner
        The problem.
    """

    shrinkage: float
    test_error: float
    task: Task
    learner: Learner


@validate_problem(learner=optional(instance(Learner, "Learner()")))
def plateau(task: Task, learner: Learner | None = None) -> Plateau:
    """Limit of infinitely many samples: S → c P, P the representable part of S*, c minimising the loss (8.1).

    Parameters
    ----------
    task : Task
        What is learned.
    learner : Learner, optional
        The head; its weight decay has no effect in this limit.

    Returns
    -------
    Plateau
        Shrinkage factor c and test error.

    Raises
    ------
    InvalidArgument
        If the theory does not cover this combination of task and learner.

    Examples
    --------
    >>> from onehead.aim import Task, plateau
    >>> end = plateau(Task())
    >>> round(end.shrinkage, 4), round(end.test_error, 5)
    (0.8762, 0.07408)
    """
    learner = learner if learner is not None else Learner()
    end = plateau_of(build_state_evolution(task, learner))
    shrinkage = end.c * task.beta0 / learner.beta
    return Plateau(shrinkage=shrinkage, test_error=end.test_error, task=task, learner=learner)
