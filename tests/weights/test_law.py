"""The laws: each fits spectra sampled from it best, and the laws of heads recover the parameters of trained heads."""

import numpy as np
import pytest
from tests.support.problems import sampled_eigenvalues as sampled

from onehead.aim import Learner, MarchenkoPastur, Method, Task, Variant, predict, spectrum, train
from onehead.aim.targets import Spikes
from onehead.errors import InvalidArgument
from onehead.plot import head_spectrum
from onehead.plot.style import TRAINING
from onehead.weights import fit_laws, head_report
from onehead.weights.law import outliers_belong_to_law

TRUTH = {"kappa0": 0.2, "spread": 0.25, "threshold": 0.14, "slope": 0.86}
MAX_DEVIATION = 4.0  # in stated errors: with four parameters and a dozen samples, three are exceeded occasionally


def best(fits):
    return min(fits, key=lambda fit: fit.bic).law


def factor(S):
    """Return W with W'W = S."""
    values, vectors = np.linalg.eigh(S)
    return (np.sqrt(np.clip(values, 0.0, None)) * vectors).T


def test_parameters_are_recovered_from_sampled_matrices():
    rng = np.random.default_rng(0)
    for _ in range(6):
        values = sampled(rng, 150, **TRUTH)
        fits = fit_laws(values, dim=150, tied=True)
        trained = fits[0]
        # the untied law has as many parameters and is as flexible (U8): by shape alone it may fit slightly better
        lowest = min(fits, key=lambda fit: fit.bic)
        assert lowest.law in ("tied", "untied") and trained.bic - lowest.bic < 10.0
        for name, truth in TRUTH.items():
            assert abs(trained.parameters[name] - truth) < MAX_DEVIATION * trained.errors[name], name
        assert trained.errors["spread"] < 0.15  # the errors are small enough to be informative
        assert trained.ks * len(values) < 5.0  # a spectrum is rigid: each value stays within a few ranks of its law


def test_parameters_of_an_untied_head_are_recovered():
    """Singular values of a product target plus noise, thresholded (U3)."""
    rng, dim = np.random.default_rng(7), 150
    truth = {"kappa0": 0.3, "spread": 0.3, "threshold": 0.4, "slope": 0.9}
    for _ in range(4):
        rows = round(truth["kappa0"] * dim)
        target = rng.standard_normal((dim, rows)) @ rng.standard_normal((rows, dim)) / np.sqrt(rows * dim)
        noisy = target + np.sqrt(truth["spread"] / dim) * rng.standard_normal((dim, dim))
        values = truth["slope"] * (np.linalg.svd(noisy, compute_uv=False) - truth["threshold"])
        fits = fit_laws(values[values > 0.0], dim=dim)
        assert fits[0].law == "untied" == best(fits)
        for name, value in truth.items():
            assert abs(fits[0].parameters[name] - value) < MAX_DEVIATION * fits[0].errors[name], name
        assert fits[0].errors["spread"] < 0.15
        assert fits[0].rank == pytest.approx(np.mean(values > 0.0), abs=3.0 / dim)


def test_parameters_are_recovered_from_the_largest_values_of_the_law():
    # width 0.25 of 160: the shape forces zeros, and only the largest 40 values are known
    rng = np.random.default_rng(1)
    values = sampled(rng, 160, **TRUTH)[:40]
    trained = fit_laws(values, dim=160, width=40, tied=True)[0]
    for name, truth in TRUTH.items():
        assert abs(trained.parameters[name] - truth) < MAX_DEVIATION * trained.errors[name], name


@pytest.mark.slow
def test_parameters_of_trained_heads_agree_with_the_theory():
    task, learner, dim = Task(target=MarchenkoPastur(kappa0=0.2)), Learner(weight_decay=0.03), 100
    point = predict(task, learner, alpha=0.5)
    truth = {"kappa0": 0.2, "spread": point.spread, "threshold": point.threshold, "slope": point.slope}
    runs = train(task, learner, dim=dim, alpha=0.5, seeds=2, method=Method(starts=1, test_samples=100)).runs
    for run in runs:
        W = factor(run.map)
        report = head_report(W, W)
        trained = report.fit("tied")
        for name, value in truth.items():
            # 3/d of the value is the finite-size bias of a run (1.8)
            assert abs(trained.parameters[name] - value) < MAX_DEVIATION * trained.errors[name] + 3.0 / dim * value, (
                name
            )
        assert report.rank == pytest.approx(point.rank, abs=3.0 / dim)
        assert report.outliers == ()
        # a better fit than every law of random matrices; by shape alone the untied law is as good (U8)
        rivals = [fit.bic for fit in report.fits if fit.law not in ("tied", "untied")]
        assert trained.bic < min(rivals) - 2.0


@pytest.mark.slow
def test_trained_outliers_are_where_the_theory_puts_them():
    dim = 100
    task = Task(target=Spikes(spikes=(9.0, 7.0), dim=dim, bulk=MarchenkoPastur(kappa0=0.2)))
    learner = Learner(weight_decay=0.03)
    law = spectrum(predict(task, learner, alpha=0.5))
    run = train(task, learner, dim=dim, alpha=0.5, method=Method(starts=1, test_samples=100)).runs[0]
    W = factor(run.map)
    report = head_report(W, W, fit=False)
    # the theory of d given eigenvalues also lists eigenvalues of the bulk of the target that are separated from the
    # noise
    expected = sorted((outlier.position for outlier in law.outliers if outlier.target >= 7.0), reverse=True)
    assert len(expected) == 2
    # an outlier of a d x d matrix moves by about sqrt(2 s/d) c: 0.07 here, and the run has a bias of 3 %
    assert [outlier["position"] for outlier in report.outliers] == pytest.approx(expected, rel=0.06)
    assert all(outlier["overlap"] == pytest.approx(1.0) for outlier in report.outliers)


def test_rival_laws_fit_their_own_samples_best():
    rng = np.random.default_rng(2)
    wins = {"noise": 0, "marchenko-pastur": 0, "power-law": 0}
    for _ in range(4):
        Q, K = rng.standard_normal((2, 64, 512))
        wins["noise"] += head_report(Q, K, bootstrap=0).best_law == "noise"
        wins["marchenko-pastur"] += head_report(Q, Q, bootstrap=0).best_law == "marchenko-pastur"
        # a power law of exponent 3 with the spacings of a random matrix
        levels = np.cumsum(rng.rayleigh(np.sqrt(2.0 / np.pi), 65))
        wins["power-law"] += (
            best(fit_laws((1.0 - levels[:-1] / levels[-1]) ** -0.5, dim=512, width=64, bootstrap=0)) == "power-law"
        )
    assert min(wins.values()) >= 3, wins


def test_noise_law_is_that_of_random_products():
    # expected values against the mean over 60 products, whose standard error is about half a level / sqrt(60)
    rng = np.random.default_rng(3)
    for head_dim, hidden in ((40, 160), (60, 60)):
        values = np.mean(
            [np.linalg.svd(rng.standard_normal((hidden, head_dim)) @ rng.standard_normal((head_dim, hidden)),
                           compute_uv=False)[:head_dim] for _ in range(60)], axis=0,
        )  # fmt: skip
        fit = next(f for f in fit_laws(values, dim=hidden, width=head_dim, bootstrap=0) if f.law == "noise")
        np.testing.assert_allclose(fit.expected[2:], values[2:], atol=0.02 * values[0])
        # W_Q'W_K has entries of variance head_dim, and t = 1 corresponds to a singular value of hidden
        assert fit.parameters["scale"] == pytest.approx(hidden, rel=0.03)


def test_parameters_of_marchenko_pastur_are_recovered():
    rng = np.random.default_rng(4)
    W = rng.standard_normal((60, 240))
    fit = fit_laws(np.linalg.svd(W, compute_uv=False) ** 2, dim=240, width=60, bootstrap=0)[2]
    assert fit.parameters["kappa0"] == pytest.approx(0.25, rel=0.1)
    assert fit.parameters["scale"] == pytest.approx(240.0, rel=0.05)


def test_a_change_of_units_changes_only_scales():
    values = sampled(np.random.default_rng(5), 120, **TRUTH)
    one, other = fit_laws(values, dim=120, bootstrap=3), fit_laws(1e6 * values, dim=120, bootstrap=3)
    for a, b in zip(one, other, strict=True):
        # a change of units shifts ln L by n ln(1e6); the rest agrees to the tolerance of the search
        assert b.log_likelihood == pytest.approx(a.log_likelihood - len(values) * np.log(1e6), abs=0.05)
        assert b.ks == pytest.approx(a.ks, abs=1e-3)
    assert other[0].parameters["slope"] == pytest.approx(1e6 * one[0].parameters["slope"], rel=1e-3)


def test_invalid_values_are_refused():
    for values, dim in (
        ([1.0, 2.0], 5),
        ([1.0] * 8 + [-1.0], 20),
        ([1.0] * 8 + [np.nan], 20),
        (np.arange(1.0, 9.0), 7),
    ):
        with pytest.raises(InvalidArgument):
            fit_laws(values, dim=dim)


@pytest.mark.parametrize("values", [np.full(20, 3.0), np.geomspace(1e-9, 1e9, 40), np.r_[np.full(39, 1.0), 1e6]])
def test_degenerate_spectra_are_fitted(values):
    fits = fit_laws(values, dim=100, width=values.size, bootstrap=2)
    assert all(np.isfinite(fit.bic) for fit in fits)


@pytest.mark.slow
def test_an_untied_head_gets_a_warning_that_it_is_not_tied():
    run = train(
        Task(target=MarchenkoPastur(kappa0=0.2)), Learner(weight_decay=0.03), dim=50, alpha=0.5,
        variant=Variant(tied=False), method=Method(starts=1, test_samples=100),
    ).runs[0]  # fmt: skip
    U, s, Vt = np.linalg.svd(run.map)
    report = head_report((U * np.sqrt(s)).T, np.sqrt(s)[:, None] * Vt, bootstrap=0)
    S = 0.5 * (run.map + run.map.T)
    assert report.symmetric_share == pytest.approx(np.sum(S**2) / np.sum(run.map**2), rel=1e-6)
    rng = np.random.default_rng(0)
    noise = head_report(*rng.standard_normal((2, 20, 60)), bootstrap=0)
    assert any("not tied" in text for text in noise.certificate.warnings)


@pytest.mark.parametrize("kappa0", [0.1, 0.2])
def test_a_law_with_two_bulks_is_fitted_to_all_values(kappa0):
    """The target's own values, separated from the noise by a gap, are part of the law and not outliers of it."""
    rng, dim = np.random.default_rng(13), 160
    truth = {"kappa0": kappa0, "spread": 0.05, "threshold": 0.1, "slope": 1.0}
    rows = round(kappa0 * dim)
    target = rng.standard_normal((dim, rows)) @ rng.standard_normal((rows, dim)) / np.sqrt(rows * dim)
    left, values, right = np.linalg.svd(target + np.sqrt(0.05 / dim) * rng.standard_normal((dim, dim)))
    root = np.sqrt(np.clip(values - 0.1, 0.0, None))
    report = head_report((left * root).T, root[:, None] * right)
    fit = report.fit("untied")
    for name, value in truth.items():
        assert abs(fit.parameters[name] - value) < MAX_DEVIATION * fit.errors[name], name
    assert fit.errors["slope"] < 0.2
    # the drawn law begins at the largest value, although some values are marked as outliers
    drawn = {line.get_label(): line for line in head_spectrum(report).get_lines()}
    assert list(drawn["untied head"].get_xdata()) == [*range(1, fit.expected.size + 1)]
    assert drawn["singular values"].get_color() == TRAINING


def test_few_outliers_are_not_part_of_a_law():
    values = np.concatenate([[60.0, 50.0, 40.0, 30.0, 20.0], sampled(np.random.default_rng(3), 100, **TRUTH)])
    for outliers in (2, 5):
        assert not outliers_belong_to_law(values, outliers, dim=105, width=105, tied=True)
