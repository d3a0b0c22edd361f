"""Limits of the attention-indexed model are continuous, and different routes of the solver agree."""

import time
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.support.problems import log_uniform
from tests.support.problems import mp as any_mp

from onehead import aim
from onehead.aim.solve.continuation import continue_in_decay, refine
from onehead.aim.solve.fixed_sample_ratio import solve_at_alpha
from onehead.aim.solve.solver import solve
from onehead.aim.theory.build import build_state_evolution
from onehead.errors import InvalidArgument, SolveError

kappas, mp = log_uniform(0.05, 2.0), partial(any_mp, noise=0.3)


@given(
    kappa0=kappas, noise=st.floats(0.1, 0.6), alpha=st.floats(1.5, 6.0), param=st.sampled_from(["factorised", "direct"])
)
@settings(max_examples=3)
def test_small_weight_decay_approaches_the_ridgeless_limit_above_interpolation(kappa0, noise, alpha, param):
    """λ = 1e-8 against the route of 0+: the shift is first order in λ, the quadrature the same."""
    small, limit = (
        aim.predict(mp(kappa0, noise=noise), aim.Learner(weight_decay=decay, param=param), alpha)
        for decay in (1e-8, "0+")
    )
    allowed = 3.0 * (small.certificate.quadrature_error + limit.certificate.quadrature_error) + 1e-6
    assert small.test_error == pytest.approx(limit.test_error, abs=allowed)
    assert small.q == pytest.approx(limit.q, rel=2e-3)


@given(kappa0=kappas, noise=st.floats(0.1, 1.0), share=st.floats(0.1, 0.9))
@settings(max_examples=4)
def test_the_interpolating_limit_solves_its_equations(kappa0, noise, share):
    """A = 2 α J_T and J + 2 ε B = Q + 2 α J_T s; the spectrum has q for its second moment; training fits exactly
    (4.1).
    """
    task, learner = mp(kappa0, noise=noise), aim.Learner(weight_decay="0+")
    alpha = share * aim.thresholds(task).interpolation
    point = aim.predict(task, learner, alpha)
    part = build_state_evolution(task, learner).input.integrals(point.spread, point.threshold)
    assert part.A / (4.0 * alpha) == pytest.approx(1.0, rel=1e-8)
    labels = task.target.second_moment + 0.5 * noise
    assert part.J + 2.0 * point.threshold * part.B == pytest.approx(labels + 4.0 * alpha * point.spread, rel=1e-8)
    assert aim.spectrum(point).second_moment == pytest.approx(point.q, rel=1e-8)
    assert point.train_loss == pytest.approx(0.0, abs=1e-12)
    assert point.sigma == np.inf


@given(kappa0=kappas, alpha=st.floats(0.3, 5.0), decay=st.floats(0.005, 0.1))
@settings(max_examples=3)
def test_small_noise_approaches_no_noise(kappa0, alpha, decay):
    """Δ = 1e-9 against Δ = 0: all numbers are smooth in Δ at λ > 0."""
    learner = aim.Learner(weight_decay=decay)
    small, none = (
        aim.predict(mp(kappa0, noise=1e-9), learner, alpha),
        aim.predict(mp(kappa0, noise=0.0), learner, alpha),
    )
    for name in ("test_error", "q", "m", "rank", "train_loss"):
        assert getattr(small, name) == pytest.approx(getattr(none, name), rel=1e-4, abs=1e-7)
    assert none.test_error == none.test_error_clean


@given(kappa0=kappas, alpha=st.floats(0.2, 2.0), decay=st.floats(0.005, 0.05), param=st.just("factorised"))
@settings(max_examples=3)
def test_width_matters_only_below_the_rank(kappa0, alpha, decay, param):
    """κ above the rank changes nothing; just below it hardly anything; far below it the error grows (3)."""
    task = mp(kappa0)
    full = aim.predict(task, aim.Learner(weight_decay=decay), alpha)
    assume(0.05 < full.rank < 0.95)
    wide, close, narrow = (
        aim.predict(task, aim.Learner(weight_decay=decay, width=width, param=param), alpha)
        for width in (min(full.rank + 0.02, 0.999), full.rank - 1e-4, 0.5 * full.rank)
    )
    assert wide.test_error == pytest.approx(full.test_error, rel=1e-6)
    assert close.test_error == pytest.approx(full.test_error, rel=1e-3)
    assert close.rank == pytest.approx(full.rank, abs=2e-4)
    assert narrow.rank <= 0.5 * full.rank + 1e-9
    assert narrow.train_loss > full.train_loss  # the minimum is over fewer maps


class PlainSquared(aim.Loss):
    """The squared loss without the shortcut for two tokens: the general route."""

    name = "plain squared"
    row = aim.Squared.row


@pytest.mark.parametrize(("alpha", "decay"), [(0.2, 0.02), (3.0, 0.005)])
def test_the_kernel_of_two_tokens_agrees_with_the_general_one(alpha, decay):
    """The pair kernel of T = 2 and the row function of any T give the same prediction."""
    short, general = (
        aim.predict(mp(0.5), aim.Learner(weight_decay=decay, loss=loss), alpha) for loss in ("squared", PlainSquared())
    )
    for name in ("q", "m", "sigma", "test_error", "train_loss"):
        # both stop at a residual of 3e-7
        assert getattr(general, name) == pytest.approx(getattr(short, name), rel=1e-5)


@given(kappa0=kappas, noise=st.floats(0.1, 0.8), alpha=st.floats(0.1, 1.0), decay=st.floats(0.003, 0.05))
@settings(max_examples=4)
@example(kappa0=1.0, noise=0.5, alpha=0.125, decay=0.03125)  # with α unknown this one leaves the domain
def test_every_route_of_the_solver_ends_at_the_same_state(kappa0, noise, alpha, decay):
    """At fixed α; at fixed Sigma with α unknown; at fixed Sigma with λ unknown; from emergence down in λ (2.8)."""
    problem = build_state_evolution(mp(kappa0, noise=noise), aim.Learner(weight_decay=decay))
    try:
        found = solve(problem, alpha)
    except SolveError:
        assume(False)
    assume(found.overlaps.sigma < 30.0)  # beyond, the prox has several minima, and routes may follow different ones
    assume(found.level == 1)
    near = found.overlaps.coordinates + np.array([0.02, 0.01, -0.03])
    routes = (
        lambda: refine(problem, alpha, near, 1),
        lambda: refine(problem, alpha, near, 1, by_decay=True),
        lambda: solve_at_alpha(problem, alpha, continue_in_decay(problem, alpha), 1),
    )
    states = []
    for route in routes:
        with suppress(SolveError):  # a route may leave the domain of the equations; the solver then takes the next
            states.append(route().coordinates)
    assert len(states) >= 2
    for state in states:
        # routes that track minima differ from the others by the mass of points that would switch, below 1e-4 here
        assert state == pytest.approx(found.overlaps.coordinates, abs=2e-3)


@given(kappa0=st.floats(0.1, 1.5), alpha=st.floats(0.3, 3.0))
@settings(max_examples=2)
def test_many_atoms_agree_with_their_limiting_law(kappa0, alpha):
    """Eigenvalues at the quantiles of Marchenko-Pastur against its cubic equation: two codes, one prediction."""
    task, bulk = mp(kappa0), aim.MarchenkoPastur(kappa0=kappa0)
    listed = aim.Spikes(spikes=(bulk.edges[1],), dim=800, bulk=bulk)
    law, atoms = (aim.predict(task.changed(target=target), aim.Learner(), alpha) for target in (bulk, listed))
    # one eigenvalue too many at the edge and a midpoint rule elsewhere: a few times 1/800
    assert atoms.test_error == pytest.approx(law.test_error, rel=1e-2)
    assert atoms.rank == pytest.approx(law.rank, abs=5e-3)


def test_more_tokens_need_fewer_samples():
    """At the same α a longer sequence carries J_T more equations: every overlap with the target is larger (1.6)."""
    learner = aim.Learner(weight_decay=0.05)
    points = [aim.predict(mp(0.5, tokens=tokens), learner, 0.2) for tokens in (2, 3)]
    cosines = [p.m / np.sqrt(p.q * 1.5) for p in points]
    assert (np.diff(cosines) > 0.0).all()


def test_no_narrow_learner_fits_more_than_direct_training():
    """Direct training can represent every narrow map, so its interpolation threshold is an upper bound."""
    task = aim.Task(target=aim.MarchenkoPastur(kappa0=2.88325), noise=0.0)
    found = aim.thresholds(task, aim.Learner(weight_decay=1e-3, width=0.6))
    assert found.interpolation <= found.direct
    assert any("narrow" in text for text in found.certificate.warnings)


@pytest.mark.slow
def test_an_iterate_that_underflows_does_not_divide_by_zero():
    task = aim.Task(target=aim.MarchenkoPastur(kappa0=159.819), noise=0.00760146)
    try:
        point = aim.predict(task, aim.Learner(weight_decay=9.40071e-07), 1.17386e-05)
    except SolveError:
        return
    assert point.certificate.residual < 1e-6


def test_direct_training_does_not_depend_on_the_width():
    """A directly trained map has no factor: it recovers the target where `thresholds` says (4.4, 6)."""
    task, narrow = mp(0.5, noise=0.0), aim.Learner(param="direct", width=0.3, weight_decay="0+")
    ratio = aim.thresholds(task, narrow).recovery
    point = aim.predict(task, narrow, 1.01 * ratio)
    assert point.status.startswith("perfect recovery")
    assert point.test_error == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("learner", "alpha", "message"),
    [
        (aim.Learner(width=0.5), 1.0, "factorised, width 0.5, weight decay 0.01"),
        (aim.Learner(), 1e-4, "alpha must be at least 2/dim"),
    ],
)
def test_nuclear_equivalence_says_what_it_refuses(learner, alpha, message):
    with pytest.raises(InvalidArgument, match=message):
        aim.nuclear_equivalence(aim.Task(), learner, dim=16, alpha=alpha)


@pytest.mark.slow
def test_a_narrow_learner_is_solved_or_refused_in_bounded_time():
    """Where the theory breaks down one solve took 105 seconds of processor time; now about four."""
    task, head = aim.Task(beta0=2.5), aim.Learner(width=0.41, weight_decay=4e-4)
    start = time.process_time()
    with suppress(SolveError):
        aim.predict(task, head, 0.3)
    assert time.process_time() - start < 40.0  # a slow machine, and compilation


def test_a_refusal_just_above_interpolation_is_quick():
    """Direct training, λ → 0⁺, α a little above 1/4: no solution is found, which once took 16 to 26 seconds and now
    about one.
    """
    head = aim.Learner(param="direct", weight_decay="0+")
    aim.predict(aim.Task(), head, 1.0)  # compiles
    start = time.process_time()
    with suppress(SolveError):
        aim.predict(aim.Task(), head, 0.28)
    assert time.process_time() - start < 10.0
