"""How the unasked field is learned at n = a d samples, where the rest of the map is zero (D4).

The field s is the vector of a convex regression with d entries: learned s = c s* + noise of power p = |s - c s*|². A
sample has one proximal operator over the logits u_b = s.w_b of its keys, which all its rows share,

    u = argmin |u - v|²/(2 σ) + sum_a loss(u; row a of the label),     v = c g* + sqrt(p) ξ,

with g* the fields of the target. With e = (v - u)/σ and H the Hessian of the losses at u,

    qhat = a E|e|²,   Σhat = a E tr H (1 + σ H)^-1,   mhat = c Σhat - a E[e.g*]/G,
    c = mhat/(Σhat + ω),   p = qhat/(Σhat + ω)²,   σ = 1/(Σhat + ω),

and ω the slope of the penalty of the row along the mean, divided by |s|: λ/sqrt(M (c² G + p)) of its length, for direct
training 2λ/M of its square.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.losses import SQUARED
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import NotConverged, SolveError
from onehead.numerics.fixed_point import fixed_point
from onehead.numerics.gaussian import sobol
from onehead.numerics.replicate_error import error_from_replicates

Array = NDArray[np.float64]

MAX_TOKENS = 8  # the points have T (T + 2) coordinates
LOG2_POINTS = 12  # of sampled points, before mirroring
MAX_ENUMERATED = 16  # combinations of hard labels of a sample that are summed over
REPLICATES = 4  # independent parts of the points, whose spread is the error
TOLERANCE, MAX_EVALUATIONS = 1e-7, 400  # of log c, log p and log sigma
NEWTON_STEPS, NEWTON_TOLERANCE = 100, 1e-9  # of the step of a sample, relative to its logits
ARMIJO, SLACK, SHORTEST_STEP = 1e-4, 1e-14, 1e-6  # as in `onehead.numerics.newton`
SMALLEST_CURVATURE = 1e-12  # of a Hessian, relative to the largest one: smaller ones are rounding
LARGEST_STEP = 1.0  # of a logit in one Newton step, relative to one plus the largest logit
FIRST_SCALE, FIRST_NOISE = 0.5, 0.2  # c and p/G from which the search starts
LOG_STEP = 0.01  # of log c in a difference quotient
SMALLEST_RESPONSE = 0.05  # of 1 - F', which vanishes at the emergence of the field
MINIMUM_SCALE = 1e-3  # c below which a solution counts as the zero field


class Learned(NamedTuple):
    """The learned field: c, the power p of its component across the target's, and the standard error of c."""

    scale: float
    noise: float
    error: float


class Samples(NamedTuple):
    """Points over which one step of the equations is averaged: fields of the target and noise of the learned field at
    the keys, labels of every row, and weights whose mean is one.
    """

    fields: Array
    noise: Array
    labels: list[Array]
    weights: Array

    @property
    def with_every_label(self) -> "Samples":
        """Every point once for each combination of hard labels of its rows, with its probability."""
        choices = list(product(*(range(y.shape[1]) for y in self.labels)))
        count = len(choices)
        weights = np.full((len(self.fields), count), float(count))
        for k, chosen in enumerate(choices):
            for y, column in zip(self.labels, chosen, strict=True):
                weights[:, k] *= y[:, column]
        labels = [
            np.tile(np.eye(y.shape[1])[[chosen[i] for chosen in choices]], (len(self.fields), 1))
            for i, y in enumerate(self.labels)
        ]
        return Samples(
            np.repeat(self.fields, count, axis=0), np.repeat(self.noise, count, axis=0), labels, weights.ravel()
        )

    def part(self, which: slice) -> "Samples":
        """Return some of the points."""
        return Samples(self.fields[which], self.noise[which], [y[which] for y in self.labels], self.weights[which])

    def mean(self, values: Array) -> float:
        """Return the weighted mean of one value per point."""
        return float(self.weights @ values) / len(values)


@dataclass(frozen=True)
class UnaskedRegression:
    """The regression of the unasked field of a head with cross-attention, in reduced units.

    Attributes
    ----------
    problem : StateEvolution
        The equations of the head.
    token_mean : float
        M, squared length of the mean of the queries over d.
    """

    problem: StateEvolution
    token_mean: float

    @property
    def field_power(self) -> float:
        """G, variance of the field of the target."""
        return self.problem.directions.separate_power

    @cached_property
    def _columns(self) -> list[int]:
        """Number of columns of every row of a sample that has a choice."""
        rows = self.problem.output.geometry.rows
        return [row.length for row in rows for _ in range(round(row.multiplicity)) if row.length > 1]

    @cached_property
    def _samples(self) -> "Samples":
        """Sampled fields, noise and labels; a few hard labels are enumerated, more are sampled.

        A sampled hard label is the column at which a uniform number, of a coordinate of its own, exceeds the
        cumulative sum.
        """
        T, R, output = max(self._columns), len(self._columns), self.problem.output
        dim = T * (2 + R) + (R if output.loss.hard else 0)
        rule = sobol(dim, log2_points=LOG2_POINTS, seed=0, parts=REPLICATES)
        from scipy.special import ndtr  # scipy is loaded when first needed

        fields = np.sqrt(self.field_power) * rule.nodes[:, :T]
        noise = rule.nodes[:, T : 2 * T]
        own = np.sqrt(output.label_power - self.field_power)
        labels = []
        for i, n in enumerate(self._columns):
            start = (2 + i) * T
            labels.append(_softmax(fields[:, :n] + own * rule.nodes[:, start : start + n]))
        soft = Samples(fields, noise, labels, np.ones(len(fields)))
        if not output.loss.hard:
            return soft
        if np.prod(self._columns) <= MAX_ENUMERATED:
            return soft.with_every_label
        for i, y in enumerate(labels):
            uniform = ndtr(rule.nodes[:, T * (2 + R) + i])
            chosen = (uniform[:, None] > np.cumsum(y, axis=1)).sum(axis=1)
            labels[i] = np.eye(y.shape[1])[np.minimum(chosen, y.shape[1] - 1)]
        return soft

    def _penalty_slope(self, scale: float, noise: float) -> float:
        """Return ω, the derivative of the penalty in the length of the field divided by the length."""
        decay, M = self.problem.decay, self.token_mean
        if self.problem.input.degree == 2:
            return 2.0 * decay / M
        return float(decay / np.sqrt(M * (scale**2 * self.field_power + noise)))

    def at(self, ratio: float, start: Learned | None = None) -> Learned:
        """Return what is learned at n = ``ratio`` d samples; the field is zero below its emergence.

        Raises
        ------
        NotConverged
            If the equations could not be solved.
        """
        points = (
            self._samples.fields.copy()
        )  # a start from the last proximal points keeps to one minimum of every sample
        first = start or Learned(FIRST_SCALE, FIRST_NOISE * self.field_power, 0.0)
        every, small = slice(None), np.array([LOG_STEP, 0.0, 0.0])
        sigma = 1.0 / (ratio + self._penalty_slope(first.scale, first.noise))
        y = np.log([first.scale, first.noise, sigma])
        try:
            found = fixed_point(
                lambda z: self._step(z, ratio, every, points), y, tolerance=TOLERANCE, max_evaluations=MAX_EVALUATIONS
            ).value
            size = len(self._samples.fields) // REPLICATES
            # every part of the points has a solution of its own: one step from the common one, amplified by the
            # response of the equations
            parts = [self._step(found, ratio, slice(k * size, (k + 1) * size), points)[0] for k in range(REPLICATES)]
            slope = (self._step(found + small, ratio, every, points)[0] - found[0]) / LOG_STEP
        except _Zero:
            return Learned(0.0, 0.0, 0.0)
        gain = 1.0 / max(1.0 - slope, SMALLEST_RESPONSE)
        scale, noise = float(np.exp(found[0])), float(np.exp(found[1]))
        error = gain * scale * float(error_from_replicates(np.array(parts) - found[0]))
        return Learned(scale, noise, error)

    def _step(self, y: Array, ratio: float, part: slice, points: Array) -> Array:
        """Return log c, log p and log σ after one step of the equations, on some of the samples.

        ``points`` are their last proximal points, which are overwritten.
        """
        scale, noise, sigma = np.exp(y).tolist()
        if scale < MINIMUM_SCALE:
            raise _Zero("the field is zero")
        at = self._samples.part(part)
        u = self._prox(scale * at.fields + np.sqrt(noise) * at.noise, sigma, at.labels, points[part])
        points[part] = u
        gradient, hessian = self._loss(u, at.labels)
        T = u.shape[1]
        inverse = np.linalg.inv(np.eye(T) + sigma * hessian)
        sigma_hat = ratio * at.mean(T - np.trace(inverse, axis1=1, axis2=2)) / sigma
        q_hat = ratio * at.mean(np.sum(gradient**2, axis=1))
        m_hat = scale * sigma_hat - ratio * at.mean(np.sum(gradient * at.fields, axis=1)) / self.field_power
        total = sigma_hat + self._penalty_slope(scale, noise)
        if m_hat <= 0.0 or total <= 0.0:
            raise _Zero("the field is zero")
        return np.asarray(np.log([m_hat / total, q_hat / total**2, 1.0 / total]))

    def _prox(self, v: Array, sigma: float, labels: list[Array], start: Array) -> Array:
        """Return the proximal point of every sample that is reached from ``start``.

        Newton's method, with the absolute values of the curvatures where the squared loss is curved downwards; steps
        are halved until the objective of the sample falls by a share of what its slope promises (Armijo). Samples that
        have converged are left out of the next steps.

        Raises
        ------
        NotConverged
            If Newton's method does not find a stationary point of every sample.
        """
        u = start + np.mean(v - start, axis=1, keepdims=True)  # what is added to all logits does not change the losses
        active = np.arange(len(u))
        precision = np.eye(v.shape[1]) / sigma
        for _ in range(NEWTON_STEPS):
            at, centre, y = u[active], v[active], [row[active] for row in labels]
            gradient, hessian = self._loss(at, y)
            gradient += (at - centre) / sigma
            step = _downhill(gradient, hessian + precision)
            largest, size = np.abs(step).max(axis=1), 1.0 + np.abs(at).max(axis=1)
            step /= np.maximum(largest / (LARGEST_STEP * size), 1.0)[:, None]
            length = self._step_lengths(at, centre, sigma, y, step, np.sum(gradient * step, axis=1))
            u[active] = at + length[:, None] * step
            active = active[(largest > NEWTON_TOLERANCE * size) & (length > SHORTEST_STEP)]
            if not len(active):
                return np.asarray(u)
        raise NotConverged("the proximal operator of the unasked field did not converge; try a larger weight_decay.")

    def _step_lengths(self, u: Array, v: Array, sigma: float, labels: list[Array], step: Array, slope: Array) -> Array:
        """Return the length of the step of every sample, of which only rounding is left to gain if it is shortest."""
        first = self._objective(u, v, sigma, labels)
        allowed = first + SLACK * (1.0 + np.abs(first))
        length, open_ = np.ones(len(u)), np.arange(len(u))
        while len(open_):
            trial = u[open_] + length[open_, None] * step[open_]
            new = self._objective(trial, v[open_], sigma, [y[open_] for y in labels])
            open_ = open_[new > allowed[open_] + ARMIJO * length[open_] * slope[open_]]
            length[open_] *= 0.5
            open_ = open_[length[open_] > SHORTEST_STEP]
        return length

    def _objective(self, u: Array, v: Array, sigma: float, labels: list[Array]) -> Array:
        """Return the proximal objective of every sample."""
        value: Array = np.sum((u - v) ** 2, axis=1) / (2.0 * sigma)
        softmax = {n: _softmax(u[:, :n]) for n in set(self._columns)}
        for n, y in zip(self._columns, labels, strict=True):
            if self._squared:
                value += np.sum((softmax[n] - y) ** 2, axis=1)
            else:
                largest = u[:, :n].max(axis=1)
                value += (
                    largest + np.log(np.exp(u[:, :n] - largest[:, None]).sum(axis=1)) - np.sum(y * u[:, :n], axis=1)
                )
        return value

    @property
    def _squared(self) -> bool:
        """Whether the loss is the squared one; else it is cross-entropy."""
        return bool(self.problem.output.loss.compiled_kind == SQUARED)

    def _loss(self, u: Array, labels: list[Array]) -> tuple[Array, Array]:
        """Return gradient and Hessian of the losses of all rows."""
        T = u.shape[1]
        gradient, hessian = np.zeros_like(u), np.zeros((len(u), T, T))
        softmax = {n: _softmax(u[:, :n]) for n in set(self._columns)}
        for n, y in zip(self._columns, labels, strict=True):
            p = softmax[n]
            J, r = _jacobian(p), p - y
            if self._squared:
                gradient[:, :n] += 2.0 * np.einsum("kij,kj->ki", J, r)
                hessian[:, :n, :n] += 2.0 * (J @ J + _curvature(p, r))
            else:
                gradient[:, :n] += r
                hessian[:, :n, :n] += J
        return gradient, hessian


class _Zero(SolveError):
    """The only solution is the zero field."""


def _downhill(gradient: Array, hessian: Array) -> Array:
    """Return Newton's step of every sample, with the absolute values of the curvatures, which leads off saddles."""
    curvatures, axes = np.linalg.eigh(hessian)
    curvatures = np.abs(curvatures)
    curvatures = np.maximum(curvatures, SMALLEST_CURVATURE * curvatures.max(axis=1, keepdims=True))
    return np.asarray(-np.einsum("kij,kj,klj,kl->ki", axes, 1.0 / curvatures, axes, gradient, optimize=True))


def _softmax(logits: Array) -> Array:
    y = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(y / y.sum(axis=1, keepdims=True))


def _jacobian(p: Array) -> Array:
    """Return dp/du of a softmax for every sample."""
    return np.asarray(p[:, :, None] * (np.eye(p.shape[1]) - p[:, None, :]))


def _curvature(p: Array, r: Array) -> Array:
    """Return sum_k r_k d²p_k/du du of a softmax for every sample."""
    mean = np.sum(r * p, axis=1)[:, None]
    a = p * (r - mean)
    diagonal = np.zeros((*p.shape, p.shape[1]))
    index = np.arange(p.shape[1])
    diagonal[:, index, index] = a
    return np.asarray(diagonal - a[:, :, None] * p[:, None, :] - p[:, :, None] * a[:, None, :])
