"""Prediction at finite dimension: the theory of the readout averaged over sampled queries (S8).

The test error is convex in the alignment, so that at small alpha0 and finite dimension its mean over trials lies above
the prediction at the mean alignment. The two gradient steps are cheap to sample; the readout is predicted for each.
"""

from dataclasses import dataclass
from typing import ClassVar

from onehead.errors import InvalidArgument
from onehead.results import Certificate
from onehead.results.replicates import Measured, mean_and_spread
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task
from onehead.sparse.training.samplers import first_steps, streams
from onehead.sparse.training.train import QUANTITIES
from onehead.sparse.verbs.predict import Prediction, predict, predict_to_error
from onehead.validation import Seed, checked, integer, seed_number, valid_seed

PREDICTION_ERROR = 1e-3  # error of the prediction for each query; the spread between trials is larger


@dataclass(frozen=True, kw_only=True)
class FiniteSize(Answer, Measured):
    """Prediction of attention at dimension ``dim``, averaged over sampled queries.

    ``limit`` is the test error at d -> infinity; ``spread`` holds standard deviations (``_std``) and errors (``_err``).
    """

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("dim", "trials", "test_error", "limit")
    _REPEATS: ClassVar[str] = "trials"
    MEANINGS: ClassVar[dict[str, str]] = {**Prediction.MEANINGS, "limit": "test error at infinite dimension"}

    model: str
    dim: int
    trials: int
    test_error: float
    train_loss: float
    train_error: float
    cos_query: float
    sharpness: float
    spread: dict[str, float]
    limit: float
    certificate: Certificate


@checked(**PROBLEM, dim=integer(3), trials=integer(2), seed=valid_seed)
def finite_size(task: Task, protocol: Protocol, *, dim: int, trials: int = 40, seed: Seed = 0) -> FiniteSize:
    """Predict attention at finite dimension: sample the query, predict the readout, and average (S8).

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Training protocol; its query must come from the two gradient steps.
    dim : int
        Dimension d of a token, at least 3.
    trials : int
        Number of sampled queries, at least 2.
    seed : int or numpy.random.Generator
        Seed of the random numbers.

    Returns
    -------
    FiniteSize
        Means and spreads over trials, and the limit of infinite dimension.

    Raises
    ------
    InvalidArgument
        If an argument is out of range, or the protocol fixes ``cos_query``.
    SolveError
        If the equations of the readout are not solved for one of the queries.

    Examples
    --------
    >>> found = finite_size(Task(), Protocol(alpha0=0.25, alpha1=0.25, ridge=1e-3), dim=300, trials=8)
    >>> found.test_error > found.limit, found.certificate.kind
    (True, 'heuristic')
    """
    if protocol.cos_query is not None:
        raise InvalidArgument("cos_query", protocol.cos_query, "None: a given query does not vary between trials")
    queries = [first_steps(task, protocol, dim, rng) for rng in streams(seed_number(seed), trials)]
    points = [
        predict_to_error(task, protocol.changed(cos_query=query.cos, sharpness=query.sharpness), PREDICTION_ERROR)
        for query in queries
    ]
    means, spread = mean_and_spread(points, QUANTITIES)
    limit = predict(task, protocol)
    return FiniteSize(
        task=task,
        protocol=protocol,
        model="attention",
        dim=dim,
        trials=trials,
        **means,
        spread=spread | {"limit_err": limit.errors["test_error"]},
        limit=limit.test_error,
        certificate=Certificate(
            status=f"mean over {trials} sampled queries at d = {dim}",
            kind="heuristic",
            residual=max(point.certificate.residual for point in points),
            quadrature_error=max(point.certificate.quadrature_error for point in points),
        ),
    )
