"""Two sectors: what they become when they are alike, both forms of the hats, and the map itself solved for (U5)."""

import numpy as np
import pytest

from onehead.aim import Learner, Squared, Task
from onehead.aim.kernels.arguments import BlockArrays
from onehead.aim.kernels.control_variates import GROUPED_AVERAGES
from onehead.aim.kernels.matrix_sums import matrix_sums
from onehead.aim.logits.geometry import Geometry, geometry_of
from onehead.aim.logits.row import ColumnGroup, Row
from onehead.aim.losses import loss_for_labels
from onehead.aim.theory.build import build_state_evolution, gaussian_independent_head
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.theory.output.averages import ProxCache
from onehead.aim.theory.output.one_sector import OneSectorOutput
from onehead.aim.theory.output.sectors import SectorOutput


def both(geometry, labels, loss):
    """A geometry whose sectors are seen alike, as one and as two."""
    rows = tuple(
        Row(
            columns=tuple(ColumnGroup((0.5, 0.5), column.count) for column in row.columns),
            multiplicity=row.multiplicity,
            on_lattice=row.on_lattice,
        )
        for row in geometry.rows
    )
    halves = Geometry(tokens=geometry.tokens, blocks=rows, rows=rows, unit=1.0, logit_load=1.0)
    how = {"loss": loss_for_labels(labels, loss), "label_power": 1.25}
    return OneSectorOutput(geometry=geometry, **how), SectorOutput(geometry=halves, **how)


@pytest.mark.parametrize(
    ("labels", "loss"), [("soft", "squared"), ("soft", "cross-entropy"), ("hard", "cross-entropy")]
)
@pytest.mark.parametrize("tokens", [2, 3])
def test_sectors_that_are_alike_are_one(labels, loss, tokens):
    one, two = both(geometry_of("cross", "causal", tokens), labels, loss)
    q, m, sigma = 0.8, 0.75, 1.7
    alone = one.averages(q, m, sigma, level=1, detail=1)
    pair = two.averages(q, q, m, m, sigma, sigma, level=1, detail=1)
    for derivative in (False, True):
        expected = one.hats_of(alone, q, m, sigma, derivative=derivative)
        found = two.hats_of(pair, q, q, m, m, sigma, sigma, derivative=derivative)
        # the same nodes, summed in another order
        assert found.sectors == pytest.approx(np.repeat(expected.sectors, 2, axis=1), rel=1e-9)
    # Newton's method of two kernels, each ending at a gradient below 1e-10; the envelope is stationary there
    assert pair.loss == pytest.approx(alone.loss, rel=1e-10)
    assert pair.envelope(sigma) == pytest.approx(alone.envelope(sigma), rel=1e-12)
    # one row of two columns has a lattice where the other takes the formula, good to 1e-8
    assert two.fresh_loss(q, q, m, m, loss="squared") == pytest.approx(one.fresh_loss(q, m, loss="squared"), rel=1e-7)
    assert two.zero_one(q, q, m, m) == pytest.approx(one.zero_one(q, m), rel=1e-12)


def general(output, block, sigmas):
    """The kernel that knows nothing of a block."""
    metric = np.linalg.inv(sigmas[0] * block.sectors[0] + sigmas[1] * block.sectors[1])
    loss = output.loss
    return matrix_sums, (
        loss.compiled,
        loss.compiled_response,
        BlockArrays(block.select, metric, block.conditional_means),
    )


@pytest.mark.parametrize(
    ("labels", "loss"), [("soft", "squared"), ("soft", "cross-entropy"), ("hard", "cross-entropy")]
)
@pytest.mark.parametrize(("mask", "tokens"), [("none", 2), ("causal", 2), ("causal", 4)])
def test_kernels_of_pairs_and_rows_are_the_general_one(mask, tokens, labels, loss, monkeypatch):
    """The same nodes and minima, by Newton steps of another form, cold and from what was kept."""
    output = build_state_evolution(
        Task(attention="self", mask=mask, tokens=tokens, labels=labels), Learner(loss=loss)
    ).output
    state = (0.8, 0.7, 0.8, 0.6, 0.3, 0.5)  # Sigma small enough for one minimum
    assert output.convex_at(*state[4:])
    kernels = [output._kernel(block, state[4:])[0] for block in output.geometry.blocks]
    assert matrix_sums not in kernels
    memory = ProxCache(track_minimum=True)
    found = [output.averages(*state, level=0, detail=1, cache=memory) for _ in range(2)]
    monkeypatch.setattr(SectorOutput, "_kernel", general)
    expected = output.averages(*state, level=0, detail=1)
    for one in found:
        # a prox is good to a gradient of 1e-10; that of a pair answers to its label by a difference good to 1e-9
        for form in ("derivative", "stein"):
            assert getattr(one, form).sectors == pytest.approx(getattr(expected, form).sectors, rel=3e-9)
        assert one.loss == pytest.approx(expected.loss, rel=1e-10)
        assert one.envelope(1.0) == pytest.approx(expected.envelope(1.0), rel=1e-11)


@pytest.mark.parametrize("branch", ["label", "global"])
def test_branches_of_a_pair_are_those_of_the_general_kernel(branch, monkeypatch):
    """Where minima compete the kernel for pairs follows the same ones, and counts the same lower ones (2.7)."""
    output = build_state_evolution(Task(attention="self"), Learner(branch=branch)).output
    state = (8.0, 7.0, 0.2, 0.1, 8.0, 20.0)
    found = output.averages(*state, level=0, search=True)
    monkeypatch.setattr(SectorOutput, "_kernel", general)
    expected = output.averages(*state, level=0, search=True)
    assert found.switch_mass > 0.001
    assert found.switch_mass == pytest.approx(expected.switch_mass, rel=1e-6)
    assert found.stein.sectors == pytest.approx(expected.stein.sectors, rel=1e-6)


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize(("labels", "loss"), [("soft", "squared"), ("hard", "cross-entropy")])
def test_stein_and_derivative_forms(mask, labels, loss):
    """Two ways to the same average, where no prox jumps."""
    output = build_state_evolution(Task(attention="self", mask=mask, labels=labels), Learner(loss=loss)).output
    state = (0.8, 0.7, 0.8, 0.6, 0.9, 1.5)
    found = output.averages(*state, level=2, detail=1)
    assert found.stein.sectors == pytest.approx(found.derivative.sectors, rel=2e-5)  # error of the lattice


def test_information_about_the_sectors():
    """At a state that is alike in both, Sigmahat_s : Sigmahat_a is 3 for two tokens, with or without a mask (U5.1)."""
    for mask in ("none", "causal"):
        output = build_state_evolution(Task(attention="self", mask=mask), Learner(loss="cross-entropy")).output
        small = output.hats(0.5, 0.5, 0.4, 0.4, 1e-3, 1e-3, level=2)
        assert small.sectors[2, 0] / small.sectors[2, 1] == pytest.approx(3.0, rel=1e-2)


@pytest.mark.parametrize("tokens", [2, 3])
@pytest.mark.parametrize("attention", ["self", "cross"])
@pytest.mark.parametrize("mask", ["none", "causal"])
def test_informative_combinations(attention, mask, tokens):
    """J = Sigma Sigmahat / α for a huge Sigma (U1.1)."""
    problem = build_state_evolution(Task(attention=attention, mask=mask, tokens=tokens), Learner(loss="cross-entropy"))
    sigma = 1e5
    hats = problem.output.hats(
        *problem.output._isotropic_values(0.8, 0.7),
        *len(problem.output._isotropic_values(0.0, 0.0)) // 2 * [sigma],
        level=1,
    )
    J = tokens * (tokens - 1) / (1 if mask == "none" else 2)
    assert problem.informative == J
    assert sigma * hats.sigma == pytest.approx(J, rel=2e-3)  # 1/Sigma is left


def test_equal_hats_need_no_consistency():
    """Exact where the sectors have the same hats: the channel of one sector (U5.3)."""
    task, learner = Task(attention="self"), Learner(weight_decay=0.05)
    problem = build_state_evolution(task, learner)
    hats = Hats(0.03, 0.35, 0.4)
    found = problem.input.overlaps(Hats.from_sectors(np.repeat(hats.sectors, 2, axis=1)))
    alone = build_state_evolution(Task(attention="cross"), learner).input.overlaps(hats)
    assert found.sectors == pytest.approx(np.repeat(alone.sectors, 2, axis=1), rel=1e-9)
    assert (found.tau, found.rank) == pytest.approx((alone.tau, alone.rank), rel=1e-9)


def test_consistency_against_the_map_itself():
    """min_S sum_c Sigmahat_c/2 |S_c|² - <R, S> + λ |S|_* solved for a sampled R, information ratio 3 (U5.3)."""
    rng, d, hats = np.random.default_rng(3), 160, Hats((0.028, 0.0094), (0.39, 0.13), (0.41, 0.137))
    decay = 0.02
    problem = build_state_evolution(Task(attention="self", mask="causal"), Learner(weight_decay=decay))
    factors = rng.standard_normal((2, d // 2, d))
    target = factors[0].T @ factors[1] / np.sqrt(d * d / 2)
    noise = rng.standard_normal((d, d)) / np.sqrt(d)

    def split(M):
        return (M + M.T) / 2, (M - M.T) / 2

    R = sum(m * S + np.sqrt(q) * N for q, m, S, N in zip(*hats.sectors[:2], split(target), split(noise), strict=True))
    S, step = np.zeros((d, d)), 1.0 / max(hats.sigma_sectors)
    for _ in range(200):
        s, a = split(S)
        left, r, right = np.linalg.svd(S - step * (hats.sigma_sectors[0] * s + hats.sigma_sectors[1] * a - R))
        S = (left * np.clip(r - step * decay, 0.0, None)) @ right
    found = problem.input.overlaps(hats)
    sizes = [2 * np.sum(part**2) / d for part in split(S)]
    overlaps = [2 * np.sum(part * star) / d for part, star in zip(split(S), split(target), strict=True)]
    # one draw at d = 160 scatters by about 1 %, and the target's power with it; consistency itself is within .6 %
    power = np.sum(target**2) / d
    assert sizes == pytest.approx(found.values[:2], rel=0.04)
    assert np.array(overlaps) / power == pytest.approx(found.values[2:], rel=0.04)
    assert np.mean(np.linalg.svd(S, compute_uv=False) > 1e-9) == pytest.approx(found.rank, abs=0.02)


def test_lower_minima_elsewhere_are_counted():
    """Little weight decay: some samples have a lower minimum than the one near the label, and none where the prox is
    convex.
    """
    output = SectorOutput(loss=Squared(), geometry=geometry_of("self", "none", 2), label_power=1.75)
    assert output.switch_mass(5.2, 5.2, 1.9, 1.9, 50.0, 50.0, level=1) > 1e-3
    assert output.switch_mass(5.2, 5.2, 1.9, 1.9, 0.2, 0.2, level=1) == 0.0


def test_errors_on_fresh_samples_with_a_formula_have_no_error():
    output = SectorOutput(loss=Squared(), geometry=geometry_of("self", "none", 3), label_power=1.75)
    for loss in ("squared", "cross-entropy"):
        assert output.fresh_loss_error(0.8, 0.5, 0.6, 0.3, loss=loss) == 0.0


@pytest.mark.parametrize("param", ["factorised", "direct"])
def test_without_own_logits_it_is_cross_attention(param):
    """U5.5: input and output channel of the head that it would be, from which it is solved."""
    learner = Learner(param=param)
    found = gaussian_independent_head(build_state_evolution(Task(attention="self", tokens=3), learner))
    wanted = build_state_evolution(Task(attention="cross", tokens=3), learner)
    assert type(found.input) is type(wanted.input)
    assert found.output.geometry is wanted.output.geometry


def test_control_variates_of_rows_with_hard_labels_keep_the_mean_and_shrink_the_error(monkeypatch):
    """The sums over all labels without control variates, on points of another rule, are the second route."""
    output = build_state_evolution(
        Task(attention="self", mask="causal", tokens=5, labels="hard"), Learner(loss="cross-entropy")
    ).output
    state = (0.8, 0.7, 0.6, 0.4, 0.5, 0.9)
    (*_, level) = output.geometry.levels

    def hats():
        parts = output.parts(*state, level=level)
        found = np.array([getattr(part, form).sectors.ravel() for part in parts for form in ("derivative", "stein")])
        found = found.reshape(len(parts), -1)
        return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(parts))

    corrected, error = hats()
    with monkeypatch.context() as uncorrected:
        kept = slice(GROUPED_AVERAGES + 1)
        uncorrected.setattr(f"{SectorOutput.__module__}.apply_controls", lambda sums, *_: sums[:, kept])
        _, raw_error = hats()
    monkeypatch.setattr(SectorOutput, "_grouped", lambda *_: False)
    plain, plain_error = hats()
    # errors are estimated from eight parts, so that six of them bound twelve numbers
    assert np.all(np.abs(corrected - plain) < 6.0 * np.hypot(error, plain_error))
    assert np.median(raw_error / error) > 2.0
