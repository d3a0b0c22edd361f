"""What the theory says of one readout: its errors, its order parameters, their certificate, and the same in words."""

from dataclasses import dataclass
from typing import ClassVar

from onehead.results import Certificate, Result, in_lines
from onehead.sparse.task import Protocol, Task

__all__ = ["Prediction"]


@dataclass(frozen=True, kw_only=True)
class Prediction(Result):
    """Errors of a trained readout for d -> infinity, and its order parameters.

    ``query_weight`` a (along the query), ``signal_weight`` m (along the rest of the signal), ``bias`` b,
    ``rest_norm`` rp (norm of the remaining weights), ``step`` chi; theory of the readout, 4.2.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("protocol",)
    _SHOWN: ClassVar[tuple[str, ...]] = ("model", "test_error", "train_loss", "train_error")
    MEANINGS: ClassVar[dict[str, str]] = {
        "test_error": "share of mistakes on fresh samples",
        "train_loss": "training loss, without the ridge",
        "train_error": "share of mistakes on training samples",
        "cos_query": "cosine of the query with the signal",
        "sharpness": "beta times the length of the query",
    }

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

    def explain(self) -> str:
        """Say in words what the numbers mean for this readout.

        Examples
        --------
        >>> from onehead.sparse import Protocol, Task, predict
        >>> print(predict(Task(), Protocol(), model="pooled").explain().splitlines()[0])
        The readout of the pooled model, trained on n = 2 d samples, errs on 31.9% of fresh
        """
        chance = min(self.task.positive_rate, 1.0 - self.task.positive_rate)
        samples = self.protocol.alpha1 if self.model == "attention" else self.protocol.alpha
        along = f"{self.signal_weight:.4g} along the signal"
        if self.query_weight is not None:
            along = f"{self.query_weight:.4g} along the query, {self.signal_weight:.4g} along the rest of the signal"
        return in_lines(
            [
                f"The readout of the {self.model} model, trained on n = {samples:g} d samples, errs on {self.test_error:.1%} of "
                f"fresh sequences; guessing errs on {chance:.1%}.",
                f"On its training samples it errs on {self.train_error:.1%}, with a loss of {self.train_loss:.4g}.",
                *self._explain_query(),
                f"Its weights: {along}, {self.rest_norm:.4g} in directions that carry nothing; bias {self.bias:.4g}.",
                *self._closing(),
            ]
        )

    def _explain_query(self) -> list[str]:
        """The query in words; linear models have none."""
        if self.cos_query is None or self.sharpness is None:
            return []
        where = "towards" if self.cos_query > 0.0 else "away from"
        return [
            f"Query: cosine {self.cos_query:.3f} with the signal, so it looks {where} it; sharpness {self.sharpness:.3g} "
            "(0 is the plain mean of the tokens, infinity the largest token alone)."
        ]
