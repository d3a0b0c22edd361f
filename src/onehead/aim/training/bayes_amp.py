"""Message passing of the Bayes-optimal learner on one instance, and its state evolution (A.5).

Labels reveal their logits with Gaussian noise of variance Δ/2 per coordinate: the output estimate is the mean of two
Gaussians, and the denoiser is the optimal one for a matrix with known eigenvalues. The iteration itself is in
`message_passing`.
"""

import numpy as np
from numpy.typing import NDArray

from onehead.aim.logits.blocks import Block
from onehead.aim.logits.geometry import Geometry
from onehead.aim.task import Learner, Task
from onehead.aim.theory.bayes import Posterior, denoised
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.training.data import Samples
from onehead.aim.training.instance import Instance
from onehead.aim.training.message_passing import DAMPING, AmpRun, SampleMessages, Schedule, iterate

Array = NDArray[np.float64]


class _GaussianMessages(SampleMessages):
    """Messages of labels that reveal their logits with Gaussian noise."""

    def __init__(self, task: Task, samples: Samples, geometry: Geometry, noise: float) -> None:
        super().__init__(task, samples, geometry)
        self.noise = noise

    def compute(self, block: Block, sigma: float, v: Array, fitted: Array, labels: Array) -> tuple[Array, float]:
        """Messages p = C^-1 (u - v)/(Δ/2 + V), u the coordinates of the label logits, and the sum of tr(1 - dû/dv)."""
        total = 0.5 * self.noise + sigma
        return (fitted - v) @ block.metric / total, len(v) * block.dim * sigma / total


def _denoise(posterior: Posterior, R: Array, sigma_hat: float) -> tuple[Array, float]:
    """Posterior mean S and its error V from R/Σhat = S* + sqrt(s) noise, s = 1/Σhat, by denoising the spectrum."""
    channel, s = posterior.problem.input, 1.0 / sigma_hat
    law = channel.law(s)
    if channel.sides == 1:
        x, basis = np.linalg.eigh(R * s)
        return (basis * denoised(law, s, x)) @ basis.T, posterior.left(s)
    left, x, right = np.linalg.svd(R * s)
    return (left * denoised(law, s, x)) @ right, posterior.left(s)


def run_bayes_amp(task: Task, instance: Instance, *, iterations: int, damping: float = DAMPING) -> AmpRun:
    """Message passing of the Bayes-optimal learner, from the estimate that the trace gives, in the units of S*.

    Σ in the trajectory is the measured error |S - S*|²/d, which V predicts. The target of ``task`` must be the spectrum
    of the instance, which the learner knows.
    """
    problem = build_state_evolution(task, Learner().gaussian)
    posterior, d = Posterior(problem), instance.train.dim
    first, V = np.sqrt(posterior.known) * np.eye(d), posterior.power - posterior.known
    messages = _GaussianMessages(task, instance.train, problem.output.geometry, problem.noise)
    target, row = problem.input.scale * instance.target, messages.unasked_row
    if row is not None:
        target = row.whitened(target)
        first = _with_field(messages, first, target, V)
    run = iterate(
        messages,
        lambda R, sigma_hat: _denoise(posterior, R, sigma_hat),
        target,
        (first, V),
        Schedule(iterations, damping),
        label_power=problem.label_power,
    )
    trajectory = (
        run.trajectory / np.array([task.beta0**2, task.beta0**2, task.beta0**2, 1.0, 1.0])[: run.trajectory.shape[1]]
    )
    trajectory[:, 2] = trajectory[:, 0] - 2.0 * trajectory[:, 1] + task.target.second_moment
    S = run.map if row is None else row.unwhitened(run.map)
    return run._replace(map=S / task.beta0, trajectory=trajectory)


def _with_field(messages: _GaussianMessages, S: Array, target: Array, V: float) -> Array:
    """First map with the unasked field of the labels, which n ~ d² samples give by linear regression: an iteration in
    which only its row moves, and which leaves no messages (D5.3).
    """
    run = iterate(messages, lambda R, sigma_hat: (S, V), target, (S, V), Schedule(1), label_power=np.inf)
    messages.clear()
    return run.map


def bayes_amp_evolution(task: Task, alpha: float, *, iterations: int, damping: float = DAMPING) -> Array:
    """State evolution of `run_bayes_amp`: (q, m, V) of every iteration, the start first, in the units of S*.

    s = (Δ/2 + V)/(2 abar), V = s F(s). Exact for undamped message passing as d grows, and at the fixed point; in
    between it has q = m although damping mixes iterates. A mean of the queries changes nothing, because the unasked
    logits are known (D5.3).
    """
    posterior = Posterior(build_state_evolution(task, Learner().gaussian))
    V = posterior.power - posterior.known
    errors = [V]
    for step in range(iterations):
        s = (0.5 * posterior.problem.noise + V) / (posterior.per_ratio * alpha)
        V += (damping if step else 1.0) * (posterior.left(s) - V)
        errors.append(V)
    q = posterior.power - np.array(errors)
    trajectory: Array = np.stack([q, q, np.array(errors)], axis=1) / task.beta0**2
    return trajectory
