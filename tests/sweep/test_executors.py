"""Executors: their registry and settings, workers that outlive a sweep, dead and stopped workers."""

import os
import signal
import threading
from contextlib import suppress
from itertools import islice
from pathlib import Path

import psutil
import pytest
from tests.support.sweeps import run_sweep

import onehead
from onehead.cli.main import run
from onehead.errors import InvalidArgument
from onehead.sweep import Inline, Spec, Store, drive, executor_named
from onehead.sweep.api import executor_for, solved_sweep
from onehead.sweep.errors import PointsMissing
from onehead.sweep.executors import EXECUTORS, ExecutorEntry, Local
from onehead.sweep.settings import NoSettings
from onehead.sweep.spec_file import parse_spec

HERE = str(Path(__file__).parent)


def test_every_executor_is_made_by_its_name_with_its_settings():
    settings = {"workers": 3, "address": "tcp://127.0.0.1:1", "partition": "compute", "cores": 4}
    made = {on: executor_named(on, **settings) for on in EXECUTORS}
    assert {on: type(one).__name__.lower() for on, one in made.items()} == {on: on for on in EXECUTORS}
    assert made["local"].count == 3 and made["slurm"].settings.cores == 4 and made["slurm"].settings.time == "01:00:00"
    assert type(executor_named("tcp://127.0.0.1:1")).__name__ == "Dask"
    with pytest.raises(InvalidArgument, match="on must be inline, local, dask, slurm, or the address"):
        executor_named("moon")
    with pytest.raises(InvalidArgument, match="address must be given with dask"):
        executor_named("dask")
    with pytest.raises(InvalidArgument, match="workers must be an integer >= 1 and <= 1024; got 0"):
        executor_named("local", workers=0)


def test_arguments_override_the_settings_of_the_file():
    text = 'call = "sparse.align"\n[run]\non = "local"\nworkers = 2\n[slurm]\ncores = 8\nmemory = "3GB"\n'
    spec = parse_spec(text)
    assert executor_for(spec).count == 2 and executor_for(spec, workers=1).count == 1
    settings = executor_for(spec, "slurm", cores=2).settings
    assert (settings.cores, settings.memory) == (2, "3GB")
    without_file = Spec(call="sparse.align", axes={})
    assert type(executor_for(without_file)).__name__ == "Inline"
    assert type(executor_for(without_file, address="tcp://127.0.0.1:1")).__name__ == "Dask"
    local = Local(1)
    assert executor_for(spec, local) is local


def test_a_chunk_size_of_zero_is_refused_with_its_line():
    with pytest.raises(InvalidArgument, match="spec, line 3: chunk must be an integer >= 1; got 0"):
        parse_spec('call = "sparse.align"\n[run]\nchunk = 0\n')
    with solved_sweep(parse_spec('call = "sparse.align"\n[run]\nchunk = 2\n[grid]\nalpha0 = [1.0, 2.0, 3.0]\n')) as (
        store,
        number,
    ):
        assert store.counts(number).done == 3


def workers_of(on, call, values):
    """Ids of the processes that solved the points."""
    with solved_sweep(Spec(call=call, axes={"x": values}, own=True), on=on) as (store, number):
        return {row["process"] for row in store.rows(number)}


def process(values, seed):
    return {"process": os.getpid()}


def fatal(values, seed):
    os._exit(3)


def test_workers_outlive_a_sweep_in_a_with_block_and_end_with_it(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    with Local(1) as local:
        first = workers_of(local, "test_executors:process", [1, 2])
        assert len(first) == 1 and os.getpid() not in first
        assert workers_of(local, "test_executors:process", [3]) == first
        assert run_sweep("trivial", {"x": [4]}, on=local).column("square").tolist() == [16]  # another call
        (running,) = local._workers
        assert {running.process.pid} == first
    assert running.process.poll() is not None  # ended with the block
    assert workers_of(local, "test_executors:process", [5]) != first and not local._workers


def test_a_worker_that_dies_between_or_in_sweeps_is_replaced(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    with Local(1) as local:
        first = workers_of(local, "test_executors:process", [1])
        local._workers[0].process.kill()
        local._workers[0].process.wait()
        second = workers_of(local, "test_executors:process", [2])
        assert second and second != first
        table = onehead.sweep("test_executors:fatal", {"x": [1]}, on=local)
        assert "died 3 times while nothing else ran, exit code 3" in table[0]["reason"]
        again = onehead.sweep("test_executors:fatal", {"x": [1]}, on=local)  # deaths are counted sweep by sweep
        assert "died 3 times" in again[0]["reason"]


def test_a_sweep_that_stops_halfway_leaves_no_worker_busy(monkeypatch):
    monkeypatch.syspath_prepend(HERE)

    def stop():
        raise RuntimeError("enough")

    with Local(2) as local:
        with pytest.raises(RuntimeError, match="enough"):
            run_sweep("sleep", {"x": list(range(50))}, fixed={"seconds": 0.05}, on=local, progress=stop)
        # an idle worker may stay, but outcomes of a busy one would reach the next sweep
        assert not any(worker.chunks for worker in local._workers)
        assert len(workers_of(local, "test_executors:process", [1])) == 1


def test_the_parameters_of_a_point_are_checked_once(monkeypatch, tmp_path):
    from onehead.sweep.registry.base import Call

    checked = []
    prepare = Call.prepare
    monkeypatch.setattr(Call, "prepare", lambda call, values: checked.append(values) or prepare(call, values))
    spec = parse_spec('call = "sparse.align"\n[grid]\nalpha0 = [1.0, 2.0, 3.0]\n')
    with solved_sweep(spec, tmp_path / "points.db") as (store, number):
        assert store.counts(number).done == 3
    assert len(checked) == 3


@pytest.mark.parametrize("chunk", [0, -3, 0.5, "x"])
def test_a_chunk_holds_at_least_one_point(chunk):
    spec = Spec(call="sparse.align", axes={"alpha0": [1.0, 2.0]}, run={"chunk": chunk})
    with Store.writing(None) as store, pytest.raises(InvalidArgument, match="chunk must be an integer >= 1"):
        drive(spec, store, Inline())


class EndsEarly:
    """Executor that ends after a part of the points."""

    goal = 1.0

    def run(self, call, points):
        for outcomes in islice(Inline().run(call, points), 1):
            yield outcomes[:2]


def test_a_sweep_that_ends_with_points_missing_raises(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(EXECUTORS, "inline", ExecutorEntry(EndsEarly, NoSettings))
    with pytest.raises(PointsMissing, match="4 of 6 points are missing; run the same sweep again to go on"):
        run_sweep("trivial", {"x": list(range(6))}, store=tmp_path / "s.db")
    (tmp_path / "s.toml").write_text('call = "sparse.align"\n[grid]\nalpha0 = [1.0, 2.0, 3.0]\n')
    with pytest.raises(SystemExit) as ended:
        run(["sweep", "run", str(tmp_path / "s.toml"), "--store", str(tmp_path / "c.db")])
    assert ended.value.code == 1 and "1 of 3 points are missing" in capsys.readouterr().err


def test_a_point_does_not_fail_when_its_workers_are_killed_from_outside(tmp_path):
    """Three workers are killed while they work on the same point, which is then tried alone."""
    done, killed = threading.Event(), []

    def killer():
        while len(killed) < 3 and not done.wait(0.05):
            for child in psutil.Process().children():
                with suppress(psutil.NoSuchProcess):
                    if child.pid not in killed and (tmp_path / f"at-{child.pid}").exists():
                        killed.append(child.pid)
                        child.kill()

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        table = run_sweep("slow_once", {"x": [1]}, fixed={"folder": str(tmp_path)}, on="local", workers=1)
    finally:
        done.set()
        thread.join()
    assert len(killed) == 3 and not table.failed and table[0]["square"] == 1


def test_a_stopped_worker_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr("onehead.sweep.executors.local.MAX_STOPPED_SECONDS", 0.5)
    monkeypatch.setattr("onehead.sweep.executors.local.WATCH_SECONDS", 0.1)
    settings = {"fixed": {"folder": str(tmp_path)}, "on": "local", "workers": 2}
    table = run_sweep("stopped_once", {"x": list(range(20))}, **settings)
    assert len(list(tmp_path.glob("stopped-*"))) == 1
    assert not table.failed and table.column("square").tolist() == [x * x for x in range(20)]


def test_a_point_cut_short_by_ctrl_c_is_not_stored(tmp_path):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run with Ctrl-C ignored
    for call in ("aim.amp", "aim.scaling"):
        with pytest.raises(KeyboardInterrupt):
            run_sweep("half_answer", {"x": [1, 2]}, fixed={"verb": call}, store=tmp_path / "s.db")
        with Store.reading(tmp_path / "s.db") as opened:
            assert opened.counts().finished == 0 and opened.counts().missing == 2
    signal.signal(signal.SIGINT, before)
