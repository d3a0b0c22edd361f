"""Curves as users handle them: slices, columns, statuses; and seeds of random numbers."""

import numpy as np
import pytest

from onehead import aim, sparse
from onehead.errors import InvalidArgument


def test_a_slice_of_a_curve_is_a_curve():
    curve = aim.curve(aim.Task(), aim.Learner(), [0.5, 1.0, 2.0], bayes=True)
    part = curve[1:]
    assert type(part) is aim.Curve and len(part) == 2
    assert part.test_error.tolist() == curve.test_error.tolist()[1:]
    assert part.bayes_test_error.tolist() == curve.bayes_test_error.tolist()[1:]
    assert (part.status, part.task) == (curve.status[1:], curve.task)
    assert [row["alpha"] for row in curve[::-1].to_rows()] == [2.0, 1.0, 0.5]
    short = sparse.curve(sparse.Task(), sparse.Protocol(), [1.0, 2.0], model="pooled", bayes=True)[:1]
    assert short.alpha.tolist() == [1.0] and len(short.bayes_test_error) == 1


def test_the_status_of_a_curve_includes_failed_points(monkeypatch):
    monkeypatch.setenv("ONEHEAD_THREADS", "1")  # else both points may be solved before the first is counted

    def stop():
        raise KeyboardInterrupt

    curve = aim.curve(aim.Task(), aim.Learner(), [0.5, 1.0], progress=stop)
    assert curve.status[1] == "converged" and curve.status[0].startswith("failed: interrupted")
    with pytest.raises(AttributeError, match="interrupted before it was solved"):
        _ = curve[0].test_error


def test_seeds_are_integers_or_generators():
    def trained(seed):
        run = aim.train(aim.Task(), aim.Learner(), dim=8, alpha=1.0, seeds=1, seed=seed)
        return run.test_error

    rng = np.random.default_rng(3)
    first, second = trained(rng), trained(rng)
    assert first != second
    assert trained(np.random.default_rng(3)) == first
    plan = sparse.Protocol(loss="square", ridge=0.1)
    assert sparse.train(sparse.Task(), plan, dim=20, trials=1, seed=np.random.default_rng(0)).test_error > 0.0
    with pytest.raises(InvalidArgument, match=r"seed must be an integer >= 0 or a numpy.random.Generator; got 1.5"):
        trained(1.5)
    with pytest.raises(InvalidArgument, match="seed must be an integer >= 0; got -1"):
        trained(-1)
