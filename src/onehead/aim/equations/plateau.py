"""The other end of a learning curve: the plateau of infinitely many samples (8.1)."""

from functools import lru_cache
from typing import NamedTuple

from onehead.aim.equations.output import OutputChannel
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.numerics.line import lowest_between

__all__ = ["Shrunk", "plateau_of"]


class Shrunk(NamedTuple):
    """S = c P, P the best that a map can hold of the target, with its loss on fresh samples, its test error (the squared
    distance whatever the loss), and P² = Tr P²/d in reduced units (8.1)."""

    c: float
    loss: float
    test_error: float
    power: float

    @property
    def overlaps(self) -> tuple[float, float]:
        """(q, m) in reduced units."""
        return self.c**2 * self.power, self.c * self.power


def plateau_of(problem: StateEvolution, *, coarse: bool = False) -> Shrunk:
    """c = argmin of the fresh loss at (q, m) = (c² P², c P²): shrunk below one by the noise, and by what P lacks (8.1).

    Any map has m <= sqrt(q) sqrt(P²), and the loss falls with m, so that none does better than c P.
    """
    return _plateau(problem.output, problem.reach, problem.input.reachable_power, coarse)


@lru_cache(maxsize=256)
def _plateau(output: OutputChannel, reach: tuple[float, ...], power: float, coarse: bool) -> Shrunk:
    """The same; weight decay plays no part."""

    def loss(c: float, coarse: bool, name: str | None = None) -> float:
        return output.fresh_loss(*output.shrunk(c, reach), coarse=coarse, loss=name)

    c = 1.0 if power > 0.0 else 0.0
    if output.label_power > power > 0.0:
        rough = coarse or output.geometry.sampled  # the loss is flat at its minimum: its own rule may be finer
        c, _ = lowest_between(lambda c: loss(c, rough), 0.0, 1.5, xatol=1e-8)
    own = loss(c, coarse)
    return Shrunk(c, own, own if output.loss.yardstick else loss(c, coarse, "squared"), power)
