"""Tuning of the protocols that use all samples throughout: reused data, and joint descent with its stopping step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from onehead.errors import InvalidArgument, SolveError
from onehead.results import Certificate
from onehead.results.bayes_gap import GAP_MEANINGS, gap_to_bayes
from onehead.sparse.losses import Array
from onehead.sparse.solve.descent import Plan, solve_trajectory
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task
from onehead.sparse.verbs.align import align
from onehead.sparse.verbs.bayes import bayes as best_of
from onehead.sparse.verbs.bayes import data_for
from onehead.sparse.verbs.descend import Descent, descend
from onehead.sparse.verbs.predict import Prediction
from onehead.sparse.verbs.reuse import predict_reused
from onehead.sparse.verbs.tune import best_bias_rate
from onehead.validation import checked, integer, number, one_of, optional

Procedure = Literal["reuse", "descend"]
PROCEDURES: tuple[Procedure, ...] = ("reuse", "descend")
SEARCH_LOG2_POINTS = 6  # log2 of the points per class of each of 8 sets, in the search over rates
SEARCH_POINTS = 60  # upper limit of the evaluations of a search
MAX_RIDGE = 1.0  # larger ridges would lower the limit of infinite dimension only, not the error of training
REFERENCE_DIM = 500  # dimension at whose spread of the bias the rates are chosen
MAX_LOSS_RISE = 0.03  # relative rise of the training loss from which a descent counts as unstable
# starts of the search: eta_q, eta_w, eta_b, ridge, ridge_query
RATES = ((1.0, 0.3, 3.0, 0.1, 0.03), (1.0, 0.5, 3.0, 0.1, 0.03), (2.0, 1.0, 4.0, 0.1, 0.03), (0.5, 0.3, 1.0, 0.1, 0.1))
SHARPNESSES, RIDGES = (1.0, 2.0, 3.3, 5.0), (0.01, 0.1, 0.3, 1.0)


@dataclass(frozen=True, kw_only=True)
class TunedJoint(Answer):
    """Hyperparameters of reused data or of joint descent with the lowest predicted test error.

    ``best_step`` is the step at which to stop, None for reused data. ``tuned`` is the protocol itself. If requested,
    ``bayes_test_error`` is the test error of the Bayes-optimal learner of the same data, ``gap`` the relative excess
    above it and ``data_multiple`` the ratio of the samples needed.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("protocol", "tuned")
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ("procedure", "alpha", "best_step", "test_error")
    MEANINGS: ClassVar[dict[str, str]] = {
        "alpha": "all samples over dimension",
        "beta": "inverse temperature",
        "eta_q": "rate of the query",
        "eta_w": "rate of the readout",
        "eta_b": "rate of the bias",
        "ridge": "penalty of the readout",
        "ridge_query": "penalty of the query",
        "best_step": "step at which to stop",
        "cos_query": "cosine of the query with the signal",
        "sharpness": "beta times the length of the query",
        "test_error": "predicted test error",
        **GAP_MEANINGS,
    }

    procedure: str
    alpha: float
    beta: float
    eta_q: float
    eta_w: float
    eta_b: float
    ridge: float
    ridge_query: float
    best_step: int | None
    cos_query: float
    sharpness: float
    test_error: float
    tuned: Protocol
    certificate: Certificate
    bayes_test_error: float | None = None
    gap: float | None = None
    data_multiple: float | None = None


@checked(**PROBLEM, procedure=one_of(PROCEDURES), alpha=optional(number(above=0.0)), steps=integer(2))
def tune_joint(
    task: Task,
    protocol: Protocol,
    procedure: Procedure,
    *,
    alpha: float | None = None,
    steps: int = 15,
    bayes: bool = False,
    progress: Callable[[], None] | None = None,
) -> TunedJoint:
    """Return the hyperparameters of reused data, or of joint descent, with the lowest predicted test error.

    For reused data sharpness and ridge are searched (the temperature follows from the sharpness), for joint descent the
    three rates, both ridges and the step at which to stop. The ridge is at most 1. The search is local, from a few
    starts: the result is an upper bound on what the procedure can do. Rates are chosen for a bias that varies between
    samples as it does at d = 500; the reported test error is that of infinite dimension.

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Supplies the loss, and the rates of the two steps for reused data.
    procedure : {"reuse", "descend"}
        Both stages on all samples, or joint descent on all samples.
    alpha : float, optional
        Samples over dimension; by default alpha0 + alpha1 of the protocol.
    steps : int
        Largest number of steps of joint descent.
    bayes : bool
        Whether to compare with the Bayes-optimal learner of the same data.
    progress : callable, optional
        Called for each of at most SEARCH_POINTS evaluations.

    Returns
    -------
    TunedJoint
        The chosen hyperparameters and their test error.

    Raises
    ------
    InvalidArgument
        If an argument is out of range, or the protocol fixes ``cos_query``.

    Examples
    --------
    >>> found = tune_joint(Task(), Protocol(), "reuse", alpha=2.0)
    >>> 0.02 < found.test_error < 0.028, found.ridge <= 1.0
    (True, True)
    """
    if protocol.cos_query is not None:
        raise InvalidArgument("cos_query", protocol.cos_query, "None, because tuning chooses the query")
    alpha = protocol.alpha if alpha is None else alpha
    possible = best_of(task, alpha) if bayes else None
    plan = protocol.with_alpha(alpha).changed(reuse=False)
    if procedure == "reuse":
        tuned = _tune_reuse(task, plan, progress)
        point: Prediction | Descent = predict_reused(task, tuned)
        best_step: int | None = None
    else:
        tuned = _tune_descent(task, plan.changed(beta=1.0), steps, progress)
        point = descend(task, tuned, steps=steps)
        best_step = point.best_step
    names = ("beta", "eta_q", "eta_w", "eta_b", "ridge", "ridge_query")
    gap: dict[str, Any] = (
        {}
        if possible is None
        else gap_to_bayes(
            possible.test_error, data_for(task, point.test_error), test_error=point.test_error, alpha=alpha
        )
    )
    return TunedJoint(
        task=task,
        protocol=protocol,
        procedure=procedure,
        alpha=alpha,
        **{name: getattr(tuned, name) for name in names},
        best_step=best_step,
        cos_query=point.cos_query or 0.0,
        sharpness=point.sharpness or 0.0,
        test_error=point.test_error,
        tuned=tuned,
        certificate=Certificate.of(
            point.certificate,
            status="lowest predicted test error found",
            errors={"test_error": point.errors["test_error"]},
        ),
        **gap,
    )


def _tune_reuse(task: Task, plan: Protocol, progress: Callable[[], None] | None) -> Protocol:
    """Search sharpness and ridge of reused data."""
    all_data = plan.changed(alpha0=plan.alpha)
    eta_b = best_bias_rate(task, all_data)
    unit = align(task, all_data.changed(eta_b=eta_b, beta=1.0))
    sign = -1.0 if unit.cos_query < 0.0 else 1.0

    def candidate(x: Array) -> Protocol:
        kappa, ridge = np.exp(np.clip(x, np.log([0.1, 1e-5]), np.log([30.0, MAX_RIDGE]))).tolist()
        return plan.changed(
            beta=float(np.sqrt(kappa / unit.norm_query)),
            eta_b=eta_b,
            eta_q=sign * plan.eta_q,
            ridge=ridge,
            reuse=True,
        )

    starts = [np.log([kappa, ridge]) for kappa in SHARPNESSES for ridge in RIDGES]
    return candidate(
        _search(lambda x: predict_reused(task, candidate(x), search=True).test_error, starts, [0.3, 0.5], progress)
    )


def _tune_descent(task: Task, plan: Protocol, steps: int, progress: Callable[[], None] | None) -> Protocol:
    """Search rates and ridges of joint descent; the error is that of the best step before the loss rises.

    The bias follows the share of positives in the sample, whose logit has the standard deviation 1/sqrt(pi (1-pi) n).
    Without it the search would choose tiny readouts, which such a bias overrules at any finite dimension.
    """
    pi = task.positive_rate
    spread = 1.0 / float(np.sqrt(pi * (1.0 - pi) * plan.alpha * REFERENCE_DIM))

    def candidate(x: Array) -> Protocol:
        eta_q, eta_w, eta_b, ridge, ridge_query = np.exp(np.clip(x, -9.0, 4.0)).tolist()
        return plan.changed(
            eta_q=eta_q, eta_w=eta_w, eta_b=eta_b, ridge=min(ridge, MAX_RIDGE), ridge_query=min(ridge_query, MAX_RIDGE)
        )

    def error(x: Array) -> float:
        found = solve_trajectory(task, candidate(x), Plan(steps), SEARCH_LOG2_POINTS, bias_spread=spread)
        if len(found.means) < steps:
            return np.inf
        tests, losses = found.means[:, 0], found.means[:, 1]
        rises = np.flatnonzero(losses > (1.0 + MAX_LOSS_RISE) * np.minimum.accumulate(losses))
        return float(tests[: rises[0]].min()) if rises.size else float(tests.min())

    return candidate(_search(error, [np.log(start) for start in RATES], [0.4, 0.4, 0.4, 0.7, 0.7], progress))


def _search(
    error: Callable[[Array], float], starts: list[Array], sizes: list[float], progress: Callable[[], None] | None
) -> Array:
    """Return the lowest point of a simplex search from the best of some starts."""
    from scipy.optimize import minimize  # scipy.optimize is loaded when first needed

    def value(x: Array) -> float:
        if progress is not None:
            progress()
        try:
            return error(x)
        except SolveError:
            return np.inf

    first = starts[int(np.argmin([value(start) for start in starts]))]
    simplex = np.vstack([first, first + np.diag(sizes)])
    options: Any = {"initial_simplex": simplex, "maxfev": SEARCH_POINTS - len(starts), "xatol": 3e-2, "fatol": 2e-5}
    return np.asarray(minimize(value, first, method="Nelder-Mead", options=options).x)
