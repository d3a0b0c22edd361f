"""The staged protocol with both stages on the same samples, which have shaped the query (J15-J24).

Names: A is the readout w1 of the first step, B the query of the second in units of 1/beta, * the trained readout. Every
sample remembers the two steps, because it pushed A and B itself: its fields contain its own forces g0 and g1.
"""

from copy import copy
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from onehead.sparse.losses import Array
from onehead.sparse.task import Protocol, Task
from onehead.sparse.theory.alignment import mean_slope, two_steps
from onehead.sparse.theory.features import softmax
from onehead.sparse.theory.joint.attention_forces import JointWeights, semidefinite_root, slopes
from onehead.sparse.theory.joint.descent_samples import standard_normals


class ReusedReadout(NamedTuple):
    """Order parameters of the readout: m, covariances with A and B, variance given both, chi, bias, K_A and K_B."""

    overlap: float
    with_first: float
    with_query: float
    free_variance: float
    chi: float
    bias: float
    memory_first: float
    memory_query: float

    def unknowns(self) -> Array:
        """Return the vector that is solved for, with logarithms of the two positive numbers."""
        m, c_a, c_b, variance, chi, *others = self
        return np.array([m, c_a, c_b, np.log(variance), np.log(chi), *others])

    @classmethod
    def from_unknowns(cls, u: Array) -> "ReusedReadout":
        """Return the order parameters of a vector of unknowns."""
        m, c_a, c_b, log_variance, log_chi, *others = u.tolist()
        return cls(m, c_a, c_b, float(np.exp(log_variance)), float(np.exp(log_chi)), *others)


class Residual(NamedTuple):
    """Equations (J18-J23) solved for their left-hand sides, matrix of the Newton step in (m, b), and the errors."""

    values: Array  # right-hand sides minus unknowns, in the order of `ReusedReadout`
    proposal: ReusedReadout
    newton: Array
    train_loss: float
    train_error: float
    variance: float  # C_**


@dataclass(frozen=True)
class _History:
    """Fields and forces of the two steps on every sample (J15, J16)."""

    label: Array
    weight: Array
    signal: Array  # mask of the signal tokens, (samples, L)
    first_force: Array  # g0 of every token, (samples, 1)
    second_force: Array  # g1, (samples, L)
    second_tangent: Array  # derivative of g1 by the field of A along the probe
    logits: Array  # H
    normals: Array
    probe: Array


class ReusedData:
    """Equations of the readout on one set of points."""

    def __init__(self, task: Task, protocol: Protocol, log2_points: int, seed: list[int]) -> None:
        self.task, self.protocol = task, protocol
        self.alpha = protocol.alpha
        plan = protocol.changed(alpha0=self.alpha)  # both steps use all samples
        steps = two_steps(task, plan)
        beta = protocol.beta
        self.overlap = np.array([steps.overlap_readout, beta * steps.overlap_query])
        cross = beta * steps.query_readout
        self.gram = np.array([[steps.norm_readout**2, cross], [cross, steps.sharpness**2]])
        k = -(1.0 - 1.0 / task.length) * mean_slope(task, plan)
        eta_q = protocol.eta_q * beta**2
        # responses of (A, B) to the forces g0 and g1
        self.response = np.array([[protocol.eta_w, 0.0], [eta_q * k * protocol.eta_w, eta_q]])
        self.root = semidefinite_root(self.gram)
        self.bias = steps.bias
        self.history = self._history(log2_points, seed)

    def with_ridge(self, ridge: float) -> Self:
        """Return the equations at another ridge, on the same points."""
        other = copy(self)
        other.protocol = self.protocol.changed(ridge=ridge)
        return other

    def _history(self, log2_points: int, seed: list[int]) -> _History:
        """Sample the fields of A and B and the forces of the two steps (J15, J16)."""
        L, R, theta = self.task.length, self.task.signal_tokens, self.task.strength
        loss = self.protocol.loss
        normals = standard_normals(3 * L, log2_points, seed).reshape(-1, 3, L)
        probe = np.random.default_rng([*seed, 1]).choice([-1.0, 1.0], (len(normals), L))
        points, normals, probe = len(normals), np.concatenate([normals] * 2), np.concatenate([probe] * 2)
        label = np.repeat([1.0, -1.0], points)
        pi = self.task.positive_rate
        signal = np.zeros((2 * points, L))
        signal[:points, :R] = 1.0
        g0 = (label * loss.first_slope / L)[:, None]
        fields = np.einsum("ij,njl->nil", self.root, normals[:, :2])
        G1 = theta * self.overlap[0] * signal + fields[:, 0] + self.response[0, 0] / self.alpha * g0
        mean = G1.mean(axis=1, keepdims=True)
        _, h1, c1 = slopes(loss, label, mean[:, 0] + self.bias)
        g1 = -h1[:, None] * (G1 - mean) / L
        probe_mean = probe.mean(axis=1, keepdims=True)
        tangent = -(c1[:, None] * probe_mean * (G1 - mean) + h1[:, None] * (probe - probe_mean)) / L
        H = theta * self.overlap[1] * signal + fields[:, 1]
        H += (self.response[1, 0] * g0 + self.response[1, 1] * g1) / self.alpha
        weight = np.repeat([pi, 1.0 - pi], points) / points
        return _History(label, weight, signal, g0, g1, tangent, H, normals, probe)

    def residual(self, readout: ReusedReadout) -> Residual:
        """Evaluate the equations of the readout at given order parameters (J17-J23)."""
        past, loss, alpha, theta = self.history, self.protocol.loss, self.alpha, self.task.strength
        m, c_a, c_b, free, chi, bias, k_a, k_b = readout
        scale = alpha * chi
        along = self._coordinates(c_a, c_b)
        respond = scale * np.array(
            [k_a * self.response[0, 0] + k_b * self.response[1, 0], k_b * self.response[1, 1]]
        )  # R_*0 and R_*1 (J20)
        att = softmax(past.logits)
        tau2 = np.einsum("nl,nl->n", att, att)
        G = theta * m * past.signal + np.sqrt(free) * past.normals[:, 2]
        G += along[0] * past.normals[:, 0] + along[1] * past.normals[:, 1]
        G += (respond[0] * past.first_force + respond[1] * past.second_force) / alpha
        logit = np.einsum("nl,nl->n", att, G) + bias
        margin = loss.prox(past.label * logit, chi * tau2)
        h, c = past.label * loss.derivative(margin), loss.curvature(margin)
        stiffness = c / (1.0 + chi * tau2 * c)
        force = -h[:, None] * att

        def average(values: Array) -> float:
            return float(past.weight @ values)

        share = np.einsum("nl,nl->n", att, past.signal)
        drift = theta * average(-h * share)
        with_g0 = average((force * past.first_force).sum(axis=1))
        with_g1 = average(np.einsum("nl,nl->n", force, past.second_force))
        square = average(h * h * tau2)
        # derivatives by the field of B (directly through H), and by that of A (through g1) (J19)
        d_first = self.response[1, 1] / alpha * past.second_tangent
        found_b = self._memory(att, G, h, stiffness, chi, past.probe, None)
        found_a = self._memory(att, G, h, stiffness, chi, d_first, respond[1] / alpha * past.second_tangent)
        cross = k_a * self.gram[0] + k_b * self.gram[1]  # K_A C_AX + K_B C_BX
        pushed = self.response @ np.array([with_g0, with_g1]) / alpha
        new_m = scale * (drift + k_a * self.overlap[0] + k_b * self.overlap[1])
        new_a, new_b = scale * (drift * self.overlap + cross + pushed)
        variance = scale * (
            drift * m + k_a * c_a + k_b * c_b + (scale * square + respond[0] * with_g0 + respond[1] * with_g1) / alpha
        )
        inverse = self.protocol.ridge + average(stiffness * tau2)
        explained = float(along @ along)
        proposal = ReusedReadout(
            new_m, new_a, new_b, max(variance - explained, 1e-3 * free), 1.0 / (alpha * inverse), bias, found_a, found_b
        )
        values = np.array(
            [
                new_m - m,
                new_a - c_a,
                new_b - c_b,
                (variance - explained - free) / (free + explained),
                np.log(proposal.chi / chi),
                -average(h),
                found_a - k_a,
                found_b - k_b,
            ]
        )
        slope = theta * average(stiffness * share)
        return Residual(
            values=values,
            proposal=proposal,
            newton=np.array(
                [
                    [1.0 / scale + theta**2 * average(stiffness * share**2), slope],
                    [slope, average(stiffness)],
                ]
            ),
            train_loss=average(loss.value(margin)),
            train_error=average((margin < 0.0).astype(float)),
            variance=free + explained,
        )

    def _coordinates(self, c_a: float, c_b: float) -> Array:
        """Return the coefficients of the field of the readout on the normals of A and B."""
        first = c_a / self.root[0, 0] if self.root[0, 0] > 0.0 else 0.0
        second = (c_b - self.root[1, 0] * first) / self.root[1, 1] if self.root[1, 1] > 0.0 else 0.0
        return np.array([first, second])

    def _memory(
        self, att: Array, G: Array, h: Array, stiffness: Array, chi: float, d_logits: Array, d_fields: Array | None
    ) -> float:
        """Return E sum_l of the derivative of the force of the readout along the probe."""
        past = self.history
        d_att = att * (d_logits - np.einsum("nl,nl->n", att, d_logits)[:, None])
        d_tau2 = 2.0 * np.einsum("nl,nl->n", att, d_att)
        d_logit = np.einsum("nl,nl->n", d_att, G)
        if d_fields is not None:
            d_logit = d_logit + np.einsum("nl,nl->n", att, d_fields)
        d_h = stiffness * (d_logit - h * chi * d_tau2)
        d_force = -d_h[:, None] * att - h[:, None] * d_att
        return float(past.weight @ np.einsum("nl,nl->n", past.probe, d_force))

    def weights(self, readout: ReusedReadout) -> JointWeights:
        """Return the order parameters of query and trained readout together (J24)."""
        variance = readout.free_variance + float(np.sum(self._coordinates(readout.with_first, readout.with_query) ** 2))
        gram = np.array([[self.gram[1, 1], readout.with_query], [readout.with_query, variance]])
        return JointWeights(np.array([self.overlap[1], readout.overlap]), gram, readout.bias)
