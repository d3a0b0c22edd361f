"""Theory beside a measurement, in standard errors."""

from dataclasses import dataclass

from onehead.arguments import checked, instance, whole
from onehead.results import Result
from onehead.sparse.task import Protocol, Task
from onehead.sparse.training.results import TrainingResult
from onehead.sparse.training.train import train
from onehead.sparse.verbs.predict import predict
from onehead.sparse.verbs.prediction import Prediction

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, kw_only=True)
class Comparison(Result):
    """A prediction, a measurement, and their distance in standard errors of the measured mean."""

    prediction: Prediction
    measurement: TrainingResult
    test_error_deviation: float
    train_loss_deviation: float
    cos_query_deviation: float | None


def _deviation(theory: float, mean: float, spread: float, trials: int) -> float:
    """(measured - predicted) / standard error; zero when both agree exactly."""
    gap = mean - theory
    return 0.0 if gap == 0.0 else gap / max(spread / trials**0.5, 1e-12)


@checked(
    task=instance(Task, "Task()"),
    protocol=instance(Protocol, "Protocol()"),
    dim=whole(3),
    trials=whole(2),
    seed=whole(0),
)
def compare(
    task: Task,
    protocol: Protocol,
    *,
    model: str = "attention",
    dim: int = 1000,
    trials: int = 8,
    seed: int = 0,
    mode: str = "reduced",
    test_length: int | None = None,
) -> Comparison:
    """Predict, train, and lay one over the other.

    Examples
    --------
    >>> plan = Protocol(alpha1=2.0, cos_query=0.9, sharpness=2.0, ridge=0.1, loss="square")
    >>> abs(compare(Task(), plan, dim=200, trials=6).test_error_deviation) < 4.0
    True
    """
    theory = predict(task, protocol, model=model, test_length=test_length)
    runs = train(task, protocol, model=model, dim=dim, trials=trials, seed=seed, mode=mode, test_length=test_length)
    cos = None
    if theory.cos_query is not None and runs.cos_query is not None and runs.cos_query_std is not None:
        cos = _deviation(theory.cos_query, runs.cos_query, runs.cos_query_std, trials)
    return Comparison(
        prediction=theory,
        measurement=runs,
        test_error_deviation=_deviation(theory.test_error, runs.test_error, runs.test_error_std, trials),
        train_loss_deviation=_deviation(theory.train_loss, runs.train_loss, runs.train_loss_std, trials),
        cos_query_deviation=cos,
    )
