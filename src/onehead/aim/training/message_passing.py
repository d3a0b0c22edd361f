"""Approximate message passing between samples and a map: the iteration shared by all learners (9).

In the coordinates u = h_ab - h_12 of a sample, covariance C per unit of variance (2.5), in reduced units:

    v = u(S) - Σ C p_old,                      p = C^-1 (û(v) - v) / Σ,
    Σhat = (2 α / Σ) mean tr(1 - dû/dv),       R = Σhat S + (2/d) sum_samples sum_ab P_ab dh_ab/dS,

where û(v) is the output estimate (the proximal point for a trained head) and P the symmetric matrix of p; then S and Σ
follow from R and Σhat by a denoiser. Rows that share no logit (masks, untied heads) have coordinates of their own, u_b
= h_ab - h_an relative to their last column. An untied map has 1 in place of the 2 above, and P and R without symmetry
(U9). Where queries have a mean, S and R are in coordinates of second moment one (`onehead.aim.training.unasked_row`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import float64, int64, types
from numpy.typing import NDArray

from onehead.aim.logits.blocks import Block
from onehead.aim.logits.geometry import Geometry, geometry_of, masked_row
from onehead.aim.task import Task
from onehead.aim.training.data import Samples
from onehead.aim.training.logits import map_gradient, map_logits
from onehead.aim.training.unasked_row import UnaskedRow
from onehead.errors import Diverged, InvalidArgument
from onehead.numerics.cholesky import factorise, solve_factored
from onehead.numerics.interrupts import raise_if_interrupted, record_interrupts
from onehead.numerics.jit import njit
from onehead.numerics.prox import ROW, newton_prox, scratch

Array = NDArray[np.float64]

DAMPING = 0.7  # share of the new iterate; without damping the iteration can oscillate at d of about 100
MIN_PROBABILITY = 1e-300  # below which the logarithm of a label is not taken
DIVERGED = 1e6  # ratio of q to the power of the labels above which the iteration counts as diverged
HESSIAN_SHIFT = (
    1e-9  # first relative diagonal shift of a Hessian that is not positive definite; grows tenfold until it is
)

_matrix = types.Array(float64, 2, "C")


@njit(
    types.void(ROW, types.Array(int64, 2, "C"), _matrix, float64, _matrix, types.Array(float64, 3, "C"),
               _matrix, _matrix, types.Array(float64, 1, "C"))
)  # fmt: skip
def _proximal_messages(row, select, metric, step, v, label, start, p, out):  # type: ignore[no-untyped-def]
    """Fill p = C^-1 (prox - v) / Σ of every sample; out[0] becomes the sum of tr(1 - dprox/dv)."""
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
        shift = HESSIAN_SHIFT
        while not factorise(
            w.hessian, w.factor
        ):  # nearly singular Hessian: shift its diagonal until it is positive definite
            for k in range(n):
                w.hessian[k, k] += shift * metric[k, k] / step
            shift *= 10.0
        for k in range(n):
            for j in range(n):
                w.step[j] = w.hessian[j, k] - metric[j, k] / step
            solve_factored(w.factor, w.step)
            out[0] += w.step[k]


class _Coordinates(NamedTuple):
    """Coordinates of rows that share logits: h at the pairs (rows, columns), relative to the pair ``base``."""

    block: Block  # covariance and metric of the coordinates
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    base: tuple[int, int]
    window: tuple[NDArray[np.int64], NDArray[np.int64]]  # rows, and the columns that they attend to, in this order

    def take(self, h: Array) -> Array:
        """Coordinates u of logits (count, T, T)."""
        return np.ascontiguousarray(h[:, self.rows, self.columns] - h[:, self.base[0], self.base[1], None])

    def label(self, y: Array) -> Array:
        """Labels of these rows."""
        rows, columns = self.window
        return np.ascontiguousarray(y[:, rows[:, None], columns])

    def scatter(self, p: Array, P: Array) -> None:
        """Fill the entries of P so that sum_ab P_ab dh_ab = p.du."""
        P[:, self.rows, self.columns] = p
        P[:, self.base[0], self.base[1]] = -p.sum(axis=1)


def _coordinates(task: Task, geometry: Geometry) -> tuple[_Coordinates, ...]:
    """Coordinates of all rows with at least two columns; rows of a tied head without a mask share one set."""
    if _rows_share_logits(task):
        (block,) = geometry.blocks
        pairs = [divmod(int(np.flatnonzero(block.select.ravel() == i)[0]), task.tokens) for i in range(block.dim)]
        rows, columns = np.array(pairs).T
        every = np.arange(task.tokens)
        return (_Coordinates(block, rows, columns, (0, 1), (every, every)),)
    blocks: dict[tuple[int, bool], Block] = {}
    return tuple(_of_row(a, seen, task.tied, blocks) for a, seen in enumerate(task.visible) if seen.sum() > 1)


def _of_row(a: int, seen: NDArray[np.bool_], tied: bool, blocks: dict[tuple[int, bool], Block]) -> _Coordinates:
    """Coordinates of row a, relative to its last column, which is the own one of a tied head that sees it."""
    own = tied and bool(seen[a])
    columns = np.flatnonzero(seen)
    if own:
        columns = np.append(columns[columns != a], a)
    n = len(columns)
    block = blocks.setdefault((n, own), masked_row(n, own, (2.0,), (1.0,)))
    return _Coordinates(block, np.full(n - 1, a), columns[:-1], (a, int(columns[-1])), (np.array([a]), columns))


def _rows_share_logits(task: Task) -> bool:
    """Whether rows share logits, as those of a tied head without a mask do."""
    return task.tied and task.mask == "none"


def _label_logits(y: Array, symmetric: bool) -> Array:
    """Logits log y_ab whose softmax is y; made symmetric by row constants c_a = log(y_1a / y_a1) if rows share them."""
    h = np.log(np.maximum(y, MIN_PROBABILITY))
    if symmetric:
        h += (h[:, 0, :] - h[:, :, 0])[:, :, None]
    return h


def check_message_passing(task: Task) -> None:
    """Refuse heads without a message passing algorithm: two sectors, or tokens of another kurtosis (U5.1, U9, P11)."""
    if task.depends_on_kurtosis:
        raise InvalidArgument("kurtosis", task.kurtosis, "3 for message passing")
    if geometry_of(task.attention, task.mask, task.tokens).sectors > 1:
        raise InvalidArgument("attention", "self", "tied or cross for message passing, or self with mask strict")
    if task.own_field:
        raise InvalidArgument(
            "unasked",
            task.unasked,
            "0 for message passing of a head that sees its own logit, where unasked logits have another covariance "
            "than all others; attention cross, or self with mask strict, takes other values",
        )


class SampleMessages(ABC):
    """Output half of an iteration: the messages p of all samples.

    ``fitted`` holds the coordinates of logits that reproduce the labels exactly.
    """

    def __init__(self, task: Task, samples: Samples, geometry: Geometry) -> None:
        self.task, self.samples, self.geometry = task, samples, geometry
        self.unasked_row = UnaskedRow.of(task, samples.target) if task.unasked else None
        self.coordinates = _coordinates(task, geometry)
        self.fitted = [
            [coordinates.take(logits) for coordinates in self.coordinates]
            for logits in (_label_logits(chunk.labels, _rows_share_logits(task)) for chunk in samples)
        ]
        self.clear()

    def clear(self) -> None:
        """Set all messages to zero."""
        self.messages = [[np.zeros_like(u) for u in of_chunk] for of_chunk in self.fitted]

    @abstractmethod
    def compute(self, block: Block, sigma: float, v: Array, fitted: Array, labels: Array) -> tuple[Array, float]:
        """Messages p of every sample, and the sum of tr(1 - dû/dv)."""

    def step(self, S: Array, sigma: float, damping: float) -> tuple[float, Array]:
        """Update the messages; returns the mean of tr(1 - dû/dv) and sum P_ab dh_ab/dS."""
        total, gradient, S = 0.0, np.zeros(S.shape), S if self.unasked_row is None else self.unasked_row.unwhitened(S)
        for k, chunk in enumerate(self.samples):
            X = chunk.tokens
            h = map_logits(S.astype(X.dtype), X, chunk.keys).astype(np.float64)
            P = np.zeros(h.shape)
            for i, coordinates in enumerate(self.coordinates):
                message = self.messages[k][i]
                v = coordinates.take(h) - sigma * message @ coordinates.block.covariance
                p, response = self.compute(
                    coordinates.block, sigma, v, self.fitted[k][i], coordinates.label(chunk.labels)
                )
                total += response
                message += damping * (p - message)
                coordinates.scatter(message, P)
            if self.task.tied:
                P = 0.5 * (P + P.transpose(0, 2, 1))
            gradient += map_gradient(P.astype(X.dtype), X, chunk.keys)
        return total / self.samples.count, gradient if self.unasked_row is None else self.unasked_row.unwhitened(
            gradient
        )


class ProximalMessages(SampleMessages):
    """Messages of a head in training: û(v) is the proximal point of its loss.

    No logits reproduce a hard label, so that its proximal point is searched from v; cross-entropy has only one (U7).
    """

    def __init__(self, task: Task, samples: Samples, geometry: Geometry, row: Any) -> None:
        super().__init__(task, samples, geometry)
        self.row = row

    def compute(self, block: Block, sigma: float, v: Array, fitted: Array, labels: Array) -> tuple[Array, float]:
        """Messages p = C^-1 (prox - v) / Σ, and the sum of tr(1 - dprox/dv)."""
        start, p, out = v if self.task.labels == "hard" else fitted, np.empty_like(v), np.empty(1)
        _proximal_messages(self.row, block.select, block.metric, sigma, v, labels, start, p, out)
        return p, float(out[0])


class AmpRun(NamedTuple):
    """Result of message passing: the last map, and the trajectory of (q, m, Σ, Σhat), and of c where queries have a
    mean.
    """

    map: Array
    trajectory: Array  # one row per iteration, the start first
    iterations: int
    change: float  # relative change of S in the last step
    status: str


class Schedule(NamedTuple):
    """Iterations of message passing: their largest number, the share of the new S, Σ and messages in each step after
    the first, the relative change of S in a step at which they end, and a function that may end them.
    """

    max_iterations: int
    damping: float = DAMPING
    tolerance: float = 0.0
    stop: Callable[[], bool] = lambda: False


def iterate(
    messages: SampleMessages,
    denoise: Callable[[Array, float], tuple[Array, float]],
    target: Array,
    start: tuple[Array, float],
    schedule: Schedule,
    *,
    label_power: float,
) -> AmpRun:
    """Iterate from a map and its Σ, in reduced units and, where queries have a mean, in coordinates of second moment
    one.

    ``denoise`` is the input half: it returns S and Σ from R and Σhat. The iteration counts as diverged when q is far
    above ``label_power``.
    """
    max_iterations, damping, tolerance, stop = schedule
    (S, sigma), sigma_hat, row = start, np.nan, messages.unasked_row
    d, unit, symmetric = messages.samples.dim, messages.geometry.unit, messages.task.tied
    alpha = messages.samples.count / d**2

    def measured() -> tuple[float, ...]:
        q, m, *scale = (np.sum(S * S) / d, np.sum(S * target) / d) if row is None else row.overlaps(S, target)
        return float(q), float(m), sigma, sigma_hat, *scale

    trajectory = [measured()]
    change, status = np.inf, f"stopped after {max_iterations} iterations"
    for step in range(max_iterations):
        if stop():
            status = "interrupted: the best weights so far"
            break
        share = damping if step else 1.0
        try:
            with record_interrupts():
                response, gradient = messages.step(S, sigma, share)
                raise_if_interrupted()
        except KeyboardInterrupt:
            status = "interrupted: the best weights so far"
            break
        sigma_hat = unit * alpha / sigma * response
        R = sigma_hat * S + unit / d * gradient
        R = 0.5 * (R + R.T) if symmetric else R
        new, new_sigma = denoise(R, sigma_hat) if row is None else row.denoised(R, sigma_hat, denoise)
        move = share * (new - S)
        S = S + move
        sigma += share * (new_sigma - sigma)
        if not np.sum(S * S) / d < DIVERGED * label_power:
            raise Diverged(f"message passing diverged at iteration {step + 1}; use a smaller damping.")
        trajectory.append(measured())
        change = float(np.linalg.norm(move) / max(float(np.linalg.norm(S)), 1e-300))
        if sigma <= 0.0:
            status = "not emerged: S = 0 is the minimum"
            break
        if change <= tolerance:
            status = "converged"
            break
    return AmpRun(S, np.array(trajectory), len(trajectory) - 1, change, status)
