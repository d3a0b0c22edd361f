"""Rows by Sherman-Morrison against the dense kernel, their traces against matrices, and controls of known means
(U2.1).
"""

import numpy as np
import pytest

from onehead.aim.kernels import independent_rows, two_sector_rows
from onehead.aim.kernels.independent_rows import _bend, row_loss
from onehead.aim.kernels.losses import SQUARED
from onehead.aim.logits.blocks import PARTS
from onehead.aim.logits.geometry import geometry_of
from onehead.aim.logits.softmax_row import Column, SoftmaxRow
from onehead.aim.losses import CrossEntropy, HardCrossEntropy, Squared
from onehead.aim.theory.output.averages import ProxCache, Request, parts_error
from onehead.aim.theory.output.one_sector import OneSectorOutput


class DenseCrossEntropy(CrossEntropy):
    compiled_kind = None


class DenseSquared(Squared):
    compiled_kind = None


class DenseHard(HardCrossEntropy):
    compiled_kind = None


def parts_of(loss, geometry, state):
    """Every average by each part of the points."""
    output = OneSectorOutput(loss=loss, geometry=geometry, label_power=1.25)
    pieces = output._sums(state, Request(3, detail=2))
    return output._sum_parts(pieces)


@pytest.mark.parametrize(
    ("lean", "dense"),
    [(CrossEntropy(), DenseCrossEntropy()), (Squared(), DenseSquared()), (HardCrossEntropy(), DenseHard())],
)
@pytest.mark.parametrize(
    ("attention", "mask", "tokens"), [("cross", "none", 4), ("cross", "causal", 5), ("tied", "causal", 4)]
)
@pytest.mark.parametrize("sigma", [0.7, 3.0])
@pytest.mark.slow
def test_lean_rows_are_dense_rows(lean, dense, attention, mask, tokens, sigma):
    """Other nodes, another route to every average; squared at Sigma = 3 has several minima, in which both stay near the
    label.
    """
    geometry, state = geometry_of(attention, mask, tokens), (0.8, 0.75, sigma)
    one, other = (parts_of(loss, geometry, state) for loss in (lean, dense))
    for k in range(7):
        allowed = 4.0 * np.hypot(
            parts_error(one[:, k]), parts_error(other[:, k])
        )  # six standard errors: Student, seven degrees
        # where minima compete the two Newton methods may end in different ones for a few points in a thousand
        slack = 2e-3 * abs(other[:, k].mean()) if sigma > 2.0 and lean.name == "squared" else 1e-12
        assert abs(one[:, k].mean() - other[:, k].mean()) < allowed + slack, k


def test_controls_make_errors_smaller():
    geometry, state = geometry_of("cross", "none", 6), (0.8, 0.75, 0.7)
    lean, dense = (parts_of(loss, geometry, state) for loss in (CrossEntropy(), DenseCrossEntropy()))
    # as many points; E|prox - z|², the trace and the loss
    for k in (0, 3, 6):
        assert parts_error(lean[:, k]) < parts_error(dense[:, k])


def test_a_fresh_average_has_its_exact_mean():
    """A loss without weight, Sigma -> 0, is an average over fresh samples, which is a control: nothing is left to
    chance.
    """
    geometry = geometry_of("cross", "none", 5)
    found = parts_of(CrossEntropy(), geometry, (0.8, 0.75, 1e-7))
    row = SoftmaxRow((Column(5, 1.25, 0.8, 0.75),))
    exact = 5.0 * (row.log_z - row.yh)
    # log Z is a control, sum y h is not
    assert abs(found[:, 6].mean() - exact) < 3.0 * parts_error(found[:, 6]) + 1e-6
    assert parts_error(found[:, 6]) < 0.01 * exact
    assert len(found) == PARTS


def test_both_kinds_of_labels_of_a_row_keep_their_points():
    """Causal rows of a tied head see their own token: each kind of hard label has points of its own to start from."""
    geometry = geometry_of("tied", "causal", 4)
    output = OneSectorOutput(loss=HardCrossEntropy(), geometry=geometry, label_power=1.25)
    cache, state = ProxCache(track_minimum=False), (0.8, 0.75, 0.7)
    cold = output.averages(*state, level=1, detail=2, cache=cache)
    kept = [points.copy() for points in cache.points]
    warm = output.averages(*state, level=1, detail=2, cache=cache)
    for row, points, again in zip(geometry.blocks, kept, cache.points, strict=True):
        if row.on_lattice:
            continue
        assert points.shape[1] == 2 * row.length
        # the label is the first column, or the last: proximal points are larger there
        assert np.mean(points[:, 0]) > 0.05 and np.mean(points[:, -1]) > 0.05
        np.testing.assert_allclose(points, again, atol=1e-8)
    np.testing.assert_allclose(cold, warm, rtol=1e-8)


TARGET = np.array([-21.72, -6.71, 5.21, -0.11, 0.7, 14.76, -0.34, 8.75, -9.27, -3.09, -3.71, 14.63, 0.9])
LEARNER = np.array([-4.01, -2.65, 3.33, -0.99, -0.11, 0.74, 2.5, 2.69, -4.17, 0.06, -0.87, 3.86, -0.37])


def test_a_minimum_where_the_diagonal_of_the_hessian_has_a_negative_entry():
    """Of two sharp labels the second is missed: the diagonal without p and w is negative, the Hessian is not, and
    Newton's method has to take its own steps to end in less than `MAX_NEWTON` of them.
    """
    label, held, code = np.exp(TARGET - TARGET.max()), np.full(len(TARGET), 1.0 / 16.16), Squared.compiled_kind
    label /= label.sum()
    work = independent_rows.row_work(len(TARGET))
    point, (_, steepest, *_) = independent_rows.newton_row((code, held, LEARNER, label), TARGET.copy(), work)
    p = np.exp(point - point.max())
    p /= p.sum()
    r = p - label
    gradient = held * (point - LEARNER) + 2.0 * p * (r - r @ p)
    assert np.abs(gradient).max() < 1e-9 and steepest < 1e-9  # rounding of logits of size 20

    lanes = two_sector_rows._workspace(len(TARGET))
    v, y, h = (np.repeat(one[:, None], two_sector_rows.LANES, axis=1) for one in (LEARNER, label, TARGET))
    place = np.arange(len(TARGET)).reshape(1, -1)
    two_sector_rows._minimise(two_sector_rows._Problem(code, place, held, v, y), h, lanes)
    np.testing.assert_allclose(h, np.repeat(point[:, None], two_sector_rows.LANES, axis=1), atol=1e-7)


def test_a_hessian_is_positive_definite_where_its_eigenvalues_say_so():
    """Also where an entry of the diagonal D is negative; the matrix between p and w belongs to its inverse."""
    n, rng, seen = 5, np.random.default_rng(6), set()
    for _ in range(300):
        h, y, held = (
            rng.standard_normal(n),
            np.exp(4.0 * rng.standard_normal(n)),
            np.full(n, 10.0 ** rng.uniform(-2, 0)),
        )
        y /= y.sum()
        p, g, w, D, curved, gradient = *(np.zeros(n) for _ in range(4)), np.zeros((n, n)), np.zeros(n)
        _, s, t = row_loss(SQUARED, h, y, p, g, w)
        m00, m01, m11, definite = _bend(SQUARED, held, p, w, s, t, D)
        Squared.row(h, y, gradient, curved)
        A = np.diag(held) + curved
        assert bool(definite) == bool(np.linalg.eigvalsh(A)[0] > 0.0)
        x, z = p / D, w / D
        inverse = (
            np.diag(1.0 / D) - m00 * np.outer(x, x) - m01 * (np.outer(x, z) + np.outer(z, x)) - m11 * np.outer(z, z)
        )
        assert np.allclose(A @ inverse, np.eye(n), atol=1e-6)  # eigenvalues down to 1e-5 and digits lost beside D = 0
        seen.add((bool(definite), bool(D.min() < 0.0)))
    assert {(True, False), (True, True), (False, True)} <= seen
