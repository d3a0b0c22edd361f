"""Derivatives of a solved point."""

from types import SimpleNamespace

import numpy as np
import pytest

from onehead.aim import Learner, Task
from onehead.aim.equations.head import equations_of
from onehead.aim.verbs.response import _has_jacobian


@pytest.mark.parametrize(("square", "clear"), [(0.5, True), (0.9, True), (0.96, False), (0.999, False)])
def test_derivatives_are_solved_for_again_close_to_perfect_recovery(square, clear):
    """Whether 1 - m²/(Q q) > CLEAR, in reduced units q β² and m β β0, whatever the size of q."""
    task, learner = Task(noise=0.3, beta0=0.7), Learner(beta=1.9)
    problem = equations_of(task, learner)
    for q in (0.01, 0.4, 20.0):
        m = np.sqrt(square * problem.label_power * q)
        point = SimpleNamespace(q=q / 1.9**2, m=m / (1.9 * 0.7), task=task, learner=learner, jacobian=np.eye(3))
        assert _has_jacobian(point, problem) == clear
    assert not _has_jacobian(SimpleNamespace(**{**vars(point), "jacobian": None}), problem)
