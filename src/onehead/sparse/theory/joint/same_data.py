"""Joint gradient descent on the same data at every step: dynamical mean-field theory (J8-J13)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from onehead.sparse.losses import Array, Loss
from onehead.sparse.task import Task
from onehead.sparse.theory.joint.attention_forces import JointWeights, semidefinite_root, slopes
from onehead.sparse.theory.joint.descent_rates import Rates
from onehead.sparse.theory.joint.descent_samples import DescentSample, SampleHistory

INITIAL_WEIGHTS = np.zeros((2, 2))


@dataclass(frozen=True, kw_only=True)
class DescentState:
    """Order parameters after a step, and training loss and error on the samples of that step."""

    weights: JointWeights
    train_loss: float
    train_error: float


def same_data_states(
    task: Task, loss: Loss, rates: Rates, alpha: float, sample: DescentSample, *, initial: Array = INITIAL_WEIGHTS
) -> Iterator[DescentState]:
    """Yield the states after 0, 1, ... steps on the same alpha d samples; the last step is that of the last rate.

    ``initial`` is the Gram matrix of the initial weights, which are orthogonal to the signal.
    """
    return _Process(task, loss, rates, alpha, sample, initial).states()


class _Process:
    """Averages over the effective process of one sample, and the two-time functions m, C and R that they determine."""

    def __init__(
        self, task: Task, loss: Loss, rates: Rates, alpha: float, sample: DescentSample, initial: Array
    ) -> None:
        times, length = len(rates) + 1, task.length
        samples = 2 * sample.points
        self.task, self.loss, self.rates, self.alpha, self.sample = task, loss, rates, alpha, sample
        self.first = 0 if initial.any() else 1  # weights that start at zero have no memory of that time
        self.overlap = np.zeros((times, 2))
        self.covariance = np.zeros((times, times, 2, 2))
        self.covariance[0, 0] = initial
        self.response = np.zeros((times, times, 2, 2))
        self.gamma = np.zeros((times, times, 2, 2))
        self.memory = np.zeros((times, times, 2, 2))
        self.root = np.zeros((0, 0))
        self.bias = 0.0
        self.history = SampleHistory(
            force=np.empty((times, samples, 2, length)),
            attention=np.empty((times, samples, length)),
            deviation=np.empty((times, samples, length)),
            slope=np.empty((times, samples)),
            curvature=np.empty((times, samples)),
        )
        self.label = sample.label
        self.weight = sample.weights(task.positive_rate)

    def states(self) -> Iterator[DescentState]:
        """Yield the state after every step."""
        for time in range(len(self.rates) + 1):
            logit = self._logits(time)
            found = slopes(self.loss, self.label, logit)
            self.history.slope[time], self.history.curvature[time] = found.h, found.c
            margin = self.label * logit
            yield DescentState(
                weights=JointWeights(self.overlap[time].copy(), self.covariance[time, time].copy(), self.bias),
                train_loss=float(self.weight @ found.value),
                train_error=float(self.weight @ ((margin < 0.0) + 0.5 * (margin == 0.0))),
            )
            if time < len(self.rates):
                self._step(time)

    def _logits(self, time: int) -> Array:
        """Return the logit of every sample at ``time`` (J8)."""
        from onehead.sparse.theory.joint.descent_kernels import attend  # numba is loaded when first needed

        size = 2 * (time + 1)
        blocks = self.covariance[: time + 1, : time + 1].transpose(0, 2, 1, 3).reshape(size, size)
        self.root = semidefinite_root(blocks, self.root)
        rows = np.zeros((2, 2 * len(self.overlap)))
        rows[:, :size] = self.root[-2:]
        ubar = attend(
            time,
            self.task.signal_tokens,
            self.sample.normals,
            rows,
            self.task.strength * self.overlap[time],
            self.response / self.alpha,
            self.history,
        )
        return np.asarray(ubar + self.bias)

    def _step(self, time: int) -> None:
        """Add time + 1 to overlaps (J10), responses (J11) and covariances (J12)."""
        from onehead.sparse.theory.joint.descent_kernels import correlations

        correlations(
            time,
            self.first,
            self.weight[None],
            self.response / self.alpha,
            self.history,
            self.sample.probe,
            self.gamma,
            self.memory,
        )
        rate, new = self.rates[time], time + 1
        eta = np.array([rate.query, rate.readout])[:, None]
        shrink = 1.0 - eta * np.array([rate.ridge_query, rate.ridge_readout])[:, None]
        positive = self.history.force[time, : self.sample.points, :, : self.task.signal_tokens].sum(axis=2)
        drift = self.task.strength * (self.weight[: self.sample.points] @ positive)
        past = slice(self.first, new)
        memory, gamma = self.memory[time], self.gamma[time] / self.alpha
        self.overlap[new] = shrink[:, 0] * self.overlap[time] + eta[:, 0] * (
            drift + np.einsum("uij,uj->i", memory[past], self.overlap[past])
        )
        for s in range(time):
            self.response[new, s] = shrink * self.response[time, s] + eta * np.einsum(
                "uij,ujk->ik", memory[s + 1 : new], self.response[s + 1 : new, s]
            )
        self.response[new, time] = np.diag(eta[:, 0])
        for s in range(new + 1):
            change = np.outer(drift, self.overlap[s])
            change += np.einsum("uij,ujk->ik", memory[past], self.covariance[past, s])
            change += np.einsum("uij,ukj->ik", gamma[:s], self.response[s, :s])
            found = shrink * self.covariance[time, s] + eta * change
            self.covariance[new, s], self.covariance[s, new] = found, found.T
        own = self.covariance[new, new]
        self.covariance[new, new] = 0.5 * (own + own.T)
        self.bias -= rate.bias * float(self.weight @ self.history.slope[time])
