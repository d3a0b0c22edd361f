"""Scaling laws: the published rows, the decomposition, exponents by two routes, features and the phase diagram."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onehead import aim
from onehead.aim import PowerLaw, Spikes, Task
from onehead.aim.verbs.implicit_derivatives import decay_slope, local_exponent
from onehead.aim.verbs.phases import region_of
from onehead.aim.verbs.tune import best_decay
from onehead.errors import NotConverged

DIM = 200
POWER = Task(target=PowerLaw(gamma=0.75, dim=DIM))
ONE_OVER_D = 1.0 / DIM


def Learner(**options):
    """Learner with Gaussian logits, which are tested here."""
    return aim.Learner(leading=0, **options)


# (10): samples, weight decay | q m sigma, test or excess, rank times d; stated error 1e-5
@pytest.mark.parametrize(
    ("samples", "decay", "q", "m", "sigma", "test", "excess", "rank"),
    [
        (1000, ONE_OVER_D, 0.2905556, 0.3276664, 29.56213, 0.2816055, None, 29.99),
        (31623, ONE_OVER_D, 1.02025, 0.95631, 1.09164, 0.124699, None, 150.70),
        (1e6, ONE_OVER_D, 0.771297, 0.876589, 0.02396331, None, 1.22345e-3, 200.0),
        (31623, 1.0, 0.1756597, 0.362136, 0.02746321, None, 0.100345, 13.08),
        (1e6, 1.0, 0.665698, 0.8134044, 0.02233349, None, 2.42604e-3, 200.0),
        (1e6, DIM**0.5, 0.2958343, 0.50486, 0.002756348, None, 0.055689, 31.24),
    ],
)
def test_published_rows(samples, decay, q, m, sigma, test, excess, rank):
    point = aim.predict(POWER, Learner(weight_decay=decay), samples / DIM**2)
    assert point.q == pytest.approx(q, rel=1.5e-5)
    assert point.m == pytest.approx(m, rel=1.5e-5)
    assert point.sigma == pytest.approx(sigma, rel=1.5e-5)
    if test is not None:
        assert point.test_error == pytest.approx(test, rel=1e-5)
    if excess is not None:
        # 1e-5 of the test error, about 0.09, is what the excess carries
        assert point.excess_error == pytest.approx(excess, rel=1e-5, abs=1e-6)
    assert point.rank * DIM == pytest.approx(rank, abs=0.006)


def test_published_plateau_and_emergence():
    # both ends of the curve (8.1, 4.6)
    end = aim.plateau(POWER, Learner())
    assert end.shrinkage == pytest.approx(0.8742973, abs=1e-6)
    assert end.test_error == pytest.approx(0.0848514, abs=1e-6)
    for decay, samples in ((1.0, 4482), (DIM**0.5, 67207)):
        below, above = (
            aim.predict(POWER, Learner(weight_decay=decay), n / DIM**2) for n in (0.999 * samples, 1.001 * samples)
        )
        assert below.rank == 0.0
        assert above.rank > 0.0


# (8): fractions (overfitting, underfitting, approximation, mismatch) and outliers at weight decay 1/d
@pytest.mark.parametrize(
    ("samples", "fractions", "outliers"),
    [
        (1e3, (0.278, 0.682, 0.176, -0.136), 2),
        (3162, (0.438, 0.448, 0.107, 0.007), 4),
        (1e4, (0.838, 0.149, 0.105, -0.092), 6),
        (1e5, (0.764, 0.148, 0.115, -0.027), 16),
        (1e6, (0.826, 0.0, 0.177, -0.003), 34),
    ],
)
def test_published_fractions(samples, fractions, outliers):
    (row,) = aim.scaling(POWER, Learner(weight_decay=ONE_OVER_D), [samples]).points
    parts = (row.overfitting, row.underfitting, row.approximation, row.mismatch)
    np.testing.assert_allclose(np.array(parts) / row.excess_error, fractions, atol=6e-4)  # three digits
    assert row.outliers == outliers


@given(
    log_n=st.floats(np.log10(300.0), 7.0),
    log_decay=st.floats(-3.0, 1.0),
    gamma=st.sampled_from([0.6, 0.75, 1.0, 1.5]),
    noise=st.sampled_from([0.1, 0.5, 2.0]),
)
@settings(max_examples=12, deadline=None)
def test_parts_sum_to_the_excess(log_n, log_decay, gamma, noise):
    task = Task(target=PowerLaw(gamma=gamma, dim=100), noise=noise)
    point = aim.predict(task, Learner(weight_decay=10.0**log_decay), 10.0**log_n / 100**2)
    parts = aim.decompose(point)
    total = parts.underfitting + parts.approximation + parts.overfitting + parts.mismatch
    assert total == pytest.approx(point.excess_error, rel=1e-4)
    assert min(parts.underfitting, parts.approximation, parts.overfitting) >= -1e-12
    # the regions add up to |S - c S*|²/d, known from the overlaps alone
    c = aim.plateau(task, Learner()).shrinkage
    distance = point.q - 2.0 * c * point.m + c * c * task.target.second_moment
    assert parts.distance == pytest.approx(distance, rel=1e-5, abs=1e-8)


@pytest.mark.parametrize(
    ("task", "learner", "alpha"),
    [
        (Task(), Learner(), 0.5),
        (Task(), Learner(param="direct"), 0.5),
        (Task(), Learner(width=0.3), 1.0),
        (Task(), Learner(weight_decay="0+"), 0.1),
        (Task(beta0=2.0), Learner(beta=0.5), 1.0),
        (Task(), Learner(loss="cross-entropy"), 1.0),
        (Task(noise=0.0), Learner(), 0.5),
        (Task(), Learner(weight_decay=10.0), 0.5),
    ],
    ids=["plain", "direct", "narrow", "0+", "temperatures", "cross-entropy", "no noise", "not emerged"],
)
def test_parts_sum_to_the_excess_for_every_learner(task, learner, alpha):
    point = aim.predict(task, learner, alpha)
    parts = aim.decompose(point)
    total = parts.underfitting + parts.approximation + parts.overfitting + parts.mismatch
    assert total == pytest.approx(point.excess_error, rel=1e-4)


def test_the_parts_are_zero_at_perfect_recovery():
    parts = aim.decompose(aim.predict(Task(noise=0.0), Learner(weight_decay="0+"), 1.0))
    assert parts.excess_error == pytest.approx(0.0, abs=1e-12)
    assert parts.underfitting == parts.overfitting == parts.mismatch == 0.0


@pytest.mark.parametrize(
    ("decay", "samples"), [(ONE_OVER_D, 1e3), (ONE_OVER_D, 1e5), (1.0, 2e4), (1.0, 1e6), (DIM**0.5, 4e5)]
)
def test_exponents_match_finite_differences(decay, samples):
    learner, alpha, step = Learner(weight_decay=decay), samples / DIM**2, 0.004
    point = aim.predict(POWER, learner, alpha)
    sides = [aim.predict(POWER, learner, alpha * np.exp(d)).excess_error for d in (-step, step)]
    # F' comes from differences on the coarsest rule: good to a few parts in a thousand
    assert local_exponent(point) == pytest.approx(np.log(sides[1] / sides[0]) / (2.0 * step), abs=5e-3)
    decays = [learner.changed(weight_decay=decay * float(np.exp(d))) for d in (-step, step)]
    errors = [aim.predict(POWER, each, alpha).test_error for each in decays]
    slope = (errors[1] - errors[0]) / (2.0 * step)
    # a small difference of the contributions of q and m, with a larger relative error
    assert decay_slope(point) == pytest.approx(slope, rel=0.03, abs=1e-6)


def test_an_exponent_where_proximal_points_are_about_to_jump():
    learner, alpha, step = Learner(weight_decay=ONE_OVER_D), 1e4 / DIM**2, 0.02
    sides = [aim.predict(POWER, learner, alpha * np.exp(d)).excess_error for d in (-step, step)]
    found = local_exponent(aim.predict(POWER, learner, alpha))
    # twice the error above, because proximal points are about to jump; steps ten times as long were off by 0.07
    assert found == pytest.approx(np.log(sides[1] / sides[0]) / (2.0 * step), abs=1e-2)


def test_the_excess_ends_at_the_parametric_rate():
    law = aim.scaling(POWER, Learner(weight_decay=ONE_OVER_D), [1e8])
    assert law.points[0].local_exponent == pytest.approx(-1.0, abs=2e-3)


@pytest.mark.slow
def test_features_emerge_in_order_and_agree_with_the_spectrum():
    learner = Learner(weight_decay=1.0)
    found = aim.features(POWER, learner, np.geomspace(3e3, 3e5, 12))
    assert [item.feature for item in found] == list(range(1, len(found) + 1))
    assert (np.diff([item.samples for item in found]) > 0.0).all()
    assert [item.target for item in found] == list(POWER.target.values[: len(found)])
    for item in (found[0], found[4], found[12]):
        # s and eps are interpolated between the points of the range: one percent of n
        below, above = aim.scaling(POWER, learner, [0.98 * item.samples, 1.02 * item.samples]).points
        assert below.outliers < item.feature <= above.outliers


@pytest.mark.slow
def test_a_feature_interpolated_across_a_failed_point_has_a_warning(monkeypatch):
    module, samples = sys.modules["onehead.aim.verbs.curve"], np.geomspace(3e3, 3e5, 6)
    predict_all = module.predict

    def predict_some(task, learner, alpha, near=None, **options):
        if abs(alpha * DIM**2 / samples[3] - 1.0) < 1e-9:
            raise NotConverged("no solution here; try another.")
        return predict_all(task, learner, alpha, near=near, **options)

    monkeypatch.setattr(module, "predict", predict_some)
    found = aim.features(POWER, Learner(weight_decay=1.0), samples)
    across = [item for item in found if samples[2] < item.samples < samples[4]]
    assert across and [item for item in found if item.warning] == across
    assert f"n = {samples[3]:.4g}" in across[0].warning


@pytest.mark.slow
def test_the_best_weight_decay_is_a_minimum():
    best = best_decay(POWER, Learner(), 0.25)
    assert abs(decay_slope(best)) < 1e-4 * best.test_error
    for factor in (0.7, 1.4):
        other = aim.predict(POWER, Learner(weight_decay=factor * best.learner.decay), 0.25)
        assert other.test_error > best.test_error
    law = aim.scaling(POWER, Learner(), [1e4], optimal=True)
    assert law.points[0].excess_error == pytest.approx(best.excess_error, rel=1e-6)


@pytest.mark.slow
def test_a_phase_diagram_solves_every_cell():
    count = []
    log_n, log_lambda = np.arange(0.8, 3.21, 0.4), (-1.5, -0.5, 0.5)
    found = aim.phase_diagram(
        Task(target=PowerLaw(gamma=0.75, dim=100)), log_n=log_n, log_lambda=log_lambda, progress=lambda: count.append(1)
    )
    assert len(found) == len(count) == 21
    assert not found.failures
    slope = found.grid("local_exponent")
    assert slope.shape == (3, 7)
    assert np.isfinite(slope).all()
    regions = {cell.region for cell in found}
    assert {"not emerged", "interpolating", "threshold", "noise"} <= regions
    assert all((cell.region == "not emerged") == (cell.local_exponent == 0.0) for cell in found)
    # many samples, little weight decay: the parametric rate
    assert slope[0, -1] == pytest.approx(-1.0, abs=0.02)
    assert [list(row)[:4] for row in found.to_rows()[:1]] == [["log_n", "log_lambda", "samples", "weight_decay"]]


def test_regions_of_clear_cases():
    assert region_of(aim.predict(POWER, Learner(weight_decay="0+"), 0.05)) == "interpolating"
    assert region_of(aim.predict(POWER, Learner(weight_decay=ONE_OVER_D), 200.0)) == "noise"
    assert region_of(aim.predict(POWER, Learner(weight_decay=DIM**0.5), 250.0)) == "bias"
    assert region_of(aim.predict(Task(), Learner(param="direct"), 4.0)) == "noise"


@pytest.mark.slow
def test_spikes_emerge_one_by_one():
    # a spike over zeros leaves the noise when it exceeds sqrt(s), s falling as 1/n: sample sizes go as the inverse
    # square
    task = Task(target=Spikes(spikes=(16.0, 8.0), dim=400), noise=0.5)
    found = aim.features(task, Learner(weight_decay=1e-4), np.geomspace(30.0, 3e3, 6))
    assert [item.target for item in found] == [16.0, 8.0]
    assert found[1].samples > 2.0 * found[0].samples


@pytest.mark.parametrize(("dim", "draws"), [(400, 10), (1000, 3)])
def test_outliers_against_sampled_matrices(dim, draws):
    # S has the eigenvalues slope (x - eps)_+ of R = S* + sqrt(s) GOE, which is sampled here
    spikes = (9.0, 4.5, 2.7)
    task = Task(target=Spikes(spikes=spikes, dim=dim))
    point = aim.predict(task, Learner(weight_decay=0.01), 0.3)
    law = aim.spectrum(point)
    assert [item.target for item in law.outliers] == list(spikes)
    rng, positions, overlaps = np.random.default_rng(0), [], []
    for _ in range(draws):
        noise = rng.standard_normal((dim, dim)) * np.sqrt(point.spread / (2.0 * dim))
        values, vectors = np.linalg.eigh(np.diag(np.pad(spikes, (0, dim - 3))) + noise + noise.T)
        positions.append(point.slope * (values[:-4:-1] - point.threshold))
        overlaps.append(np.diag(vectors[:3, :-4:-1]) ** 2)
    predicted = np.array([(item.position, item.overlap) for item in law.outliers]).T
    for measured, expected in zip((positions, overlaps), predicted, strict=True):
        error = np.std(measured, axis=0, ddof=1) / np.sqrt(draws)
        # four standard errors, and the O(1/d) that the limit leaves out
        assert (np.abs(np.mean(measured, axis=0) - expected) < 4.0 * error + 3.0 / dim).all()
    inside = np.concatenate([point.slope * (values - point.threshold)])
    bulk = inside[(inside > 0.0) & (inside < 0.5 * (law.edges[-1][1] + law.outliers[-1].position))]
    assert bulk.max() < law.edges[-1][1] + 5.0 * point.slope * np.sqrt(point.spread) * dim ** (-2 / 3)  # Tracy-Widom


def test_equal_spikes_share_their_overlap():
    # the overlap with the span of two equal spikes is that of a single spike
    point = aim.predict(Task(target=Spikes(spikes=(6.0, 6.0), dim=300)), Learner(weight_decay=0.01), 0.5)
    law = aim.spectrum(point)
    assert [item.group for item in law.outliers] == [2, 2]
    alone = 1.0 - point.spread * (298 / 300) / 36.0
    assert law.outliers[0].overlap == pytest.approx(alone, rel=1e-9)


def test_an_interrupted_search_returns_what_is_done_without_guessing(monkeypatch):
    done = []

    def stop_after_two(task, learner, alpha):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(alpha)
        return aim.predict(task, learner, alpha)

    monkeypatch.setenv("ONEHEAD_THREADS", "1")
    monkeypatch.setattr(
        sys.modules["onehead.aim.verbs.scaling"], "best_decay", stop_after_two
    )  # the verb has the same name
    task = Task(target=PowerLaw(gamma=0.75, dim=40))
    law = aim.scaling(task, Learner(weight_decay=0.1), [1e3, 2e3, 3e3, 4e3], optimal=True)
    assert [point.samples for point in law] == [1e3, 2e3, 3e3, 4e3]
    assert len(law.failures) == 2
    assert all(row["weight_decay"] is None for row in law.to_rows()[2:])

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["onehead.aim.verbs.curve"], "predict", interrupt)
    with pytest.raises(KeyboardInterrupt):  # features interpolated across missing points would be wrong
        aim.features(task, Learner(weight_decay=1.0), [1e3, 1e4, 1e5])
