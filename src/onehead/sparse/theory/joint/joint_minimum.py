"""Minimum of the loss over query, readout and bias with both ridges: replica-symmetric equations (J25-J31).

The Hessian of the loss of one sample by its fields r_l = (H_l, G_l) is block diagonal plus two directions, p = du/dr
and s = (a, 0): Hess = diag(h [[a_l D_l, a_l], [a_l, 0]]) + c p p' - h (s p' + p s'). Solves with V^-1 + Hess therefore
take a number of operations that is linear in the length.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from onehead.sparse.losses import Array, Loss
from onehead.sparse.task import Task
from onehead.sparse.theory.features import softmax
from onehead.sparse.theory.joint.attention_forces import JointWeights, forces, semidefinite_root, slopes
from onehead.sparse.theory.joint.descent_samples import standard_normals

MAX_INNER_STEPS = 60
INNER_TOLERANCE = 1e-9  # largest gradient of the inner problem
FIRST_DAMPING, DAMPING_FACTOR = 0.5, 4.0  # of the Levenberg steps, in units of V^-1
RAISED_LOGIT = 3.0  # shift of one logit in the other starts of the inner problem
ALL = slice(None)  # of the samples
SAME_MINIMUM = 1e-6  # difference of the inner objective below which two minima are the same


class JointPoint(NamedTuple):
    """Order parameters: overlaps m, Q - m m', susceptibility V (2 x 2), and bias."""

    overlap: Array
    noise: Array
    susceptibility: Array
    bias: float

    @property
    def gram(self) -> Array:
        """Gram matrix Q of query and readout."""
        return np.asarray(self.noise + np.outer(self.overlap, self.overlap))

    @property
    def weights(self) -> JointWeights:
        """Order parameters from which the test error follows."""
        return JointWeights(self.overlap, self.gram, self.bias)


class MinimumAverages(NamedTuple):
    """Averages over the inner minima, from which the next point and the certificate follow."""

    drift: Array  # theta E sum over signal tokens of g
    noise: Array  # E sum_l g_l g_l'
    curvature: Array  # K
    slope: float  # E h
    newton: Array  # Jacobian of the equations of (m, b) at fixed Q - m m' and V
    stability: float  # spectral radius of the replicon map
    train_loss: float
    train_error: float


class _Fields(NamedTuple):
    """State of the inner problem of every sample at given fields."""

    objective: Array
    att: Array
    deviation: Array
    h: Array
    c: Array
    value: Array
    logit: Array


class _Inverse(NamedTuple):
    """Inverse of V^-1 + Hess: blocks (n, L, 2, 2), B^-1 U, core (n, 2, 2) and U = (p, s)."""

    blocks: Array
    images: Array
    core: Array
    directions: Array

    def apply(self, vector: Array) -> Array:
        """Return the inverse times a vector (n, L, 2)."""
        direct = np.einsum("nlij,nlj->nli", self.blocks, vector)
        inner = np.einsum("nlja,nlj->na", self.directions, direct)
        return np.asarray(direct - np.einsum("nlia,nab,nb->nli", self.images, self.core, inner))


@dataclass
class JointMinimum:
    """Averages of the replica-symmetric equations over one set of points; inner minima are kept as the next start."""

    task: Task
    loss: Loss
    log2_points: int
    seed: list[int]

    def __post_init__(self) -> None:
        L = self.task.length
        normals = standard_normals(2 * L, self.log2_points, self.seed).reshape(-1, 2, L).transpose(0, 2, 1)
        points = len(normals)
        self.normals = np.concatenate([normals, normals])
        self.label = np.repeat([1.0, -1.0], points)
        pi = self.task.positive_rate
        self.weight = np.repeat([pi, 1.0 - pi], points) / points
        self.signal = np.zeros((2 * points, L))
        self.signal[:points, : self.task.signal_tokens] = 1.0
        self.fields: Array | None = None

    def means(self, point: JointPoint) -> Array:
        """Return the fields z_l of every sample without its own force, (n, L, 2) (J25)."""
        noise = self.normals @ semidefinite_root(point.gram).T
        return np.asarray(noise + self.task.strength * self.signal[:, :, None] * point.overlap)

    def averages(self, point: JointPoint) -> MinimumAverages:
        """Solve the inner problem of every sample and average (J26-J29)."""
        z = self.means(point)
        inverse_v = _inverse(point.susceptibility)
        start = z if self.fields is None else self.fields
        self.fields, state = self._minimise(z, start, inverse_v, point.bias)
        found = _invert(state, inverse_v)
        force = forces(state.att, state.deviation, state.h)  # (n, 2, L)
        theta, weight = self.task.strength, self.weight
        A = np.einsum("nlij,jk->nlik", found.blocks, inverse_v) - np.eye(2)  # V J = delta A - images core Y'
        Y = np.einsum("ij,nlja->nlia", inverse_v, found.images)
        diagonal = A - np.einsum("nlia,nab,nlkb->nlik", found.images, found.core, Y)
        curvature = -inverse_v @ np.einsum("n,nlij->ij", weight, diagonal)
        # derivatives by the bias
        p = found.directions[..., 0]
        by_bias = -found.apply(state.c[:, None, None] * p)
        dh = state.c * (1.0 + np.einsum("nli,nli->n", p, by_bias))
        s_b = theta * np.einsum("n,nl,nli->i", weight, self.signal, by_bias @ inverse_v)
        on_signal = np.einsum("nl,nlij->nij", self.signal, A)
        images, others = (np.einsum("nl,nlia->nia", self.signal, part) for part in (found.images, Y))
        on_signal -= np.einsum("nia,nab,nkb->nik", images, found.core, others)
        jacobian = inverse_v @ np.einsum("n,nij->ij", weight, on_signal)  # E sum over pairs of signal tokens of J
        newton = np.empty((3, 3))
        newton[:2, :2] = -(theta**2) * jacobian
        newton[:2, 2] = newton[2, :2] = -s_b
        newton[2, 2] = weight @ dh
        margin = self.label * state.logit
        return MinimumAverages(
            drift=theta * np.einsum("n,nl,nil->i", weight, self.signal, force),
            noise=np.einsum("n,nil,njl->ij", weight, force, force, optimize=True),
            curvature=0.5 * (curvature + curvature.T),
            slope=float(weight @ state.h),
            newton=newton,
            stability=_spectral_radius(weight, A, found, Y),
            train_loss=float(weight @ state.value),
            train_error=float(weight @ (margin < 0.0)),
        )

    def switching_share(self, point: JointPoint) -> float:
        """Return the probability that the inner minimum found from z is not the lowest one found (J30)."""
        z, inverse_v = self.means(point), _inverse(point.susceptibility)
        lowest = self._minimise(z, z, inverse_v, point.bias)[1].objective
        first = lowest.copy()
        for token in range(self.task.length):
            start = z.copy()
            start[:, token, 0] += RAISED_LOGIT
            lowest = np.minimum(lowest, self._minimise(z, start, inverse_v, point.bias)[1].objective)
        return float(self.weight @ (first > lowest + SAME_MINIMUM))

    def _state(self, r: Array, z: Array, inverse_v: Array, bias: float, chosen: Any = ALL) -> _Fields:
        """Evaluate the inner objective l(y u(r)) + (r - z)' V^-1 (r - z)/2 of the chosen samples."""
        att = softmax(r[:, :, 0])
        ubar = np.einsum("nl,nl->n", att, r[:, :, 1])
        logit = ubar + bias
        value, h, c = slopes(self.loss, self.label[chosen], logit)
        off = r - z
        penalty = 0.5 * np.einsum("nli,ij,nlj->n", off, inverse_v, off, optimize=True)
        return _Fields(value + penalty, att, r[:, :, 1] - ubar[:, None], h, c, value, logit)

    def _minimise(self, z: Array, start: Array, inverse_v: Array, bias: float) -> tuple[Array, _Fields]:
        """Minimise the inner objective of every sample by Levenberg's method, from the fields ``start`` (J25)."""
        fields = start.copy()
        moving = np.arange(len(z))  # samples that are not at their minimum yet
        r, at, damping = start, z, np.zeros(len(z))
        state = self._state(r, at, inverse_v, bias)
        for _ in range(MAX_INNER_STEPS):
            p = np.stack([state.att * state.deviation, state.att], axis=2)
            gradient = state.h[:, None, None] * p + (r - at) @ inverse_v
            more = np.max(np.abs(gradient), axis=(1, 2)) >= INNER_TOLERANCE
            if not more.all():
                moving, r, at, damping, gradient = (part[more] for part in (moving, r, at, damping, gradient))
                state = _Fields(*(part[more] for part in state))
            if not moving.size:
                break
            trial = r - _invert(state, inverse_v, damping).apply(gradient)
            new = self._state(trial, at, inverse_v, bias, moving)
            rounding = 1e-14 * (1.0 + np.abs(state.objective))
            better = new.objective <= state.objective + rounding
            damping = np.where(better, damping / DAMPING_FACTOR, np.maximum(DAMPING_FACTOR * damping, FIRST_DAMPING))
            damping[damping < 1e-3] = 0.0
            r = np.where(better[:, None, None], trial, r)
            fields[moving] = r
            state = _Fields(
                *(
                    np.where(better.reshape(-1, *[1] * (after.ndim - 1)), after, before)
                    for before, after in zip(state, new, strict=True)
                )
            )
        return fields, self._state(fields, z, inverse_v, bias)


def _inverse(matrix: Array) -> Array:
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def _invert(state: _Fields, inverse_v: Array, damping: Array | None = None) -> _Inverse:
    """Return the inverse of (1 + damping) V^-1 + Hess of every sample."""
    a, h, c = state.att, state.h, state.c
    a_d = a * state.deviation
    scale = np.ones(len(a)) if damping is None else 1.0 + damping
    blocks = np.empty((*a.shape, 2, 2))
    hh = scale[:, None] * inverse_v[0, 0] + h[:, None] * a_d
    hg = scale[:, None] * inverse_v[0, 1] + h[:, None] * a
    gg = (scale * inverse_v[1, 1])[:, None]
    determinant = hh * gg - hg * hg
    blocks[..., 0, 0], blocks[..., 1, 1] = gg / determinant, hh / determinant
    blocks[..., 0, 1] = blocks[..., 1, 0] = -hg / determinant
    directions = np.zeros((*a.shape, 2, 2))
    directions[..., 0, 0], directions[..., 1, 0], directions[..., 0, 1] = a_d, a, a
    images = np.einsum("nlij,nlja->nlia", blocks, directions)
    inner = np.einsum("nlia,nlib->nab", directions, images)
    rank = np.zeros((len(a), 2, 2))
    rank[:, 0, 0], rank[:, 0, 1], rank[:, 1, 0] = c, -h, -h
    core = np.linalg.solve(np.eye(2) + rank @ inner, rank)
    return _Inverse(blocks, images, core, directions)


def _spectral_radius(weight: Array, A: Array, inverse: _Inverse, Y: Array) -> float:
    """Return the spectral radius of dQ -> sum_{l,l'} E (V J) dQ (V J)' without the factor alpha (J29)."""
    low = np.einsum("nlia,nab,nlkb->nlik", inverse.images, inverse.core, Y)
    same = np.einsum("n,nlik,nljm->ijkm", weight, A, A, optimize=True)
    same -= np.einsum("n,nlik,nljm->ijkm", weight, A, low, optimize=True)
    same -= np.einsum("n,nlik,nljm->ijkm", weight, low, A, optimize=True)
    left = np.einsum("nlia,nljb->niajb", inverse.images, inverse.images)
    right = np.einsum("nlkc,nlmd->nkcmd", Y, Y)
    pairs = np.einsum("n,niajb,nac,nbd,nkcmd->ijkm", weight, left, inverse.core, inverse.core, right, optimize=True)
    return float(np.max(np.abs(np.linalg.eigvals((same + pairs).reshape(4, 4)))))
