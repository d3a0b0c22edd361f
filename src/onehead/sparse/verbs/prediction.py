"""What the theory says of one readout: its errors, its order parameters, and their certificate."""

from dataclasses import dataclass
from typing import ClassVar

from onehead.results import Certificate, Result
from onehead.sparse.task import Protocol, Task

__all__ = ["Prediction"]


@dataclass(frozen=True, kw_only=True)
class Prediction(Result):
    """Errors of a trained readout for d -> infinity, and its order parameters.

    ``query_weight`` a (along the query), ``signal_weight`` m (along the rest of the signal), ``bias`` b,
    ``rest_norm`` rp (norm of the remaining weights), ``step`` chi; theory of the readout, 4.2.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("protocol",)

    task: Task
    protocol: Protocol
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
