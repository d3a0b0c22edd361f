"""Stored points are found again: by the same version, by a later one, and after a problem got a new parameter."""

import json
import shutil
from pathlib import Path

import pytest

import onehead
from onehead.aim.targets import PowerLaw, Target
from onehead.aim.task import Learner, Task
from onehead.fields import parameter, parameters_of
from onehead.problem import Problem
from onehead.sweep import CALLS, Store
from onehead.sweep.registry.base import Call, PreparedCall, omitted_from_key
from onehead.sweep.storage.version import NUMERICAL

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


def added_later(call):
    """Return the parameters that a call has gained since version 1.1, with their defaults."""
    return {declared.flat: declared.default for declared in CALLS[call].parameters.values() if declared.since}


def test_every_point_of_a_store_of_version_1_1_is_found(tmp_path, store, monkeypatch):
    shutil.copy(GOLDEN / "store-1.1.0.db", store)
    shutil.copytree(GOLDEN / "store-1.1.0.db.arrays", tmp_path / "points.db.arrays")
    with Store.reading(store) as opened:
        before = {row["key"]: row for row in opened.rows()}
        rows = {row[0]: row for row in opened._connection.execute("SELECT key, parameters, results FROM points")}
    monkeypatch.setattr(
        "onehead.sweep.executors.inline.solve_point", lambda *_: pytest.fail("a stored point was solved again")
    )
    monkeypatch.setattr("onehead.sweep.storage.keys.NUMERICAL", "2")  # as in 1.1.0; nothing else may change a key
    found = {}
    for call, axes, fixed, seeds in SWEEPS:
        table = onehead.sweep(call, axes, fixed=fixed, seeds=seeds, store=store)
        assert not table.failed
        found |= {row["key"]: row for row in table}
    # all columns are equal; parameters added later are at their defaults
    later = {call: added_later(call) for call, *_ in SWEEPS}
    assert later["aim.predict"]["attention"] == "tied"
    assert found == {key: row | later[row["call"]] for key, row in before.items()}
    with Store.reading(store) as opened:
        after = {row[0]: row for row in opened._connection.execute("SELECT key, parameters, results FROM points")}
    assert {key: row[2] for key, row in after.items()} == {key: row[2] for key, row in rows.items()}
    for key, row in after.items():  # parameters added later are stored when a sweep asks for a point again
        names = later[before[key]["call"]]  # one of them, heads, had another meaning in trainings of 1.1
        now, then = json.loads(row[1]), json.loads(rows[key][1])
        assert {name: now[name] for name in now if name not in names} == {
            name: then[name] for name in then if name not in names
        }


def test_points_of_an_older_numerical_version_are_kept_but_solved_again(tmp_path, store):
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

    momentum: float = parameter(0.0, "", "A parameter that 1.1 did not have.", ge=0.0, since="2.0")


class NewLaw(PowerLaw):
    """A target of a later version, which has its own dimension."""

    kind: str = "new-law"
    dim: int = parameter(200, "d", "Dimension of a token.", ge=2, since="2.0")


Target.known.pop("new-law")  # known in this file only


def learner_key(learner, target=None):
    """Key of a prediction, computed as a call computes it."""
    task = Task() if target is None else Task(target=target)
    parameters = {"target": "mp", **{name: getattr(learner, name) for name in type(learner).model_fields}}
    omitted = omitted_from_key(task.target, task, learner)
    prepared = PreparedCall(parameters=parameters, solve=lambda _: pytest.fail("solved"), omitted_from_key=omitted)
    call = Call(name="aim.predict", parameters=None, seeded=False, build=lambda _: prepared)
    return call.key(prepared, None)


def test_a_new_parameter_at_its_default_changes_no_key():
    assert learner_key(NewLearner()) == learner_key(Learner())
    assert learner_key(NewLearner(momentum=0.5)) != learner_key(Learner())
    assert learner_key(NewLearner(weight_decay=0.5)) == learner_key(Learner(weight_decay=0.5)) != learner_key(Learner())


def test_the_version_of_a_parameter_is_read_from_its_own_declaration():
    # the dimension of the later target is new; that of a power law entered keys from the start
    assert (
        omitted_from_key(NewLaw()) == {"dim"}
        and omitted_from_key(NewLaw(dim=100)) == omitted_from_key(PowerLaw()) == frozenset()
    )


class OldSettings(Problem):
    """Settings of a call in version 1.1."""

    old: float = parameter(1.0, "", "A parameter of 1.1.", ge=0.0)


class NewSettings(OldSettings):
    """Settings of the call in a later version."""

    new: float = parameter(0.0, "", "A parameter added later.", ge=0.0, since="2.0")


def test_a_stored_row_gets_the_defaults_of_parameters_added_later(store, monkeypatch):
    def build(values):
        chosen = NewSettings(**values)
        parameters = {"old": chosen.old, "new": chosen.new}
        solve = CALLS["sparse.align"].prepare({"strength": 1.0 + chosen.old + chosen.new}).solve
        return PreparedCall(parameters=parameters, solve=solve, omitted_from_key=omitted_from_key(chosen))

    def build_old(values):
        prepared = build(values)
        return PreparedCall(parameters={"old": prepared.parameters["old"]}, solve=prepared.solve)

    name = "test.parameters"
    old = Call(name=name, parameters=parameters_of(OldSettings), seeded=False, build=build_old)
    monkeypatch.setitem(CALLS, name, old)
    before = onehead.sweep(name, {"old": [1.0]}, store=store)
    new = Call(name=name, parameters=parameters_of(NewSettings), seeded=False, build=build)
    monkeypatch.setitem(CALLS, name, new)
    table = onehead.sweep(name, {"new": [0.0, 2.0]}, fixed={"old": 1.0}, store=store)
    assert table.column("new").tolist() == [0.0, 2.0]
    assert table[0]["key"] == before[0]["key"] and table[0]["finished_at"] == before[0]["finished_at"]
    assert table[0]["cos_query"] != table[1]["cos_query"]
