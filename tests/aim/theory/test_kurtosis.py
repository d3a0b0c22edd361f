"""Tokens of another kurtosis: the output channel with the trace of the map told apart, and what follows from it
(P11).
"""

from dataclasses import replace

import numpy as np
import pytest

from onehead.aim import Atoms, Learner, MarchenkoPastur, Task
from onehead.aim.kernels.arguments import BlockArrays, Detail, Modes, Nodes, Scaling, Start
from onehead.aim.kernels.two_tokens import two_token_sums
from onehead.aim.solve.fixed_sample_ratio import solve_at_alpha
from onehead.aim.solve.solver import solve
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.limits.emergence import emergence_ratio, is_zero
from onehead.aim.theory.limits.infinite_data import plateau_of
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.theory.output.averages import sum_in_slices
from onehead.errors import InvalidArgument

SURE = 4.5  # standard errors
LOSSES = ("squared", "cross-entropy")
# q, m, τ and Sigma of a map: few samples, many, nearly the target itself
STATES = [(0.9, 0.8, 0.5, 2.5), (1.4, 1.3, 0.72, 0.4), (1.5, 1.499, 0.707, 0.1)]


def equations(kurtosis=1.0, noise=0.5, **learner):
    problem = build_state_evolution(Task(kurtosis=2.0, noise=noise), Learner(**learner))
    directions = replace(problem.directions, excess=kurtosis - 3.0)
    return replace(problem, output=replace(problem.output, excess=kurtosis - 3.0, directions=directions))


def split_trace(problem, q, m, tau):
    (told,) = problem.output.directions.target_eigenvalues
    return q - tau**2, m - tau * told, tau


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("q", "m", "tau", "sigma"), STATES)
@pytest.mark.parametrize("derivative", [False, True])
def test_kurtosis_three_is_gaussian(loss, q, m, tau, sigma, derivative):
    """The same hats, errors and emergence as without telling the trace apart, to rounding: nodes and kernels are the
    same.
    """
    problem = equations(3.0, loss=loss)
    gaussian = build_state_evolution(Task(), Learner(loss=loss)).output
    pair = split_trace(problem, q, m, tau)
    known = gaussian.hats_of(gaussian.averages(q, m, sigma, level=1, detail=1), q, m, sigma, derivative=derivative)
    own = problem.output
    found = own.hats_of(own.averages(*pair, sigma, level=1, detail=1), *pair, sigma, derivative=derivative)
    assert found.sectors == pytest.approx(known.sectors, rel=1e-8)
    assert found.effective == own.directions.target_eigenvalues
    for words in ({}, {"loss": "squared"}, {"power": problem.target_power}):
        assert own.fresh_loss(*pair, **words) == pytest.approx(gaussian.fresh_loss(q, m, **words), rel=1e-10)
    assert own.at_origin(1).sectors == pytest.approx(gaussian.at_origin(1).sectors, rel=1e-10)


@pytest.mark.parametrize("param", ["factorised", "direct"])
def test_solutions_of_kurtosis_three_are_gaussian(param):
    """Both are solved to 3e-7 of their unknowns, which the response of the equations makes a little larger."""
    gaussian = build_state_evolution(Task(), Learner(param=param))
    for alpha in (0.1, 0.5):
        found, known = (
            solve_at_alpha(one, alpha, solve(one, alpha).coordinates, 2).overlaps
            for one in (equations(3.0, param=param), gaussian)
        )
        assert (found.q, found.m, found.tau) == pytest.approx((known.q, known.m, known.tau), rel=3e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kurtosis", [1.0, 9.0])
@pytest.mark.parametrize(("q", "m", "tau", "sigma"), STATES[:2])
def test_hats_by_drawn_logits(loss, kurtosis, q, m, tau, sigma):
    """Logits drawn from their definition, η of a token's squared length and all, and the field R of the trace by E
    pull.η (P11.2).
    """
    output = equations(kurtosis, loss=loss).output
    (told,), (block,) = output.directions.target_eigenvalues, output.geometry.blocks
    (q_b, m_b, _), Q_b = split_trace(equations(kurtosis), q, m, tau), output.label_power - told**2
    rng, parts, size = np.random.default_rng(8), 32, 6000
    length, common = np.sqrt(kurtosis - 1.0), rng.standard_normal((parts * size, 1))
    eta = length * rng.standard_normal((parts * size, 2)) - common
    z = np.sqrt([2.0, 2.0, 1.0]) * rng.standard_normal((2, parts * size, 3))  # h_11, h_22, h_12 of label and of learner
    one, other = (part[:, :2] - part[:, 2:] for part in z)
    r, own = np.sqrt(Q_b) * one, m_b / np.sqrt(Q_b) * one + np.sqrt(q_b - m_b**2 / Q_b) * other
    u, v = np.ascontiguousarray(told * eta + r), np.ascontiguousarray(tau * eta + own)
    points, weights = np.empty(u.shape), np.full(len(u), 1.0 / size)
    arrays = BlockArrays(block.select, block.metric, block.conditional_means)
    modes = Modes(detail=int(Detail.DERIVATIVE), start=int(Start.KEEP))
    before = (output.loss.compiled_pair, arrays, Nodes(u, v, weights, points), Scaling(1.0, 0.0, 1.0, sigma), modes)
    sums = sum_in_slices(two_token_sums, 9, size, len(weights), before)
    unit, pull = 2.0, (points - v) @ block.metric
    along = np.sum(pull * eta, axis=1).reshape(parts, size).mean(axis=1)
    m_hat, sigma_hat = unit * sums[:, 5] / sigma, unit * sums[:, 3] / sigma
    effective = (sigma_hat.mean() * tau + unit * along / sigma) / m_hat.mean()
    drawn = np.column_stack([unit * sums[:, 0] / sigma**2, m_hat, sigma_hat, effective])
    found = output.hats(q_b, m_b, tau, sigma, level=2)
    off = (drawn.mean(axis=0) - [*found.sectors[:, 0], *found.effective]) * np.sqrt(parts) / drawn.std(axis=0, ddof=1)
    assert np.abs(off).max() < SURE
    answers = np.tanh(0.5 * u), np.tanh(0.5 * v)
    error = 0.5 * np.sum((answers[0] - answers[1]) ** 2, axis=1)
    fresh = output.fresh_loss(q_b, m_b, tau, loss="squared")
    assert abs(error.mean() - fresh) < SURE * error.std() / np.sqrt(len(error))


def test_logits_of_signs_have_the_variances_of_the_theory():
    """Drawn tokens of d = 300 in the place of all formulas: variances along both axes, within sampling error and
    3/d.
    """
    rng, d, size = np.random.default_rng(2), 300, 20_000
    W = rng.standard_normal((d // 2, d))
    S = W.T @ W / np.sqrt(d * d / 2)
    tau, q = np.trace(S) / d, np.sum(S * S) / d
    output = equations(1.0).output
    x = np.where(rng.random((2, size, d)) < 0.5, -1.0, 1.0)
    logits = {(a, b): np.einsum("ni,ni->n", x[a] @ S, x[b]) / np.sqrt(d) for a, b in ((0, 0), (1, 1), (0, 1))}
    u = [logits[a, a] - tau * np.sqrt(d) - logits[0, 1] for a in (0, 1)]
    axes = np.var((u[0] + u[1]) / np.sqrt(2.0)), np.var((u[0] - u[1]) / np.sqrt(2.0))
    known = output._along_axes((q - tau**2, 0.0, tau)).own
    assert axes == pytest.approx(known, rel=SURE * np.sqrt(2.0 / size) + 3.0 / d)
    assert abs(axes[1] / (2.0 * q) - 1.0) > 0.2  # which Gaussian tokens would have


def test_the_trace_is_seen_a_third_of_the_kurtosis_times_at_the_origin():
    """By the first step of a proximal operator, from next to no map (P11.5)."""
    for kurtosis in (1.0, 2.0, 9.0):
        output = equations(kurtosis).output
        found, known = output.hats(1e-10, 0.0, 0.0, 1e-6, level=2), output.at_origin(2)
        slow = output.hats_of(
            output.averages(1e-10, 0.0, 0.0, 1e-6, level=2, detail=1), 1e-10, 0.0, 0.0, 1e-6, derivative=True
        )
        assert (found.q, slow.m) == pytest.approx((known.q, known.m), rel=1e-4)
        assert slow.effective == pytest.approx(known.effective, rel=1e-4)
        assert known.effective[0] == pytest.approx(output.directions.target_eigenvalues[0] * kurtosis / 3.0)


@pytest.mark.parametrize("kurtosis", [1.0, 9.0])
def test_emergence(kurtosis):
    """The map is zero below, and above it is small, its trace seen as at the origin."""
    problem = equations(kurtosis, weight_decay=0.5)
    ratio = emergence_ratio(problem)
    assert is_zero(problem, 0.99 * ratio)
    assert not is_zero(problem, 1.01 * ratio)
    near = solve(problem, 1.1 * ratio)
    assert near.overlaps.rank < 0.1
    (seen,), (known,) = near.hats.effective, problem.output.at_origin(2).effective
    assert seen == pytest.approx(known, rel=0.05)  # the map is not zero any more


@pytest.mark.parametrize("param", ["factorised", "direct"])
def test_the_input_channel_sees_a_target_with_another_trace(param):
    """A lift of all eigenvalues is a target moved by it, of whose overlap the lift's own share is taken off (P11.3)."""
    values = np.linspace(0.1, 2.0, 50)
    lift, hats = 0.3, Hats(0.8, 1.3, 1.5)
    task = Task(target=Atoms(eigenvalues=tuple(values.tolist())))
    channel = build_state_evolution(task, Learner(param=param, leading=0, weight_decay=0.1)).input
    moved = replace(channel, target=Atoms(eigenvalues=tuple((values + lift).tolist())))
    found, known = replace(channel, spectral_shift=lift).overlaps(hats), moved.overlaps(hats)
    assert (found.q, found.sigma, found.tau, found.rank) == pytest.approx(
        (known.q, known.sigma, known.tau, known.rank), rel=1e-8
    )
    assert found.m == pytest.approx(known.m - lift * known.tau, rel=1e-8)
    assert found.map.eps == pytest.approx(known.map.eps - lift, rel=1e-8)


@pytest.mark.parametrize("kurtosis", [1.0, 9.0])
def test_the_plateau_is_the_best_map(kurtosis):
    """No map W'W along a path through the plateau does better, where the target has negative eigenvalues (P11.4)."""
    rng = np.random.default_rng(4)
    values = np.sort(rng.normal(0.4, 1.0, 40))
    task = Task(target=Atoms(eigenvalues=tuple(values.tolist())), kurtosis=kurtosis)
    problem = build_state_evolution(task, Learner(leading=0))
    lowest = plateau_of(problem).test_error
    tau = values.mean()
    for lift in np.linspace(-1.0, 1.0, 9):
        kept = np.maximum(values + lift, 0.0)
        for c in (0.7, 0.8, 0.85, 0.9):
            own = c * kept
            q, m, t = np.mean(own**2), np.mean(own * values), own.mean()
            assert problem.output.fresh_loss(q - t**2, m - t * tau, t, loss="squared") > lowest - 1e-8


def test_labels_that_show_the_trace_alone_are_refused():
    alike = Atoms(eigenvalues=(1.0,) * 40)
    with pytest.raises(InvalidArgument, match="kurtosis must be 3 for a target whose eigenvalues are all equal"):
        build_state_evolution(Task(target=alike, kurtosis=1.0, noise=0.0), Learner())
    assert build_state_evolution(Task(target=alike, kurtosis=1.0), Learner(leading=0)).directions.count == 1


@pytest.mark.parametrize("param", ["factorised", "direct"])
@pytest.mark.parametrize("kurtosis", [1.0, 9.0])
def test_the_limit_of_little_weight_decay(param, kurtosis):
    """The equations at λ = 1e-6 and 1e-8 approach those of labels that are fitted exactly, slower the larger the
    kurtosis (P11.6).
    """
    problem = equations(kurtosis, param=param)
    for alpha in (0.05, 0.11):
        known = problem.interpolating(problem.input.interpolating(problem.labels, alpha).overlaps)
        gaps = []
        for decay in (1e-6, 1e-8):
            found = solve(problem.with_decay(problem.units.reduced_decay(decay)), alpha)
            gaps.append(abs(found.overlaps.q / known.q - 1.0))
        assert gaps[1] < 0.01
        assert gaps[1] < 0.2 * gaps[0]
        assert found.overlaps.learned == pytest.approx(known.learned, rel=0.01)
        assert found.hats.effective == pytest.approx(known.effective, rel=0.01)


def test_interpolation_moves_and_recovery_does_not():
    """At interpolation a map that fits exactly needs no weight decay to be found: its threshold is that of no decay
    (P11.6).
    """
    ratios = []
    for kurtosis in (1.0, 3.0, 9.0):
        problem = equations(kurtosis)
        ratio, state = problem.input.interpolation(problem.labels)
        ratios.append(ratio)
        tau, told, shown = (
            state.overlaps.tau,
            problem.output.directions.target_eigenvalues[0],
            problem.directions.trace_gain,
        )
        assert state.overlaps.map.eps == pytest.approx(-shown * (told - tau), abs=1e-10)
        below = problem.input.interpolating(problem.labels, ratio * (1.0 - 1e-9))
        assert below.overlaps.q == pytest.approx(state.overlaps.q, rel=1e-3)  # it is met as the root of the distance
        clean = equations(kurtosis, noise=0.0)
        assert clean.recovery == equations(3.0, noise=0.0).recovery
        near = clean.input.interpolating(clean.labels, 0.99 * clean.recovery).overlaps  # from below it is the target
        assert near.m**2 / (near.q * clean.target_power) > 0.99
    assert ratios[0] > ratios[1] > ratios[2]
    assert ratios[1] == pytest.approx(0.1534821, abs=1e-7)


def test_a_narrow_target_keeps_its_trace():
    """κ₀ small: most of the logit of a token with itself is not the trace, and the kurtosis hardly matters."""
    narrow, wide = (Task(target=MarchenkoPastur(kappa0=k), kurtosis=1.0) for k in (0.01, 10.0))
    shares = []
    for task in (narrow, wide):
        known = build_state_evolution(task, Learner()).output.directions
        shares.append(known.target_eigenvalues[0] ** 2 / (known.bulk_power + known.target_eigenvalues[0] ** 2))
    assert shares[0] < 0.02
    assert shares[1] > 0.9
