"""Rows that share logits: drawn labels against all labels, and controls that see what rows share (L7.2, L7.3)."""

import numpy as np
import pytest

from onehead.aim import Learner, Task, predict, train
from onehead.aim.kernels import shared_logits_simd as simd
from onehead.aim.kernels import shared_logits_traces as traces
from onehead.aim.kernels.arguments import Branch, LogitState, Modes, Nodes
from onehead.aim.kernels.control_variates import (
    AVERAGE_COUNT,
    BASIC_CONTROLS,
    CONTROL_COUNT,
    MOMENT_COUNT,
    ZERO_MEAN_CONTROLS,
)
from onehead.aim.kernels.independent_rows import row_loss
from onehead.aim.kernels.losses import SQUARED
from onehead.aim.kernels.shared_logits import shared_logit_sums
from onehead.aim.kernels.simd import LANES
from onehead.aim.logits.blocks import PARTS
from onehead.aim.logits.control_variates import control_means
from onehead.aim.logits.geometry import geometry_of
from onehead.aim.logits.softmax_row import Column, SoftmaxRow
from onehead.aim.losses import CrossEntropy, HardCrossEntropy, Squared
from onehead.aim.theory.output import one_sector as channels
from onehead.aim.theory.output import sectors
from onehead.aim.theory.output.averages import sum_in_slices
from onehead.aim.theory.output.one_sector import OneSectorOutput
from onehead.aim.theory.output.sectors import SectorOutput

Q = 1.25
STATES = {"tied": (1.1, 1.0, 0.6), "self": (1.4, 1.2, 0.9, 0.8, 0.7, 1.1)}


def by_parts(head, tokens):
    """Every average of hard labels by every part of the rule: mean and standard error."""
    kind = SectorOutput if head == "self" else OneSectorOutput
    output = kind(loss=HardCrossEntropy(), geometry=geometry_of(head, "none", tokens), label_power=Q)
    parts = output.parts(*STATES[head], level=2)
    if head == "self":
        found = np.array(
            [
                [part.distance, part.loss, *part.derivative.sectors.ravel(), *part.stein.sectors.ravel()]
                for part in parts
            ]
        )
    else:
        found = np.delete(np.array(parts), [4, 7], axis=1)  # tr K² was not asked for, and nothing switches
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(PARTS)


@pytest.mark.parametrize("head", STATES)
@pytest.mark.slow
def test_drawn_labels_are_all_labels(head, monkeypatch):
    """27 proximal steps for every node, each as often as it is drawn, or one."""
    one, its = by_parts(head, 3)
    for module in (channels, sectors):
        monkeypatch.setattr(module, "MAX_ENUMERATED_LABELS", 27)
    other, others = by_parts(head, 3)
    assert np.all(one != other)  # another kernel, on other points
    assert np.all(np.abs(one - other) < 5.5 * np.hypot(its, others) + 1e-12)  # up to 14 numbers of 8 parts each


@pytest.mark.parametrize("head", STATES)
def test_hard_labels_of_many_rows_emerge_by_formula(head, monkeypatch):
    """At S = 0 with hard labels, by formula and by quadrature."""
    kind = SectorOutput if head == "self" else OneSectorOutput
    output = kind(loss=HardCrossEntropy(), geometry=geometry_of(head, "none", 4), label_power=Q)
    found = output._sum_parts(output._origin_sums(3)).mean(axis=0)
    for module in (channels, sectors):
        monkeypatch.setattr(module, "MAX_ENUMERATED_LABELS", 256)
    sampled = output._sum_parts(output._origin_sums(3))
    error = sampled.std(axis=0, ddof=1) / np.sqrt(PARTS)
    assert np.all(np.abs(found - sampled.mean(axis=0)) < 5.0 * error + 1e-6)


@pytest.mark.parametrize("loss", [Squared(), CrossEntropy(), HardCrossEntropy()], ids=["squared", "soft", "hard"])
def test_combinations_of_mean_zero(loss):
    """Of the proximal point, of the field of its attention, of the envelope that is turned, and of drawn labels."""
    tokens, (q, m, sigma) = 4, (1.1, 1.0, 3.0)
    output = OneSectorOutput(loss=loss, geometry=geometry_of("tied", "none", tokens), label_power=Q)
    (block,) = output.geometry.blocks
    rule = output._rule(block, 2, False)
    modes = Modes(detail=1, hard=int(loss.hard), use_stein_controls=1, all_controls=1)
    before = (loss.compiled_kind, tokens, Nodes(*rule, rule.label), LogitState(Q, q, m, sigma), modes)
    sums = sum_in_slices(shared_logit_sums, MOMENT_COUNT, 2, len(rule.weights), before)
    controls = (
        len(sums) * sums[:, AVERAGE_COUNT + 1 : AVERAGE_COUNT + 1 + CONTROL_COUNT]
    )  # a row for every pair of mirror images
    means = np.zeros(CONTROL_COUNT)
    one = SoftmaxRow((Column(1, 2 * Q, 2 * q, 2 * m), Column(tokens - 1, Q, q, m)))
    means[BASIC_CONTROLS - 5 : BASIC_CONTROLS - 1] = (
        tokens * control_means(one)[BASIC_CONTROLS - 5 : BASIC_CONTROLS - 1]
    )
    used = [*range(ZERO_MEAN_CONTROLS), *(range(BASIC_CONTROLS - 5, BASIC_CONTROLS - 1) if loss.hard else ())]
    varied = [place for place in used if controls[:, place].std() > 0.0]
    assert len(varied) == (8 if loss.hard else 5 if loss == Squared() else 3)
    off = np.abs(controls.mean(axis=0) - means) / (controls.std(axis=0) / np.sqrt(len(controls)) + 1e-300)
    assert np.all(off[varied] < 4.5), off[varied]


def test_what_the_field_of_attention_takes_off(monkeypatch):
    """A fifth of the errors of the hats at least, as the same parts show them without."""
    tokens, state = 5, (1.24, 1.15, 5.0)
    output = OneSectorOutput(
        loss=Squared(), geometry=geometry_of("tied", "none", tokens), label_power=Q, single_minimum=True
    )
    whole = np.array(output.parts(*state, level=3)).std(axis=0)[[0, 3, 5]]
    kept = channels.apply_controls

    def without(sums, means):
        means = means.copy()
        means[2:5] = np.nan  # not known: not used
        return kept(sums, means)

    monkeypatch.setattr(channels, "apply_controls", without)
    part = whole / np.array(output.parts(*state, level=3)).std(axis=0)[[0, 3, 5]]
    assert (
        np.exp(np.mean(np.log(part))) < 0.8
    )  # a spread of eight parts is known to a quarter, but that of both moves together


@pytest.mark.parametrize("head", STATES)
@pytest.mark.slow
def test_hard_labels_of_five_tokens_as_they_are_trained(head):
    task, learner = Task(attention=head, tokens=5, labels="hard"), Learner(loss="cross-entropy", weight_decay=0.3)
    runs, theory = train(task, learner, dim=50, alpha=0.4, seeds=4), predict(task, learner, 0.4)
    for name in ("q", "m", "test_error", "train_loss", "zero_one_error"):  # finite size, of order 1/d = 2 %
        assert getattr(runs, name) == pytest.approx(getattr(theory, name), rel=0.05), name


def test_the_field_answers_to_the_label_as_dense_matrices_do():
    """tr V J A^-1 B at one point, all logits written down."""
    tokens, sigma, rng = 4, 3.0, np.random.default_rng(3)
    number = np.zeros((tokens, tokens), dtype=int)
    above = np.triu_indices(tokens)
    number[above] = number.T[above] = range(len(above[0]))
    variances, n = np.where(above[0] == above[1], 2.0, 1.0), len(above[0])
    h, t = (rng.standard_normal(n)[number] for _ in range(2))
    p, g, w, y = (np.zeros((tokens, tokens)) for _ in range(4))
    y[:] = np.exp(t) / np.exp(t).sum(axis=1, keepdims=True)
    s, r = np.zeros(tokens), np.zeros(tokens)
    for a in range(tokens):
        _, s[a], r[a] = row_loss(SQUARED, h[a], y[a], p[a], g[a], w[a])
    held, place = 1.0 / (sigma * variances), number.astype(np.int64)
    work, side_by_side = simd.workspace(tokens, 2 * tokens), np.ones((n, LANES))
    problem = simd.Problem(SQUARED, place, held, np.zeros((n, LANES)), np.zeros((tokens * tokens, LANES)))
    problem.y[:] = y.reshape(-1, 1)
    simd.evaluate(problem, np.array([h[place == i][0] for i in range(n)])[:, None] * side_by_side, work)
    simd.factor_at_minimum(problem, work)
    assert np.all(work.definite == 1.0)
    assert np.allclose(work.p[: tokens * tokens, -1], p.ravel(), rtol=1e-13)
    M, found = np.zeros((4 * tokens * tokens, LANES)), np.zeros(LANES)
    simd.invert(work.R, tokens, True, M)
    x, z, spare = np.zeros((n, LANES)), np.zeros((n, LANES)), np.zeros((5, LANES))
    traces.add_field_responses(traces.Factored(place, work.p, work.w, work.inverse, M), problem.y, x, z, spare, found)
    J, B, A = np.zeros((n, n)), np.zeros((n, n)), np.diag(1.0 / (sigma * variances))
    for a in range(tokens):
        of, label = (np.diag(x) - np.outer(x, x) for x in (p[a], y[a]))
        curved, gradient = np.zeros((tokens, tokens)), np.zeros(tokens)
        Squared.row(h[a], y[a], gradient, curved)
        rows = np.ix_(number[a], number[a])
        J[rows] += of
        B[rows] += 2.0 * of @ label
        A[rows] += curved
    dense = np.trace(np.diag(variances) @ J @ np.linalg.solve(A, B))
    assert found == pytest.approx(dense, rel=1e-10)


def test_a_hessian_is_positive_definite_where_its_eigenvalues_say_so():
    """Also where an entry of the diagonal D is negative, at points beside each other."""
    tokens, sigma, rng = 4, 20.0, np.random.default_rng(5)
    number = np.zeros((tokens, tokens), dtype=int)
    above = np.triu_indices(tokens)
    number[above] = number.T[above] = range(len(above[0]))
    n, place = len(above[0]), number.astype(np.int64)
    held = 1.0 / (sigma * np.where(above[0] == above[1], 2.0, 1.0))
    points, labels = 0.5 * rng.standard_normal((n, LANES)), np.exp(4.0 * rng.standard_normal((tokens, tokens, LANES)))
    labels /= labels.sum(axis=1, keepdims=True)
    work = simd.workspace(tokens, 2 * tokens)
    problem = simd.Problem(SQUARED, place, held, np.zeros((n, LANES)), labels.reshape(-1, LANES))
    simd.evaluate(problem, points, work)
    work.hold[:] = 1.0
    simd._factor(problem, work)
    seen = set()
    for k in range(LANES):
        A = np.diag(held)
        for a in range(tokens):
            curved, gradient = np.zeros((tokens, tokens)), np.zeros(tokens)
            Squared.row(points[place[a], k], labels[a, :, k].copy(), gradient, curved)
            A[np.ix_(place[a], place[a])] += curved
        definite = bool(np.linalg.eigvalsh(A)[0] > 0.0)
        assert bool(work.definite[k]) == definite
        seen.add((definite, bool(work.inverse[:, k].min() < 0.0)))
    assert {(True, False), (True, True), (False, True)} <= seen


def test_nodes_side_by_side_are_nodes_alone():
    """A node has the same sums whatever nodes are beside it, whose minima vanish or are far away."""
    tokens, state = 3, LogitState(Q, 2.0, 1.2, 60.0)
    output = OneSectorOutput(loss=Squared(), geometry=geometry_of("tied", "none", tokens), label_power=Q)
    rule = output._rule(output.geometry.blocks[0], 0, False)
    nodes = [array[: 4 * LANES] for array in (rule.label, rule.free, rule.weights)]
    for branch in Branch:
        modes = Modes(branch=int(branch), detail=2, start=1, use_stein_controls=1, all_controls=1)
        kept, found = [], []
        for length in (2, 4 * LANES):  # two nodes of one group, or all of them
            points = np.zeros((4 * LANES, 6))
            arguments = (SQUARED, tokens, Nodes(*nodes, points), state, modes)
            found.append(sum_in_slices(shared_logit_sums, MOMENT_COUNT, length, len(points), arguments).sum(axis=0))
            kept.append(points)
        assert np.allclose(*kept, rtol=0.0, atol=1e-9)  # Newton's method stops at a gradient of 1e-10
        ours = np.r_[:AVERAGE_COUNT, AVERAGE_COUNT + 1 : AVERAGE_COUNT + 1 + CONTROL_COUNT]
        assert np.allclose(found[0][ours], found[1][ours], rtol=1e-10, atol=1e-12)
