"""Invariants of quadrature rules, fixed points, proximal points and threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.proximal_points import prox

from onehead.aim import CrossEntropy
from onehead.aim.logits.geometry import tied_geometry
from onehead.errors import SolveError
from onehead.numerics.fixed_point import fixed_point
from onehead.numerics.gaussian import lattice, sobol
from onehead.numerics.parallel import thread_map, threads


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
def test_fixed_points_of_nonlinear_contractions(slopes, centre, away):
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
def test_the_prox_of_a_convex_loss_is_nonexpansive(seed, log_step, tokens):
    """In the metric of the step, |prox(v) - prox(w)| ≤ |v - w| (cross-entropy is convex)."""
    rng = np.random.default_rng(seed)
    shape, step = tied_geometry(tokens).blocks[0], float(np.exp(log_step))
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
