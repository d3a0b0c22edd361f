"""Joint gradient descent on fresh data at every step, and its limit of small batches, one-pass SGD (J5-J7)."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from onehead.sparse.losses import Array, Loss
from onehead.sparse.task import Task
from onehead.sparse.theory.features import softmax
from onehead.sparse.theory.joint.attention_forces import JointWeights, block_trace, forces, semidefinite_root, slopes
from onehead.sparse.theory.joint.descent_rates import Rates, StepRates
from onehead.sparse.theory.joint.descent_samples import DescentSample
from onehead.sparse.theory.joint.same_data import DescentState

ODE_TOLERANCE = 3e-5  # relative and absolute, of the order parameters of one-pass SGD


class _Gradient(NamedTuple):
    """Averages of a fresh batch: drift S, Hessian T, noise Gamma, slope E h, and loss and error before the step."""

    drift: Array
    hessian: Array
    noise: Array
    slope: float
    loss: float
    error: float


def _gradient(task: Task, loss: Loss, weights: JointWeights, sample: DescentSample) -> _Gradient:
    """Return the averages of the gradient of a fresh batch at given weights (J5)."""
    normals, R = sample.normals, task.signal_tokens
    fields = np.einsum("cj,njl->ncl", semidefinite_root(weights.gram), normals[:, :2])
    fields = np.concatenate([fields, fields])
    fields[: sample.points, :, :R] += task.strength * weights.overlap[:, None]
    att = softmax(fields[:, 0])
    ubar = np.einsum("nl,nl->n", att, fields[:, 1])
    deviation = fields[:, 1] - ubar[:, None]
    label, weight = sample.label, sample.weights(task.positive_rate)
    logit = ubar + weights.bias
    value, h, c = slopes(loss, label, logit)
    force = forces(att, deviation, h)
    margin = label * logit
    return _Gradient(
        drift=task.strength * (weight[: sample.points] @ force[: sample.points, :, :R].sum(axis=2)),
        hessian=np.einsum("n,nij->ij", weight, block_trace(att, deviation, h, c)),
        noise=np.einsum("n,nil,njl->ij", weight, force, force, optimize=True),
        slope=float(weight @ h),
        loss=float(weight @ value),
        error=float(weight @ ((margin < 0.0) + 0.5 * (margin == 0.0))),
    )


def _zero_weights() -> JointWeights:
    return JointWeights(np.zeros(2), np.zeros((2, 2)), 0.0)


def _state(weights: JointWeights, gradient: _Gradient) -> DescentState:
    return DescentState(weights=weights, train_loss=gradient.loss, train_error=gradient.error)


def fresh_batch_states(
    task: Task, loss: Loss, rates: Rates, batch_ratio: float, sample: DescentSample
) -> Iterator[DescentState]:
    """Yield the states after 0, 1, ... steps, each on a fresh batch of batch_ratio d samples (J6).

    Loss and error of a state are those on the batch of the next step, which are averages over fresh samples.
    """
    weights = _zero_weights()
    for rate in rates:
        gradient = _gradient(task, loss, weights, sample)
        yield _state(weights, gradient)
        eta = np.array([rate.query, rate.readout])
        contraction = np.eye(2) - eta[:, None] * (np.diag([rate.ridge_query, rate.ridge_readout]) + gradient.hessian)
        kept, step = contraction @ weights.overlap, eta * gradient.drift
        noise = eta[:, None] * (gradient.noise / batch_ratio) * eta
        gram = contraction @ weights.gram @ contraction.T + np.outer(kept, step) + np.outer(step, kept)
        weights = JointWeights(
            kept + step, gram + np.outer(step, step) + noise, weights.bias - rate.bias * gradient.slope
        )
    yield _state(weights, _gradient(task, loss, weights, sample))


def one_pass_states(
    task: Task, loss: Loss, rate: StepRates, alphas: Array, sample: DescentSample
) -> Iterator[DescentState]:
    """Yield the states of one-pass SGD after alphas[0], alphas[1], ... samples over dimension (J7)."""
    from scipy.integrate import solve_ivp  # scipy.integrate is loaded when first needed

    eta, ridges = np.array([rate.query, rate.readout]), np.diag([rate.ridge_query, rate.ridge_readout])

    def unpack(flat: Array) -> JointWeights:
        return JointWeights(flat[:2], np.array([[flat[2], flat[3]], [flat[3], flat[4]]]), float(flat[5]))

    def velocity(_: float, flat: Array) -> Array:
        weights = unpack(flat)
        gradient = _gradient(task, loss, weights, sample)
        decay = eta[:, None] * (gradient.hessian + ridges)
        push = np.outer(eta * gradient.drift, weights.overlap) - decay @ weights.gram
        gram = push + push.T + eta[:, None] * gradient.noise * eta
        overlap = eta * gradient.drift - decay @ weights.overlap
        return np.array([*overlap, gram[0, 0], gram[0, 1], gram[1, 1], -rate.bias * gradient.slope])

    found = solve_ivp(
        velocity,
        (0.0, float(alphas[-1])),
        np.zeros(6),
        t_eval=alphas,
        rtol=ODE_TOLERANCE,
        atol=ODE_TOLERANCE,
    )
    for flat in found.y.T:  # fewer than asked for if the weights diverge
        weights = unpack(flat)
        yield _state(weights, _gradient(task, loss, weights, sample))
