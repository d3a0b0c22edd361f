"""Properties of the attention-indexed model on random problems: bounds, order, symmetry and scale."""

import numpy as np
import pytest
from checks.soak_problems import check_prediction, check_spectrum
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.problems import log_uniform

from onehead import aim
from onehead.errors import SolveError

log = np.log


def tasks(**fixed):
    """Marchenko-Pastur tasks over the usual range."""
    parameters = {
        "kappa0": log_uniform(0.02, 3.0),
        "noise": st.one_of(st.just(0.0), st.floats(0.02, 2.0)),
        "tokens": st.just(2),
        "beta0": st.just(1.0),
    } | fixed
    return st.builds(
        lambda kappa0, **others: aim.Task(target=aim.MarchenkoPastur(kappa0=kappa0), **others), **parameters
    )


eigenvalues = st.lists(st.floats(-1.0, 3.0), min_size=3, max_size=12).map(lambda values: (1.5, *values))
targets = st.one_of(
    st.builds(aim.PowerLaw, gamma=st.floats(0.0, 2.0), dim=st.integers(5, 40)),
    st.builds(aim.Atoms, eigenvalues=eigenvalues),
    st.builds(
        aim.Spikes,
        spikes=st.lists(log_uniform(0.5, 10.0), min_size=1, max_size=3).map(tuple),
        dim=st.integers(5, 40),
        bulk=st.one_of(st.none(), st.builds(aim.MarchenkoPastur, kappa0=log_uniform(0.1, 2.0))),
    ),
)


def solved(task, learner, alpha):
    """Prediction; problems that are refused with a reason are skipped."""
    try:
        return aim.predict(task, learner, alpha)
    except SolveError:
        assume(False)


@given(
    task=st.builds(aim.Task, target=targets, noise=st.floats(0.0, 1.5), beta0=log_uniform(0.5, 2.0)),
    learner=st.builds(
        aim.Learner,
        weight_decay=log_uniform(0.01, 1.0),
        width=st.one_of(st.just(1.0), st.floats(0.2, 1.0)),
        param=st.sampled_from(["factorised", "direct"]),
        loss=st.sampled_from(["squared", "cross-entropy"]),
        beta=log_uniform(0.5, 2.0),
        branch=st.sampled_from(["label", "global"]),
        leading=st.just(0),  # the best possible learner, a lower bound of the error, is known for Gaussian logits
    ),
    alpha=log_uniform(0.02, 20.0),
)
@settings(max_examples=8)
def test_every_variant_is_bounded_and_agrees_with_its_spectrum(task, learner, alpha):
    """Finite; 0 ≤ rank ≤ width; m² ≤ q Q0; errors between 0 and 2T; training costs less than the zero map; mass 1; ∫x²
    = q.
    """
    point = solved(task, learner, alpha)
    assert check_prediction(point) == ""
    assert check_spectrum(point) == ""
    replicon = point.certificate.replicon
    assert replicon is None or replicon >= 0.0


@given(
    values=eigenvalues.filter(lambda v: sum(v) > 0.5),
    noise=st.floats(0.05, 1.0),
    scale=log_uniform(0.3, 3.0),
    alpha=log_uniform(0.1, 5.0),
)
@settings(max_examples=4)
def test_scale_of_the_target_is_equivalent_to_temperature(values, noise, scale, alpha):
    """Eigenvalues times c, noise times c² and β₀ over c are the same task: S stays, its overlap with S* is c times as
    large.
    """
    first = aim.Task(target=aim.Atoms(eigenvalues=values), noise=noise)
    second = aim.Task(
        target=aim.Atoms(eigenvalues=tuple(scale * v for v in values)), noise=noise * scale**2, beta0=1.0 / scale
    )
    a, b = solved(first, aim.Learner(weight_decay=0.05), alpha), solved(second, aim.Learner(weight_decay=0.05), alpha)
    # both solves stop at a residual of 3e-7
    assert b.test_error == pytest.approx(a.test_error, rel=1e-5)
    assert b.q == pytest.approx(a.q, rel=1e-5)
    assert b.m == pytest.approx(scale * a.m, rel=1e-5)
    assert b.rank == pytest.approx(a.rank, abs=1e-5)


@given(task=tasks(noise=st.floats(0.02, 2.0)), more=st.floats(0.05, 2.0), wider=st.floats(1.05, 2.0))
@settings(max_examples=8)
def test_thresholds_are_ordered_and_monotonic_in_noise_and_width(task, more, wider):
    """Interpolation falls with noise, grows with the width of the target, and lies between 1/4 and 1/2 of α J_T
    (4.2).
    """
    here = aim.thresholds(task)
    noisier = aim.thresholds(task.changed(noise=task.noise + more))
    broader = aim.thresholds(task.changed(target=aim.MarchenkoPastur(kappa0=task.target.kappa0 * wider)))
    assert noisier.interpolation < here.interpolation < broader.interpolation
    assert 0.25 < 2.0 * here.interpolation < 0.5  # J_2 = 2; A(s, 0) is between that of noise alone and one
    assert here.interpolation < here.direct
    assert here.recovery == np.inf
    assert 0.0 < here.peak_test_error < 4.0
    assert noisier.peak_test_error > here.peak_test_error


@given(kappa0=log_uniform(0.01, 2.0))
@settings(max_examples=10)
def test_thresholds_without_noise_match_closed_forms(kappa0):
    """abar = (1 + 2k - k²)/4 at interpolation; Bayes before recovery before interpolation before direct (4.2 to
    4.5).
    """
    found = aim.thresholds(aim.Task(target=aim.MarchenkoPastur(kappa0=kappa0), noise=0.0))
    k = min(kappa0, 1.0)
    assert 2.0 * found.interpolation == pytest.approx((1.0 + 2.0 * k - k * k) / 4.0, abs=1e-6)
    assert 2.0 * found.bayes_optimal == pytest.approx(k - 0.5 * k * k)
    slack = 1.0 + 1e-6  # they meet at k = 1, up to the extrapolation of s → 0
    assert found.bayes_optimal <= found.recovery <= found.interpolation * slack <= found.direct * slack**2
    assert found.peak_test_error < 1e-9


@given(task=tasks(noise=st.floats(0.02, 2.0)), tokens=st.integers(3, 16))
@settings(max_examples=5)
def test_interpolation_scales_with_the_number_of_informative_combinations(task, tokens):
    """For any T, α_interpolation J_T is the same number: T = 2 is a special case of the general one (1.6, 4.2)."""
    two, many = (reduced_interpolation(task.changed(tokens=t)) for t in (2, tokens))
    informative = tokens * (tokens + 1) / 2 - 1
    assert many * informative == pytest.approx(2.0 * two, rel=1e-12)


def reduced_interpolation(task):
    """The threshold alone, without the peak error, whose quadrature costs seconds at T = 16."""
    from onehead.aim.theory.build import build_state_evolution

    return build_state_evolution(task, aim.Learner()).interpolation


@given(task=tasks(noise=st.floats(0.02, 2.0)), decay=log_uniform(1e-3, 1.0), more=st.floats(1.2, 5.0))
@settings(max_examples=3)
@pytest.mark.slow
def test_emergence_is_where_the_map_leaves_zero(task, decay, more):
    """S = 0 just below it and not just above; a larger weight decay needs more samples (4.6)."""
    ratio = aim.thresholds(task, aim.Learner(weight_decay=decay)).emergence
    assert aim.thresholds(task, aim.Learner(weight_decay=more * decay)).emergence > ratio
    learner = aim.Learner(weight_decay=decay)
    below, above = aim.predict(task, learner, 0.99 * ratio), solved(task, learner, 1.03 * ratio)
    assert (below.rank, below.q, below.m) == (0.0, 0.0, 0.0)
    assert above.rank > 0.0
    assert above.m > 0.0  # the error need not fall yet: with few samples the first eigenvalue is mostly noise


@given(task=tasks(), more=st.floats(0.05, 1.0), beta=log_uniform(0.2, 5.0))
@settings(max_examples=8)
def test_the_plateau_shrinks_with_noise(task, more, beta):
    """0 < c ≤ 1, one without noise, smaller with more of it; its error grows with noise; temperature only rescales
    (8.1).
    """
    end, noisier = aim.plateau(task), aim.plateau(task.changed(noise=task.noise + more))
    assert 0.0 < noisier.shrinkage < end.shrinkage + 1e-6
    assert end.shrinkage <= 1.0 + 1e-9
    assert noisier.test_error > end.test_error
    if task.noise == 0.0:
        assert end.shrinkage == pytest.approx(1.0)
        assert end.test_error < 1e-12
    cooled = aim.plateau(task, aim.Learner(beta=beta))
    assert cooled.shrinkage == pytest.approx(end.shrinkage / beta)
    assert cooled.test_error == pytest.approx(end.test_error, rel=1e-9)


@given(order=st.permutations([0.1, 0.3, 0.5, 0.8, 2.0, 9.0]))
@settings(max_examples=2)
def test_a_curve_does_not_depend_on_the_order_of_its_points(order):
    found = aim.curve(aim.Task(), aim.Learner(weight_decay=0.05), order)
    plain = aim.curve(aim.Task(), aim.Learner(weight_decay=0.05), sorted(order))
    assert [p.alpha for p in found] == order
    assert {p.alpha: p.test_error for p in found} == {p.alpha: p.test_error for p in plain}
    error = plain.column("test_error")
    assert (np.diff(error) < 0.0).all()  # at this weight decay there is no peak


@pytest.mark.parametrize("param", ["direct"])
def test_the_tuned_error_falls_with_more_samples(param):
    """The tuned error does not grow with data, and no weight decay of the scan has a lower error."""
    few, many = (aim.tune(aim.Task(noise=0.1), aim.Learner(param=param), alpha) for alpha in (0.3, 0.6))
    assert many.test_error < few.test_error
    for best in (few, many):
        # it is the root of a slope: errors of the scan may lie below it within their accuracy
        assert best.test_error <= min(error for _, error in best.scan) + best.errors["test_error"]
        assert best.gain >= 0.0
        assert best.flat_from <= best.weight_decay <= best.flat_to


@given(gamma=st.floats(0.6, 1.5), log_n=st.floats(1.5, 2.5), decay=log_uniform(0.05, 1.0), noise=st.floats(0.1, 1.0))
@settings(max_examples=3)
def test_scaling_and_phase_diagram_agree_with_predict(gamma, log_n, decay, noise):
    """A row of `scaling`, a cell of `phase_diagram` and `predict` are the same number; the four parts make the
    excess.
    """
    dim = 30
    task = aim.Task(target=aim.PowerLaw(gamma=gamma, dim=dim), noise=noise)
    point = solved(task, aim.Learner(weight_decay=decay, leading=0), dim**log_n / dim**2)
    row = aim.scaling(task, aim.Learner(weight_decay=decay), [dim**log_n]).points[0]
    cell = aim.phase_diagram(task, log_n=[log_n], log_lambda=[log(decay) / log(dim)]).cells[0]
    assert row.test_error == pytest.approx(point.test_error, rel=1e-6)
    assert cell.excess_error == pytest.approx(point.excess_error, rel=1e-5, abs=1e-9)
    split = aim.decompose(point)
    parts = split.underfitting + split.approximation + split.overfitting + split.mismatch
    # six nodes on the segment from the plateau: measured 1e-5 at worst (8.3)
    assert parts == pytest.approx(point.excess_error, rel=1e-3)
    assert min(split.underfitting, split.approximation, split.overfitting) >= 0.0
    assert (row.underfitting, row.overfitting) == pytest.approx((split.underfitting, split.overfitting), rel=1e-4)


@given(gamma=st.floats(0.7, 1.5), decay=log_uniform(0.3, 2.0))
@settings(max_examples=2)
def test_features_emerge_from_large_to_small(gamma, decay):
    task = aim.Task(target=aim.PowerLaw(gamma=gamma, dim=30))
    found = aim.features(task, aim.Learner(weight_decay=decay), [30.0, 300.0, 3000.0, 30_000.0])
    assert len(found) > 1
    assert (np.diff([item.samples for item in found]) > 0.0).all()
    assert (np.diff([item.target for item in found]) < 0.0).all()


@given(decay=log_uniform(0.02, 0.5), alpha=st.floats(0.3, 1.5), tied=st.booleans(), seed=st.integers(0, 99))
@settings(max_examples=2)
def test_factors_and_product_reach_the_same_minimum(decay, alpha, tied, seed):
    """Weight decay on factors is a nuclear norm on their product; with cross-entropy that problem is convex (1.2)."""
    learner = aim.Learner(loss="cross-entropy", weight_decay=decay)
    found = aim.nuclear_equivalence(aim.Task(), learner, dim=8, alpha=alpha, tied=tied, seed=seed)
    assert isinstance(found, aim.NuclearEquivalence)
    # both stop at a relative stationarity of 1e-6, which is quadratic in the objective where it is smooth
    assert abs(found.gap) < 1e-4


@given(
    decay=log_uniform(0.01, 0.3),
    alpha=st.floats(0.3, 2.0),
    width=st.sampled_from([0.5, 1.0]),
    param=st.sampled_from(["factorised", "direct"]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=4)
def test_trained_heads_obey_general_bounds(decay, alpha, width, param, seed):
    learner = aim.Learner(weight_decay=decay, width=width, param=param)
    method = aim.Method(max_iterations=300)
    runs = aim.train(aim.Task(), learner, dim=10, alpha=alpha, seed=seed, method=method, variant=aim.Variant())
    assert isinstance(runs, aim.TrainingResult)
    assert 0.0 <= runs.test_error <= 4.0
    assert 0.0 <= runs.rank <= 1.0
    assert runs.q >= 0.0
    run = runs.runs[0]
    overlap = np.sum(run.map * run.target) ** 2
    assert overlap <= np.sum(run.map**2) * np.sum(run.target**2) * (1.0 + 1e-9)
    if param == "factorised":
        assert runs.rank <= width + 1e-9
        assert np.linalg.eigvalsh(run.map).min() > -1e-9


def test_amp_and_compare_have_measured_and_predicted_columns():
    """Every number of `amp` and `compare` is finite."""
    run = aim.amp(aim.Task(), aim.Learner(weight_decay=0.05), dim=20, alpha=1.0, iterations=10)
    assert isinstance(run, aim.AmpResult)
    assert all(np.isfinite([s.q, s.m, s.sigma, s.q_theory, s.m_theory, s.sigma_theory]).all() for s in run.steps)
    table = aim.compare(aim.Task(), aim.Learner(weight_decay=0.05), alphas=[1.0], dims=[10, 14], seeds=2)
    assert isinstance(table, aim.Comparison)
    for row in table.to_rows():
        assert np.isfinite([v for v in row.values() if isinstance(v, float)]).all()


@given(
    logits=st.lists(st.floats(-300.0, 300.0), min_size=2, max_size=6),
    shift=st.floats(-100.0, 100.0),
    seed=st.integers(0, 100),
)
def test_softmax_is_a_probability_and_invariant_under_shifts_and_permutations(logits, shift, seed):
    x = np.array(logits)
    p, shifted, permuted = np.empty(x.size), np.empty(x.size), np.empty(x.size)
    order = np.random.default_rng(seed).permutation(x.size)
    aim.softmax(x, p)
    aim.softmax(x + shift, shifted)
    aim.softmax(x[order], permuted)
    assert p.sum() == pytest.approx(1.0)
    assert (p >= 0.0).all()
    # a shift costs the rounding of logits of size 400
    assert shifted == pytest.approx(p, rel=1e-12, abs=1e-300)
    assert permuted == pytest.approx(p[order], rel=1e-14)
