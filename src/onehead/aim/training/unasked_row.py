"""The row of a map along the mean of the queries, which message passing learns apart from all others (D2.1).

Queries are x = |μ| e + z. In the coordinates z and sqrt(1 + |μ|²) e of second moment one, the row S'e is multiplied by
sqrt(1 + |μ|²), and the equations of message passing are those of a head without a mean, but for this row: it has d
entries and n ~ d² samples, so that it is learned without noise and weight decay does not see it. Its input half is

    row = R'e/Σhat,   of which state evolution gives c = mhat/Σhat,

and the other rows are denoised without it. Σ counts all entries of the map, of which the row is a share 1/d.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import final

import numpy as np
from numpy.typing import NDArray

from onehead.aim.targets import Atoms
from onehead.aim.task import Task
from onehead.aim.training.data import mean_length, unasked_direction

Array = NDArray[np.float64]


def without_unasked_row(task: Task, S: Array) -> Array:
    """Return a map without its row along the mean of the queries; the map itself where they have none (D2)."""
    if not task.unasked:
        return S
    direction = unasked_direction(len(S))
    return np.asarray(S - np.outer(direction, S.T @ direction))


def own_spectrum(task: Task, target: Array) -> Task:
    """Return a task whose target has the eigenvalues, or singular values, of this target map, and the same variance of
    its unasked logits.

    Examples
    --------
    >>> import numpy as np
    >>> own_spectrum(Task(attention="cross", unasked=0.5), np.diag([2.0, 1.0, 5.0])).target.values
    array([2., 1., 0.])
    """
    asked = target if task.tied else without_unasked_row(task, target)
    values = np.linalg.eigvalsh(asked) if task.tied else np.linalg.svd(asked, compute_uv=False)
    field, own = task.unasked_variance, Atoms(eigenvalues=tuple(values.tolist()))
    return task.changed(target=own, unasked=field / (field + own.second_moment))


@final
@dataclass(frozen=True, kw_only=True)
class UnaskedRow:
    """The row along the mean of the queries, in coordinates of second moment one.

    Attributes
    ----------
    direction : array of shape (d,)
        Unit vector e along the mean.
    scale : float
        sqrt(1 + |μ|²), root of the second moment of the queries along it.
    """

    direction: Array
    scale: float

    @classmethod
    def of(cls, task: Task, target: Array) -> "UnaskedRow":
        """Return the row of a task with a mean, for this target map."""
        return cls(direction=unasked_direction(len(target)), scale=sqrt(1.0 + mean_length(task, target) ** 2))

    def _scaled(self, S: Array, factor: float) -> Array:
        return np.asarray(S + (factor - 1.0) * np.outer(self.direction, self.direction @ S))

    def whitened(self, S: Array) -> Array:
        """Return a map in coordinates of second moment one."""
        return self._scaled(S, self.scale)

    def unwhitened(self, S: Array) -> Array:
        """Return a map in those of the tokens; also a gradient in coordinates of second moment one from one in those
        of the tokens.
        """
        return self._scaled(S, 1.0 / self.scale)

    def denoised(
        self, R: Array, sigma_hat: float, denoise: Callable[[Array, float], tuple[Array, float]]
    ) -> tuple[Array, float]:
        """Return S and Σ from R: ``denoise`` for all other rows, and R'e/Σhat for this one."""
        row = self.direction @ R
        rest, sigma = denoise(R - np.outer(self.direction, row), sigma_hat)
        # the rest has no such row: rounding errors of a singular vector decomposition leave one
        return rest + np.outer(self.direction, row / sigma_hat - self.direction @ rest), sigma

    def overlaps(self, S: Array, target: Array) -> tuple[float, float, float]:
        """Return q and m of all other rows, and c, the size of this one relative to that of the target."""
        row, wanted = self.direction @ S, self.direction @ target
        q, m = float(np.sum(S * S) - row @ row), float(np.sum(S * target) - row @ wanted)
        return q / len(S), m / len(S), float(row @ wanted / (wanted @ wanted))
