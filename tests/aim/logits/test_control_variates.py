"""Control variates: their means by sampling, and where those of proximal points may be used (L6)."""

import numpy as np
import pytest

from onehead.aim.kernels.control_variates import BASIC_CONTROLS, CONTROL_COUNT, quartics, row_controls
from onehead.aim.logits.control_variates import NORMAL_QUARTIC_MEANS, control_means, control_means_of_rows
from onehead.aim.logits.geometry import geometry_of
from onehead.aim.logits.softmax_row import Column, SoftmaxRow
from onehead.aim.losses import CrossEntropy, Squared
from onehead.aim.theory.output.averages import Request
from onehead.aim.theory.output.one_sector import OneSectorOutput
from onehead.numerics.jit import njit

POINTS = 200_000
HARD = slice(BASIC_CONTROLS - 5, BASIC_CONTROLS - 1)  # those of drawn labels, which soft ones do not have


@njit(cache=False)
def _all_controls(t, h, y, p, Q, q, m, left, label, free):  # type: ignore[no-untyped-def]
    found = np.zeros((t.shape[0], CONTROL_COUNT))
    for node in range(t.shape[0]):
        row_controls(t[node], h[node], y[node], p[node], Q, q, m, left, 1, found[node])
        for i in range(t.shape[1]):
            quartics(label[node, i], free[node, i], found[node])
    return found


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(
    "columns",
    [
        (Column(5, 1.25, 0.8, 0.75),),
        (Column(3, 1.0, 0.6, 0.5), Column(1, 2.0, 1.2, 1.0)),  # a tied head with a mask
        (Column(3, 1.2, 0.6, 0.7), Column(1, 1.2, 0.9, 0.8)),  # two sectors
    ],
)
@pytest.mark.slow
def test_means_of_all_controls_by_sampling(columns, centred):
    Q, q, m = (np.repeat([getattr(c, name) for c in columns], [c.count for c in columns]) for name in "Qqm")
    if centred and not np.allclose(q / Q, q[0] / Q[0]):
        pytest.skip("a constant is taken away where label and learner have the same share in it")
    rng, shape = np.random.default_rng(5), (POINTS, len(Q))
    label, free, left = rng.standard_normal(shape), rng.standard_normal(shape), np.zeros(3)
    if centred:
        constant = 1.0 / np.sqrt(Q)
        constant /= np.linalg.norm(constant)
        label, free = (x - np.outer(x @ constant, constant) for x in (label, free))
        left = np.array([1.0, q[0] / Q[0], m[0] / Q[0]]) / np.sum(1.0 / Q)
    t = np.sqrt(Q) * label
    h = m / Q * t + np.sqrt(q - m * m / Q) * free
    found = _all_controls(t, h, softmax(t), softmax(h), Q, q, m, left, label, free)
    means = control_means(SoftmaxRow(columns))
    if not centred:
        means = control_means_of_rows(means, 1, len(Q) * NORMAL_QUARTIC_MEANS)
    error = found.std(axis=0) / np.sqrt(POINTS)
    off = np.abs(found.mean(axis=0) - means)
    off[HARD], off[BASIC_CONTROLS - 1] = 0.0, 0.0
    assert np.all(off <= 4.5 * error + 1e-9), np.flatnonzero(off > 4.5 * error + 1e-9)


def test_second_minima_are_seen():
    """Where a learner is far from its label and hardly held there are two minima; close to it, and for a convex loss,
    one.
    """
    squared, convex = (
        OneSectorOutput(loss=loss, geometry=geometry_of("cross", "none", 4), label_power=1.25)
        for loss in (Squared(), CrossEntropy())
    )
    assert squared.has_one_minimum(0.62, 0.67, 8.1, level=0)
    assert not squared.has_one_minimum(6.0, 0.5, 60.0, level=0)
    assert convex.has_one_minimum(6.0, 0.5, 60.0, level=0)


@pytest.mark.parametrize("tokens", [4, 16])
def test_controls_of_proximal_points_change_nothing_but_the_error(tokens):
    """The same averages without them, on other points, where all have one minimum though the loss is not convex."""
    state = {4: (0.6224, 0.6731, 8.109), 16: (0.8488, 0.7848, 125.2)}[tokens]
    plain = OneSectorOutput(loss=Squared(), geometry=geometry_of("cross", "none", tokens), label_power=1.25)
    steady = OneSectorOutput(loss=plain.loss, geometry=plain.geometry, label_power=1.25, single_minimum=True)
    found = []
    for output, check_rule in ((plain, True), (steady, False)):
        parts = output._sum_parts(output._sums(state, Request(3, check_rule, detail=1)))[:, [0, 3, 5, 6]]
        found.append((parts.mean(axis=0), parts.std(axis=0, ddof=1) / np.sqrt(len(parts))))
    (one, its), (other, others) = found
    assert np.all(np.abs(one - other) < 5.0 * np.hypot(its, others))  # 8 parts each: Student's law has long tails
    assert others[0] < 0.7 * its[0]
