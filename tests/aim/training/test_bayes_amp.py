"""Message passing of the best possible learner on real samples, and its state evolution."""

import numpy as np
import pytest

from onehead.aim import Atoms, Learner, MarchenkoPastur, PowerLaw, Task, amp, bayes
from onehead.aim.theory.bayes import denoised
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.training.bayes_amp import bayes_amp_evolution
from onehead.aim.training.unasked_row import without_unasked_row
from onehead.errors import InvalidArgument


@pytest.mark.parametrize(
    ("arguments", "alpha"),
    [({}, 0.5), ({"beta0": 2.0}, 0.1), ({"tokens": 3, "mask": "causal"}, 0.3), ({"attention": "cross"}, 0.5)],
)
def test_state_evolution_ends_at_the_best_possible_learner(arguments, alpha):
    task = Task(**arguments)
    for damping in (1.0, 0.7):
        q, m, mmse = bayes_amp_evolution(task, alpha, iterations=200, damping=damping)[-1]
        best = bayes(task, alpha)
        assert mmse == pytest.approx(best.mmse, rel=1e-9)
        assert q == m == pytest.approx(best.overlap, rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "alpha", "dim"),
    [
        ({}, 0.1, 80),
        ({}, 0.5, 80),
        ({"tokens": 3}, 0.1, 60),
        ({"tokens": 3, "mask": "causal"}, 0.3, 60),
        ({"attention": "cross"}, 0.5, 80),
        ({"attention": "cross", "mask": "causal", "tokens": 4}, 0.4, 50),
        ({"attention": "self", "mask": "strict", "tokens": 4}, 0.5, 60),
        ({"attention": "cross", "unasked": 0.7}, 0.5, 60),
        ({"target": PowerLaw(gamma=0.75, dim=80)}, 0.2, 80),
        ({"beta0": 2.0, "target": MarchenkoPastur(kappa0=1.0)}, 0.2, 60),
    ],
)
def test_errors_of_the_estimate_on_samples_agree_with_theory(arguments, alpha, dim):
    """|Ŝ - S*|²/d of the map that is found, over three instances; O(1/d) as in A.6: 3 %, here 80 to 50 dimensions."""
    runs = [
        amp(Task(**arguments), Learner(), dim=dim, alpha=alpha, iterations=40, method="bayes", seed=k) for k in range(3)
    ]
    gaps = [without_unasked_row(run.task, run.map - run.instance.target) for run in runs]
    ratios = [np.sum(gap**2) / dim / run.steps[-1].sigma_theory for gap, run in zip(gaps, runs, strict=True)]
    # bias of five over d, twice that for the power law, plus three standard errors
    bias = (10.0 if "target" in arguments else 5.0) / dim
    assert abs(np.mean(ratios) - 1.0) < bias + 3.0 * np.std(ratios, ddof=1) / np.sqrt(3.0)
    last = runs[0].steps[-1]
    if "unasked" in arguments:
        assert last.unasked_scale == pytest.approx(1.0, abs=0.03)  # of d numbers from n ~ d² samples
        return
    assert last.sigma == pytest.approx(np.sum(gaps[0] ** 2) / dim, rel=1e-9)
    assert last.q == pytest.approx(last.m, rel=0.08)  # the estimate is a posterior mean, up to O(1/d)


def test_without_noise_the_target_is_recovered_with_enough_samples():
    """From α = .125 on for 40 twos and 40 zeros (A.3): the error is large below it and zero above."""
    task = Task(target=Atoms(eigenvalues=[2.0] * 40 + [0.0] * 40), noise=0.0)
    below, above = (amp(task, Learner(), dim=80, alpha=a, iterations=80, method="bayes") for a in (0.1, 0.17))
    assert below.steps[-1].sigma > 0.2
    assert above.steps[-1].sigma < 1e-3


@pytest.mark.parametrize("arguments", [{}, {"attention": "cross"}, {"target": PowerLaw(gamma=0.75, dim=200)}])
@pytest.mark.parametrize("s", [0.05, 0.6, 5.0])
def test_the_denoiser_has_the_second_moment_of_the_theory(arguments, s):
    """int rho f² = Q0 - s F(s): the mean square of the estimate, an identity between f and F."""
    problem = build_state_evolution(Task(**arguments), Learner())
    law = problem.input.law(s)
    nodes = law.nodes()
    mean = float(nodes.mass @ denoised(law, s, nodes.x.copy()) ** 2)
    information = 1.0 - 4.0 * s * float(nodes.mass @ nodes.hilbert**2)
    assert mean == pytest.approx(problem.target_power - s * information, rel=1e-6)
    # beyond the edge it is continuous and increases
    top = law.edges[-1][1]
    found = denoised(law, s, top * np.array([1.0 - 1e-9, 1.0 + 1e-9, 1.5, 2.0]))
    assert np.all(np.diff(found[1:]) > 0.0)
    assert found[1] == pytest.approx(found[0], abs=0.02 * top)


def test_the_bayes_optimal_algorithm_does_not_depend_on_the_learner():
    settings = {"dim": 20, "alpha": 0.5, "iterations": 3, "method": "bayes"}
    one = amp(Task(), Learner(width=0.5, weight_decay="0+"), **settings)
    assert one.to_rows() == amp(Task(), Learner(), **settings).to_rows()
    with pytest.raises(InvalidArgument, match="labels must be soft"):
        amp(Task(labels="hard"), Learner(), **settings)
    with pytest.raises(InvalidArgument, match="method must be"):
        amp(Task(), Learner(), dim=20, alpha=0.5, method="best")
