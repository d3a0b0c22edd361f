"""train(): heads of finite size, trained on random instances of a task, and averages over seeds."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onehead.aim.flat_parameters import validate_problem
from onehead.aim.task import Learner, Task
from onehead.aim.training.data import check_target_map
from onehead.aim.training.instance import problem_as_trained, sample_count
from onehead.aim.training.layer import check_target_maps
from onehead.aim.training.results import QUANTITIES, Sectors, TrainingCertificate, TrainingResult, TrainingRun
from onehead.aim.training.run import Plan, train_one
from onehead.aim.training.settings import Method, Variant
from onehead.numerics.interrupts import raise_if_interrupted, record_interrupts
from onehead.numerics.minimise import Stopped
from onehead.numerics.parallel import threads
from onehead.numerics.progress import LOGGER
from onehead.results.replicates import mean_and_spread
from onehead.validation import Seed, array_like, instance, integer, optional, seed_number, valid_seed

Progress = Callable[[TrainingRun], None]

BLAS_THREADS_FROM_DIM = 400  # dimension from which a single run is faster with all cores in its matrix products


@validate_problem(
    variant=optional(instance(Variant, "Variant()")),
    dim=integer(2),
    seeds=integer(1),
    seed=valid_seed,
    workers=integer(1),
    method=optional(instance(Method, "Method()")),
    target_map=optional(array_like),
)
def train(
    task: Task,
    learner: Learner,
    *,
    dim: int,
    alpha: float,
    seeds: int = 4,
    seed: Seed = 0,
    variant: Variant | None = None,
    method: Method | None = None,
    target_map: ArrayLike | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> TrainingResult:
    """Train a head of finite size on random data, once per seed, and measure what the theory predicts.

    Minimises sum_μ loss(A_μ, y_μ) + λ d Tr S over the weights (1.2; the nuclear norm of S for an untied head, U1), with
    n = α d² samples, κ d rows of the factor and κ₀ d rows of the target's factor, each rounded. ``trained`` of the
    result is the problem with the rounded numbers, to be used for a prediction.

    Parameters
    ----------
    task : Task
        What is learned.
    learner : Learner
        The head; its weight decay must be a positive number, because the limit 0+ has no finite training run.
    dim : int
        Dimension d of a token.
    alpha : float
        Sample ratio α = n/d².
    seeds : int
        Number of independent instances (target, data, start).
    seed : int or numpy.random.Generator
        Seed of all random numbers. Run k gives the same bits for any number of seeds and workers.
    variant : Variant, optional
        Deviations of the layer from the assumptions of the theory.
    method : Method, optional
        Optimiser, tolerance, precision, memory.
    target_map : array of shape (d, d), optional
        Map to learn in place of one sampled from ``task.target``; symmetric for a tied head. For several heads an
        array of shape (heads, d, d).
    workers : int
        Number of threads, each of which trains one seed at a time.
    progress : callable, optional
        Called with every finished run.

    Returns
    -------
    TrainingResult
        Means over seeds, with standard errors, and all runs. Ctrl-C ends training and returns the finished runs; the
        status then says so.

    Raises
    ------
    InvalidArgument
        If an argument is not allowed, or a combination of task, learner, variant and method cannot be trained.
    TooLarge
        If the problem does not fit into memory.

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> run = train(Task(), Learner(weight_decay=0.01), dim=30, alpha=0.5, seeds=2)
    >>> run.status, run.samples, 0.1 < run.test_error < 0.2
    ('converged', 450, True)
    """
    plan = Plan(
        task=task,
        learner=learner,
        dim=dim,
        count=sample_count(alpha, dim),
        seed=seed_number(seed),
        variant=(variant or Variant()).for_task(task),
        method=method or Method(),
        target=_given_target(target_map, task, dim),
        stop=threading.Event(),
    )
    runs = _train_all(plan, range(seeds), workers, progress)
    result = _averages(plan, runs, alpha, seeds)
    if plan.method.start != "both":
        return result
    parts = []
    for start in plan.method.single_starts:
        own = tuple(one for run in runs for one in run.by_start if one.start == start)
        if own:  # an interruption may leave none
            parts.append(_averages(replace(plan, method=plan.method.changed(start=start)), own, alpha, seeds))
    return replace(result, by_start=tuple(parts), solutions=tuple(part.solution() for part in parts))


def _given_target(target_map: ArrayLike | None, task: Task, dim: int) -> NDArray[np.float64] | None:
    """Target map given by the user, checked; one for each head of a layer."""
    if target_map is None:
        return None
    if task.heads > 1:
        return check_target_maps(target_map, task, dim)
    return check_target_map(target_map, dim, tied=task.tied)


def _averages(plan: Plan, runs: tuple[TrainingRun, ...], alpha: float, seeds: int) -> TrainingResult:
    """Averages over runs."""
    task, learner, dim = plan.task, plan.learner, plan.dim
    means, spread = mean_and_spread(runs, [name for name in QUANTITIES if getattr(runs[0], name) is not None])
    trained_task, trained_learner, trained_alpha = problem_as_trained(task, learner, alpha, dim, plan.variant)
    return TrainingResult(
        alpha=alpha,
        dim=dim,
        samples=plan.count,
        **means,
        value_scale=_mean_scale([run.value_scale for run in runs if run.value_scale is not None]),
        sectors=_mean_sectors([run.sectors for run in runs if run.sectors is not None]),
        trained_alpha=trained_alpha,
        trained_width=trained_learner.width,
        trained_kappa0=getattr(trained_task.target, "kappa0", None),
        spread=spread,
        seeds=len(runs),
        setting=plan.variant.describe(task),
        certificate=_joint_certificate(runs, seeds),
        runs=runs,
        solutions=(),
        by_start=(),
        variant=plan.variant,
        method=plan.method,
        task=task,
        learner=learner,
    )


def _train_all(plan: Plan, seeds: range, workers: int, progress: Progress | None) -> tuple[TrainingRun, ...]:
    """All runs, in the order of their seeds; an interruption returns those that are finished."""
    from threadpoolctl import threadpool_limits

    done: dict[int, TrainingRun] = {}

    def finish(run: TrainingRun) -> None:
        done[run.seed] = run
        LOGGER.info("training at d = %d: seed %d finished after %.1f s", plan.dim, run.seed, run.seconds)
        if progress is not None:
            progress(run)

    # one BLAS thread: several compete with other seeds for the cores, and slow down short vector operations
    one = workers > 1 or plan.dim < BLAS_THREADS_FROM_DIM or threads() == 1
    try:
        with record_interrupts(), threadpool_limits(limits=1 if one else None, user_api="blas"):
            if workers == 1:
                for k in seeds:
                    finish(train_one(plan, k))
                    raise_if_interrupted()
                    if done[k].certificate.interrupted:
                        break
            else:
                _train_in_threads(plan, seeds, workers, finish)
    except (KeyboardInterrupt, Stopped):
        if not done:
            raise KeyboardInterrupt from None
    return tuple(done[k] for k in sorted(done))


def _train_in_threads(plan: Plan, seeds: range, workers: int, finish: Progress) -> None:
    """Train all seeds in a pool of threads; on Ctrl-C the running ones end with their best weights so far."""
    with ThreadPoolExecutor(workers) as pool:
        futures = {pool.submit(train_one, plan, k) for k in seeds}
        try:
            with record_interrupts():
                for future in as_completed(futures):
                    finish(future.result())
                    futures.discard(future)
        except KeyboardInterrupt:
            plan.stop.set()
            for future in futures:
                if not future.cancel() and not isinstance(future.exception(), Stopped):
                    finish(future.result())


def _mean_scale(found: list[tuple[float, float]]) -> tuple[float, float] | None:
    """Mean over runs of the scales of the values."""
    return (float(np.mean([one[0] for one in found])), float(np.mean([one[1] for one in found]))) if found else None


def _mean_sectors(found: list[Sectors]) -> Sectors | None:
    """Means of the sectors over runs, with standard deviations and standard errors."""
    if not found:
        return None
    means: Sectors = {}
    for name in found[0]:
        values = np.array([sectors[name] for sectors in found])
        std = values.std(axis=0, ddof=1) if len(values) > 1 else np.full(2, np.nan)
        means[name] = values.mean(axis=0).tolist()
        means[f"{name}_std"], means[f"{name}_err"] = std.tolist(), (std / np.sqrt(len(values))).tolist()
    return means


def _joint_certificate(runs: tuple[TrainingRun, ...], wanted: int) -> TrainingCertificate:
    """Certificate of all runs: that of the worst run, with the first status that is not "converged"."""
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
