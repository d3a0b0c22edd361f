"""One training run: an instance is sampled, the objective is minimised, and the trained map is measured.

The loop over seeds and the averages over runs are in `train`.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.aim.losses import LOSSES, Loss, loss_for_labels
from onehead.aim.targets.sampling import factor_rows
from onehead.aim.task import Learner, Task
from onehead.aim.training.data import Samples, mean_length, softmax_rows, token_scales, unasked_direction, whitened
from onehead.aim.training.instance import Instance
from onehead.aim.training.layer import LayerLoss, matched, measure_layer, value_gram
from onehead.aim.training.logits import Rows
from onehead.aim.training.nuclear import minimise_over_map, soft_threshold_singular_values
from onehead.aim.training.objective import Objective, OutputLoss, TrainingLoss
from onehead.aim.training.parametrisation import Parametrisation, ThresholdedUntied, parametrisation
from onehead.aim.training.results import Sectors, TrainingCertificate, TrainingRun
from onehead.aim.training.settings import Method, Start, Variant
from onehead.aim.training.unasked_row import without_unasked_row
from onehead.errors import InvalidArgument
from onehead.numerics.interrupts import record_interrupts
from onehead.numerics.minimise import Minimum, Stopped, adam, lbfgs, stationarity

Array = NDArray[np.float64]

ZERO_MAP = 1e-3  # a map below this share of the target's size counts as zero: its largest eigenvalue is rounding
REFINE_TOLERANCE = 1e-3  # proximal steps end when S changes by less than this share of the method's tolerance
REFINE_MAX_STEPS = 150  # proximal steps at most
MULTIPLES_OF_TARGET = np.geomspace(1.0, 0.01, 31)  # from which the one with the lowest objective is a start
SAME_MINIMUM = 1e-5  # relative difference of objectives below which two starts count as the same minimum


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Settings shared by all runs of one call of `train`."""

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
        _ = self.own_loss  # raises where hard labels are not supported
        if self.layer:
            self._check_layer()
        self.variant.tokens.check_dim(self.dim)
        if self.task.tied and self.task.token_mean != 1.0:
            raise InvalidArgument(
                "token_mean",
                self.task.token_mean,
                "1 for a tied head, the length of whose mean follows from its unasked share",
            )
        if not self.task.isotropic and (self.task.tied or self.task.own_logit):
            raise InvalidArgument(
                "token_spectrum",
                self.task.token_spectrum,
                "isotropic unless attention is cross, or self with mask strict",
            )
        if self.learner.param == "direct" and self.task.tied and not self.variant.tied:
            raise InvalidArgument("tied", False, "true for direct training")
        if self.task.labels == "hard" and self.variant.output == "sequence":
            raise InvalidArgument("output", "sequence", "label with hard labels")
        if self.method.optimiser == "amp":
            self._check_amp()
            if self.method.start != "random":
                raise InvalidArgument("start", self.method.start, "random with message passing")

    def _check_layer(self) -> None:
        """Refuse what several heads that add to one output, or learn their values, are not trained with."""
        task, learner = self.task, self.learner
        plain = task.attention == "cross" and task.mask == "none" and task.labels == "soft"
        if not plain or not task.standard_tokens:
            allowed = "fixed unless attention is cross, with soft labels, without a mask, a mean or a covariance"
            raise InvalidArgument("values", learner.values, allowed)
        if str(learner.loss) != "squared":
            raise InvalidArgument("loss", learner.loss, "squared for several heads, whose outputs add up")
        if self.variant.heads > 1:
            allowed = "1 where heads add to one output or learn their values"
            raise InvalidArgument("averaged_heads", self.variant.heads, allowed)
        if self.variant.output != "label":
            raise InvalidArgument(
                "output", self.variant.output, "label where heads add to one output or learn their values"
            )
        if self.method.optimiser == "amp":
            allowed = "lbfgs or adam where heads add to one output or learn their values"
            raise InvalidArgument("optimiser", "amp", allowed)

    def _check_amp(self) -> None:
        """Refuse message passing unless there is one head of full width with label output, tied if the task is."""
        from onehead.aim.training.message_passing import check_message_passing

        check_message_passing(self.task)
        if not self.task.standard_tokens:
            raise InvalidArgument("optimiser", "amp", "lbfgs or adam for tokens with a mean or a covariance")
        supported = self.variant.heads == 1 and self.variant.output == "label" and self.learner.width >= 1.0
        if not supported or self.variant.tied != self.task.tied:
            raise InvalidArgument(
                "optimiser",
                "amp",
                "lbfgs or adam here: message passing needs one head of full width with label output, "
                "tied like its task",
            )

    @property
    def weights(self) -> Parametrisation:
        """Parametrisation of the learner."""
        learner, variant = self.learner, self.variant
        heads = max(variant.heads, self.task.heads)  # averaged heads, or those of a layer
        return parametrisation(learner.param, tied=variant.tied, dim=self.dim, width=learner.width, heads=heads)

    @property
    def layer(self) -> bool:
        """Whether the learner has several heads that add to one output, or learns its values."""
        return self.task.heads > 1 or self.learner.values == "learnt"

    @property
    def refines_map(self) -> bool:
        """Whether the minimum is refined over the maps: untied heads of full width, in double precision."""
        untied = not (self.variant.tied or self.task.tied)
        full = self.learner.param == "factorised" and factor_rows(self.learner.width, self.dim) >= self.dim
        return untied and full and self.variant.heads == 1 and self.method.dtype == "float64"

    @property
    def own_loss(self) -> Loss:
        """Training loss of the learner."""
        return loss_for_labels(self.task.labels, self.learner.loss)

    @property
    def layer_loss(self) -> LayerLoss:
        """Loss of several heads that add to one output."""
        learner = self.learner
        decay = None if learner.values == "fixed" else learner.value_decay or learner.decay
        return LayerLoss(value_gram=value_gram(self.task), beta=learner.beta, value_decay=decay)

    @property
    def training_loss(self) -> TrainingLoss:
        """Loss that is minimised."""
        return self.layer_loss if self.layer else self.output(self.own_loss)

    def output(self, loss: Loss) -> OutputLoss:
        """Loss of the output of the head."""
        return OutputLoss(
            loss=loss,
            beta=self.learner.beta,
            output=self.variant.output,
            visible=self.task.visible,
        )


def train_one(plan: Plan, k: int) -> TrainingRun:
    """Sample instance k, train on it from every start and measure the maps; return that of the lowest objective."""
    if plan.stop.is_set():
        raise Stopped
    seed = np.random.SeedSequence(plan.seed, spawn_key=(k,))
    instance = Instance.draw(
        plan.task, plan.dim, plan.count, seed, variant=plan.variant, method=plan.method, target=plan.target
    )
    runs: list[TrainingRun] = []
    for start in plan.method.single_starts:
        runs.append(_train_from(plan, instance, k, start))
        if runs[-1].certificate.interrupted:
            break
    best = min(runs, key=lambda run: run.train_loss)
    return replace(best, by_start=tuple(runs))


def _train_from(plan: Plan, instance: Instance, k: int, start: Start) -> TrainingRun:
    """Train on an instance from one start, and measure the trained map."""
    started = time.perf_counter()
    if plan.method.optimiser == "amp":
        weights, theta, certificate = _minimise_by_amp(plan, instance)
    else:
        weights, theta, certificate = _minimise(plan, instance, k, start)
    maps = weights.maps(theta)
    if plan.layer:
        values = plan.layer_loss.values(_objective(plan, instance.train, weights).rows, maps)
        if plan.learner.values == "learnt":
            maps, values = matched(maps, values)
        measured = measure_layer(plan.layer_loss, maps, values, instance, weights)
    else:
        measured = _measure(plan, weights, maps, instance)
    return TrainingRun(
        seed=k,
        start=start,
        **measured,
        train_loss=certificate.objective,
        seconds=time.perf_counter() - started,
        certificate=certificate,
        map=maps if instance.target.ndim == 3 else maps.mean(axis=0),
        target=instance.target,
    )


def _objective(plan: Plan, samples: Samples, weights: Parametrisation) -> Objective:
    """Training objective of the learner on these samples."""
    return Objective(samples=samples, weights=weights, loss=plan.training_loss, decay=plan.learner.decay)


def _minimise(
    plan: Plan, instance: Instance, k: int, start_from: Start
) -> tuple[Parametrisation, Array, TrainingCertificate]:
    """Minimise over the weights, from the target or from random weights, several of them for the first seed."""
    weights = plan.weights
    objective = _objective(plan, instance.train, weights)

    def stoppable(objective: Objective) -> Callable[[Array], tuple[float, Array]]:
        """Objective above its lower bound, which raises `Stopped` on request."""

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
        if plan.method.dtype == "float64":  # single precision costs half and is enough for most of the search
            single = _objective(plan, instance.train.in_single_precision(), weights)
            search = partial(search, low_precision=stoppable(single))
    found: list[Minimum] = []
    informed = start_from == "informed"
    for start in range(plan.method.starts if k == 0 and not informed else 1):
        rng = np.random.default_rng(np.random.SeedSequence(plan.seed, spawn_key=(k, 3, start)))
        theta = _informed_start(plan, objective, instance, rng) if informed else weights.start(rng)
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
    if plan.refines_map and not found[-1].status.startswith("interrupted"):
        best, weights = _refine_over_map(plan, objective, best)
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


def _informed_start(plan: Plan, objective: Objective, instance: Instance, rng: np.random.Generator) -> Array:
    """Weights close to a multiple of the target: the largest one at which the objective has a minimum.

    Weight decay makes the trained map smaller than the target. From the target itself a search would be driven towards
    zero with steps that jump over a minimum.
    """
    target = plan.task.beta0 / plan.learner.beta * instance.target  # has the logits of the labels
    found, lowest = target, np.inf
    for multiple in MULTIPLES_OF_TARGET:
        value, _ = objective(objective.weights.closest(multiple * target))
        if value > lowest:
            break
        found, lowest = multiple * target, value
    return objective.weights.informed_start(found, rng)


def _refine_over_map(plan: Plan, objective: Objective, found: Minimum) -> tuple[Minimum, Parametrisation]:
    """Refine a minimum by proximal steps on the map, which make small singular values exactly zero (U1)."""
    maps = objective.weights.maps(found.theta)
    start = maps[0] if len(maps) == 1 else maps
    try:
        with record_interrupts():
            product = minimise_over_map(
                objective,
                soft_threshold_singular_values,
                start,
                tolerance=REFINE_TOLERANCE * plan.method.tolerance,
                max_iterations=REFINE_MAX_STEPS,
                stop=plan.stop.is_set,
            )
    except (KeyboardInterrupt, Stopped):
        return found._replace(evaluations=0, status="interrupted: the best weights so far"), objective.weights
    weights, theta = ThresholdedUntied.of_map(product.map)
    value, gradient = replace(objective, weights=weights)(theta)
    value -= objective.floor
    return Minimum(theta, value, stationarity(theta, value, gradient), product.iterations, found.status), weights


def _minimise_by_amp(plan: Plan, instance: Instance) -> tuple[Parametrisation, Array, TrainingCertificate]:
    """Minimise by message passing; the certificate has the gradient of the objective at the factors of the map."""
    from onehead.aim.training.amp import run_amp
    from onehead.aim.training.message_passing import Schedule

    schedule = Schedule(plan.method.max_iterations, tolerance=plan.method.tolerance, stop=plan.stop.is_set)
    run = run_amp(plan.task, plan.learner, instance, schedule)
    weights, theta = plan.weights.of_map(run.map)
    objective = _objective(plan, instance.train, weights)
    value, gradient = objective(theta)
    certificate = TrainingCertificate(
        status=run.status,
        kind="measurement",
        residual=stationarity(theta, value - objective.floor, gradient),
        gradient_norm=float(np.linalg.norm(gradient)),
        evaluations=run.iterations,
        objective=value,
    )
    return weights, theta, certificate


def _measure(plan: Plan, weights: Parametrisation, maps: Array, instance: Instance) -> dict[str, Any]:
    """Numbers of a `TrainingRun`: errors on fresh samples (1.3), q, m, spectrum and rank of S."""
    task, d = plan.task, plan.dim
    own, squared, entropy = (plan.output(loss) for loss in (plan.own_loss, LOSSES["squared"], LOSSES["cross-entropy"]))
    totals = np.zeros(5)
    for chunk in instance.test:
        rows = Rows(chunk, task.visible)
        logits = np.stack([rows.logits(S) for S in maps.astype(chunk.tokens.dtype)])
        gram = own.gram(chunk)
        totals += [
            squared(logits, chunk.labels, gram)[0],
            squared(logits, chunk.clean, gram)[0],
            own(logits, chunk.labels, gram)[0],
            entropy(logits, chunk.labels, None)[0],
            _sum_zero_one(logits, chunk.labels, plan) if task.labels == "hard" else 0.0,
        ]
    error, clean, loss, cross_entropy, zero_one = totals / instance.test.count
    S = maps.mean(axis=0)
    values = weights.spectrum(S)
    largest = float(np.abs(values).max())
    size = float(np.sqrt(np.mean(instance.target**2) * d))
    asked = [without_unasked_row(task, M) for M in (S, instance.target)]
    return {
        "test_error": float(error),
        "test_error_clean": float(clean),
        "test_loss": float(loss),
        "rank": float(np.mean(np.abs(values) > weights.zero_tolerance * largest)) if largest > ZERO_MAP * size else 0.0,
        **_overlaps(task, S, instance.target),
        "test_cross_entropy": float(cross_entropy),
        "zero_one_error": float(zero_one) if task.labels == "hard" else None,
        "sectors": _sectors(*asked) if task.attention == "self" else None,
        "eigenvalues": values,
    }


def _overlaps(task: Task, S: Array, target: Array) -> dict[str, float | None]:
    """q and m of the map, and the size of its unasked field relative to that of the target (D2).

    They are those of the whitened map (D7); where the queries have a mean, without the row of S along the mean.
    """
    d = len(S)
    if not task.unasked:
        own, wanted = whitened(task, S), whitened(task, target)
        return {"q": float(np.sum(own * own) / d), "m": float(np.sum(own * wanted) / d)}
    direction = unasked_direction(d)
    asked, wanted_map = (whitened(task, without_unasked_row(task, M)) for M in (S, target))
    row, wanted = (M.T @ direction * token_scales(task, d)[1] for M in (S, target))
    q, field = float(np.sum(asked * asked) / d), mean_length(task, target) ** 2 * float(row @ row) / d
    return {
        "q": q,
        "m": float(np.sum(asked * wanted_map) / d),
        "unasked_scale": float(row @ wanted / (wanted @ wanted)),
        "unasked_share": field / (q + field) if field > 0.0 else 0.0,
    }


def _sum_zero_one(logits: Array, y: Array, plan: Plan) -> float:
    """Sum over samples of the probability, averaged over rows, that the most attended token is not the label (U7)."""
    visible = plan.task.visible
    attended = softmax_rows(plan.learner.beta * logits, visible).mean(axis=0).argmax(axis=-1)
    correct = np.take_along_axis(y, attended[..., None], axis=-1)[..., 0]
    return float(np.sum(1.0 - correct[:, visible.sum(axis=1) > 1].mean(axis=1)))


def _sectors(S: Array, target: Array) -> Sectors:
    """Overlaps 2|S|²/d and 2 Tr S'S*/d of the symmetric and of the antisymmetric part of the map (U5.1)."""
    parts = [(0.5 * (S + sign * S.T), 0.5 * (target + sign * target.T)) for sign in (1.0, -1.0)]
    return {
        "q": [float(2.0 * np.sum(own * own) / len(S)) for own, _ in parts],
        "m": [float(2.0 * np.sum(own * wanted) / len(S)) for own, wanted in parts],
    }
