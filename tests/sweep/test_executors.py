"""Places to solve in: one registry, workers that outlive a sweep, one way in for library and shell."""

import os
import signal
import threading
from contextlib import suppress
from itertools import islice
from pathlib import Path

import psutil
import pytest
from tests.support.sweeps import swept

import onehead
from onehead.cli.main import run
from onehead.errors import InvalidArgument
from onehead.sweep import Inline, Spec, Store, drive, executor_named
from onehead.sweep.api import executor_for, solved
from onehead.sweep.executors import PLACES, Local, Place
from onehead.sweep.failures import PointsMissing
from onehead.sweep.settings import Nothing
from onehead.sweep.spec_file import parse_spec

HERE = str(Path(__file__).parent)


def test_every_place_is_made_by_its_word_with_what_it_needs():
    asked = {"workers": 3, "address": "tcp://127.0.0.1:1", "partition": "compute", "cores": 4}
    made = {on: executor_named(on, **asked) for on in PLACES}
    assert {on: type(one).__name__.lower() for on, one in made.items()} == {on: on for on in PLACES}
    assert made["local"].count == 3 and made["slurm"].jobs.cores == 4 and made["slurm"].jobs.time == "01:00:00"
    assert type(executor_named("tcp://127.0.0.1:1")).__name__ == "Dask"
    with pytest.raises(InvalidArgument, match="on must be inline, local, dask, slurm, or the address"):
        executor_named("moon")
    with pytest.raises(InvalidArgument, match="address must be given with dask"):
        executor_named("dask")
    with pytest.raises(InvalidArgument, match="workers must be an integer >= 1 and <= 1024; got 0"):
        executor_named("local", workers=0)


def test_what_is_asked_for_comes_before_what_the_file_says():
    text = 'call = "sparse.align"\n[run]\non = "local"\nworkers = 2\n[slurm]\ncores = 8\nmemory = "3GB"\n'
    spec = parse_spec(text)
    assert executor_for(spec).count == 2 and executor_for(spec, workers=1).count == 1
    jobs = executor_for(spec, "slurm", cores=2).jobs
    assert (jobs.cores, jobs.memory) == (2, "3GB")
    bare = Spec(call="sparse.align", axes={})
    assert type(executor_for(bare)).__name__ == "Inline"
    assert type(executor_for(bare, address="tcp://127.0.0.1:1")).__name__ == "Dask"
    own = Local(1)
    assert executor_for(spec, own) is own


def test_a_chunk_without_points_is_refused_with_its_line():
    with pytest.raises(InvalidArgument, match="spec, line 3: chunk must be an integer >= 1; got 0"):
        parse_spec('call = "sparse.align"\n[run]\nchunk = 0\n')
    with solved(parse_spec('call = "sparse.align"\n[run]\nchunk = 2\n[grid]\nalpha0 = [1.0, 2.0, 3.0]\n')) as (
        store,
        number,
    ):
        assert store.counts(number).done == 3


def workers_of(on, call, values):
    """Which processes solved some points."""
    with solved(Spec(call=call, axes={"x": values}, own=True), on=on) as (store, number):
        return {row["process"] for row in store.rows(number)}


def process(words, seed):
    return {"process": os.getpid()}


def fatal(words, seed):
    os._exit(3)


def test_workers_outlive_a_sweep_in_a_with_block_and_no_longer(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    with Local(1) as kept:
        first = workers_of(kept, "test_executors:process", [1, 2])
        assert len(first) == 1 and os.getpid() not in first
        assert workers_of(kept, "test_executors:process", [3]) == first
        assert swept("trivial", {"x": [4]}, on=kept).column("square").tolist() == [16]  # another call
        (running,) = kept._workers
        assert {running.process.pid} == first
    assert running.process.poll() is not None  # ended with the block
    assert workers_of(kept, "test_executors:process", [5]) != first and not kept._workers


def test_a_worker_that_dies_between_or_in_sweeps_is_replaced(monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    with Local(1) as kept:
        first = workers_of(kept, "test_executors:process", [1])
        kept._workers[0].process.kill()
        kept._workers[0].process.wait()
        second = workers_of(kept, "test_executors:process", [2])
        assert second and second != first
        table = onehead.sweep("test_executors:fatal", {"x": [1]}, on=kept)
        assert "died 3 times while nothing else ran, exit code 3" in table[0]["reason"]
        again = onehead.sweep("test_executors:fatal", {"x": [1]}, on=kept)  # deaths are counted sweep by sweep
        assert "died 3 times" in again[0]["reason"]


def test_a_sweep_that_stops_halfway_leaves_no_worker_busy(monkeypatch):
    monkeypatch.syspath_prepend(HERE)

    def stop():
        raise RuntimeError("enough")

    with Local(2) as kept:
        with pytest.raises(RuntimeError, match="enough"):
            swept("sleep", {"x": list(range(50))}, fixed={"seconds": 0.05}, on=kept, progress=stop)
        # their answers would belong to nobody; one that has already said all it was asked may stay
        assert not any(worker.chunks for worker in kept._workers)
        assert len(workers_of(kept, "test_executors:process", [1])) == 1


def test_the_words_of_a_point_are_checked_once(monkeypatch, tmp_path):
    from onehead.sweep.calls.base import Call

    checked = []
    ready = Call.ready
    monkeypatch.setattr(Call, "ready", lambda call, words: checked.append(words) or ready(call, words))
    spec = parse_spec('call = "sparse.align"\n[grid]\nalpha0 = [1.0, 2.0, 3.0]\n')
    with solved(spec, tmp_path / "points.db") as (store, number):
        assert store.counts(number).done == 3
    assert len(checked) == 3


@pytest.mark.parametrize("chunk", [0, -3, 0.5, "x"])
def test_a_chunk_holds_at_least_one_point(chunk):
    spec = Spec(call="sparse.align", axes={"alpha0": [1.0, 2.0]}, run={"chunk": chunk})
    with Store.writing(None) as store, pytest.raises(InvalidArgument, match="chunk must be an integer >= 1"):
        drive(spec, store, Inline())


class Lazy:
    """Solves half of what it is given, and says nothing."""

    goal = 1.0

    def run(self, call, feed):
        for found in islice(Inline().run(call, feed), 1):
            yield found[:2]


def test_a_sweep_that_ends_with_points_missing_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(PLACES, "inline", Place(Lazy, Nothing))
    with pytest.raises(PointsMissing, match="4 of 6 points are missing; run the same sweep again to go on"):
        swept("trivial", {"x": list(range(6))}, store=tmp_path / "s.db")
    (tmp_path / "s.toml").write_text('call = "sparse.align"\n[grid]\nalpha0 = [1.0, 2.0, 3.0]\n')
    with pytest.raises(SystemExit) as ended:
        run(["sweep", "run", str(tmp_path / "s.toml"), "--store", str(tmp_path / "c.db")])
    assert ended.value.code == 1 and "1 of 3 points are missing" in capsys.readouterr().err


def test_an_innocent_point_survives_whoever_kills_workers(tmp_path):
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
        table = swept("slow_once", {"x": [1]}, fixed={"folder": str(tmp_path)}, on="local", workers=1)
    finally:
        done.set()
        thread.join()
    assert len(killed) == 3 and not table.failed and table[0]["square"] == 1


def test_a_stopped_worker_is_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr("onehead.sweep.executors.local.STOPPED", 0.5)
    monkeypatch.setattr("onehead.sweep.executors.local.LOOK", 0.1)
    words = {"fixed": {"folder": str(tmp_path)}, "on": "local", "workers": 2}
    table = swept("stopped_once", {"x": list(range(20))}, **words)
    assert len(list(tmp_path.glob("stopped-*"))) == 1
    assert not table.failed and table.column("square").tolist() == [x * x for x in range(20)]


def test_ctrl_c_within_a_point_that_gives_what_it_has_is_no_answer(tmp_path):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may be started deaf to Ctrl-C
    for call in ("aim.amp", "aim.scaling"):
        with pytest.raises(KeyboardInterrupt):
            swept("half_answer", {"x": [1, 2]}, fixed={"verb": call}, store=tmp_path / "s.db")
        with Store.reading(tmp_path / "s.db") as opened:
            assert opened.counts().finished == 0 and opened.counts().missing == 2
    signal.signal(signal.SIGINT, before)
