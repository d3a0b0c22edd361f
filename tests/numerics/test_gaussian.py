"""Quadrature rules for Gaussian averages, against known moments and against each other."""

import numpy as np
import pytest
from scipy import integrate, stats

from onehead.numerics.gaussian import lattice, sobol


@pytest.mark.parametrize("offset", [0.0, 0.5])
@pytest.mark.parametrize("dim", [1, 2, 4])
def test_lattice_moments(dim, offset):
    rule = lattice(dim, spacing=0.6, radius=6.0, offset=offset)
    assert rule.weights.sum() == pytest.approx(1.0, abs=1e-14)
    # the cut at radius 6 omits about one layer of nodes: its mass times the size of the integrand there
    layer = 1.5 * 0.6 * stats.chi.pdf(6.0, dim)
    assert rule.average(rule.nodes[:, 0] ** 2) == pytest.approx(1.0, abs=36.0 * layer)
    assert rule.average(rule.nodes[:, -1] ** 4) == pytest.approx(3.0, abs=1296.0 * layer)
    assert abs(rule.average(rule.nodes[:, 0])) < 1e-12


def test_folding_changes_nothing_for_even_functions():
    def f(x):  # even under (a1, b1) -> -(a1, b1) and under (a2, b2) -> -(a2, b2)
        return np.cos(x[:, 0] * x[:, 2]) + (x[:, 1] + 2.0 * x[:, 3]) ** 2

    for offset in (0.0, 0.5):
        full = lattice(4, spacing=0.8, radius=5.0, offset=offset)
        half = lattice(4, spacing=0.8, radius=5.0, offset=offset, folded=2)
        assert len(half.weights) < 0.4 * len(full.weights)
        assert half.average(f(half.nodes)) == pytest.approx(full.average(f(full.nodes)), abs=1e-12)


def test_two_offsets_bracket_the_integral():
    def f(x):
        return 1.0 / (1.0 + np.exp(-3.0 * x[:, 0] + x[:, 1])) ** 2

    truth = integrate.dblquad(
        lambda y, x: stats.norm.pdf(x) * stats.norm.pdf(y) / (1.0 + np.exp(-3.0 * x + y)) ** 2, -8, 8, -8, 8
    )[0]
    values = []
    for offset in (0.0, 0.5):
        rule = lattice(2, spacing=1.2, radius=7.0, offset=offset)
        values.append(rule.average(f(rule.nodes)))
    assert min(values) - 1e-9 <= truth <= max(values) + 1e-9
    assert abs(values[0] - values[1]) > 1e-5  # otherwise the test is empty


def test_sobol_is_reproducible_and_matches_second_moments():
    one, two = sobol(10, log2_points=9, seed=3), sobol(10, log2_points=9, seed=3)
    assert np.array_equal(one.nodes, two.nodes)
    assert not np.array_equal(one.nodes, sobol(10, log2_points=9, seed=4).nodes)
    covariance = one.nodes.T @ (one.weights[:, None] * one.nodes)
    assert np.allclose(covariance, np.eye(10), atol=1e-12)
    assert np.allclose(one.weights @ one.nodes, 0.0, atol=1e-14)  # antithetic


def test_the_spread_over_scrambles_estimates_the_error():
    def f(x):
        return np.exp(0.3 * x.sum(axis=1))

    truth = np.exp(0.5 * 0.09 * 6)
    values = [rule.average(f(rule.nodes)) for rule in (sobol(6, log2_points=12, seed=s) for s in range(8))]
    # eight scrambles: their mean is within four standard errors
    assert abs(np.mean(values) - truth) < 4.0 * np.std(values, ddof=1) / np.sqrt(8)
    assert np.std(values) < 3e-3


def test_a_checkerboard_resolves_the_same_waves_with_half_of_the_points():
    """D4: waves of all directions up to the same length, whose Gaussian average is e^(-k²/2)."""
    whole, half = (
        lattice(4, spacing=0.8, radius=6.5, offset=0.5, checkerboard=checkerboard) for checkerboard in (False, True)
    )
    assert len(half.weights) == pytest.approx(0.5 * len(whole.weights), rel=0.01)
    waves = np.random.default_rng(0).standard_normal((20, 4))
    waves *= 2.0 / np.linalg.norm(waves, axis=1)[:, None]
    # what is left is e^(-(2 pi/0.8 - 2)²/2) = 5e-8 for every vector of the dual lattice, and 2e-8 beyond the radius
    for rule in (whole, half):
        found = np.cos(rule.nodes @ waves.T).T @ rule.weights
        np.testing.assert_allclose(found, np.exp(-2.0), atol=5e-7)


def test_a_folded_checkerboard_has_the_averages_of_the_whole():
    """Functions that do not change when coordinates i and i + 2 change sign together; offsets keep the parity."""
    for offset in (0.0, 0.5):
        whole, folded = (
            lattice(4, spacing=0.9, radius=5.0, offset=offset, folded=folded, checkerboard=True) for folded in (0, 2)
        )
        averages = []
        for rule in (whole, folded):
            a, b, c, d = rule.nodes.T
            averages.append(rule.weights @ np.array([np.cosh(0.3 * a * c), (b * d) ** 2, np.cos(a * c + b * d)]).T)
        np.testing.assert_allclose(*averages, rtol=1e-12)
