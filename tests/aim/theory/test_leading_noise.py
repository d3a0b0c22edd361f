"""The noise of leading directions: its law, its hats, and eigenvectors of a rescaled map."""

from dataclasses import replace

import numpy as np
import pytest

from onehead.aim import Learner, PowerLaw, Task
from onehead.aim.logits.blocks import PARTS
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.output.leading import tied_nodes
from onehead.aim.theory.output.leading_noise import (
    DirectionNoiseEvolution,
    _noise,
    _pieces,
    _rescaled,
    direction_noise_hats,
    points_of,
)

SURE = 4.5  # standard errors
SIZE = 12


def equations(**learner):
    task = Task(target=PowerLaw(gamma=0.75, dim=100))
    return build_state_evolution(task, Learner(**{"leading": 2, "weight_decay": 0.1} | learner))


def test_a_row_of_the_map_adds_logits_of_covariance_u():
    """Logits of random rows S_kj beside U, from tokens: h_ab = sum_j S_kj (x_ak x_bj + x_aj x_bk)/sqrt d, per unit of
    v_k/d.
    """
    rng, d, size = np.random.default_rng(3), 400, 20_000
    at, U = points_of(equations().output.geometry, 2, 5)
    for node in (0, 3):
        # coordinates of the direction, found again from upsilon and U
        one, other, both = np.linalg.solve([[5, 1, -4], [1, 5, -4], [1, 1, -4]], U[node, 1])
        x = np.array([np.sqrt(one), np.copysign(np.sqrt(other), both)])
        np.testing.assert_allclose(at.upsilon[node, 1], [one - 1 - both, other - 1 - both], atol=1e-12)
        row, tokens = rng.standard_normal((size, d)) / np.sqrt(d), rng.standard_normal((size, 2, d))
        along = np.einsum("nj,naj->na", row, tokens)
        h = x[:, None] * along[:, None, :] + along[:, :, None] * x
        u = np.stack([h[:, 0, 0] - h[:, 0, 1], h[:, 1, 1] - h[:, 0, 1]], axis=1)
        products = np.stack([u[:, 0] ** 2, u[:, 1] ** 2, u[:, 0] * u[:, 1]], axis=1)
        off = (products.mean(axis=0) - U[node, 1]) / (products.std(axis=0) / np.sqrt(size))
        assert np.abs(off).max() < SURE


def test_points_are_those_of_the_equations_without_blocks():
    output = equations().output
    at, U = points_of(output.geometry, 2, 8)
    for mine, theirs in zip(at, tied_nodes(output.geometry, 2, 8, False), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_allclose(U.mean(axis=0), [[6.0, 6.0, 2.0]] * 2, rtol=1e-12)  # 2C: points match second moments


def test_noise_has_its_covariance_and_is_the_free_part_without_blocks():
    output = equations().output
    at, U = points_of(output.geometry, 2, SIZE)
    C = output.geometry.blocks[0].covariance
    w, turned = _noise(at.free, U, 0.3, np.zeros(2), C)
    np.testing.assert_allclose(w, np.sqrt(0.3) * at.free, atol=1e-12)
    np.testing.assert_allclose(0.3 * turned @ C, w, atol=1e-12)
    blocks = np.array([0.05, 0.02])
    w, turned = _noise(at.free, U, 0.3, blocks, C)
    a, b, c = np.tensordot(blocks, U, axes=(0, 1)).T
    V = 0.3 * C + np.stack([np.stack([a, c], -1), np.stack([c, b], -1)], -1)
    np.testing.assert_allclose(np.einsum("nij,nj->ni", V, turned), w, atol=1e-12)
    half = np.einsum("ni,nij,nj->n", w, np.linalg.inv(V), w)  # chi squared with two degrees of freedom
    assert abs(half.mean() - 2.0) < SURE * half.std() / np.sqrt(len(half))


@pytest.mark.parametrize("sigma", [0.3, 4.0])
def test_hats_without_blocks_are_those_of_the_rest(sigma):
    """Noise of no size: hats of the rest as ever; a direction of no strength in label and learner has a block like any
    other entry.
    """
    problem = equations()
    state = (0.3, 0.25, 0.3, 0.0, sigma)
    silent = replace(problem.directions, target_eigenvalues=(problem.directions.target_eigenvalues[0], 1e-9))
    output = replace(problem.output, directions=silent)
    found, *parts = direction_noise_hats(output, state, np.full(2, 1e-12), SIZE)
    plain = output.averages(*state, level=2, detail=1)
    expected = output.hats_of(plain, *state, derivative=output.convex_at(sigma))
    spread = np.std(
        [[*part.bulk.sectors[:, 0], part.q_ratio[1], part.sigma_ratio[1]] for part in parts], axis=0
    ) / np.sqrt(len(parts))
    off = np.abs(found.bulk.sectors[:, 0] - expected.sectors[:, 0])
    assert (off < SURE * spread[:3] + 1e-9).all()  # another number of the same points
    assert abs(found.q_ratio[1] - 1.0) < SURE * spread[3]
    assert abs(found.sigma_ratio[1] - 1.0) < SURE * spread[4]
    if output.convex_at(
        sigma
    ):  # a leading one saturates the softmax; Stein forms are too noisy on so few points to show it
        assert found.sigma_ratio[0] < 1.0 - SURE * spread[4]


def test_both_forms_of_the_answer_of_a_block_agree():
    """Derivative and Stein form of Sigmahat_k, where the prox has one minimum."""
    output, blocks = equations().output, np.array([0.02, 0.01])
    pieces = _pieces(output, (0.3, 0.25, 0.3, 0.2, 0.5), blocks, SIZE) * PARTS
    answers, by_noise = pieces[:, 12:14], pieces[:, 14:16]
    apart = (by_noise - answers).mean(axis=0) / ((by_noise - answers).std(axis=0, ddof=1) / np.sqrt(len(pieces)))
    assert np.abs(apart).max() < 5.0  # of eight parts
    assert np.abs(by_noise.mean(axis=0) / answers.mean(axis=0) - 1.0).max() < 0.02


@pytest.mark.parametrize("stretch", [0.9, 1.0, 1.3])
def test_eigenvector_of_a_rescaled_matrix(stretch):
    """D S D of a matrix with one eigenvalue apart, by diagonalising it."""
    rng, d = np.random.default_rng(2), 60
    A = rng.standard_normal((d, 2 * d)) / np.sqrt(2 * d)
    S = A @ A.T
    S[0, 0] += 9.0
    y, vectors = np.linalg.eigh(S)
    found = _rescaled(y[-1], vectors[0, -1] ** 2, y[:-1], vectors[0, :-1] ** 2, stretch)
    D = np.diag([np.sqrt(stretch)] + [1.0] * (d - 1))
    z, turned = np.linalg.eigh(D @ S @ D)
    assert found.position == pytest.approx(z[-1], rel=1e-10)
    assert found.overlap == pytest.approx(turned[0, -1] ** 2, rel=1e-10)


def test_noise_between_two_directions_is_that_of_a_blurred_matrix():
    """S = c (X - eps)_+ of a target with noise: v_k, theta_k and S_12² of 60 instances beside the formulas."""
    rng, dim = np.random.default_rng(4), 100
    problem = equations()
    hats = problem.hats(2.0, 3.0, 4.0, (6.0, 3.7))
    whole = problem.overlaps_of(hats)
    found = DirectionNoiseEvolution(problem, 1.0).start(whole)
    between = DirectionNoiseEvolution(problem, 1.0)._between(whole)
    values = problem.channel_at(hats).target.values
    rows = []
    for _ in range(60):
        noise = rng.standard_normal((dim, dim))
        X = np.diag(np.sort(values)[::-1]) + np.sqrt(whole.map.s / dim) * (noise + noise.T) / np.sqrt(2.0)
        x, basis = np.linalg.eigh(X)
        S = whole.map.slope * (basis * np.clip(x - whole.map.eps, 0.0, None)) @ basis.T
        v = (S[:2] ** 2).sum(axis=1) - np.diag(S)[:2] ** 2
        rows.append([*v / dim, *np.diag(S)[:2] / np.sqrt(dim), S[0, 1] ** 2 / dim])
    mean, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(len(rows))
    expected = np.array([*found.scatter, *whole.learned, between[0, 1]])
    assert (np.abs(mean - expected) < SURE * error + 0.03 * expected).all()  # finite size: a few over d
