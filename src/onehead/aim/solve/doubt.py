"""What else the unknowns could be: by other nodes, by other forms of the same equations; and the error that follows (2.8).

The equations are solved on one set of nodes. At the solution y another set gives F_r(y) instead of y, and would have its own
solution at y + (1 - F')^-1 (F_r(y) - y). Every number of an answer is looked at there too.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from onehead.aim.equations.averages import Averages, ProxMemory, of_parts
from onehead.aim.equations.output import OutputChannel
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import AnyHats, AnyOverlaps, Hats
from onehead.aim.solve.iterate import Attempt, Vector, turn_once
from onehead.errors import SolveError

__all__ = [
    "Alternative",
    "Doubt",
    "Slopes",
    "doubt_of",
    "doubt_of_limit",
    "doubt_of_zero",
    "error_on_fresh",
    "slopes_at",
    "stated_errors",
]

LARGEST = 2.0  # of a shift of log q, log m, log Sigma: beyond it linear response says no more than "far"
LONGEST = 0.1  # step from a state that solves the equations within a hundredth
FINER = 0.1  # nudges of a lattice, which chance leaves smooth: wider ones reach across bends of the equations
SPECTRAL = 1e-8  # relative error of an integral over a spectrum
# standard errors by which Stein forms differ from derivatives where the prox jumps; more if no point was seen to have two minima
SURE, SURER = 4.0, 7.0


class Slopes(NamedTuple):
    """Derivatives in y = (log q, log m, log Sigma): of one turn F of the equations, and of the logarithms of the hats.

    ``gap`` is F(y) - y where they were taken.
    """

    turn: Vector
    hats: Vector
    gap: Vector

    @property
    def response(self) -> Vector:
        """(1 - F')^-1."""
        return np.asarray(np.linalg.inv(np.eye(len(self.turn)) - self.turn))

    @property
    def step(self) -> Vector:
        """Newton's step from where they were taken."""
        return np.clip(self.response @ self.gap, -LONGEST, LONGEST)


class Alternative(NamedTuple):
    """Another solution, as good as the one found.

    ``envelope`` is the average of what the prox attains, at the state found: the training loss is stationary in all unknowns, so
    that nothing else moves it (2.4).
    """

    overlaps: AnyOverlaps
    hats: AnyHats
    envelope: float


@dataclass(frozen=True)
class Doubt:
    """Other solutions: by independent ``parts`` of the nodes, whose spread counts, and ``others``, which count in full each.

    ``jumps``: Stein forms differ from derivatives by more than chance, so that the prox jumps between minima. ``several``: it was taken
    to have one minimum, and has more.
    """

    found: Alternative
    parts: tuple[Alternative, ...]
    others: tuple[Alternative, ...]
    jumps: bool
    several: bool = False

    def beside(self, other: Alternative) -> "Doubt":
        """The same with one more that counts in full."""
        return replace(self, others=(*self.others, other))

    def error(self, number: Callable[[Alternative], float]) -> float:
        """Error of a number of the solution."""
        spread = of_parts(np.array([number(part) for part in self.parts])) if self.parts else 0.0
        here = number(self.found)
        return spread + sum(abs(number(other) - here) for other in self.others)

    @property
    def relative(self) -> float:
        """The largest of the relative errors of q and m."""
        return max(self.error(lambda at, k=k: float(_logs(at)[k])) for k in range(len(self.found.overlaps.pair)))  # type: ignore[misc]


def slopes_at(problem: StateEvolution, alpha: float, y: Vector) -> Slopes:
    """F' and the slopes of the hats, by differences on the coarsest rule, every prox kept in its minimum."""
    memory = ProxMemory(follow=True)

    def at(state: Vector) -> tuple[Vector, Vector]:
        hats, overlaps = turn_once(problem, alpha, state, 0, memory=memory)
        return overlaps.logs, hats.logs

    centre = at(y)
    turn, hats = np.empty((y.size, y.size)), np.empty((y.size, y.size))
    for k, change in enumerate(problem.nudges if problem.output.geometry.sampled else FINER * problem.nudges):
        moved = y.copy()
        moved[k] += change
        there = at(moved)
        turn[:, k], hats[:, k] = (there[0] - centre[0]) / change, (there[1] - centre[1]) / change
    return Slopes(turn, hats, centre[0] - y)


def doubt_of(problem: StateEvolution, attempt: Attempt, slopes: Slopes) -> Doubt:
    """Look at a solution from all sides."""
    return _Looking(problem, attempt, slopes).doubt()


def _logs(at: Alternative) -> Vector:
    """log q and log m."""
    return at.overlaps.pair_logs


@dataclass(frozen=True)
class _Looking:
    """A solution that is being looked at."""

    problem: StateEvolution
    attempt: Attempt
    slopes: Slopes

    def doubt(self) -> Doubt:
        output, attempt = self.problem.output, self.attempt
        at, pair, sigma = attempt.overlaps.state, attempt.overlaps.pair, attempt.overlaps.sigma
        level, detail = attempt.level, int(output.use_derivatives(*pair))
        assert attempt.memory.averages is not None
        found = Alternative(attempt.overlaps, attempt.hats, attempt.memory.averages.envelope(sigma))
        # the iteration stopped at a residual, which the response of the equations makes larger
        others = [
            self._moved(np.abs(self.slopes.response) @ np.full(len(at), attempt.residual), attempt.hats, found.envelope)
        ]
        if attempt.memory.follow:  # proximal points that were kept in their minima choose again
            others.append(self._by(output.averages(*at, level=level, detail=detail)))
        if not output.geometry.sampled:
            others.append(self._by(output.averages(*at, level=level, detail=detail, twin=True)))
            return Doubt(found, (), tuple(others), jumps=False)
        if output.geometry.continued and len(pair) == 2:
            others.append(self._by(attempt.memory.averages.stretched(output.continuation_error(*pair))))
            shorter = replace(output, geometry=output.geometry.halved)
            others.append(self._by(shorter.averages(*at, level=level, detail=detail)))
        kept = attempt.memory if attempt.memory.follow or output.loss.hard else None
        pieces = attempt.memory.parts or output.parts(*at, level=level, memory=kept)
        parts, jumps, several = [self._by(piece) for piece in pieces], False, False
        if not (output.jumps or output.convex_at(*attempt.overlaps.sigmas) or output.narrow_angle(*pair)):
            gaps = np.array([self._between(piece, part) for piece, part in zip(pieces, parts, strict=True)])
            gap, error = gaps.mean(axis=0), gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
            sure = SURER if output.steady else SURE
            jumps = bool(np.any(np.abs(gap) > sure * error))
            if not output.steady:  # without jumps the two forms are the same, and their difference is chance
                others.append(self._moved(np.pad(gap, (0, len(at) - len(gap))), attempt.hats, found.envelope))
            else:
                several = not output.has_one_minimum(*at, level=level, points=attempt.memory.points)
        return Doubt(found, tuple(parts), tuple(others), jumps, several)

    def _between(self, averages: Any, part: Alternative) -> Vector:
        """How far the solution by the Stein forms of a part is from that by its derivatives."""
        if self.problem.leading:
            hats = [self._hats_by(averages, derivative) for derivative in (False, True)]
            return (self.slopes.response @ (self._linear(hats[0]) - self._linear(hats[1])))[: len(_logs(part))]
        return _logs(self._by(averages, derivative=False)) - _logs(part)

    def _hats_by(self, averages: Any, derivative: bool) -> Any:
        """Hats at the state found, by these averages."""
        at = self.attempt.overlaps
        return self.problem.output.hats_of(averages, *at.state, derivative=derivative).times(self.attempt.alpha)

    def _linear(self, hats: Any) -> Vector:
        """How far one turn leads that ends with these hats, to first order."""
        # equal eigenvalues are seen alike, and their strengths cannot be told from the hats: the least of all changes
        change = np.linalg.lstsq(self.slopes.hats, hats.logs - self.attempt.hats.logs, rcond=1e-9)[0]
        return np.asarray(self.slopes.turn @ change)

    def _by(self, averages: Averages, *, derivative: bool | None = None) -> Alternative:
        """The solution on the nodes that gave these averages at the state found."""
        output, at = self.problem.output, self.attempt.overlaps
        if derivative is None:
            derivative = output.use_derivatives(*at.pair)
        hats, envelope = self._hats_by(averages, derivative), averages.envelope(at.sigma)
        if self.problem.leading:  # many parts, and a law of many atoms for each: to first order
            return self._moved(self.slopes.response @ self._linear(hats), hats, envelope)
        try:
            gap = self.problem.overlaps_of(hats).logs - self.attempt.state
        except SolveError:
            return self._zero(envelope)
        return self._moved(self.slopes.response @ gap, hats, envelope)

    def _moved(self, shift: Vector, hats: AnyHats, envelope: float) -> Alternative:
        """The solution moved by a shift of y, and the hats with it."""
        shift = np.clip(shift, -LARGEST, LARGEST)
        moved = hats.at(hats.logs + self.slopes.hats @ shift)
        try:
            overlaps = self.problem.beside(moved, self.attempt.overlaps)
        except SolveError:
            return self._zero(envelope)
        state = self.problem.state_of(self.problem.inside(self.attempt.state + shift))
        return Alternative(overlaps.at(*state), moved, envelope)

    def _zero(self, envelope: float) -> Alternative:
        """No solution but the zero map."""
        return Alternative(self.attempt.overlaps.none, self.attempt.hats, envelope)


def doubt_of_zero(problem: StateEvolution, alpha: float, level: int, overlaps: AnyOverlaps, hats: Hats) -> Doubt:
    """The zero map: its hats are averages over labels, and what it would take to emerge follows from them (4.6)."""
    errors = problem.output.at_origin_error(level)
    shift = [1.0 + alpha * error / hat for error, hat in zip(errors, hats[:2], strict=True)]
    less_m = Hats(hats.q, hats.m / shift[1], hats.sigma)
    where, found = overlaps.map, Alternative(overlaps, hats, problem.output.fresh_loss(*overlaps.pair))
    moved = where._replace(s=where.s * shift[0] * shift[1] ** 2, eps=where.eps * shift[1])
    own = problem.output.fresh_loss_error(*overlaps.pair)
    others = (
        found._replace(hats=hats._replace(q=hats.q * shift[0]), envelope=found.envelope + own),
        found._replace(overlaps=overlaps._replace(map=moved), hats=less_m),
    )
    return Doubt(found, (), others, jumps=False)


def doubt_of_limit(overlaps: AnyOverlaps, hats: Hats, residual: float) -> Doubt:
    """A state that needs no proximal operator: it is as good as its equations are solved, and as integrals over spectra are."""
    shift = 1.0 + residual + SPECTRAL
    found = Alternative(overlaps, hats, 0.0)
    where = overlaps.map
    if where.s == 0.0:  # the target itself: nothing was integrated
        return Doubt(found, (), (), jumps=False)
    q, m, *others = overlaps.state
    moved = overlaps.at(q * shift, m, *others)._replace(
        rank=overlaps.rank * shift,
        map=where._replace(s=where.s * shift, eps=where.eps * shift, slope=where.slope * shift),
    )
    less = overlaps.at(q, m / shift, *others)  # apart from the other: the two could cancel in an error
    return Doubt(found, (), (found._replace(overlaps=moved), found._replace(overlaps=less)), jumps=False)


def error_on_fresh(output: OutputChannel, doubt: Doubt, **words: Any) -> float:
    """The error of an average loss over fresh samples: carried, and its own."""
    moved = words | ({"coarse": True} if output.rough else {})
    own = output.fresh_loss_error(*doubt.found.overlaps.pair, **words)
    return own + _carried(doubt, lambda *at: output.fresh_loss(*at, **moved))


def _carried(doubt: Doubt, number: Callable[..., float]) -> float:
    """What the errors of q and m make of an average over fresh samples, to first order."""
    pair = doubt.found.overlaps.pair
    if pair[0] == 0.0:
        return 0.0
    here, slopes = number(*pair), []
    for k, step in enumerate(doubt.found.overlaps.steps):
        if pair[k] == 0.0:  # it can be nothing else
            slopes.append(0.0)
            continue
        moved = [x * (1.0 + step) if i == k else x for i, x in enumerate(pair)]
        slopes.append((number(*moved) - here) / (step * pair[k]))
    return doubt.error(lambda at: float(np.dot(slopes, at.overlaps.pair)))


def stated_errors(problem: StateEvolution, alpha: float, doubt: Doubt) -> dict[str, float]:
    """The error of every number of an answer, in the units in which it is given (1.5); none of one that is infinite."""
    output, units = problem.output, problem.units

    def on_fresh(**words: Any) -> float:
        return error_on_fresh(output, doubt, **words)

    to_own = units.own(1.0, 1.0)
    numbers: dict[str, Callable[[Alternative], float]] = {
        "rank": lambda at: at.overlaps.rank,
        "q": lambda at: to_own[0] * at.overlaps.q,
        "m": lambda at: to_own[1] * at.overlaps.m,
        "sigma": lambda at: at.overlaps.sigma,
        "q_hat": lambda at: at.hats.q,
        "m_hat": lambda at: at.hats.m,
        "sigma_hat": lambda at: at.hats.sigma,
        "spread": lambda at: at.overlaps.map.s,
        "threshold": lambda at: at.overlaps.map.eps,
        "slope": lambda at: at.overlaps.map.slope / units.beta,
    }
    test = on_fresh(loss="squared")
    own = {} if output.loss.yardstick else {"test_loss": on_fresh()}
    drawn = {"zero_one_error": _carried(doubt, output.zero_one)} if output.loss.hard else {}
    return {
        "test_error": test,
        "test_error_clean": on_fresh(loss="squared", power=problem.target_power),
        "test_loss": test,
        "test_cross_entropy": on_fresh(loss="cross-entropy"),
        **own,
        **drawn,
        "excess_error": test,
        "train_loss": alpha * doubt.error(lambda at: at.envelope),
    } | {name: doubt.error(number) for name, number in numbers.items() if np.isfinite(number(doubt.found))}
