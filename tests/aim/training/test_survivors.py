"""Training of several learner heads for one target head (M8)."""

from math import inf

import numpy as np
import pytest

from onehead import aim
from onehead.aim import Learner, Task
from onehead.aim.training.data import Samples, Tokens
from onehead.aim.training.layer import LayerLoss
from onehead.aim.training.parametrisation import Untied
from onehead.aim.training.survivors import ScaledHeads
from onehead.errors import InvalidArgument


def test_gradients_of_the_objective_of_training():
    task, dim, rng = Task(attention="cross"), 7, np.random.default_rng(3)
    data = Samples(
        task=task, target=task.target.draw(dim, rng, tied=False), count=30, law=Tokens(), seed=np.random.SeedSequence(1)
    )
    loss = LayerLoss(value_gram=np.eye(1), beta=1.2)
    objective = ScaledHeads(samples=data, weights=Untied(dim, dim, 3), beta=1.2, decay=0.1, value_decay=0.07, loss=loss)
    theta, step = np.concatenate([objective.weights.start(rng), dim * rng.random(6)]), 1e-5
    _, gradient = objective(theta)
    for _ in range(4):
        move = rng.standard_normal(len(theta))
        numeric = (objective(theta + step * move)[0] - objective(theta - step * move)[0]) / (2.0 * step)
        assert abs(numeric - gradient @ move) < 1e-8 * (1.0 + abs(numeric))  # rounding and step²


def test_training_from_every_start_leaves_one_head():
    task = Task(attention="cross", heads=2)
    result = aim.train_survivors(task, Learner(weight_decay=0.1, values="learnt"), 2.0, dim=24)
    assert {run.start for run in result.trained} == {"random weights", "heads nearly alike", "one head"}
    assert [run.alive for run in result.trained] == [1, 1, 1] and all(
        run.ended == "converged" for run in result.trained
    )
    best = result.trained[0]
    assert max(run.objective for run in result.trained) == pytest.approx(best.objective, rel=1e-5)
    # one instance of dimension 24, whose target has a power of its own: 3/d, and the scatter of q
    assert best.scales[0] == pytest.approx(result.scales[0], abs=0.01)
    assert best.objective == pytest.approx(result.objective, rel=0.1)
    assert best.m == pytest.approx(result.m, abs=0.2)


def test_training_needs_a_finite_sample_ratio():
    with pytest.raises(InvalidArgument, match="alpha must be a finite number to train with"):
        aim.train_survivors(Task(attention="cross", heads=2), Learner(weight_decay=0.1, values="learnt"), inf, dim=10)
