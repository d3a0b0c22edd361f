"""Derivatives of a prediction by the implicit function theorem."""

from types import SimpleNamespace

import numpy as np
import pytest

from onehead.aim import Learner, Task
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.verbs.implicit_derivatives import has_accurate_jacobian


@pytest.mark.parametrize(("cosine_squared", "accurate"), [(0.5, True), (0.9, True), (0.96, False), (0.999, False)])
def test_the_jacobian_is_not_used_close_to_perfect_recovery(cosine_squared, accurate):
    """It is used if 1 - m²/(Q q) > MIN_DISTANCE_FROM_RECOVERY, in reduced units q β² and m β β0, for any size of q."""
    task, learner = Task(noise=0.3, beta0=0.7), Learner(beta=1.9)
    problem = build_state_evolution(task, learner)
    for q in (0.01, 0.4, 20.0):
        m = np.sqrt(cosine_squared * problem.label_power * q)
        point = SimpleNamespace(q=q / 1.9**2, m=m / (1.9 * 0.7), task=task, learner=learner, jacobian=np.eye(3))
        assert has_accurate_jacobian(point, problem) == accurate
    assert not has_accurate_jacobian(SimpleNamespace(**{**vars(point), "jacobian": None}), problem)
