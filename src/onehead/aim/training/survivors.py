"""Training of several learner heads, with scales of their values, for one target head (M8)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isinf

import numpy as np
from numpy.typing import NDArray

from onehead.aim.flat_parameters import validate_problem
from onehead.aim.task import Learner, Task
from onehead.aim.training.data import Samples
from onehead.aim.training.instance import Instance, sample_count
from onehead.aim.training.layer import LayerLoss, layer_moments
from onehead.aim.training.logits import Rows
from onehead.aim.training.parametrisation import INFORMED_NOISE, Parametrisation, Untied
from onehead.aim.training.settings import Method, Variant
from onehead.aim.verbs.survivors import Survivors, TrainedHeads, survivors
from onehead.errors import InvalidArgument
from onehead.numerics.minimise import Minimum, lbfgs
from onehead.validation import integer, valid_seed

Array = NDArray[np.float64]

ALIVE = 1e-3  # size of a head relative to the largest, above which it is alive
SPREAD = 0.02  # by which the weights of heads that begin alike differ, relative to their size
METHOD = Method(test_samples=10_000, tolerance=1e-4, max_iterations=3000)


@dataclass(frozen=True, kw_only=True)
class ScaledHeads:
    """Objective of several heads, each with a scale b_h = u_h v_h of its values, over d².

    The penalty is λ d times the trace norm of every map and λ_v d² (u_h² + v_h²)/2, at least λ_v d² |b_h|. Weights are
    those of the maps, then d u and d v.
    """

    samples: Samples
    weights: Parametrisation
    beta: float
    decay: float
    value_decay: float
    loss: LayerLoss

    def scales(self, theta: Array) -> Array:
        """Scales of the values."""
        u, v = theta[self.weights.size :].reshape(2, -1) / self.samples.dim
        return np.asarray(u * v)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Objective and its gradient."""
        d, size = self.samples.dim, self.weights.size
        inner, outer = theta[:size], theta[size:].reshape(2, -1) / d
        b, maps = outer[0] * outer[1], self.weights.maps(inner)
        squares, products = np.zeros((len(b), len(b))), np.zeros((len(b), 1))
        value, gradients = 0.0, np.zeros(maps.shape)
        for chunk in self.samples:
            rows = Rows(chunk, self.loss.visible_to(len(chunk.tokens)))
            logits, y = np.stack([rows.logits(S) for S in maps]), chunk.labels[None]
            layer_moments(logits, y, self.beta, squares, products)
            own, G = self.loss.sum(logits, y, b[:, None])
            value += own
            for h in range(len(b)):
                gradients[h] += rows.gradient(G[h])
        by_scale = 2.0 * (squares @ b - products[:, 0])
        penalty, penalty_gradient = self.weights.penalty(inner)
        value += self.decay * penalty + 0.5 * self.value_decay * d**2 * float(np.sum(outer**2))
        by_weights = self.weights.pull_back(inner, gradients) + self.decay * penalty_gradient
        by_outer = (by_scale * outer[::-1] + self.value_decay * d**2 * outer) / d
        return value / d**2, np.concatenate([by_weights, by_outer.ravel()]) / d**2

    def curvature(self, theta: Array) -> Callable[[Array], Array]:
        """Preconditioner of the weights of the maps; scales are left as they are."""
        size = self.weights.size
        inner = self.weights.curvature(theta[:size])
        return lambda gradient: np.concatenate([inner(gradient[:size]), gradient[size:]])


@validate_problem(dim=integer(2), seed=valid_seed)
def train_survivors(task: Task, learner: Learner, alpha: float, *, dim: int, seed: int = 0) -> Survivors:
    """Train several learner heads on samples of one target head, beside the prediction of `survivors`.

    All weights of the heads are trained, those of the values through a scale b_h = u_h v_h for each head. There are
    three starts on one instance: random weights, heads that are nearly alike, and one head.

    Parameters
    ----------
    task : Task
        What is learned; ``heads`` is the number of learner heads.
    learner : Learner
        The heads, with ``values="learnt"``, as for `survivors`.
    alpha : float
        Sample ratio, finite.
    dim : int
        Dimension d of a token.
    seed : int
        Seed of the instance and of the starts.

    Returns
    -------
    Survivors
        The prediction; ``trained`` has what each start reaches, the lowest objective first.

    Raises
    ------
    InvalidArgument
        If an argument is not allowed, or there is no theory for the combination.

    Examples
    --------
    >>> from onehead import aim
    >>> task, learner = aim.Task(attention="cross", heads=2), aim.Learner(weight_decay=0.1, values="learnt")
    >>> found = aim.train_survivors(task, learner, 2.0, dim=16)
    >>> found.alive, [run.alive for run in found.trained]
    (1, [1, 1, 1])
    """
    theory = survivors(task, learner, alpha, seed=seed)
    if isinf(alpha):
        raise InvalidArgument("alpha", alpha, "a finite number to train with")
    return replace(theory, trained=_train(task, learner, alpha, dim, seed))


def _train(task: Task, learner: Learner, alpha: float, dim: int, seed: int) -> tuple[TrainedHeads, ...]:
    """Train from every start; the lowest objective first."""
    one, heads = task.changed(heads=1), task.heads
    instance = Instance.draw(
        one, dim, sample_count(alpha, dim), np.random.SeedSequence(seed), variant=Variant().for_task(one), method=METHOD
    )
    loss = LayerLoss(value_gram=np.eye(1), beta=learner.beta)
    objective = ScaledHeads(
        samples=instance.train,
        weights=Untied(dim, dim, heads),
        beta=learner.beta,
        decay=learner.decay,
        value_decay=learner.value_decay or learner.decay,
        loss=loss,
    )
    found = []
    for name, theta in _starts(objective, instance.target, heads, np.random.default_rng(seed + 1)).items():
        minimum = lbfgs(
            objective,
            theta,
            tolerance=METHOD.tolerance,
            max_iterations=METHOD.max_iterations,
            curvature=objective.curvature,
        )
        found.append(_measure(name, objective, minimum, instance))
        if minimum.status.startswith("interrupted"):
            break
    return tuple(sorted(found, key=lambda run: run.objective))


def _starts(objective: ScaledHeads, target: Array, heads: int, rng: np.random.Generator) -> dict[str, Array]:
    """Weights at which training begins."""
    weights, dim = objective.weights, len(target)
    one, random = Untied(dim, dim), weights.start(rng)
    alike = np.repeat(one.start(rng).reshape(2, 1, dim, dim), heads, axis=1).ravel() + SPREAD * weights.start(rng)
    informed = np.zeros((2, heads, dim, dim))
    informed[:, 0] = one.closest(0.5 * target).reshape(2, dim, dim)
    equal = np.full(2 * heads, dim / np.sqrt(heads))
    first = np.tile(np.where(np.arange(heads) == 0, dim, INFORMED_NOISE * dim), 2)
    return {
        "random weights": np.concatenate([random, equal]),
        "heads nearly alike": np.concatenate([alike, equal]),
        "one head": np.concatenate([informed.ravel() + INFORMED_NOISE * weights.start(rng), first]),
    }


def _measure(name: str, objective: ScaledHeads, minimum: Minimum, instance: Instance) -> TrainedHeads:
    """Numbers of a trained layer, the largest head first."""
    d = objective.samples.dim
    maps, b = objective.weights.maps(minimum.theta[: objective.weights.size]), objective.scales(minimum.theta)
    norms = np.linalg.svd(maps, compute_uv=False).mean(axis=1)
    order = np.argsort(-np.abs(b) * norms)
    maps, b, norms = maps[order], b[order], norms[order]
    sizes = np.abs(b) * norms
    error = 0.0
    for chunk in instance.test:
        rows = Rows(chunk, objective.loss.visible_to(len(chunk.tokens)))
        logits = np.stack([rows.logits(S) for S in maps])
        error += objective.loss.sum(logits, chunk.labels[None], b[:, None])[0]
    return TrainedHeads(
        start=name,
        alive=int(np.sum(sizes > ALIVE * max(float(sizes[0]), 1e-300))) if sizes[0] > ALIVE**2 else 0,
        objective=minimum.value,
        scales=tuple(b.tolist()),
        trace_norms=tuple(norms.tolist()),
        q=float(np.sum(maps[0] ** 2)) / d,
        m=float(np.sum(maps[0] * instance.target)) / d,
        test_error=error / instance.test.count,
        ended=minimum.status,
    )
