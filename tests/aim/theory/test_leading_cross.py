"""Leading directions of cross-attention: logits of a row given its query, what the data say of a direction, what the
map learns of it.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq

from onehead.aim import Atoms, Learner, MarchenkoPastur, PowerLaw, Spikes, Task
from onehead.aim.solve.strategy import isotropic_coordinates
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.input.leading import leading_directions
from onehead.aim.theory.limits.emergence import emergence_ratio
from onehead.aim.theory.limits.infinite_data import plateau_of
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.theory.output.leading_fresh_cross import CrossRowLaw, cross_control_means, cross_controls
from onehead.aim.theory.output.leading_fresh_tied import cross_entropy, squared_error
from onehead.spectra.atoms import AtomsSemicircle

CROSS = Task(target=PowerLaw(gamma=0.75, dim=100), attention="cross")
SURE = 4.5  # standard errors


def equations(task=CROSS, count=3, **learner):
    return build_state_evolution(task, Learner(leading=count, **learner))


def sampled_rows(strengths, rest, columns, rng, size):
    """Logits of a row of label and learner from a query and its keys: (size, columns) each, and x y of every
    direction.
    """
    x, y = rng.standard_normal((size, len(strengths[0]), 1)), rng.standard_normal((size, len(strengths[0]), columns))
    z = rng.standard_normal((size, columns, 2)) @ np.linalg.cholesky(rest).T
    logits = [np.einsum("nkb,k->nb", x * y, own) + z[:, :, who] for who, own in enumerate(strengths)]
    return logits, x * y


def softmax(logits):
    top = np.exp(logits - logits.max(axis=1, keepdims=True))
    return top / top.sum(axis=1, keepdims=True)


LAWS = [
    ((0.62, 0.37, 0.27), (0.49, 0.25, 0.15), (0.55, 0.5, 0.3)),
    ((0.86,), (0.2,), (0.4, 0.03, 0.05)),
    ((1.5, 0.8), (0.9, -0.1), (0.3, 0.2, 0.2)),
]


@pytest.mark.parametrize(("label", "own", "rest"), LAWS)
def test_two_columns_need_no_sampling(label, own, rest):
    """Errors, and the means of the controls, against logits drawn from their definition."""
    rng, size = np.random.default_rng(5), 400_000
    law = CrossRowLaw(np.array(label), np.array(own), *rest)
    x = rng.standard_normal((size, len(label)))
    keys = np.diff(rng.standard_normal((size, len(label), 2)), axis=2)[:, :, 0]
    z = np.diff(rng.standard_normal((size, 2, 2)), axis=1)[:, 0]
    z = z @ np.linalg.cholesky(np.array([[rest[0], rest[2]], [rest[2], rest[1]]])).T
    u, v = ((x * keys) @ np.array(one) + z[:, who] for who, one in enumerate((label, own)))
    sig = [1.0 / (1.0 + np.exp(-logits)) for logits in (u, v)]
    drawn = {
        squared_error: 4.0 * (sig[1] - sig[0]) ** 2,  # two rows of two columns each
        cross_entropy: 2.0 * (np.logaddexp(0.0, v) - sig[0] * v),
    }
    for formula, values in drawn.items():
        assert abs(formula(law) - values.mean()) < SURE * values.std() / np.sqrt(size)
    found = cross_controls(u[:, None], v[:, None], x**2)
    off = (found.mean(axis=0) - cross_control_means(law)) * np.sqrt(size) / found.std(axis=0)
    assert np.abs(off).max() < SURE


@pytest.mark.parametrize("tokens", [2, 3, 4])
def test_fresh_errors_are_those_of_drawn_tokens(tokens):
    """All rows of a sample, from queries and keys; the shortcut by way of the query's squares is ours alone."""
    output, rng, size = equations(CROSS.changed(tokens=tokens)).output, np.random.default_rng(tokens), 300_000
    pair = (0.3, 0.25, 0.5, 0.3, 0.1)
    rest = np.array([[output.bulk_label_power, pair[1]], [pair[1], pair[0]]])
    (u, v), _ = sampled_rows((output.directions.target_eigenvalues, pair[2:]), rest, tokens, rng, size)
    y, p = softmax(u), softmax(v)
    drawn = {"squared": np.sum((p - y) ** 2, axis=1), "cross-entropy": -np.sum(y * np.log(p), axis=1)}
    for name, values in drawn.items():
        error = SURE * tokens * values.std() / np.sqrt(size) + 3.0 * output.fresh_loss_error(*pair, loss=name)
        assert abs(output.fresh_loss(*pair, loss=name) - tokens * values.mean()) < error


@pytest.mark.parametrize("tokens", [2, 3])
def test_plateau_with_all_directions_is_that_of_sampled_logits(tokens):
    """All of them exactly, against logits of the map itself (c S*, drawn tokens): no Gaussian part but the noise."""
    problem = equations(Task(target=PowerLaw(gamma=1.25, dim=20), attention="cross", tokens=tokens), 20)
    end, rng = plateau_of(problem), np.random.default_rng(8)
    told = np.array(problem.output.directions.target_eigenvalues)
    (u, v), _ = sampled_rows((told, end.c * told), np.diag([0.25, 1e-300]), tokens, rng, 300_000)
    values = tokens * np.sum((softmax(u) - softmax(v)) ** 2, axis=1)
    own = problem.output.fresh_loss_error(*problem.best_map(end.c).values, loss="squared")
    assert abs(end.test_error - values.mean()) < SURE * values.std() / np.sqrt(len(values)) + 3.0 * own


@pytest.mark.parametrize("tokens", [2, 3, 4])
@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
def test_weak_directions_are_gaussian(tokens, loss):
    """Stein's lemma: a singular value among many that are alike is seen as it is, and hats are those of Gaussian
    logits.
    """
    task = Task(target=Atoms(eigenvalues=(1.0,) * 3000), attention="cross", tokens=tokens)
    exact, gaussian = equations(task, 2, loss=loss), equations(task, 0, loss=loss)
    for sigma in (0.1, 0.8):
        state = exact.zero.at(isotropic_coordinates(exact, np.log([0.5, 0.6, sigma]))).state
        found = [exact.output.hats_of(part, *state, derivative=True) for part in exact.output.parts(*state, level=3)]
        known = gaussian.output.hats(0.5, 0.6, sigma, level=3)
        rows = np.array([[*hats.sectors[:, 0], *hats.effective] for hats in found])
        expected = np.array([*known.sectors[:, 0], *exact.output.directions.target_eigenvalues])
        # eight parts: Student's law of seven degrees of freedom; those of the Gaussian theory beyond three tokens are
        # sampled too
        error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows)) + (1e-3 if tokens > 3 else 1e-5) * expected
        # a direction of a share 1/3000 of the power is not quite weak: the correction is of that relative size
        assert np.abs((rows.mean(axis=0) - expected) / (error + 1e-3 * expected)).max() < 5.0


@pytest.mark.parametrize("tokens", [2, 3])
def test_both_forms_of_the_hats_agree_where_nothing_jumps(tokens):
    """Their difference is chance, as the independent parts of the points show it: Student's law of seven degrees of
    freedom.
    """
    output, state = equations(CROSS.changed(tokens=tokens)).output, (0.3, 0.35, 0.4, 0.2, 0.1, 0.3)
    parts = output.parts(*state, level=3)
    forms = [[output.hats_of(part, *state, derivative=form) for part in parts] for form in (False, True)]
    stein, derivative = (np.array([[*hats.sectors[1:, 0], *hats.effective] for hats in form]) for form in forms)
    gap = (stein - derivative) / derivative.mean(axis=0)
    error = gap.std(axis=0, ddof=1) / np.sqrt(len(gap))
    assert np.abs(gap.mean(axis=0) / error).max() < 5.5
    assert error.max() < 5e-3  # so that it says something


def test_hats_are_averages_over_the_definition():
    """qhat, the responses and the fields along x y, against plain Monte Carlo with a prox of its own, T = 2."""
    output, sigma = equations(count=2).output, 0.5
    pair = (0.3, 0.3, 0.4, 0.25)
    rng, size = np.random.default_rng(3), 200_000
    rest = np.array([[output.bulk_label_power, pair[1]], [pair[1], pair[0]]])
    (u, v), products = sampled_rows((output.directions.target_eigenvalues, pair[2:]), rest, 2, rng, size)
    u, v, upsilon = u[:, 0] - u[:, 1], v[:, 0] - v[:, 1], products[:, :, 0] - products[:, :, 1]
    y, w = 1.0 / (1.0 + np.exp(-u)), v.copy()
    for _ in range(200):  # (w - v)²/(4 sigma) + 2 (sig(w) - y)², by small steps: its curvature is at most 1.5
        p = 1.0 / (1.0 + np.exp(-w))
        w -= 0.6 * (0.5 * (w - v) / sigma + 4.0 * (p - y) * p * (1.0 - p))
    pull = 0.5 * (w - v)
    hats = output.hats(*pair, sigma, level=3)
    distance = 2.0 * pull * (w - v) / sigma**2  # two rows
    assert abs(distance.mean() - hats.q) < SURE * distance.std() / np.sqrt(size)
    along = 2.0 * pull[:, None] * upsilon / sigma
    expected = np.array(hats.effective) * hats.m - hats.sigma * np.array(pair[2:])
    assert np.abs((along.mean(axis=0) - expected) / along.std(axis=0)).max() < SURE / np.sqrt(size)


def test_learned_elements_are_slopes_of_the_integral():
    """θ_k = c (d/2) dJ/dλ_k: what the map has in a direction, by differences."""
    channel, hats = replace(equations().input, decay=0.04), Hats(0.05, 0.2, 0.22)
    values = channel.target.values
    where = channel.overlaps(hats).map
    for k in (0, 1, 5, 60):
        moved = []
        for step in (1e-4, -1e-4):
            other = values.copy()
            other[k] += step
            moved.append(replace(channel, target=Atoms(eigenvalues=tuple(other))).integrals(where.s, where.eps).J)
        slope = where.slope * 0.5 * len(values) * (moved[0] - moved[1]) / 2e-4
        assert channel.learned(where, values[[k]])[0] == pytest.approx(slope, rel=1e-3)  # of the differences


def test_learned_elements_are_those_of_sampled_matrices():
    """u' S v with S the noisy target, its singular values thresholded."""
    d, s, eps = 400, 0.5, 0.6
    target = Spikes(spikes=(3.0, 1.5, 1.0), dim=d, bulk=MarchenkoPastur(kappa0=0.5))
    channel = equations(Task(target=target, attention="cross"), 0, weight_decay=eps).input
    rng, found = np.random.default_rng(1), []
    for _ in range(6):
        left, x, right = np.linalg.svd(np.diag(target.values) + np.sqrt(s / d) * rng.standard_normal((d, d)))
        found.append([left[k] * right[:, k] @ np.clip(x - eps, 0.0, None) for k in (0, 10, 200)])
    told = channel.learned(channel.overlaps(Hats(s, 1.0, 1.0)).map, target.values[[0, 10, 200]])
    error = np.std(found, axis=0, ddof=1) / np.sqrt(6)
    assert np.abs((np.mean(found, axis=0) - told) / error).max() < 6.0  # Student's law of five degrees of freedom


def test_elements_of_all_directions_make_m():
    """sum λ_k θ_k/d = m: nothing of the target is out of any direction."""
    channel, hats = replace(equations().input, decay=0.04), Hats(0.05, 0.2, 0.22)
    whole, values = channel.overlaps(hats), channel.target.values
    assert values @ channel.learned(whole.map, values) / len(values) == pytest.approx(whole.m, rel=1e-6)


@pytest.mark.parametrize("param", ["factorised", "direct"])
def test_overlaps_are_split_and_add_up(param):
    problem = equations(param=param, weight_decay=0.05)
    assert problem.directions.count == 3
    hats = Hats(0.05, 0.3, 0.35, tuple(0.9 * one for one in problem.output.directions.target_eigenvalues))
    split = problem.overlaps_of(hats)
    whole = problem.channel_at(hats).overlaps(hats)
    assert split.q == pytest.approx(whole.q, rel=1e-12)
    assert split.sectors[1, 0] + np.dot(split.learned, hats.effective) == pytest.approx(whole.m, rel=1e-12)
    assert 0.0 < split.sectors[0, 0] < whole.q
    assert problem.zero.at(split.coordinates).state == pytest.approx(split.state, rel=1e-12)


def test_the_rank_moves_to_first_order():
    """Against twice the exact mass above the threshold, at hats a little apart: what is left is of second order."""
    problem = equations(weight_decay=0.4)
    told = np.array(problem.output.directions.target_eigenvalues)

    def at(step):
        hats = Hats(1.0 + step, 2.0 - step, 1.5 + step, tuple((0.9 + step) * told))
        channel = problem.channel_at(hats)
        return hats, 2.0 * channel.law(hats.q / hats.m**2).mass_above(channel.threshold(hats.m))

    here, rank = at(0.0)
    assert problem.overlaps_of(here).rank == pytest.approx(rank, abs=1e-8)  # panels miss 1e-9 each
    for step in (1e-3, -1e-3):
        hats, exact = at(step)
        change = problem.overlaps_near(hats, problem.overlaps_of(here)).rank - rank
        assert change == pytest.approx(exact - rank, rel=1e-2)
        assert abs(change) > 1e-5


def test_signs_of_a_target_play_no_part():
    """An untied head sees singular values: its directions are those of the absolute values, largest first."""
    signed = Task(target=Spikes(spikes=(3.0, -6.0, 1.8), dim=100), attention="cross")
    plain = Task(target=Spikes(spikes=(6.0, 3.0, 1.8), dim=100), attention="cross")
    assert leading_directions(signed, 2) == leading_directions(plain, 2)


def test_emergence_is_where_the_first_singular_value_reaches_the_threshold():
    """By a field at zero logits that is drawn from tokens, and the edge of the law of that spike over zeros."""
    problem = equations(Task(target=Spikes(spikes=(8.0,), dim=100), attention="cross"), 1, weight_decay=0.3)
    rng, size, told = np.random.default_rng(4), 2_000_000, np.array(problem.output.directions.target_eigenvalues)
    rest = np.array([[problem.output.bulk_label_power, 0.0], [0.0, 1e-300]])
    (u, _), products = sampled_rows((told, 0.0 * told), rest, 2, rng, size)
    upsilon, difference = products[:, 0, 0] - products[:, 0, 1], u[:, 0] - u[:, 1]
    y = 1.0 / (1.0 + np.exp(-difference))
    # the gradient of 2 (sig(w) - y)² at w = 0 is 1/2 - y; two rows, C = 2
    q0, m0 = 2.0 * np.mean(2.0 * (y - 0.5) ** 2), 2.0 * np.mean(2.0 * y * (1.0 - y))
    spike = 2.0 * np.mean((y - 0.5) * upsilon) / m0 * np.sqrt(100.0)
    assert spike < 0.9 * 8.0

    def passed(log_alpha):
        alpha = np.exp(log_alpha)
        law = AtomsSemicircle([spike] + 99 * [0.0], q0 / (alpha * m0**2), sides=2)
        return law.edges[-1][1] - 0.3 / (alpha * m0)

    expected = np.exp(brentq(passed, np.log(0.01), np.log(1.0)))
    assert emergence_ratio(problem) == pytest.approx(expected, rel=3e-3)  # of the drawn tokens
    gaussian = emergence_ratio(
        equations(Task(target=Spikes(spikes=(8.0,), dim=100), attention="cross"), 0, weight_decay=0.3)
    )
    assert gaussian < 0.9 * expected
