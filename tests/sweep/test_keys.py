"""Points stored once are found again: by the same version, by the next one, and when a problem has got another word."""

import json
import shutil
from pathlib import Path

import pytest

import onehead
from onehead.aim.targets import PowerLaw, Target
from onehead.aim.task import Learner, Task
from onehead.fields import word, words_of
from onehead.problem import Problem
from onehead.sweep import CALLS, Store
from onehead.sweep.calls.base import Call, Ready, unsaid
from onehead.sweep.version import NUMERICAL

GOLDEN = Path(__file__).parents[1] / "golden"
SWEEPS = (
    ("aim.predict", {"alpha": [0.5, 1.0], "param": ["factorised", "direct"]}, {}, None),
    ("aim.predict", {"samples": [2000]}, {"target": "power-law", "dim": 50, "weight_decay": "1/d"}, None),
    ("aim.train", {"alpha": [0.5]}, {"dim": 12}, 2),
    ("aim.tune", {"alpha": [0.5]}, {}, None),
    ("aim.thresholds", {"noise": [0.0, 0.5]}, {}, None),
    ("sparse.predict", {"model": ["attention", "pooled"]}, {}, None),
    ("sparse.train", {"model": ["pooled"]}, {"dim": 40, "trials": 2}, 1),
)


def test_a_store_of_the_first_version_is_found_point_by_point(tmp_path, store, monkeypatch):
    shutil.copy(GOLDEN / "store-1.1.0.db", store)
    shutil.copytree(GOLDEN / "store-1.1.0.db.arrays", tmp_path / "points.db.arrays")
    with Store.reading(store) as opened:
        before = {row["key"]: row for row in opened.rows()}
        rows = {row[0]: row for row in opened._connection.execute("SELECT key, parameters, results FROM points")}
    monkeypatch.setattr(
        "onehead.sweep.executors.inline.solve_point", lambda *_: pytest.fail("a stored point is solved again")
    )
    monkeypatch.setattr("onehead.sweep.keys.NUMERICAL", "2")  # that of 1.1.0: nothing else may change a key
    found = {}
    for call, axes, fixed, seeds in SWEEPS:
        table = onehead.sweep(call, axes, fixed=fixed, seeds=seeds, store=store)
        assert not table.failed
        found |= {row["key"]: row for row in table}
    # every column: words, numbers, and when and by which version they were found; later words are at their defaults
    later = {"attention": "tied", "mask": "none", "labels": "soft", "kurtosis": 3.0, "leading": "auto"}
    assert found == {key: row | (later if row["call"].startswith("aim") else {}) for key, row in before.items()}
    with Store.reading(store) as opened:
        after = {row[0]: row for row in opened._connection.execute("SELECT key, parameters, results FROM points")}
    assert {key: row[2] for key, row in after.items()} == {key: row[2] for key, row in rows.items()}
    for key, row in after.items():  # words that came later are written down when a sweep asks for a point again
        assert {name: value for name, value in json.loads(row[1]).items() if name not in later} == json.loads(
            rows[key][1]
        )


def test_points_of_an_older_numerical_version_are_kept_and_solved_again(tmp_path, store):
    shutil.copy(GOLDEN / "store-1.1.0.db", store)
    shutil.copytree(GOLDEN / "store-1.1.0.db.arrays", tmp_path / "points.db.arrays")
    with Store.reading(store) as opened:
        before = list(opened._connection.execute("SELECT key, results FROM points"))
    table = onehead.sweep("aim.thresholds", {"noise": [0.0, 0.5]}, store=store)
    assert {row["numerical_version"] for row in table} == {NUMERICAL} != {"2"}
    with Store.reading(store) as opened:
        after = dict(opened._connection.execute("SELECT key, results FROM points").fetchall())
    assert len(after) == len(before) + 2
    assert all(after[key] == results for key, results in before)


class NewLearner(Learner):
    """A learner of a later version."""

    momentum: float = word(0.0, "", "A word that 1.1 did not have.", ge=0.0, since="2.0")


class NewLaw(PowerLaw):
    """A target of a later version, which has its own dimension."""

    kind: str = "new-law"
    dim: int = word(200, "d", "Dimension of a token.", ge=2, since="2.0")


Target.known.pop("new-law")  # it is a word in this file only


def learner_key(learner, target=None):
    """The key of a prediction, made as a call makes it."""
    task = Task() if target is None else Task(target=target)
    parameters = {"target": "mp", **{name: getattr(learner, name) for name in type(learner).model_fields}}
    ready = Ready(
        parameters=parameters, solve=lambda _: pytest.fail("solved"), unsaid=unsaid(task.target, task, learner)
    )
    call = Call(name="aim.predict", words=None, seeded=False, prepare=lambda _: ready)
    return call.key(ready, None)


def test_a_new_word_changes_no_key_at_its_default():
    assert learner_key(NewLearner()) == learner_key(Learner())
    assert learner_key(NewLearner(momentum=0.5)) != learner_key(Learner())
    assert learner_key(NewLearner(weight_decay=0.5)) == learner_key(Learner(weight_decay=0.5)) != learner_key(Learner())


def test_a_word_is_judged_where_it_is_declared():
    # the dimension of a later target is new, that of a power law is as old as its keys
    assert unsaid(NewLaw()) == {"dim"} and unsaid(NewLaw(dim=100)) == unsaid(PowerLaw()) == frozenset()


class OldWords(Problem):
    """Words of a call."""

    old: float = word(1.0, "", "A word of 1.1.", ge=0.0)


class Words(OldWords):
    """Words of the same call in a later version."""

    new: float = word(0.0, "", "A word that came later.", ge=0.0, since="2.0")


def test_a_stored_row_learns_the_words_it_was_solved_with(store, monkeypatch):
    def prepare(words):
        chosen = Words(**words)
        parameters = {"old": chosen.old, "new": chosen.new}
        solve = CALLS["sparse.align"].ready({"strength": 1.0 + chosen.old + chosen.new}).solve
        return Ready(parameters=parameters, solve=solve, unsaid=unsaid(chosen))

    def first(words):
        ready = prepare(words)
        return Ready(parameters={"old": ready.parameters["old"]}, solve=ready.solve)

    monkeypatch.setitem(
        CALLS, "test.words", Call(name="test.words", words=words_of(OldWords), seeded=False, prepare=first)
    )
    before = onehead.sweep("test.words", {"old": [1.0]}, store=store)
    monkeypatch.setitem(
        CALLS, "test.words", Call(name="test.words", words=words_of(Words), seeded=False, prepare=prepare)
    )
    table = onehead.sweep("test.words", {"new": [0.0, 2.0]}, fixed={"old": 1.0}, store=store)
    assert table.column("new").tolist() == [0.0, 2.0]
    assert table[0]["key"] == before[0]["key"] and table[0]["finished_at"] == before[0]["finished_at"]
    assert table[0]["cos_query"] != table[1]["cos_query"]
