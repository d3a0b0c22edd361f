"""Solution with sampled maps in the place of an approximate input channel (D8.3)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.solve.strategy import project
from onehead.aim.theory.input.sampled_map import SampledMap
from onehead.aim.theory.order_parameters import Hats, Overlaps
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.numerics.fixed_point import fixed_point

Array = NDArray[np.float64]

LEVEL = 1  # quadrature level: its error is far below the spread of the maps
TOLERANCE = 1e-4  # of the logarithms of the order parameters, far below the spread of the maps


def standard_error(numbers: Sequence[float]) -> float:
    """Standard error of the mean of a number over sampled maps."""
    return float(np.std(numbers, ddof=1) / np.sqrt(len(numbers)))


class Draw(NamedTuple):
    """Order parameters, hats and training loss with one sampled map."""

    overlaps: Overlaps
    hats: Hats
    train: float
    residual: float
    evaluations: int


@dataclass(frozen=True)
class SampledSolution:
    """Solutions with several sampled maps, and their means."""

    draws: tuple[Draw, ...]
    dim: int

    def _mean(self, number: Callable[[Draw], float]) -> float:
        return float(np.mean([number(draw) for draw in self.draws]))

    @property
    def train(self) -> float:
        """Mean training loss over d²."""
        return self._mean(lambda draw: draw.train)

    @property
    def residual(self) -> float:
        """Largest residual."""
        return max(draw.residual for draw in self.draws)

    @property
    def evaluations(self) -> int:
        """Number of evaluations of the equations."""
        return sum(draw.evaluations for draw in self.draws)

    @cached_property
    def overlaps(self) -> Overlaps:
        """Mean order parameters, rank and mean singular value."""
        first = self.draws[0].overlaps
        return replace(
            first,
            q_sectors=self._mean(lambda draw: draw.overlaps.sectors[0, 0]),
            m_sectors=self._mean(lambda draw: draw.overlaps.sectors[1, 0]),
            sigma_sectors=self._mean(lambda draw: draw.overlaps.sigma),
            tau=self._mean(lambda draw: draw.overlaps.tau),
            rank=self._mean(lambda draw: draw.overlaps.rank),
            learned=tuple(np.mean([draw.overlaps.learned for draw in self.draws], axis=0).tolist()),
        )

    @cached_property
    def hats(self) -> Hats:
        """Mean conjugate fields."""
        q, m, sigma = (self._mean(lambda draw, k=k: draw.hats.sectors[k, 0]) for k in range(3))  # type: ignore[misc]
        return Hats(q, m, sigma, self.draws[0].hats.effective)

    def errors(self, problem: StateEvolution) -> dict[str, float]:
        """Standard errors over the maps of all numbers that are reported."""
        output, (to_q, to_m) = problem.output, problem.units.own(1.0, 1.0)

        def fresh(draw: Draw, loss: str | None = "squared", power: float | None = None) -> float:
            return output.fresh_loss(*draw.overlaps.values, loss=loss, power=power)

        numbers: dict[str, Callable[[Draw], float]] = {
            "test_error": fresh,
            "excess_error": fresh,
            "test_error_clean": lambda draw: fresh(draw, power=problem.clean_power),
            "test_loss": lambda draw: fresh(draw, loss=None),
            "test_cross_entropy": lambda draw: fresh(draw, loss="cross-entropy"),
            "train_loss": lambda draw: draw.train,
            "rank": lambda draw: draw.overlaps.rank,
            "q": lambda draw: to_q * draw.overlaps.q,
            "m": lambda draw: to_m * draw.overlaps.m,
            "sigma": lambda draw: draw.overlaps.sigma,
            "q_hat": lambda draw: draw.hats.q,
            "m_hat": lambda draw: draw.hats.m,
            "sigma_hat": lambda draw: draw.hats.sigma,
        }
        if output.loss.hard:
            numbers["zero_one_error"] = lambda draw: output.zero_one(*draw.overlaps.values)
        return {name: standard_error([number(draw) for draw in self.draws]) for name, number in numbers.items()}


def solve_sampled(problem: StateEvolution, alpha: float, near: Overlaps) -> SampledSolution:
    """Solve the equations with each of the sampled maps of the input channel, from a close state.

    Raises
    ------
    SolveError
        If a map or the equations do not converge.
    """
    maps = problem.input.sampled_maps
    draws = tuple(_solve_one(problem, alpha, near, one) for one in maps)
    return SampledSolution(draws, len(maps[0].target))


def _solve_one(problem: StateEvolution, alpha: float, near: Overlaps, sampled: SampledMap) -> Draw:
    """Solve the equations with one sampled map."""
    last: dict[str, Overlaps] = {}
    hats_of: dict[str, Hats] = {}

    def step(coordinates: Array) -> Array:
        state = near.at(coordinates).state
        hats = problem.output.hats(*state, level=LEVEL).times(alpha)
        sample = sampled.at(hats)
        overlaps = Overlaps(sample.q, sample.m, sample.sigma, sample.tau, sample.rank, near.map)
        hats_of["now"], last["now"] = hats, problem.directions.split(problem.input, hats, overlaps)
        return last["now"].coordinates

    found = fixed_point(
        step, near.coordinates, tolerance=TOLERANCE, damping=0.8, project=lambda at: project(problem, at)
    )
    overlaps, hats = last["now"], hats_of["now"]
    averages = problem.output.averages(*overlaps.state, level=LEVEL)
    train = alpha * averages.loss + problem.input.penalty(overlaps)
    return Draw(overlaps, hats, train, found.residual, found.evaluations)
