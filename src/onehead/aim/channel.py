"""The output channel: Gaussian logits, noisy labels, the proximal operator, and averages over all of them.

A sample has T tokens. Its logits h_ab matter only up to a common constant, so the coordinates are u = h_ab - h_12 over
the J = T(T+1)/2 - 1 other pairs a <= b, Gaussian with covariance C = diag(1 + delta_ab) + 1 1' per unit of variance of z
(theory of the output channel, 1.4, 1.6 and 2.5). In them

    prox(v) = argmin_u  (u - v)' C^-1 (u - v) / (2 Sigma) + sum_a loss(row a of u, row a of the label).
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64, njit, types
from numpy.typing import NDArray

from onehead.aim.loss import CHANNELS, Channel, softmax
from onehead.errors import NotConverged
from onehead.numerics.gaussian import GaussianRule, lattice, sobol
from onehead.numerics.parallel import thread_map
from onehead.numerics.prox import PAIR, ROW, factorise, newton_pair, newton_prox, scratch, solve_factored

__all__ = ["Averages", "Geometry", "LogitRule", "OutputChannel", "ProxMemory", "geometry"]

Array = NDArray[np.float64]

SLICE = 2048  # nodes per slice: fixed, so that sums do not depend on the number of threads
SHORT_SLICE = 256  # for more tokens, whose nodes cost more
GRADIENT_TOLERANCE = 1e-6  # largest gradient of a prox objective; Newton leaves about 1e-10
FRESH = 4  # level of the rule for fresh samples
STEP_LABEL = 1e-5  # central difference in the label logits: error about 1e-10 of the derivative


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Coordinates of the logits of T tokens: which coordinate each row sees, and their covariance."""

    tokens: int
    select: NDArray[np.int64]
    covariance: Array

    @property
    def dim(self) -> int:
        """J = T(T+1)/2 - 1, the directions of a sample that carry information (1.6)."""
        return len(self.covariance)

    @cached_property
    def metric(self) -> Array:
        """C^-1."""
        return np.ascontiguousarray(np.linalg.inv(self.covariance))

    @cached_property
    def root(self) -> Array:
        """V sqrt(D) with C = V D V': maps independent normals to coordinates, even and odd parts apart (2.5)."""
        values, vectors = np.linalg.eigh(self.covariance)
        return np.ascontiguousarray(vectors[:, ::-1] * np.sqrt(values[::-1]))

    @cached_property
    def row_fits(self) -> Array:
        """For each row a, the matrix G with v + G (u* - v): row a at its label, the others at their conditional mean."""
        fits = []
        for row in self.select:
            pick = np.zeros((self.tokens, self.dim))
            for b, i in enumerate(row):
                if i >= 0:
                    pick[b, i] = 1.0
            differences = pick[1:] - pick[0]
            gain = self.covariance @ differences.T
            fits.append(gain @ np.linalg.solve(differences @ gain, differences))
        return np.ascontiguousarray(fits)


@lru_cache(maxsize=32)
def geometry(tokens: int) -> Geometry:
    """The geometry of ``tokens`` tokens."""
    pairs = [(a, b) for a in range(tokens) for b in range(a, tokens) if (a, b) != (0, 1)]
    number = {pair: i for i, pair in enumerate(pairs)}
    select = np.array(
        [[number.get((min(a, b), max(a, b)), -1) for b in range(tokens)] for a in range(tokens)],
        dtype=np.int64,
    )
    covariance = np.diag([2.0 if a == b else 1.0 for a, b in pairs]) + 1.0
    return Geometry(tokens=tokens, select=select, covariance=covariance)


class LogitRule(NamedTuple):
    """Quadrature nodes already mapped to coordinates: label part, independent part, weights."""

    label: Array
    free: Array
    weights: Array


@lru_cache(maxsize=24)
def logit_rule(tokens: int, level: int, twin: bool) -> LogitRule:
    """Nodes for the pair (label logits, learner logits) of one sample.

    T = 2: a lattice in four dimensions, folded by its two reflection symmetries (2.5). T > 2: scrambled Sobol (2.6).
    ``level`` 0 is the coarsest, FRESH the one for errors on fresh samples, which need no proximal step and can afford
    more points; ``twin`` gives a second, independent rule of the same size.
    """
    shape = geometry(tokens)
    n = shape.dim
    rule: GaussianRule
    if tokens == 2:
        spacing, radius = ((0.8, 5.5), (0.6, 6.0), (0.5, 6.2), (0.42, 6.3), (0.5, 6.2))[level]
        rule = lattice(4, spacing=spacing, radius=radius, offset=0.0 if twin else 0.5, folded=2)
    else:
        rule = sobol(2 * n, log2_points=sobol_size(tokens, level), seed=1 if twin else 0)
    label, free = rule.nodes[:, :n] @ shape.root.T, rule.nodes[:, n:] @ shape.root.T
    return LogitRule(np.ascontiguousarray(label), np.ascontiguousarray(free), rule.weights)


def sobol_size(tokens: int, level: int) -> int:
    """log2 of the points before mirroring: fewer where one proximal step costs more."""
    if level == FRESH:
        return 15 if tokens <= 4 else 14 if tokens <= 8 else 13
    finest = {3: 13, 4: 12, 5: 12, 6: 11, 7: 11}.get(tokens, 10)
    return finest - 4 if level == 0 else finest - 3 + level  # the coarsest only has to find the way


class Averages(NamedTuple):
    """Gaussian averages over one sample, z* the noisy label coordinates, z the learner's (2.2).

    ``distance`` E|prox - z|^2, ``along_label`` E (prox - z).z*, ``along_own`` E (prox - z).z,
    ``trace`` E tr(1 - dprox/dz), ``trace_square`` E tr K^2, ``cross`` E tr dprox/dz*, ``loss`` E loss at the prox,
    ``switch_mass`` the Gaussian mass where the global minimum is not the one reached from the label.
    """

    distance: float
    along_label: float
    along_own: float
    trace: float
    trace_square: float
    cross: float
    loss: float
    switch_mass: float


_vector = types.Array(float64, 1, "C")
_matrix = types.Array(float64, 2, "C")
_tensor = types.Array(float64, 3, "C")
_indices = types.Array(int64, 2, "C")


@njit(cache=True, nogil=True, error_model="numpy")
def _labels(select, u, row_x, y):  # type: ignore[no-untyped-def]
    """Rows of the label: softmax of the label logits."""
    for a in range(select.shape[0]):
        for b in range(select.shape[1]):
            row_x[b] = u[select[a, b]] if select[a, b] >= 0 else 0.0
        softmax(row_x, y[a])


@njit(cache=True, nogil=True, error_model="numpy")
def _label_response(row, select, u, target, k, w, label_x, label, response):  # type: ignore[no-untyped-def]
    """- d(gradient of the loss)/d(label logit k) at ``u``, by central differences in that logit."""
    width = select.shape[1]
    response[:] = 0.0
    for a in range(select.shape[0]):
        seen = False
        for b in range(width):
            seen = seen or select[a, b] == k
        if not seen:
            continue
        for side in range(2):
            sign = 1.0 if side == 0 else -1.0
            for b in range(width):
                i = select[a, b]
                label_x[b] = (target[i] if i >= 0 else 0.0) + (sign * STEP_LABEL if i == k else 0.0)
                w.row_x[b] = u[i] if i >= 0 else 0.0
            softmax(label_x, label)
            row(w.row_x, label, w.row_gradient, w.row_hessian)
            for b in range(width):
                if select[a, b] >= 0:
                    response[select[a, b]] -= sign * w.row_gradient[b] / (2.0 * STEP_LABEL)


@njit(
    types.void(
        ROW,
        _indices,
        _matrix,
        _tensor,
        _matrix,
        _matrix,
        _vector,
        _matrix,
        float64,
        float64,
        float64,
        float64,
        int64,
        int64,
        int64,
        _vector,
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _prox_sums(  # type: ignore[no-untyped-def]
    row,
    select,
    metric,
    fits,
    label_nodes,
    free_nodes,
    weights,
    kept,
    root_q,
    overlap,
    root_w,
    step,
    search,
    detail,
    recall,
    out,
):
    """Weighted sums of `Averages` over a slice of nodes; out[8] is the largest gradient entry.

    ``search`` 0: the minimum reached from the label. 1: also look for lower ones and count them.
    2: use the lowest. ``detail`` 0: Stein forms only, 1: also traces, 2: also the response to the label.
    ``recall`` 1: keep the proximal points in ``kept``. 2: start from those kept there.
    """
    n, rows, width = metric.shape[0], select.shape[0], select.shape[1]
    w = scratch(n, width)
    y = np.empty((rows, width))
    target, v, u, other, pull = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    label_x, label_y, response = np.empty(width), np.empty(width), np.empty(n)
    kernel = np.empty((n, n))
    out[:] = 0.0
    for node in range(weights.shape[0]):
        weight = weights[node]
        for i in range(n):
            target[i] = root_q * label_nodes[node, i]
            v[i] = overlap * target[i] + root_w * free_nodes[node, i]
            u[i] = kept[node, i] if recall == 2 else target[i]
        _labels(select, target, w.row_x, y)
        value = newton_prox(row, select, metric, step, v, y, u, w)
        if search > 0:
            lowest, found = value, False
            for start in range(rows + 1):
                for i in range(n):
                    other[i] = v[i]
                    if start > 0:
                        for j in range(n):
                            other[i] += fits[start - 1, i, j] * (target[j] - v[j])
                candidate = newton_prox(row, select, metric, step, v, y, other, w)
                if candidate < lowest - 1e-10 * (1.0 + abs(lowest)):
                    lowest, found = candidate, True
                    pull[:] = other
            if found:
                out[7] += weight
                if search == 2:
                    u[:] = pull
            value = newton_prox(row, select, metric, step, v, y, u, w)  # already there: refills the scratch
        for i in range(n):
            out[8] = max(out[8], abs(w.gradient[i]))
            if recall > 0:
                kept[node, i] = u[i]
        quadratic = 0.0
        for i in range(n):
            slope = 0.0
            for j in range(n):
                slope += metric[i, j] * (u[j] - v[j])
            quadratic += slope * (u[i] - v[i])
            out[1] += weight * slope * target[i]
            out[2] += weight * slope * v[i]
        out[0] += weight * quadratic
        out[6] += weight * (value - 0.5 * quadratic / step)
        if detail == 0:
            continue
        if not factorise(w.hessian, w.factor):
            # a minimum that is flat in some direction, on the verge of losing itself: lift it just enough
            lift = 1e-9
            while not factorise(w.hessian, w.factor):
                for i in range(n):
                    w.hessian[i, i] += lift * metric[i, i] / step
                lift *= 10.0
        for k in range(n):
            for i in range(n):
                w.step[i] = w.hessian[i, k] - metric[i, k] / step
            solve_factored(w.factor, w.step)
            for i in range(n):
                kernel[i, k] = w.step[i]
        for i in range(n):
            out[3] += weight * kernel[i, i]
            for k in range(n):
                out[4] += weight * kernel[i, k] * kernel[k, i]
        if detail == 2:
            for k in range(n):
                _label_response(row, select, u, target, k, w, label_x, label_y, response)
                solve_factored(w.factor, response)
                out[5] += weight * response[k]


@njit(cache=True, nogil=True, error_model="numpy")
def _sigmoid(x):  # type: ignore[no-untyped-def]
    """sig(x) and sig(-x), both to full relative precision."""
    e = np.exp(-abs(x))
    high = 1.0 / (1.0 + e)
    low = e * high
    return (high, low) if x >= 0.0 else (low, high)


@njit(
    types.void(
        PAIR, _matrix, _tensor, _matrix, _matrix, _vector, _matrix,
        float64, float64, float64, float64, int64, int64, int64, _vector,
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
)  # fmt: skip
def _pair_sums(  # type: ignore[no-untyped-def]
    pair,
    metric,
    fits,
    label_nodes,
    free_nodes,
    weights,
    kept,
    root_q,
    overlap,
    root_w,
    step,
    search,
    detail,
    recall,
    out,
):
    """`_prox_sums` for two tokens: two coordinates, each row seeing one of them (2.5)."""
    p00, p01, p11 = metric[0, 0] / step, metric[0, 1] / step, metric[1, 1] / step
    out[:] = 0.0
    for node in range(weights.shape[0]):
        weight = weights[node]
        t0, t1 = root_q * label_nodes[node, 0], root_q * label_nodes[node, 1]
        v0, v1 = overlap * t0 + root_w * free_nodes[node, 0], overlap * t1 + root_w * free_nodes[node, 1]
        y0, c0 = _sigmoid(t0)
        y1, c1 = _sigmoid(t1)
        u0, u1 = (kept[node, 0], kept[node, 1]) if recall == 2 else (t0, t1)
        value, u0, u1, g0, g1, h0, h1 = newton_pair(pair, p00, p01, p11, v0, v1, y0, c0, y1, c1, u0, u1)
        if search > 0:
            found = False
            lowest = value
            for start in range(3):
                s0, s1 = v0, v1
                if start > 0:
                    s0 += fits[start - 1, 0, 0] * (t0 - v0) + fits[start - 1, 0, 1] * (t1 - v1)
                    s1 += fits[start - 1, 1, 0] * (t0 - v0) + fits[start - 1, 1, 1] * (t1 - v1)
                other, s0, s1, a0, a1, b0, b1 = newton_pair(pair, p00, p01, p11, v0, v1, y0, c0, y1, c1, s0, s1)
                if other < lowest - 1e-10 * (1.0 + abs(lowest)):
                    lowest, found = other, True
                    if search == 2:
                        value, u0, u1, g0, g1, h0, h1 = other, s0, s1, a0, a1, b0, b1
            if found:
                out[7] += weight
        out[8] = max(out[8], abs(g0), abs(g1))
        if recall > 0:
            kept[node, 0], kept[node, 1] = u0, u1
        x0, x1 = u0 - v0, u1 - v1
        pull0, pull1 = metric[0, 0] * x0 + metric[0, 1] * x1, metric[1, 0] * x0 + metric[1, 1] * x1
        quadratic = pull0 * x0 + pull1 * x1
        out[0] += weight * quadratic
        out[1] += weight * (pull0 * t0 + pull1 * t1)
        out[2] += weight * (pull0 * v0 + pull1 * v1)
        out[6] += weight * (value - 0.5 * quadratic / step)
        if detail == 0:
            continue
        # K = (P/Sigma + H)^-1 H with H = diag(l0, l1); the floor lifts a minimum on the verge of losing itself
        l0, l1 = h0 - p00, h1 - p11
        determinant = max(h0 * h1 - p01 * p01, 1e-9 * p00 * p11)
        k00, k01, k10, k11 = (
            h1 * l0 / determinant,
            -p01 * l1 / determinant,
            -p01 * l0 / determinant,
            h0 * l1 / determinant,
        )
        out[3] += weight * (k00 + k11)
        out[4] += weight * (k00 * k00 + 2.0 * k01 * k10 + k11 * k11)
        if detail == 2:
            a0, b0 = _sigmoid(t0 + STEP_LABEL)
            a1, b1 = _sigmoid(t1 + STEP_LABEL)
            up0, up1 = pair(u0, a0, b0)[1], pair(u1, a1, b1)[1]
            a0, b0 = _sigmoid(t0 - STEP_LABEL)
            a1, b1 = _sigmoid(t1 - STEP_LABEL)
            down0, down1 = pair(u0, a0, b0)[1], pair(u1, a1, b1)[1]
            out[5] -= weight * (h1 * (up0 - down0) + h0 * (up1 - down1)) / (2.0 * STEP_LABEL * determinant)


@njit(
    types.void(ROW, _indices, _matrix, _matrix, _vector, float64, float64, float64, _vector),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _loss_sums(row, select, label_nodes, free_nodes, weights, root_q, overlap, root_w, out):  # type: ignore[no-untyped-def]
    """Average loss of fresh samples whose learner logits are v, labels from u*."""
    n, rows, width = label_nodes.shape[1], select.shape[0], select.shape[1]
    w = scratch(n, width)
    y, target, v = np.empty((rows, width)), np.empty(n), np.empty(n)
    out[:] = 0.0
    for node in range(weights.shape[0]):
        for i in range(n):
            target[i] = root_q * label_nodes[node, i]
            v[i] = overlap * target[i] + root_w * free_nodes[node, i]
        _labels(select, target, w.row_x, y)
        for a in range(rows):
            for b in range(width):
                w.row_x[b] = v[select[a, b]] if select[a, b] >= 0 else 0.0
            out[0] += weights[node] * row(w.row_x, y[a], w.row_gradient, w.row_hessian)


@njit(
    types.void(ROW, _indices, _matrix, _matrix, _vector, float64, _vector),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _origin_sums(row, select, covariance, label_nodes, weights, root_q, out):  # type: ignore[no-untyped-def]
    """E g'Cg and E tr C (-dg/du*) for the gradient g of the loss at zero logits (4.6)."""
    n, rows, width = label_nodes.shape[1], select.shape[0], select.shape[1]
    w = scratch(n, width)
    y, target, zero, g = np.empty((rows, width)), np.empty(n), np.zeros(n), np.empty(n)
    label_x, label_y, response = np.empty(width), np.empty(width), np.empty(n)
    out[:] = 0.0
    for node in range(weights.shape[0]):
        for i in range(n):
            target[i] = root_q * label_nodes[node, i]
        _labels(select, target, w.row_x, y)
        g[:] = 0.0
        w.row_x[:] = 0.0
        for a in range(rows):
            row(w.row_x, y[a], w.row_gradient, w.row_hessian)
            for b in range(width):
                if select[a, b] >= 0:
                    g[select[a, b]] += w.row_gradient[b]
        for i in range(n):
            for j in range(n):
                out[0] += weights[node] * g[i] * covariance[i, j] * g[j]
        for k in range(n):
            _label_response(row, select, zero, target, k, w, label_x, label_y, response)
            for i in range(n):
                out[1] += weights[node] * covariance[k, i] * response[i]


def _sliced(kernel: Any, size: int, before: tuple[Any, ...], nodes: tuple[Array, ...], after: tuple[Any, ...]) -> Array:
    """Run a kernel over fixed slices of the nodes on all threads; one row of sums per slice."""
    length = SLICE if nodes[0].shape[1] == 2 else SHORT_SLICE
    starts = range(0, len(nodes[0]), length)

    def run(start: int) -> Array:
        out = np.empty(size)
        kernel(*before, *(array[start : start + length] for array in nodes), *after, out)
        return out

    return np.array(thread_map(run, list(starts)))


@dataclass
class ProxMemory:
    """Remembers the proximal points of the last evaluation.

    With ``follow`` the next evaluation starts from them, so that every point stays in its minimum and the averages are
    smooth where minima compete; without, it starts from the labels as usual and only the last points are kept.
    """

    follow: bool
    points: Array | None = None


@dataclass(frozen=True, kw_only=True)
class OutputChannel:
    """The output channel of one task and loss: averages at given overlaps.

    ``label_power`` is Q = Q0 + Delta/2, the variance of the noisy label coordinates.
    """

    channel: Channel
    tokens: int
    label_power: float
    branch: str = "label"

    def convex_at(self, sigma: float) -> bool:
        """Whether the prox has one minimum: always for a convex loss, for the squared one with T = 2 up to Sigma = 1 (2.7)."""
        return self.channel.convex or (self.channel.name == "squared" and self.tokens == 2 and sigma <= 1.0)

    def averages(
        self,
        q: float,
        m: float,
        sigma: float,
        *,
        level: int,
        twin: bool = False,
        detail: int = 0,
        search: bool = False,
        memory: ProxMemory | None = None,
    ) -> Averages:
        """Averages over the prox at overlaps (q, m) and step ``sigma`` (2.2).

        Every prox starts at its label, or where ``memory`` left it; ``search`` counts lower minima elsewhere.
        """
        shape, rule = geometry(self.tokens), logit_rule(self.tokens, level, twin)
        Q = self.label_power
        mode, recall, kept = int(search), 0, rule.label
        if self.branch == "global":
            mode = 2
        if memory is not None:
            recall = 1 if memory.points is None or not memory.follow else 2
            memory.points = kept = np.empty_like(rule.label) if memory.points is None else memory.points
            mode = 0 if recall == 2 else mode
        if self.convex_at(sigma):
            mode = 0
        kernel: Any = _prox_sums
        before: tuple[Any, ...] = (self.channel.compiled, shape.select, shape.metric, shape.row_fits)
        if self.tokens == 2:
            kernel, before = _pair_sums, (self.channel.compiled_pair, shape.metric, shape.row_fits)
        sums = _sliced(
            kernel,
            9,
            before,
            (rule.label, rule.free, rule.weights, kept),
            (np.sqrt(Q), m / Q, np.sqrt(max(q - m * m / Q, 0.0)), sigma, mode, detail, recall),
        )
        worst = float(sums[:, 8].max())
        if not worst < GRADIENT_TOLERANCE:
            raise NotConverged(
                f"a proximal step kept a gradient of {worst:.1e} at q = {q:.4g}, m = {m:.4g}, Sigma = {sigma:.4g}; "
                "try a larger weight_decay.",
                residual=worst,
            )
        return Averages(*(float(value) for value in sums[:, :8].sum(axis=0)))

    def fresh_loss(
        self, q: float, m: float, *, level: int = FRESH, power: float | None = None, loss: str | None = None
    ) -> float:
        """E loss on fresh samples; ``power`` replaces Q (clean labels), ``loss`` names another yardstick (2.4)."""
        Q = self.label_power if power is None else power
        yardstick = self.channel if loss is None else CHANNELS[loss]
        sums = _sliced(
            _loss_sums,
            1,
            (yardstick.compiled, geometry(self.tokens).select),
            logit_rule(self.tokens, level, False),
            (np.sqrt(Q), m / Q, np.sqrt(max(q - m * m / Q, 0.0))),
        )
        return float(sums.sum())

    @lru_cache(maxsize=64)  # noqa: B019  (frozen and small: the same few channels are asked again and again)
    def at_origin(self, level: int) -> tuple[float, float]:
        """(qhat, mhat) per unit of alpha at S = 0: 2 E|grad|^2 and 2 E tr d(grad)/dz* (4.6)."""
        shape, rule = geometry(self.tokens), logit_rule(self.tokens, level, False)
        sums = _sliced(
            _origin_sums,
            2,
            (self.channel.compiled, shape.select, shape.covariance),
            (rule.label, rule.weights),
            (np.sqrt(self.label_power),),
        ).sum(axis=0)
        return 2.0 * float(sums[0]), 2.0 * float(sums[1])
