"""Rates and ridges of every step of joint descent, in units in which the inverse temperature is one (J14)."""

from collections.abc import Sequence
from typing import NamedTuple

from onehead.sparse.task import Protocol


class StepRates(NamedTuple):
    """Rates and ridges of one step: eta_q beta^2, eta_w, eta_b, lambda_q/beta^2 and lambda_w."""

    query: float
    readout: float
    bias: float
    ridge_query: float
    ridge_readout: float


Rates = Sequence[StepRates]


def rates_of(
    protocol: Protocol, steps: int, schedule: Sequence[tuple[float, float, float]] | None = None
) -> list[StepRates]:
    """Return the rates of ``steps`` steps: those of the protocol, or of a ``schedule`` whose last entry is repeated."""
    entries = [(protocol.eta_q, protocol.eta_w, protocol.eta_b)] if not schedule else list(schedule)
    square = protocol.beta**2
    # a query without influence (beta = 0) has no gradient and stays at zero, whatever its ridge
    ridge_query = protocol.ridge_query / square if square > 0.0 else 0.0
    return [
        StepRates(square * q, w, b, ridge_query, protocol.ridge)
        for q, w, b in (entries[min(step, len(entries) - 1)] for step in range(steps))
    ]
