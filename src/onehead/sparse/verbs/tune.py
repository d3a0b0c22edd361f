"""Choose split, bias rate, temperature and ridge from the theory (S7)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onehead.arguments import checked, number, optional
from onehead.best import GAP, gap_to
from onehead.errors import InvalidArgument, SolveError
from onehead.results import Certificate, in_lines
from onehead.sparse.losses import Array
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task
from onehead.sparse.verbs.align import align
from onehead.sparse.verbs.bayes import bayes as best_of
from onehead.sparse.verbs.bayes import beside, data_for
from onehead.sparse.verbs.predict import Prediction, predict, roughly

__all__ = ["GRID", "REFINEMENTS", "Tuned", "best_bias_rate", "best_ridge", "tune"]

SPLITS = (0.2, 0.35, 0.5, 0.65, 0.8)
SHARPNESSES = (0.5, 1.0, 2.0, 4.0, 8.0)
RIDGES = (1e-4, 1e-2, 1e-1, 1.0)
GRID = len(SPLITS) * len(SHARPNESSES) * len(RIDGES)
BIAS_RATES = np.concatenate([np.linspace(0.0, 12.0, 49), np.linspace(13.0, 40.0, 28)])
ENOUGH = 5e-3  # error of single points in the search; all use the same points, so that differences are smoother
REFINEMENTS = 60


@dataclass(frozen=True, kw_only=True)
class Tuned(Answer):
    """Hyperparameters with the lowest predicted test error, beside the protocol as given and the linear models.

    ``given_test_error`` is that of the protocol's own rates, temperature, ridge and split at the same number
    of samples; the linear models are given their own best ridge. ``scan`` lists what the grid search tried, as
    (split alpha0/alpha, sharpness, ridge, test error). Where it was asked for, ``bayes_test_error`` is that of the best possible
    learner of the same data, ``gap`` what is lost against it (relative), ``data_multiple`` how many times its samples are needed.
    """

    _SHOWN: ClassVar[tuple[str, ...]] = ("alpha0", "alpha1", "beta", "eta_b", "ridge", "test_error")
    MEANINGS: ClassVar[dict[str, str]] = {
        "alpha0": "samples for the query over dimension",
        "alpha1": "samples for the readout over dimension",
        "beta": "inverse temperature",
        "eta_b": "rate of the first step of the bias",
        "eta_q": "rate of the step of the query; its sign may have been flipped",
        "ridge": "penalty of the readout",
        "cos_query": "cosine of the query with the signal",
        "test_error": "predicted test error",
        "given_test_error": "that of the protocol as given, at the same number of samples",
        "pooled_test_error": "pooled model with its own best ridge",
        "vectorised_test_error": "vectorised model with its own best ridge",
        **GAP,
    }

    alpha: float
    alpha0: float
    alpha1: float
    beta: float
    eta_b: float
    eta_q: float
    ridge: float
    cos_query: float
    sharpness: float
    test_error: float
    given_test_error: float
    pooled_test_error: float
    vectorised_test_error: float
    scan: tuple[tuple[float, float, float, float], ...]
    certificate: Certificate
    bayes_test_error: float | None = None
    gap: float | None = None
    data_multiple: float | None = None

    def explain(self) -> str:
        """Say in words what was chosen, and how far it is from the best possible learner, where that was asked for."""
        if self.bayes_test_error is None or self.data_multiple is None:
            return super().explain()
        needed = self.alpha / self.data_multiple
        sentence = beside(self.bayes_test_error, self.test_error, needed, self.alpha)
        return f"{super().explain()}\n{in_lines([sentence])}"


def best_bias_rate(task: Task, protocol: Protocol) -> float:
    """eta_b with the largest |cos_query|, the other rates as given; irrelevant, hence kept, for balanced classes.

    Examples
    --------
    >>> task = Task(length=10, signal_tokens=1, strength=5.0, positive_rate=0.2)
    >>> round(best_bias_rate(task, Protocol(alpha0=2.0)), 1)
    5.7
    """
    if task.positive_rate == 0.5:
        return protocol.eta_b
    rates = BIAS_RATES
    for _ in range(4):
        size = [abs(align(task, protocol.changed(eta_b=float(rate))).cos_query) for rate in rates]
        k = int(np.argmax(size))
        best = float(rates[k])
        rates = np.linspace(rates[max(k - 1, 0)], rates[min(k + 1, len(rates) - 1)], 9)
    return best


def best_ridge(task: Task, protocol: Protocol, model: str) -> Prediction:
    """The prediction of a linear model at the ridge with the lowest test error."""
    grid = np.geomspace(1e-6, 10.0, 15)
    for _ in range(4):
        errors = [_error(task, protocol.changed(ridge=float(ridge)), model) for ridge in grid]
        k = int(np.argmin(errors))
        best = float(grid[k])
        grid = np.geomspace(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)], 5)
    return predict(task, protocol.changed(ridge=best), model=model)


def _error(task: Task, protocol: Protocol, model: str = "attention") -> float:
    """Predicted test error; infinite where the equations have no answer."""
    try:
        return roughly(task, protocol, ENOUGH, model=model).test_error
    except SolveError:
        return np.inf


@checked(**PROBLEM, alpha=optional(number(above=0.0)), accuracy=optional(number(above=0.0)))
def tune(
    task: Task,
    protocol: Protocol,
    *,
    alpha: float | None = None,
    bayes: bool = False,
    accuracy: float | None = None,
    progress: Callable[[], None] | None = None,
) -> Tuned:
    """Best split, bias rate, temperature and ridge for ``alpha`` samples over dimension in all.

    For each split the bias rate with the best alignment, then the sharpness and the ridge with the lowest
    predicted error on a grid; the best three are refined together. The temperature follows from the
    sharpness, beta = sqrt(sharpness / (|eta_q| Q)) with Q the norm of the query at eta_q = beta = 1. Where
    the query is anti-aligned at every bias rate, the sign of eta_q is flipped. ``bayes`` lays the best possible learner beside
    it. ``accuracy`` is that of the errors that are told, relative, as in `predict`. ``progress`` is called once for each of the GRID points of the search, and of the at most REFINEMENTS around the best.

    Examples
    --------
    >>> found = tune(Task(length=10, strength=5.0), Protocol(loss="square"), alpha=2.0)
    >>> found.test_error < 0.05 < found.given_test_error
    True
    """
    alpha = protocol.alpha if alpha is None else alpha
    if protocol.cos_query is not None:
        raise InvalidArgument("cos_query", protocol.cos_query, "None: the query is what is tuned")
    if protocol.eta_q == 0.0:
        raise InvalidArgument("eta_q", protocol.eta_q, "different from 0")
    possible = best_of(task, alpha) if bayes else None  # first, because it may be refused
    aligned = {split: _aligned(task, protocol, alpha, split) for split in SPLITS}
    grid = []
    for split, plan in aligned.items():
        for kappa in SHARPNESSES:
            for ridge in RIDGES:
                grid.append((_error(task, plan.changed(sharpness=kappa, ridge=ridge)), split, kappa, ridge))
                if progress is not None:
                    progress()
    split, kappa, ridge = _refine(task, protocol, alpha, min(grid)[1:], progress)
    plan = _aligned(task, protocol, alpha, split)
    found = _with_temperature(task, plan.changed(sharpness=kappa, ridge=ridge))
    given = protocol.with_alpha(alpha)
    best, others = (
        predict(task, found, accuracy=accuracy),
        {
            "given_test_error": predict(task, given, accuracy=accuracy),
            "pooled_test_error": best_ridge(task, given, "pooled"),
            "vectorised_test_error": best_ridge(task, given, "vectorised"),
        },
    )
    errors = {name: point.errors["test_error"] for name, point in ({"test_error": best} | others).items()}
    return Tuned(
        task=task,
        protocol=protocol,
        alpha=alpha,
        alpha0=found.alpha0,
        alpha1=found.alpha1,
        beta=found.beta,
        eta_b=found.eta_b,
        eta_q=found.eta_q,
        ridge=found.ridge,
        cos_query=best.cos_query or 0.0,
        sharpness=best.sharpness or 0.0,
        test_error=best.test_error,
        **{name: point.test_error for name, point in others.items()},
        scan=tuple((split, kappa, ridge, error) for error, split, kappa, ridge in grid),
        certificate=Certificate.of(
            best.certificate, status="lowest predicted test error found", evaluations=0, errors=errors
        ),
        **(
            {}
            if possible is None
            else gap_to(possible.test_error, data_for(task, best.test_error), test_error=best.test_error, alpha=alpha)
        ),
    )


def _aligned(task: Task, protocol: Protocol, alpha: float, split: float) -> Protocol:
    """The protocol at a split, with its best bias rate, the sign of eta_q that aligns, and the query it gives."""
    plan = protocol.with_alpha(alpha, split)
    plan = plan.changed(eta_b=best_bias_rate(task, plan))
    cos = align(task, plan).cos_query
    if cos < 0.0:
        plan = plan.changed(eta_q=-plan.eta_q)
    return plan.changed(cos_query=abs(cos), sharpness=1.0)


def _refine(
    task: Task,
    protocol: Protocol,
    alpha: float,
    start: tuple[float, float, float],
    progress: Callable[[], None] | None,
) -> tuple[float, float, float]:
    """Simplex search in the logits of the split and the logarithms of sharpness and ridge."""
    from scipy.optimize import minimize  # noqa: PLC0415  (scipy.optimize is loaded when first needed)

    def plan(z: Array) -> tuple[float, float, float]:
        return float(1.0 / (1.0 + np.exp(-z[0]))), float(np.exp(z[1])), float(np.exp(z[2]))

    def error(z: Array) -> float:
        if progress is not None:
            progress()
        split, kappa, ridge = plan(z)
        if not (0.02 < split < 0.98 and 0.05 < kappa < 50.0 and 1e-8 < ridge < 1e3):
            return np.inf
        return _error(task, _aligned(task, protocol, alpha, split).changed(sharpness=kappa, ridge=ridge))

    first = np.array([np.log(start[0] / (1.0 - start[0])), np.log(start[1]), np.log(start[2])])
    simplex = np.vstack([first, first + np.diag([0.5, 0.4, 1.0])])
    found = minimize(
        error,
        first,
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "maxfev": REFINEMENTS, "xatol": 1e-2, "fatol": 1e-5},
    )
    return plan(found.x)


def _with_temperature(task: Task, plan: Protocol) -> Protocol:
    """The same query reached by the two steps: beta = sqrt(sharpness / (|eta_q| Q))."""
    unit = plan.changed(beta=1.0, cos_query=None, sharpness=None)
    kappa = plan.sharpness or 0.0
    return unit.changed(beta=float(np.sqrt(kappa / align(task, unit).norm_query)))
