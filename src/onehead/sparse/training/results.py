"""What the trials of a protocol gave: one trial, and means with their spreads."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from onehead.results import Certificate, Result
from onehead.sparse.task import Protocol, Task

__all__ = ["TrainingResult", "Trial"]


class Trial(NamedTuple):
    """One run of the protocol."""

    test_error: float
    train_loss: float
    train_error: float
    cos_query: float
    sharpness: float
    residual: float


@dataclass(frozen=True, kw_only=True)
class TrainingResult(Result):
    """Means over trials; ``_std`` is the spread between trials, ``test_error_err`` the standard error of the mean."""

    _HIDDEN: ClassVar[tuple[str, ...]] = ("protocol", "trial_errors")

    task: Task
    protocol: Protocol
    model: str
    mode: str
    dim: int
    trials: int
    test_error: float
    test_error_std: float
    test_error_err: float
    train_loss: float
    train_loss_std: float
    train_error: float
    train_error_std: float
    cos_query: float | None
    cos_query_std: float | None
    sharpness: float | None
    sharpness_std: float | None
    trial_errors: tuple[float, ...]
    certificate: Certificate
