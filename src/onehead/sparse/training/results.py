"""What the trials of a protocol gave: one trial, and means with their spreads."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from onehead.measured import Measured
from onehead.results import Certificate
from onehead.sparse.task import Protocol, Task
from onehead.sparse.verbs.predict import Prediction

__all__ = ["QUANTITIES", "TrainingResult", "Trial"]

QUANTITIES = ("test_error", "train_loss", "train_error", "cos_query", "sharpness")


class Trial(NamedTuple):
    """One run of the protocol."""

    test_error: float
    train_loss: float
    train_error: float
    cos_query: float
    sharpness: float
    residual: float


@dataclass(frozen=True, kw_only=True)
class TrainingResult(Measured):
    """Means over trials; ``spread`` has for each its ``_std`` over trials and the ``_err`` of the mean."""

    _HIDDEN: ClassVar[tuple[str, ...]] = ("protocol", "runs")
    _SHOWN: ClassVar[tuple[str, ...]] = ("model", "dim", "trials", "test_error", "train_loss", "cos_query")
    _REPEATS: ClassVar[str] = "trials"
    _COMPARED: ClassVar[tuple[str, ...]] = ("test_error", "train_loss", "cos_query")
    _FALL: ClassVar[float] = 0.5
    MEANINGS: ClassVar[dict[str, str]] = Prediction.MEANINGS

    task: Task
    protocol: Protocol
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

    @property
    def trial_errors(self) -> tuple[float, ...]:
        """The test error of every trial."""
        return tuple(run.test_error for run in self.runs)

    def _comparable(self) -> tuple[str, ...]:
        """A query that is given does not vary."""
        given = self.protocol.cos_query is not None
        return tuple(name for name in super()._comparable() if name != "cos_query" or not given)
