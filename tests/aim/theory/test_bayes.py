"""The best possible learner: published values, limits, and that no head beats it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onehead.aim import Atoms, Learner, MarchenkoPastur, PowerLaw, Task, predict
from onehead.aim.theory.bayes import bayes_overlap
from onehead.aim.theory.build import build_state_evolution
from onehead.errors import SolveError


def error_left(task, alpha):
    problem = build_state_evolution(task, Learner())
    return problem.target_power - bayes_overlap(problem, alpha)


@pytest.mark.parametrize(
    ("task", "alpha", "error"),
    [
        (Task(), 0.05, 0.8007365),
        (Task(), 0.5, 0.1113861),
        (Task(), 4.0, 0.0120722),
        (Task(tokens=3), 0.05, 0.499569),
        (Task(beta0=2.0), 0.2, 1.276218),
        (Task(noise=0.0), 0.1, 0.3921960),
        (Task(noise=0.01), 0.25, 0.013860),
        (Task(target=PowerLaw(gamma=0.75, dim=200)), 0.1, 0.13618),
    ],
)
def test_mean_squared_error_against_the_values_of_the_derivation(task, alpha, error):
    assert error_left(task, alpha) == pytest.approx(error, rel=4e-5)  # the last digit given


def test_without_noise_repeated_eigenvalues_are_found_earlier():
    """(1 - sum w²)/(2 J): half twos, half zeros are known exactly from α = 0.125 on; from the rank alone it would be
    0.1875 (A.3).
    """
    task = Task(target=Atoms(eigenvalues=[2.0] * 40 + [0.0] * 40), noise=0.0)
    assert error_left(task, 0.124) > 1e-2
    assert error_left(task, 0.126) == 0.0
    assert error_left(Task(noise=0.0), 0.1874) == pytest.approx(4.0e-4, rel=0.02)
    assert error_left(Task(noise=0.0), 0.1876) == 0.0


def test_many_samples_and_few():
    task = Task()
    # F(0+) Δ/(4 abar), its next term being of relative size 1/abar
    assert error_left(task, 40.0) == pytest.approx(0.75 * 0.5 / (4.0 * 80.0), rel=0.01)
    # the trace is learned first: what is left with next to no samples is the variance of the eigenvalues, one at any
    # κ0, less 2 abar/(1 + Δ/2)
    assert error_left(task, 1e-4) == pytest.approx(1.0 - 4e-4 / 1.25, abs=1e-6)


@given(
    kappa0=st.floats(0.05, 2.0),
    noise=st.floats(0.0, 2.0),
    tokens=st.sampled_from([2, 2, 2, 3]),
    decay=st.floats(-4.0, 0.0),
    ratio=st.floats(-1.5, 1.5),
    param=st.sampled_from(["factorised", "direct"]),
    loss=st.sampled_from(["squared", "cross-entropy"]),
    beta0=st.floats(0.5, 2.0),
)
@settings(max_examples=20, deadline=None)
def test_no_head_beats_the_best_possible_learner(kappa0, noise, tokens, decay, ratio, param, loss, beta0):
    """m²/q is at most the overlap of the posterior mean (A.4), up to three errors of both."""
    task = Task(target=MarchenkoPastur(kappa0=kappa0), noise=noise, tokens=tokens, beta0=beta0)
    learner = Learner(weight_decay=10.0**decay, param=param, loss=loss)
    try:
        point = predict(task, learner, 10.0**ratio)
    except SolveError:
        return
    if point.q == 0.0:
        return
    most = bayes_overlap(point.equations, point.alpha) / beta0**2
    room = 3.0 * (point.errors.get("q", 0.0) / point.q + 2.0 * point.errors.get("m", 0.0) / point.m) + 1e-6
    assert point.m**2 / point.q <= most * (1.0 + room)
