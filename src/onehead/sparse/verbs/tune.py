"""Tuning: split, bias rate, temperature and ridge with the lowest predicted test error (S7)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from onehead.errors import InvalidArgument, SolveError
from onehead.results import Certificate, wrap_sentences
from onehead.results.bayes_gap import GAP_MEANINGS, gap_to_bayes
from onehead.sparse.losses import Array
from onehead.sparse.solve.class_share import error_at_dimension
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task
from onehead.sparse.verbs.align import align
from onehead.sparse.verbs.bayes import bayes as best_of
from onehead.sparse.verbs.bayes import data_for, describe_bayes_gap
from onehead.sparse.verbs.predict import Prediction, predict, predict_to_error
from onehead.validation import checked, integer, number, optional

SPLITS = (0.2, 0.35, 0.5, 0.65, 0.8)
SHARPNESSES = (0.5, 1.0, 2.0, 4.0, 8.0)
RIDGES = (1e-4, 1e-2, 1e-1, 1.0)
GRID_POINTS = len(SPLITS) * len(SHARPNESSES) * len(RIDGES)
BIAS_RATES = np.concatenate([np.linspace(0.0, 12.0, 49), np.linspace(13.0, 40.0, 28)])
SEARCH_ERROR = 5e-3  # error of a prediction in the search; all use the same points, which makes differences smoother
MAX_REFINEMENTS = 60
# Borders of the search. At large ridges the limit of infinite dimension says nothing about training: the free bias fits
# the random share of the classes, which a ridge does not shrink, and the weights become smaller than it
# (page "Query and readout trained together").
BORDERS = {"alpha0/alpha": (0.02, 0.98), "sharpness": (0.05, 50.0), "ridge": (1e-8, 1.0)}
LINEAR_RIDGES = (1e-6, 10.0)  # borders of the ridge of the linear models
REFERENCE_DIM = 500  # at which the test error of the result is stated where no dimension is given
MAXIMUM_FINITE_EXCESS = 0.05  # relative, of the test error at finite dimension above the limit
SEARCH_NODES = 3  # of the rule over the share of positives in a search; the result has more
AT_BORDER = 0.02  # relative distance from a border that counts as reaching it


@dataclass(frozen=True, kw_only=True)
class Tuned(Answer):
    """Hyperparameters with the lowest predicted test error, and the errors of the given protocol and the linear models.

    ``finite_test_error`` is the test error at dimension ``dim``, where the share of positives in the sample is random
    (J36). ``given_test_error`` has the rates, temperature, ridge and split of the protocol at the same number of
    samples; the linear models have their own best ridge. ``scan`` lists the points of the grid search as (split
    alpha0/alpha, sharpness, ridge, test error). If requested, ``bayes_test_error`` is the test error of the
    Bayes-optimal learner of the same data, ``gap`` the relative excess above it and ``data_multiple`` the ratio of the
    samples needed.
    """

    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("alpha0", "alpha1", "beta", "eta_b", "ridge", "test_error")
    MEANINGS: ClassVar[dict[str, str]] = {
        "alpha0": "samples for the query over dimension",
        "alpha1": "samples for the readout over dimension",
        "beta": "inverse temperature",
        "eta_b": "rate of the first step of the bias",
        "eta_q": "rate of the step of the query; its sign may have been flipped",
        "ridge": "penalty of the readout",
        "cos_query": "cosine of the query with the signal",
        "test_error": "predicted test error",
        "dim": "dimension of the test error at finite dimension",
        "finite_test_error": "test error at this dimension, with a random share of positives",
        "given_test_error": "test error of the protocol as given, at the same number of samples",
        "pooled_test_error": "pooled model with its own best ridge",
        "vectorised_test_error": "vectorised model with its own best ridge",
        **GAP_MEANINGS,
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
    dim: int
    finite_test_error: float
    bayes_test_error: float | None = None
    gap: float | None = None
    data_multiple: float | None = None

    def explain(self) -> str:
        """Describe in sentences what was chosen, and the distance from the best possible learner if requested."""
        if self.bayes_test_error is None or self.data_multiple is None:
            return super().explain()
        needed = self.alpha / self.data_multiple
        sentence = describe_bayes_gap(self.bayes_test_error, self.test_error, needed, self.alpha)
        return f"{super().explain()}\n{wrap_sentences([sentence])}"


def best_bias_rate(task: Task, protocol: Protocol) -> float:
    """Return the eta_b with the largest |cos_query|; for balanced classes it has no effect and is left unchanged.

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
    """Return the prediction of a linear model at the ridge with the lowest test error between LINEAR_RIDGES."""
    grid = np.geomspace(*LINEAR_RIDGES, 15)
    for _ in range(4):
        errors = [_error(task, protocol.changed(ridge=float(ridge)), model) for ridge in grid]
        k = int(np.argmin(errors))
        best = float(grid[k])
        grid = np.geomspace(grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)], 5)
    return predict(task, protocol.changed(ridge=best), model=model)


def _border(name: str, value: float, bounds: tuple[float, float]) -> str:
    """Return a sentence if ``value`` lies at a border of the search, else an empty string."""
    for bound, side in zip(bounds, ("lower", "upper"), strict=True):
        if abs(value - bound) <= AT_BORDER * bound:
            return f"the search ended at its {side} border, {name} = {bound:g}; the optimum may lie beyond it"
    return ""


def _borders(found: Protocol, sharpness: float, linear: "dict[str, Prediction]", dim: int | None) -> tuple[str, ...]:
    """Return a warning for every parameter at a border of the search, which had the limit of infinite dimension as its
    objective if ``dim`` is None.
    """
    values = {"alpha0/alpha": found.alpha0 / found.alpha, "sharpness": sharpness, "ridge": found.ridge}
    texts = [_border(name, value, BORDERS[name]) for name, value in values.items()]
    texts += [_border(f"ridge of {model}", point.protocol.ridge, LINEAR_RIDGES) for model, point in linear.items()]
    beyond = "the optimum may lie beyond it"
    finite = "larger ridges would lower the limit of infinite dimension only, not the error of training"
    upper = f"ridge = {BORDERS['ridge'][1]:g}; "
    if dim is not None:
        return tuple(text for text in texts if text)
    return tuple(text.replace(upper + beyond, upper + finite) for text in texts if text)


def _excess(dim: int, finite: float, limit: float) -> tuple[str, ...]:
    """Return a warning where the test error at finite dimension is well above that of infinite dimension."""
    if finite <= (1.0 + MAXIMUM_FINITE_EXCESS) * limit:
        return ()
    return (
        f"at d = {dim} the random share of the classes raises the test error from {limit:.4g} to {finite:.4g}; "
        "with a dimension the search takes it into account",
    )


def _error(task: Task, protocol: Protocol, model: str = "attention", dim: int | None = None) -> float:
    """Return the predicted test error, at a dimension if one is given; infinite where the equations are not solved."""
    try:
        if dim is not None:
            return error_at_dimension(task, protocol, dim, nodes=SEARCH_NODES)
        return predict_to_error(task, protocol, SEARCH_ERROR, model=model).test_error
    except SolveError:
        return np.inf


@checked(**PROBLEM, alpha=optional(number(above=0.0)), dim=optional(integer(3)), accuracy=optional(number(above=0.0)))
def tune(
    task: Task,
    protocol: Protocol,
    *,
    alpha: float | None = None,
    dim: int | None = None,
    bayes: bool = False,
    accuracy: float | None = None,
    progress: Callable[[], None] | None = None,
) -> Tuned:
    """Return split, bias rate, temperature and ridge with the lowest predicted test error of attention (S7).

    For each split the bias rate with the best alignment is chosen, then sharpness and ridge on a grid; the best point
    is refined in all three. The temperature follows from the sharpness, beta = sqrt(sharpness / (|eta_q| Q)) with Q
    the norm of the query at eta_q = beta = 1. If the query is anti-aligned at every bias rate, eta_q changes its sign.
    The ridge is at most 1: at larger ones, which may have a lower error in the limit of infinite dimension, training at
    finite dimension does not reach it. With ``dim`` the search minimises the test error at that dimension, where the
    share of positives in the sample is random (J36). A warning says if the search ended at a border.

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Supplies loss and rates; its query must come from the two gradient steps.
    alpha : float, optional
        Total samples over dimension; by default those of the protocol.
    dim : int, optional
        Dimension at which the test error is minimised; by default infinite, and the test error is stated at d = 500
        too.
    bayes : bool
        Whether to compare with the Bayes-optimal learner of the same data.
    accuracy : float, optional
        Wanted relative error of the reported test errors; see `predict`.
    progress : callable, optional
        Called for each of the GRID_POINTS points of the search and of the at most MAX_REFINEMENTS around the best.

    Returns
    -------
    Tuned
        The chosen hyperparameters, their test error, and the errors of the alternatives.

    Raises
    ------
    InvalidArgument
        If an argument is out of range, the protocol fixes ``cos_query``, or ``eta_q`` is zero.

    Examples
    --------
    >>> found = tune(Task(length=10, strength=5.0), Protocol(loss="square"), alpha=2.0)
    >>> found.test_error < 0.05 < found.given_test_error
    True
    """
    alpha = protocol.alpha if alpha is None else alpha
    if protocol.cos_query is not None:
        raise InvalidArgument("cos_query", protocol.cos_query, "None, because tuning chooses the query")
    if protocol.eta_q == 0.0:
        raise InvalidArgument("eta_q", protocol.eta_q, "different from 0")
    possible = (
        best_of(task, alpha) if bayes else None
    )  # computed first, so that invalid problems fail before the search
    aligned = {split: _aligned(task, protocol, alpha, split) for split in SPLITS}
    grid = []
    for split, plan in aligned.items():
        for kappa in SHARPNESSES:
            for ridge in RIDGES:
                error = _error(task, plan.changed(sharpness=kappa, ridge=ridge), dim=dim)
                grid.append((error, split, kappa, ridge))
                if progress is not None:
                    progress()
    split, kappa, ridge = _refine(task, protocol, alpha, min(grid)[1:], dim, progress)
    plan = _aligned(task, protocol, alpha, split)
    found = _with_temperature(task, plan.changed(sharpness=kappa, ridge=ridge))
    given = protocol.with_alpha(alpha)
    linear = {model: best_ridge(task, given, model) for model in ("pooled", "vectorised")}
    best, others = (
        predict(task, found, accuracy=accuracy),
        {
            "given_test_error": predict(task, given, accuracy=accuracy),
            **{f"{model}_test_error": point for model, point in linear.items()},
        },
    )
    size = dim or REFERENCE_DIM
    finite = error_at_dimension(task, found, size)
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
            best.certificate,
            status="lowest predicted test error found",
            evaluations=0,
            errors=errors,
            warnings=(
                *best.certificate.warnings,
                *_borders(found, kappa, linear, dim),
                *(_excess(size, finite, best.test_error) if dim is None else ()),
            ),
        ),
        dim=size,
        finite_test_error=finite,
        **(
            {}
            if possible is None
            else gap_to_bayes(
                possible.test_error, data_for(task, best.test_error), test_error=best.test_error, alpha=alpha
            )
        ),
    )


def _aligned(task: Task, protocol: Protocol, alpha: float, split: float) -> Protocol:
    """Return the protocol at a split, with its best bias rate, the aligning sign of eta_q, and the resulting query."""
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
    dim: int | None,
    progress: Callable[[], None] | None,
) -> tuple[float, float, float]:
    """Refine split, sharpness and ridge by a simplex search in the logit of the first and the logs of the others."""
    from scipy.optimize import minimize  # scipy.optimize is loaded when first needed

    def plan(z: Array) -> tuple[float, float, float]:
        return float(1.0 / (1.0 + np.exp(-z[0]))), float(np.exp(z[1])), float(np.exp(z[2]))

    def error(z: Array) -> float:
        if progress is not None:
            progress()
        split, kappa, ridge = plan(z)
        return _error(task, _aligned(task, protocol, alpha, split).changed(sharpness=kappa, ridge=ridge), dim=dim)

    first = np.array([np.log(start[0] / (1.0 - start[0])), np.log(start[1]), np.log(start[2])])
    (low, high), *others = BORDERS.values()
    bounds = [(float(np.log(low / (1.0 - low))), float(np.log(high / (1.0 - high)))), *map(_logs, others)]
    # a ridge at its upper border is first lowered
    sides = np.array([0.5, 0.4, 1.0 if first[2] + 1.0 <= bounds[2][1] else -1.0])
    simplex = np.vstack([first, first + np.diag(sides)])
    found = minimize(
        error,
        first,
        method="Nelder-Mead",
        bounds=bounds,
        options={"initial_simplex": simplex, "maxfev": MAX_REFINEMENTS, "xatol": 1e-2, "fatol": 1e-5},
    )
    return plan(found.x)


def _logs(bounds: tuple[float, float]) -> tuple[float, float]:
    return float(np.log(bounds[0])), float(np.log(bounds[1]))


def _with_temperature(task: Task, plan: Protocol) -> Protocol:
    """Return a protocol whose two gradient steps reach the given sharpness: beta = sqrt(sharpness / (|eta_q| Q))."""
    unit = plan.changed(beta=1.0, cos_query=None, sharpness=None)
    kappa = plan.sharpness or 0.0
    return unit.changed(beta=float(np.sqrt(kappa / align(task, unit).norm_query)))
