"""Random valid problems of every loss: a small residual, a reported collapse, or a typed error."""

from collections import Counter

import numpy as np
import pytest

from onehead.errors import SolveError
from onehead.sparse import Protocol, Task, predict
from onehead.sparse.losses import LOSSES
from onehead.sparse.solve.readout import COLLAPSED

MODELS = ("attention", "pooled", "vectorised")


def problem(rng, loss):
    length = int(rng.integers(2, 31))
    task = Task(
        length=length,
        signal_tokens=int(rng.integers(1, min(3, length) + 1)),
        strength=rng.uniform(0, 6),
        positive_rate=rng.uniform(0.05, 0.95),
    )
    plan = Protocol(
        alpha0=10 ** rng.uniform(-1, 1.3),
        alpha1=10 ** rng.uniform(-1, 1.3),
        cos_query=rng.uniform(-1, 1),
        sharpness=10 ** rng.uniform(-1, 0.9),
        ridge=0.0 if rng.random() < 0.1 else 10 ** rng.uniform(-6, 0),
        loss=loss,
    )
    return task, plan


@pytest.mark.slow
@pytest.mark.parametrize("loss", list(LOSSES))
def test_two_hundred_random_problems_are_solved_or_fail_with_a_typed_error(loss):
    rng = np.random.default_rng(2026)
    statuses = Counter()
    for k in range(200):
        task, plan = problem(rng, loss)
        try:
            found = predict(task, plan, model=MODELS[k % 3], accuracy=1.0)
        except SolveError:
            statuses["typed error"] += 1
            continue
        statuses[found.certificate.status.split(":")[0]] += 1
        assert found.certificate.residual < 1e-8
        assert 0.0 <= found.test_error <= 1.0
        assert 0.0 <= found.train_error <= 1.0
        assert found.train_loss >= 0.0
        if found.certificate.status == COLLAPSED:
            assert loss == "hinge"
            assert found.test_error == pytest.approx(min(task.positive_rate, 1 - task.positive_rate))
    # on this stream no problem failed when this was written; more than two would mean that a method was lost
    assert statuses["typed error"] <= 2, statuses
