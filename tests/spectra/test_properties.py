"""The rooms below the two theories, spectra and numerics: what any law and any rule must obey."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onehead.aim import CrossEntropy, MarchenkoPastur, Spikes
from onehead.aim.equations.geometry import geometry
from onehead.errors import SolveError
from onehead.numerics.fixed_point import fixed_point
from onehead.numerics.gaussian import lattice, sobol
from onehead.numerics.parallel import thread_map, threads
from onehead.numerics.prox import prox
from onehead.spectra.atoms import AtomsSemicircle
from onehead.spectra.law import Scaled, gauss_legendre, replicon_integral, threshold_integrals
from onehead.spectra.marchenko_pastur import MarchenkoPasturSemicircle


def between(low, high):
    """Numbers spread evenly over decades."""
    return st.floats(np.log(low), np.log(high)).map(lambda x: float(np.exp(x)))


laws = st.one_of(
    st.builds(MarchenkoPasturSemicircle, between(1e-2, 1e2), between(1e-4, 1e3)),
    st.builds(
        AtomsSemicircle,
        st.lists(st.floats(-2.0, 5.0).map(lambda x: round(x, 3)), min_size=1, max_size=12),
        between(1e-4, 1e3),
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
    slack = 1e-7 * (1.0 + size**2)  # panels of the quadrature end at the threshold, and so change with it
    for name in ("J", "B", "A", "rank"):
        assert getattr(there, name) <= getattr(here, name) + slack
        assert getattr(there, name) >= -slack
    assert here.A <= 1.0 + 1e-6
    assert -1e-9 <= replicon_integral(law, eps) <= here.A + 1e-6  # quotients between 0 and 1 are above their squares
    h = 1e-4 * size
    slope = (threshold_integrals(law, eps + h).J - threshold_integrals(law, eps - h).J) / (2.0 * h)
    assert pytest.approx(-0.5 * slope, abs=1e-3 * size) == here.B


@given(law=laws, mass=st.floats(0.001, 0.999), width=st.floats(0.05, 1.0))
@settings(max_examples=25)
def test_quantiles_undo_masses_and_width_cuts_the_rank(law, mass, width):
    assert law.mass_above(law.quantile_above(mass)) == pytest.approx(mass, abs=1e-6)
    low = law.edges[0][0]
    assert threshold_integrals(law, low - 1.0, width).rank == pytest.approx(width, abs=1e-6)
    assert law.mass_above(low - 1.0) == pytest.approx(1.0, abs=1e-6)
    assert law.mass_above(law.edges[-1][1]) == 0.0


@given(law=laws, scale=between(0.1, 10.0), share=st.floats(-0.2, 1.2))
@settings(max_examples=25)
def test_density_is_positive_and_scales(law, scale, share):
    low, high = law.edges[0][0], law.edges[-1][1]
    x = np.array([low + share * (high - low)])
    inside = any(a < x[0] < b for a, b in law.edges)
    density = law.density(x)
    assert density >= 0.0
    assert inside or density == 0.0
    wide = Scaled(law, scale)
    assert wide.density(scale * x) * scale == pytest.approx(density, rel=1e-9, abs=1e-12)
    assert wide.edges[-1][1] == pytest.approx(scale * high)


@given(kappa0=between(0.05, 5.0), s=between(0.01, 10.0), share=st.floats(0.0, 0.8))
@settings(max_examples=6)
def test_many_atoms_blur_to_the_law_of_their_density(kappa0, s, share):
    """The cubic equation against subordination of 600 quantiles: two codes for one law."""
    bulk = MarchenkoPastur(kappa0=kappa0)
    values = np.sort(Spikes(spikes=(bulk.edges[1],), dim=600, bulk=bulk).values)
    law, listed = MarchenkoPasturSemicircle(kappa0, s), AtomsSemicircle(values, s)
    eps = share * law.edges[-1][1]
    exact, found = threshold_integrals(law, eps), threshold_integrals(listed, eps)
    size = law.edges[-1][1]
    # one eigenvalue in 600 sits at the edge, the others at midpoints of equal mass
    assert pytest.approx(exact.J, abs=4e-3 * size**2) == found.J
    assert pytest.approx(exact.B, abs=4e-3 * size) == found.B
    assert pytest.approx(exact.A, abs=1e-2) == found.A


@given(count=st.integers(2, 60), power=st.integers(0, 3))
def test_gauss_legendre_is_exact_for_polynomials(count, power):
    x, w = gauss_legendre(count)
    assert w @ x**power == pytest.approx(1.0 / (power + 1.0), rel=1e-12)


@given(
    dim=st.integers(1, 3), offset=st.sampled_from([0.0, 0.5]), spacing=st.floats(0.3, 0.6), tilt=st.floats(-0.5, 0.5)
)
@settings(max_examples=15)
def test_lattice_averages_gaussians_exactly(dim, offset, spacing, tilt):
    """E exp(t g) = exp(t²/2); the trapezoidal rule is exact to the cut at radius 7."""
    rule = lattice(dim, spacing=spacing, radius=7.0, offset=offset)
    assert rule.weights.sum() == pytest.approx(1.0)
    value = rule.average(np.exp(tilt * rule.nodes.sum(axis=1)))
    assert value == pytest.approx(np.exp(0.5 * dim * tilt**2), rel=1e-6)


@given(dim=st.integers(1, 6), seed=st.integers(0, 50))
@settings(max_examples=10)
def test_sobol_points_have_exact_second_moments(dim, seed):
    rule = sobol(dim, log2_points=7, seed=seed)
    covariance = (rule.weights[:, None] * rule.nodes).T @ rule.nodes
    assert covariance == pytest.approx(np.eye(dim), abs=1e-9)
    assert rule.weights @ rule.nodes == pytest.approx(np.zeros(dim), abs=1e-12)


@given(
    slopes=st.lists(st.floats(-0.95, 0.95), min_size=1, max_size=4),
    centre=st.floats(-3.0, 3.0),
    away=st.floats(-1.0, 1.0),
)
def test_fixed_points_of_bent_contractions(slopes, centre, away):
    """y = c + a tanh(y - c) has the one solution c when |a| < 1, whatever the start."""
    a = np.array(slopes)
    found = fixed_point(lambda y: centre + a * np.tanh(y - centre), np.full(a.size, centre + away), tolerance=1e-10)
    assert found.value == pytest.approx(np.full(a.size, centre), abs=1e-8)
    assert found.residual < 1e-10


def test_a_map_without_fixed_point_is_refused():
    with pytest.raises(SolveError):
        fixed_point(lambda y: y + 1.0, np.zeros(2), tolerance=1e-10)


@given(seed=st.integers(0, 1000), log_step=st.floats(-3.0, 3.0), tokens=st.integers(2, 4))
@settings(max_examples=15)
def test_proximal_points_of_a_convex_loss_never_move_apart(seed, log_step, tokens):
    """In the metric of the step, |prox(v) - prox(w)| ≤ |v - w| (cross-entropy is convex)."""
    rng = np.random.default_rng(seed)
    shape, step = geometry(tokens), float(np.exp(log_step))
    label = rng.dirichlet(np.ones(tokens), size=(2, tokens))
    label[1] = label[0]
    centre = rng.normal(size=(2, shape.dim))
    found = prox(CrossEntropy().compiled, shape.select, shape.metric, step, centre, label, centre.copy())
    moved, before = found.u[1] - found.u[0], centre[1] - centre[0]
    assert moved @ shape.metric @ moved <= before @ shape.metric @ before * (1.0 + 1e-6) + 1e-9


@given(items=st.lists(st.integers(), max_size=20), count=st.integers(1, 4))
@settings(max_examples=10)
def test_threads_keep_the_order(items, count):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEHEAD_THREADS", str(count))
        assert threads() == count
        assert thread_map(lambda x: x * 2, items) == [x * 2 for x in items]
