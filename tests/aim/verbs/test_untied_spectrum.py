"""Singular values of a trained untied map: its law, outliers and parts of its error against sampled matrices (U3)."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from onehead.aim import Atoms, Learner, Spikes, Task, decompose, predict, spectrum
from onehead.aim.targets import Product
from onehead.aim.verbs.decompose import distance_parts
from onehead.aim.verbs.outliers import count_features, noise_bulk, outliers_of
from onehead.app.drafts.derived import draft_spectrum


@pytest.fixture(scope="module")
def solved():
    """Tied prediction whose spectral map the tests replace."""
    return predict(Task(), Learner(), 1.0)


def untied(solved, target, *, s, eps, slope=1.0, param="factorised", width=1.0, beta0=1.0):
    """Prediction of an untied head with a given spread and threshold."""
    task, learner = Task(target=target, attention="cross", beta0=beta0), Learner(param=param, width=width)
    point = replace(solved, task=task, learner=learner, spread=s, slope=slope, threshold=eps)
    channel = point.equations.input
    if param == "direct":
        return replace(point, threshold=0.0, cut=-np.inf, rank=1.0)
    part = channel.integrals(s, eps)
    m = slope * (part.J + eps * part.B - s * part.A)
    return replace(point, cut=part.cut, rank=part.rank, q=slope**2 * part.J, m=m)


def sampled(values, s, rng):
    """A matrix with these singular values along the axes, plus Gaussian noise."""
    size = len(values)
    return np.diag(values) + np.sqrt(s / size) * rng.standard_normal((size, size))


@pytest.mark.parametrize("target", [Product(kappa0=0.5), Product(kappa0=0.2)])
@pytest.mark.parametrize("width", [1.0, 0.3])
def test_the_law_of_singular_values_matches_sampled_matrices(solved, target, width):
    s, eps, slope = 0.3, 0.5, 0.8
    law = spectrum(untied(solved, target, s=s, eps=eps, slope=slope, width=width))
    size, rng = 400, np.random.default_rng(2)
    query, key = rng.standard_normal((2, round(target.kappa0 * size), size))
    S = query.T @ key / np.sqrt(len(query) * size) + np.sqrt(s / size) * rng.standard_normal((size, size))
    r = np.linalg.svd(S, compute_uv=False)
    values = slope * np.clip(r - eps, 0.0, None)
    values[round(width * size) :] = 0.0
    assert law.zero_mass == pytest.approx(np.mean(values == 0.0), abs=0.01)
    assert law.mean == pytest.approx(values.mean(), rel=0.03)
    assert law.second_moment == pytest.approx(np.mean(values**2), rel=0.03)
    assert law.second_moment == pytest.approx(law.point.q, rel=1e-12)
    # singular values repel: an empirical distribution is within a few 1/d of its limit
    grid = np.linspace(0.0, 1.05 * values.max(), 50)[1:]
    share = np.mean(values[:, None] <= grid, axis=0)
    assert np.abs(law.cdf(grid) - share).max() < 0.012
    assert law.cdf(np.array([100.0]))[0] == pytest.approx(1.0, abs=1e-6)
    assert law.cdf(np.array([-1e-9]))[0] == 0.0
    assert law.density(np.array([-0.1]))[0] == 0.0
    assert "singular values" in law.explain()
    assert "eigenvalue" not in law.explain()
    assert repr(law).startswith("SingularSpectrum(")


@pytest.mark.parametrize("param", ["factorised", "direct"])
def test_a_draft_has_the_same_law(solved, param):
    point = untied(solved, Product(kappa0=0.5), s=0.02, eps=0.1, slope=0.8, param=param)
    law, draft = spectrum(point), SimpleNamespace(map=(0.02, point.threshold, point.cut, 0.8), rank=point.rank)
    zero, lines = draft_spectrum(point.task, point.learner, draft)
    assert zero == law.zero_mass
    assert [end for x, _ in lines for end in (x[0], x[-1])] == pytest.approx(np.ravel(law.edges).tolist())
    for x, height in lines:
        assert height[1:-1] == pytest.approx(law.density(x[1:-1]), rel=1e-9, abs=1e-6)  # a square root at the edges


def test_direct_training_sets_no_singular_value_to_zero(solved):
    """(mhat/D) |x|: no threshold, no atom, none negative (U2.4)."""
    law = spectrum(untied(solved, Product(kappa0=0.5), s=0.02, eps=0.0, slope=0.7, param="direct"))
    assert (law.zero_mass, law.rank, law.edges[0][0]) == (0.0, 1.0, 0.0)
    assert len(law.edges) == 2
    assert law.second_moment == pytest.approx(0.49 * 1.02, rel=1e-12)
    assert law.cdf(np.array([law.edges[0][1]]))[0] == pytest.approx(0.5, abs=1e-6)  # the noise holds 1 - κ₀


def test_a_recovered_target_has_its_singular_values(solved):
    point = untied(solved, Atoms(eigenvalues=(2.0, -1.0, -1.0, 0.0)), s=0.1, eps=0.1)
    law = spectrum(replace(point, spread=0.0, threshold=0.0, cut=0.0, rank=0.75, q=1.5))
    assert law.levels == ((1.0, 0.5), (2.0, 0.25))
    assert (law.mean, law.zero_mass) == (1.0, 0.25)
    point = untied(solved, Product(kappa0=0.5), s=0.1, eps=0.1, beta0=2.0)
    law = spectrum(replace(point, spread=0.0, threshold=0.0, cut=0.0, rank=0.5, q=4.0))
    assert law.edges[0] == pytest.approx(tuple(2.0 * edge for edge in Product(kappa0=0.5).edges))
    assert law.cdf(np.array([10.0]))[0] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("bulk", [False, True])
def test_outliers_against_sampled_matrices(solved, bulk):
    """Positions and overlaps on either side, over zeros and over a bulk; a negative spike is found as well (U3)."""
    size, s, eps, slope, draws = 300, 1.0, 0.5, 0.9, 6
    spikes = np.array([6.0, 4.0, 2.6])
    others = np.linspace(0.0, 1.5, size - 3) if bulk else np.zeros(size - 3)
    target = Atoms(eigenvalues=(*spikes, *others)) if bulk else Spikes(spikes=(6.0, -4.0, 2.6), dim=size)
    found = outliers_of(untied(solved, target, s=s, eps=eps, slope=slope))
    assert [outlier.target for outlier in found] == [6.0, 4.0, 2.6]
    rng, positions, overlaps = np.random.default_rng(4), [], []
    for _ in range(draws):
        left, r, right = np.linalg.svd(sampled(np.concatenate([spikes, others]), s, rng))
        positions.append(slope * (r[:3] - eps))
        overlaps.append([0.5 * (left[i, i] ** 2 + right[i, i] ** 2) for i in range(3)])
    position, overlap = ([getattr(outlier, name) for outlier in found] for name in ("position", "overlap"))
    # an outlier fluctuates by sqrt(s/d) = 0.06 between samples
    assert position == pytest.approx(np.mean(positions, axis=0), abs=0.1)
    assert overlap == pytest.approx(np.mean(overlaps, axis=0), abs=0.05)
    if not bulk:  # λ + s/λ and 1 - s/λ², up to the weight of the others, as if tied
        assert position[1] == pytest.approx(slope * (4.0 + s / 4.0 - eps), abs=0.02)
        assert overlap[1] == pytest.approx(1.0 - s / 16.0, abs=0.01)
    law = spectrum(untied(solved, target, s=s, eps=eps, slope=slope))
    assert len(law.outliers) == 3
    assert len(law.edges) == 1


def test_the_noise_bulk_of_singular_values_is_above_zero():
    """Halves of equal mass on both sides of zero are one bulk of singular values, without outliers."""
    target = Atoms(eigenvalues=np.linspace(2.0, 3.0, 50))
    law = target.singular_law(0.01)
    assert law.edges[0][1] < 0.0 < law.edges[-1][0]
    assert noise_bulk(law)[1] == law.edges[-1][1]
    assert count_features(law, 50, 0.0) == 0
    over = Atoms(eigenvalues=(8.0, -6.0, *np.zeros(98))).singular_law(0.5)
    assert count_features(over, 100, 0.0) == 2


def test_parts_of_the_distance_sum_to_it(solved):
    """|S - c S*|²/d = q - 2 c m + c² Q0 over the three parts, none negative (8.2, U3)."""
    for target in (Product(kappa0=0.2), Spikes(spikes=(6.0, -4.0), dim=200)):
        point = untied(solved, target, s=0.3, eps=0.4, slope=0.9)
        channel, c = point.equations.input, 0.85
        spectral_map = (point.spread, point.threshold, point.cut, point.slope)
        parts = distance_parts(channel, spectral_map, point.rank, c)
        assert min(parts) >= 0.0
        assert sum(parts) == pytest.approx(point.q - 2.0 * c * point.m + c * c * channel.target_power, rel=1e-7)


def test_tied_spectra_speak_of_eigenvalues(solved):
    assert repr(spectrum(solved)).startswith("Spectrum(")
    assert "share of eigenvalues" in spectrum(solved).explain()
    assert decompose(solved).distance > 0.0
