"""Prediction of the protocol without training: alignment, then the readout, then its errors (S4, S8)."""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from onehead.errors import NotConverged
from onehead.results import Certificate, wrap_sentences
from onehead.sparse.losses import Array, Hinge, Loss
from onehead.sparse.solve.hinge import bias_is_free
from onehead.sparse.solve.readout import COLLAPSED, errors_of, needs_gauss, solve_readout
from onehead.sparse.solve.replicate_error import solve_replicates
from onehead.sparse.solve.square import ridgeless_limit
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task, check_model, check_test_length
from onehead.sparse.theory.alignment import Query, query_of
from onehead.sparse.theory.features import (
    Features,
    affordable,
    attention_features,
    linear_features,
    pooled_features,
    stated_error,
    with_gauss,
)
from onehead.sparse.theory.order_parameters import Solution
from onehead.validation import checked, integer, number, optional

FIRST_LOG2_POINTS, MAX_LOG2_POINTS = 12, 17  # log2 of the points per class of the first sample and of the last
LOG2_COARSENING = 2  # reduction of log2 of the points of the first sample if an error of 1e-3, or of 1 %, is sufficient
RIDGELESS_LOG2_POINTS = 17  # closed forms: many points cost little
SCRAMBLING_SEED = 0  # seed of the Sobol points
UNIFORM_SHARPNESS = 0.5  # sharpness below which more than e^(-1/4) = 78 % of the tokens share the attention
# Trial values of a bias that the equations do not determine, to bound the error.
FREE_BIAS_GRID = np.concatenate([-np.geomspace(1.0, 1e-6, 31), [0.0], np.geomspace(1e-6, 1.0, 31)])
# Factor by which an error may fall when the points are doubled; an estimate that fell more is too optimistic.
MAX_ERROR_REDUCTION = 3.0


@dataclass(frozen=True, kw_only=True)
class Prediction(Answer):
    """Errors of a trained readout for d -> infinity, and its order parameters (S4.2).

    ``query_weight`` is a (along the query), ``signal_weight`` m (along the signal orthogonal to it), ``bias`` b,
    ``rest_norm`` rp (norm of the remaining weights), ``step`` chi. ``errors`` holds the error of each number; fewer
    than one number in a hundred is off by more than three errors.
    """

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("model", "test_error", "train_loss", "train_error")
    MEANINGS: ClassVar[dict[str, str]] = {
        "test_error": "share of mistakes on fresh samples",
        "train_loss": "training loss, without the ridge",
        "train_error": "share of mistakes on training samples",
        "cos_query": "cosine of the query with the signal",
        "sharpness": "beta times the length of the query",
    }

    model: str
    test_error: float
    train_loss: float
    train_error: float
    cos_query: float | None
    sharpness: float | None
    query_weight: float | None
    signal_weight: float
    bias: float
    rest_norm: float
    step: float
    certificate: Certificate

    def explain(self) -> str:
        """Describe in sentences what the numbers mean for this readout.

        Examples
        --------
        >>> from onehead.sparse import Protocol, Task, predict
        >>> print(predict(Task(), Protocol(), model="pooled").explain().splitlines()[0])
        The readout of the pooled model, trained on n = 2 d samples, errs on 31.9% of fresh
        """
        chance = min(self.task.positive_rate, 1.0 - self.task.positive_rate)
        samples = self.protocol.readout_samples(self.model)
        along = f"{self.signal_weight:.4g} along the signal"
        if self.query_weight is not None:
            along = (
                f"{self.query_weight:.4g} along the query, {self.signal_weight:.4g} along the signal orthogonal to it"
            )
        return wrap_sentences(
            [
                f"The readout of the {self.model} model, trained on n = {samples:g} d samples, errs on "
                f"{self.test_error:.1%} of fresh sequences; guessing errs on {chance:.1%}.",
                f"On its training samples it errs on {self.train_error:.1%}, with a loss of {self.train_loss:.4g}.",
                *self._explain_query(),
                f"Its weights: {along}, {self.rest_norm:.4g} in directions without signal; bias {self.bias:.4g}.",
                *self._closing(),
            ]
        )

    def _explain_query(self) -> list[str]:
        """Return a sentence on the query; linear models have none."""
        if self.cos_query is None or self.sharpness is None:
            return []
        where = "towards" if self.cos_query > 0.0 else "away from"
        return [
            f"Query: cosine {self.cos_query:.3f} with the signal, so that it points {where} it; sharpness "
            f"{self.sharpness:.3g} (0 is the plain mean of the tokens, infinity the largest token only).",
            *self._explain_uniform_attention(self.sharpness),
        ]

    def _explain_uniform_attention(self, sharpness: float) -> list[str]:
        """Return a sentence on attention that is close to a plain mean, and what to change; else nothing.

        Weights e^(kappa g) of Gaussian tokens have a participation ratio of L e^(-kappa^2).
        """
        if sharpness >= UNIFORM_SHARPNESS or self.task.length == 1:
            return []
        if self.protocol.cos_query is not None:
            advice = "raise sharpness"
        elif sharpness > 0.0:  # the sharpness is proportional to eta_q beta^2
            advice = f"raise beta, to {self.protocol.beta / np.sqrt(sharpness):.3g} for a sharpness of 1"
        else:
            advice = "choose beta and eta_q different from 0"
        share = np.exp(-(sharpness**2))
        return [
            f"Attention is nearly uniform, over {share:.0%} of the tokens in effect, and hardly better than pooling: "
            f"{advice}, or let tune choose the temperature."
        ]


class _Quantities(NamedTuple):
    """Numbers of a prediction; the weight along the query is NaN for linear models."""

    test_error: float
    train_loss: float
    train_error: float
    query_weight: float
    signal_weight: float
    bias: float
    rest_norm: float
    step: float


class _Solved(NamedTuple):
    """Solution of a readout on one sample, its numbers and their errors."""

    solution: Solution
    numbers: _Quantities
    errors: _Quantities
    bias_is_free: bool  # whether the equations leave the bias undetermined


class _Goal(NamedTuple):
    """Wanted error of the test error, relative or absolute."""

    error: float
    relative: bool = False

    @property
    def is_modest(self) -> bool:
        """Whether the search for the number of points may start with fewer."""
        return self.error >= (1e-2 if self.relative else 1e-3)

    def met(self, found: _Solved) -> bool:
        """Return whether a solution meets the goal."""
        return found.errors.test_error <= self.error * (found.numbers.test_error if self.relative else 1.0)

    def missed(self, found: _Solved) -> str:
        """Return a sentence on the error that was reached instead."""
        error, value = found.errors.test_error, found.numbers.test_error
        if self.relative and value > 0.0:
            return f"the test error is good to {error / value:.1e}, relative, not to {self.error:g}."
        return f"the quadrature error {error:.1e} is above the wanted {self.error:.1e}."


DEFAULT_GOAL = _Goal(2e-4)


@checked(**PROBLEM, test_length=optional(integer(1)), accuracy=optional(number(above=0.0)))
def predict(
    task: Task,
    protocol: Protocol,
    *,
    model: str = "attention",
    test_length: int | None = None,
    accuracy: float | None = None,
) -> Prediction:
    """Predict test error, training loss and training error of one of the three models (S4, S8).

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Training protocol; with ``reuse`` both stages use all samples (J15), and the ridge must be positive.
    model : {"attention", "pooled", "vectorised"}
        Model to predict; the linear ones are trained on all alpha0 + alpha1.
    test_length : int, optional
        Length of the test sequences, if it differs from the training length; not for ``vectorised``.
    accuracy : float, optional
        Wanted relative error of the test error. Points are doubled until it is met, up to 2^17 per class; a warning
        says if it is not. By default the absolute error is below 2e-4.

    Returns
    -------
    Prediction
        Test error, training loss and training error, order parameters, and the error of each number.

    Raises
    ------
    InvalidArgument
        If an argument is out of range.
    SolveError
        If the equations are not solved, or the limit of the ridge is not known for the loss.

    Examples
    --------
    >>> plan = Protocol(alpha1=1.5, ridge=1e-2, cos_query=0.9, sharpness=2.0, loss="square")
    >>> point = predict(Task(length=10, signal_tokens=1, strength=5.0), plan)
    >>> round(point.test_error, 3), point.certificate.status
    (0.107, 'converged')
    """
    check_model(model)
    check_test_length(task, model, test_length)
    if protocol.reuse:
        from onehead.sparse.verbs.reuse import predict_reused  # imports this module

        return predict_reused(task, protocol, model=model, test_length=test_length, accuracy=accuracy)
    goal = DEFAULT_GOAL if accuracy is None else _Goal(accuracy, relative=True)
    return _predict(task, protocol, model, test_length, goal)


def predict_to_error(task: Task, protocol: Protocol, error: float, *, model: str = "attention") -> Prediction:
    """Predict to a given absolute error of the test error, for maps and searches."""
    return _predict(task, protocol, model, None, _Goal(error))


def _predict(task: Task, protocol: Protocol, model: str, test_length: int | None, goal: _Goal) -> Prediction:
    """Return the prediction of a model to the wanted accuracy."""
    if model == "attention":
        query = query_of(task, protocol)
        found = _refine(task, protocol, query, test_length, goal)
        return _prediction(task, protocol, model, found, goal, query)
    features = linear_features(task, model)
    if needs_gauss(protocol.loss):
        features = with_gauss(features)
    fresh = None if test_length is None else pooled_features(task, length=test_length)
    # the vectorised model has dimension L d, hence the ratio alpha / L (S4.6)
    alpha = protocol.alpha if model == "pooled" else protocol.alpha / task.length
    return _prediction(task, protocol, model, _solve(protocol, alpha, features, fresh), goal)


def _solve(
    protocol: Protocol, alpha: float, features: Features, fresh: Features | None, start: Array | None = None
) -> _Solved:
    """Solve the readout of ``alpha`` samples over dimension and estimate its errors; ``fresh`` is the test law."""
    loss, ridge = protocol.loss, protocol.ridge
    solution = solve_readout(features, loss, alpha=alpha, ridge=ridge, start=start)
    numbers = _quantities(features, loss, solution, fresh)
    replicates = features.replicates()
    fresh_replicates = [fresh] * len(replicates) if fresh is None or not fresh.replicate_sizes else fresh.replicates()
    solutions = solve_replicates(features, loss, solution, alpha=alpha, ridge=ridge)
    with np.errstate(all="ignore"):
        rows = [
            _quantities(replicate, loss, own_solution, test)
            for replicate, own_solution, test in zip(replicates, solutions, fresh_replicates, strict=True)
        ]
    errors = _Quantities(*stated_error(np.array(numbers), np.array(rows), sampled=features.sampled).tolist())
    if solution.status != COLLAPSED:
        errors = errors._replace(test_error=errors.test_error + features.missed_probability)
    if np.isfinite(solution.chi):
        errors = errors._replace(train_error=errors.train_error + features.missed_probability)
    free = isinstance(loss, Hinge) and bias_is_free(features, solution)
    if free:
        x = solution.x
        others = [replace(solution, x=np.append(x[:-1], bias)) for bias in FREE_BIAS_GRID]
        deviations = [np.abs(np.subtract(_quantities(features, loss, other, fresh), numbers)) for other in others]
        errors = _Quantities(*np.maximum(errors, np.max(deviations, axis=0)).tolist())
    return _Solved(solution, numbers, errors, free)


def _quantities(features: Features, loss: Loss, solution: Solution, fresh: Features | None) -> _Quantities:
    """Return the numbers of a solution; with weighted positions the weight along the signal is a norm."""
    x = solution.x
    on_signal = x[features.is_signal]
    return _Quantities(
        *errors_of(features, loss, solution, test_features=fresh),
        query_weight=float(x[0]) if features.is_query[0] else np.nan,
        signal_weight=float(on_signal[0] if on_signal.size == 1 else np.linalg.norm(on_signal)),
        bias=float(x[-1]),
        rest_norm=solution.rp,
        step=solution.chi,
    )


def _refine(task: Task, protocol: Protocol, query: Query, test_length: int | None, goal: _Goal) -> _Solved:
    """Solve attention on a sample that is doubled until the goal is met, each solution starting the next."""

    def sample(level: int, length: int | None) -> Features:
        return attention_features(task, **query, log2_points=level, seed=SCRAMBLING_SEED + level, length=length)

    longest = max(task.length, test_length or 1)
    first = affordable(FIRST_LOG2_POINTS - (LOG2_COARSENING if goal.is_modest else 0), longest)
    start: Array | None = None
    last = np.zeros(len(_Quantities._fields))
    for level in range(first, affordable(MAX_LOG2_POINTS, longest) + 1):
        features = sample(level, None)
        fresh = None if test_length is None else sample(level, test_length)
        if level == first:
            start = _first_guess(protocol, features)
        found = _solve(protocol, protocol.alpha1, features, fresh, start)
        errors = _Quantities(*np.maximum(found.errors, last / MAX_ERROR_REDUCTION).tolist())
        found, last, start = found._replace(errors=errors), np.array(errors), found.solution.start
        if goal.met(found) or found.bias_is_free:
            break
    return found


def _first_guess(protocol: Protocol, features: Features) -> Array | None:
    """Return the solution of one replicate as a start; None if the smaller sample has no solution."""
    try:
        replicate = features.replicates()[0]
        return solve_readout(replicate, protocol.loss, alpha=protocol.alpha1, ridge=protocol.ridge).start
    except NotConverged:
        return None


def _prediction(
    task: Task, protocol: Protocol, model: str, found: _Solved, goal: _Goal, query: Query | None = None
) -> Prediction:
    """Return the public result of a solved readout."""
    solution, numbers, errors = found.solution, found.numbers._asdict(), found.errors._asdict()
    if query is None:
        numbers["query_weight"] = None
        del errors["query_weight"]
    return Prediction(
        task=task,
        protocol=protocol,
        model=model,
        **numbers,
        cos_query=None if query is None else query["cos_query"],
        sharpness=None if query is None else query["sharpness"],
        certificate=Certificate(
            status=solution.status,
            kind="claim",
            residual=solution.residual,
            quadrature_error=found.errors.test_error,
            errors=errors,
            evaluations=solution.evaluations,
            warnings=_warnings(query, found, goal),
        ),
    )


def _warnings(query: Query | None, found: _Solved, goal: _Goal) -> tuple[str, ...]:
    """Return warnings about alignment, bias and accuracy."""
    warnings = []
    if query is not None and query["cos_query"] < 0.0:
        warnings.append(f"the query is anti-aligned (cos {query['cos_query']:.3f}): it points away from the signal.")
    if found.bias_is_free:
        warnings.append("the ridge keeps every margin below one, so that nothing determines the bias; lower ridge.")
    elif not goal.met(found):
        warnings.append(goal.missed(found))
    return tuple(warnings)


@checked(**PROBLEM)
def ridgeless(task: Task, protocol: Protocol, *, model: str = "attention") -> tuple[float, float]:
    """Return E0 and C1 of the square loss without ridge: test error = E0 + C1/alpha + O(alpha^-2) (S5).

    alpha is alpha1 for attention and all samples over dimension for the linear models.

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Fixes the query of attention; sample ratios and ridge are not used by the linear models.
    model : {"attention", "pooled", "vectorised"}
        Model to expand.

    Returns
    -------
    tuple of float
        The limit E0 and the coefficient C1.

    Raises
    ------
    InvalidArgument
        If the model does not exist.
    OutsideDomain
        If the readout has no weight along the signal.

    Examples
    --------
    >>> [round(value, 6) for value in ridgeless(Task(), Protocol(), model="pooled")]
    [0.214598, 0.299969]
    """
    if check_model(model) == "attention":
        query, level = query_of(task, protocol), affordable(RIDGELESS_LOG2_POINTS, task.length)
        return ridgeless_limit(attention_features(task, **query, log2_points=level, seed=SCRAMBLING_SEED))
    limit, slope = ridgeless_limit(linear_features(task, model))
    return limit, slope if model == "pooled" else task.length * slope
