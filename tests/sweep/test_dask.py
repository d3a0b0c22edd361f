"""A real Dask scheduler with two workers on loopback: a worker is killed, the scheduler is killed."""

import signal

import pytest
from tests.support.sweep_cluster import cluster, free_port
from tests.support.sweeps import run_sweep

import onehead
from onehead.errors import InvalidArgument
from onehead.sweep import Store
from onehead.sweep.errors import LostScheduler, WorkersLost
from onehead.sweep.storage.version import NUMERICAL

pytestmark = pytest.mark.slow
POINTS = 100


def kill_after(process, finished):
    """Progress callable that kills a process when ``finished`` points are on disk."""
    steps = []

    def step():
        steps.append(1)
        if len(steps) == finished:
            process.send_signal(signal.SIGKILL)

    return step


def test_a_killed_worker_loses_nothing(store):
    with cluster() as (address, _, workers):
        table = run_sweep(
            "sleep",
            {"x": list(range(POINTS))},
            fixed={"seconds": 0.03},
            store=store,
            on=address,
            progress=kill_after(workers[0], 30),
        )
        assert workers[0].poll() == -signal.SIGKILL
    assert table.column("square").tolist() == [x * x for x in range(POINTS)]
    assert len({row["key"] for row in table}) == POINTS and not table.failed
    print(f"one of two workers killed after 30 points: {len(table)} of {POINTS} rows arrived, 0 duplicated")  # noqa: T201


def test_a_killed_scheduler_keeps_what_is_finished(store):
    arguments = {"axes": {"x": list(range(POINTS))}, "fixed": {"seconds": 0.03}, "store": store}
    acknowledged = []
    with cluster() as (address, scheduler, _):
        kill = kill_after(scheduler, 30)

        def step():
            acknowledged.append(1)
            kill()

        with pytest.raises(LostScheduler, match=r"is gone .* every point counted so far is kept"):
            run_sweep("sleep", **arguments, on=address, progress=step)
    with Store.reading(store) as opened:
        counts, kept = opened.counts(), {row["key"]: row["finished_at"] for row in opened.rows()}
    assert counts.done == len(acknowledged) >= 30 and counts.total == POINTS
    table = run_sweep("sleep", **arguments)
    assert table.column("square").tolist() == [x * x for x in range(POINTS)]
    assert {row["key"]: row["finished_at"] for row in table if row["key"] in kept} == kept
    print(  # noqa: T201
        f"scheduler killed: {len(acknowledged)} acknowledged, {counts.done} kept, {counts.missing} solved afterwards"
    )


def test_an_address_without_a_scheduler_is_refused(monkeypatch):
    monkeypatch.setattr("onehead.sweep.executors.dask.CONNECT_SECONDS", 1.0)
    with pytest.raises(InvalidArgument, match="address must be the address of a running Dask scheduler"):
        onehead.sweep("sparse.align", {"alpha0": [1.0]}, on=f"tcp://127.0.0.1:{free_port()}")


def test_a_worker_with_another_numerical_version_is_refused(monkeypatch):
    monkeypatch.setattr("onehead.sweep.executors.dask.NUMERICAL", "other")
    with (
        cluster(workers=1) as (address, _, _),
        pytest.raises(WorkersLost, match=f"the worker has numerical version {NUMERICAL}, the sweep other: install one"),
    ):
        onehead.sweep("sparse.align", {"alpha0": [1.0]}, on=address)
