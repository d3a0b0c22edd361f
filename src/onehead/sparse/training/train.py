"""The protocol on real samples at finite dimension: trials, standard errors, separability (S1.5, S8)."""

from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np

from onehead.arguments import checked, optional, whole
from onehead.errors import InvalidArgument
from onehead.measured import spreads
from onehead.numerics.gaussian import cumulative
from onehead.numerics.parallel import thread_map
from onehead.results import Certificate
from onehead.sparse.equations.features import affordable, attention_features, pooled_features
from onehead.sparse.losses import Array, Loss
from onehead.sparse.solve.readout import gaussian_error
from onehead.sparse.task import PROBLEM, Mode, Protocol, Task, check_model, check_test_length, draw, place_signal
from onehead.sparse.training.minimise import Readout, descend, fit, separable
from onehead.sparse.training.results import QUANTITIES, TrainingResult, Trial
from onehead.sparse.training.samplers import (
    Query,
    Readable,
    attend,
    attention_sample,
    first_steps,
    pooled_sample,
    token_first_steps,
    vectorised_sample,
)

__all__ = ["Mode", "separable_share", "train"]

MODES: tuple[Mode, ...] = ("reduced", "tokens", "joint")

TEST_POINTS = 13  # log2 of the points of the exact test error in the reduced mode
TEST_SAMPLES = 4000  # fresh sequences of the token-level modes
BLOCK = 20_000_000  # numbers held at once while testing on tokens
MOST_PATTERNS = 2000  # sets of signal places averaged over in the test error of the vectorised model


@checked(**PROBLEM, dim=whole(3), trials=whole(1), seed=whole(0), test_length=optional(whole(1)))
def train(
    task: Task,
    protocol: Protocol,
    *,
    model: str = "attention",
    dim: int = 1000,
    trials: int = 8,
    seed: int = 0,
    mode: str = "reduced",
    test_length: int | None = None,
    progress: Callable[[], None] | None = None,
) -> TrainingResult:
    """Run the protocol ``trials`` times at dimension ``dim`` and average.

    Parameters
    ----------
    mode : str
        ``reduced`` draws exactly the law of what matters (S1.5) and needs no test data; ``tokens``
        stores every token and tests on fresh ones; ``joint`` trains query and readout together on all data by
        gradient descent (attention only), beside which the staged prediction can be laid.
    test_length : int, optional
        Length of the test sequences, when it differs from the length trained on.
    progress : callable, optional
        Called after each trial, for progress.

    Every trial has its own random stream, so the answer does not depend on how many run at once.

    Examples
    --------
    >>> plan = Protocol(alpha1=2.0, cos_query=0.9, sharpness=2.0, ridge=0.1, loss="square")
    >>> runs = train(Task(), plan, dim=200, trials=4)
    >>> abs(runs.test_error - 0.07) < 0.03, runs.certificate.kind
    (True, 'measurement')
    """
    check_model(model)
    _check(task, protocol, model, mode, test_length)

    def run(source: np.random.SeedSequence) -> Trial:
        rng = np.random.default_rng(source)
        trial = _RUNS[mode](task, protocol, model, dim, rng, test_length)
        if progress is not None:
            progress()
        return trial

    found = thread_map(run, np.random.SeedSequence(seed).spawn(trials), level="trial")
    return _measurement(task, protocol, model, mode, dim, found)


def _check(task: Task, protocol: Protocol, model: str, mode: str, test_length: int | None) -> None:
    if mode not in MODES:
        raise InvalidArgument("mode", mode, " or ".join(MODES))
    if mode == "joint" and model != "attention":
        raise InvalidArgument("model", model, "attention when query and readout are trained jointly")
    if mode == "joint" and protocol.cos_query is not None:
        raise InvalidArgument("cos_query", protocol.cos_query, "None when the query is trained jointly")
    check_test_length(task, model, test_length)


def _measurement(
    task: Task, protocol: Protocol, model: str, mode: str, dim: int, found: Sequence[Trial]
) -> TrainingResult:
    """Means and spreads; the linear models have no query."""
    means, spread = spreads(found, QUANTITIES)
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


def _trial(sample: Readable, readout: Readout, loss: Loss, test_error: float, query: Query) -> Trial:
    margin = sample.label * (sample.features @ readout.weights + readout.bias)
    return Trial(
        test_error=test_error,
        train_loss=float(loss.value(margin).mean()),
        train_error=float((margin < 0.0).mean()),
        cos_query=query.cos,
        sharpness=query.sharpness,
        residual=readout.residual,
    )


def _count(alpha: float, dim: int) -> int:
    return max(2, round(alpha * dim))


def _given(protocol: Protocol) -> Query | None:
    if protocol.cos_query is None or protocol.sharpness is None:
        return None
    return Query(protocol.cos_query, protocol.sharpness)


def _reduced(
    task: Task, protocol: Protocol, model: str, dim: int, rng: np.random.Generator, test_length: int | None
) -> Trial:
    """Exact in law; the test error is an average over the law of the features."""
    query = Query(0.0, 0.0)
    if model == "attention":
        query = _given(protocol) or first_steps(task, protocol, dim, rng)
        sample = attention_sample(task, query, _count(protocol.alpha1, dim), dim, rng)
        readout = fit(sample, protocol.loss, protocol.ridge)
        law = attention_features(
            task,
            cos_query=query.cos,
            sharpness=query.sharpness,
            log2_points=affordable(TEST_POINTS, test_length or task.length),
            seed=0,
            length=test_length,
        )
        coefficients = np.array([readout.weights[0], readout.weights[1], readout.bias])
        error = gaussian_error(law, coefficients, float(np.linalg.norm(readout.weights[1:])))
        return _trial(sample, readout, protocol.loss, error, query)
    samples = _count(protocol.alpha, dim)
    if model == "pooled":
        sample = pooled_sample(task, samples, dim, rng)
        readout = fit(sample, protocol.loss, protocol.ridge)
        coefficients = np.array([readout.weights[0], readout.bias])
        norm = float(np.linalg.norm(readout.weights))
        error = gaussian_error(pooled_features(task, length=test_length), coefficients, norm)
    else:
        sample = vectorised_sample(task, samples, dim, rng)
        readout = fit(sample, protocol.loss, protocol.ridge)
        error = _vectorised_error(task, readout, rng)
    return _trial(sample, readout, protocol.loss, error, query)


def _vectorised_error(task: Task, readout: Readout, rng: np.random.Generator) -> float:
    """pi mean_v Phi(-(theta <v, w_signal> + b)/|w|) + (1-pi) Phi(b/|w|)."""
    if comb(task.length, task.signal_tokens) <= MOST_PATTERNS:
        masks, odds = task.patterns()
    else:
        masks = place_signal(task, rng, np.ones(MOST_PATTERNS))
        odds = np.full(MOST_PATTERNS, 1.0 / MOST_PATTERNS)
    norm = max(float(np.linalg.norm(readout.weights)), 1e-300)
    shift = task.strength * (masks @ readout.weights[: task.length]) + readout.bias
    pi = task.positive_rate
    return float(pi * odds @ cumulative(-shift / norm) + (1.0 - pi) * cumulative(readout.bias / norm))


def _tokens(
    task: Task, protocol: Protocol, model: str, dim: int, rng: np.random.Generator, test_length: int | None
) -> Trial:
    """Nothing reduced: tokens are stored, and the test is on fresh ones."""
    query, vector = Query(0.0, 0.0), np.zeros(dim)
    samples = _count(protocol.alpha1 if model == "attention" else protocol.alpha, dim)
    if model == "attention":
        query = _given(protocol) or token_first_steps(task, protocol, dim, rng)
        vector = query.vector if query.vector is not None else _vector_of(query, protocol.beta, dim)
    see = _eye(model, vector, protocol.beta)
    data = draw(task, rng, samples=samples, dim=dim)
    sample = Readable(data.label, see(data.tokens))
    readout = fit(sample, protocol.loss, protocol.ridge)
    error = _fresh_error(task, see, readout, dim, rng, test_length)
    return _trial(sample, readout, protocol.loss, error, query)


def _joint(
    task: Task, protocol: Protocol, model: str, dim: int, rng: np.random.Generator, test_length: int | None
) -> Trial:
    """Query and readout together, on all the data."""
    data = draw(task, rng, samples=_count(protocol.alpha, dim), dim=dim)
    vector, readout = descend(data.label, data.tokens, protocol)
    see = _eye(model, vector, protocol.beta)
    norm = float(np.linalg.norm(vector))
    query = Query(float(vector @ data.signal) / norm if norm > 0.0 else 0.0, protocol.beta * norm)
    error = _fresh_error(task, see, readout, dim, rng, test_length)
    return _trial(Readable(data.label, see(data.tokens)), readout, protocol.loss, error, query)


_RUNS = {"reduced": _reduced, "tokens": _tokens, "joint": _joint}


def _vector_of(query: Query, beta: float, dim: int) -> Array:
    """A query vector with the given cosine and sharpness."""
    vector = np.zeros(dim)
    vector[0], vector[1] = query.cos, np.sqrt(max(1.0 - query.cos**2, 0.0))
    return vector * (query.sharpness / beta if beta > 0.0 else 0.0)


def _eye(model: str, query: Array, beta: float) -> Callable[[Array], Array]:
    """What the readout of a model sees of a batch of tokens."""
    if model == "attention":
        return lambda tokens: attend(tokens, query, beta)
    if model == "pooled":
        return lambda tokens: np.asarray(tokens.mean(axis=1))
    return lambda tokens: tokens.reshape(len(tokens), -1)


def _fresh_error(
    task: Task,
    see: Callable[[Array], Array],
    readout: Readout,
    dim: int,
    rng: np.random.Generator,
    test_length: int | None,
) -> float:
    """Share of mistakes on fresh sequences, drawn in blocks."""
    if test_length is not None:
        task = task.changed(length=test_length, positions=None)
    block = max(1, min(TEST_SAMPLES, BLOCK // (task.length * dim)))
    wrong = 0
    for first in range(0, TEST_SAMPLES, block):
        fresh = draw(task, rng, samples=min(block, TEST_SAMPLES - first), dim=dim)
        wrong += int((fresh.label * (see(fresh.tokens) @ readout.weights + readout.bias) < 0.0).sum())
    return wrong / TEST_SAMPLES


@checked(**PROBLEM, dim=whole(3), trials=whole(1), seed=whole(0))
def separable_share(
    task: Task,
    protocol: Protocol,
    *,
    model: str = "attention",
    dim: int = 100,
    trials: int = 20,
    seed: int = 0,
) -> float:
    """Share of finite samples that a hyperplane separates, by linear programming; beside `capacity`.

    Examples
    --------
    >>> plan = Protocol(alpha1=1.0, cos_query=0.5, sharpness=1.0)
    >>> separable_share(Task(strength=2.0), plan, dim=40, trials=4)
    1.0
    """
    check_model(model)

    def run(source: np.random.SeedSequence) -> bool:
        rng = np.random.default_rng(source)
        if model == "attention":
            query = _given(protocol) or first_steps(task, protocol, dim, rng)
            return separable(attention_sample(task, query, _count(protocol.alpha1, dim), dim, rng))
        draw_sample = pooled_sample if model == "pooled" else vectorised_sample
        return separable(draw_sample(task, _count(protocol.alpha, dim), dim, rng))

    return float(np.mean(thread_map(run, np.random.SeedSequence(seed).spawn(trials), level="trial")))
