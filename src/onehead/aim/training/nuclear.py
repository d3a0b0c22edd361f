"""nuclear_equivalence(): weight decay on factors equals a nuclear norm on their product, by two solvers (1.2).

    min_W   data(W'W / sqrt(m d)) + (λ/sqrt κ) |W|²             =  min_{S ⪰ 0}  data(S) + λ d Tr S,    tied
    min_QK  data(Q'K / sqrt(m d)) + (λ/sqrt κ) (|Q|² + |K|²)/2  =  min_S        data(S) + λ d |S|_*,   untied

for factors of full width. The right-hand sides are minimised by accelerated proximal gradient, without any factors: its
proximal step soft-thresholds eigenvalues (singular values) by λ d times the step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.flat_parameters import validate_problem
from onehead.aim.losses import loss_for_labels
from onehead.aim.task import Learner, Task
from onehead.aim.training.instance import Instance, sample_count
from onehead.aim.training.objective import Objective, OutputLoss
from onehead.aim.training.parametrisation import Factorised, Parametrisation, Untied
from onehead.errors import InvalidArgument
from onehead.numerics.interrupts import raise_if_interrupted
from onehead.numerics.minimise import Stopped, lbfgs
from onehead.results import Certificate, Result
from onehead.validation import Seed, integer, number, seed_number, valid_seed

Array = NDArray[np.float64]

STEP_DECREASE, STEP_INCREASE = 0.5, 1.1  # factors of the step size after a rejected and after an accepted step


class ProductMinimum(NamedTuple):
    """Minimiser over the map, its objective over d², the relative change in the last step, and the iterations."""

    map: Array
    value: float
    change: float
    iterations: int


def soft_threshold_eigenvalues(S: Array, amount: float) -> tuple[Array, float]:
    """Minimiser over PSD matrices P of |P - S|²/2 + amount Tr P, with eigenvalues (r - amount)_+, and its trace."""
    r, basis = np.linalg.eigh(0.5 * (S + S.T))
    r = np.clip(r - amount, 0.0, None)
    return (basis * r) @ basis.T, float(r.sum())


def soft_threshold_singular_values(S: Array, amount: float) -> tuple[Array, float]:
    """Minimiser of |P - S|²/2 + amount |P|_*, with singular values (r - amount)_+, and its nuclear norm.

    S may be a stack of maps, whose norms are added.
    """
    left, r, right = np.linalg.svd(S, full_matrices=False)
    r = np.clip(r - amount, 0.0, None)
    return (left * r[..., None, :]) @ right, float(r.sum())


def proximal_gradient(
    data: Callable[[Array], tuple[float, Array]],
    prox: Callable[[Array, float], tuple[Array, float]],
    start: Array,
    penalty: float,
    *,
    tolerance: float,
    max_iterations: int,
) -> ProductMinimum:
    """Minimise data(S) + penalty |S| by accelerated proximal gradient with backtracking and restarts.

    ``data`` returns value and gradient, ``prox`` the proximal point of the norm and its norm. Stops when a step changes
    S by less than ``tolerance`` (relative).
    """
    S, ahead, momentum, step = start.copy(), start.copy(), 1.0, 1.0 / max(penalty, 1e-12)
    best, norm = np.inf, 0.0
    change = np.inf
    iterations = 0
    while iterations < max_iterations:
        iterations += 1
        value, gradient = data(ahead)
        while True:
            new, norm = prox(ahead - step * gradient, step * penalty)
            move = new - ahead
            new_value, _ = data(new)
            model = value + float(np.sum(gradient * move)) + float(np.sum(move * move)) / (2.0 * step)
            if new_value <= model + 1e-12 * abs(model):
                break
            step *= STEP_DECREASE
        total = new_value + penalty * norm
        if total > best:  # momentum overshoots: restart it from the last accepted point
            ahead, momentum, best = S.copy(), 1.0, np.inf
            continue
        change = float(np.linalg.norm(new - S) / max(float(np.linalg.norm(new)), 1e-300))
        next_momentum = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = new + (momentum - 1.0) / next_momentum * (new - S)
        S, best, momentum, step = new, total, next_momentum, STEP_INCREASE * step
        if change <= tolerance:
            break
    return ProductMinimum(S, best, change, iterations)


def minimise_over_map(
    objective: Objective,
    prox: Callable[[Array, float], tuple[Array, float]],
    start: Array,
    *,
    tolerance: float,
    max_iterations: int,
    stop: Callable[[], bool] = lambda: False,
) -> ProductMinimum:
    """Minimise a training objective over the map of one head, or over those of several (heads, d, d).

    The penalty is d times the norm that ``prox`` belongs to.
    """
    dim = objective.samples.dim

    def data(S: Array) -> tuple[float, Array]:
        if stop():
            raise Stopped
        raise_if_interrupted()
        value, gradients = objective.data(S.reshape(-1, dim, dim))
        return (value - objective.floor * dim**2) / dim**2, gradients.reshape(S.shape) / dim**2

    found = proximal_gradient(
        data, prox, start, objective.decay / dim, tolerance=tolerance, max_iterations=max_iterations
    )
    return found._replace(value=found.value + objective.floor)


@dataclass(frozen=True, kw_only=True)
class NuclearEquivalence(Result):
    """Minima over factors and over the map for one instance, and how far they differ.

    Attributes
    ----------
    tied : bool
        Whether query and key share their weights.
    factor_objective, product_objective : float
        Minimum over the factors and over the map, over d².
    gap : float
        Relative difference of the two minima.
    map_distance : float
        Relative distance of the two maps.
    certificate : Certificate
        Status and stationarity.
    factor_map, product_map : ndarray
        The two maps.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("factor_map", "product_map")

    tied: bool
    factor_objective: float
    product_objective: float
    gap: float
    map_distance: float
    certificate: Certificate
    factor_map: Array
    product_map: Array


@validate_problem(
    dim=integer(2),
    seed=valid_seed,
    tolerance=number(above=0.0),
    max_iterations=integer(1),
)
def nuclear_equivalence(
    task: Task,
    learner: Learner,
    *,
    dim: int,
    alpha: float,
    tied: bool = True,
    seed: Seed = 0,
    tolerance: float = 1e-6,
    max_iterations: int = 5000,
) -> NuclearEquivalence:
    """Minimise over factors by L-BFGS and over their product by proximal gradient, on the same instance.

    With cross-entropy the problem over the product is convex and both minima must agree; with the squared loss they
    agree when both searches end in the same minimum.

    Parameters
    ----------
    task : Task
        What is learned.
    learner : Learner
        Factorised, of full width, with a positive weight decay.
    dim : int
        Dimension d of a token.
    alpha : float
        Sample ratio α = n/d².
    tied : bool
        Whether query and key share their weights; always false for an untied task.
    seed : int or numpy.random.Generator
        Seed of the instance and of the start.
    tolerance : float
        Relative stationarity, and relative change of S, at which the searches stop.
    max_iterations : int
        Largest number of iterations of each search.

    Returns
    -------
    NuclearEquivalence
        Both minima, their gap and the distance of the maps.

    Raises
    ------
    InvalidArgument
        If the learner is direct, narrow or without weight decay, or an argument is not allowed.

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> found = nuclear_equivalence(Task(), Learner(loss="cross-entropy"), dim=16, alpha=1.0)
    >>> abs(found.gap) < 1e-6
    True
    """
    if learner.param == "direct" or learner.width < 1.0 or learner.decay == 0.0:
        got = f"{learner.param}, width {learner.width:g}, weight decay {learner.weight_decay}"
        raise InvalidArgument("learner", got, "factorised, of full width, with a positive weight decay")
    tied = tied and task.tied
    seed = seed_number(seed)
    instance = Instance.draw(task, dim, sample_count(alpha, dim), np.random.SeedSequence(seed))
    weights: Parametrisation = Factorised(dim, dim) if tied else Untied(dim, dim)
    loss = OutputLoss(loss=loss_for_labels(task.labels, learner.loss), beta=learner.beta, visible=task.visible)
    objective = Objective(samples=instance.train, weights=weights, loss=loss, decay=learner.decay)
    theta = weights.start(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,))))
    factors = lbfgs(objective, theta, tolerance=tolerance, max_iterations=max_iterations)
    product = minimise_over_map(
        objective,
        soft_threshold_eigenvalues if tied else soft_threshold_singular_values,
        np.zeros((dim, dim)),
        tolerance=tolerance,
        max_iterations=max_iterations,
    )
    factor_map = weights.maps(factors.theta)[0]
    distance = float(np.linalg.norm(factor_map - product.map) / max(float(np.linalg.norm(product.map)), 1e-300))
    return NuclearEquivalence(
        tied=tied,
        factor_objective=factors.value,
        product_objective=product.value,
        gap=factors.value / product.value - 1.0,
        map_distance=distance,
        certificate=Certificate(
            status=factors.status,
            kind="measurement",
            residual=max(factors.stationarity, product.change),
            evaluations=factors.evaluations + product.iterations,
        ),
        factor_map=factor_map,
        product_map=product.map,
    )
