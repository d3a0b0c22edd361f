"""Logits that all queries share, where tokens have a mean: cross-attention, T = 2."""

import numpy as np
import pytest

from onehead import aim
from onehead.aim import Learner, Product, Task, predict, thresholds
from onehead.aim.theory.build import build_state_evolution
from onehead.errors import InvalidArgument
from onehead.fields import parameters_of

CROSS = Task(attention="cross")


def share(variance):
    """The unasked share of a target whose asked logits have variance one."""
    return variance / (1.0 + variance)


# an independent program on a lattice of spacing 0.1 (squared) or 0.25; it is off by up to 8e-5 (squared) or 2e-8,
# relative
@pytest.mark.parametrize(
    ("labels", "loss", "alpha", "decay", "variance", "expected"),
    [
        ("soft", "squared", 1.0, 0.05, 1.0, (0.7420327, 0.772011, 0.8807273, 3.027011, 0.0530226, 0.09447101, 0.800704)),
        ("soft", "squared", 0.4, 0.02, 1.0, (0.6583636, 0.5893419, 0.8693808, 17.16853, 0.0128503, 0.155486, 0.648907)),
        ("soft", "cross-entropy", 1.0, 0.05, 3.35, (0.7961977, 0.7999996, 0.9164122, 3.215052, 0.7700654, 0.06985732, 0.795055)),
        ("hard", "cross-entropy", 2.0, 0.1, 3.0, (4.495784, 1.305936, 1.408274, 2.180426, 1.131687, 0.2788681, 0.9272501)),
    ],
)  # fmt: skip
def test_predictions_agree_with_an_independent_program(labels, loss, alpha, decay, variance, expected):
    point = predict(
        CROSS.changed(labels=labels, unasked=share(variance)), Learner(loss=loss, weight_decay=decay), alpha
    )
    found = (point.q, point.m, point.unasked_scale, point.sigma, point.train_loss, point.test_error, point.rank)
    assert found == pytest.approx(expected, rel=1e-4 if loss == "squared" else 1e-6)
    assert point.certificate.train_loss_gap < 1e-6  # both forms of the training loss, of the asked part alone


@pytest.mark.parametrize(("variance", "ratio"), [(0.0, 0.150600), (1.0, 0.185097), (2.0, 0.213191), (3.35, 0.245580)])
def test_emergence_of_the_asked_part(variance, ratio):
    """Below it the map is zero but for the field, which is not: c is about 0.7."""
    task, learner = CROSS.changed(unasked=share(variance)), Learner(loss="cross-entropy", weight_decay=0.5)
    assert thresholds(task, learner).emergence == pytest.approx(ratio, rel=1e-5)
    below = predict(task, learner, 0.9 * ratio)
    assert below.rank == 0.0
    assert below.unasked_share == (1.0 if variance else 0.0)
    assert below.unasked_scale == pytest.approx(0.71 if variance else 0.0, abs=0.02)
    nothing = predict(CROSS.changed(unasked=share(variance)), learner.changed(weight_decay=1e3), ratio)
    assert nothing.test_error == pytest.approx(below.test_error, rel=1e-6)


def test_a_share_of_zero_is_a_head_without_a_mean():
    """A tiny share changes nothing to first order, and none changes nothing at all."""
    learner = Learner(weight_decay=0.05)
    without, tiny = predict(CROSS, learner, 0.5), predict(CROSS.changed(unasked=1e-9), learner, 0.5)
    assert (without.unasked_scale, without.unasked_share) == (0.0, 0.0)
    # both are solved to a residual of 3e-7
    assert (tiny.q, tiny.m, tiny.test_error) == pytest.approx((without.q, without.m, without.test_error), rel=3e-6)


def test_fields_and_asked_logits_are_gaussian_totals():
    """The loss on fresh samples against logits drawn from their definition: a field per key, and logits of each
    query.
    """
    variance, scale, q, m, rng, size = 2.0, 0.8, 0.9, 0.7, np.random.default_rng(5), 400_000
    problem = build_state_evolution(CROSS.changed(unasked=share(variance)), Learner())
    field, label, free = rng.standard_normal((3, size, 2))
    noise = np.sqrt(0.25) * rng.standard_normal((size, 2))
    t = np.sqrt(variance) * field + label + noise
    v = scale * np.sqrt(variance) * field + m * label + np.sqrt(q - m * m) * free
    sig = [1.0 / (1.0 + np.exp(h[:, 1] - h[:, 0])) for h in (t, v)]
    losses = 2.0 * 2.0 * (sig[0] - sig[1]) ** 2  # two rows of two columns
    values = problem.directions.output_values(np.array([q]), np.array([m]), np.array([scale * np.sqrt(variance)]))
    found = problem.output.fresh_loss(*values, loss="squared")
    assert abs(losses.mean() - found) < 4.5 * losses.std() / np.sqrt(size)


@pytest.mark.parametrize("target", [Product(kappa0=0.3), Product(kappa0=2.0)])
def test_temperatures_only_rescale(target):
    """β and β₀ change units: the same errors at the map and the field divided by β/β₀ (1.5)."""
    one = predict(Task(attention="cross", target=target, unasked=0.4), Learner(weight_decay=0.02), 0.8)
    other = predict(
        Task(attention="cross", target=target, unasked=0.4), Learner(weight_decay=0.02 * 2.0, beta=2.0), 0.8
    )
    assert other.test_error == pytest.approx(one.test_error, rel=1e-6)
    assert other.unasked_scale == pytest.approx(one.unasked_scale / 2.0, rel=1e-6)
    assert other.unasked_share == pytest.approx(one.unasked_share, rel=1e-6)


def test_heads_without_a_theory_are_refused_in_one_sentence():
    for task in (
        Task(unasked=0.5),
        Task(attention="self", unasked=0.5),
        Task(attention="self", mask="causal", unasked=0.5),
    ):
        with pytest.raises(InvalidArgument, match="unasked must be 0 unless attention is cross"):
            predict(task, Learner(), 0.5)
    assert predict(Task(attention="self", mask="strict", tokens=3, unasked=0.5), Learner(), 0.5).unasked_share > 0.0


VERBS = {
    "bayes": lambda task, learner, point: aim.bayes(task, 0.5),
    "bayes_curve": lambda task, learner, point: aim.bayes_curve(task, [0.5]),
    "data_for": lambda task, learner, point: aim.data_for(task, 0.2),
    "scaling": lambda task, learner, point: aim.scaling(task, learner, [100.0]),
    "decompose": lambda task, learner, point: aim.decompose(point),
    "directions": lambda task, learner, point: aim.directions(point),
    "train": lambda task, learner, point: aim.train(task, learner, dim=10, alpha=0.5),
    "compare": lambda task, learner, point: aim.compare(task, learner, [0.5], dims=[10]),
    "amp": lambda task, learner, point: aim.amp(task, learner, dim=10, alpha=0.5),
    "nuclear_equivalence": lambda task, learner, point: aim.nuclear_equivalence(task, learner, dim=10, alpha=0.5),
}


@pytest.mark.parametrize("verb", VERBS)
def test_functions_that_do_not_support_a_parameter_refuse_it(verb):
    """A parameter whose declaration lists the functions that support it is refused by all others."""
    assert verb not in parameters_of(Task)["unasked"].verbs
    task, learner = CROSS.changed(unasked=0.5), Learner(weight_decay=0.05)
    point = predict(task, learner, 0.5)
    with pytest.raises(InvalidArgument, match=f"unasked must be 0 for {verb}; predict, curve"):
        VERBS[verb](task, learner, point)


def test_functions_that_support_a_parameter_use_it():
    task, learner = CROSS.changed(unasked=0.5), Learner(weight_decay=0.05)
    point = predict(task, learner, 0.5)
    assert aim.curve(task, learner, [0.5])[0].test_error == pytest.approx(point.test_error, rel=1e-6)
    assert aim.tune(task, learner, 0.5).test_error <= point.test_error
    assert aim.spectrum(point).rank == pytest.approx(point.rank, abs=1e-6)
    assert aim.plateau(task).test_error < point.test_error
