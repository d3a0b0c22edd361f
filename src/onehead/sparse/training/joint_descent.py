"""Joint gradient descent of query, readout and bias on sampled tokens, with the rates of `descend` (J1)."""

from collections.abc import Iterator

import numpy as np

from onehead.sparse.losses import Array, Loss
from onehead.sparse.solve.descent import Plan, StepNumbers, joint_numbers
from onehead.sparse.solve.joint_error import joint_test_error
from onehead.sparse.task import Protocol, Sample, Task, draw
from onehead.sparse.theory.features import softmax
from onehead.sparse.theory.joint.attention_forces import JointWeights, slopes
from onehead.sparse.theory.joint.descent_rates import rates_of
from onehead.sparse.theory.joint.same_data import DescentState

ONE_PASS_BATCHES = 50  # batches of one-pass SGD per unit of alpha


def descent_run(
    task: Task, protocol: Protocol, plan: Plan, dim: int, rng: np.random.Generator, *, test_length: int | None = None
) -> Iterator[StepNumbers]:
    """Yield the numbers of one run after every step, at dimension ``dim``; test errors are exact averages (J4).

    One-pass SGD takes batches of d/50 samples, with the rates of the protocol times batch/dim.
    """
    rates = rates_of(protocol, plan.steps, plan.schedule)
    batches = 1
    if plan.batch == "one-pass":
        per_record = max(1, round(protocol.alpha * dim / plan.steps))
        batches = min(per_record, max(1, round(ONE_PASS_BATCHES * protocol.alpha / plan.steps)))
        size = max(1, per_record // batches)
    else:
        size = max(2, round((protocol.alpha if plan.batch == "same" else plan.batch_ratio) * dim))
    data = draw(task, rng, samples=size, dim=dim)
    weights, bias = np.zeros((2, dim)), 0.0
    for rate in rates:
        scale = size / dim if plan.batch == "one-pass" else 1.0
        eta = scale * np.array([[rate.query], [rate.readout]])
        ridges = np.array([[rate.ridge_query], [rate.ridge_readout]])
        for _ in range(batches):
            gradient, slope = _gradient(data, protocol.loss, weights, bias)
            weights = weights - eta * (gradient + ridges * weights)
            bias -= scale * rate.bias * slope
            if plan.batch != "same":
                data = draw(task, rng, samples=size, dim=dim)
        state = _state(data, protocol.loss, weights, bias)
        if not np.isfinite(state.weights.gram).all():
            return
        yield joint_numbers(protocol, state, joint_test_error(task, state.weights, length=test_length))


def _logits(data: Sample, weights: Array, bias: float) -> tuple[Array, Array, Array]:
    """Return attention, deviations G - ubar and logits of every sample; the query is in units of 1/beta."""
    fields = data.tokens @ weights.T
    att = softmax(fields[:, :, 0])
    ubar = np.einsum("nl,nl->n", att, fields[:, :, 1])
    return att, fields[:, :, 1] - ubar[:, None], ubar + bias


def _gradient(data: Sample, loss: Loss, weights: Array, bias: float) -> tuple[Array, float]:
    """Return the gradient of the mean loss by (q, w), (2, d), and by the bias."""
    att, deviation, logit = _logits(data, weights, bias)
    h = slopes(loss, data.label, logit).h / len(data.label)
    on_readout = h[:, None] * att
    both = np.stack([on_readout * deviation, on_readout]).reshape(2, -1)
    return both @ data.tokens.reshape(both.shape[1], -1), float(h.sum())


def _state(data: Sample, loss: Loss, weights: Array, bias: float) -> DescentState:
    """Return order parameters, training loss and training error of given weights."""
    logit = _logits(data, weights, bias)[2]
    margin = data.label * logit
    return DescentState(
        weights=JointWeights(weights @ data.signal, weights @ weights.T, bias),
        train_loss=float(loss.value(margin).mean()),
        train_error=float((margin < 0.0).mean()),
    )
