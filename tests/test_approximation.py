"""Approximate results warn once per reason, and long computations report their progress."""

import logging
import warnings
from time import sleep

import pytest

from onehead import aim, approximation, sparse
from onehead.errors import ApproximationWarning
from onehead.numerics import progress
from onehead.numerics.parallel import map_chains

# many tokens for the dimension: the theory is approximate, with numbers in its sentence
TASK = aim.Task(aim.Atoms([2.0, *[1.0] * 39]), attention="cross", tokens=16)
LEARNER = aim.Learner(weight_decay=0.1, leading=0)


@pytest.fixture
def recorded(monkeypatch):
    """Warnings of a process that has not warned before."""
    monkeypatch.setattr(approximation, "_stated", set())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def test_an_approximate_result_warns_at_the_line_of_the_caller(recorded):
    point = aim.predict(TASK, LEARNER, 0.5)
    assert [str(one.message).rstrip(".") for one in recorded] == [text.rstrip(".") for text in point.cautions] != []
    assert {one.category for one in recorded} == {ApproximationWarning}
    assert {one.filename for one in recorded} == {__file__}


def test_a_reason_is_stated_once(recorded):
    curve = aim.curve(TASK, LEARNER, [0.4, 0.5, 0.6])
    count = len(recorded)
    assert 0 < count <= len(curve.cautions)
    aim.predict(TASK, LEARNER, 0.7)
    aim.predict(TASK.changed(tokens=17), LEARNER, 0.7)  # the same sentence with another number
    assert len(recorded) == count


def test_a_result_without_approximation_does_not_warn(recorded):
    assert aim.predict(aim.Task(), aim.Learner(), 0.5).cautions == ()
    sparse.predict(sparse.Task(), sparse.Protocol(), model="pooled")
    assert recorded == []


def test_warnings_can_be_turned_into_exceptions(monkeypatch):
    monkeypatch.setattr(approximation, "_stated", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error", ApproximationWarning)
        for _ in range(2):  # every time
            with pytest.raises(ApproximationWarning, match="far fewer tokens than dimensions"):
                aim.predict(TASK, LEARNER, 0.5)


def solve_slowly(item, start):
    sleep(0.02)
    return item, start


def test_long_work_is_logged(monkeypatch, caplog):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.01)
    with caplog.at_level(logging.INFO, logger="onehead"):
        assert map_chains(solve_slowly, [["a", "b"], ["c"]]) == {"a": "a", "b": "b", "c": "c"}
    assert [record.name for record in caplog.records] == ["onehead"] * 3
    assert caplog.messages[0].startswith("points: 1 of 3, about ") and caplog.messages[-1] == "points: 3 of 3, finished"


def test_short_work_is_not_logged(caplog):
    with caplog.at_level(logging.DEBUG, logger="onehead"):
        aim.curve(aim.Task(), aim.Learner(), [0.5, 1.0])
    assert caplog.messages == []


def test_training_logs_every_seed(caplog):
    with caplog.at_level(logging.INFO, logger="onehead"):
        aim.train(aim.Task(), aim.Learner(), dim=8, alpha=1.0, seeds=2)
    assert [message.partition(" finished")[0] for message in caplog.messages] == [
        "training at d = 8: seed 0",
        "training at d = 8: seed 1",
    ]


@pytest.mark.parametrize("package", [aim, sparse])
def test_a_curve_shows_its_progress_on_request(package, capsys):
    problem = (package.Task(), package.Learner() if package is aim else package.Protocol())
    package.curve(*problem, [0.5, 1.0], progress=True)
    shown = capsys.readouterr()
    assert shown.err.endswith("points: 2 of 2, finished\x1b[K\n") and shown.out == ""
    package.curve(*problem, [0.5, 1.0])
    assert capsys.readouterr().err == ""
