"""Spectral laws solve their defining equations, up to the edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onehead.spectra.atoms import AtomsSemicircle
from onehead.spectra.marchenko_pastur import MarchenkoPasturSemicircle, _transforms

UNIT_POINTS = np.concatenate(
    [10.0 ** np.arange(-8.0, 0.0), np.linspace(0.2, 0.8, 7), 1.0 - 10.0 ** np.arange(-8.0, 0.0)]
)


@given(st.floats(-4.0, 3.0), st.floats(-16.0, 9.0))
def test_the_transform_solves_its_cubic_up_to_the_edges(log_kappa0, log_s):
    """x = s g + k / (1 - g/k) + 1/g with g = Re g - i pi rho, to rounding of the largest term."""
    kappa0, s = float(np.exp(log_kappa0)), float(np.exp(log_s))
    k = np.sqrt(kappa0)
    for low, high in MarchenkoPasturSemicircle(kappa0, s).edges:
        x = low + (high - low) * UNIT_POINTS
        rho, hilbert = _transforms(x, k, s)
        g = hilbert - 1j * np.pi * rho
        terms = np.array([s * g, k / (1.0 - g / k), 1.0 / g, -x])
        assert np.abs(terms.sum(axis=0)) == pytest.approx(0.0, abs=1e-12 * np.abs(terms).max())
        assert (rho > 0.0).all()


@given(st.lists(st.floats(-3.0, 3.0), min_size=1, max_size=5, unique=True), st.floats(-5.0, 3.0))
def test_atoms_solve_their_own_equation(atoms, log_s):
    """g(x) = mean of 1 / (x - s g - λ) with g = Re g - i pi rho at every node of the law (7)."""
    s = float(np.exp(log_s))
    law = AtomsSemicircle(atoms, s)
    nodes = law.nodes()
    g = nodes.hilbert - 1j * np.pi * law.density(nodes.x)
    again = np.mean(1.0 / (nodes.x[:, None] - s * g[:, None] - np.asarray(atoms)[None, :]), axis=1)
    inside = law.density(nodes.x) > 1e-3 / np.sqrt(s)  # at an edge the density has a vertical slope
    assert again[inside] == pytest.approx(g[inside], rel=1e-5, abs=1e-5 / np.sqrt(s))
    assert nodes.mass.sum() == pytest.approx(1.0, abs=1e-6)
    assert nodes.mass @ nodes.x == pytest.approx(np.mean(atoms), abs=1e-5 * (1.0 + np.sqrt(s)))
