"""Messages between samples and a map: what approximate message passing is made of, whoever sends them (9).

In the coordinates u = h_ab - h_12 of a sample, covariance C per unit of variance (2.5), in reduced units:

    v = u(S) - Σ C p_old,                      p = C^-1 (answer(v) - v) / Σ,
    Σhat = (2 α / Σ) mean tr(1 - d answer/dv), R = Σhat S + (2/d) sum_samples sum_ab P_ab dh_ab/dS,

with P the symmetric matrix of p; then S and Σ from R and Σhat. Rows that share no logit (masks, untied heads) have coordinates of their
own, u_b = h_ab - h_an from the last column they see. An untied map has 1 instead of the 2 above, and P and R without symmetry (U9).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64, types
from numpy.typing import NDArray

from onehead.aim.equations.geometry import Block, Geometry, geometry_of
from onehead.aim.task import Task
from onehead.aim.training.data import Samples
from onehead.aim.training.logits import data_slope, map_logits
from onehead.errors import Diverged, InvalidArgument
from onehead.numerics.compiled import njit
from onehead.numerics.interrupts import check, heard
from onehead.numerics.prox import ROW, factorise, newton_prox, scratch, solve_factored

__all__ = ["DAMPING", "Answers", "Passed", "Senders", "check_geometry", "iterate"]

Array = NDArray[np.float64]

DAMPING = 0.7
SMALLEST_LABEL = 1e-300
RUNAWAY = 1e6  # of q over the power of the labels

_matrix = types.Array(float64, 2, "C")


@njit(
    types.void(ROW, types.Array(int64, 2, "C"), _matrix, float64, _matrix, types.Array(float64, 3, "C"),
               _matrix, _matrix, types.Array(float64, 1, "C")),
    cache=True,
    nogil=True,
    error_model="numpy",
)  # fmt: skip
def _messages(row, select, metric, step, v, label, start, p, out):  # type: ignore[no-untyped-def]
    """p = C^-1 (prox - v) / Σ of every sample; out[0] is the sum of tr(1 - dprox/dv)."""
    n = metric.shape[0]
    w = scratch(n, select.shape[1])
    u = np.empty(n)
    out[0] = 0.0
    for i in range(v.shape[0]):
        u[:] = start[i]
        newton_prox(row, select, metric, step, v[i], label[i], u, w)
        for k in range(n):
            total = 0.0
            for j in range(n):
                total += metric[k, j] * (u[j] - v[i, j])
            p[i, k] = total / step
        lift = 1e-9
        while not factorise(w.hessian, w.factor):  # a minimum that is flat in some direction
            for k in range(n):
                w.hessian[k, k] += lift * metric[k, k] / step
            lift *= 10.0
        for k in range(n):
            for j in range(n):
                w.step[j] = w.hessian[j, k] - metric[j, k] / step
            solve_factored(w.factor, w.step)
            out[0] += w.step[k]


class _Coordinates(NamedTuple):
    """Rows of a sample that share coordinates: positions of the pairs (a, b), the pair from which they are measured, and their law."""

    shape: Block
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    base: tuple[int, int]
    seen: tuple[slice, slice]  # the rows, and the columns that they see

    def take(self, h: Array) -> Array:
        """u of logits (count, T, T)."""
        return np.ascontiguousarray(h[:, self.rows, self.columns] - h[:, self.base[0], self.base[1], None])

    def label(self, y: Array) -> Array:
        """The labels of these rows."""
        return np.ascontiguousarray(y[:, self.seen[0], self.seen[1]])

    def spread(self, p: Array, P: Array) -> None:
        """Fill the entries of P with sum_ab P_ab dh_ab = p.du."""
        P[:, self.rows, self.columns] = p
        P[:, self.base[0], self.base[1]] = -p.sum(axis=1)


def _coordinates(task: Task, geometry: Geometry) -> tuple[_Coordinates, ...]:
    """Those of every row that has a choice; without a mask, rows of a tied head share theirs."""
    if _coupled(task):
        (shape,) = geometry.blocks
        pairs = [divmod(int(np.flatnonzero(shape.select.ravel() == i)[0]), task.tokens) for i in range(shape.dim)]
        rows, columns = np.array(pairs).T
        return (_Coordinates(shape, rows, columns, (0, 1), (slice(None), slice(None))),)
    shapes = {block.dim + 1: block for block in geometry.blocks}
    return tuple(
        _Coordinates(shapes[n], np.full(n - 1, a), np.arange(n - 1), (a, n - 1), (slice(a, a + 1), slice(n)))
        for a, n in enumerate(task.columns)
        if n > 1
    )


def _coupled(task: Task) -> bool:
    """Whether rows share logits."""
    return task.tied and task.mask == "none"


def _label_logits(y: Array, coupled: bool) -> Array:
    """Logits with the rows of y as their softmax, log y_ab; symmetric ones, if rows share them, by c_a = log(y_1a / y_a1)."""
    h = np.log(np.maximum(y, SMALLEST_LABEL))
    if coupled:
        h += (h[:, 0, :] - h[:, :, 0])[:, :, None]
    return h


def check_geometry(task: Task) -> None:
    """Refuse a head whose map the messages do not see the same in all directions (U5.1, U9, P11)."""
    if task.sees_kurtosis:
        raise InvalidArgument("kurtosis", task.kurtosis, "3 for message passing")
    if geometry_of(task.attention, task.mask, task.tokens).sectors > 1:
        raise InvalidArgument("attention", "self", "tied or cross for message passing, or self with mask strict")


class Senders(ABC):
    """The output half of a step: messages of every sample, and the coordinates of logits that meet its labels exactly."""

    def __init__(self, task: Task, samples: Samples, geometry: Geometry) -> None:
        self.task, self.samples, self.geometry = task, samples, geometry
        self.coordinates = _coordinates(task, geometry)
        self.fitted = [
            [at.take(logits) for at in self.coordinates]
            for logits in (_label_logits(chunk.labels, _coupled(task)) for chunk in samples)
        ]
        self.messages = [[np.zeros_like(u) for u in fits] for fits in self.fitted]

    @abstractmethod
    def send(self, shape: Block, sigma: float, v: Array, fitted: Array, labels: Array) -> tuple[Array, float]:
        """p of every sample, and the sum of tr(1 - d answer/dv)."""

    def step(self, S: Array, sigma: float, damping: float) -> tuple[float, Array]:
        """Mean of tr(1 - d answer/dv), and sum P_ab dh_ab/dS; renews the messages."""
        total, slope = 0.0, np.zeros(S.shape)
        for k, chunk in enumerate(self.samples):
            X = chunk.tokens
            h = map_logits(S.astype(X.dtype), X, chunk.keys).astype(np.float64)
            P = np.zeros(h.shape)
            for i, at in enumerate(self.coordinates):
                old = self.messages[k][i]
                v = at.take(h) - sigma * old @ at.shape.covariance
                p, reaction = self.send(at.shape, sigma, v, self.fitted[k][i], at.label(chunk.labels))
                total += reaction
                old += damping * (p - old)
                at.spread(old, P)
            if self.task.tied:
                P = 0.5 * (P + P.transpose(0, 2, 1))
            slope += data_slope(P.astype(X.dtype), X, chunk.keys)
        return total / self.samples.count, slope


class Answers(Senders):
    """Messages of a head in training: the answer is the proximal point of its loss.

    Hard labels are met nowhere: a proximal point is looked for from v, and cross-entropy has one (U7).
    """

    def __init__(self, task: Task, samples: Samples, geometry: Geometry, row: Any) -> None:
        super().__init__(task, samples, geometry)
        self.row = row

    def send(self, shape: Block, sigma: float, v: Array, fitted: Array, labels: Array) -> tuple[Array, float]:
        """p = C^-1 (prox - v) / Σ."""
        start, p, out = v if self.task.labels == "hard" else fitted, np.empty_like(v), np.empty(1)
        _messages(self.row, shape.select, shape.metric, sigma, v, labels, start, p, out)
        return p, float(out[0])


class Passed(NamedTuple):
    """The last map, in reduced units; (q, m, Σ, Σhat) of every iteration, the start first."""

    map: Array
    trace: Array
    iterations: int
    change: float
    status: str


def iterate(
    senders: Senders,
    pass_on: Callable[[Array, float], tuple[Array, float]],
    target: Array,
    start: tuple[Array, float],
    *,
    max_iterations: int,
    damping: float = DAMPING,
    tolerance: float = 0.0,
    largest: float,
    stop: Callable[[], bool] = lambda: False,
) -> Passed:
    """Iterate from a map and its Σ until S changes by less than ``tolerance`` (relative) in a step, in reduced units.

    ``pass_on`` is the input half, S and Σ from R and Σhat. ``damping`` is the share of the new S, Σ and messages in each step,
    ``largest`` the power of the labels, far beyond which no map belongs.
    """
    (S, sigma), sigma_hat = start, np.nan
    d, unit, symmetric = senders.samples.dim, senders.geometry.unit, senders.task.tied
    alpha = senders.samples.count / d**2
    trace = [(float(np.sum(S * S) / d), float(np.sum(S * target) / d), sigma, sigma_hat)]
    change, status = np.inf, f"stopped after {max_iterations} iterations"
    for step in range(max_iterations):
        if stop():
            status = "interrupted: the best weights so far"
            break
        share = damping if step else 1.0
        try:
            with heard():
                reaction, slope = senders.step(S, sigma, share)
                check()
        except KeyboardInterrupt:
            status = "interrupted: the best weights so far"
            break
        sigma_hat = unit * alpha / sigma * reaction
        R = sigma_hat * S + unit / d * slope
        fresh, fresh_sigma = pass_on(0.5 * (R + R.T) if symmetric else R, sigma_hat)
        moved = share * (fresh - S)
        S = S + moved
        sigma += share * (fresh_sigma - sigma)
        q = float(np.sum(S * S) / d)
        if not q < RUNAWAY * largest:
            raise Diverged(f"message passing ran away at iteration {step + 1}; use a smaller damping.")
        trace.append((q, float(np.sum(S * target) / d), sigma, sigma_hat))
        change = float(np.linalg.norm(moved) / max(float(np.linalg.norm(S)), 1e-300))
        if sigma <= 0.0:
            status = "not emerged: S = 0 is the minimum"
            break
        if change <= tolerance:
            status = "converged"
            break
    return Passed(S, np.array(trace), len(trace) - 1, change, status)
