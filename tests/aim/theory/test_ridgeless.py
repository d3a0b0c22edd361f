"""Interpolation, recovery and emergence: residuals and closed forms."""

import numpy as np
import pytest

from onehead.aim import Learner, MarchenkoPastur, Task
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.limits.emergence import is_zero
from onehead.spectra.law import threshold_integrals


def test_the_residual_of_interpolation_is_that_of_the_worse_equation():
    """Solved roughly, A = 2 abar and J + 2 eps B = Q + 2 abar s are both off, by what the residual says (4.1)."""
    problem, alpha = build_state_evolution(Task(noise=0.5), Learner(weight_decay="0+")), 0.1
    rough = problem.input.interpolating(problem.labels, alpha, accuracy=0.3)
    s, eps = rough.overlaps.map[:2]
    part = threshold_integrals(problem.input.law(s), eps, problem.input.width)
    twice = 2.0 * alpha * problem.informative
    wrong = [part.A / twice - 1.0, (part.J + 2.0 * eps * part.B) / (problem.label_power + twice * s) - 1.0]
    assert rough.residual == pytest.approx(np.abs(wrong).max(), rel=1e-6)
    assert rough.residual > 1e-6
    assert problem.input.interpolating(problem.labels, alpha).residual < 1e-9


def test_recovery_of_a_narrow_learner_lies_between_two_closed_forms():
    """A learner exactly as wide as the target needs k - k²/2, the Bayes-optimal ratio; more width needs more data
    (4.4).
    """
    task = Task(target=MarchenkoPastur(kappa0=0.3), noise=0.0)

    def at(width):
        return build_state_evolution(task, Learner(width=width, weight_decay="0+")).recovery

    ratios = [at(width) for width in (0.3, 0.31, 0.35, 0.4, 0.5, 1.0)]
    assert ratios[0] == pytest.approx(build_state_evolution(task, Learner()).bayes_optimal, rel=1e-9)
    assert (np.diff(ratios) >= -1e-12).all()
    assert ratios[1] > ratios[0]
    assert at(0.999999) == pytest.approx(ratios[-1], rel=1e-9)
    assert at(0.29) == float("inf")


@pytest.mark.parametrize("learner", [Learner(param="direct", weight_decay=1e4), Learner(weight_decay="0+")])
def test_only_decayed_factors_vanish(learner):
    """A nuclear norm sets the whole map to zero, a square norm and no norm at all never do (4.6)."""
    assert not is_zero(build_state_evolution(Task(), learner), 1e-3)
    assert is_zero(build_state_evolution(Task(), Learner(weight_decay=1e4)), 1e-3)
