"""Weight decay on factors is a nuclear norm on their product, shown by an independent solver (1.2).

    min_W   data(W'W / sqrt(m d)) + (λ/sqrt κ) |W|²             =  min_{S ⪰ 0}  data(S) + λ d Tr S,    tied
    min_QK  data(Q'K / sqrt(m d)) + (λ/sqrt κ) (|Q|² + |K|²)/2  =  min_S        data(S) + λ d |S|_*,   untied

for factors of full width. The right-hand sides are minimised by accelerated proximal gradient, which knows
nothing of factors: its proximal step cuts eigenvalues (singular values) by λ d times the step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.losses import loss_on
from onehead.aim.task import Learner, Task
from onehead.aim.training.instance import Instance, sample_count
from onehead.aim.training.minimise import Stopped, lbfgs
from onehead.aim.training.objective import Factorised, Objective, OutputLoss, Parametrisation, Untied
from onehead.aim.words import posed
from onehead.arguments import number, whole
from onehead.errors import InvalidArgument
from onehead.numerics.interrupts import check
from onehead.results import Certificate, Result

__all__ = [
    "NuclearEquivalence",
    "ProductMinimum",
    "cut_eigenvalues",
    "cut_singular_values",
    "nuclear_equivalence",
    "over_product",
    "proximal_gradient",
]

Array = NDArray[np.float64]

SHRINK, GROW = 0.5, 1.1  # of the step: after a step that was too long, after one that was not


class ProductMinimum(NamedTuple):
    """The minimiser over the product, its objective over d², the last relative move, the iterations."""

    map: Array
    value: float
    change: float
    iterations: int


def cut_eigenvalues(S: Array, amount: float) -> tuple[Array, float]:
    """argmin over PSD matrices of |P - S|²/2 + amount Tr P, and its trace: eigenvalues (r - amount)_+."""
    r, basis = np.linalg.eigh(0.5 * (S + S.T))
    r = np.clip(r - amount, 0.0, None)
    return (basis * r) @ basis.T, float(r.sum())


def cut_singular_values(S: Array, amount: float) -> tuple[Array, float]:
    """argmin of |P - S|²/2 + amount |P|_*, and its nuclear norm: singular values (r - amount)_+."""
    left, r, right = np.linalg.svd(S, full_matrices=False)
    r = np.clip(r - amount, 0.0, None)
    return (left * r) @ right, float(r.sum())


def proximal_gradient(
    data: Callable[[Array], tuple[float, Array]],
    cut: Callable[[Array, float], tuple[Array, float]],
    start: Array,
    penalty: float,
    *,
    tolerance: float,
    max_iterations: int,
) -> ProductMinimum:
    """Minimise data(S) + penalty |S| by accelerated proximal gradient with backtracking and restarts.

    ``data`` gives value and slope, ``cut`` the proximal step of the norm and the norm of its result. Stops
    when a step moves S by less than ``tolerance`` of its size.
    """
    S, ahead, momentum, step = start.copy(), start.copy(), 1.0, 1.0 / max(penalty, 1e-12)
    best, norm = np.inf, 0.0
    change = np.inf
    iterations = 0
    while iterations < max_iterations:
        iterations += 1
        value, slope = data(ahead)
        while True:
            new, norm = cut(ahead - step * slope, step * penalty)
            move = new - ahead
            reached, _ = data(new)
            model = value + float(np.sum(slope * move)) + float(np.sum(move * move)) / (2.0 * step)
            if reached <= model + 1e-12 * abs(model):
                break
            step *= SHRINK
        total = reached + penalty * norm
        if total > best:  # momentum carried too far: start it again from the best point
            ahead, momentum, best = S.copy(), 1.0, np.inf
            continue
        change = float(np.linalg.norm(new - S) / max(float(np.linalg.norm(new)), 1e-300))
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = new + (momentum - 1.0) / following * (new - S)
        S, best, momentum, step = new, total, following, GROW * step
        if change <= tolerance:
            break
    return ProductMinimum(S, best, change, iterations)


def over_product(
    objective: Objective,
    cut: Callable[[Array, float], tuple[Array, float]],
    start: Array,
    *,
    tolerance: float,
    max_iterations: int,
    stop: Callable[[], bool] = lambda: False,
) -> ProductMinimum:
    """The minimum of a training objective over the map of one head, weight decay being d times the norm that ``cut`` knows."""
    dim = objective.samples.dim

    def data(S: Array) -> tuple[float, Array]:
        if stop():
            raise Stopped
        check()
        value, slopes = objective.data(S[None])
        return (value - objective.floor * dim**2) / dim**2, slopes[0] / dim**2

    found = proximal_gradient(
        data, cut, start, objective.decay / dim, tolerance=tolerance, max_iterations=max_iterations
    )
    return found._replace(value=found.value + objective.floor)


@dataclass(frozen=True, kw_only=True)
class NuclearEquivalence(Result):
    """Both minima of one instance: objectives over d², their relative gap, the distance of the maps."""

    _HIDDEN: ClassVar[tuple[str, ...]] = ("factor_map", "product_map")

    tied: bool
    factor_objective: float
    product_objective: float
    gap: float
    map_distance: float
    certificate: Certificate
    factor_map: Array
    product_map: Array


@posed(
    dim=whole(2),
    seed=whole(0),
    tolerance=number(above=0.0),
    max_iterations=whole(1),
)
def nuclear_equivalence(
    task: Task,
    learner: Learner,
    *,
    dim: int,
    alpha: float,
    tied: bool = True,
    seed: int = 0,
    tolerance: float = 1e-6,
    max_iterations: int = 5000,
) -> NuclearEquivalence:
    """Minimise over factors by L-BFGS and over the product by proximal gradient, on the same instance.

    With cross-entropy the problem over the product is convex and both must agree; with the squared loss they
    agree when both end in the same minimum.

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
    instance = Instance.draw(task, dim, sample_count(alpha, dim), np.random.SeedSequence(seed))
    weights: Parametrisation = Factorised(dim, dim) if tied else Untied(dim, dim)
    loss = OutputLoss(loss=loss_on(task.labels, learner.loss), beta=learner.beta, columns=task.columns)
    objective = Objective(samples=instance.train, weights=weights, loss=loss, decay=learner.decay)
    theta = weights.start(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(3,))))
    factors = lbfgs(objective, theta, tolerance=tolerance, max_iterations=max_iterations)

    product = over_product(
        objective,
        cut_eigenvalues if tied else cut_singular_values,
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
