"""Ctrl-C reaches whoever promised to listen, also when compiled code swallows its exception or makes another of it."""

import os
import signal
import threading
from contextlib import suppress
from importlib import import_module

import pytest

import onehead
from onehead import aim, sparse
from onehead.numerics.interrupts import check, heard
from onehead.sweep import Store


@pytest.fixture(autouse=True)
def listening():
    """Tests may be started deaf to Ctrl-C, or by a program with a handler of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def press():
    """Ctrl-C, whose exception is raised here at once."""
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(100_000):  # a moment in which the interpreter runs the handler
        pass


def swallow():
    """What compiled code may do to it."""
    with suppress(KeyboardInterrupt):
        press()


def disguise():
    try:
        press()
    except KeyboardInterrupt:
        raise ValueError("what compiled code made of it") from None


def swallow_and_check():
    swallow()
    check()


def test_nothing_happens_without_ctrl_c():
    with heard():
        check()
    with pytest.raises(SystemError), heard():
        raise SystemError("our own")


def test_a_swallowed_one_is_found_by_the_next_check():
    with pytest.raises(KeyboardInterrupt), heard():
        swallow_and_check()
    with heard():
        check()  # it is told once


def test_one_in_disguise_gets_its_name_back():
    with pytest.raises(KeyboardInterrupt), heard():
        disguise()


def test_blocks_may_be_nested_and_the_inner_one_hears_first():
    with heard():
        with pytest.raises(KeyboardInterrupt), heard():
            swallow_and_check()
        check()
        with pytest.raises(KeyboardInterrupt), heard():
            press()
        check()


def test_other_handlers_and_other_threads_are_left_alone():
    seen = []
    signal.signal(signal.SIGINT, lambda *_: seen.append(1))
    with heard():
        press()
        check()
    assert seen == [1]
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def work():
        with heard():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen[-1] is signal.default_int_handler


@pytest.mark.parametrize("trick", [swallow, disguise])
def test_curves_keep_what_is_solved(monkeypatch, trick):
    monkeypatch.setenv("ONEHEAD_THREADS", "1")
    for room, found in (
        (import_module("onehead.aim.verbs.curve"), lambda: aim.curve(aim.Task(), aim.Learner(), [0.5, 1.0, 2.0])),
        (
            import_module("onehead.sparse.verbs.curve"),
            lambda: sparse.curve(sparse.Task(), sparse.Protocol(), [1.0, 2.0, 3.0]),
        ),
    ):
        calls = []
        real = room.predict

        def sometimes(*args, real=real, calls=calls, **words):
            calls.append(1)
            if len(calls) == 2:
                trick()
            return real(*args, **words)

        monkeypatch.setattr(room, "predict", sometimes)
        lost = [failure.reason for failure in found().failures]
        monkeypatch.undo()
        monkeypatch.setenv("ONEHEAD_THREADS", "1")
        assert len(calls) == 2  # nothing was begun after it
        assert lost == ["interrupted before it was solved."] * (2 if trick is disguise else 1)


def interrupted(words, _seed):
    """A point of a sweep, the third of which is interrupted."""
    if words["x"] == 2:
        {"swallow": swallow, "disguise": disguise}[words["trick"]]()
    return {"square": words["x"] ** 2}


@pytest.mark.parametrize("trick", ["swallow", "disguise"])
def test_a_sweep_stops_and_no_point_is_called_failed(tmp_path, trick):
    with pytest.raises(KeyboardInterrupt):
        onehead.sweep(
            "tests.numerics.test_interrupts:interrupted",
            {"x": list(range(6))},
            fixed={"trick": trick},
            store=tmp_path / "s.db",
        )
    with Store.reading(tmp_path / "s.db") as store:
        rows = list(store.rows())
    assert [row["square"] for row in rows if row["state"] == "done"] == ([0, 1] if trick == "disguise" else [0, 1, 4])
    assert not any(row["state"] == "failed" for row in rows)


def test_a_check_in_another_thread_raises_nothing():
    raised = []

    def work():
        try:
            check()
        except KeyboardInterrupt:
            raised.append(1)

    def swallow_and_work():
        swallow()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        check()

    with pytest.raises(KeyboardInterrupt), heard():
        swallow_and_work()
    assert raised == []
