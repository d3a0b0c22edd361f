"""Running sweeps: rows, resuming, retrying, seeds, chunks and tables."""

import json
import math
import time

import numpy as np
import pytest
from tests.support.sweeps import run_sweep

import onehead
from onehead.errors import InvalidArgument
from onehead.sweep import CALLS, Spec, Store, drive, executor_named
from onehead.sweep.errors import PointFailed


def test_a_row_holds_the_numbers_of_the_call():
    from onehead.aim import Learner, MarchenkoPastur, Task, predict, spectrum

    table = onehead.sweep("aim.spectrum", {"alpha": [0.5]}, fixed={"kappa0": 0.4, "noise": 0.2, "weight_decay": 0.02})
    point = predict(Task(target=MarchenkoPastur(kappa0=0.4), noise=0.2), Learner(weight_decay=0.02), 0.5)
    law = spectrum(point)
    row = table[0]
    assert row["rank"] == law.rank and row["test_error"] == point.test_error
    assert row["kind"] == "claim" and row["status"] == "converged" and row["residual"] == point.certificate.residual
    assert np.array_equal(table.arrays(0)["density"], law.density_values)
    assert row["version"] == onehead.__version__ and row["numerical_version"] == onehead.sweep.NUMERICAL


def test_samples_are_converted_to_alpha_for_a_power_law_target():
    table = onehead.sweep(
        "aim.predict",
        {"samples": [400, 900]},
        fixed={"target": "power-law", "gamma": 0.75, "dim": 40, "weight_decay": "1/d"},
    )
    assert table.column("samples").tolist() == [400, 900]
    assert table.column("alpha").tolist() == [0.25, 0.5625]
    assert table.column("weight_decay").tolist() == [1 / 40] * 2


def test_a_parameter_that_is_also_a_result_has_its_own_column():
    for call, name in (("aim.tune", "weight_decay"), ("sparse.tune", "ridge")):
        columns = CALLS[call].columns({name: 0.3, "noise": 0.5})
        assert columns == {f"given_{name}": 0.3, "noise": 0.5}
    assert CALLS["aim.predict"].columns({"weight_decay": 0.3}) == {"weight_decay": 0.3}


def test_message_passing_keeps_its_iterations():
    table = onehead.sweep("aim.amp", {"dim": [30]}, fixed={"alpha": 1.0, "iterations": 12}, seeds=[4])
    arrays = table.arrays(0)
    assert arrays["q"][-1] == table[0]["q"] and len(arrays["q_theory"]) == table[0]["steps"]


def test_the_best_possible_learner_of_sparse_tokens():
    from onehead.sparse import Task, amp, bayes

    best = onehead.sweep("sparse.bayes", {"alpha": [0.02, 0.1]}, fixed={"length": 300, "strength": 8.0})
    found = [bayes(Task(length=300, strength=8.0), alpha) for alpha in (0.02, 0.1)]
    assert [row["overlap"] for row in best] == [one.overlap for one in found]
    assert [row["hard"] for row in best] == [True, False]
    size = {"dim": 40, "trials": 2, "iterations": 5}
    runs = onehead.sweep("sparse.amp", {"method": ["amp", "gibbs"]}, fixed={"alpha": 1.0, **size}, seeds=[3])
    assert runs[0]["overlap"] == amp(Task(), 1.0, seed=runs[0]["seed"], **size).overlap
    arrays = runs.arrays(0)
    assert len(arrays["overlap"]) == runs[0]["steps"] == 5
    assert arrays["overlap"][-1] == pytest.approx(runs[0]["overlap"])


def test_seeds_and_repeats_use_fresh_random_numbers():
    table = run_sweep("draw", {"x": [1, 2]}, seeds=[0, 1], repeats=3)
    assert len(table) == 12
    assert [row["seed_used"] for row in table if row["repeat"] == 0] == [0, 1, 0, 1]
    assert len({row["seed_used"] for row in table}) == 6  # two seeds, three repeats, the same for every x
    again = run_sweep("draw", {"x": [1, 2]}, seeds=[0, 1], repeats=3)
    assert [row["number"] for row in again] == [row["number"] for row in table]


def test_done_points_are_never_solved_again(store):
    first = run_sweep("trivial", {"x": [1, 2, 3]}, store=store)
    steps = []
    more = run_sweep("trivial", {"x": [0, 1, 2, 3, 4]}, store=store, progress=lambda: steps.append(1))
    assert len(steps) == 2
    assert more.column("square").tolist() == [0, 1, 4, 9, 16]
    kept = {row["key"]: row["finished_at"] for row in first}
    assert {row["key"]: row["finished_at"] for row in more if row["key"] in kept} == kept
    less = run_sweep("trivial", {"x": [4, 1]}, store=store)
    assert less.column("square").tolist() == [16, 1]  # in the order asked for
    with Store.reading(store) as opened:
        assert opened.stored() == 5 and opened.counts().total == 2


def test_a_point_asked_for_twice_is_refused():
    """Otherwise the table would have fewer rows than asked for."""
    for axes in ({"x": [2, 2, 3]}, {("x", "name"): [(2, "a"), (3, "a"), (2, "a")]}):
        with pytest.raises(InvalidArgument, match="must be different values; seeds and repeats"):
            run_sweep("trivial", axes)
    assert len(run_sweep("trivial", {("x", "name"): [(2, "a"), (2, "b")]})) == 2


@pytest.mark.parametrize("on", ["inline", "local"])
def test_failed_points_are_rows_with_a_reason(on):
    table = run_sweep("broken", {"x": list(range(9))}, on=on, workers=2)
    assert len(table) == 9 and len(table.failed) == 6
    reasons = [row["reason"] for row in table]
    assert reasons[0] == "it ran away." and reasons[1] == "ZeroDivisionError: division by zero" and reasons[2] is None
    assert table[0]["residual"] == 0.25 and table[0]["state"] == "failed"
    assert math.isnan(table.column("ratio")[0]) and table.column("ratio")[2] == 1.0


def test_retry_solves_failed_points_again(tmp_path, store):
    cure = tmp_path / "cure"
    settings = {"fixed": {"cure": str(cure)}, "store": store}
    assert len(run_sweep("cured", {"x": [1, 2]}, **settings).failed) == 2
    cure.touch()
    assert len(run_sweep("cured", {"x": [1, 2]}, **settings).failed) == 2
    table = run_sweep("cured", {"x": [1, 2]}, retry=True, **settings)
    assert not table.failed and table.column("square").tolist() == [1, 4]
    assert [row["reason"] for row in table] == [None, None]


@pytest.mark.parametrize("on", ["inline", "local"])
def test_a_sweep_can_stop_at_the_first_failure(on, store):
    with pytest.raises(PointFailed, match="stopped at the first failed point: ZeroDivisionError"):
        run_sweep("broken", {"x": [2, 5, 1, *range(8, 3000, 3)]}, store=store, on_error="stop", on=on)
    with Store.reading(store) as opened:
        counts = opened.counts()
    assert counts.failed == 1 and counts.missing > 0


def test_ctrl_c_keeps_finished_points_that_are_not_written_yet(store):
    with pytest.raises(KeyboardInterrupt):
        run_sweep("interrupted", {"x": list(range(9))}, store=store)
    with Store.reading(store) as opened:
        assert opened.counts().done == 5  # solved within a millisecond, before any was written


def test_equal_arrays_are_stored_once(tmp_path, store):
    table = run_sweep("heavy", {"size": [100], "copy": [1, 2]}, seeds=[0], store=store)
    files = list((tmp_path / "points.db.arrays").iterdir())
    assert [file.suffix for file in files] == [".npz"]
    assert table[0]["arrays"] == table[1]["arrays"] == f"points.db.arrays/{files[0].name}"
    assert np.array_equal(table.arrays(0)["table"], np.random.default_rng(0).standard_normal(100))


def test_chunks_follow_the_time_points_take():
    from onehead.sweep.executors.chunking import PointQueue
    from onehead.sweep.solve import Outcome
    from onehead.sweep.storage.keys import Point

    def sizes(duration, total=20_000):
        queue = PointQueue((Point(str(i), {}, 0, 0) for i in range(total)), total, goal=0.2)
        found = []
        while chunk := queue.take(workers=2):
            found.append(len(chunk))
            queue.record_durations([Outcome("", None, {}, None, None, None, None, duration)] * len(chunk))
        assert sum(found) == total
        return found

    assert max(sizes(1e-5)) == 500 and sizes(1e-5)[0] == 1
    assert max(sizes(0.02, 1000)) == 10
    assert set(sizes(0.3, 50)) == {1}
    assert sizes(1e-5)[-1] == 1  # the last points are divided among the workers


def test_a_table_is_shown_as_html_and_converted_to_pandas(tmp_path):
    table = run_sweep("trivial", {"x": list(range(30))}, fixed={"name": "<b>"})
    html = table._repr_html_()
    assert html.count("<tr>") == 12 and "square" in html and "and 20 more" in html
    assert repr(table) == "Table(tests.support.sweep_calls:trivial: 30 rows, 0 failed)"
    frame = table.to_frame()
    assert list(frame["square"]) == [x * x for x in range(30)] and list(frame.columns) == table.columns
    with pytest.raises(KeyError, match="'nothing' is not a column"):
        table.column("nothing")
    assert json.dumps(list(table))


def test_overhead_of_trivial_points(store):
    """Less than 2 ms per point on two local workers, start-up included; benchmarks/sweep.py has a larger run."""
    points = 4000
    clock = time.perf_counter()
    table = run_sweep("trivial", {"x": list(range(points))}, store=store, on="local", workers=2)
    each = 1e3 * (time.perf_counter() - clock) / points
    print(f"{each:.2f} ms a point, {1e3 / each:.0f} rows/s on two local workers")  # noqa: T201
    assert len(table) == points and each < 2.0


def test_drive_runs_a_spec_with_an_executor():
    spec = Spec(call="sparse.align", axes={"alpha0": [1.0, 2.0]})
    with Store.writing(None) as store:
        number = drive(spec, store, executor_named("inline"))
        assert [row["alpha0"] for row in store.rows(number)] == [1.0, 2.0]
        assert store.counts(number).done == 2
