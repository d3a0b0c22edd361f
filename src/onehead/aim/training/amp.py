"""Approximate message passing on one instance, and its state evolution (9).

In the coordinates u = h_ab - h_12 of a sample, covariance C per unit of variance (2.5), in reduced units:

    v = u(S) - Σ C p_old,                      p = C^-1 (prox_Σ(v, y) - v) / Σ,
    Σhat = (2 α / Σ) mean tr(1 - dprox/dv),    R = Σhat S + (2/d) sum_samples sum_ab P_ab dh_ab/dS,
    S = O (r - 2λ)_+ O' / Σhat,                Σ = [sum_{i≠j} (f_i - f_j)/(r_i - r_j) + 2 rank] / (d² Σhat),

with R = O diag(r) O', f = (r - 2λ)_+, P the symmetric matrix of p. Trained directly, S = R/D and Σ = 1/D with
D = Σhat + 4λ. A fixed point is a stationary point of the training objective, whatever Σ and Σhat.

Rows that share no logit (masks, untied heads) have coordinates of their own, u_b = h_ab - h_an from the last column they see. An
untied map has 1 instead of the 2 above, P and R without symmetry, and singular values (U9).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba import float64, int64, types
from numpy.typing import NDArray

from onehead.aim.equations.geometry import Block, Geometry, geometry_of
from onehead.aim.equations.state_evolution import StateEvolution
from onehead.aim.equations.unknowns import Hats
from onehead.aim.losses import loss_on
from onehead.aim.targets import Atoms, MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.aim.training.data import Samples, draw_target
from onehead.aim.training.instance import Instance, sample_count
from onehead.aim.training.objective import data_slope, map_logits
from onehead.arguments import checked, instance, number, optional, whole
from onehead.errors import Diverged, InvalidArgument, OutsideDomain
from onehead.numerics.compiled import njit
from onehead.numerics.interrupts import check, heard
from onehead.numerics.prox import ROW, factorise, newton_prox, scratch, solve_factored
from onehead.results import Certificate, Result

__all__ = ["AmpResult", "AmpStep", "Passed", "amp", "check_geometry", "pass_messages", "state_evolution"]

Array = NDArray[np.float64]

DAMPING = 0.7
START = 0.3  # the start is this multiple of a random map with the law of a full-width target
FIRST_SIGMA = 1.5  # over α: of the order of the fixed point
SMALLEST_LABEL = 1e-300
SETTLED = 1e-6  # relative move of the last step
RUNAWAY = 1e6  # of q over the power of the labels
LEVEL = 1  # quadrature of the state evolution; error about 1e-4

_matrix = types.Array(float64, 2, "C")


@njit(
    types.void(ROW, types.Array(int64, 2, "C"), _matrix, float64, _matrix, types.Array(float64, 3, "C"),
               _matrix, _matrix, types.Array(float64, 1, "C")),
    cache=True,
    nogil=True,
    error_model="numpy",
)  # fmt: skip
def _messages(row, select, metric, step, v, label, start, p, out):  # type: ignore[no-untyped-def]
    """p = C^-1 (prox - v) / Σ of every sample; out[0] is the sum of tr(1 - dprox/dv)."""
    n = metric.shape[0]
    w = scratch(n, select.shape[1])
    u = np.empty(n)
    out[0] = 0.0
    for i in range(v.shape[0]):
        u[:] = start[i]
        newton_prox(row, select, metric, step, v[i], label[i], u, w)
        for k in range(n):
            total = 0.0
            for j in range(n):
                total += metric[k, j] * (u[j] - v[i, j])
            p[i, k] = total / step
        lift = 1e-9
        while not factorise(w.hessian, w.factor):  # a minimum that is flat in some direction
            for k in range(n):
                w.hessian[k, k] += lift * metric[k, k] / step
            lift *= 10.0
        for k in range(n):
            for j in range(n):
                w.step[j] = w.hessian[j, k] - metric[j, k] / step
            solve_factored(w.factor, w.step)
            out[0] += w.step[k]


class _Coordinates(NamedTuple):
    """Rows of a sample that share coordinates: positions of the pairs (a, b), the pair from which they are measured, and their law."""

    shape: Block
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    base: tuple[int, int]
    seen: tuple[slice, slice]  # the rows, and the columns that they see

    def take(self, h: Array) -> Array:
        """u of logits (count, T, T)."""
        return np.ascontiguousarray(h[:, self.rows, self.columns] - h[:, self.base[0], self.base[1], None])

    def label(self, y: Array) -> Array:
        """The labels of these rows."""
        return np.ascontiguousarray(y[:, self.seen[0], self.seen[1]])

    def spread(self, p: Array, P: Array) -> None:
        """Fill the entries of P with sum_ab P_ab dh_ab = p.du."""
        P[:, self.rows, self.columns] = p
        P[:, self.base[0], self.base[1]] = -p.sum(axis=1)


def _coordinates(task: Task, geometry: Geometry) -> tuple[_Coordinates, ...]:
    """Those of every row that has a choice; without a mask, rows of a tied head share theirs."""
    if _coupled(task):
        (shape,) = geometry.blocks
        pairs = [divmod(int(np.flatnonzero(shape.select.ravel() == i)[0]), task.tokens) for i in range(shape.dim)]
        rows, columns = np.array(pairs).T
        return (_Coordinates(shape, rows, columns, (0, 1), (slice(None), slice(None))),)
    shapes = {block.dim + 1: block for block in geometry.blocks}
    return tuple(
        _Coordinates(shapes[n], np.full(n - 1, a), np.arange(n - 1), (a, n - 1), (slice(a, a + 1), slice(n)))
        for a, n in enumerate(task.columns)
        if n > 1
    )


def _coupled(task: Task) -> bool:
    """Whether rows share logits."""
    return task.tied and task.mask == "none"


def _label_logits(y: Array, coupled: bool) -> Array:
    """Logits with the rows of y as their softmax, log y_ab; symmetric ones, if rows share them, by c_a = log(y_1a / y_a1)."""
    h = np.log(np.maximum(y, SMALLEST_LABEL))
    if coupled:
        h += (h[:, 0, :] - h[:, :, 0])[:, :, None]
    return h


def check_geometry(task: Task) -> None:
    """Refuse a head whose map the messages do not see the same in all directions (U5.1, U9)."""
    if geometry_of(task.attention, task.mask, task.tokens).sectors > 1:
        raise InvalidArgument("attention", "self", "tied or cross for message passing, or self with mask strict")


class Passed(NamedTuple):
    """The last map, in the learner's own units; (q, m, Σ, Σhat) of every iteration, the start first."""

    map: Array
    trace: Array
    iterations: int
    change: float
    status: str


def pass_messages(
    task: Task,
    learner: Learner,
    instance: Instance,
    *,
    max_iterations: int,
    damping: float = DAMPING,
    tolerance: float = 0.0,
    start: Array | None = None,
    first_sigma: float | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Passed:
    """Iterate on the training samples until S changes by less than ``tolerance`` (relative) in a step.

    ``damping`` is the share of the new S, Σ and messages in each step. ``start`` is a map, zero if
    not given; ``first_sigma`` the Σ to begin with, 1.5/α if not given.
    """
    check_geometry(task)
    problem = StateEvolution.of(task, learner)
    samples, d, target = instance.train, instance.train.dim, problem.input.scale * instance.target
    geometry = problem.output.geometry
    alpha, unit = samples.count / d**2, geometry.unit
    outward = _Outward(task, samples, _coordinates(task, geometry), loss_on(task.labels, learner.loss).compiled)
    S: Array = np.zeros((d, d)) if start is None else learner.beta * start
    sigma, sigma_hat = first_sigma or FIRST_SIGMA / alpha, np.nan
    trace = [(float(np.sum(S * S) / d), float(np.sum(S * target) / d), sigma, sigma_hat)]
    change, status = np.inf, f"stopped after {max_iterations} iterations"
    for step in range(max_iterations):
        if stop():
            status = "interrupted: the best weights so far"
            break
        share = damping if step else 1.0
        try:
            with heard():
                reaction, slope = outward.step(S, sigma, share)
                check()
        except KeyboardInterrupt:
            status = "interrupted: the best weights so far"
            break
        sigma_hat = unit * alpha / sigma * reaction
        R = sigma_hat * S + unit / d * slope
        fresh, fresh_sigma = problem.input.pass_on(0.5 * (R + R.T) if task.tied else R, sigma_hat)
        moved = share * (fresh - S)
        S = S + moved
        sigma += share * (fresh_sigma - sigma)
        q = float(np.sum(S * S) / d)
        if not q < RUNAWAY * problem.label_power:
            raise Diverged(f"message passing ran away at iteration {step + 1}; use a smaller damping.")
        trace.append((q, float(np.sum(S * target) / d), sigma, sigma_hat))
        change = float(np.linalg.norm(moved) / max(float(np.linalg.norm(S)), 1e-300))
        if sigma <= 0.0:
            status = "not emerged: S = 0 is the minimum"
            break
        if change <= tolerance:
            status = "converged"
            break
    own = np.append(1.0 / problem.units.factors, 1.0)
    return Passed(S / learner.beta, np.array(trace) * own, len(trace) - 1, change, status)


class _Outward:
    """The output half of a step: messages of every sample, and where its labels would be met exactly.

    Hard labels are met nowhere: a proximal point is looked for from v, and cross-entropy has one (U7).
    """

    def __init__(self, task: Task, samples: Samples, coordinates: tuple[_Coordinates, ...], row: Any) -> None:
        self.task, self.samples, self.coordinates, self.row = task, samples, coordinates, row
        self.fitted = [
            [at.take(logits) for at in coordinates]
            for logits in (_label_logits(chunk.labels, _coupled(task)) for chunk in samples)
        ]
        self.messages = [[np.zeros_like(u) for u in fits] for fits in self.fitted]

    def step(self, S: Array, sigma: float, damping: float) -> tuple[float, Array]:
        """Mean of tr(1 - dprox/dv), and sum P_ab dh_ab/dS; renews the messages."""
        total, slope, out = 0.0, np.zeros(S.shape), np.empty(1)
        for k, chunk in enumerate(self.samples):
            X = chunk.tokens
            h = map_logits(S.astype(X.dtype), X, chunk.keys).astype(np.float64)
            P = np.zeros(h.shape)
            for i, at in enumerate(self.coordinates):
                shape, old = at.shape, self.messages[k][i]
                v = at.take(h) - sigma * old @ shape.covariance
                start = v if self.task.labels == "hard" else self.fitted[k][i]
                p = np.empty_like(v)
                _messages(self.row, shape.select, shape.metric, sigma, v, at.label(chunk.labels), start, p, out)
                total += float(out[0])
                old += damping * (p - old)
                at.spread(old, P)
            if self.task.tied:
                P = 0.5 * (P + P.transpose(0, 2, 1))
            slope += data_slope(P.astype(X.dtype), X, chunk.keys)
        return total / self.samples.count, slope


def state_evolution(
    task: Task,
    learner: Learner,
    alpha: float,
    start: tuple[float, float, float],
    *,
    iterations: int,
    damping: float = 1.0,
) -> Array:
    """(q, m, Σ) of every iteration, the start first: the map of the equations (2), from the overlaps of the first S.

    Exact for undamped message passing as d grows. Damping mixes iterates; it is followed by writing every matrix as
    x S* + y N with one noise direction N, so that S, the slope of the data and R = Σhat S + slope are mixed like
    the numbers (x, y). That keeps the fixed point and follows the way to it within a few percent, for
    an untied head within about a tenth.
    """
    problem = StateEvolution.of(task, learner)
    Q0 = problem.target_power
    units = problem.units.factors
    q, m, sigma = (float(value) for value in np.asarray(start) * units)
    S = np.array([m / Q0, np.sqrt(max(q - m * m / Q0, 0.0))])
    slope = np.zeros(2)
    rows = [(q, m, sigma)]
    for step in range(iterations):
        unit = problem.output.hats(q, m, sigma, level=LEVEL)
        q_hat, m_hat, sigma_hat = (alpha * hat for hat in unit)
        share = damping if step else 1.0
        slope += share * (np.array([m_hat, np.sqrt(q_hat)]) - sigma_hat * S - slope)
        field = sigma_hat * S + slope
        try:
            new = problem.input.overlaps(Hats(float(field[1]) ** 2, float(field[0]), sigma_hat))
        except OutsideDomain:  # the map is zero from here on
            break
        S += share * (np.array([new.m / Q0, np.sqrt(max(new.q - new.m**2 / Q0, 0.0))]) - S)
        sigma += share * (new.sigma - sigma)
        q, m = float(S[0] ** 2 * Q0 + S[1] ** 2), float(S[0] * Q0)
        rows.append((q, m, sigma))
    trajectory: Array = np.array(rows) / units
    return trajectory


@dataclass(frozen=True, kw_only=True)
class AmpStep(Result):
    """One iteration: overlaps of the iterate and what state evolution says of them."""

    iteration: int
    q: float
    m: float
    sigma: float
    q_theory: float
    m_theory: float
    sigma_theory: float


@dataclass(frozen=True, kw_only=True)
class AmpResult(Result):
    """Message passing on one instance beside its state evolution, which uses the instance's own spectrum."""

    _HIDDEN: ClassVar[tuple[str, ...]] = ("map", "instance")

    alpha: float
    dim: int
    damping: float
    steps: tuple[AmpStep, ...]
    certificate: Certificate
    map: Array
    instance: Instance
    task: Task
    learner: Learner

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per iteration."""
        return [step.to_dict() for step in self.steps]


@checked(
    task=instance(Task, "Task()"),
    learner=instance(Learner, "Learner()"),
    dim=whole(2),
    iterations=whole(1),
    damping=number(above=0.0),
    first_sigma=optional(number(above=0.0)),
    seed=whole(0),
)
def amp(
    task: Task,
    learner: Learner,
    *,
    dim: int,
    alpha: float,
    iterations: int = 80,
    damping: float = DAMPING,
    first_sigma: float | None = None,
    seed: int = 0,
) -> AmpResult:
    """Run message passing on one random instance, from a random map, beside its state evolution.

    Parameters
    ----------
    task : Task
        Tied, cross-attention, or self-attention with a strict mask.
    learner : Learner
        Of full width, with a positive weight decay.
    dim : int
    alpha : float
    iterations : int
    damping : float
        Share of the new iterate in each step; 1 is undamped.
    first_sigma : float, optional
        The Σ to begin with; 1.5/α when not given.
    seed : int

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> run = amp(Task(), Learner(), dim=40, alpha=1.0, iterations=30)
    >>> last = run.steps[-1]
    >>> abs(last.q / last.q_theory - 1.0) < 0.3
    True
    """
    if learner.width < 1.0 or learner.decay == 0.0:
        raise InvalidArgument(
            "learner",
            f"width {learner.width:g}, weight decay {learner.weight_decay}",
            "of full width with a positive weight decay for message passing",
        )
    if not 0.0 < damping <= 1.0:
        raise InvalidArgument("damping", damping, "a number > 0 and <= 1")
    count = sample_count(alpha, dim)
    root = np.random.SeedSequence(seed, spawn_key=(0,))
    instance = Instance.draw(task, dim, count, root)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 4)))
    start = START * draw_target(MarchenkoPastur(kappa0=0.5), dim, rng, tied=task.tied)
    passed = pass_messages(
        task,
        learner,
        instance,
        max_iterations=iterations,
        damping=damping,
        start=start,
        first_sigma=first_sigma,
    )
    spectrum = np.linalg.eigvalsh(instance.target) if task.tied else np.linalg.svd(instance.target, compute_uv=False)
    own = task.model_copy(update={"target": Atoms(eigenvalues=tuple(spectrum.tolist()))})
    q, m, sigma, _ = passed.trace[0]
    theory = state_evolution(own, learner, count / dim**2, (q, m, sigma), iterations=passed.iterations, damping=damping)
    steps = tuple(
        AmpStep(
            iteration=t,
            q=here[0],
            m=here[1],
            sigma=here[2],
            q_theory=there[0],
            m_theory=there[1],
            sigma_theory=there[2],
        )
        for t, (here, there) in enumerate(zip(passed.trace.tolist(), theory.tolist(), strict=False))
    )
    settled = passed.change <= SETTLED and passed.status.startswith("stopped")
    status = "converged" if settled else passed.status
    certificate = Certificate(status=status, kind="measurement", residual=passed.change, evaluations=passed.iterations)
    return AmpResult(
        alpha=alpha,
        dim=dim,
        damping=damping,
        steps=steps,
        certificate=certificate,
        map=passed.map,
        instance=instance,
        task=task,
        learner=learner,
    )
