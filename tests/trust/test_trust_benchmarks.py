"""The benchmark harness: what counts as slower, what a budget says, and whether the plain solvers solve the same problem."""

import json
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from benchmarks import __main__ as door
from benchmarks import compare, harness, records
from benchmarks.baselines import duration, exponent, until_ours
from benchmarks.groups import MODULES, USUAL, load
from benchmarks.harness import ROWS, Budget, Clock, Entry, Finding, Missing, Row, judged, measure
from benchmarks.plain import aim as plain_aim
from benchmarks.plain import linear
from benchmarks.plain import sparse as plain_sparse
from benchmarks.plain.spectrum import distances, eigenvalues
from benchmarks.table import markdown

from onehead import aim, sparse


def a_row(what="one", seconds=1.0, unit=0.5, spread=0.05, **more):
    return Row(**{"group": "theory", "what": what, "seconds": seconds, "unit": unit, "spread": spread, **more})


# ---- the clock


def test_the_clock_gives_the_best_repeat_and_the_distance_of_the_middle_one(monkeypatch):
    # a first call that is not counted, then 1.0, 2.0 and 4.0 seconds
    ticks = iter([0, 9, 10, 11, 20, 22, 30, 34])
    monkeypatch.setattr(harness.time, "perf_counter", lambda: float(next(ticks)))
    clock = Clock(3, patience=100.0)
    assert clock(lambda: "answer") == "answer"
    assert clock.seconds == 1.0
    assert clock.spread == pytest.approx(1.0)


def test_a_clock_without_repeats_runs_once_and_knows_no_spread():
    calls = []
    clock = Clock(1)
    clock(lambda: calls.append(1))
    assert len(calls) == 1
    assert clock.spread is None


def test_the_clock_loses_patience():
    calls = []
    Clock(50, patience=0.05)(lambda: (calls.append(1), time.sleep(0.03)))
    assert len(calls) < 6


# ---- rows, budgets, verdicts


@pytest.mark.parametrize(
    ("budget", "verdict"),
    [
        (Budget(2.0), "met"),
        (Budget(1.0), "over by 100 %"),
        (Budget(1.0, "s"), "met"),
        (Budget(0.8, "s"), "over by 25 %"),
        (Budget(0.25, "Adam"), "met"),
        (Budget(0.2, "Adam"), "over by 25 %"),
        (Budget(0.2, "nobody"), "not measured"),
    ],
)
def test_a_verdict_is_taken_from_the_same_run(monkeypatch, budget, verdict):
    monkeypatch.setitem(ROWS, "one", Entry("theory", "one", lambda clock: Finding(""), budget))
    found = judged([a_row(), a_row("Adam", seconds=4.0)])
    assert found[0].verdict == verdict
    assert found[1].verdict == ""


def test_the_budgets_of_the_design_are_all_there():
    load([*USUAL, "figures", "app"])
    budgets = {entry.what: entry.budget for entry in ROWS.values() if entry.budget is not None}
    assert budgets["one point, T = 2, λ = 0.01, α = 0.5"] == Budget(1.0)
    assert budgets["one point, T = 5, λ = 0.01, α = 0.05"] == Budget(10.0)
    assert budgets["sparse task, attention, logistic loss"] == Budget(1.0)
    assert budgets["onehead aim curve --alphas 0.05:2:46"] == Budget(10.0, "s")
    assert budgets["onehead --version"].limit == 15.0
    assert budgets["every theory curve of both papers, from nothing"] == Budget(120.0, "s")
    assert sum(what.startswith("one point, power law") for what in budgets) == 2
    assert sum(budget.limit == 0.2 and budget.of in ROWS for budget in budgets.values()) == 2
    assert any(what.startswith("explorer") and budget == Budget(0.2, "s") for what, budget in budgets.items())
    for budget in budgets.values():
        assert budget.of in ("unit", "s") or budget.of in ROWS


def test_a_row_that_lacks_a_package_gives_one_hint_and_a_row_that_fails_does_not_end_the_run(capsys, monkeypatch):
    monkeypatch.setattr(harness, "unit", lambda: 0.5)

    def lacks(clock):
        raise Missing("pip install it")

    def fails(clock):
        raise ValueError("no")

    def works(clock):
        clock.take(1.0)
        return Finding("exact", 0.0, "a note")

    entries = [Entry("plain", str(k), f, None, 1) for k, f in enumerate((lacks, lacks, fails, works))]
    run = {}
    found = list(measure(entries, run=run))
    assert [row.what for row in found] == ["3"]
    assert found[0].units == 2.0
    assert found[0].accuracy == "exact"
    assert run["failed"] == ["2"]
    said = capsys.readouterr().err.splitlines()
    assert said == ["note: pip install it", "failed: 2: ValueError('no')"]


def test_two_rows_cannot_have_one_name(monkeypatch):
    monkeypatch.setitem(ROWS, "taken", Entry("theory", "taken", lambda clock: Finding("")))
    with pytest.raises(ValueError, match="taken"):
        harness.row("theory", "taken")(lambda clock: Finding(""))


def test_a_fresh_process_reports_its_own_memory_and_not_that_of_its_parent():
    ballast = np.ones(40_000_000)  # 320 MB here must not show there
    out = subprocess.run(
        [sys.executable, "-m", "benchmarks.fresh", "theory", "sparse task, the two gradient steps"],
        check=True,
        capture_output=True,
        text=True,
        cwd=harness.ROOT,
        env=harness.quiet(),
    ).stdout
    assert 0.0 <= json.loads(out)["memory_mb"] < 100.0
    assert ballast.sum() == 40_000_000


def test_a_slow_row_with_a_process_of_its_own_is_run_there_only(monkeypatch):
    finding = {"accuracy": "exact", "error": 0.0, "note": ""}
    told = json.dumps({"memory_mb": 7.0, "seconds": 3.0, "finding": finding})
    monkeypatch.setattr(harness, "shell", lambda *words: f"something else\n{told}\n")
    monkeypatch.setattr(harness, "unit", lambda: 0.5)
    calls = []

    def work(clock):
        calls.append(1)
        clock.take(1.0)
        return Finding("here")

    entries = [Entry("training", str(repeats), work, None, repeats, fresh=True) for repeats in (1, 4)]
    slow, quick = measure(entries)
    assert (slow.seconds, slow.accuracy, slow.memory_mb) == (3.0, "exact", 7.0)
    assert (quick.seconds, quick.accuracy, quick.memory_mb) == (1.0, "here", 7.0)
    assert len(calls) == 1


# ---- records and table


def test_rows_survive_the_file():
    run = {"python": "3", "unit_ms": [50.0, 60.0, 55.0, 70.0]}
    rows = [a_row(run=run, note="a | b", cold=2.0, memory_mb=3.0), a_row("two", spread=None, run={"python": "4"})]
    again = records.from_json(records.to_json(rows))
    assert again[0].run == {"python": "3", "unit_ms": [50.0, 60.0, 70.0]}
    assert [replace(row, run={}) for row in again] == [replace(row, run={}) for row in rows]
    assert records.to_json(again) == records.to_json(records.from_json(records.to_json(again)))


def test_groups_that_were_not_measured_keep_their_numbers():
    old = [a_row("slow", group="app"), a_row("gone"), a_row("one", seconds=9.0)]
    found = records.merged(old, [a_row("one")], ["theory"])
    assert [(row.what, row.seconds) for row in found] == [("one", 1.0), ("slow", 1.0)]


def test_the_table_has_every_row_in_its_group_and_no_empty_column():
    run = {"python": "3.11", "unit_ms": [50.0, 60.0], "threads": 1, "cores": 2}
    rows = [
        a_row("fast | one", budget="1 unit", verdict="over by 100 %", accuracy="1e-5", note="a note", run=run),
        a_row("two", cold=3.0, memory_mb=12.4, run=run),
        a_row("plain one", group="plain", spread=None, run=run),
    ]
    theory, plain = markdown(rows).replace("\u00a0", " ").split("### Against plain solvers")
    assert "| fast \\| one | 1 | 2 ± 5 % | 1 unit: **over by 100 %** | 1e-5; a note |" in theory
    assert "| two | 3 | 12 |" in theory
    assert "memory" not in plain
    assert "budget" not in plain
    assert "| plain one | 1 | 2 |" in plain
    assert "One unit was 50 to 60 ms in this run; 1 of 2 cores; python 3.11." in plain
    for table in [*theory.split("\n\n"), *plain.split("\n\n")]:
        lines = [line.replace("\\|", "") for line in table.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1


def test_the_door_writes_what_was_asked_for(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(door, "measured", lambda entries: [a_row(run={"unit_ms": [50.0]})])
    monkeypatch.setattr(door.signal, "signal", lambda *_: None)
    for name in ("RESULTS", "BASELINE", "PAGE"):
        monkeypatch.setattr(door, name, tmp_path / name)
    door.main(["--only", "theory", "--json", str(tmp_path / "new.json")])
    assert [path.name for path in tmp_path.iterdir()] == ["new.json"]
    (tmp_path / "RESULTS").write_text(records.to_json([a_row("kept", group="app")]))
    assert door.main(["--only", "theory", "--write", "--baseline"]) == 0
    assert [row.what for row in records.read(tmp_path / "RESULTS")] == ["one", "kept"]
    assert [row.what for row in records.read(tmp_path / "BASELINE")] == ["one"]
    assert (tmp_path / "PAGE").read_text() == markdown([a_row(run={"unit_ms": [50.0]}), a_row("kept", group="app")])
    assert "| one |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        door.main(["--only", "nothing"])


def test_an_interrupted_run_shows_its_rows_and_writes_no_page(monkeypatch, tmp_path, capsys):
    def works(clock):
        clock.take(1.0)
        return Finding("exact")

    def stops(clock):
        raise KeyboardInterrupt

    monkeypatch.setattr(harness, "unit", lambda: 0.5)
    monkeypatch.setattr(door.signal, "signal", lambda *_: None)
    monkeypatch.setattr(door, "load", lambda groups: [Entry("theory", f.__name__, f, None, 1) for f in (works, stops)])
    for name in ("RESULTS", "BASELINE", "PAGE"):
        monkeypatch.setattr(door, name, tmp_path / name)
    assert door.main(["--write", "--baseline", "--json", str(tmp_path / "new.json")]) == 130
    assert [row.what for row in records.read(tmp_path / "new.json")] == ["works"]
    assert [path.name for path in tmp_path.iterdir()] == ["new.json"]
    assert "interrupted" in capsys.readouterr().err


def test_every_group_has_rows_and_a_title():
    for group in USUAL:
        assert load([group]), group
    assert set(USUAL) < set(MODULES)


# ---- comparison


@pytest.mark.parametrize(
    ("factor", "spread", "slower", "faster"),
    [
        (1.15, 0.02, False, False),  # below 20 %
        (1.25, 0.02, True, False),
        (1.25, 0.15, False, False),  # within the spread of both runs together
        (1.35, 0.15, True, False),
        (0.8, 0.02, False, True),
        (0.85, 0.02, False, False),
        (1.4, None, False, False),  # measured once: only a factor of two counts
        (2.1, None, True, False),
    ],
)
def test_what_counts_as_slower(factor, spread, slower, faster):
    found = compare.changes([a_row(spread=spread)], [a_row(seconds=factor, spread=spread)])
    assert (found[0].slower, found[0].faster) == (slower, faster)


def test_a_unit_that_drifts_widens_the_band_and_is_mentioned():
    rows = [a_row(drift=0.1)], [a_row(seconds=1.3, drift=0.15)]
    assert not compare.changes(*rows)[0].slower
    assert compare.changes([a_row()], [a_row(seconds=1.3)])[0].slower
    assert compare.busy([a_row(), a_row(unit=0.6)]) == ""
    assert "500 to 1000 ms" in compare.busy([a_row(), a_row(unit=1.0)])


def test_comparison_is_in_units_and_only_of_our_own_rows():
    old = [a_row(), a_row("Adam", ours=False), a_row("gone")]
    new = [a_row(seconds=3.0, unit=1.5), a_row("Adam", seconds=99.0, ours=False), a_row("new")]
    found = compare.changes(old, new)
    assert [change.what for change in found] == ["one"]
    assert found[0].change == 0.0


def test_compare_says_which_and_exits(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(compare, "BASELINE", tmp_path / "baseline.json")
    assert compare.main([]) == 2
    rows = [a_row("one"), a_row("two"), a_row("three")]
    (tmp_path / "baseline.json").write_text(records.to_json(rows))
    assert compare.main([str(tmp_path / "nothing.json")]) == 2
    new = tmp_path / "new.json"
    new.write_text(records.to_json([a_row("one", seconds=2.0), a_row("two", seconds=0.5), a_row("three")]))
    capsys.readouterr()
    assert compare.main([str(new)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "slower:"
    assert said[1].startswith("  one: 2 -> 4 units (+100%")
    assert said[2] == "faster:"
    assert said[3].startswith("  two: ")
    assert said[4] == "1 of 3 rows as before"
    new.write_text(records.to_json(rows))
    assert compare.main([str(new)]) == 0


def test_a_slow_row_gets_a_second_chance(monkeypatch):
    monkeypatch.setitem(ROWS, "one", Entry("theory", "one", lambda clock: Finding("")))
    answers = iter([[a_row(seconds=9.0)], [a_row(seconds=1.0)]])
    monkeypatch.setattr(compare, "measured", lambda entries: next(answers))
    assert [row.seconds for row in compare.fresh([a_row()])] == [1.0]


# ---- the plain solvers answer the same questions


def test_the_plain_prox_is_at_its_minimum():
    v, label = np.array([0.4, -1.0]), np.array([1.0, 0.3])
    found = plain_aim.prox(v, label, 0.7)
    p, y = plain_aim.sigmoid(found), plain_aim.sigmoid(label)
    gradient = np.linalg.inv([[3.0, 1.0], [1.0, 3.0]]) @ (found - v) / 0.7 + 4.0 * (p - y) * p * (1.0 - p)
    assert np.max(np.abs(gradient)) < 1e-5  # BFGS stops at 1e-5


def test_the_plain_spectral_part_agrees_with_ours():
    point = aim.predict(aim.Task(), aim.Learner(weight_decay=0.01), 0.5)
    found = plain_aim.input_side(plain_aim.Point(), point.q_hat, point.m_hat, point.sigma_hat)
    # 1500 equally spaced points: the square-root edges cost about (1/1500)^1.5
    assert np.allclose(found, (point.q, point.m, point.sigma), rtol=2e-3)


def test_the_plain_solver_of_the_head_stays_at_our_solution():
    point = aim.predict(aim.Task(), aim.Learner(weight_decay=0.01), 0.5)
    state = (point.q, point.m, point.sigma)
    new, test = plain_aim.turn(plain_aim.Point(), state, 400, np.random.default_rng(0))
    # one turn on 400 samples: the test error has a standard deviation of about 0.2/sqrt(400), overlaps about 5 %
    assert abs(test - point.test_error) < 0.04
    assert np.allclose(new, state, rtol=0.25)


def test_the_plain_solver_of_the_sparse_task_comes_to_our_answer():
    plan = sparse.Protocol(alpha1=1.5, ridge=1e-2, cos_query=0.9, sharpness=2.0)
    exact = sparse.predict(sparse.Task(), plan).test_error
    answers = plain_sparse.solve(plain_sparse.Stage(), samples=200, turns=10, warm_up=15, rng=np.random.default_rng(0))
    # single turns on 200 samples scatter by about 0.01, and turns are correlated by the damping
    assert abs(np.mean(answers) - exact) < 0.02


def test_sampled_eigenvalues_follow_our_law():
    point = aim.predict(aim.Task(), aim.Learner(weight_decay=0.01), 0.5)
    law = aim.spectrum(point)
    values = eigenvalues(point, 300, np.random.default_rng(0))
    ks, edge = distances(values, law.cdf(values), law.edges[-1][1])
    assert ks < 0.03  # eigenvalues are rigid: about 3/d
    assert edge < 0.4  # d^(-2/3) times a scale of about 4
    assert distances(values, law.cdf(values + 0.5), law.edges[-1][1])[0] > 0.1


@pytest.mark.parametrize("loss", ["logistic", "hinge", "square"])
def test_scikit_learn_and_we_minimise_the_same_objective(loss):
    pytest.importorskip("sklearn")
    problem = linear.Problem(loss, "attention", 80, 30, 1e-2)
    for name, search in linear.SOLVERS[loss].items():
        # liblinear penalises the bias, a little
        allowed = 1e-3 if name in ("liblinear", "LinearSVC") else 1e-4
        tolerance, left = linear.loosest(search, problem)
        assert -1e-6 < left < allowed, name
        assert tolerance in linear.TOLERANCES


def test_without_scikit_learn_there_is_a_hint(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    problem = linear.Problem("logistic", "attention", 40, 10, 1e-2)
    with pytest.raises(Missing, match="onehead\\[bench\\]"):
        linear.SOLVERS["logistic"]["lbfgs"](problem, 1e-4)


def test_extrapolation_and_words():
    assert until_ours(10.0, 1e-3, 1e-5) == pytest.approx(1e5)
    assert exponent([10.0, 100.0, 1000.0], [1.0, 0.1, 0.01]) == pytest.approx(-1.0)
    assert duration(30.0) == "30 s"
    assert duration(300.0) == "5.0 minutes"
    assert duration(1e5) == "28 hours"
    assert duration(1e6) == "12 days"
