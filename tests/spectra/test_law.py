"""The Marchenko-Pastur law convolved with a semicircle: invariants over the range of parameters, and sampled
matrices.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onehead.aim.targets import MarchenkoPastur
from onehead.spectra.law import ScaledLaw, replicon_integral, threshold_integrals
from onehead.spectra.marchenko_pastur import MarchenkoPasturSemicircle

ratios = st.floats(np.log(0.01), np.log(30.0)).map(np.exp)
spreads = st.floats(np.log(1e-5), np.log(1e4)).map(np.exp)


@given(ratios, spreads)
@settings(max_examples=200, deadline=None)
def test_mass_mean_and_second_moment(kappa0, s):
    nodes = MarchenkoPasturSemicircle(kappa0, s).nodes()
    size = np.sqrt(1.0 + kappa0 + s)
    # free convolution: means and variances add; 1e-8 is the quadrature next to a hard edge (κ₀ = 1, tiny s)
    assert nodes.mass.sum() == pytest.approx(1.0, abs=1e-7)
    assert nodes.mass @ nodes.x == pytest.approx(np.sqrt(kappa0), abs=1e-7 * size)
    assert nodes.mass @ nodes.x**2 == pytest.approx(1.0 + kappa0 + s, rel=1e-7)
    # int rho 2 x Re g = 1 for any law
    assert 2.0 * (nodes.mass * nodes.x) @ nodes.hilbert == pytest.approx(1.0, abs=1e-7)


@given(ratios, st.floats(1e-3, 50.0), st.floats(0.02, 0.95))
@settings(max_examples=60, deadline=None)
def test_derivatives_of_the_integrals(kappa0, s, share):
    law = MarchenkoPasturSemicircle(kappa0, s)
    eps = share * law.edges[-1][1]
    part = threshold_integrals(law, eps)
    step = 1e-4
    up, down = (threshold_integrals(MarchenkoPasturSemicircle(kappa0, s * (1.0 + d)), eps).J for d in (step, -step))
    high, low = (threshold_integrals(law, eps * (1.0 + d)).J for d in (step, -step))
    # central differences of relative step h: error h² times the third derivative, bounded by J over the distance to the
    # edge
    rough = 1e-5 * (1.0 + part.J)
    assert pytest.approx((up - down) / (2.0 * step * s), abs=rough / s + 1e-6) == part.A
    assert pytest.approx(-0.5 * (high - low) / (2.0 * step * eps), abs=rough / eps + 1e-6) == part.B
    assert 0.0 <= part.A <= 1.0 + 1e-9


@given(ratios, spreads)
@settings(max_examples=60, deadline=None)
def test_density_is_positive_inside_and_zero_outside(kappa0, s):
    law = MarchenkoPasturSemicircle(kappa0, s)
    for low, high in law.edges:
        assert (law.density(np.linspace(low, high, 52)[1:-1]) > 0.0).all()
        assert (law.density(np.array([low - 0.01 * (1 + abs(low))])) >= 0.0).all()
    ends = np.array([law.edges[0][0] - 1e-6, law.edges[-1][1] + 1e-6])
    assert (law.density(ends) == 0.0).all()


@pytest.mark.parametrize(("kappa0", "split"), [(0.2, 0.357875), (0.5, 0.017560), (0.8, 0.000460)])
def test_there_are_two_bulks_below_the_critical_variance(kappa0, split):
    # published values are rounded to six decimals
    assert len(MarchenkoPasturSemicircle(kappa0, split - 1e-6).edges) == 2
    assert len(MarchenkoPasturSemicircle(kappa0, split + 1e-6).edges) == 1
    law = MarchenkoPasturSemicircle(kappa0, 0.5 * split)
    assert law.mass_above(law.edges[1][0]) == pytest.approx(
        kappa0, abs=1e-9
    )  # the mass of the upper bulk is the rank of the target


def test_spectra_of_sampled_matrices():
    kappa0, s, d, draws = 0.5, 0.4, 400, 4
    rng = np.random.default_rng(5)
    values = []
    for _ in range(draws):
        W = rng.normal(size=(int(kappa0 * d), d))
        G = rng.normal(size=(d, d))
        values.append(np.linalg.eigvalsh(W.T @ W / np.sqrt(kappa0 * d * d) + np.sqrt(s) * (G + G.T) / np.sqrt(2 * d)))
    x = np.concatenate(values)
    law = MarchenkoPasturSemicircle(kappa0, s)
    for eps in (0.0, 0.5, 1.5):
        part = threshold_integrals(law, eps)
        f = np.clip(x - eps, 0.0, None)
        # linear statistics of random matrices fluctuate by O(1/d); 0.01 is four of them at d = 400
        assert np.mean(f**2) == pytest.approx(part.J, abs=0.01 * (1.0 + part.J))
        assert np.mean(f) == pytest.approx(part.B, abs=0.01)
        assert np.mean(x > eps) == pytest.approx(part.rank, abs=0.01)
    one = values[0]
    gap = one[:, None] - one[None, :]
    np.fill_diagonal(gap, 1.0)
    f = np.clip(one - 0.5, 0.0, None)
    quotient = (f[:, None] - f[None, :]) / gap
    np.fill_diagonal(quotient, one > 0.5)
    assert quotient.mean() == pytest.approx(threshold_integrals(law, 0.5).A, abs=0.01)
    assert (quotient**2).mean() == pytest.approx(replicon_integral(law, 0.5), abs=0.01)


def test_width_keeps_the_top_of_the_spectrum():
    law = MarchenkoPasturSemicircle(0.5, 0.3)
    free, narrow = threshold_integrals(law, 0.1), threshold_integrals(law, 0.1, width=0.3)
    assert free.rank > 0.3
    assert narrow.rank == 0.3
    assert law.mass_above(narrow.cut) == pytest.approx(0.3, abs=1e-9)
    assert narrow.J < free.J
    assert threshold_integrals(law, 0.1, width=0.99).cut == 0.1
    # dJ/ds = A holds with the cut as well
    step = 1e-4
    up, down = (threshold_integrals(MarchenkoPasturSemicircle(0.5, 0.3 + d), 0.1, width=0.3).J for d in (step, -step))
    assert pytest.approx((up - down) / (2.0 * step), abs=1e-6) == narrow.A


def test_scaled_law_is_the_law_of_scaled_eigenvalues():
    base, scale = MarchenkoPasturSemicircle(0.5, 0.3), 2.5
    law = ScaledLaw(base, scale)
    assert law.edges[0][1] == scale * base.edges[0][1]
    nodes = law.nodes(1.0)
    assert nodes.mass.sum() == pytest.approx(base.mass_above(1.0 / scale), abs=1e-12)
    x = np.array([2.0])
    assert law.density(x) == pytest.approx(base.density(x / scale) / scale)
    part, plain = threshold_integrals(law, 1.0), threshold_integrals(base, 1.0 / scale)
    assert pytest.approx((scale**2 * plain.J, scale * plain.B, plain.A)) == (part.J, part.B, part.A)


@pytest.mark.parametrize("kappa0", [0.05, 0.5, 1.0, 2.0])
def test_target_density(kappa0):
    target = MarchenkoPastur(kappa0=kappa0)
    low, high = target.edges
    angle = np.pi * (np.arange(4000) + 0.5) / 4000
    x = low + (high - low) * 0.5 * (1.0 - np.cos(angle))
    weight = target.density(x) * (high - low) * 0.5 * np.sin(angle) * np.pi / 4000
    assert weight.sum() == pytest.approx(target.rank, abs=2e-4)  # midpoint rule at the hard edge of κ₀ = 1
    assert (weight * x**2).sum() == pytest.approx(target.second_moment, rel=1e-6)
