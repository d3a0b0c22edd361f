"""Several heads: averages of their modes, and the input channel that joins the modes (M2, M3)."""

import numpy as np
import pytest

from onehead.aim import Learner, Task
from onehead.aim.theory.build import build_several_heads, build_state_evolution
from onehead.aim.theory.input.several_heads import ModeHats, SampledHeads, SeveralHeadsInput
from onehead.aim.theory.output.several_heads import HeadModes, ModeState, SeveralHeadsOutput

STATE = ModeState(np.array([0.84, 0.70]), np.array([0.83, 0.76]), np.array([1.85, 3.58]), np.ones(2))


def problem(sharing=0.5, *, heads=2, tokens=2, **learner):
    task = Task(attention="cross", heads=heads, sharing=sharing, tokens=tokens)
    return build_several_heads(task, Learner(**{"weight_decay": 0.05, **learner}))


def sampled_averages(output, state, count, seed=0):
    """Averages of M2 by Monte Carlo and a general minimiser, in the logits themselves."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(seed)
    H, T, Q, rho = output.modes.heads, output.tokens, output.label_power, output.modes.sharing
    ones = np.full((H, H), 1.0 / H)
    spread = lambda pair: pair[0] * ones + pair[1] * (np.eye(H) - ones)  # noqa: E731
    precision = np.linalg.inv(spread(state.sigma))
    G, B = (1.0 - rho) * np.eye(H) + rho, spread(state.scales)
    slope, rest = spread(state.m) / Q, np.linalg.cholesky(spread(state.q - state.m**2 / Q))

    def softmax(x):
        p = np.exp(x - x.max(axis=-1, keepdims=True))
        return p / p.sum(axis=-1, keepdims=True)

    q_hat, losses = [], []
    for _ in range(count):
        target = np.sqrt(Q) * rng.standard_normal((H, T))
        v, y = slope @ target + rest @ rng.standard_normal((H, T)), softmax(target)

        def objective(x, v=v, y=y):
            u = x.reshape(H, T)
            r = B @ softmax(u) - y
            return np.sum(r * (G @ r)) + 0.5 * np.sum((u - v) * (precision @ (u - v)))

        u = minimize(objective, target.ravel(), method="BFGS", options={"gtol": 1e-7}).x.reshape(H, T)
        e = precision @ (u - v)
        r = B @ softmax(u) - y
        mean = e.mean(axis=0)
        q_hat.append(T * np.array([H * mean @ mean, (np.sum(e * e) - H * mean @ mean) / (H - 1)]))
        losses.append(T * np.sum(r * (G @ r)))
    return np.array(q_hat), np.array(losses)


@pytest.mark.parametrize(("heads", "tokens", "scales"), [(2, 2, (1.0, 1.0)), (2, 3, (1.0, 1.0)), (3, 2, (0.9, 1.3))])
def test_averages_agree_with_monte_carlo(heads, tokens, scales):
    output = problem(0.5, heads=heads, tokens=tokens).output
    state = ModeState(STATE.q, STATE.m, STATE.sigma, np.array(scales))
    found = output.averages(state, 0, derivatives=True)
    q_hat, losses = sampled_averages(output, state, 144)
    # 144 samples: four standard errors, whose own error is a few per cent
    assert abs(losses.mean() - found.loss) < 4.0 * losses.std() / 12.0
    assert np.all(np.abs(q_hat.mean(axis=0) - found.q_hat) < 4.0 * q_hat.std(axis=0) / 12.0)


@pytest.mark.parametrize("sharing", [0.2, 0.5, -0.5])
def test_derivative_and_stein_forms_agree_where_nothing_jumps(sharing):
    found = problem(sharing).output.averages(STATE, 2, derivatives=True)
    # the lattice of spacing 0.6 resolves both to about 1e-5
    np.testing.assert_allclose(found.sigma_stein, found.sigma_derivative, rtol=3e-5)
    np.testing.assert_allclose(found.m_stein, found.m_derivative, rtol=3e-5)


def test_without_shared_values_the_modes_have_the_averages_of_one_head():
    output = problem(0.5).output
    alone = SeveralHeadsOutput(HeadModes(2, 0.0), output.single)
    q, m, sigma = 0.788357, 0.806382, 2.40468
    found = alone.averages(ModeState(*(np.full(2, x) for x in (q, m, sigma)), np.ones(2)), 4, derivatives=True)
    hats = output.single.hats(q, m, sigma, level=1)
    np.testing.assert_allclose(found.q_hat, hats.q, rtol=1e-5)
    np.testing.assert_allclose(found.m_derivative, hats.m, rtol=1e-5)
    np.testing.assert_allclose(found.sigma_derivative, hats.sigma, rtol=1e-5)


def test_fresh_error_agrees_with_monte_carlo():
    state = ModeState(STATE.q, STATE.m, STATE.sigma, np.array([0.9, 1.2]))
    output, rng, count = problem(0.5).output, np.random.default_rng(1), 200_000
    z, w = rng.standard_normal((2, count, 2, 2))  # sample, mode, column
    label = np.sqrt(output.label_power) * z
    own = (state.m / output.label_power)[:, None] * label
    own = own + np.sqrt(state.q - state.m**2 / output.label_power)[:, None] * w
    turn = np.array([[1.0, 1.0], [1.0, -1.0]]) / np.sqrt(2.0)
    p, y = (np.exp(turn @ x) / np.exp(turn @ x).sum(axis=-1, keepdims=True) for x in (own, label))
    r = state.scales[:, None] * (turn @ p) - turn @ y
    errors = 2.0 * np.sum(output.modes.gains[:, None] * r * r, axis=(1, 2))
    assert abs(output.fresh_error(state) - errors.mean()) < 4.0 * errors.std() / np.sqrt(count)


HATS = ModeHats(np.array([0.0434, 0.0088]), np.array([0.4160, 0.1797]), np.array([0.4656, 0.2038]))


def test_direct_training_agrees_with_its_minimiser():
    channel = problem(param="direct").input
    found, rng, d = channel.overlaps(HATS), np.random.default_rng(0), 300
    for c in range(2):
        target, noise = rng.standard_normal((2, d, d)) / np.sqrt(d)
        S = (HATS.m[c] * target + np.sqrt(HATS.q[c]) * noise) / (HATS.sigma[c] + 2.0 * 0.05)
        # entries fluctuate by sqrt(2)/d
        assert np.sum(S * S) / d == pytest.approx(found.q[c], rel=0.02)
        assert np.sum(S * target) / d == pytest.approx(found.m[c], rel=0.02)


def test_equal_fields_of_the_modes_give_one_head():
    single = build_state_evolution(Task(attention="cross"), Learner(weight_decay=0.05))
    hats = ModeHats(*(np.full(2, x) for x in (0.022844, 0.30304, 0.3409)))
    found = SeveralHeadsInput(HeadModes(4, 0.5), single.input).overlaps(hats)
    one = single.overlaps_of(single.hats(0.022844, 0.30304, 0.3409))
    np.testing.assert_allclose([found.q, found.m, found.sigma], [[x] * 2 for x in (one.q, one.m, one.sigma)], rtol=1e-7)
    assert found.rank == pytest.approx(one.rank, abs=1e-9)


@pytest.mark.slow
def test_expectation_consistency_agrees_with_sampled_maps():
    channel = problem().input
    found = channel.overlaps(HATS)
    draws = [SampledHeads.of(channel, 60, seed).at(HATS) for seed in range(4)]
    for name, allowed in (("q", 0.04), ("m", 0.03), ("sigma", 0.05)):  # terms of 1/d and 4 draws of 2-3 %
        mean = np.mean([getattr(draw, name) for draw in draws], axis=0)
        np.testing.assert_allclose(mean, getattr(found, name), rtol=allowed)
    assert np.mean([draw.rank for draw in draws]) == pytest.approx(found.rank, abs=0.02)


def test_the_alarm_is_silent_where_modes_are_alike_and_loud_where_differences_are_weak():
    channel = problem(0.9).input
    alike = ModeHats(*(np.full(2, x) * [1.0, 1.0 + 1e-6] for x in (0.022844, 0.30304, 0.3409)))
    assert channel.alarm(alike, channel.overlaps(alike), 0.5) < 1e-3
    # the point alpha = 0.5, rho = 0.95, where training is 15 % above expectation consistency in m_1
    weak = ModeHats(np.array([0.0447, 0.0015]), np.array([0.2800, 0.0280]), np.array([0.3100, 0.0387]))
    assert channel.alarm(weak, channel.overlaps(weak), 0.5) > 0.004
