"""Leading directions of a target: which they are, their logits, what the input channel makes of them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onehead.aim import Atoms, Learner, MarchenkoPastur, PowerLaw, Product, Spikes, Task
from onehead.aim.solve.strategy import isotropic_coordinates
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.input.leading import excess_kurtosis, leading_count
from onehead.aim.theory.limits.emergence import emergence_ratio
from onehead.aim.theory.limits.infinite_data import plateau_of
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.theory.output.leading_fresh_cross import CrossRowLaw
from onehead.aim.theory.output.leading_fresh_tied import (
    TiedRowLaw,
    control_means,
    controls,
    cross_entropy,
    squared_error,
)
from onehead.errors import InvalidArgument

POWER = Task(target=PowerLaw(gamma=0.75, dim=100))
SURE = 4.5  # standard errors


def equations(task=POWER, count=3, **learner):
    return build_state_evolution(task, Learner(leading=count, **learner))


def problem_state(problem, q, m, sigma):
    """The state whose directions are learned as well as all else."""
    return problem.zero.at(isotropic_coordinates(problem, np.log([q, m, sigma]))).state


def sampled_logits(strengths, rest, rng, size):
    """Logit differences h_11 - h_12 and h_22 - h_12 of two tokens, from the tokens: of label and learner."""
    x = rng.standard_normal((size, len(strengths[0]), 2))
    upsilon = np.stack([x[:, :, i] ** 2 - 1.0 - x[:, :, 0] * x[:, :, 1] for i in (0, 1)], axis=-1)
    z = rng.standard_normal((size, 3, 2)) @ np.linalg.cholesky(rest).T  # z_11, z_22, z_12: label, learner
    gaussian = [np.stack([np.sqrt(2.0) * z[:, i, who] - z[:, 2, who] for i in (0, 1)], axis=-1) for who in (0, 1)]
    return [np.einsum("nki,k->ni", upsilon, own) + part for own, part in zip(strengths, gaussian, strict=True)], upsilon


LAWS = [
    ((0.62, 0.37, 0.27), (0.49, 0.25, 0.15), (0.55, 0.5, 0.3)),
    ((0.86,), (0.2,), (0.4, 0.03, 0.05)),
    ((1.5, -0.8), (0.9, -0.1), (0.3, 0.2, 0.2)),
]


@pytest.mark.parametrize(("label", "own", "rest"), LAWS)
def test_two_tokens_need_no_sampling(label, own, rest):
    """Errors, and the means of the controls, against logits drawn from their definition."""
    rng, size = np.random.default_rng(5), 400_000
    law = TiedRowLaw(np.array(label), np.array(own), *rest)
    (u, v), upsilon = sampled_logits((label, own), np.array([[rest[0], rest[2]], [rest[2], rest[1]]]), rng, size)
    sig = [1.0 / (1.0 + np.exp(-logits)) for logits in (u, v)]
    drawn = {
        squared_error: 2.0 * np.sum((sig[1] - sig[0]) ** 2, axis=1),
        cross_entropy: np.sum(np.logaddexp(0.0, v) - sig[0] * v, axis=1),
    }
    for formula, values in drawn.items():
        assert abs(formula(law) - values.mean()) < SURE * values.std() / np.sqrt(size)
    found = np.empty((size, 3 + 2 * len(label)))
    controls(u, v, upsilon, found)
    off = (found.mean(axis=0) - control_means(law)) * np.sqrt(size) / found.std(axis=0)
    assert np.abs(off).max() < SURE


@pytest.mark.parametrize("law_of", [TiedRowLaw, CrossRowLaw])
@given(
    strengths=st.lists(st.tuples(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5)), min_size=1, max_size=5),
    powers=st.tuples(st.floats(0.1, 2.0), st.floats(0.1, 2.0)),  # less is refused: the law of a logit must be smooth
    cosine=st.floats(-1.0, 1.0),
)
def test_errors_of_two_tokens_are_errors(law_of, strengths, powers, cosine):
    """Between zero and four (two rows that are sure and wrong), zero for the label itself, and no cross-entropy below
    that of the label.
    """
    label, own = np.array(strengths).T
    law = law_of(label, own, *powers, cosine * np.sqrt(powers[0] * powers[1]))
    same = law_of(label, label, powers[0], powers[0], powers[0])
    assert 0.0 <= squared_error(law) < 4.0 + 1e-8
    assert 0.0 <= squared_error(same) < 1e-8
    assert cross_entropy(law) > cross_entropy(same) - 1e-7


@pytest.mark.parametrize(("law_of", "attention"), [(TiedRowLaw, "tied"), (CrossRowLaw, "cross")])
def test_without_directions_errors_are_those_of_gaussian_logits(law_of, attention):
    gaussian = equations(POWER.changed(attention=attention), 0).output
    for q, m in ((0.8, 0.7), (0.1, 0.25)):
        law = law_of(np.zeros(1), np.zeros(1), gaussian.label_power, q, m)
        for name, formula in (("squared", squared_error), ("cross-entropy", cross_entropy)):
            # the lattice is good to 1e-9
            assert formula(law) == pytest.approx(gaussian.fresh_loss(q, m, loss=name), rel=1e-8)


@pytest.mark.parametrize(
    ("gamma", "count", "plateau", "nothing"),
    [
        (0.75, 1, 0.08836, None),
        (0.75, 2, 0.08879, None),
        (0.75, 3, 0.08883, 0.3638),
        (1.25, 1, 0.0942, None),
        (1.25, 3, 0.0938, 0.3390),
        (1.25, 5, 0.0937, None),
    ],
)
def test_plateau_of_the_theory_file(gamma, count, plateau, nothing):
    """Its figures, which are averages over Sobol points (errors .00004), and those of no map."""
    problem = equations(Task(target=PowerLaw(gamma=gamma, dim=200)), count)
    assert plateau_of(problem).test_error == pytest.approx(plateau, abs=1e-4)
    if nothing is not None:
        assert problem.output.fresh_loss(*problem.zero.values, loss="squared") == pytest.approx(nothing, abs=3e-4)


def test_plateau_with_all_directions_is_that_of_sampled_logits():
    """All of them exactly, against logits of the map itself (c S*, drawn tokens): no Gaussian part but the noise."""
    task = Task(target=PowerLaw(gamma=1.25, dim=20))
    problem = equations(task, 20)
    end, rng = plateau_of(problem), np.random.default_rng(8)
    told = np.array(problem.output.directions.target_eigenvalues)
    (u, v), _ = sampled_logits((told, end.c * told), np.diag([0.25, 1e-300]), rng, 300_000)
    values = np.sum((np.tanh(0.5 * u) - np.tanh(0.5 * v)) ** 2, axis=1) / 2.0
    assert abs(end.test_error - values.mean()) < SURE * values.std() / np.sqrt(len(values))


@pytest.mark.parametrize(
    ("gamma", "dim", "count", "samples"),
    [(0.75, 100, 3, 1765), (0.75, 100, 1, 1784), (0.75, 100, 5, 1761), (0.75, 200, 3, 5258), (1.25, 100, 3, 1435)],
)
def test_emergence_of_the_theory_file(gamma, dim, count, samples):
    problem = equations(Task(target=PowerLaw(gamma=gamma, dim=dim)), count, weight_decay=1.0)
    assert emergence_ratio(problem) * dim**2 == pytest.approx(samples, rel=1.5e-3)  # both by sampled points


@pytest.mark.parametrize("tokens", [2, 3])
def test_weak_directions_are_gaussian(tokens):
    """Stein's lemma: an eigenvalue among many that are alike is seen as it is, and hats are those of Gaussian
    logits.
    """
    task = Task(target=Atoms(eigenvalues=(1.0,) * 3000), tokens=tokens)
    exact, gaussian = equations(task, 2), build_state_evolution(task, Learner(leading=0))
    for sigma in (0.1, 0.8):
        state = problem_state(exact, 0.5, 0.6, sigma)
        found = [exact.output.hats_of(part, *state, derivative=True) for part in exact.output.parts(*state, level=3)]
        known = gaussian.output.hats(0.5, 0.6, sigma, level=3)
        rows = np.array([[*hats.sectors[:, 0], *hats.effective] for hats in found])
        expected = np.array([*known.sectors[:, 0], *exact.output.directions.target_eigenvalues])
        # eight parts: Student's law of seven degrees of freedom; those of the Gaussian theory beyond two tokens are
        # sampled too
        error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows)) + (0.0 if tokens == 2 else 2e-3 * expected)
        assert np.abs((rows.mean(axis=0) - expected) / error).max() < 5.0
        assert error[:3] == pytest.approx(0.0, abs=1e-2 * float(known.sectors.max()))


def test_both_forms_of_the_hats_agree_where_nothing_jumps():
    output = equations().output
    state = (0.3, 0.35, 0.4, 0.2, 0.1, 0.3)
    averages = output.averages(*state, level=3, detail=1)
    stein, derivative = (output.hats_of(averages, *state, derivative=form) for form in (False, True))
    assert stein.sectors == pytest.approx(derivative.sectors, rel=1e-4)  # controls make them the same but for rounding
    assert stein.effective == pytest.approx(derivative.effective, rel=1e-3)


def test_hats_are_averages_over_the_definition():
    """qhat and the fields, against plain Monte Carlo with a prox of its own."""
    from scipy.optimize import minimize

    problem = equations(count=2)
    output, sigma = problem.output, 0.5
    pair = (0.3, 0.3, 0.4, 0.25)
    told, Q, rng, size = (
        np.array(output.directions.target_eigenvalues),
        output.bulk_label_power,
        np.random.default_rng(3),
        1500,
    )
    rest = np.array([[Q, pair[1]], [pair[1], pair[0]]])
    (u, v), upsilon = sampled_logits((told, np.array(pair[2:])), rest, rng, size)
    metric = np.array([[3.0, -1.0], [-1.0, 3.0]]) / 8.0

    def prox(label, start):
        y = 1.0 / (1.0 + np.exp(-label))

        def cost(w):
            return 0.5 * (w - start) @ metric @ (w - start) / sigma + 2.0 * np.sum((1.0 / (1.0 + np.exp(-w)) - y) ** 2)

        return minimize(cost, label, tol=1e-10).x

    moved = np.array([prox(a, b) - b for a, b in zip(u, v, strict=True)])
    pull = moved @ metric
    hats = output.hats(*pair, sigma, level=3)
    distance = np.einsum("ni,ni->n", pull, moved)
    assert abs(2.0 * distance.mean() / sigma**2 / hats.q - 1.0) < SURE * distance.std() / distance.mean() / np.sqrt(
        size
    )
    along = np.einsum("ni,nki->nk", pull, upsilon) * 2.0 / sigma
    expected = np.array(hats.effective) * hats.m - hats.sigma * np.array(pair[2:])
    assert np.abs((along.mean(axis=0) - expected) / along.std(axis=0)).max() < SURE / np.sqrt(size)


def test_learned_elements_are_slopes_of_the_integral():
    """θ_k = c (d/2) dJ/dλ_k: what the map has in a direction, by differences."""
    channel, hats = equations().input, Hats(0.05, 0.2, 0.22)
    channel = replace(channel, decay=0.02)
    values = channel.target.values
    where = channel.overlaps(hats).map
    for k in (0, 1, 5):
        moved = []
        for step in (1e-4, -1e-4):
            other = values.copy()
            other[k] += step
            moved.append(replace(channel, target=Atoms(eigenvalues=tuple(other))).integrals(where.s, where.eps).J)
        slope = where.slope * 0.5 * len(values) * (moved[0] - moved[1]) / 2e-4
        assert channel.learned(where, values[[k]])[0] == pytest.approx(slope, rel=1e-4)  # of the differences


def test_learned_elements_are_those_of_sampled_matrices():
    d, s, eps = 400, 0.3, 0.9
    target = Spikes(spikes=(3.0, 1.5), dim=d, bulk=MarchenkoPastur(kappa0=0.5))
    channel = build_state_evolution(Task(target=target), Learner(leading=0, weight_decay=1.0)).input
    hats = Hats(s, 1.0, 1.0)
    channel = replace(channel, decay=eps / 2.0)
    rng, found = np.random.default_rng(1), []
    for _ in range(6):
        noise = rng.standard_normal((d, d))
        x, basis = np.linalg.eigh(np.diag(target.values) + np.sqrt(s / (2.0 * d)) * (noise + noise.T))
        found.append([basis[k] ** 2 @ np.clip(x - eps, 0.0, None) for k in (0, 1)])
    told = channel.learned(channel.overlaps(hats).map, target.values[:2])
    assert told == pytest.approx(np.mean(found, axis=0), abs=SURE * np.max(np.std(found, axis=0)) / np.sqrt(6))


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


@pytest.mark.parametrize(
    ("task", "count"),
    [
        (Task(target=PowerLaw(gamma=0.75, dim=200)), 4),
        (Task(target=PowerLaw(gamma=1.25, dim=200)), 2),
        (Task(target=PowerLaw(gamma=0.75, dim=30)), 3),  # a tenth of the dimension
        (Task(target=PowerLaw(gamma=0.75, dim=29)), 0),  # too few dimensions
        (Task(target=Spikes(spikes=(6.0, 3.0, 1.8), dim=100)), 3),
        (Task(target=Spikes(spikes=(6.0, -5.0, 0.1), dim=100)), 2),
        (Task(target=PowerLaw(gamma=0.2, dim=200)), 0),
        (
            Task(target=Atoms(eigenvalues=(3.0, 2.0, 1.0) * 10 + (0.0,) * 30)),
            0,
        ),  # ten that are equal, of which six would be too few
        (Task(target=Spikes(spikes=(6.0, 6.0, -6.0), dim=100)), 3),
        (Task(), 0),
        (Task(attention="cross", target=Product()), 0),
        (Task(attention="cross", target=PowerLaw()), 4),
        (Task(attention="cross", target=PowerLaw(), mask="causal"), 0),
        (Task(attention="self", target=PowerLaw()), 0),
        (Task(target=PowerLaw(), mask="causal"), 0),
        (Task(target=PowerLaw(), labels="hard"), 0),
    ],
)
def test_directions_it_takes_by_itself(task, count):
    assert leading_count(task, Learner()) == count


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (Task(target=PowerLaw(), mask="causal"), "not derived there"),
        (Task(target=PowerLaw(), attention="cross", mask="causal"), "not derived there"),
        (Task(target=PowerLaw(), attention="cross", labels="hard"), "not derived there"),
        (Task(target=PowerLaw(), attention="self"), "not derived there"),
        (Task(), "limiting law"),
        (Task(target=Spikes(spikes=(6.0,), dim=100)), "up to 1"),
    ],
)
def test_what_is_not_derived_is_refused_in_a_sentence(task, words):
    with pytest.raises(InvalidArgument, match=words):
        leading_count(task, Learner(leading=3))
    assert leading_count(task, Learner(leading=0)) == 0


def test_what_is_left_is_close_to_gaussian():
    task = Task(target=PowerLaw(gamma=0.75, dim=200))
    left = [excess_kurtosis(task, count) for count in (0, 1, 3)]
    assert left[0] == pytest.approx(task.target.excess_kurtosis)
    assert left == sorted(left, reverse=True)
    assert left[0] > 0.5
    assert left[1] < 0.3


def test_equal_eigenvalues_are_seen_alike():
    task = Task(target=Spikes(spikes=(6.0, 6.0, 3.0), dim=100))
    hats = equations(task).output.hats(0.2, 0.0, 0.4, 0.4, 0.2, 0.3, level=3)
    assert hats.effective[0] == hats.effective[1] > hats.effective[2]


@pytest.mark.parametrize("beta0", [1.0, 1.4])
def test_the_rank_moves_to_first_order(beta0):
    """Against the exact mass above the threshold, at hats a little apart: what is left is of second order."""
    problem = equations(Task(target=PowerLaw(gamma=0.75, dim=100), beta0=beta0), weight_decay=0.05)
    told = np.array(problem.output.directions.target_eigenvalues)

    def at(step):
        hats = Hats(1.0 + step, 2.0 - step, 1.5 + step, tuple((0.9 + step) * told))
        channel = problem.channel_at(hats)
        return hats, channel.law(hats.q / hats.m**2).mass_above(channel.threshold(hats.m))

    here, rank = at(0.0)
    assert problem.overlaps_of(here).rank == pytest.approx(rank, abs=1e-9)
    for step in (1e-3, -1e-3):
        hats, exact = at(step)
        change = problem.overlaps_near(hats, problem.overlaps_of(here)).rank - rank
        assert change == pytest.approx(exact - rank, rel=1e-2)
        assert abs(change) > 1e-5
