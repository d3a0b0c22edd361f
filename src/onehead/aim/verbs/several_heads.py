"""Predictions of several heads that add to one output, and of heads that learn their values (M1 to M7)."""

from dataclasses import replace
from typing import Any

import numpy as np

from onehead.aim.solve.assumptions import with_caution
from onehead.aim.solve.heads_branches import solve_heads_branches
from onehead.aim.solve.several_heads import HeadsSolution, solve_several_heads
from onehead.aim.task import Learner, Task
from onehead.aim.theory.build import (
    build_several_heads,
    build_state_evolution,
    check_summed_loss,
    heads_are_coupled,
)
from onehead.aim.theory.limits.infinite_data import plateau_of
from onehead.aim.theory.order_parameters import INFINITE
from onehead.aim.theory.output.several_heads import ModeState
from onehead.aim.theory.several_heads import SeveralHeads
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.aim.verbs.predict import Prediction, predict_one_head
from onehead.errors import OutsideDomain
from onehead.numerics.brent import brent_minimum

# numbers that are sums over the heads
SUMS = ("test_error", "test_error_clean", "train_loss", "test_loss", "test_cross_entropy", "excess_error")


def predict_several_heads(
    task: Task,
    learner: Learner,
    alpha: float,
    near: Prediction | None,
    accuracy: float | None = None,
    *,
    smooth: bool = False,
) -> Prediction:
    """Predict several heads; the arguments are those of `predict`.

    With ``smooth`` sampled maps never take the place of expectation consistency, so that differences of two
    predictions are derivatives.
    """
    check_summed_loss(task, learner)
    if not heads_are_coupled(task, learner):
        return _decoupled(task, learner, alpha, near, accuracy)
    problem = build_several_heads(task, learner)
    single = build_state_evolution(task, learner.changed(leading=0, values="fixed", value_decay=None))
    start = None if near is None else _state_of(problem, single, near)
    if smooth:  # one solution, whichever lies near, so that differences are derivatives
        solution = solve_several_heads(problem, single, alpha, near=start, accuracy=accuracy, smooth=True)
    else:
        solution = solve_heads_branches(problem, single, alpha, near=start, accuracy=accuracy)
    return _prediction(task, learner, problem, single, alpha, solution)


def _decoupled(
    task: Task, learner: Learner, alpha: float, near: Prediction | None, accuracy: float | None
) -> Prediction:
    """Predict heads of orthogonal values: each is a head of its own, with all samples (M1)."""
    one = task.changed(heads=1)
    point = predict_one_head(one, learner, alpha, None if near is None else replace(near, task=one), accuracy)
    count, certificate = task.heads, point.certificate
    errors = {name: error * (count if name in SUMS else 1) for name, error in certificate.errors.items()}
    sums: dict[str, Any] = {name: count * getattr(point, name) for name in SUMS}
    certificate = replace(
        certificate,
        errors=errors | {"q_cross": 0.0, "m_cross": 0.0, "head_error": certificate.errors.get("test_error", 0.0)},
        quadrature_error=count * certificate.quadrature_error,
    )
    return replace(
        point,
        task=task,
        certificate=certificate,
        **sums,
        sigma_cross=0.0,
        q_cross=0.0,
        m_cross=0.0,
        head_error=point.test_error,
        value_scale=(1.0, 1.0),
    )


def _state_of(problem: SeveralHeads, single: StateEvolution, near: Prediction) -> ModeState | None:
    """Return the order parameters of a neighbouring prediction; None if it has none to start from."""
    if not (near.q > 0.0 and near.m > 0.0 and 0.0 < near.sigma < INFINITE):
        return None
    heads, units = problem.modes.heads, single.units

    def modes(own: float, cross: float | None) -> np.ndarray:
        between = cross or 0.0
        return np.array([own + (heads - 1.0) * between, own - between])

    q, m = units.reduced(1.0, 1.0)
    scales = np.array(near.value_scale or (1.0, 1.0)) if problem.values.learnt else np.ones(2)
    state = ModeState(
        q * modes(near.q, near.q_cross), m * modes(near.m, near.m_cross), modes(near.sigma, near.sigma_cross), scales
    )
    rest = state.q - state.m**2 / problem.output.label_power
    usable = min(rest.min(), state.m.min(), state.sigma.min(), scales.min()) > 0.0
    return state if usable else None


def _plateau(problem: SeveralHeads, single: StateEvolution) -> float:
    """Return the test error of infinitely many samples: heads do not interfere there, and learnt values fit (8.1)."""
    if not problem.values.learnt:
        return problem.modes.heads * plateau_of(single).test_error
    power = single.target_power

    def error(c: float) -> float:
        q, m = c * c * power * np.ones(2), c * power * np.ones(2)
        return problem.output.fresh_error(ModeState(q, m, m, problem.output.fresh_scales(q[0], m[0])))

    return float(brent_minimum(error, 0.05, 3.0, xatol=1e-6)[1])


def _prediction(
    task: Task,
    learner: Learner,
    problem: SeveralHeads,
    single: StateEvolution,
    alpha: float,
    solution: HeadsSolution,
) -> Prediction:
    """Assemble the prediction in the learner's units."""
    modes, output, state, hats = problem.modes, problem.output, solution.state, solution.hats
    to_q, to_m = single.units.own(1.0, 1.0)
    q, m = modes.own(state.q), modes.own(state.m)
    test, clean = output.fresh_error(state), output.fresh_error(state, single.clean_power)
    if not np.isfinite([test, clean, solution.train]).all():
        raise OutsideDomain(f"the errors at alpha = {alpha:g} are not finite; change weight_decay or alpha.")
    several, where = modes.heads > 1, solution.overlaps.map
    units = {"q": to_q, "q_cross": to_q, "m": to_m, "m_cross": to_m}
    certificate = solution.certificate
    errors = {name: error * units.get(name, 1.0) for name, error in certificate.errors.items()}
    if not several:
        errors = {name: error for name, error in errors.items() if name not in ("q_cross", "m_cross", "head_error")}
    certificate = with_caution(replace(certificate, errors=errors), task)
    return Prediction(
        alpha=alpha,
        test_error=test,
        test_error_clean=clean,
        train_loss=float(solution.train),
        rank=solution.overlaps.rank,
        q=to_q * q,
        m=to_m * m,
        sigma=modes.own(state.sigma),
        q_hat=modes.own(hats.q),
        m_hat=modes.own(hats.m),
        sigma_hat=modes.own(hats.sigma),
        certificate=certificate,
        test_loss=test,
        test_cross_entropy=modes.heads * output.single.fresh_loss(q, m, loss="cross-entropy"),
        zero_one_error=None,
        excess_error=test - _plateau(problem, single),
        spread=where.s,
        threshold=where.eps,
        cut=where.cut,
        slope=where.slope / learner.beta,
        sectors=None,
        directions=(),
        other_solutions=solution.others,
        effective_dim=None,
        q_cross=to_q * modes.cross(state.q) if several else None,
        m_cross=to_m * modes.cross(state.m) if several else None,
        sigma_cross=modes.cross(state.sigma) if several else None,
        head_error=output.head_error(q, m) if several else None,
        value_scale=(float(state.scales[0]), float(state.scales[1 if several else 0])),
        jacobian=None,
        task=task,
        learner=learner,
    )
