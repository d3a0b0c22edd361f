"""Representable part of a target: recovery, the plateau, the law of a recovered map, and warnings about narrow
learners.
"""

import numpy as np
import pytest
from checks.soak_problems import check_prediction, check_spectrum
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.problems import log_uniform, mp

from onehead import aim, plot
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.verbs.implicit_derivatives import local_exponent
from onehead.app.drafts.curves import draft_plateau, draft_point, draft_thresholds
from onehead.app.drafts.derived import draft_spectrum
from onehead.errors import SolveError

LIMIT = aim.Learner(weight_decay="0+")
DIRECT = LIMIT.changed(param="direct")
INDEFINITE = aim.Atoms(eigenvalues=(1.5,) * 25 + (-1.2,) * 25 + (0.0,) * 50)
NARROW = [
    pytest.param(aim.Task(), aim.Learner(width=0.2), id="mp"),
    pytest.param(mp(1.5), aim.Learner(width=0.3), id="mp of full rank"),
    pytest.param(aim.Task(target=aim.PowerLaw()), aim.Learner(width=0.1, leading=0), id="power law"),
    pytest.param(aim.Task(beta0=1.7), aim.Learner(width=0.2, beta=0.6), id="temperatures"),
]
UNREPRESENTABLE = [
    *NARROW,
    pytest.param(aim.Task(target=INDEFINITE), aim.Learner(), id="indefinite"),
    pytest.param(aim.Task(target=INDEFINITE, noise=0.0), aim.Learner(width=0.1), id="indefinite and narrow"),
]

few = st.sampled_from([-2.0, -1.2, -0.5, 0.0, 0.5, 1.5, 1.5, 3.0])  # repeated, and of both signs
lists = st.lists(few, min_size=4, max_size=12).map(lambda values: (1.5, *values))
targets = st.one_of(
    st.builds(aim.Atoms, eigenvalues=lists),
    st.builds(
        aim.Spikes,
        spikes=st.lists(st.floats(-4.0, 4.0).filter(lambda x: abs(x) > 0.2), min_size=1, max_size=3).map(
            lambda values: (2.0, *values)
        ),
        dim=st.integers(6, 30),
    ),
)


def solved(task, learner, alpha):
    """Prediction; problems that are refused with a reason are skipped."""
    try:
        return aim.predict(task, learner, alpha)
    except SolveError:
        assume(False)


def test_factors_never_recover_an_indefinite_target():
    """Half positive, half negative eigenvalues, no noise: .161 at α = 1 (training at d = 100: .158(1)), and no
    recovery.
    """
    task = aim.Task(target=INDEFINITE, noise=0.0)
    point = aim.predict(task, LIMIT, 1.0)
    assert point.test_error == pytest.approx(0.16077, abs=2e-5)
    assert point.status == "converged"
    marks = aim.thresholds(task)
    assert marks.interpolation == pytest.approx(0.125555, abs=1e-6)  # that of noise 1e-6
    assert marks.peak_test_error == pytest.approx(aim.thresholds(task.changed(noise=1e-6)).peak_test_error, rel=1e-5)
    assert marks.to_dict()["recovery"] is None
    assert "the target has negative eigenvalues, and a map W'W has none" in marks.status
    assert draft_thresholds(task, LIMIT).recovery == np.inf


def test_direct_training_recovers_an_indefinite_target():
    task = aim.Task(target=INDEFINITE, noise=0.0)
    point = aim.predict(task, DIRECT, 0.3)
    assert point.status.startswith("perfect recovery")
    assert point.test_error == pytest.approx(0.0, abs=1e-12)
    assert aim.thresholds(task, DIRECT).recovery == pytest.approx(0.25)
    assert aim.plateau(task, DIRECT).test_error == pytest.approx(0.0, abs=1e-12)


@given(
    target=st.one_of(targets, st.builds(aim.MarchenkoPastur, kappa0=log_uniform(0.1, 2.0))),
    width=st.one_of(st.just(1.0), st.floats(0.15, 0.9)),
    param=st.sampled_from(["factorised", "factorised", "direct"]),
    ratio=log_uniform(0.2, 8.0),
)
@settings(max_examples=3)
@pytest.mark.slow
def test_small_noise_approaches_no_noise(target, width, param, ratio):
    """λ → 0⁺ at Δ = 0 and Δ = 1e-6, 1e-8, below interpolation and beyond: errors move by a power of Δ not below 1/2
    (4.2, A.3).
    """
    task, learner = aim.Task(target=target, noise=0.0), LIMIT.changed(width=width, param=param)
    alpha = ratio * aim.thresholds(task, learner).interpolation
    assume(abs(ratio - 1.0) > 0.05)  # at the threshold of direct training the error is infinite for any noise
    none = solved(task, learner, alpha)
    for noise in (1e-6, 1e-8):
        little = solved(task.changed(noise=noise), learner, alpha)
        allowed = 3.0 * (none.certificate.quadrature_error + little.certificate.quadrature_error)
        assert little.test_error == pytest.approx(none.test_error, abs=allowed + 3.0 * noise**0.5)


@pytest.mark.parametrize(("task", "learner"), UNREPRESENTABLE)
def test_the_plateau_is_where_the_curve_ends(task, learner):
    """The excess falls as 1/α to the true plateau: at α = 1000 it is a thousandth of what it is of order at α = 1
    (8.1).
    """
    far, farther = (aim.predict(task, learner, alpha) for alpha in (300.0, 1200.0))
    end = aim.plateau(task, learner).test_error
    assert far.test_error - far.excess_error == pytest.approx(end, rel=1e-12)
    assert 0.0 < farther.excess_error < 2e-3 * end
    # the next order is 1/α², below a per cent here, and the quadrature error is a few 1e-8
    assert far.excess_error == pytest.approx(4.0 * farther.excess_error, rel=2e-2)
    assert local_exponent(farther) == pytest.approx(-1.0, abs=0.02)
    assert draft_plateau(task, learner).test_error == pytest.approx(end, rel=2e-3)  # on the coarsest rule


def test_the_plateau_of_a_narrow_learner():
    """Width .2 of a target of width .5: not .0741, which is that of full width."""
    assert aim.plateau(aim.Task(), aim.Learner(width=0.2)).test_error == pytest.approx(0.1287, abs=5e-5)
    assert aim.plateau(aim.Task(), aim.Learner(width=0.2, param="direct")).test_error == pytest.approx(0.0741, abs=5e-5)


@pytest.mark.parametrize(("task", "learner"), [NARROW[2].values, UNREPRESENTABLE[4].values, UNREPRESENTABLE[5].values])
def test_no_map_does_better_than_the_plateau(task, learner):
    """Random maps without negative eigenvalues, of the learner's width, with the best scale: m² <= q P² (8.1)."""
    rng, values = np.random.default_rng(0), task.target.values
    channel = build_state_evolution(task, learner).input
    rows = round(min(learner.width, 1.0) * len(values))
    for spread in (0.0, 0.05, 0.3, 2.0):
        noise = rng.standard_normal((len(values), len(values))) * np.sqrt(0.5 * spread / len(values))
        eigenvalues, basis = np.linalg.eigh(np.diag(values) + noise + noise.T)
        clipped = np.clip(eigenvalues, 0.0, None) * (np.arange(len(values)) >= len(values) - rows)
        S = (basis * clipped) @ basis.T
        q, m = np.mean(clipped**2), np.mean(np.diag(S) * values)
        assert m**2 <= q * channel.representable_power * (1.0 + 1e-12)
        if spread == 0.0:  # the truncated target itself
            assert m**2 == pytest.approx(q * channel.representable_power, rel=1e-12)


@pytest.mark.parametrize(("task", "learner"), UNREPRESENTABLE)
@pytest.mark.parametrize("alpha", [0.6, 30.0])
def test_the_parts_of_the_excess_do_not_include_the_plateau(task, learner, alpha):
    """They sum to the excess and none is negative: what cannot be represented is in the plateau, not in underfitting
    (8.2).
    """
    point = aim.predict(task, learner, alpha)
    split = aim.decompose(point)
    parts = (split.underfitting, split.approximation, split.overfitting)
    assert sum(parts) + split.mismatch == pytest.approx(point.excess_error, rel=1e-3)  # six nodes on the segment (8.3)
    assert min(parts) >= -1e-9
    assert abs(split.mismatch) < 0.5 * point.excess_error
    end = f"infinitely many would give {point.test_error - point.excess_error:.3g}, not less, because"
    assert end in " ".join(point.explain().split())


def test_scaling_laws_of_a_narrow_learner_end_at_its_plateau():
    task, learner = aim.Task(target=aim.PowerLaw(dim=60)), aim.Learner(width=0.1)
    row = aim.scaling(task, learner, [60**2 * 300.0]).points[0]
    assert row.local_exponent == pytest.approx(-1.0, abs=0.02)
    assert 0.0 < row.excess_error < 1e-3
    assert row.certificate.kind == "heuristic"
    cell = aim.phase_diagram(task, learner, log_n=[3.0], log_lambda=[-1.0]).cells[0]
    assert cell.kind == "heuristic"
    assert 0.0 < cell.excess_error < 1e-2


RECOVERED = [
    pytest.param(mp(0.3, noise=0.0), DIRECT, 0.7, id="mp"),
    pytest.param(mp(0.3, noise=0.0, beta0=2.0), LIMIT.changed(beta=0.5), 0.7, id="mp, temperatures"),
    pytest.param(aim.Task(target=INDEFINITE, noise=0.0), DIRECT, 0.5, id="atoms of both signs"),
    pytest.param(aim.Task(target=aim.Spikes(spikes=(6.0, 3.0, -2.0), dim=40), noise=0.0), DIRECT, 0.925, id="spikes"),
    pytest.param(aim.Task(target=aim.PowerLaw(dim=60), noise=0.0, beta0=0.7), LIMIT, 0.0, id="power law"),
]


@pytest.mark.parametrize(("task", "learner", "zeros"), RECOVERED)
def test_the_law_of_a_recovered_map_is_that_of_the_target(task, learner, zeros):
    """Mass one, zeros of the target, mean and second moment of the target, and samples that have them."""
    point = aim.predict(task, learner, 5.0)
    law = aim.spectrum(point)
    scale = task.beta0 / learner.beta
    assert point.status.startswith("perfect recovery")
    assert (law.zero_mass, law.rank) == pytest.approx((zeros, 1.0 - zeros))
    # the trapezoidal rule of the tabulated density is good to 1e-5
    assert law.cdf(np.array([-np.inf, np.inf])) == pytest.approx([0.0, 1.0], abs=1e-5)
    assert law.mean == pytest.approx(scale * task.target.mean, rel=1e-12)
    assert law.second_moment == pytest.approx(point.q, rel=1e-12)
    sampled = law.sample(np.random.default_rng(1), 200_000)
    error = np.sqrt(law.second_moment / len(sampled))
    assert sampled.mean() == pytest.approx(law.mean, abs=5.0 * error)
    assert np.mean(sampled == 0.0) == pytest.approx(zeros, abs=5e-3)
    assert np.isfinite(law.density(np.linspace(-3.0, 3.0, 7))).all()
    assert check_spectrum(point) == ""
    values = getattr(task.target, "values", None)
    assert len(law.levels) == (0 if values is None else len(set(values[values != 0.0])))
    assert sum(share for _, share in law.levels) == pytest.approx(0.0 if values is None else law.rank)
    assert None not in law.to_dict()["levels"]
    assert "S is the target itself" in point.explain()


@pytest.mark.parametrize(("task", "learner", "zeros"), RECOVERED)
def test_the_law_of_a_recovered_map_can_be_plotted(task, learner, zeros, tmp_path):
    """Shares of a list of eigenvalues, the density of a law; everything inside the axes."""
    law = aim.spectrum(aim.predict(task, learner, 5.0))
    axes = plot.spectrum(law)
    plot.save(axes, str(tmp_path / "law.png"))
    assert axes.get_ylabel() == ("share of the eigenvalues" if law.levels else "density")
    low, high = axes.get_xlim()
    assert all(low < x < high and share < axes.get_ylim()[1] for x, share in law.levels)
    assert any(f"{zeros:.1%} of the eigenvalues" in text.get_text() for text in axes.texts) == (zeros > 0.0)


def test_a_draft_beyond_recovery_is_the_target():
    """Beyond recovery a draft has no error, and the zeros and the density of the target."""
    task = mp(0.3, noise=0.0)
    for learner in (LIMIT, DIRECT):
        found = draft_point(task, learner, 1.0, seconds=60.0)
        assert found.test_error == pytest.approx(0.0, abs=1e-12)
        zero, bulks = draft_spectrum(task, learner, found)
        assert zero == pytest.approx(0.7)
        assert len(bulks) == 1


@pytest.mark.parametrize(
    ("target", "share"),
    [
        (aim.Atoms(eigenvalues=(2.0,) * 40 + (0.0,) * 40), 0.5),
        (INDEFINITE, 1.0 - 0.25**2 - 0.25**2 - 0.5**2),
        (aim.Atoms(eigenvalues=(1.0,) * 10), 0.0),
        (aim.Spikes(spikes=(3.0, 3.0), dim=10), 1.0 - 0.2**2 - 0.8**2),
        (aim.PowerLaw(dim=50), 1.0 - 1.0 / 50.0),
        (aim.MarchenkoPastur(kappa0=0.3), 1.0 - 0.7**2),
        (aim.MarchenkoPastur(kappa0=2.0), 1.0),
    ],
)
def test_bayes_optimal_recovery_counts_distinguishable_eigenvectors(target, share):
    """(1 - Σ w²)/(2 J): 40 twos and 40 zeros are recovered from .125 on, not from .1875 (4.5)."""
    task = aim.Task(target=target, noise=0.0, tokens=3)
    assert target.free_eigenvector_share == pytest.approx(share)
    assert aim.thresholds(task).bayes_optimal == pytest.approx(share / 10.0)
    assert draft_thresholds(task, aim.Learner()).bayes_optimal == aim.thresholds(task).bayes_optimal


def test_every_result_limited_by_the_width_is_a_heuristic():
    """With weight decay, interpolating, recovering; of one point, of a curve, a law, a threshold and a tuned weight
    decay.
    """
    task, narrow = mp(1.5, noise=1.0), aim.Learner(width=0.3)
    point = aim.predict(task, narrow, 0.6)
    found = [
        point,
        aim.predict(task, narrow.changed(weight_decay="0+"), 0.1),
        aim.predict(mp(0.3, noise=0.0), LIMIT.changed(width=0.31), 0.2),
        *aim.curve(task, narrow, [0.6]),
        aim.spectrum(point),
        aim.decompose(point),
        aim.thresholds(task, narrow),
        aim.thresholds(mp(0.3, noise=0.0), narrow.changed(width=0.4)),
        aim.tune(aim.Task(), narrow.changed(width=0.2), 4.0),
    ]
    for each in found:
        assert each.kind == "heuristic"
        assert any("may not shrink as d grows" in text for text in each.certificate.warnings)


def test_full_width_is_never_narrow():
    """All eigenvalues of a target of full rank pass: a rank of one is no limit of a width of one."""
    point = aim.predict(aim.Task(target=aim.Atoms(eigenvalues=(2.0, 1.0) * 20)), aim.Learner(weight_decay=1e-3), 40.0)
    assert point.rank == pytest.approx(1.0)
    assert (point.kind, point.certificate.replicon is None) == ("claim", False)
    assert aim.thresholds(mp(1.5)).kind == "claim"


@given(
    target=targets,
    noise=st.sampled_from([0.0, 0.0, 0.3]),
    learner=st.builds(
        aim.Learner,
        weight_decay=st.one_of(st.just("0+"), log_uniform(0.01, 0.5)),
        width=st.one_of(st.just(1.0), st.floats(0.15, 1.0)),
        param=st.sampled_from(["factorised", "direct"]),
        loss=st.sampled_from(["squared", "cross-entropy"]),
        leading=st.just(0),  # as in the decomposition below
    ),
    alpha=log_uniform(0.03, 20.0),
)
@settings(max_examples=15)
@pytest.mark.slow
def test_targets_of_both_signs_work_in_every_function(target, noise, learner, alpha):
    """No number is NaN, no error below the plateau, m² <= q P², rank <= width; laws have mass one, parts sum to the
    excess.
    """
    task = aim.Task(target=target, noise=noise)
    marks, end = aim.thresholds(task, learner), aim.plateau(task, learner)
    assert not np.isnan([marks.interpolation, marks.recovery, marks.bayes_optimal, marks.peak_test_error]).any()
    assert 0.0 <= marks.bayes_optimal <= min(marks.recovery, marks.direct) * (1.0 + 1e-9)
    assert np.isinf(marks.recovery) == ("never found" in marks.status)
    assert end.test_error <= aim.plateau(task, learner.changed(param="factorised")).test_error * (1.0 + 1e-9)
    point = solved(task, learner, alpha)
    assert check_prediction(point) == ""
    assert check_spectrum(point) == ""
    assert point.explain()
    split = aim.decompose(point)
    parts = (split.underfitting, split.approximation, split.overfitting, split.mismatch)
    assert np.isfinite(parts).all()
    assert min(parts[:3]) >= -1e-8


def test_a_map_that_learns_against_the_target_is_refused_in_its_own_words():
    """Targets with mostly negative eigenvalues: with few samples m < 0, whose logarithm the solver does not have."""
    task = aim.Task(target=aim.Atoms(eigenvalues=[-2.0, -1.0, -1.0, 0.5]))
    with pytest.raises(SolveError, match="overlap m with the target is negative"):
        aim.predict(task, aim.Learner(weight_decay=1e-3), 0.05)
    assert aim.predict(task, aim.Learner(weight_decay=1e-3), 0.6).m > 0.0
