"""A field whose size differs between queries: strong directions of their covariance (D6)."""

import numpy as np
import pytest

from onehead.aim import Learner, Task, predict
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.output import fluctuating
from onehead.errors import InvalidArgument

CROSS = Task(attention="cross", unasked=0.75)
LEARNER = Learner(weight_decay=0.05)
NAMES = ("q", "m", "unasked_scale", "sigma", "train_loss", "test_error", "test_cross_entropy", "rank")


def numbers(point):
    return [getattr(point, name) for name in NAMES]


@pytest.mark.parametrize("changes", [{}, {"labels": "hard"}])
def test_a_small_fluctuation_is_a_mean(changes):
    """To first order in the fluctuation; 1e-10 of it is less than the residual of the equations, 3e-7."""
    task = CROSS.changed(**changes)
    learner = LEARNER.changed(loss="cross-entropy", weight_decay=0.2)
    mean, nearly = predict(task, learner, 2.0), predict(task.changed(fluctuation=1e-10), learner, 2.0)
    assert numbers(nearly) == pytest.approx(numbers(mean), rel=2e-6)
    assert predict(task.changed(fluctuation=1.0), learner, 2.0).test_error > 1.02 * mean.test_error


def test_a_weak_direction_is_one_of_all_others():
    """Without an unasked share, isotropic tokens; with a tiny one, the same to first order in it."""
    without = predict(CROSS.changed(unasked=0.0, fluctuation=1.0), LEARNER, 1.0)
    isotropic = predict(Task(attention="cross"), LEARNER, 1.0)
    tiny = predict(CROSS.changed(unasked=1e-9, fluctuation=1.0), LEARNER, 1.0)
    assert numbers(without) == numbers(isotropic)
    kept = [k for k, name in enumerate(NAMES) if name != "unasked_scale"]
    # both are solved to a residual of 3e-7
    assert np.take(numbers(tiny), kept) == pytest.approx(np.take(numbers(isotropic), kept), rel=3e-6)


@pytest.mark.parametrize("share", [0.3, 1.0])
@pytest.mark.parametrize("labels", ["soft", "hard"])
def test_the_rule_has_enough_sizes(share, labels, monkeypatch):
    """Half the spacing of the nodes moves numbers by less than the error of the lattice of logits."""
    task = CROSS.changed(fluctuation=share, labels=labels)
    learner = Learner(weight_decay=0.2, loss="cross-entropy")
    sizes, weights = build_state_evolution(task, learner).output._sizes
    assert weights @ sizes == pytest.approx(1.0, abs=1e-5)  # E ξ²
    assert weights @ sizes**2 == pytest.approx(1.0 + 4.0 * share - 2.0 * share**2, rel=1e-4)  # of N(a, w): E ξ⁴
    found = predict(task, learner, 2.0)
    monkeypatch.setattr(fluctuating, "SPACING", 0.5 * fluctuating.SPACING)
    monkeypatch.setattr(fluctuating, "NORMAL_SPACING", 0.5 * fluctuating.NORMAL_SPACING)
    assert numbers(found) == pytest.approx(numbers(predict(task, learner, 2.0)), rel=1e-5)


def test_the_loss_of_rows_of_all_sizes_is_that_of_sampled_ones():
    """The loss on fresh samples against logits drawn from their definition: a size per row and a field per key."""
    variance, scale, q, m, rng, size = 3.0, 0.8, 0.9, 0.7, np.random.default_rng(5), 400_000
    problem = build_state_evolution(CROSS.changed(fluctuation=0.6), Learner())
    sizes = np.sqrt(0.4) + np.sqrt(0.6) * rng.standard_normal((size, 1))
    field, label, free = rng.standard_normal((3, size, 2))
    noise = np.sqrt(0.25) * rng.standard_normal((size, 2))
    t = np.sqrt(variance) * sizes * field + label + noise
    v = scale * np.sqrt(variance) * sizes * field + m * label + np.sqrt(q - m * m) * free
    sig = [1.0 / (1.0 + np.exp(h[:, 1] - h[:, 0])) for h in (t, v)]
    losses = 2.0 * 2.0 * (sig[0] - sig[1]) ** 2  # two rows of two columns
    found = problem.output.fresh_loss(q, m, scale * np.sqrt(variance), loss="squared")
    assert abs(losses.mean() - found) < 4.5 * losses.std() / np.sqrt(size)


def test_the_scale_of_the_field_makes_the_objective_stationary():
    """The average Moreau envelope at the solution, by differences in c alone: a size pulls by ξ² (mhat - c Σhat)."""
    task = CROSS.changed(fluctuation=1.0)
    point = predict(task, LEARNER, 1.0)
    problem, field = point.equations, np.sqrt(3.0)
    assert point.certificate.train_loss_gap < 1e-6

    def envelope(scale):
        output = problem.output
        return output.averages(point.q, point.m, scale * field, point.sigma, level=2).envelope(point.sigma)

    step = 0.01
    low, middle, high = (envelope(point.unasked_scale + shift) for shift in (-step, 0.0, step))
    slope, curvature = (high - low) / (2.0 * step), (high - 2.0 * middle + low) / step**2
    assert curvature > 0.0
    # the minimum is where c is; the cubic term of the envelope leaves an error of the order of step²
    assert abs(slope / curvature) < 5e-4


def test_the_asked_part_emerges_after_the_field():
    below = predict(CROSS.changed(fluctuation=1.0), Learner(loss="cross-entropy", weight_decay=5.0), 0.5)
    assert (below.rank, below.unasked_share) == (0.0, 1.0)
    assert 0.5 < below.unasked_scale < 1.0


def test_only_cross_attention_has_a_fluctuating_mean():
    for changes in ({}, {"attention": "self", "mask": "strict", "tokens": 3}):
        with pytest.raises(InvalidArgument, match="fluctuation must be 0 unless attention is cross"):
            Task(unasked=0.5, fluctuation=0.5, **changes)
    hard = build_state_evolution(CROSS.changed(labels="hard", fluctuation=0.5), Learner(loss="cross-entropy"))
    assert hard.separability is None


def test_the_explanation_says_that_queries_differ():
    point = predict(CROSS.changed(fluctuation=1.0), LEARNER, 1.0)
    assert "a preference for keys that all queries share, each to its own degree;" in " ".join(point.explain().split())
