"""train(): a real attention layer on real samples, described by the same Task and Learner as the theory."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onehead.aim.losses import LOSSES, Loss, loss_on
from onehead.aim.targets import MarchenkoPastur, Product
from onehead.aim.task import Learner, Task
from onehead.aim.training.data import Samples, check_target, softmax_rows
from onehead.aim.training.instance import Instance, as_trained, sample_count
from onehead.aim.training.logits import Rows
from onehead.aim.training.minimise import Minimum, Stopped, adam, lbfgs, stationarity
from onehead.aim.training.nuclear import cut_singular_values, over_product
from onehead.aim.training.objective import (
    Cut,
    Objective,
    OutputLoss,
    Parametrisation,
    Untied,
    parametrisation,
)
from onehead.aim.training.results import QUANTITIES, Sectors, TrainingCertificate, TrainingResult, TrainingRun
from onehead.aim.training.settings import Method, Variant
from onehead.aim.words import posed
from onehead.arguments import an_array, instance, optional, whole
from onehead.errors import InvalidArgument
from onehead.measured import spreads
from onehead.numerics.interrupts import check, heard
from onehead.numerics.parallel import threads

__all__ = ["train"]

Array = NDArray[np.float64]
Progress = Callable[[TrainingRun], None]

NOTHING = 1e-3  # of the target's size: a map below is zero itself, and what is largest in it is rounding
MANY = 400  # dimensions from which a single run is faster with all cores in its matrix products
POLISH = (1e-3, 150)  # proximal steps until one moves S by less than this share of the tolerance, and how many at most
SAME_MINIMUM = 1e-5  # relative difference of objectives below which two starts agree


@posed(
    variant=optional(instance(Variant, "Variant()")),
    dim=whole(2),
    seeds=whole(1),
    seed=whole(0),
    workers=whole(1),
    method=optional(instance(Method, "Method()")),
    target_map=optional(an_array),
)
def train(
    task: Task,
    learner: Learner,
    *,
    dim: int,
    alpha: float,
    seeds: int = 4,
    seed: int = 0,
    variant: Variant | None = None,
    method: Method | None = None,
    target_map: ArrayLike | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> TrainingResult:
    """Train a head of finite size on fresh data, once per seed, and measure what the theory predicts.

    Minimises sum_μ loss(A_μ, y_μ) + λ d Tr S over the weights (1.2; the nuclear norm of S for an untied head, U1), with n = α d²
    samples, κ d rows of the factor and κ₀ d of the target's, each rounded; ``trained`` of the result is the problem with these numbers, the one to predict beside it.

    Parameters
    ----------
    task : Task
    learner : Learner
        λ must be a number: the limit 0+ has no finite training run.
    dim : int
        Dimension d of a token.
    alpha : float
        Samples per squared dimension, α = n/d².
    seeds, seed : int
        How many independent instances (target, data, start), and the root of their random numbers. Run k
        gives the same bits whatever the number of seeds and workers.
    variant : Variant, optional
        Where the layer leaves the assumptions of the theory.
    method : Method, optional
        Optimiser, tolerance, precision, memory.
    target_map : array of shape (d, d), optional
        A map to learn instead of one drawn from ``task.target``, symmetric for a tied head.
    workers : int
        Threads, one seed each.
    progress : callable, optional
        Called with every finished run.

    Returns
    -------
    TrainingResult
        Ctrl-C ends training and returns what there is; the status then says so.

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> run = train(Task(), Learner(weight_decay=0.01), dim=30, alpha=0.5, seeds=2)
    >>> run.status, run.samples, 0.1 < run.test_error < 0.2
    ('converged', 450, True)
    """
    plan = _Plan(
        task=task,
        learner=learner,
        dim=dim,
        count=sample_count(alpha, dim),
        seed=seed,
        variant=(variant or Variant()).of(task),
        method=method or Method(),
        target=None if target_map is None else check_target(target_map, dim, tied=task.tied),
        stop=threading.Event(),
    )
    runs = _all(plan, range(seeds), workers, progress)
    means, spread = spreads(runs, [name for name in QUANTITIES if getattr(runs[0], name) is not None])
    own, head, ratio = as_trained(task, learner, alpha, dim, plan.variant)
    return TrainingResult(
        alpha=alpha,
        dim=dim,
        samples=plan.count,
        **means,
        sectors=_mean_sectors([run.sectors for run in runs if run.sectors is not None]),
        trained_alpha=ratio,
        trained_width=head.width,
        trained_kappa0=own.target.kappa0 if isinstance(own.target, (MarchenkoPastur, Product)) else None,
        spread=spread,
        seeds=len(runs),
        setting=str(plan.variant),
        certificate=_joint(runs, seeds),
        runs=runs,
        variant=plan.variant,
        method=plan.method,
        task=task,
        learner=learner,
    )


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """Everything the runs share."""

    task: Task
    learner: Learner
    dim: int
    count: int
    seed: int
    variant: Variant
    method: Method
    target: Array | None
    stop: threading.Event

    def __post_init__(self) -> None:
        if self.learner.decay == 0.0:
            raise InvalidArgument("weight_decay", "0+", "a number > 0 to train with")
        _ = self.own_loss  # not every loss knows hard labels
        self.variant.tokens.check_dim(self.dim)
        if self.learner.param == "direct" and self.task.tied and not self.variant.tied:
            raise InvalidArgument("tied", False, "true for direct training")
        if self.task.labels == "hard" and self.variant.output == "sequence":
            raise InvalidArgument("output", "sequence", "label with hard labels")
        if self.method.optimiser == "amp":
            self._check_messages()

    def _check_messages(self) -> None:
        """Message passing knows one head of full width, tied as its task is."""
        from onehead.aim.training.messages import check_geometry  # noqa: PLC0415  (loads the proximal kernels)

        check_geometry(self.task)
        plain = self.variant.heads == 1 and self.variant.output == "label" and self.learner.width >= 1.0
        if not plain or self.variant.tied != self.task.tied:
            raise InvalidArgument(
                "optimiser",
                "amp",
                "lbfgs or adam unless the head is tied as its task is, with one head of full width and label output",
            )

    @property
    def weights(self) -> Parametrisation:
        """The parametrisation of the learner."""
        learner, variant = self.learner, self.variant
        return parametrisation(learner.param, tied=variant.tied, dim=self.dim, width=learner.width, heads=variant.heads)

    @property
    def nuclear(self) -> bool:
        """Whether weight decay is the nuclear norm of the map of an untied task, and numbers are precise enough to see its zeros."""
        weights = self.weights
        full = isinstance(weights, Untied) and weights.heads == 1 and weights.width >= self.dim
        return full and not self.task.tied and self.method.dtype == "float64"

    @property
    def own_loss(self) -> Loss:
        """The learner's own loss."""
        return loss_on(self.task.labels, self.learner.loss)

    def output(self, loss: Loss) -> OutputLoss:
        """A loss of what the head attends to."""
        return OutputLoss(
            loss=loss,
            beta=self.learner.beta,
            output=self.variant.output,
            columns=self.task.columns,
        )


def _all(plan: _Plan, seeds: range, workers: int, progress: Progress | None) -> tuple[TrainingRun, ...]:
    """All runs, in the order of their seeds; an interruption keeps those that have something to show."""
    from threadpoolctl import threadpool_limits  # noqa: PLC0415

    done: dict[int, TrainingRun] = {}

    def keep(run: TrainingRun) -> None:
        done[run.seed] = run
        if progress is not None:
            progress(run)

    # products that split themselves over cores which other seeds use, and the short vector operations of L-BFGS that
    # split at all, are several times slower
    one = workers > 1 or plan.dim < MANY or threads() == 1
    try:
        with heard(), threadpool_limits(limits=1 if one else None, user_api="blas"):
            if workers == 1:
                for k in seeds:
                    keep(_run(plan, k))
                    check()
                    if done[k].certificate.interrupted:
                        break
            else:
                _in_threads(plan, seeds, workers, keep)
    except (KeyboardInterrupt, Stopped):
        if not done:
            raise KeyboardInterrupt from None
    return tuple(done[k] for k in sorted(done))


def _in_threads(plan: _Plan, seeds: range, workers: int, keep: Progress) -> None:
    with ThreadPoolExecutor(workers) as pool:
        futures = {pool.submit(_run, plan, k) for k in seeds}
        try:
            with heard():
                for future in as_completed(futures):
                    keep(future.result())
                    futures.discard(future)
        except KeyboardInterrupt:
            plan.stop.set()
            for future in futures:
                if not future.cancel() and not isinstance(future.exception(), Stopped):
                    keep(future.result())


def _run(plan: _Plan, k: int) -> TrainingRun:
    """Draw instance k, train on it, measure."""
    if plan.stop.is_set():
        raise Stopped
    clock = time.perf_counter()
    seed = np.random.SeedSequence(plan.seed, spawn_key=(k,))
    instance = Instance.draw(
        plan.task, plan.dim, plan.count, seed, variant=plan.variant, method=plan.method, target=plan.target
    )
    if plan.method.optimiser == "amp":
        weights, theta, certificate = _pass_messages(plan, instance)
    else:
        weights, theta, certificate = _minimise(plan, instance, k)
    maps = weights.maps(theta)
    measured = _measure(plan, weights, maps, instance)
    return TrainingRun(
        seed=k,
        **measured,
        train_loss=certificate.objective,
        seconds=time.perf_counter() - clock,
        certificate=certificate,
        map=maps.mean(axis=0),
        target=instance.target,
    )


def _objective(plan: _Plan, samples: Samples, weights: Parametrisation) -> Objective:
    return Objective(samples=samples, weights=weights, loss=plan.output(plan.own_loss), decay=plan.learner.decay)


def _minimise(plan: _Plan, instance: Instance, k: int) -> tuple[Parametrisation, Array, TrainingCertificate]:
    """Minimise over the weights, from several starts for the first seed."""
    weights = plan.weights
    objective = _objective(plan, instance.train, weights)

    def stoppable(objective: Objective) -> Callable[[Array], tuple[float, Array]]:
        def function(theta: Array) -> tuple[float, Array]:
            if plan.stop.is_set():
                raise Stopped
            value, gradient = objective(theta)
            return value - objective.floor, gradient

        return function

    function = stoppable(objective)
    search: Callable[..., Minimum] = adam
    if plan.method.optimiser == "lbfgs":
        search = partial(lbfgs, curvature=weights.curvature)
        if plan.method.dtype == "float64":  # single precision costs half, and shows the way as well
            search = partial(search, rough=stoppable(_objective(plan, instance.train.rounded(), weights)))
    found: list[Minimum] = []
    for start in range(plan.method.starts if k == 0 else 1):
        rng = np.random.default_rng(np.random.SeedSequence(plan.seed, spawn_key=(k, 3, start)))
        theta = weights.start(rng)
        found.append(
            search(function, theta, tolerance=plan.method.tolerance, max_iterations=plan.method.max_iterations)
        )
        if found[-1].status.startswith("interrupted"):
            break
    best = min(found, key=lambda minimum: minimum.value)
    values = [minimum.value for minimum in found]
    gap = (max(values) - min(values)) / abs(min(values)) if len(values) > 1 else None
    warnings: tuple[str, ...] = ()
    if gap is not None and gap > SAME_MINIMUM:
        warnings = (f"{len(values)} starts ended at objectives that differ by {gap:.1e}: the minimum is not unique",)
    if plan.nuclear and not found[-1].status.startswith("interrupted"):
        best, weights = _polished(plan, objective, best)
        found.append(best)
    certificate = TrainingCertificate(
        status=found[-1].status if found[-1].status.startswith("interrupted") else best.status,
        kind="measurement",
        residual=best.stationarity,
        gradient_norm=best.stationarity * best.value / float(np.linalg.norm(best.theta) or 1.0),
        evaluations=sum(minimum.evaluations for minimum in found),
        objective=best.value + objective.floor,
        starts_gap=gap,
        warnings=warnings,
    )
    return weights, best.theta, certificate


def _polished(plan: _Plan, objective: Objective, found: Minimum) -> tuple[Minimum, Parametrisation]:
    """Go on by proximal steps on the map, which set singular values to zero where weight decay on factors makes them small (U1)."""
    share, steps = POLISH
    start = objective.weights.maps(found.theta)[0]
    try:
        with heard():
            product = over_product(
                objective,
                cut_singular_values,
                start,
                tolerance=share * plan.method.tolerance,
                max_iterations=steps,
                stop=plan.stop.is_set,
            )
    except (KeyboardInterrupt, Stopped):
        return found._replace(evaluations=0, status="interrupted: the best weights so far"), objective.weights
    weights, theta = Cut.of_map(product.map)
    value, gradient = replace(objective, weights=weights)(theta)
    value -= objective.floor
    return Minimum(theta, value, stationarity(theta, value, gradient), product.iterations, found.status), weights


def _pass_messages(plan: _Plan, instance: Instance) -> tuple[Parametrisation, Array, TrainingCertificate]:
    """Minimise by message passing; certify by the gradient of the objective at the factor of the map."""
    from onehead.aim.training.amp import pass_messages  # noqa: PLC0415  (loads the proximal kernels)

    passed = pass_messages(
        plan.task,
        plan.learner,
        instance,
        tolerance=plan.method.tolerance,
        max_iterations=plan.method.max_iterations,
        stop=plan.stop.is_set,
    )
    weights, theta = plan.weights.of_map(passed.map)
    objective = _objective(plan, instance.train, weights)
    value, gradient = objective(theta)
    certificate = TrainingCertificate(
        status=passed.status,
        kind="measurement",
        residual=stationarity(theta, value - objective.floor, gradient),
        gradient_norm=float(np.linalg.norm(gradient)),
        evaluations=passed.iterations,
        objective=value,
    )
    return weights, theta, certificate


def _measure(plan: _Plan, weights: Parametrisation, maps: Array, instance: Instance) -> dict[str, Any]:
    """Errors on fresh samples (1.3), q = |S|²/d, m = Tr S'S*/d, the spectrum of S and its rank fraction."""
    task, d = plan.task, plan.dim
    own, squared, entropy = (plan.output(loss) for loss in (plan.own_loss, LOSSES["squared"], LOSSES["cross-entropy"]))
    totals = np.zeros(5)
    for chunk in instance.test:
        rows = Rows(chunk, task.columns)
        logits = np.stack([rows.logits(S) for S in maps.astype(chunk.tokens.dtype)])
        gram = own.gram(chunk)
        totals += [
            squared(logits, chunk.labels, gram)[0],
            squared(logits, chunk.clean, gram)[0],
            own(logits, chunk.labels, gram)[0],
            entropy(logits, chunk.labels, None)[0],
            _missed(logits, chunk.labels, plan) if task.labels == "hard" else 0.0,
        ]
    error, clean, loss, nats, missed = totals / instance.test.count
    S = maps.mean(axis=0)
    values = weights.spectrum(S)
    largest = float(np.abs(values).max())
    size = float(np.sqrt(np.mean(instance.target**2) * d))
    return {
        "test_error": float(error),
        "test_error_clean": float(clean),
        "test_loss": float(loss),
        "rank": float(np.mean(np.abs(values) > weights.zero * largest)) if largest > NOTHING * size else 0.0,
        "q": float(np.sum(S * S) / d),
        "m": float(np.sum(S * instance.target) / d),
        "test_cross_entropy": float(nats),
        "zero_one_error": float(missed) if task.labels == "hard" else None,
        "sectors": _sectors(S, instance.target) if task.attention == "self" else None,
        "eigenvalues": values,
    }


def _missed(logits: Array, y: Array, plan: _Plan) -> float:
    """Sum over samples of the chance that a row's most attended token is not its label, mean over rows with a choice (U7)."""
    columns = plan.task.columns
    attended = softmax_rows(plan.learner.beta * logits, columns).mean(axis=0).argmax(axis=-1)
    found = np.take_along_axis(y, attended[..., None], axis=-1)[..., 0]
    return float(np.sum(1.0 - found[:, np.array(columns) > 1].mean(axis=1)))


def _sectors(S: Array, target: Array) -> Sectors:
    """q and m of the symmetric and of the antisymmetric part, twice their share: logits of a sector have this variance (U5.1)."""
    parts = [(0.5 * (S + sign * S.T), 0.5 * (target + sign * target.T)) for sign in (1.0, -1.0)]
    return {
        "q": [float(2.0 * np.sum(own * own) / len(S)) for own, _ in parts],
        "m": [float(2.0 * np.sum(own * wanted) / len(S)) for own, wanted in parts],
    }


def _mean_sectors(found: list[Sectors]) -> Sectors | None:
    """Means over runs, with the standard deviation and standard error of each."""
    if not found:
        return None
    joint: Sectors = {}
    for name in found[0]:
        values = np.array([sectors[name] for sectors in found])
        std = values.std(axis=0, ddof=1) if len(values) > 1 else np.full(2, np.nan)
        joint[name] = values.mean(axis=0).tolist()
        joint[f"{name}_std"], joint[f"{name}_err"] = std.tolist(), (std / np.sqrt(len(values))).tolist()
    return joint


def _joint(runs: tuple[TrainingRun, ...], wanted: int) -> TrainingCertificate:
    """The certificate of the whole: the worst of every number, the first status that is not "converged"."""
    worst = max(runs, key=lambda run: run.certificate.residual).certificate
    status = next((run.certificate.status for run in runs if run.certificate.status != "converged"), "converged")
    if len(runs) < wanted:
        status = f"interrupted after {len(runs)} of {wanted} seeds"
    return replace(
        worst,
        status=status,
        evaluations=sum(run.certificate.evaluations for run in runs),
        objective=float(np.mean([run.certificate.objective for run in runs])),
        starts_gap=next((run.certificate.starts_gap for run in runs if run.certificate.starts_gap is not None), None),
        warnings=tuple(dict.fromkeys(text for run in runs for text in run.certificate.warnings)),
    )
