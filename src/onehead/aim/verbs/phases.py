"""Phase diagram of the excess error over (log_d n, log_d λ): local exponents and the mechanism behind each (7)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from onehead.aim.equations.unknowns import INFINITE
from onehead.aim.task import Learner, Task
from onehead.aim.verbs.predict import Prediction, predict
from onehead.aim.verbs.response import local_exponent
from onehead.aim.words import needed_dimension
from onehead.arguments import checked, instance, numbers, optional
from onehead.errors import InvalidArgument, SolveError
from onehead.numerics.parallel import walk_chains
from onehead.results import FAILED, INTERRUPTED, Grid, Kind

__all__ = ["LOG_DECAY", "LOG_SAMPLES", "Cell", "PhaseDiagram", "Region", "phase_diagram", "region_of"]

Region = Literal["not emerged", "interpolating", "noise", "threshold", "bias"]

LOG_SAMPLES = tuple(float(x) for x in np.round(np.arange(0.8, 3.21, 0.1), 10))
LOG_DECAY = tuple(float(x) for x in np.round(np.arange(-1.5, 1.51, 0.5), 10))


def region_of(point: Prediction) -> Region:
    """The mechanism that limits a head.

    "not emerged": S = 0. "interpolating": labels are fitted, noise and all; there mhat Σ / (2 α J_T) tends to one (4.1), and
    one half is where we draw the line. "threshold": what weight decay cuts off dominates, eps² > s with something cut off.
    "bias": eps² > s, but every eigenvalue passes: what is left is shrinkage. "noise": s > eps².
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
    """One cell: a value or a reason."""

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
        """Plain values."""
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True)
class PhaseDiagram(Grid[Cell]):
    """All cells, row by row of log_d λ, with the exponents that scaling arguments predict."""

    _SHOWN: ClassVar[tuple[str, ...]] = ("log_n", "log_lambda", "excess_error", "local_exponent", "region", "status")
    _VALUE: ClassVar[str] = "excess_error"

    task: Task
    learner: Learner
    log_n: tuple[float, ...]
    log_lambda: tuple[float, ...]
    cells: tuple[Cell, ...]

    @property
    def axes(self) -> dict[str, tuple[float, ...]]:
        """log_d n across, log_d λ down."""
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
    progress: Callable[[], None] | None = None,
) -> PhaseDiagram:
    """Excess error, local exponent and mechanism for n = d^a samples and weight decay λ = d^b.

    Each row of λ is solved from many samples downwards, each cell from its neighbour; rows run side by side. A cell that
    cannot be solved keeps its reason. Ctrl-C returns what is solved, the other cells marked.

    Examples
    --------
    >>> from onehead.aim import PowerLaw, Task, phase_diagram
    >>> found = phase_diagram(Task(target=PowerLaw(gamma=0.75, dim=100)), log_n=[1.5, 2.5], log_lambda=[0.0])
    >>> [cell.region for cell in found]
    ['not emerged', 'threshold']
    """
    dim = needed_dimension(task)
    if len(log_n) == 0 or len(log_lambda) == 0:
        raise InvalidArgument("log_n" if len(log_n) == 0 else "log_lambda", [], "at least one value")
    base = (learner if learner is not None else Learner()).splitting
    order = sorted(range(len(log_n)), key=lambda i: -log_n[i])

    def step(place: tuple[int, int], near: Prediction | None) -> tuple[Cell, Prediction | None]:
        row, column = place
        own = base.changed(weight_decay=float(dim ** log_lambda[row]))
        return _cell(task, own, dim, float(log_n[column]), float(log_lambda[row]), near)

    cells = walk_chains(step, [[(row, column) for column in order] for row in range(len(log_lambda))], progress)
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
    """Solve one cell; the prediction starts the next one."""
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
