"""amp(): message passing, or samples of the exact posterior, on finite data beside the theory of the best learner (B.5).

Negative sequences say nothing of the signal; what is kept are the tokens X of the n+ positive ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, get_args

import numpy as np

from onehead.arguments import checked, instance, number, one_of, whole
from onehead.errors import InvalidArgument
from onehead.measured import Measured, spreads
from onehead.numerics.interrupts import check, heard
from onehead.results import Certificate, Result
from onehead.sparse.equations.draws import LONGEST, draws
from onehead.sparse.equations.rule import bayes_error, log_ratio
from onehead.sparse.losses import Array
from onehead.sparse.solve.bayes import state_equation
from onehead.sparse.task import Search, Start, Task, place_signal
from onehead.sparse.training.samplers import streams
from onehead.sparse.verbs.bayes import check_places

__all__ = ["AmpResult", "AmpStep", "amp", "state_evolution"]


QUANTITIES = ("overlap", "test_error")
BURNED = 0.25  # share of the sweeps that are not averaged
TEST_POINTS = 15  # log2 of the fresh sequences of each class
MOST = 200_000_000  # numbers of the tokens that are kept


class Trial(NamedTuple):
    """One run: overlap with the signal, error on fresh sequences, and the overlap of every iteration."""

    overlap: float
    test_error: float
    trace: Array


@dataclass(frozen=True, kw_only=True)
class AmpStep(Result):
    """One iteration: the mean overlap of the runs, its standard error, and what state evolution says."""

    iteration: int
    overlap: float
    overlap_err: float
    overlap_theory: float


@dataclass(frozen=True, kw_only=True)
class AmpResult(Measured):
    """Message passing or the sampled posterior at finite dimension: means over runs beside the theory of the same data.

    Theory is the smallest root of the state equation for a start without information, the largest for one at the truth. Samples
    of the posterior have no state evolution; their ``steps`` hold the overlap with the estimate of each sweep alone.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("runs",)
    _SHOWN: ClassVar[tuple[str, ...]] = ("method", "dim", "trials", "overlap", "overlap_theory", "test_error")
    _REPEATS: ClassVar[str] = "trials"
    _COMPARED: ClassVar[tuple[str, ...]] = QUANTITIES
    _FALL: ClassVar[float] = 0.5
    MEANINGS: ClassVar[dict[str, str]] = {
        "overlap": "of the estimate with the signal",
        "overlap_theory": "squared cosine of the best estimate, by the theory",
        "test_error": "share of mistakes on fresh samples",
        "test_error_theory": "by the theory",
    }

    task: Task
    alpha: float
    samples: int
    method: str
    start: str
    dim: int
    trials: int
    overlap: float
    test_error: float
    overlap_theory: float
    test_error_theory: float
    spread: dict[str, float]
    steps: tuple[AmpStep, ...]
    runs: tuple[Trial, ...]
    certificate: Certificate


def state_evolution(task: Task, alpha: float, iterations: int, start: str = "uninformed") -> Array:
    """q of every iteration: q/(1-q) = alpha pi theta^2 M(theta^2 q of the one before), from q = 0, or from 1 at the truth."""
    equation, rate = state_equation(task), alpha * task.positive_rate * task.strength**2
    q, trace = 1.0 if start == "truth" else 0.0, []
    for _ in range(iterations):
        gain = rate * equation.seen(q).found
        q = gain / (1.0 + gain)
        trace.append(q)
    return np.array(trace)


@checked(
    task=instance(Task, "Task()"),
    alpha=number(above=0.0),
    dim=whole(3),
    method=one_of(get_args(Search)),
    start=one_of(get_args(Start)),
    iterations=whole(1),
    trials=whole(1),
    seed=whole(0),
)
def amp(
    task: Task,
    alpha: float,
    *,
    dim: int = 500,
    method: str = "amp",
    start: str = "uninformed",
    iterations: int = 100,
    trials: int = 8,
    seed: int = 0,
    progress: Callable[[], None] | None = None,
) -> AmpResult:
    """Look for the signal as the best possible learner would, on ``alpha`` labelled sequences over dimension, several times.

    Parameters
    ----------
    method : {"amp", "gibbs"}
        Message passing, or Gibbs samples of the exact posterior.
    start : {"uninformed", "truth"}
        Where to begin; in a hard phase both ends differ.
    iterations : int
        Steps of message passing, or sweeps, the first quarter of which is not averaged.
    progress : callable, optional
        Called after each run. Ctrl-C ends the work and returns the runs that are done.

    Examples
    --------
    >>> found = amp(Task(length=10, strength=3.0), 1.0, dim=200, iterations=20, trials=4)
    >>> abs(found.overlap - found.overlap_theory) < 4.0 * found.overlap_err + 0.02
    True
    """
    check_places(task)
    if task.strength == 0.0:
        raise InvalidArgument("strength", task.strength, "a number > 0 where a signal is looked for")
    if task.length > LONGEST:
        raise InvalidArgument("length", task.length, f"an integer <= {LONGEST} for message passing")
    count = max(1, round(alpha * dim))
    if count * task.length * dim > MOST:
        raise InvalidArgument("dim", dim, f"such that all tokens have at most {MOST:,} entries")
    own, run = count / dim, _amp if method == "amp" else _gibbs
    found: list[Trial] = []
    try:
        with heard():
            for rng in streams(seed, trials):
                found.append(run(_Data.draw(task, count, dim, rng), start, iterations, rng))
                check()
                if progress is not None:
                    progress()
    except KeyboardInterrupt:
        if not found:
            raise
    return _result(task, alpha, own, dim, method, start, trials, found)


def _result(
    task: Task, alpha: float, own: float, dim: int, method: str, start: str, trials: int, found: Sequence[Trial]
) -> AmpResult:
    """Means beside theory, which is that of the whole number of samples that was drawn."""
    means, spread = spreads(found, QUANTITIES)
    root = state_equation(task).roots(own).all[-1 if start == "truth" else 0]
    traces = np.array([one.trace for one in found])
    length = traces.shape[1]
    theory = state_evolution(task, own, length, start) if method == "amp" else np.full(length, np.nan)
    errors = traces.std(axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.full(length, np.nan)
    columns: list[Any] = [traces.mean(axis=0).tolist(), errors.tolist(), theory.tolist()]
    done = f"mean of {len(found)} runs at d = {dim}"
    return AmpResult(
        task=task,
        alpha=float(alpha),
        samples=round(own * dim),
        method=method,
        start=start,
        dim=dim,
        trials=len(found),
        **means,
        overlap_theory=root.value,
        test_error_theory=bayes_error(task.changed(strength=task.strength * float(np.sqrt(root.value))))[0],
        spread=spread,
        steps=tuple(
            AmpStep(iteration=t + 1, overlap=q, overlap_err=error, overlap_theory=there)
            for t, (q, error, there) in enumerate(zip(*columns, strict=True))
        ),
        runs=tuple(found),
        certificate=Certificate(
            status=done if len(found) == trials else f"interrupted: {done}, of {trials} asked for", kind="measurement"
        ),
    )


@dataclass(frozen=True)
class _Data:
    """Tokens (n+ L, d) of the positive sequences, and where their signal stands; its direction is the first basis vector."""

    task: Task
    dim: int
    tokens: Array
    mask: Array

    @classmethod
    def draw(cls, task: Task, count: int, dim: int, rng: np.random.Generator) -> "_Data":
        """The positive ones of ``count`` sequences."""
        positive = int(rng.binomial(count, task.positive_rate))
        mask = place_signal(task, rng, np.ones(positive))
        tokens = rng.standard_normal((positive * task.length, dim))
        tokens[:, 0] += task.strength * mask.ravel()
        return cls(task, dim, tokens, mask)

    def marginals(self, logits: Array) -> Array:
        """Probability of every place to carry the signal, e^logit being the weights of the places of a sequence."""
        from onehead.sparse.kernels import marginals  # noqa: PLC0415  (numba is loaded when first needed)

        L, R = self.task.length, self.task.signal_tokens
        if R == L:
            return np.ones_like(logits)
        rows = np.ascontiguousarray(logits.reshape(-1, L))
        out = np.empty_like(rows)
        marginals(rows, R, out)
        return out.ravel()

    def places(self, logits: Array, rng: np.random.Generator) -> Array:
        """Places drawn with these weights."""
        from onehead.sparse.kernels import place  # noqa: PLC0415

        L, R = self.task.length, self.task.signal_tokens
        if R == L:
            return np.ones_like(logits)
        rows = np.ascontiguousarray(logits.reshape(-1, L))
        out = np.empty_like(rows)
        place(rows, R, rng.random(rows.shape), out)
        return out.ravel()

    def trial(self, estimate: Array, trace: list[float]) -> Trial:
        """What the mean of the posterior is worth."""
        own, norm2 = float(estimate[0]), float(estimate @ estimate)
        return Trial(own, _fresh_error(self.task, own, norm2), np.array(trace))


def _fresh_error(task: Task, own: float, norm2: float) -> float:
    """Mistakes of the predictive rule: fresh tokens along the estimate are N(theta <estimate, signal> v_l, |estimate|^2)."""
    sample, R, rate = draws(task.length, task.signal_tokens, TEST_POINTS), task.signal_tokens, task.positive_rate
    norm = float(np.sqrt(max(norm2, 1e-300)))
    shift, root = task.strength * own / norm, task.strength * norm
    prior = float(np.log(rate / (1.0 - rate)))
    plus, minus = (
        log_ratio(x, root, R, 0.5 * root**2 * R) + prior > 0.0
        for x in (np.concatenate([sample.signal + shift, sample.noise], axis=1), sample.minus)
    )
    return float(rate * sample.weight_plus @ ~plus + (1.0 - rate) * sample.weight_minus @ minus)


def _amp(data: _Data, start: str, iterations: int, rng: np.random.Generator) -> Trial:
    """Message passing for u = sqrt(d) times the direction and the marginals v of the places, each step less what it said itself."""
    theta, d, R = data.task.strength, data.dim, data.task.signal_tokens
    positives = len(data.mask)
    u = np.zeros(d)
    if start == "truth":
        u[0] = np.sqrt(d)
    v, spread, trace = np.zeros(len(data.tokens)), 0.0, []
    for _ in range(iterations):
        v = data.marginals(theta / np.sqrt(d) * (data.tokens @ u) - theta**2 * spread * v)
        power = float(v @ v)
        field = theta / np.sqrt(d) * (v @ data.tokens) - theta**2 * (positives * R - power) / d * u
        spread = 1.0 / (1.0 + theta**2 * power / d)
        u = field * spread
        trace.append(float(u[0] / np.sqrt(d)))
        check()
    return data.trial(u / np.sqrt(d), trace)


def _gibbs(data: _Data, start: str, iterations: int, rng: np.random.Generator) -> Trial:
    """Direction given the places (Gaussian), places given the direction; the estimate is the mean of the first given the second."""
    theta, d = data.task.strength, data.dim
    precision = d + theta**2 * len(data.mask) * data.task.signal_tokens
    v = data.mask.ravel() if start == "truth" else data.places(np.zeros(len(data.tokens)), rng)
    total, kept, trace = np.zeros(d), 0, []
    for sweep in range(iterations):
        mean = theta * (v @ data.tokens) / precision
        direction = mean + rng.standard_normal(d) / np.sqrt(precision)
        v = data.places(theta * (data.tokens @ direction), rng)
        trace.append(float(mean[0]))
        if sweep >= int(BURNED * iterations):
            total, kept = total + mean, kept + 1
        check()
    return data.trial(total / kept, trace)
