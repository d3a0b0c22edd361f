"""phase_diagram(): excess error, local exponent and dominant mechanism over (log_d n, log_d λ) (7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from onehead.aim.flat_parameters import require_dimension
from onehead.aim.task import Learner, Task
from onehead.aim.theory.order_parameters import INFINITE
from onehead.aim.verbs.implicit_derivatives import local_exponent
from onehead.aim.verbs.predict import Prediction, predict
from onehead.errors import InvalidArgument, SolveError
from onehead.numerics.parallel import map_chains
from onehead.numerics.progress import Progress
from onehead.results import FAILED, INTERRUPTED, Grid, Kind
from onehead.validation import checked, instance, numbers, optional

Region = Literal["not emerged", "interpolating", "noise", "threshold", "bias"]

LOG_SAMPLES = tuple(float(x) for x in np.round(np.arange(0.8, 3.21, 0.1), 10))
LOG_DECAY = tuple(float(x) for x in np.round(np.arange(-1.5, 1.51, 0.5), 10))


def region_of(point: Prediction) -> Region:
    """Mechanism that limits a head.

    "not emerged": S = 0. "interpolating": labels are fitted including their noise; there mhat Σ / (2 α J_T) tends to
    one (4.1), and the region starts at one half. "threshold": eigenvalues cut off by weight decay dominate, eps² > s
    and rank < 1. "bias": eps² > s, but no eigenvalue is cut off, so that only shrinkage remains. "noise": s > eps².
    """
    if point.rank == 0.0:
        return "not emerged"
    if point.sigma == INFINITE or point.m_hat * point.sigma > point.alpha * point.equations.informative:
        return "interpolating"
    if point.threshold**2 <= point.spread:
        return "noise"
    return "bias" if point.rank > 1.0 - 1e-9 else "threshold"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One cell of a phase diagram: numbers, or a status that says why there are none.

    Attributes
    ----------
    log_n, log_lambda : float
        Exponents log_d n and log_d λ.
    samples, weight_decay : float
        n and λ.
    excess_error : float or None
        Test error minus its limit for infinitely many samples.
    local_exponent : float or None
        d log(excess error) / d log n.
    region : str or None
        Mechanism that limits the head, see `region_of`.
    status, kind : str, str or None
        Status and kind of truth of the prediction.
    """

    log_n: float
    log_lambda: float
    samples: float
    weight_decay: float
    excess_error: float | None
    local_exponent: float | None
    region: Region | None
    status: str
    kind: Kind | None

    def to_dict(self) -> dict[str, Any]:
        """Cell as a dictionary of plain values."""
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True)
class PhaseDiagram(Grid[Cell]):
    """Excess errors, local exponents and mechanisms over a grid, row by row of log_d λ.

    Attributes
    ----------
    task, learner : Task, Learner
        The problem; the weight decay differs from row to row.
    log_n, log_lambda : tuple of float
        Exponents log_d n, across, and log_d λ, down.
    cells : tuple of Cell
        One per pair of exponents, ``log_n`` running fastest.
    """

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = (
        "log_n",
        "log_lambda",
        "excess_error",
        "local_exponent",
        "region",
        "status",
    )

    task: Task
    learner: Learner
    log_n: tuple[float, ...]
    log_lambda: tuple[float, ...]
    cells: tuple[Cell, ...]

    @property
    def axes(self) -> dict[str, tuple[float, ...]]:
        """Values of log_d n, across, and of log_d λ, down."""
        return {"log_n": self.log_n, "log_lambda": self.log_lambda}


@checked(
    task=instance(Task, "Task()"),
    learner=optional(instance(Learner, "Learner()")),
    log_n=numbers(),
    log_lambda=numbers(),
)
def phase_diagram(
    task: Task,
    learner: Learner | None = None,
    *,
    log_n: Sequence[float] = LOG_SAMPLES,
    log_lambda: Sequence[float] = LOG_DECAY,
    progress: Progress = None,
) -> PhaseDiagram:
    """Excess error, local exponent and mechanism for n = d^a samples and weight decay λ = d^b.

    Each row of λ is solved from many samples downwards, each cell started from its neighbour; rows run in parallel. A
    cell that cannot be solved has a status with the reason. Ctrl-C returns what is solved, the other cells marked.

    Parameters
    ----------
    task : Task
        Its target must have a dimension d: PowerLaw, Spikes or Atoms.
    learner : Learner, optional
        The head; its weight decay is not used.
    log_n : sequence of float
        Exponents a = log_d n.
    log_lambda : sequence of float
        Exponents b = log_d λ.
    progress : callable or True, optional
        Called once for every finished cell.

    Returns
    -------
    PhaseDiagram
        One cell per pair of exponents.

    Raises
    ------
    InvalidArgument
        If the target has no dimension, or an axis is empty.

    Examples
    --------
    >>> from onehead.aim import PowerLaw, Task, phase_diagram
    >>> found = phase_diagram(Task(target=PowerLaw(gamma=0.75, dim=100)), log_n=[1.5, 2.5], log_lambda=[0.0])
    >>> [cell.region for cell in found]
    ['not emerged', 'threshold']
    """
    dim = require_dimension(task)
    if len(log_n) == 0 or len(log_lambda) == 0:
        raise InvalidArgument("log_n" if len(log_n) == 0 else "log_lambda", [], "at least one value")
    base = (learner if learner is not None else Learner()).for_decomposition
    order = sorted(range(len(log_n)), key=lambda i: -log_n[i])

    def step(index: tuple[int, int], near: Prediction | None) -> tuple[Cell, Prediction | None]:
        row, column = index
        own = base.changed(weight_decay=float(dim ** log_lambda[row]))
        return _cell(task, own, dim, float(log_n[column]), float(log_lambda[row]), near)

    cells = map_chains(
        step, [[(row, column) for column in order] for row in range(len(log_lambda))], progress, title="cells"
    )
    every = [(row, column) for row in range(len(log_lambda)) for column in range(len(log_n))]
    return PhaseDiagram(
        task=task,
        learner=base,
        log_n=tuple(map(float, log_n)),
        log_lambda=tuple(map(float, log_lambda)),
        cells=tuple(
            cells.get((row, column)) or _failed(dim, float(log_n[column]), float(log_lambda[row]), INTERRUPTED)
            for row, column in every
        ),
    )


def _cell(
    task: Task, learner: Learner, dim: int, log_n: float, log_lambda: float, near: Prediction | None
) -> tuple[Cell, Prediction | None]:
    """Solve one cell; returns also the prediction that the next cell starts from."""
    samples = float(dim**log_n)
    try:
        point = predict(task, learner, samples / dim**2, near=near)
        exponent = local_exponent(point)
    except SolveError as failure:
        return _failed(dim, log_n, log_lambda, str(failure)), near
    cell = Cell(
        log_n=log_n,
        log_lambda=log_lambda,
        samples=samples,
        weight_decay=learner.decay,
        excess_error=point.excess_error,
        local_exponent=exponent,
        region=region_of(point),
        status=point.status,
        kind=point.kind,
    )
    return cell, point


def _failed(dim: int, log_n: float, log_lambda: float, reason: str) -> Cell:
    """Cell without numbers, with the reason."""
    return Cell(
        log_n=log_n,
        log_lambda=log_lambda,
        samples=float(dim**log_n),
        weight_decay=float(dim**log_lambda),
        excess_error=None,
        local_exponent=None,
        region=None,
        status=f"{FAILED}: {reason}",
        kind=None,
    )
