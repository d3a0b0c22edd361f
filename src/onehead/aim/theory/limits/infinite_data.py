"""The plateau of a learning curve: the limit of infinitely many samples (8.1)."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from onehead.aim.theory.output.base import OutputChannel
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.numerics.brent import brent_minimum


class Shrunk(NamedTuple):
    """The map c P, P being the best representable map (8.1).

    Attributes
    ----------
    c : float
        Scale of the map.
    loss : float
        Training loss on fresh samples.
    test_error : float
        Squared error on fresh samples, for every loss.
    power : float
        Tr P²/d in reduced units.
    """

    c: float
    loss: float
    test_error: float
    power: float

    @property
    def overlaps(self) -> tuple[float, float]:
        """(q, m) in reduced units."""
        return self.c**2 * self.power, self.c * self.power


def plateau_of(problem: StateEvolution, *, coarse: bool = False) -> Shrunk:
    """Return c P with c = argmin of the fresh loss: shrunk below one by the noise, and by what P lacks (8.1).

    Any map has m <= sqrt(q) sqrt(P²), and the loss falls with m, so that none does better than c P. A field whose size
    differs between queries (D6) has a best scale of its own, which lowers the test error by less than 2e-6, relative;
    it gets c here.
    """
    best = problem.directions.best_overlaps(problem.input)
    return _plateau(problem.output, best, problem.input.representable_power, coarse)


@lru_cache(maxsize=256)
def _plateau(output: OutputChannel, best: tuple[float, float, tuple[float, ...]], power: float, coarse: bool) -> Shrunk:
    """Return the plateau of an output channel; weight decay plays no part."""
    (q, m, learned), sectors = best, np.ones(output.geometry.sectors)

    def loss(c: float, coarse: bool, name: str | None = None) -> float:
        values = output.directions.output_values(c * c * q * sectors, c * m * sectors, c * np.array(learned))
        return output.fresh_loss(*values, coarse=coarse, loss=name)

    c = 1.0 if power > 0.0 else 0.0
    if output.label_power > power > 0.0:
        rough = (
            coarse or output.geometry.sampled
        )  # the loss is flat at its minimum, so that a coarse rule finds c; the loss itself is evaluated on a finer one
        c, _ = brent_minimum(lambda c: loss(c, rough), 0.0, 1.5, xatol=1e-8)
    own = loss(c, coarse)
    return Shrunk(c, own, own if output.loss.is_test_error else loss(c, coarse, "squared"), power)
