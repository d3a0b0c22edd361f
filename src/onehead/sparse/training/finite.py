"""Small samples for the query: the spread of the alignment between trials, put into the theory (S8).

The test error is convex in the alignment, so at small alpha0 and finite dimension the average over trials
lies above the prediction at the average alignment. The two gradient steps are cheap to sample; stage four is
predicted for each.
"""

from dataclasses import dataclass
from typing import ClassVar

from onehead.arguments import checked, whole
from onehead.errors import InvalidArgument
from onehead.measured import Measured, spreads
from onehead.results import Certificate
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task
from onehead.sparse.training.samplers import first_steps, streams
from onehead.sparse.training.train import QUANTITIES
from onehead.sparse.verbs.predict import Prediction, predict, roughly

__all__ = ["FiniteSize", "finite_size"]

ENOUGH = 1e-3  # error of each stage-four prediction; the spread between trials is larger


@dataclass(frozen=True, kw_only=True)
class FiniteSize(Answer, Measured):
    """Attention at dimension ``dim``: prediction averaged over sampled queries; ``limit`` is the one at d -> infinity."""

    _SHOWN: ClassVar[tuple[str, ...]] = ("dim", "trials", "test_error", "limit")
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


@checked(**PROBLEM, dim=whole(3), trials=whole(2), seed=whole(0))
def finite_size(task: Task, protocol: Protocol, *, dim: int, trials: int = 40, seed: int = 0) -> FiniteSize:
    """Semi-empirical prediction of attention at finite dimension.

    Examples
    --------
    >>> found = finite_size(Task(), Protocol(alpha0=0.25, alpha1=0.25, ridge=1e-3), dim=300, trials=8)
    >>> found.test_error > found.limit, found.certificate.kind
    (True, 'heuristic')
    """
    if protocol.cos_query is not None:
        raise InvalidArgument("cos_query", protocol.cos_query, "None: a given query does not vary between trials")
    queries = [first_steps(task, protocol, dim, rng) for rng in streams(seed, trials)]
    points = [
        roughly(task, protocol.changed(cos_query=query.cos, sharpness=query.sharpness), ENOUGH) for query in queries
    ]
    means, spread = spreads(points, QUANTITIES)
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
