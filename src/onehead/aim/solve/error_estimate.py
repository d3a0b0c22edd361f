"""Error estimates: alternative solutions from other quadrature rules and from the Stein forms, propagated by linear
response (2.8).

The equations are solved on one set of nodes. At the solution y another set gives F_r(y) instead of y, and would have
its own solution at y + (1 - F')^-1 (F_r(y) - y). Every reported number is evaluated there too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from onehead.aim.solve.fixed_sample_ratio import Iterate, Vector, state_evolution_step
from onehead.aim.solve.strategy import difference_steps, overlap_steps, project
from onehead.aim.theory.order_parameters import Hats, Overlaps
from onehead.aim.theory.output.averages import ProxCache, parts_error
from onehead.aim.theory.output.base import OutputChannel
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import SolveError

MAXIMUM_SHIFT = 2.0  # of a coordinate such as log q: beyond it linear response says no more than "far"
MAXIMUM_NEWTON_STEP = 0.1  # from coordinates that solve the equations within a hundredth
LATTICE_STEP_FACTOR = 0.1  # of difference steps on a lattice, whose averages are smooth: wider steps see curvature
SPECTRAL_ERROR = 1e-8  # relative error of an integral over a spectrum
# standard errors by which Stein forms differ from derivatives where the prox jumps: usual, and if no second minimum was
# seen
JUMP_SIGNIFICANCE, JUMP_SIGNIFICANCE_SINGLE = 4.0, 7.0


class Linearisation(NamedTuple):
    """Derivatives in the coordinates y: of one step F of the equations, of the coordinates of the hats, and of the
    averages, if their slopes are of use.

    ``gap`` is F(y) - y where they were taken.
    """

    step: Vector
    hats: Vector
    gap: Vector
    averages: Vector | None

    @property
    def response(self) -> Vector:
        """(1 - F')^-1."""
        return np.asarray(np.linalg.inv(np.eye(len(self.step)) - self.step))

    @property
    def newton_step(self) -> Vector:
        """Newton's step from where the derivatives were taken."""
        return np.clip(self.response @ self.gap, -MAXIMUM_NEWTON_STEP, MAXIMUM_NEWTON_STEP)


class Alternative(NamedTuple):
    """Another solution, as good as the one found.

    ``envelope`` is the average Moreau envelope at the state found: the training loss is stationary in all order
    parameters, so that nothing else moves it (2.4).
    """

    overlaps: Overlaps
    hats: Hats
    envelope: float


@dataclass(frozen=True)
class ErrorEstimate:
    """Alternatives to a solution and the errors that follow.

    Attributes
    ----------
    found : Alternative
        The solution itself.
    parts : tuple of Alternative
        Solutions by independent parts of the nodes, whose spread is the sampling error.
    others : tuple of Alternative
        Solutions whose distances from the one found add up in full.
    prox_jumps : bool
        Whether Stein forms differ from derivatives significantly, so that the prox jumps between minima.
    multiple_minima : bool
        Whether a single minimum was assumed and several were found.
    checks : tuple of Alternative
        Solutions by other lattices, whose distances from the one found add up in squares. Two independent errors of
        equal size agree within a third of it in one case of ten, so that one lattice is not enough where errors do not
        fall quickly with its spacing.
    """

    found: Alternative
    parts: tuple[Alternative, ...]
    others: tuple[Alternative, ...]
    prox_jumps: bool
    multiple_minima: bool = False
    checks: tuple[Alternative, ...] = ()

    def with_alternative(self, other: Alternative) -> "ErrorEstimate":
        """Return the estimate with one more alternative that counts in full."""
        return replace(self, others=(*self.others, other))

    def error(self, number: Callable[[Alternative], float]) -> float:
        """Return the error of a number of the solution."""
        spread = parts_error(np.array([number(part) for part in self.parts])) if self.parts else 0.0
        here = number(self.found)
        lattices = float(np.sqrt(sum((number(check) - here) ** 2 for check in self.checks)))
        return spread + lattices + sum(abs(number(other) - here) for other in self.others)

    @property
    def relative(self) -> float:
        """Largest error of a coordinate of the overlaps: the relative errors of q and m for one sector."""

        def error(k: int) -> float:
            return self.error(lambda at: float(_overlap_coordinates(at)[k]))

        return max(map(error, range(len(_overlap_coordinates(self.found)))))


def linearise(problem: StateEvolution, alpha: float, y: Vector) -> Linearisation:
    """Return F' and the derivatives of the hats, by differences on the coarsest rule with every prox kept in its
    minimum.
    """
    cache = ProxCache(track_minimum=True)

    def at(coordinates: Vector) -> tuple[Vector, Vector, Vector]:
        hats, overlaps = state_evolution_step(problem, alpha, coordinates, 0, cache=cache)
        # a solution is extrapolated on sampled points only; on a lattice some averages may not have been asked for
        averages = cache.averages.numbers if problem.output.geometry.sampled else np.empty(0)
        return overlaps.coordinates, hats.coordinates, averages

    centre = at(y)
    step, hats, averages = (np.empty((part.size, y.size)) for part in centre)
    scale = 1.0 if problem.output.geometry.sampled else LATTICE_STEP_FACTOR
    for k, change in enumerate(scale * difference_steps(problem)):
        moved = y.copy()
        moved[k] += change
        there = at(moved)
        for slopes, moved_to, here in zip((step, hats, averages), there, centre, strict=True):
            slopes[:, k] = (moved_to - here) / change
    return Linearisation(step, hats, centre[0] - y, averages if averages.size else None)


def estimate_errors(problem: StateEvolution, iterate: Iterate, linearisation: Linearisation) -> ErrorEstimate:
    """Collect the alternatives to a converged iterate."""
    return _ErrorEstimator(problem, iterate, linearisation).estimate()


def jump_significance(output: OutputChannel, state: tuple[float, ...], parts: Sequence[Any]) -> float:
    """Return by how many standard errors over the parts of a rule the Stein forms of the hats differ from the
    derivatives (2.6).
    """
    both = [[output.hats_of(part, *state, derivative=form).coordinates for form in (False, True)] for part in parts]
    gaps = np.array([stein - derivative for stein, derivative in both])
    gap, error = np.abs(gaps.mean(axis=0)), gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
    return float(np.max(gap[error > 0.0] / error[error > 0.0], initial=0.0))


def _overlap_coordinates(at: Alternative) -> Vector:
    """Coordinates of the overlaps, without Sigma."""
    return at.overlaps.value_coordinates


@dataclass(frozen=True)
class _ErrorEstimator:
    """Error estimation for one converged iterate."""

    problem: StateEvolution
    iterate: Iterate
    linearisation: Linearisation

    def estimate(self) -> ErrorEstimate:
        """Collect alternatives from other rules, other forms, independent parts and the residual."""
        output, iterate = self.problem.output, self.iterate
        overlaps, cache, level = iterate.overlaps, iterate.cache, iterate.level
        state, values, sigma = overlaps.state, overlaps.values, overlaps.sigma
        detail = int(output.use_derivatives(*values))
        assert cache.averages is not None
        found = Alternative(overlaps, iterate.hats, cache.averages.envelope(sigma))
        # the iteration stopped at a residual, which the response of the equations amplifies
        residual = np.full(len(self.linearisation.step), iterate.residual)
        others = [self._shifted(np.abs(self.linearisation.response) @ residual, iterate.hats, found.envelope)]
        if cache.track_minimum:  # proximal points that were kept in their minima choose again
            others.append(self._by(output.averages(*state, level=level, detail=detail)))
        if not output.geometry.sampled:
            # where proximal points change fast or jump, a lattice has the error of a sample
            levels = [level] if level == 0 or output.convex_at(*overlaps.sigmas) else [level, level - 1]
            checks = [self._by(output.averages(*state, level=k, detail=detail, check_rule=True)) for k in levels]
            return ErrorEstimate(found, (), tuple(others), prox_jumps=False, checks=tuple(checks))
        if output.geometry.extrapolates_length and (share := output.continuation_error(*values)):
            others.append(self._by(cache.averages.with_relative_error(share)))
            others.append(self._by(output.from_half_length().averages(*state, level=level, detail=detail)))
        tracked = cache if cache.track_minimum or output.loss.hard else None
        pieces = cache.parts or output.parts(*state, level=level, cache=tracked)
        parts, jumps, several = [self._by(piece) for piece in pieces], False, False
        if not (output.prox_jumps or output.convex_at(*overlaps.sigmas) or output.nearly_aligned(*values)):
            gaps = np.array([self._form_gap(piece, part) for piece, part in zip(pieces, parts, strict=True)])
            gap, error = gaps.mean(axis=0), gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
            significance = JUMP_SIGNIFICANCE_SINGLE if output.single_minimum else JUMP_SIGNIFICANCE
            jumps = bool(np.any(np.abs(gap) > significance * error))
            if not output.single_minimum:  # without jumps the two forms agree, and their difference is sampling error
                missing = len(self.linearisation.step) - len(gap)
                others.append(self._shifted(np.pad(gap, (0, missing)), iterate.hats, found.envelope))
            else:
                # points are compared with points at the same state
                several = not output.has_one_minimum(*(cache.state or state), level=level, points=cache.points)
        return ErrorEstimate(found, tuple(parts), tuple(others), jumps, several)

    def _form_gap(self, averages: Any, part: Alternative) -> Vector:
        """Return the distance between the solutions by the Stein forms and by the derivatives of a part."""
        if self.problem.directions.sampled:
            stein, derivative = (self._first_order(self._hats_by(averages, form)) for form in (False, True))
            return (self.linearisation.response @ (stein - derivative))[: len(_overlap_coordinates(part))]
        return _overlap_coordinates(self._by(averages, derivative=False)) - _overlap_coordinates(part)

    def _hats_by(self, averages: Any, derivative: bool) -> Hats:
        """Return the hats at the state found by these averages."""
        state = self.iterate.overlaps.state
        return self.problem.output.hats_of(averages, *state, derivative=derivative).times(self.iterate.alpha)

    def _first_order(self, hats: Hats) -> Vector:
        """Return F(y) - y to first order for a step that ends with these hats."""
        # directions of equal eigenvalues have equal hats, so that their elements cannot be resolved: take the smallest
        # change
        change = hats.coordinates - self.iterate.hats.coordinates
        moved = np.linalg.lstsq(self.linearisation.hats, change, rcond=1e-9)[0]
        return np.asarray(self.linearisation.step @ moved)

    def _by(self, averages: Any, *, derivative: bool | None = None) -> Alternative:
        """Return the solution on the nodes that gave these averages at the state found."""
        output, at = self.problem.output, self.iterate.overlaps
        if derivative is None:
            derivative = output.use_derivatives(*at.values)
        hats, envelope = self._hats_by(averages, derivative), averages.envelope(at.sigma)
        if self.problem.directions.sampled:  # many parts, and a law of many atoms for each: to first order
            return self._shifted(self.linearisation.response @ self._first_order(hats), hats, envelope)
        try:
            gap = self.problem.overlaps_of(hats).coordinates - self.iterate.coordinates
        except SolveError:
            return self._zero(envelope)
        return self._shifted(self.linearisation.response @ gap, hats, envelope)

    def _shifted(self, shift: Vector, hats: Hats, envelope: float) -> Alternative:
        """Return the solution shifted in its coordinates, and the hats with it."""
        shift = np.clip(shift, -MAXIMUM_SHIFT, MAXIMUM_SHIFT)
        moved = hats.at(hats.coordinates + self.linearisation.hats @ shift)
        try:
            overlaps = self.problem.overlaps_near(moved, self.iterate.overlaps)
        except SolveError:
            return self._zero(envelope)
        return Alternative(overlaps.at(project(self.problem, self.iterate.coordinates + shift)), moved, envelope)

    def _zero(self, envelope: float) -> Alternative:
        """Return the zero map as the only solution."""
        return Alternative(self.iterate.overlaps.none, self.iterate.hats, envelope)


def zero_map_error_estimate(
    problem: StateEvolution, alpha: float, level: int, overlaps: Overlaps, hats: Hats
) -> ErrorEstimate:
    """Return the error estimate of the zero map: its hats are averages over labels, and its distance from emergence
    follows (4.6).
    """
    errors = problem.output.at_origin_error(level)
    shift = [1.0 + alpha * error / hat for error, hat in zip(errors, (hats.q, hats.m), strict=True)]
    less_m = Hats(hats.q, hats.m / shift[1], hats.sigma)
    # a field outside the bulk is learned with c = mhat/Sigmahat, which moves with mhat
    learned = tuple(value * shift[1] for value in overlaps.learned)
    where, found = overlaps.map, Alternative(overlaps, hats, problem.output.fresh_loss(*overlaps.values))
    moved = where._replace(s=where.s * shift[0] * shift[1] ** 2, eps=where.eps * shift[1])
    own = problem.output.fresh_loss_error(*overlaps.values)
    more_q = Hats(hats.q * shift[0], hats.m, hats.sigma)
    others = (
        found._replace(hats=more_q, envelope=found.envelope + own),
        found._replace(overlaps=replace(overlaps, map=moved, learned=learned), hats=less_m),
    )
    return ErrorEstimate(found, (), others, prox_jumps=False)


def limit_error_estimate(overlaps: Overlaps, hats: Hats, residual: float) -> ErrorEstimate:
    """Return the error estimate of a limit without a proximal operator: its residual, and integrals over spectra."""
    shift = 1.0 + residual + SPECTRAL_ERROR
    found = Alternative(overlaps, hats, 0.0)
    where = overlaps.map
    if where.s == 0.0:  # the target itself: nothing was integrated
        return ErrorEstimate(found, (), (), prox_jumps=False)
    (q, *q_others), (m, *m_others) = overlaps.sectors[:2].tolist()
    moved = replace(
        overlaps,
        q_sectors=(q * shift, *q_others),
        rank=overlaps.rank * shift,
        map=where._replace(s=where.s * shift, eps=where.eps * shift, slope=where.slope * shift),
    )
    less = replace(overlaps, m_sectors=(m / shift, *m_others))  # apart from the other: the two could cancel in an error
    others = (found._replace(overlaps=moved), found._replace(overlaps=less))
    return ErrorEstimate(found, (), others, prox_jumps=False)


def error_on_fresh(output: OutputChannel, error_estimate: ErrorEstimate, **options: Any) -> float:
    """Return the error of an average loss over fresh samples: propagated from the overlaps, plus its own quadrature
    error.
    """
    moved = options | ({"coarse": True} if output.coarse_fresh_slopes else {})
    own = output.fresh_loss_error(*error_estimate.found.overlaps.values, **options)
    return own + _propagated(error_estimate, lambda *at: output.fresh_loss(*at, **moved))


def _propagated(error_estimate: ErrorEstimate, number: Callable[..., float]) -> float:
    """Return the error of a function of the overlaps, to first order in their errors."""
    overlaps = error_estimate.found.overlaps
    values = overlaps.values
    if values[0] == 0.0:
        return 0.0
    here, slopes = number(*values), []
    for k, step in enumerate(overlap_steps(overlaps.sectors.shape[1], len(values) - 2 * overlaps.sectors.shape[1])):
        if values[k] == 0.0:  # identically zero by symmetry
            slopes.append(0.0)
            continue
        moved = [x * (1.0 + step) if i == k else x for i, x in enumerate(values)]
        slopes.append((number(*moved) - here) / (step * values[k]))
    return error_estimate.error(lambda at: float(np.dot(slopes, at.overlaps.values)))


def stated_errors(problem: StateEvolution, alpha: float, error_estimate: ErrorEstimate) -> dict[str, float]:
    """Return the error of every reported number, in the units in which it is reported (1.5); none of an infinite
    one.
    """
    output, units = problem.output, problem.units

    def on_fresh(**options: Any) -> float:
        return error_on_fresh(output, error_estimate, **options)

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
    known = problem.directions
    if known.separate:  # what is reported of fields are numbers

        def of_field(name: str) -> Callable[[Alternative], float]:
            return lambda at: float(known.reported(at.overlaps, units)[name])

        numbers |= {name: of_field(name) for name in known.reported(error_estimate.found.overlaps, units)}
    test = on_fresh(loss="squared")
    own = {} if output.loss.is_test_error else {"test_loss": on_fresh()}
    hard = {"zero_one_error": _propagated(error_estimate, output.zero_one)} if output.loss.hard else {}
    return {
        "test_error": test,
        "test_error_clean": on_fresh(loss="squared", power=problem.clean_power),
        "test_loss": test,
        "test_cross_entropy": on_fresh(loss="cross-entropy"),
        **own,
        **hard,
        "excess_error": test,
        "train_loss": alpha * error_estimate.error(lambda at: at.envelope),
    } | {
        name: error_estimate.error(number)
        for name, number in numbers.items()
        if np.isfinite(number(error_estimate.found))
    }
