"""The other end of a learning curve: the plateau of infinitely many samples (8.1)."""

from functools import lru_cache
from typing import NamedTuple

from onehead.aim.equations.output import OutputChannel
from onehead.aim.equations.state_evolution import StateEvolution

__all__ = ["Shrunk", "plateau_of"]


class Shrunk(NamedTuple):
    """S = c S* with its loss on fresh samples, and its test error: the squared distance whatever the loss (8.1)."""

    c: float
    loss: float
    test_error: float


def plateau_of(problem: StateEvolution, *, coarse: bool = False) -> Shrunk:
    """c = argmin of the fresh loss at (q, m) = (c² Q0, c Q0): shrunk below one by the noise (8.1)."""
    return _plateau(problem.output, problem.target_power, coarse)


@lru_cache(maxsize=256)
def _plateau(output: OutputChannel, Q0: float, coarse: bool) -> Shrunk:
    """The same; weight decay and width play no part."""
    from scipy.optimize import minimize_scalar  # noqa: PLC0415

    def loss(c: float, coarse: bool, name: str | None = None) -> float:
        return output.fresh_loss(c * c * Q0, c * Q0, coarse=coarse, loss=name)

    c = 1.0
    if output.label_power > Q0:
        rough = coarse or output.geometry.sampled  # the loss is flat at its minimum: its own rule may be finer
        found = minimize_scalar(lambda c: loss(c, rough), bounds=(0.0, 1.5), method="bounded", options={"xatol": 1e-8})
        c = float(found.x)
    own = loss(c, coarse)
    return Shrunk(c, own, own if output.loss.yardstick else loss(c, coarse, "squared"))
