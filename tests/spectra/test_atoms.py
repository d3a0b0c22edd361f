"""Atoms plus a semicircle: moments, closed forms, sampled matrices, and twelve decades of s."""

import numpy as np
import pytest

from onehead.errors import InvalidArgument
from onehead.spectra.atoms import AtomsSemicircle
from onehead.spectra.law import threshold_integrals
from onehead.spectra.marchenko_pastur import MarchenkoPasturSemicircle

SIZE = 120
POWER = np.arange(1.0, SIZE + 1.0) ** -0.75
SPECTRA = {
    "power law": POWER / np.sqrt(np.mean(POWER**2)),
    "one atom": np.zeros(SIZE),
    "two atoms": np.repeat([0.0, 1.0], SIZE // 2),
    "uniform": np.linspace(-1.0, 3.0, SIZE),
    "spikes": np.concatenate([[6.0, 3.0, 1.8], np.zeros(SIZE - 3)]),
    "nearly equal pairs": np.sort(
        np.concatenate([np.linspace(0.0, 2.0, SIZE // 2), np.linspace(0.0, 2.0, SIZE // 2) + 1e-9])
    ),
}
SPREADS = (1e-8, 1e-5, 1e-3, 0.02, 0.2499, 0.2501, 1.0, 30.0, 1e4)


@pytest.mark.parametrize("name", SPECTRA)
@pytest.mark.parametrize("s", SPREADS)
def test_moments_and_mass(name, s):
    atoms = SPECTRA[name]
    law = AtomsSemicircle(atoms, s)
    x, mass, hilbert = law.nodes()
    second = np.mean(atoms**2) + s
    # 16 nodes per panel; the worst cases are a weak atom in a thin tail, and two bulks that are about to merge
    assert abs(mass.sum() - 1.0) < 1e-6
    assert abs(mass @ x - atoms.mean()) < 1e-6 * np.sqrt(second)
    assert abs(mass @ x**2 - second) < 1e-6 * second
    # int rho Re g = 0 by symmetry, and 2 int x rho Re g = 1
    assert abs(2.0 * mass @ (x * hilbert) - 1.0) < 2e-5
    assert all(low < high for low, high in law.edges)
    assert all(a[1] <= b[0] for a, b in zip(law.edges, law.edges[1:], strict=False))
    middle = float(np.median(x))
    assert abs(law.mass_above(middle) - law.nodes(middle).mass.sum()) < 2e-6


def test_one_atom_is_the_semicircle():
    law = AtomsSemicircle([2.0], 0.25)
    np.testing.assert_allclose(law.edges, [(1.0, 3.0)])
    x = np.linspace(1.1, 2.9, 7)
    np.testing.assert_allclose(law.density(x), np.sqrt(4.0 * 0.25 - (x - 2.0) ** 2) / (2.0 * np.pi * 0.25), rtol=1e-10)
    assert law.density(np.array([0.0, 5.0])).tolist() == [0.0, 0.0]
    assert law.mass_above(2.0) == pytest.approx(0.5, abs=1e-12)


def test_many_atoms_converge_to_the_marchenko_pastur_law():
    # quantiles of the target as atoms: the distance of the two laws falls as 1/size
    size, kappa0, s = 800, 0.5, 0.3
    target = MarchenkoPasturSemicircle(kappa0, 1e-6)
    level = (np.arange(size) + 0.5) / size
    atoms = np.array([max(target.quantile_above(float(u)), 0.0) for u in level])
    law, limit = AtomsSemicircle(atoms, s), MarchenkoPasturSemicircle(kappa0, s)
    for eps in (0.0, 0.4, 1.5):
        one, other = threshold_integrals(law, eps), threshold_integrals(limit, eps)
        for name in ("J", "B", "A", "rank"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=3.0 / size)


def test_derivatives_of_the_integrals():
    # B = -(1/2) dJ/deps and A = dJ/ds (2.3); central differences good to 1e-6 here
    atoms, s, eps, step = SPECTRA["power law"], 0.3, 0.4, 1e-4
    here = threshold_integrals(AtomsSemicircle(atoms, s), eps)
    up, down = (threshold_integrals(AtomsSemicircle(atoms, s), eps + sign * step).J for sign in (1, -1))
    assert -0.25 * (up - down) / step == pytest.approx(here.B, abs=1e-5)
    up, down = (threshold_integrals(AtomsSemicircle(atoms, s + sign * step), eps).J for sign in (1, -1))
    assert 0.5 * (up - down) / step == pytest.approx(here.A, abs=1e-5)


def test_spectra_of_sampled_matrices():
    atoms, s, eps, draws = SPECTRA["power law"], 0.5, 0.3, 40
    rng = np.random.default_rng(0)
    found = []
    for _ in range(draws):
        G = rng.standard_normal((SIZE, SIZE)) * np.sqrt(s / SIZE)
        x = np.linalg.eigvalsh(np.diag(atoms) + (G + G.T) / np.sqrt(2.0))
        f = np.clip(x - eps, 0.0, None)
        found.append([np.mean(f**2), np.mean(f), np.mean(x > eps)])
    part = threshold_integrals(AtomsSemicircle(atoms, s), eps)
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(draws)
    # four standard errors, plus the O(1/d) that the diagonal of a finite Gaussian matrix adds
    assert np.all(np.abs(mean - [part.J, part.B, part.rank]) < 4.0 * error + s / SIZE)


def test_weights_and_bad_input():
    one = AtomsSemicircle([0.0, 0.0, 0.0, 2.0], 0.1)
    other = AtomsSemicircle([2.0, 0.0], 0.1, weights=[0.25, 0.75])
    np.testing.assert_allclose(one.edges, other.edges)
    for bad in ([], [[1.0]], [np.nan]):
        with pytest.raises(InvalidArgument, match="finite numbers"):
            AtomsSemicircle(bad, 0.1)
    with pytest.raises(InvalidArgument, match="s must be"):
        AtomsSemicircle([1.0], 0.0)
    with pytest.raises(InvalidArgument, match="weights"):
        AtomsSemicircle([1.0, 2.0], 0.1, weights=[1.0, 1.0])


def test_two_atoms_have_a_gap_below_the_critical_variance():
    # two equal atoms at distance one: sum w/(a - λ)² is least, 4, half way, so that the bulks separate when 1/s > 4
    assert len(AtomsSemicircle([0.0, 1.0], 0.2499).edges) == 2
    assert len(AtomsSemicircle([0.0, 1.0], 0.2501).edges) == 1
    gap = AtomsSemicircle([0.0, 1.0], 0.1)
    assert gap.mass_above(0.5) == pytest.approx(0.5, abs=1e-12)
    assert gap.density(np.array([0.5]))[0] == 0.0
    assert gap.nodes(0.5).mass.sum() == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("s", [0.05, 1.0, 100.0, 1e4])
def test_five_thousand_atoms(s):
    atoms = np.arange(1.0, 5001.0) ** -0.75
    atoms /= np.sqrt(np.mean(atoms**2))
    law = AtomsSemicircle(atoms, s)
    x, mass, hilbert = law.nodes()
    # every panel has its mass to 1e-9, and there are hundreds of panels
    assert mass.sum() == pytest.approx(1.0, abs=1e-7)
    assert mass @ x == pytest.approx(atoms.mean(), rel=1e-6)
    assert mass @ x**2 == pytest.approx(np.mean(atoms**2) + s, rel=1e-6)
    assert 2.0 * mass @ (x * hilbert) == pytest.approx(1.0, abs=2e-6)
    # at an edge the map a + s g(a) is stationary, sum w / (a - λ)² = 1/s
    top = law.edges[-1][1]
    a = np.linspace(atoms[0] + 1e-9, top, 200_001)[1:]
    step = slice(None, None, 100)
    values = [float(point + s * np.mean(1.0 / (point - atoms))) for point in a[step]]
    assert min(values) == pytest.approx(top, rel=1e-4)  # the smallest value outside the support, on a grid


@pytest.mark.parametrize("gamma", [0.5, 1.25])
@pytest.mark.parametrize("s", [0.1, 10.0])
def test_merged_clusters_agree_with_their_atoms(gamma, s, monkeypatch):
    atoms = np.arange(1.0, 601.0) ** -gamma
    atoms /= np.sqrt(np.mean(atoms**2))
    clustered = AtomsSemicircle(atoms, s)
    monkeypatch.setattr("onehead.spectra.atoms._merge_clusters", lambda s, atoms, weights: (atoms, weights))
    plain = AtomsSemicircle(atoms, s)
    assert len(clustered._atoms) < 0.7 * len(plain._atoms)  # otherwise the test is empty
    assert len(clustered.edges) == len(plain.edges)
    np.testing.assert_allclose(np.ravel(clustered.edges), np.ravel(plain.edges), atol=5e-7 * np.sqrt(s))
    for eps in (0.0, 0.3 * plain.edges[-1][1]):
        one, other = threshold_integrals(clustered, eps), threshold_integrals(plain, eps)
        # four moments agree: the error is of the order of (width / distance)^4
        assert pytest.approx(other.J, rel=1e-6) == one.J
        assert pytest.approx(other.A, abs=1e-6) == one.A
        assert one.rank == pytest.approx(other.rank, abs=1e-6)


def test_mass_with_a_light_atom_that_is_about_to_leave_the_bulk():
    # branch points close to the real axis: a rule of fixed order had an error of 2e-5 in the mass
    atoms = np.arange(1.0, 1001.0) ** -1.25
    atoms /= np.sqrt(np.mean(atoms**2))
    law = AtomsSemicircle(atoms, 100.0)
    assert law.nodes().mass.sum() == pytest.approx(1.0, abs=1e-8)
    np.testing.assert_allclose(law.nodes().mass @ law.nodes().x ** 2, 101.0, rtol=1e-7)
