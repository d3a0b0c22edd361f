"""Bayes-optimal inference on finite data: message passing, or Gibbs samples of the exact posterior (B.5).

Negative sequences carry no information about the signal, so that only the tokens X of the n+ positive ones are kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, get_args

import numpy as np

from onehead.errors import InvalidArgument
from onehead.numerics.interrupts import raise_if_interrupted, record_interrupts
from onehead.results import Certificate, Result
from onehead.results.replicates import Measured, mean_and_spread
from onehead.sparse.losses import Array
from onehead.sparse.solve.bayes import state_equation
from onehead.sparse.task import PosteriorMethod, PosteriorStart, Task, place_signal
from onehead.sparse.theory.bayes_rule import bayes_error, log_likelihood_ratio
from onehead.sparse.theory.features import MAX_LENGTH
from onehead.sparse.theory.token_samples import token_sample
from onehead.sparse.training.samplers import streams
from onehead.sparse.verbs.bayes import check_exchangeable_positions
from onehead.validation import Seed, checked, instance, integer, number, one_of, seed_number, valid_seed

QUANTITIES = ("overlap", "test_error")
BURN_IN_SHARE = 0.25  # share of the Gibbs sweeps that are discarded
TEST_LOG2_POINTS = 15  # log2 of the number of fresh test sequences per class
MAX_TOKEN_ENTRIES = 200_000_000  # upper limit of the entries of all stored tokens


class SearchRun(NamedTuple):
    """One run: final overlap with the signal, test error, and the overlap after every iteration."""

    overlap: float
    test_error: float
    trace: Array


@dataclass(frozen=True, kw_only=True)
class AmpStep(Result):
    """One iteration: mean overlap over runs, its standard error, and the overlap predicted by state evolution."""

    iteration: int
    overlap: float
    overlap_err: float
    overlap_theory: float


@dataclass(frozen=True, kw_only=True)
class AmpResult(Measured):
    """Message passing or Gibbs sampling at finite dimension: means over runs, and the prediction for the same data.

    The prediction is the smallest root of the state equation for an uninformed start, the largest for a start at the
    truth. Gibbs samples have no state evolution; their ``steps`` hold only the overlap of each sweep.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("runs",)
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("method", "dim", "trials", "overlap", "overlap_theory", "test_error")
    _REPEATS: ClassVar[str] = "trials"
    _COMPARED: ClassVar[tuple[str, ...]] = QUANTITIES
    _SPREAD_EXPONENT: ClassVar[float] = 0.5
    MEANINGS: ClassVar[dict[str, str]] = {
        "overlap": "overlap of the estimate with the signal",
        "overlap_theory": "overlap predicted by the theory",
        "test_error": "share of mistakes on fresh samples",
        "test_error_theory": "test error predicted by the theory",
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
    runs: tuple[SearchRun, ...]
    certificate: Certificate


def state_evolution(task: Task, alpha: float, iterations: int, start: str = "uninformed") -> Array:
    """Return q after every iteration of q'/(1-q') = alpha pi theta^2 M(theta^2 q), from q = 0 or q = 1 (B.5)."""
    equation, rate = state_equation(task), alpha * task.positive_rate * task.strength**2
    q, trace = 1.0 if start == "truth" else 0.0, []
    for _ in range(iterations):
        gain = rate * equation.evidence(q).found_positions
        q = gain / (1.0 + gain)
        trace.append(q)
    return np.array(trace)


@checked(
    task=instance(Task, "Task()"),
    alpha=number(above=0.0),
    dim=integer(3),
    method=one_of(get_args(PosteriorMethod)),
    start=one_of(get_args(PosteriorStart)),
    iterations=integer(1),
    trials=integer(1),
    seed=valid_seed,
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
    seed: Seed = 0,
    progress: Callable[[], None] | None = None,
) -> AmpResult:
    """Estimate the signal from sampled data as the Bayes-optimal learner does, in several independent runs (B.5).

    Ctrl-C stops the computation and returns the completed runs.

    Parameters
    ----------
    task : Task
        Data of the classification problem; its positions must be exchangeable.
    alpha : float
        Labelled sequences over dimension.
    dim : int
        Dimension d of a token, at least 3.
    method : {"amp", "gibbs"}
        Message passing, or Gibbs samples of the exact posterior.
    start : {"uninformed", "truth"}
        Starting point; in a hard phase the two lead to different results.
    iterations : int
        Iterations of message passing, or Gibbs sweeps, of which the first quarter is discarded.
    trials : int
        Number of independent runs.
    seed : int or numpy.random.Generator
        Seed of the random numbers.
    progress : callable, optional
        Called after each run.

    Returns
    -------
    AmpResult
        Means and spreads over runs, the theory for the same data, and the overlap of every iteration.

    Raises
    ------
    InvalidArgument
        If an argument is out of range, the task has no signal, or the tokens would not fit into memory.

    Examples
    --------
    >>> found = amp(Task(length=10, strength=3.0), 1.0, dim=200, iterations=20, trials=4)
    >>> abs(found.overlap - found.overlap_theory) < 4.0 * found.overlap_err + 0.02
    True
    """
    check_exchangeable_positions(task)
    if task.strength == 0.0:
        raise InvalidArgument("strength", task.strength, "a number > 0; without a signal there is nothing to estimate")
    if task.length > MAX_LENGTH:
        raise InvalidArgument("length", task.length, f"an integer <= {MAX_LENGTH} for message passing")
    count = max(1, round(alpha * dim))
    if count * task.length * dim > MAX_TOKEN_ENTRIES:
        raise InvalidArgument("dim", dim, f"such that all tokens have at most {MAX_TOKEN_ENTRIES:,} entries")
    ratio, run = count / dim, _amp if method == "amp" else _gibbs
    found: list[SearchRun] = []
    try:
        with record_interrupts():
            for rng in streams(seed_number(seed), trials):
                found.append(run(_Data.draw(task, count, dim, rng), start, iterations, rng))
                raise_if_interrupted()
                if progress is not None:
                    progress()
    except KeyboardInterrupt:
        if not found:
            raise
    return _result(task, alpha, ratio, dim, method, start, trials, found)


def _result(
    task: Task, alpha: float, ratio: float, dim: int, method: str, start: str, trials: int, found: Sequence[SearchRun]
) -> AmpResult:
    """Return means over runs and the theory at the sample ratio that was sampled, a multiple of 1/d."""
    means, spread = mean_and_spread(found, QUANTITIES)
    root = state_equation(task).roots(ratio).all[-1 if start == "truth" else 0]
    traces = np.array([one.trace for one in found])
    length = traces.shape[1]
    theory = state_evolution(task, ratio, length, start) if method == "amp" else np.full(length, np.nan)
    errors = traces.std(axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.full(length, np.nan)
    columns: list[Any] = [traces.mean(axis=0).tolist(), errors.tolist(), theory.tolist()]
    done = f"mean of {len(found)} runs at d = {dim}"
    return AmpResult(
        task=task,
        alpha=float(alpha),
        samples=round(ratio * dim),
        method=method,
        start=start,
        dim=dim,
        trials=len(found),
        **means,
        overlap_theory=root.value,
        test_error_theory=bayes_error(task.changed(strength=task.strength * float(np.sqrt(root.value))))[0],
        spread=spread,
        steps=tuple(
            AmpStep(iteration=t + 1, overlap=q, overlap_err=error, overlap_theory=predicted)
            for t, (q, error, predicted) in enumerate(zip(*columns, strict=True))
        ),
        runs=tuple(found),
        certificate=Certificate(
            status=done if len(found) == trials else f"interrupted: {done}, of {trials} asked for", kind="measurement"
        ),
    )


@dataclass(frozen=True)
class _Data:
    """Tokens (n+ L, d) of the positive sequences and their signal masks; the signal is the first basis vector."""

    task: Task
    dim: int
    tokens: Array
    mask: Array

    @classmethod
    def draw(cls, task: Task, count: int, dim: int, rng: np.random.Generator) -> "_Data":
        """Sample the positive ones of ``count`` sequences."""
        positive = int(rng.binomial(count, task.positive_rate))
        mask = place_signal(task, rng, np.ones(positive))
        tokens = rng.standard_normal((positive * task.length, dim))
        tokens[:, 0] += task.strength * mask.ravel()
        return cls(task, dim, tokens, mask)

    def marginals(self, logits: Array) -> Array:
        """Return the probability that each position carries the signal, for weights e^logit of the positions."""
        from onehead.sparse.kernels import marginals  # numba is loaded when first needed

        L, R = self.task.length, self.task.signal_tokens
        if R == L:
            return np.ones_like(logits)
        rows = np.ascontiguousarray(logits.reshape(-1, L))
        out = np.empty_like(rows)
        marginals(rows, R, out)
        return out.ravel()

    def sample_places(self, logits: Array, rng: np.random.Generator) -> Array:
        """Sample signal masks with weights e^logit of the positions."""
        from onehead.sparse.kernels import sample_subsets

        L, R = self.task.length, self.task.signal_tokens
        if R == L:
            return np.ones_like(logits)
        rows = np.ascontiguousarray(logits.reshape(-1, L))
        out = np.empty_like(rows)
        sample_subsets(rows, R, rng.random(rows.shape), out)
        return out.ravel()

    def trial(self, estimate: Array, trace: list[float]) -> SearchRun:
        """Return overlap and test error of an estimate of the posterior mean."""
        overlap, norm2 = float(estimate[0]), float(estimate @ estimate)
        return SearchRun(overlap, _test_error(self.task, overlap, norm2), np.array(trace))


def _test_error(task: Task, overlap: float, norm2: float) -> float:
    """Return the test error of an estimate with component ``overlap`` along the signal and squared norm ``norm2``.

    Projections of fresh tokens on the estimate are N(theta <estimate, signal> v_l, |estimate|^2).
    """
    R, rate = task.signal_tokens, task.positive_rate
    sample = token_sample(task.length, R, TEST_LOG2_POINTS)
    norm = float(np.sqrt(max(norm2, 1e-300)))
    shift, root = task.strength * overlap / norm, task.strength * norm
    prior = float(np.log(rate / (1.0 - rate)))
    plus, minus = (
        log_likelihood_ratio(x, root, R, 0.5 * root**2 * R) + prior > 0.0
        for x in (np.concatenate([sample.signal + shift, sample.noise], axis=1), sample.minus)
    )
    return float(rate * sample.weight_plus @ ~plus + (1.0 - rate) * sample.weight_minus @ minus)


def _amp(data: _Data, start: str, iterations: int, rng: np.random.Generator) -> SearchRun:
    """Run message passing for u = sqrt(d) times the direction and the marginals v of the positions (B.5).

    The Onsager terms subtract from each message the contribution of its own previous value.
    """
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
        raise_if_interrupted()
    return data.trial(u / np.sqrt(d), trace)


def _gibbs(data: _Data, start: str, iterations: int, rng: np.random.Generator) -> SearchRun:
    """Run Gibbs sampling: the direction given the signal masks (Gaussian), then the masks given the direction.

    The estimate averages the conditional mean of the direction over sweeps.
    """
    theta, d = data.task.strength, data.dim
    precision = d + theta**2 * len(data.mask) * data.task.signal_tokens
    v = data.mask.ravel() if start == "truth" else data.sample_places(np.zeros(len(data.tokens)), rng)
    total, averaged, trace = np.zeros(d), 0, []
    for sweep in range(iterations):
        mean = theta * (v @ data.tokens) / precision
        direction = mean + rng.standard_normal(d) / np.sqrt(precision)
        v = data.sample_places(theta * (data.tokens @ direction), rng)
        trace.append(float(mean[0]))
        if sweep >= int(BURN_IN_SHARE * iterations):
            total, averaged = total + mean, averaged + 1
        raise_if_interrupted()
    return data.trial(total / averaged, trace)
