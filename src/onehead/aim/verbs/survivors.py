"""survivors(): which of several learner heads stay alive where there is one target head (M8)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any, ClassVar

import numpy as np

from onehead.aim.flat_parameters import validate_problem
from onehead.aim.solve.several_heads import solve_several_heads
from onehead.aim.solve.survivors import PopulationMinimum, population_minima
from onehead.aim.task import Learner, Task
from onehead.aim.theory.build import build_several_heads, build_state_evolution
from onehead.errors import InvalidArgument
from onehead.results import Certificate, Result
from onehead.validation import valid_seed

QUANTILES = 40  # of the singular values of a target, in the limit of infinitely many samples
ALIVE = 1e-3  # scale of a head relative to the largest, above which it is alive
POPULATION = "converged: the limit of infinitely many samples"
SAME_OBJECTIVE = 1e-5  # relative difference of objectives up to which minima are the same
SMALLEST_BLUR = 1e-7  # of the law of the target, from which its quantiles are taken
WEAK_DECAY = (
    "the state with one head alive is a local minimum at every weight decay; where decay is weak, in training at "
    "alpha = 1 below 0.01 to 0.02, several heads stay alive by fitting noise and have a lower objective, for which "
    "there is no theory"
)


@dataclass(frozen=True, kw_only=True)
class Start(Result):
    """The minimum that one start reaches.

    Attributes
    ----------
    start : str
        Where the maps and the scales of the heads begin.
    alive : int
        Number of heads that are not zero.
    objective : float
        Objective there, over d², and over the sample ratio where that is infinite.
    """

    start: str
    alive: int
    objective: float


@dataclass(frozen=True, kw_only=True)
class TrainedHeads(Result):
    """What training from one start reaches.

    Attributes
    ----------
    start : str
        Where the weights begin.
    alive : int
        Number of heads that are not zero.
    objective : float
        Objective over d².
    scales, trace_norms : tuple of float
        Scales of the values and mean singular values of the maps, the largest head first.
    q, m, test_error : float
        Overlaps of the largest head, and the squared error on fresh samples.
    ended : str
        How the minimisation ended.
    """

    start: str
    alive: int
    objective: float
    scales: tuple[float, ...]
    trace_norms: tuple[float, ...]
    q: float
    m: float
    test_error: float
    ended: str


@dataclass(frozen=True, kw_only=True)
class Survivors(Result):
    """Learner heads with values of their own, of which the target has one head.

    Attributes
    ----------
    alpha : float
        Sample ratio; infinite for the population limit.
    alive : int
        Number of heads that are not zero in the lowest minimum.
    scales : tuple of float
        Scale of the values of every head, relative to the target's, the largest first.
    trace_norms : tuple of float
        Mean singular value of the query-key map of every head.
    q, m : float
        |S|²/d and Tr S'S*/d of the largest head.
    test_error : float
        Squared error on a fresh sample, labels with noise.
    objective : float
        Objective over d²; in the population limit over the sample ratio as well.
    starts : tuple of Start
        Minima reached from several starts, in the population limit.
    trained : tuple of TrainedHeads
        What training of heads of finite size reaches from several starts, by `train_survivors`.
    certificate : Certificate
        Status, kind of truth and warnings.
    task, learner : Task, Learner
        The problem.
    """

    MEANINGS: ClassVar[dict[str, str]] = {
        "alive": "heads that are not zero",
        "scales": "size of the values of every head, over the target's",
        "trace_norms": "mean singular value of the map of every head",
        "q": "|S|²/d of the largest head",
        "m": "Tr S'S*/d of the largest head",
        "test_error": "on fresh samples, labels with noise",
        "objective": "at the minimum",
    }

    alpha: float
    alive: int
    scales: tuple[float, ...]
    trace_norms: tuple[float, ...]
    q: float
    m: float
    test_error: float
    objective: float
    starts: tuple[Start, ...]
    certificate: Certificate
    task: Task
    learner: Learner
    trained: tuple[TrainedHeads, ...] = ()


def _alpha(name: str, value: Any) -> None:
    """Check a sample ratio that may be infinite."""
    allowed = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0.0
    if not allowed or not (value <= 1e6 or value == inf):
        raise InvalidArgument(name, value, "a number > 0 and <= 1e+06, or inf")


@validate_problem(alpha=_alpha, seed=valid_seed)
def survivors(
    task: Task,
    learner: Learner,
    alpha: float,
    *,
    seed: int = 0,
    progress: Callable[[], None] | None = None,
) -> Survivors:
    """Tell which of several learner heads survive where the target has one head.

    With weight decay on values as well as on query and key, a head of size P costs a multiple of the square root of P:
    the larger head wins and the others vanish, query-key and values together. With fixed values nothing vanishes.

    Parameters
    ----------
    task : Task
        What is learned; ``heads`` is the number of learner heads. Cross-attention with two tokens and soft labels.
    learner : Learner
        The heads, with ``values="learnt"``; ``value_decay`` λ_v is by default the weight decay. The penalty over d² is
        λ times the trace norm of every map plus λ_v times the scale of its values: weight decay on all four matrices.
    alpha : float
        Sample ratio. For infinity both weight decays are per sample ratio, λ/α.
    seed : int
        Seed of the random start.
    progress : callable, optional
        Called when the minima are found.

    Returns
    -------
    Survivors

    Raises
    ------
    InvalidArgument
        If an argument is not allowed, or there is no theory for the combination.

    Examples
    --------
    >>> from onehead import aim
    >>> task, learner = aim.Task(attention="cross", heads=2), aim.Learner(weight_decay=0.1, values="learnt")
    >>> found = aim.survivors(task, learner, float("inf"))
    >>> found.alive, [round(scale, 3) for scale in found.scales]
    (1, [0.98, 0.0])
    """
    if learner.values == "fixed":
        raise InvalidArgument("values", "fixed", "learnt: with fixed values no head vanishes")
    if task.tokens != 2 or learner.param != "factorised":
        name, value, allowed = (
            ("tokens", task.tokens, "2 for survivors") if task.tokens != 2 else ("param", "direct", "factorised here")
        )
        raise InvalidArgument(name, value, allowed)
    if task.sharing:
        raise InvalidArgument("sharing", task.sharing, "0 for survivors: the target has one head")
    _ = build_several_heads(task.changed(heads=1), learner)  # refuses what has no theory
    found = _population(task, learner, seed) if alpha == inf else _one_alive(task, learner, alpha)
    if progress is not None:
        progress()
    return found


def _singular_values(task: Task) -> np.ndarray:
    """Singular values of the target in reduced units: all of a list, quantiles of a law."""
    target = task.target
    if target.values is not None:
        values = np.sort(np.abs(target.values))[::-1]
        if len(values) > QUANTILES:
            places, wanted = ((np.arange(n) + 0.5) / n for n in (len(values), QUANTILES))
            values = np.interp(wanted, places, values)
    else:
        law, shares = target.singular_law(SMALLEST_BLUR), (np.arange(QUANTILES) + 0.5) / QUANTILES
        values = np.array([law.quantile_above(0.5 * share) if share < target.rank else 0.0 for share in shares])
    return np.asarray(task.beta0 * values * np.sqrt(target.second_moment / np.mean(values**2)))


def _population(task: Task, learner: Learner, seed: int) -> Survivors:
    """Minima of the population objective from several starts."""
    target = _singular_values(task)
    power = task.beta0**2 * (task.target.second_moment + 0.5 * task.noise)
    decays = learner.decay / learner.beta, learner.value_decay or learner.decay
    minima = population_minima(target, task.heads, power, *decays, np.random.default_rng(seed))
    best = minima[0]
    order = np.argsort(-np.abs(best.scales))
    values, scales = best.values[order], best.scales[order]
    loss = (
        best.objective - decays[0] * float(np.abs(values).sum()) / len(target) - decays[1] * float(np.abs(scales).sum())
    )
    gap = (minima[-1].objective - best.objective) / abs(best.objective)
    warnings: tuple[str, ...] = ()
    if gap > SAME_OBJECTIVE:
        warnings = (f"starts end in minima whose objectives differ by up to {gap:.1e}, relative; the lowest is given",)
    return Survivors(
        alpha=inf,
        alive=_alive(best),
        scales=tuple(scales.tolist()),
        trace_norms=tuple((np.abs(values).mean(axis=1) / learner.beta).tolist()),
        q=float(np.mean(values[0] ** 2)) / learner.beta**2,
        m=float(np.mean(values[0] * target)) / (learner.beta * task.beta0),
        test_error=loss,
        objective=best.objective,
        starts=tuple(Start(start=one.start, alive=_alive(one), objective=one.objective) for one in minima),
        certificate=Certificate(status=POPULATION, kind="conjecture", warnings=warnings),
        task=task,
        learner=learner,
    )


def _alive(minimum: PopulationMinimum) -> int:
    """Number of heads that are not zero: those whose map, or whose values, are not."""
    sizes = np.abs(minimum.scales) * np.abs(minimum.values).mean(axis=1)
    return int(np.sum(sizes > ALIVE * max(float(sizes.max()), 1e-300))) if sizes.max() > 1e-9 else 0


def _one_alive(task: Task, learner: Learner, alpha: float) -> Survivors:
    """The minimum with one head alive at a finite sample ratio (M8.3)."""
    one = task.changed(heads=1)
    problem = build_several_heads(one, learner)
    problem = replace(problem, values=replace(problem.values, penalty="lengths"))
    single = build_state_evolution(one, learner.changed(leading=0, values="fixed", value_decay=None))
    solution = solve_several_heads(problem, single, alpha)
    state, (to_q, to_m) = solution.state, single.units.own(1.0, 1.0)
    alive, dead = int(solution.overlaps.rank > 0.0), (0.0,) * (task.heads - 1)
    certificate = Certificate.of(
        solution.certificate, warnings=(*solution.certificate.warnings, *((WEAK_DECAY,) if task.heads > 1 else ()))
    )
    return Survivors(
        alpha=alpha,
        alive=alive,
        scales=(float(state.scales[0]), *dead),
        trace_norms=(float(solution.overlaps.tau) / learner.beta, *dead),
        q=to_q * float(state.q[0]),
        m=to_m * float(state.m[0]),
        test_error=problem.output.fresh_error(state),
        objective=solution.train,
        starts=(),
        certificate=certificate,
        task=task,
        learner=learner,
    )
