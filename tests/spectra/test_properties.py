"""Invariants of all spectral laws over their range of parameters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.problems import log_uniform

from onehead.aim import MarchenkoPastur, Spikes
from onehead.spectra.atoms import AtomsSemicircle
from onehead.spectra.law import ScaledLaw, gauss_legendre, replicon_integral, threshold_integrals
from onehead.spectra.marchenko_pastur import MarchenkoPasturSemicircle

laws = st.one_of(
    st.builds(MarchenkoPasturSemicircle, log_uniform(1e-2, 1e2), log_uniform(1e-4, 1e3)),
    st.builds(
        AtomsSemicircle,
        st.lists(st.floats(-2.0, 5.0).map(lambda x: round(x, 3)), min_size=1, max_size=12),
        log_uniform(1e-4, 1e3),
    ),
)


@given(law=laws, share=st.floats(0.0, 1.0), step=st.floats(0.01, 0.5))
@settings(max_examples=40)
def test_integrals_fall_as_the_threshold_rises(law, share, step):
    """J, B, A and the rank fall with ε, 0 ≤ A2 ≤ A ≤ 1, and B is minus half the slope of J (2.3, 2.8)."""
    low, high = law.edges[0][0], law.edges[-1][1]
    size = high - low
    eps = low + share * size
    here, there = threshold_integrals(law, eps), threshold_integrals(law, eps + step * size)
    slack = 1e-7 * (1.0 + size**2)  # the panels of the quadrature end at the threshold and change with it
    for name in ("J", "B", "A", "rank"):
        assert getattr(there, name) <= getattr(here, name) + slack
        assert getattr(there, name) >= -slack
    assert here.A <= 1.0 + 1e-6
    assert (
        -1e-9 <= replicon_integral(law, eps) <= here.A + 1e-6
    )  # quotients are between 0 and 1, at least their squares
    h = 1e-4 * size
    slope = (threshold_integrals(law, eps + h).J - threshold_integrals(law, eps - h).J) / (2.0 * h)
    assert pytest.approx(-0.5 * slope, abs=1e-3 * size) == here.B


@given(law=laws, mass=st.floats(0.001, 0.999), width=st.floats(0.05, 1.0))
@settings(max_examples=25)
def test_quantiles_invert_masses_and_width_limits_the_rank(law, mass, width):
    assert law.mass_above(law.quantile_above(mass)) == pytest.approx(mass, abs=1e-6)
    low = law.edges[0][0]
    assert threshold_integrals(law, low - 1.0, width).rank == pytest.approx(width, abs=1e-6)
    assert law.mass_above(low - 1.0) == pytest.approx(1.0, abs=1e-6)
    assert law.mass_above(law.edges[-1][1]) == 0.0


@given(law=laws, scale=log_uniform(0.1, 10.0), share=st.floats(-0.2, 1.2))
@settings(max_examples=25)
def test_density_is_positive_and_scales(law, scale, share):
    low, high = law.edges[0][0], law.edges[-1][1]
    x = np.array([low + share * (high - low)])
    inside = any(a < x[0] < b for a, b in law.edges)
    density = law.density(x)
    assert density >= 0.0
    assert inside or density == 0.0
    wide = ScaledLaw(law, scale)
    # at an edge the density is a square root: a rounding error of 1e-16 in x becomes 1e-8
    assert wide.density(scale * x) * scale == pytest.approx(density, rel=1e-9, abs=1e-7)
    assert wide.edges[-1][1] == pytest.approx(scale * high)


@given(kappa0=log_uniform(0.05, 5.0), s=log_uniform(0.01, 10.0), share=st.floats(0.0, 0.8))
@settings(max_examples=6)
def test_many_atoms_converge_to_the_law_of_their_density(kappa0, s, share):
    """The cubic equation against subordination of 600 quantiles: two methods for one law."""
    bulk = MarchenkoPastur(kappa0=kappa0)
    values = np.sort(Spikes(spikes=(bulk.edges[1],), dim=600, bulk=bulk).values)
    law, listed = MarchenkoPasturSemicircle(kappa0, s), AtomsSemicircle(values, s)
    eps = share * law.edges[-1][1]
    exact, found = threshold_integrals(law, eps), threshold_integrals(listed, eps)
    size = law.edges[-1][1]
    # one of 600 eigenvalues is at the edge, the others are at midpoints of equal mass
    assert pytest.approx(exact.J, abs=4e-3 * size**2) == found.J
    assert pytest.approx(exact.B, abs=4e-3 * size) == found.B
    assert pytest.approx(exact.A, abs=1e-2) == found.A


@given(count=st.integers(2, 60), power=st.integers(0, 3))
def test_gauss_legendre_is_exact_for_polynomials(count, power):
    x, w = gauss_legendre(count)
    assert w @ x**power == pytest.approx(1.0 / (power + 1.0), rel=1e-12)
