"""Compiled kernels against slower routes: numpy, each other, and the equations they solve."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import softmax
from tests.support.proximal_points import prox

from onehead.aim.logits.geometry import tied_geometry
from onehead.aim.logits.quadrature import LogitRule, logit_rule
from onehead.aim.losses import LOSSES
from onehead.aim.theory.output.one_sector import OneSectorOutput
from onehead.aim.training.message_passing import _proximal_messages
from onehead.numerics.prox import pair_of_row


@pytest.mark.parametrize("name", list(LOSSES))
@given(x=st.floats(-30.0, 30.0), y=st.floats(0.0, 1.0))
def test_the_shortcut_for_two_tokens_is_the_row_with_a_zero_logit(name, x, y):
    channel = LOSSES[name]
    short, long = channel.compiled_pair(x, y, 1.0 - y), _pair_of(name)(x, y, 1.0 - y)
    # rounding: the row subtracts probabilities near one, the shortcut does not
    assert np.array(short) == pytest.approx(np.array(long), rel=1e-9, abs=1e-14)


_pairs: dict[str, object] = {}


def _pair_of(name):
    if name not in _pairs:
        _pairs[name] = pair_of_row(LOSSES[name].compiled)
    return _pairs[name]


def _few_nodes(tokens, count, monkeypatch):
    """A rule with about ``count`` of its nodes left, in place of the whole, for the kernels of matrices."""
    monkeypatch.setattr(OneSectorOutput, "_shares_logits", lambda *_: False)
    rule = logit_rule(tied_geometry(tokens).blocks[0], 0, False)
    few = LogitRule(*(part[:: len(rule.weights) // count].copy() for part in rule))
    monkeypatch.setattr("onehead.aim.theory.output.one_sector.logit_rule", lambda *_: few)
    return few


@pytest.mark.parametrize(
    ("tokens", "name", "sigma"), [(2, "squared", 0.9), (2, "cross-entropy", 3.0), (3, "cross-entropy", 3.0)]
)
@pytest.mark.slow
def test_averages_over_a_few_nodes_against_scipy(tokens, name, sigma, monkeypatch):
    """Where the prox has one minimum any minimiser finds it."""
    output = OneSectorOutput(loss=LOSSES[name], geometry=tied_geometry(tokens), label_power=2.9)
    few = _few_nodes(tokens, 20, monkeypatch)

    def minimum(start, v, y):
        def objective(u):
            value, slope = _loss(output.loss, tied_geometry(tokens).blocks[0], u, y)
            pull = tied_geometry(tokens).blocks[0].metric @ (u - v) / sigma
            return 0.5 * (u - v) @ pull + value, pull + slope

        found = minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-10})
        return found.x, found.fun

    found, direct = output.averages(2.7, 0.5, sigma, level=0), _averages(output, few, 2.7, 0.5, minimum)
    for part in ("loss", "distance", "along_label", "along_own"):
        # scipy stops at a gradient of 1e-10, or where rounding of the objective hides the rest: 1e-7 of the point
        assert getattr(found, part) == pytest.approx(direct[part], rel=1e-5, abs=1e-8), part


@pytest.mark.parametrize(("tokens", "name"), [(2, "squared"), (3, "squared"), (3, "cross-entropy")])
def test_traces_over_a_few_nodes_by_moving_every_prox(tokens, name, monkeypatch):
    """tr K, tr K² with K = 1 - dprox/dv and tr dprox/du*, the derivatives by central differences of the prox."""
    output, sigma, change = (
        OneSectorOutput(loss=LOSSES[name], geometry=tied_geometry(tokens), label_power=2.9),
        0.9,
        1e-4,
    )
    few, shape = _few_nodes(tokens, 20, monkeypatch), tied_geometry(tokens).blocks[0]
    target = np.sqrt(2.9) * few.label
    v = 0.5 / 2.9 * target + np.sqrt(2.7 - 0.25 / 2.9) * few.free

    def points(v, moved):
        y = np.array([softmax(_rows(shape, u), axis=1) for u in moved])
        return prox(output.loss.compiled, shape.select, shape.metric, sigma, v, y, target).u

    by_v, by_label = np.empty((len(v), shape.dim, shape.dim)), np.empty((len(v), shape.dim, shape.dim))
    for k in range(shape.dim):
        move = change * np.eye(shape.dim)[k]
        by_v[:, :, k] = (points(v + move, target) - points(v - move, target)) / (2.0 * change)
        by_label[:, :, k] = (points(v, target + move) - points(v, target - move)) / (2.0 * change)
    K = np.eye(shape.dim) - by_v
    found = output.averages(2.7, 0.5, sigma, level=0, detail=2)
    # the square of the change, and what Newton leaves over it: both below 1e-6
    assert found.trace == pytest.approx(few.weights @ np.trace(K, axis1=1, axis2=2), rel=1e-5)
    assert found.trace_square == pytest.approx(few.weights @ np.trace(K @ K, axis1=1, axis2=2), rel=1e-5)
    assert found.cross == pytest.approx(few.weights @ np.trace(by_label, axis1=1, axis2=2), rel=1e-5)


@pytest.mark.parametrize("branch", ["label", "global"])
@pytest.mark.parametrize(("tokens", "count"), [(2, 200), (3, 100)])
def test_branches_over_a_few_nodes_one_prox_at_a_time(tokens, count, branch, monkeypatch):
    """Where minima compete: the label's, the lowest, and how often they differ, from the starts that are promised.

    Among so many nodes each of the starts is, somewhere, the only one that leads to the lowest minimum.
    """
    output, sigma = (
        OneSectorOutput(loss=LOSSES["squared"], geometry=tied_geometry(tokens), label_power=9.0, branch=branch),
        30.0,
    )
    few, shape = _few_nodes(tokens, count, monkeypatch), tied_geometry(tokens).blocks[0]

    def minimum(start, v, y):
        points = prox(output.loss.compiled, shape.select, shape.metric, sigma, v[None], y[None], start[None])
        return points.u[0], points.value[0]

    found, direct = output.averages(9.0, 1.0, sigma, level=0, search=True), _averages(output, few, 9.0, 1.0, minimum)
    assert direct["switch_mass"] > 0.0
    for part, value in direct.items():
        assert getattr(found, part) == pytest.approx(value, rel=1e-8, abs=1e-10), part


def _averages(output, rule, q, m, minimum):
    """The averages of a few nodes, every prox by ``minimum(start, v, y)``."""
    shape, Q = output.geometry.blocks[0], output.label_power
    total = dict.fromkeys(("loss", "distance", "along_label", "along_own", "switch_mass"), 0.0)
    for label, free, weight in zip(*rule, strict=True):
        target = np.sqrt(Q) * label
        v = m / Q * target + np.sqrt(q - m * m / Q) * free
        y = softmax(_rows(shape, target), axis=1)
        starts = [target, v, *(v + fit @ (target - v) for fit in shape.conditional_means)]
        found = [minimum(start, v, y) for start in starts]
        lowest = min(found, key=lambda one: one[1])
        u = found[0][0] if output.branch == "label" else lowest[0]
        pull = shape.metric @ (u - v)
        total["loss"] += weight * _loss(output.loss, shape, u, y)[0]
        total["distance"] += weight * pull @ (u - v)
        total["along_label"] += weight * pull @ target
        total["along_own"] += weight * pull @ v
        total["switch_mass"] += weight * (lowest[1] < found[0][1] - 1e-9)
    return total


def _rows(shape, u):
    return np.where(shape.select >= 0, u[shape.select], 0.0)


def _loss(channel, shape, u, y):
    """Loss of all rows and its slope in the coordinates."""
    value, slope, gradient = 0.0, np.zeros(shape.dim), np.empty(len(shape.select))
    hessian = np.empty((len(shape.select), len(shape.select)))
    for a, row in enumerate(_rows(shape, u)):
        value += channel.compiled(row.copy(), y[a], gradient, hessian)
        for b, i in enumerate(shape.select[a]):
            slope[i] += gradient[b] if i >= 0 else 0.0
    return value, slope


@pytest.mark.parametrize("name", list(LOSSES))
def test_messages_are_slopes_of_the_loss_at_the_prox(name):
    """C^-1 (prox - v) / Σ = - slope of the loss at the prox, and the trace is that of its derivative in v."""
    shape, step, change = tied_geometry(3).blocks[0], 0.8, 1e-5
    rng = np.random.default_rng(4)
    v, target = rng.normal(size=(2, 4, shape.dim))
    label = np.array([softmax(_rows(shape, u), axis=1) for u in target])
    p, out = np.empty_like(v), np.empty(1)

    def messages(v):
        _proximal_messages(LOSSES[name].compiled, shape.select, shape.metric, step, v, label, target, p, out)
        return p.copy(), out[0]

    middle, trace = messages(v)
    u = v + step * middle @ shape.covariance
    for i in range(len(v)):
        assert middle[i] == pytest.approx(-_loss(LOSSES[name], shape, u[i], label[i])[1], abs=1e-9)
    total = 0.0
    for k in range(shape.dim):
        moved = np.eye(shape.dim)[k] * change
        slope = (messages(v + moved)[0] - messages(v - moved)[0]) / (2.0 * change)
        total -= step * np.sum(slope @ shape.covariance, axis=0)[k]  # tr(1 - dprox/dv) = - Σ tr C dp/dv
    assert trace == pytest.approx(total, rel=1e-7)
