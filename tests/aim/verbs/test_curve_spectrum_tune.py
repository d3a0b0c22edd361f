"""Curves, spectra and tuned weight decays."""

import sys

import numpy as np
import pytest
from tests.support.problems import sampled_eigenvalues

from onehead.aim import Learner, MarchenkoPastur, Task, curve, predict, spectrum, tune
from onehead.errors import InvalidArgument, NotConverged


def test_a_curve_has_the_order_asked_for_and_matches_single_points():
    alphas = [0.8, 0.3, 2.0, 0.3]
    calls = []
    found = curve(Task(), Learner(), alphas, progress=lambda: calls.append(1))
    assert list(found.column("alpha")) == alphas
    assert len(calls) == len(found) == 4
    for point in found:
        # both solve the same equations to a residual of 3e-7
        assert point.test_error == pytest.approx(predict(Task(), Learner(), point.alpha).test_error, abs=2e-6)
    assert [row["alpha"] for row in found.to_rows()] == alphas


def test_error_falls_and_rank_grows_with_samples_at_fixed_weight_decay():
    found = curve(Task(), Learner(), np.geomspace(0.03, 20.0, 12))
    assert (np.diff(found.column("test_error")) < 0.0).all()
    assert (np.diff(found.column("rank")) > 0.0).all()


def test_a_failed_point_is_a_row_with_a_reason(monkeypatch):
    module = sys.modules["onehead.aim.verbs.curve"]
    predict_all = module.predict

    def predict_some(task, learner, alpha, near=None, **options):
        if alpha == 1.0:
            raise NotConverged("no solution at alpha = 1; try another.")
        return predict_all(task, learner, alpha, near=near, **options)

    monkeypatch.setattr(module, "predict", predict_some)
    found = curve(Task(), Learner(), [0.5, 1.0, 2.0])
    assert len(found.failures) == 1
    row = found.to_rows()[1]
    assert row["status"].startswith("failed: no solution")
    assert row["test_error"] is None
    assert np.isnan(found.column("test_error")[1])
    with pytest.raises(InvalidArgument, match=r"name must be a number of the points: alpha, test_error.*'typo'"):
        found.column("typo")
    with pytest.raises(InvalidArgument, match="'status'"):
        found.column("status")


@pytest.mark.parametrize("count", ["1", "2"])
def test_an_interrupt_returns_the_points_solved_so_far(monkeypatch, count):
    monkeypatch.setenv("ONEHEAD_THREADS", count)
    done = []

    def stop_after_two():
        done.append(1)
        if len(done) == 2:
            raise KeyboardInterrupt

    found = curve(Task(), Learner(), np.linspace(0.5, 2.0, 8), progress=stop_after_two)
    assert len(found) == 8
    assert 6 >= len(found.failures) >= 2
    assert "interrupted" in found.failures[0].reason
    assert np.isfinite(found.column("test_error")).sum() >= 2


@pytest.mark.parametrize(
    "learner",
    [
        Learner(),
        Learner(param="direct"),
        Learner(width=0.3),
        Learner(weight_decay="0+"),
        Learner(beta=2.0, weight_decay=0.02),
    ],
)
@pytest.mark.parametrize("alpha", [0.1, 4.0, 40.0])
def test_spectrum_agrees_with_the_scalars(learner, alpha):
    point = predict(Task(), learner, alpha)
    law = spectrum(point)
    assert law.zero_mass + law.rank == pytest.approx(1.0, abs=1e-9)
    assert law.second_moment == pytest.approx(point.q, rel=1e-6)
    x = np.array([1e6])
    assert law.cdf(x)[0] == pytest.approx(1.0, abs=2e-6)  # trapezoidal rule in the angle
    assert (law.density_values >= 0.0).all()
    values = law.sample(np.random.default_rng(0), 200_000)
    # four standard errors of a mean over 2e5 samples
    assert np.mean(values) == pytest.approx(law.mean, abs=4.0 * np.std(values) / np.sqrt(2e5))
    assert np.mean(values**2) == pytest.approx(law.second_moment, abs=4.0 * np.std(values**2) / np.sqrt(2e5))
    if learner.param == "factorised":
        assert min(low for low, _ in law.edges) >= 0.0
        assert np.mean(values > 0.0) == pytest.approx(law.rank, abs=4.0 * 0.5 / np.sqrt(2e5))
    else:
        assert law.edges[0][0] < 0.0


def test_sampled_eigenvalues_follow_the_spectrum():
    point = predict(Task(), Learner(weight_decay=0.01), 0.5)
    law, dim = spectrum(point), 300
    values = sampled_eigenvalues(np.random.default_rng(0), dim, 0.5, point.spread, point.threshold, point.slope)
    above = np.arange(len(values)) / dim  # the share above each value, descending
    gap = 1.0 - law.cdf(values) - above
    assert max(np.abs(gap).max(), np.abs(gap - 1.0 / dim).max()) < 0.03  # eigenvalues are rigid: about 3/d
    assert abs(values[0] - law.edges[-1][1]) < 0.4  # d^(-2/3) times a scale of about 4
    assert np.abs(1.0 - law.cdf(values + 0.5) - above).max() > 0.1


def test_the_spectrum_splits_into_two_bulks_at_the_published_ratio():
    split = 6.147  # for λ = 0.01, Δ = κ₀ = 0.5, quoted to four digits
    assert len(spectrum(predict(Task(), Learner(), split * 0.998)).edges) == 1
    two = spectrum(predict(Task(), Learner(), split * 1.01))
    assert len(two.edges) == 2
    assert 1.0 - two.cdf(np.array([two.edges[1][0]]))[0] == pytest.approx(0.5, abs=1e-5)


def test_spectrum_before_emergence_and_after_recovery():
    zero = spectrum(predict(Task(), Learner(weight_decay=10.0), 0.01))
    assert zero.zero_mass == 1.0
    assert zero.edges == ()
    assert (zero.sample(np.random.default_rng(0), 10) == 0.0).all()
    target = MarchenkoPastur(kappa0=0.5)
    found = spectrum(predict(Task(target=target, noise=0.0), Learner(weight_decay="0+"), 0.3))
    assert found.edges == (target.edges,)
    assert found.zero_mass == 0.5
    values = found.sample(np.random.default_rng(0), 100_000)
    assert np.mean(values**2) == pytest.approx(1.5, abs=4.0 * np.std(values**2) / np.sqrt(1e5))


@pytest.mark.parametrize(
    ("param", "alpha", "test"),
    [("factorised", 0.1, 0.02063), ("factorised", 0.5, 0.01132), ("direct", 0.25, 0.0765), ("direct", 0.5, 0.0233)],
)
@pytest.mark.slow
def test_tune_finds_the_published_minimum(param, alpha, test):
    task = Task(target=MarchenkoPastur(kappa0=0.05), noise=0.05)
    best = tune(task, Learner(param=param), alpha)
    # quoted to three or four digits
    assert best.test_error == pytest.approx(test, abs=6e-5 if param == "direct" else 6e-6)
    assert best.certificate.status == "converged: optimum inside the range"
    assert best.flat_from < best.weight_decay < best.flat_to
    for factor in (0.7, 1.4):
        other = predict(task, Learner(param=param, weight_decay=best.weight_decay * factor), alpha)
        assert other.test_error > best.test_error
    assert best.gain >= 0.0


@pytest.mark.slow
def test_boundary_optima_are_reported_as_such():
    task = Task(target=MarchenkoPastur(kappa0=0.05), noise=0.05)
    best = tune(task, Learner(), 0.045)
    assert best.weight_decay == 0.0
    assert "boundary" in best.certificate.status
    assert best.test_error == pytest.approx(0.0479, abs=1e-4)
    # with very strong noise and few samples no map is better than the zero map
    found = tune(Task(noise=300.0), Learner(), 0.02)
    assert found.test_error <= predict(Task(noise=300.0), Learner(weight_decay=100.0), 0.02).test_error


@pytest.mark.parametrize("options", [{"param": "direct"}, {"weight_decay": 0.05}, {}])
def test_the_density_is_zero_at_the_edges(options):
    """At an edge it is exactly zero, not the square root of a rounding error that differs between machines."""
    for task in (Task(), Task(attention="cross")):
        law = spectrum(predict(task, Learner(**options), 0.5))
        for low, high in law.edges:
            ends = law.density(np.array([high * (1.0 - 1e-15), high, high * (1.0 + 1e-15), low]))
            assert ends[:3].tolist() == [0.0, 0.0, 0.0]
            assert low == 0.0 or ends[3] == 0.0
