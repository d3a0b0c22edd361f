"""Message passing of the best possible learner on one instance, and its state evolution (A.5).

The labels give their logits back, with Gaussian noise of variance Δ/2 per coordinate: the answer to v is the mean of two Gaussians,
and the input half is the best denoiser of a matrix whose eigenvalues are known.
"""

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.bayes import Posterior, denoised
from onehead.aim.equations.geometry import Block, Geometry
from onehead.aim.equations.head import equations_of
from onehead.aim.task import Learner, Task
from onehead.aim.training.data import Samples
from onehead.aim.training.instance import Instance
from onehead.aim.training.messages import DAMPING, Passed, Senders, iterate

__all__ = ["pass_posterior", "posterior_evolution"]

Array = NDArray[np.float64]


class _Gaussians(Senders):
    """Messages of logits that are known but for Gaussian noise."""

    def __init__(self, task: Task, samples: Samples, geometry: Geometry, noise: float) -> None:
        super().__init__(task, samples, geometry)
        self.noise = noise

    def send(self, shape: Block, sigma: float, v: Array, fitted: Array, labels: Array) -> tuple[Array, float]:
        """p = C^-1 (u - v)/(Δ/2 + V), u the coordinates of the labels' own logits."""
        total = 0.5 * self.noise + sigma
        return (fitted - v) @ shape.metric / total, len(v) * shape.dim * sigma / total


def _denoiser(posterior: Posterior, R: Array, sigma_hat: float) -> tuple[Array, float]:
    """S and V from R/Σhat = S* + sqrt(s) noise, s = 1/Σhat: eigenvalues, or singular values, one by one."""
    channel, s = posterior.problem.input, 1.0 / sigma_hat
    law = channel.law(s)
    if channel.sides == 1:
        x, basis = np.linalg.eigh(R * s)
        return (basis * denoised(law, s, x)) @ basis.T, posterior.left(s)
    left, x, right = np.linalg.svd(R * s)
    return (left * denoised(law, s, x)) @ right, posterior.left(s)


def pass_posterior(task: Task, instance: Instance, *, iterations: int, damping: float = DAMPING) -> Passed:
    """Iterate from what the trace alone tells; Σ is measured, |S - S*|²/d, which V of the messages predicts. In the units of S*.

    ``task`` has the spectrum of the instance as its target: the learner knows it.
    """
    problem = equations_of(task, Learner().gaussian)
    posterior, d = Posterior(problem), instance.train.dim
    passed = iterate(
        _Gaussians(task, instance.train, problem.output.geometry, problem.noise),
        lambda R, sigma_hat: _denoiser(posterior, R, sigma_hat),
        problem.input.scale * instance.target,
        (np.sqrt(posterior.known) * np.eye(d), posterior.power - posterior.known),
        max_iterations=iterations,
        damping=damping,
        largest=problem.label_power,
    )
    trace = passed.trace / np.array([task.beta0**2, task.beta0**2, task.beta0**2, 1.0])
    trace[:, 2] = trace[:, 0] - 2.0 * trace[:, 1] + task.target.second_moment
    return passed._replace(map=passed.map / task.beta0, trace=trace)


def posterior_evolution(task: Task, alpha: float, *, iterations: int, damping: float = DAMPING) -> Array:
    """(q, m, V) of every iteration, the start first: s = (Δ/2 + V)/(2 abar), V = s F(s), in the units of S*.

    Exact for undamped message passing as d grows, and at its fixed point; on the way there q = m while damping mixes iterates.
    """
    posterior = Posterior(equations_of(task, Learner().gaussian))
    left = posterior.power - posterior.known
    rows = [left]
    for step in range(iterations):
        s = (0.5 * posterior.problem.noise + left) / (posterior.per_ratio * alpha)
        left += (damping if step else 1.0) * (posterior.left(s) - left)
        rows.append(left)
    q = posterior.power - np.array(rows)
    trajectory: Array = np.stack([q, q, np.array(rows)], axis=1) / task.beta0**2
    return trajectory
