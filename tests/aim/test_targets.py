"""Targets with a dimension: their spectra, their flat parameters, and predictions and training with them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onehead import aim
from onehead.aim import Atoms, Learner, MarchenkoPastur, PowerLaw, Spikes, Task
from onehead.aim.flat_parameters import parse_decay, problem_from_parameters


@given(gamma=st.floats(0.0, 3.0), dim=st.integers(2, 400))
@settings(max_examples=40, deadline=None)
def test_power_law_is_normalised_and_decays(gamma, dim):
    values = PowerLaw(gamma=gamma, dim=dim).values
    assert np.mean(values**2) == pytest.approx(1.0, rel=1e-12)
    assert (np.diff(values) <= 0.0).all()
    np.testing.assert_allclose(values / values[0], np.arange(1.0, dim + 1.0) ** -gamma, rtol=1e-12)


def test_spikes_have_the_given_eigenvalues():
    target = Spikes(spikes=(3.0, 6.0, -1.0), dim=50)
    np.testing.assert_allclose(target.values, [6.0, 3.0, *[0.0] * 47, -1.0])
    assert target.edges == (-1.0, 6.0)
    assert target.rank == 3 / 50


def test_spikes_over_a_bulk_take_its_quantiles():
    bulk = MarchenkoPastur(kappa0=0.5)
    target = Spikes(spikes=(9.0,), dim=2001, bulk=bulk)
    others = target.values[1:]
    assert (others == 0.0).sum() == 1000
    # quantiles of a density with two root edges: their moments miss the limit by O(1/count)
    assert np.mean(others) == pytest.approx(np.sqrt(0.5), abs=1e-3)
    assert np.mean(others**2) == pytest.approx(bulk.second_moment, abs=3e-3)


def test_arrays_are_accepted_and_targets_are_values():
    assert Atoms(eigenvalues=np.array([1.0, 0.0])) == Atoms(eigenvalues=(1.0, 0.0))
    assert hash(PowerLaw(gamma=1.0, dim=10)) == hash(PowerLaw(gamma=1.0, dim=10))
    with pytest.raises(ValueError, match="read-only"):
        PowerLaw(gamma=1.0, dim=10).values[0] = 3.0


@pytest.mark.parametrize("kappa0", [0.2, 1.0, 1.7])
@pytest.mark.parametrize("share", [0.05, 0.15, 0.6, 1.0])
def test_unrepresentable_spectrum_of_a_law_matches_that_of_its_quantiles(kappa0, share):
    """The smallest eigenvalues beyond the allowed rank: integrals of the density against a list of 4000 (8.1)."""
    law = MarchenkoPastur(kappa0=kappa0)
    listed = Spikes(spikes=(law.edges[1],), dim=4000, bulk=law)
    (x, mass), (y, shares) = law.unrepresentable_spectrum(share), listed.unrepresentable_spectrum(share)
    assert mass.sum() == pytest.approx(max(law.rank - share, 0.0), abs=1e-12)
    assert shares.sum() == pytest.approx(mass.sum(), abs=1e-3)  # one eigenvalue in 4000 is a spike
    assert mass @ x**2 == pytest.approx(shares @ y**2, abs=3e-3)
    assert law.mean == pytest.approx(np.sqrt(kappa0), rel=1e-12)


def test_negative_and_smallest_eigenvalues_are_unrepresentable():
    target = Atoms(eigenvalues=(3.0, 1.0, 1.0, 0.0, -2.0, -2.0, 0.0, 0.0))
    values, shares = target.atoms
    np.testing.assert_allclose((values, shares), ([3.0, 1.0, -2.0], [0.125, 0.25, 0.25]))
    assert (target.mean, target.free_eigenvector_share) == pytest.approx(
        (0.125, 1.0 - 0.125**2 - 2 * 0.25**2 - 0.375**2)
    )
    for share, masses in ((1.0, [0.25]), (0.3, [0.075, 0.25]), (0.05, [0.075, 0.25, 0.25])):
        np.testing.assert_allclose(target.unrepresentable_spectrum(share)[1], masses)
    assert not PowerLaw(dim=10).unrepresentable_spectrum(1.0)[0].size
    assert not MarchenkoPastur(kappa0=0.3).unrepresentable_spectrum(0.3)[0].size


TARGETS = (
    PowerLaw(gamma=0.75, dim=60),
    Spikes(spikes=(6.0, 3.0, 1.8), dim=60),
    Atoms(eigenvalues=(3.0, 2.0, 1.0) * 10 + (0.0,) * 30),
)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: type(target).__name__)
def test_predictions_thresholds_and_training_work_for_every_target(target):
    task, learner = Task(target=target), Learner(weight_decay=0.02)
    point = aim.predict(task, learner, 0.5)
    assert point.status == "converged"
    assert 0.0 < point.excess_error < point.test_error
    assert point.m**2 <= point.q * target.second_moment
    assert [p.alpha for p in aim.curve(task, learner, [0.5, 1.0])] == [0.5, 1.0]
    marks = aim.thresholds(task, learner)
    assert 0.0 < marks.emergence < marks.interpolation <= marks.direct + 1e-12
    best = aim.tune(task, learner, 0.5)
    assert best.test_error <= point.test_error * (1.0 + 1e-9)
    law = aim.spectrum(point)
    assert law.second_moment == pytest.approx(point.q, rel=1e-9)
    assert law.cdf(np.array([1e6]))[0] == pytest.approx(1.0, abs=1e-3)
    # one small head: theory and training agree to the size of its fluctuations, 1/d with a factor of a few
    runs = aim.train(task, learner, dim=60, alpha=0.5, seeds=2)
    assert runs.test_error == pytest.approx(point.test_error, abs=0.08)
    steps = aim.amp(task, learner, dim=60, alpha=0.5, iterations=30).to_rows()
    assert steps[-1]["q"] == pytest.approx(steps[-1]["q_theory"], rel=0.3)


def test_the_ridgeless_limit_without_noise_recovers_atoms_exactly():
    task = Task(target=Spikes(spikes=(6.0, 3.0), dim=50), noise=0.0)
    point = aim.predict(task, Learner(weight_decay="0+"), 1.0)
    assert point.status.startswith("perfect recovery")
    law = aim.spectrum(point)
    assert law.rank == pytest.approx(2 / 50)
    assert law.x.size == 0


def test_parameters_of_neither_task_nor_learner_are_returned():
    task, learner, others = problem_from_parameters({"kappa0": 0.3, "seeds": 4, "dim": 80, "alpha": 0.5, "beta": None})
    assert task.target == MarchenkoPastur(kappa0=0.3)
    assert learner == Learner()
    assert others == {"seeds": 4, "dim": 80, "alpha": 0.5}


@given(power=st.floats(-3.0, 3.0).map(lambda x: round(x, 3)), dim=st.integers(2, 5000))
def test_weight_decay_as_a_power_of_the_dimension(power, dim):
    assert parse_decay(f"d^{power}", dim) == pytest.approx(dim**power, rel=1e-12)
    assert parse_decay("1/d", dim) == pytest.approx(1.0 / dim)
    assert parse_decay("sqrt(d)", dim) == pytest.approx(np.sqrt(dim))
    assert parse_decay("0.25", dim) == 0.25
    assert parse_decay("0+", dim) == "0+"


@pytest.mark.parametrize("gamma", [0.75, 1.25])
def test_kurtosis_of_the_logits_does_not_vanish_with_the_dimension(gamma):
    # the theory takes logits as Gaussian; a power law with mean square one has a top eigenvalue of order sqrt(d)
    small, large = (PowerLaw(gamma=gamma, dim=dim).excess_kurtosis for dim in (200, 5000))
    assert large == pytest.approx(small, rel=0.15)
    values = PowerLaw(gamma=gamma, dim=200).values
    rng = np.random.default_rng(0)
    logits = np.concatenate([np.prod(rng.standard_normal((2, 10_000, 200)), axis=0) @ values for _ in range(20)])
    measured = np.mean(logits**4) / np.mean(logits**2) ** 2 - 3.0
    assert measured == pytest.approx(small, rel=0.15)  # heavy tails: the fourth moment of 2e5 samples is good to 5 %
    point = aim.predict(Task(target=PowerLaw(gamma=gamma, dim=200)), Learner(weight_decay=1.0, leading=0), 2.0)
    assert point.kind == "conjecture"
    assert "far from Gaussian" in point.certificate.warnings[-1]
    assert aim.predict(Task(), Learner(), 2.0).kind == "claim"


def test_limiting_laws_and_lists_say_the_same_of_themselves():
    law, listed = MarchenkoPastur(kappa0=0.47), Atoms(eigenvalues=(2.0, 1.0, 0.0))
    assert (law.values, law.dimension, law.atoms) == (None, None, None)
    assert (listed.values.tolist(), listed.dimension) == ([2.0, 1.0, 0.0], 3)
    assert law.at_dimension(10).kappa0 == 0.5  # the nearest integer rank
    assert listed.at_dimension(10) is listed
    rng = np.random.default_rng(0)
    assert np.linalg.matrix_rank(law.draw(40, rng, tied=True)) == 19
    for tied in (True, False):
        assert np.linalg.svd(listed.draw(3, rng, tied=tied))[1] == pytest.approx(listed.values, abs=1e-12)


def test_tables_leave_out_numbers_that_few_heads_have():
    known = {"unasked_scale", "unasked_share"}
    assert not known & set(aim.predict(Task(), Learner(), 0.5).shown_meanings)
    assert known <= set(aim.predict(Task(attention="cross", unasked=0.5), Learner(), 0.5).shown_meanings)
