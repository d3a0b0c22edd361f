"""Many nodes side by side: the same sums as one node after the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onehead.aim import Learner, Task
from onehead.aim.kernels import two_tokens_simd as lanes
from onehead.aim.kernels.arguments import BlockArrays, Modes, Nodes, Scaling, Slices
from onehead.aim.kernels.matrix_sums import two_token_matrix_sums
from onehead.aim.kernels.two_tokens import two_token_sums
from onehead.aim.logits.blocks import SLICE
from onehead.aim.logits.quadrature import logit_rule
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.output import base as output
from onehead.aim.theory.output.averages import ProxCache

CHANNEL = build_state_evolution(Task(), Learner()).output
BLOCK = CHANNEL.geometry.blocks[0]
RULE = logit_rule(BLOCK, 0, False)


def both(q, m, sigma, modes, kept):
    """Sums and proximal points by both kernels, in slices that do not end where chunks of nodes do."""
    length, Q = 1000, CHANNEL.label_power
    count = -(-len(RULE.weights) // length)
    scaling = Scaling(np.sqrt(Q), m / Q, np.sqrt(q - m * m / Q), sigma)
    arrays = BlockArrays(BLOCK.select, BLOCK.metric, BLOCK.conditional_means)
    found = []
    for kernel, before in ((two_token_sums, (CHANNEL.loss.compiled_pair,)), (lanes.two_token_squared_sums, ())):
        out, points = np.empty((count, 9)), kept.copy()
        kernel(*before, arrays, Nodes(*RULE, points), scaling, modes, Slices(length, 0, count), out)
        found.append((out, points))
    return found


@given(
    q=st.floats(0.01, 20.0),
    cosine=st.floats(0.0, 0.99),
    log_sigma=st.floats(-5.0, 12.0),
    search=st.integers(0, 2),
    detail=st.integers(0, 2),
)
@pytest.mark.slow
def test_sums_are_those_of_one_node_after_the_other(q, cosine, log_sigma, search, detail):
    m = cosine * np.sqrt(q * CHANNEL.label_power)
    (one, one_points), (side, side_points) = both(
        q, m, float(np.exp(log_sigma)), Modes(search, detail, 1), np.zeros_like(RULE.label)
    )
    # Newton leaves gradients of 1e-10; the answer to the label is a difference in one of them, good to about 1e-9
    scale = np.abs(one).max(axis=0)
    close = np.array([1e-9, 1e-9, 1e-9, 1e-8, 1e-8, 1e-7, 1e-9, 1e-12, 0.0]) * np.maximum(scale, 1e-12)
    close[4] = np.inf if detail < 2 else close[4]  # one kernel fills it from detail 1 on as well
    assert np.all(np.abs(one - side)[:, :8] <= close[:8] + 1e-300)
    assert side[:, 8].max() < 1e-6
    assert side_points == pytest.approx(one_points, abs=1e-5 * (1.0 + np.abs(one_points).max()))


def test_points_that_are_followed_stay_in_their_minima():
    q, m, sigma = 1.87, 1.54, 30.0
    kept = lanes_points(q, m, sigma)
    (one, _), (side, points) = both(q * 1.001, m, sigma, Modes(start=2), kept)
    assert side[:, :3] == pytest.approx(one[:, :3], rel=1e-9)
    assert np.abs(points - kept).max() < 1.0  # another minimum is further away


def lanes_points(q, m, sigma):
    return both(q, m, sigma, Modes(start=1), np.zeros_like(RULE.label))[1][1]


def test_exponentials():
    w = np.zeros(lanes.END)
    x = np.concatenate([np.linspace(-40.0, 40.0, lanes.PAIRED - 3), [0.0, 699.0, 1e4]])
    w[: lanes.PAIRED] = x
    lanes._exponentials(w, w.view(np.int64), 0)
    found = w[lanes.E0 : lanes.E0 + lanes.PAIRED]
    assert found[:-1] == pytest.approx(np.exp(-np.abs(x[:-1])), rel=5e-16)  # a few roundings
    assert found[-1] < 1e-300


def test_two_tokens_with_squared_loss_go_side_by_side(monkeypatch):
    def never(*_):
        raise AssertionError("one node after the other")

    monkeypatch.setattr(output, "two_token_sums", never)
    assert CHANNEL.averages(1.0, 0.9, 2.0, level=0).distance > 0.0
    drawn = build_state_evolution(Task(), Learner(loss="cross-entropy")).output
    with pytest.raises(AssertionError):
        drawn.averages(1.0, 0.9, 2.0, level=0)


def test_where_a_prox_has_one_minimum_it_starts_where_it_was(monkeypatch):
    """Kept points that are in their minima need one step; from their labels they would need several, and end at the
    same place.
    """
    started = []

    def seen(*arguments):
        started.append(arguments[3].start)
        return lanes.two_token_squared_sums(*arguments)

    monkeypatch.setattr(output, "two_token_squared_sums", seen)
    memory, convex, not_convex = ProxCache(track_minimum=False), 0.2, 20.0
    found = [
        CHANNEL.averages(1.0, 0.9, sigma, level=0, cache=memory) for sigma in (not_convex, convex, convex, not_convex)
    ]
    assert started == [1, 2, 2, 1]
    anew = CHANNEL.averages(1.0, 0.9, convex, level=0)
    assert np.array(found[2]) == pytest.approx(np.array(anew), rel=1e-9)  # gradients of 1e-10 are left


@pytest.mark.parametrize("sigma", [0.3, 4.0])
@pytest.mark.parametrize("detail", [0, 1])
@pytest.mark.parametrize("search", [0, 1, 2])
def test_matrices_are_those_of_one_node_after_the_other(sigma, detail, search):
    """The metric contains Sigma, and nodes are logits: of a head that sees its own logit (U5.2, D2.2)."""
    count, length = 4, SLICE
    rng = np.random.default_rng(3)
    nodes = count * length - 5  # the last chunk is not full
    label, free = (np.ascontiguousarray(rng.standard_normal((nodes, 2)) * size) for size in (2.0, 1.5))
    weights = rng.random(nodes) / nodes
    arrays = BlockArrays(BLOCK.select, BLOCK.metric / sigma, BLOCK.conditional_means)
    found = []
    for kernel, before in (
        (two_token_matrix_sums, (CHANNEL.loss.compiled_pair,)),
        (lanes.two_token_squared_matrix_sums, ()),
    ):
        out, kept = np.empty((count, 24)), np.zeros((nodes, 2))
        kernel(
            *before, arrays, Nodes(label, label + free, weights, kept), Scaling(1.0, 0.0, 1.0, 1.0),
            Modes(search, detail, 1), Slices(length, 0, count), out,
        )  # fmt: skip
        found.append((out, kept))
    (one, one_points), (side, side_points) = found
    assert one_points == pytest.approx(side_points, abs=1e-8)
    scale = np.abs(one).max(axis=0)
    # gradients of 1e-10 are left; the answer to the label is a difference in one of the two
    close = np.where(np.arange(24) < 20, 1e-8, 1e-6) * np.maximum(scale, 1e-6)
    close[3] = 1e-6  # the largest gradient itself
    assert np.all(np.abs(one - side) <= close)
    assert (np.abs(one[:, 16:]).max() > 0.0) == (detail > 0)


def test_slices_hold_whole_chunks():
    assert SLICE % lanes.LANES == 0  # none is filled up with nodes without a weight but the last
