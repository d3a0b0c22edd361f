"""Training of the protocol on finite samples: trials, standard errors, separability (S1.5, S8)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any, ClassVar, NamedTuple

import numpy as np

from onehead.errors import Diverged, InvalidArgument
from onehead.numerics.gaussian import cumulative
from onehead.numerics.parallel import thread_map
from onehead.results import Certificate
from onehead.results.replicates import Measured, mean_and_spread
from onehead.sparse.losses import Array
from onehead.sparse.solve.descent import Plan
from onehead.sparse.solve.readout import gaussian_error
from onehead.sparse.task import (
    MAX_PATTERNS,
    PROBLEM,
    Answer,
    Mode,
    Protocol,
    Task,
    check_model,
    check_test_length,
    draw,
    place_signal,
)
from onehead.sparse.theory.features import affordable, attention_features, pooled_features
from onehead.sparse.training.joint_descent import descent_run
from onehead.sparse.training.minimise import Readout, fit, separable, train_jointly
from onehead.sparse.training.samplers import (
    LabelledFeatures,
    SampledQuery,
    attend,
    attention_sample,
    first_steps,
    pooled_sample,
    query_from_tokens,
    streams,
    token_first_steps,
    vectorised_sample,
)
from onehead.sparse.verbs.predict import Prediction
from onehead.validation import Seed, checked, integer, optional, seed_number, valid_seed

MODES: tuple[Mode, ...] = ("reduced", "tokens", "joint")

TEST_LOG2_POINTS = 13  # log2 of the points per class for the test error of the reduced mode
TEST_SAMPLES = 4000  # fresh test sequences of the modes that store tokens
MAX_BLOCK_ENTRIES = 20_000_000  # numbers in memory at once while testing on tokens

QUANTITIES = ("test_error", "train_loss", "train_error", "cos_query", "sharpness")


class Trial(NamedTuple):
    """Numbers of one run of the protocol."""

    test_error: float
    train_loss: float
    train_error: float
    cos_query: float
    sharpness: float
    residual: float


@dataclass(frozen=True, kw_only=True)
class TrainingResult(Answer, Measured):
    """Means over trials of a trained model.

    ``spread`` holds the standard deviation over trials (``_std``) and the standard error (``_err``) of each mean.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("protocol", "runs")
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("model", "dim", "trials", "test_error", "train_loss", "cos_query")
    _REPEATS: ClassVar[str] = "trials"
    _COMPARED: ClassVar[tuple[str, ...]] = ("test_error", "train_loss", "cos_query")
    _SPREAD_EXPONENT: ClassVar[float] = 0.5
    MEANINGS: ClassVar[dict[str, str]] = Prediction.MEANINGS

    model: str
    mode: str
    dim: int
    trials: int
    test_error: float
    train_loss: float
    train_error: float
    cos_query: float | None
    sharpness: float | None
    spread: dict[str, float]
    runs: tuple[Trial, ...]
    certificate: Certificate
    steps: int | None = None

    @property
    def trial_errors(self) -> tuple[float, ...]:
        """Test error of every trial."""
        return tuple(run.test_error for run in self.runs)

    def _comparable(self) -> tuple[str, ...]:
        """Return the quantities to compare with theory, without the query if the protocol fixes it."""
        given = self.protocol.cos_query is not None
        return tuple(name for name in super()._comparable() if name != "cos_query" or not given)


@checked(
    **PROBLEM,
    dim=integer(3),
    trials=integer(1),
    seed=valid_seed,
    test_length=optional(integer(1)),
    steps=optional(integer(1)),
)
def train(
    task: Task,
    protocol: Protocol,
    *,
    model: str = "attention",
    dim: int = 1000,
    trials: int = 8,
    seed: Seed = 0,
    mode: str = "reduced",
    test_length: int | None = None,
    steps: int | None = None,
    progress: Callable[[], None] | None = None,
) -> TrainingResult:
    """Run the protocol ``trials`` times at dimension ``dim`` and average.

    Every trial has its own random stream, so that the result does not depend on the number of threads.

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Training protocol.
    model : {"attention", "pooled", "vectorised"}
        Model to train; the linear ones are trained on all alpha0 + alpha1.
    dim : int
        Dimension d of a token, at least 3.
    trials : int
        Number of independent runs.
    seed : int or numpy.random.Generator
        Seed of the random numbers.
    mode : {"reduced", "tokens", "joint"}
        ``reduced`` samples the exact law of the features (S1.5) and needs no test data; ``tokens`` stores every token
        and tests on fresh ones; ``joint`` trains query and readout together on all data (attention only): to the
        minimum of the loss with both ridges, which `joint` predicts, or for a number of ``steps``.
    test_length : int, optional
        Length of the test sequences, if it differs from the training length; not for ``vectorised``.
    steps : int, optional
        Steps of joint gradient descent with the rates of the protocol, as `descend` predicts them.
    progress : callable, optional
        Called after each trial.

    Returns
    -------
    TrainingResult
        Means and spreads over trials.

    Raises
    ------
    InvalidArgument
        If an argument is out of range.
    SolveError
        If a readout is not trained to its minimum.

    Examples
    --------
    >>> plan = Protocol(alpha1=2.0, cos_query=0.9, sharpness=2.0, ridge=0.1, loss="square")
    >>> runs = train(Task(), plan, dim=200, trials=4)
    >>> abs(runs.test_error - 0.07) < 0.03, runs.certificate.kind
    (True, 'measurement')
    """
    check_model(model)
    _check(task, protocol, model, mode, test_length)
    if mode != "joint" and (steps is not None or protocol.ridge_query != 0.0):
        name, value, default = ("steps", steps, None) if steps is not None else ("ridge_query", protocol.ridge_query, 0)
        raise InvalidArgument(name, value, f"{default} unless query and readout are trained jointly (mode joint)")
    trial = getattr(_Trials(task, protocol, model, dim, test_length, steps), mode)

    def run(rng: np.random.Generator) -> Trial:
        found: Trial = trial(rng)
        if progress is not None:
            progress()
        return found

    trained = thread_map(run, streams(seed_number(seed), trials), level="trial")
    return replace(_measurement(task, protocol, model, mode, dim, trained), steps=steps)


def _check(task: Task, protocol: Protocol, model: str, mode: str, test_length: int | None) -> None:
    """Refuse combinations of arguments that cannot be trained."""
    if mode not in MODES:
        raise InvalidArgument("mode", mode, " or ".join(MODES), MODES)
    if mode == "joint" and model != "attention":
        raise InvalidArgument("model", model, "attention when query and readout are trained jointly")
    if protocol.reuse and (mode != "tokens" or model != "attention" or protocol.cos_query is not None):
        raise InvalidArgument(
            "reuse", True, "left out unless attention finds its query from stored tokens (mode tokens)"
        )
    if mode == "joint" and protocol.cos_query is not None:
        raise InvalidArgument("cos_query", protocol.cos_query, "left out when the query is trained jointly")
    check_test_length(task, model, test_length)


def _measurement(
    task: Task, protocol: Protocol, model: str, mode: str, dim: int, found: Sequence[Trial]
) -> TrainingResult:
    """Return means and spreads over trials; the linear models have no query."""
    means, spread = mean_and_spread(found, QUANTITIES)
    numbers: dict[str, Any] = dict(means)
    if model != "attention":
        for name in ("cos_query", "sharpness"):
            numbers[name] = None
            spread |= {f"{name}_std": np.nan, f"{name}_err": np.nan}
    return TrainingResult(
        task=task,
        protocol=protocol,
        model=model,
        mode=mode,
        dim=dim,
        trials=len(found),
        **numbers,
        spread=spread,
        runs=tuple(found),
        certificate=Certificate(
            status=f"mean of {len(found)} trials at d = {dim}",
            kind="measurement",
            residual=max(trial.residual for trial in found),
        ),
    )


def sample_count(alpha: float, dim: int) -> int:
    """Return the number of samples of a readout at a sample ratio.

    >>> sample_count(1.5, 20)
    30
    """
    return max(2, round(alpha * dim))


@dataclass(frozen=True)
class _Trials:
    """Trials of one protocol on fresh data, with one method per mode."""

    task: Task
    protocol: Protocol
    model: str
    dim: int
    test_length: int | None = None
    steps: int | None = None

    @property
    def samples(self) -> int:
        """Number of samples that the readout is trained on."""
        return self.count(self.protocol.readout_samples(self.model))

    def count(self, alpha: float) -> int:
        """Return the number of samples at a sample ratio."""
        return sample_count(alpha, self.dim)

    def query(
        self, steps: Callable[[Task, Protocol, int, np.random.Generator], SampledQuery], rng: np.random.Generator
    ) -> SampledQuery:
        """Return the query as given, or from two gradient steps; zero for linear models, which have none."""
        if self.model != "attention":
            return SampledQuery(0.0, 0.0)
        if self.protocol.cos_query is None or self.protocol.sharpness is None:
            return steps(self.task, self.protocol, self.dim, rng)
        return SampledQuery(self.protocol.cos_query, self.protocol.sharpness)

    def sample(self, rng: np.random.Generator) -> tuple[LabelledFeatures, SampledQuery]:
        """Return labels and features of the readout, exact in law, and the query."""
        query = self.query(first_steps, rng)
        if self.model == "attention":
            return attention_sample(self.task, query, self.samples, self.dim, rng), query
        draw_sample = pooled_sample if self.model == "pooled" else vectorised_sample
        return draw_sample(self.task, self.samples, self.dim, rng), query

    def reduced(self, rng: np.random.Generator) -> Trial:
        """Run a trial on features that are exact in law; the test error is an average over their law."""
        sample, query = self.sample(rng)
        readout = fit(sample, self.protocol.loss, self.protocol.ridge)
        return self.trial(sample, readout, self.exact_error(query, readout, rng), query)

    def exact_error(self, query: SampledQuery, readout: Readout, rng: np.random.Generator) -> float:
        """Return the test error of a readout as an average over the law of the features."""
        if self.model == "vectorised":
            return _vectorised_error(self.task, readout, rng)
        if self.model == "pooled":
            law, columns, noise_weights = pooled_features(self.task, length=self.test_length), 1, readout.weights
        else:
            law = attention_features(
                self.task,
                cos_query=query.cos,
                sharpness=query.sharpness,
                log2_points=affordable(TEST_LOG2_POINTS, self.test_length or self.task.length),
                seed=0,
                length=self.test_length,
            )
            columns, noise_weights = 2, readout.weights[1:]
        return gaussian_error(
            law, np.append(readout.weights[:columns], readout.bias), float(np.linalg.norm(noise_weights))
        )

    def tokens(self, rng: np.random.Generator) -> Trial:
        """Run a trial on stored tokens, with a test on fresh ones."""
        data = draw(self.task, rng, samples=self.samples, dim=self.dim) if self.protocol.reuse else None
        query = self.query(token_first_steps, rng) if data is None else query_from_tokens(self.protocol, data)
        vector = query.vector if query.vector is not None else _query_vector(query, self.protocol.beta, self.dim)
        features_of = _feature_map(self.model, vector, self.protocol.beta)
        if data is None:
            data = draw(self.task, rng, samples=self.samples, dim=self.dim)
        sample = LabelledFeatures(data.label, features_of(data.tokens))
        readout = fit(sample, self.protocol.loss, self.protocol.ridge)
        return self.trial(sample, readout, self.fresh_error(features_of, readout, rng), query)

    def joint(self, rng: np.random.Generator) -> Trial:
        """Run a trial that trains query and readout together on all data."""
        if self.steps is not None:
            return self.descent(self.steps, rng)
        data = draw(self.task, rng, samples=self.count(self.protocol.alpha), dim=self.dim)
        vector, readout = train_jointly(data.label, data.tokens, self.protocol)
        features_of = _feature_map(self.model, vector, self.protocol.beta)
        error = self.fresh_error(features_of, readout, rng)
        query = SampledQuery.of(vector, data.signal, self.protocol.beta)
        return self.trial(LabelledFeatures(data.label, features_of(data.tokens)), readout, error, query)

    def descent(self, steps: int, rng: np.random.Generator) -> Trial:
        """Run a trial of joint gradient descent with the rates of the protocol."""
        numbers = list(descent_run(self.task, self.protocol, Plan(steps), self.dim, rng, test_length=self.test_length))
        if len(numbers) < steps:
            raise Diverged(f"the weights diverge after step {len(numbers)}; lower the rates.")
        return Trial(**{name: getattr(numbers[-1], name) for name in QUANTITIES}, residual=0.0)

    def fresh_error(self, features_of: Callable[[Array], Array], readout: Readout, rng: np.random.Generator) -> float:
        """Return the share of mistakes on fresh sequences, sampled in blocks."""
        task = self.task
        if self.test_length is not None:
            task = task.changed(length=self.test_length, positions=None)
        block = max(1, min(TEST_SAMPLES, MAX_BLOCK_ENTRIES // (task.length * self.dim)))
        wrong = 0
        for first in range(0, TEST_SAMPLES, block):
            fresh = draw(task, rng, samples=min(block, TEST_SAMPLES - first), dim=self.dim)
            wrong += int((fresh.label * (features_of(fresh.tokens) @ readout.weights + readout.bias) < 0.0).sum())
        return wrong / TEST_SAMPLES

    def trial(self, sample: LabelledFeatures, readout: Readout, test_error: float, query: SampledQuery) -> Trial:
        """Return the numbers of a trained readout."""
        margin = sample.label * (sample.features @ readout.weights + readout.bias)
        return Trial(
            test_error=test_error,
            train_loss=float(self.protocol.loss.value(margin).mean()),
            train_error=float((margin < 0.0).mean()),
            cos_query=query.cos,
            sharpness=query.sharpness,
            residual=readout.residual,
        )


def _vectorised_error(task: Task, readout: Readout, rng: np.random.Generator) -> float:
    """Return pi mean_v Phi(-(theta <v, w_signal> + b)/|w|) + (1-pi) Phi(b/|w|), the error of the vectorised model."""
    if comb(task.length, task.signal_tokens) <= MAX_PATTERNS:
        masks, odds = task.patterns()
    else:
        masks = place_signal(task, rng, np.ones(MAX_PATTERNS))
        odds = np.full(MAX_PATTERNS, 1.0 / MAX_PATTERNS)
    norm = max(float(np.linalg.norm(readout.weights)), 1e-300)
    shift = task.strength * (masks @ readout.weights[: task.length]) + readout.bias
    pi = task.positive_rate
    return float(pi * odds @ cumulative(-shift / norm) + (1.0 - pi) * cumulative(readout.bias / norm))


def _query_vector(query: SampledQuery, beta: float, dim: int) -> Array:
    """Return a query vector with the given cosine and sharpness."""
    vector = np.zeros(dim)
    vector[0], vector[1] = query.cos, np.sqrt(max(1.0 - query.cos**2, 0.0))
    return vector * (query.sharpness / beta if beta > 0.0 else 0.0)


def _feature_map(model: str, query: Array, beta: float) -> Callable[[Array], Array]:
    """Return the map from a batch of tokens to the features of a model."""
    if model == "attention":
        return lambda tokens: attend(tokens, query, beta)
    if model == "pooled":
        return lambda tokens: np.asarray(tokens.mean(axis=1))
    return lambda tokens: tokens.reshape(len(tokens), -1)


@checked(**PROBLEM, dim=integer(3), trials=integer(1), seed=valid_seed)
def separable_share(
    task: Task,
    protocol: Protocol,
    *,
    model: str = "attention",
    dim: int = 100,
    trials: int = 20,
    seed: Seed = 0,
) -> float:
    """Return the share of finite samples that a hyperplane separates, by linear programming; compare with `capacity`.

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Training protocol, which sets the sample ratios and the query.
    model : {"attention", "pooled", "vectorised"}
        Model whose features are to be separated.
    dim : int
        Dimension d of a token, at least 3.
    trials : int
        Number of independent samples.
    seed : int or numpy.random.Generator
        Seed of the random numbers.

    Returns
    -------
    float
        Share of separable samples, between 0 and 1.

    Raises
    ------
    InvalidArgument
        If an argument is out of range.

    Examples
    --------
    >>> plan = Protocol(alpha1=1.0, cos_query=0.5, sharpness=1.0)
    >>> separable_share(Task(strength=2.0), plan, dim=40, trials=4)
    1.0
    """
    check_model(model)
    sampler = _Trials(task, protocol, model, dim)
    found = thread_map(lambda rng: separable(sampler.sample(rng)[0]), streams(seed_number(seed), trials), level="trial")
    return float(np.mean(found))
