"""Ctrl-C stops code inside `record_interrupts`, also when compiled code swallows or replaces its exception."""

import os
import signal
import threading
from contextlib import suppress
from importlib import import_module

import pytest

import onehead
from onehead import aim, sparse
from onehead.numerics.interrupts import raise_if_interrupted, record_interrupts
from onehead.sweep import Store


@pytest.fixture(autouse=True)
def default_handler():
    """Install the default handler: the program that runs the tests may ignore Ctrl-C or handle it itself."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def press():
    """Press Ctrl-C; the exception is raised here."""
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(100_000):  # gives the interpreter time to run the handler
        pass


def swallow():
    """Press Ctrl-C and lose its exception, as compiled code may."""
    with suppress(KeyboardInterrupt):
        press()


def replace():
    """Press Ctrl-C and raise another exception in its place, as compiled code may."""
    try:
        press()
    except KeyboardInterrupt:
        raise ValueError("raised by compiled code") from None


def swallow_and_check():
    swallow()
    raise_if_interrupted()


def test_nothing_happens_without_ctrl_c():
    with record_interrupts():
        raise_if_interrupted()
    with pytest.raises(SystemError), record_interrupts():
        raise SystemError("unrelated")


def test_a_swallowed_interrupt_is_raised_by_the_next_check():
    with pytest.raises(KeyboardInterrupt), record_interrupts():
        swallow_and_check()
    with record_interrupts():
        raise_if_interrupted()  # it is raised once


def test_a_replaced_interrupt_is_raised_as_keyboard_interrupt():
    with pytest.raises(KeyboardInterrupt), record_interrupts():
        replace()


def test_in_nested_blocks_the_inner_one_raises_first():
    with record_interrupts():
        with pytest.raises(KeyboardInterrupt), record_interrupts():
            swallow_and_check()
        raise_if_interrupted()
        with pytest.raises(KeyboardInterrupt), record_interrupts():
            press()
        raise_if_interrupted()


def test_other_handlers_and_other_threads_are_left_alone():
    handled = []
    signal.signal(signal.SIGINT, lambda *_: handled.append(1))
    with record_interrupts():
        press()
        raise_if_interrupted()
    assert handled == [1]
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def work():
        with record_interrupts():
            handled.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handled[-1] is signal.default_int_handler


@pytest.mark.parametrize("trick", [swallow, replace])
def test_curves_keep_the_points_solved_before_an_interrupt(monkeypatch, trick):
    monkeypatch.setenv("ONEHEAD_THREADS", "1")
    for module, solve in (
        (import_module("onehead.aim.verbs.curve"), lambda: aim.curve(aim.Task(), aim.Learner(), [0.5, 1.0, 2.0])),
        (
            import_module("onehead.sparse.verbs.curve"),
            lambda: sparse.curve(sparse.Task(), sparse.Protocol(), [1.0, 2.0, 3.0]),
        ),
    ):
        calls = []
        predict = module.predict

        def interrupted_predict(*args, predict=predict, calls=calls, **keywords):
            calls.append(1)
            if len(calls) == 2:
                trick()
            return predict(*args, **keywords)

        monkeypatch.setattr(module, "predict", interrupted_predict)
        reasons = [failure.reason for failure in solve().failures]
        monkeypatch.undo()
        monkeypatch.setenv("ONEHEAD_THREADS", "1")
        assert len(calls) == 2  # no further point was begun
        assert reasons == ["interrupted before it was solved."] * (2 if trick is replace else 1)


def interrupted(parameters, _seed):
    """Point of a sweep; the third one is interrupted."""
    if parameters["x"] == 2:
        {"swallow": swallow, "replace": replace}[parameters["trick"]]()
    return {"square": parameters["x"] ** 2}


@pytest.mark.parametrize("trick", ["swallow", "replace"])
def test_an_interrupted_sweep_stops_without_failed_points(tmp_path, trick):
    with pytest.raises(KeyboardInterrupt):
        onehead.sweep(
            "tests.numerics.test_interrupts:interrupted",
            {"x": list(range(6))},
            fixed={"trick": trick},
            store=tmp_path / "s.db",
        )
    with Store.reading(tmp_path / "s.db") as store:
        rows = list(store.rows())
    assert [row["square"] for row in rows if row["state"] == "done"] == ([0, 1] if trick == "replace" else [0, 1, 4])
    assert not any(row["state"] == "failed" for row in rows)


def test_a_check_in_another_thread_raises_nothing():
    raised = []

    def work():
        try:
            raise_if_interrupted()
        except KeyboardInterrupt:
            raised.append(1)

    def swallow_and_work():
        swallow()
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        raise_if_interrupted()

    with pytest.raises(KeyboardInterrupt), record_interrupts():
        swallow_and_work()
    assert raised == []
