"""The fixed-point solver converges where it should, and raises the right exception where it cannot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onehead.errors import Diverged, NonFinite, NotConverged
from onehead.numerics.fixed_point import fixed_point


@given(st.integers(0, 10_000), st.integers(1, 4), st.floats(-3.0, 0.95))
def test_linear_maps_are_solved_in_few_evaluations(seed, n, slope):
    # Anderson with memory >= n is a Krylov method: n + 2 evaluations in exact arithmetic, a few more with step caps
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    values = np.linspace(slope, 0.3, n) if slope < 0.3 else np.full(n, slope)
    matrix = basis @ np.diag(values) @ basis.T
    target = rng.uniform(-1.0, 1.0, n)
    found = fixed_point(lambda y: target + matrix @ (y - target), np.zeros(n), tolerance=1e-9, max_evaluations=80)
    # the error is the residual through (1 - M)^-1
    assert np.max(np.abs(found.value - target)) < 1e-9 * np.linalg.norm(np.linalg.inv(np.eye(n) - matrix), 2) * 2
    assert found.evaluations < 40


def test_residual_is_the_undamped_one():
    found = fixed_point(np.cos, np.array([1.0]), tolerance=1e-10)
    assert found.residual == abs(float(np.cos(found.value)[0] - found.value[0]))


def test_history_is_kept_on_request():
    found = fixed_point(np.cos, np.array([1.0]), tolerance=1e-10, keep_history=True)
    assert len(found.history) == found.evaluations
    assert found.history[-1][1] == found.residual
    assert fixed_point(np.cos, np.array([1.0]), tolerance=1e-10).history == ()


def test_secants_of_a_similar_map_save_evaluations():
    matrix = np.array([[0.5, 0.3, 0.0], [-0.2, 0.4, 0.1], [0.1, 0.0, -0.6]])

    def rough(y):
        return matrix @ y + 0.1

    def fine(y):
        return 1.001 * matrix @ y + 0.1001

    found = fixed_point(rough, np.zeros(3), tolerance=1e-8)
    seeded = fixed_point(fine, found.value, tolerance=1e-8, secants=found.secants)
    plain = fixed_point(fine, found.value, tolerance=1e-8)
    assert seeded.evaluations < plain.evaluations
    assert np.allclose(seeded.value, plain.value, atol=1e-6)


def test_restart_survives_a_bad_extrapolation():
    # the kink makes the first extrapolations overshoot
    def kinked(y):
        return np.where(y > 0.4, 0.5 + 0.2 * (y - 0.5), 0.5 - 9.0 * (y - 0.5))

    assert abs(fixed_point(kinked, np.array([0.39]), tolerance=1e-9).value[0] - 0.5) < 1e-8


def test_failures_raise_the_exception_of_their_kind():
    with pytest.raises(NonFinite):
        fixed_point(lambda y: y * np.nan, np.ones(2), tolerance=1e-6)
    with pytest.raises(Diverged, match="start closer"):
        fixed_point(lambda y: y + 1.0, np.ones(1), tolerance=1e-6, max_evaluations=5000, patience=5000, limit=50.0)
    rng = np.random.default_rng(0)
    with pytest.raises(NotConverged, match="stopped at") as caught:
        fixed_point(lambda y: 0.5 * y + 1e-3 * rng.normal(size=1), np.ones(1), tolerance=1e-9)
    assert 0.0 < caught.value.residual < 1.0


def test_projection_keeps_iterates_inside():
    iterates = []

    def root(y):
        iterates.append(float(y[0]))
        return np.sqrt(y + 1.0)

    fixed_point(root, np.array([5.0]), tolerance=1e-10, project=lambda y: np.maximum(y, 0.0))
    assert min(iterates) >= 0.0
