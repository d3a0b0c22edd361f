"""Wrong arguments of the sparse theory: each is refused in one sentence that begins with its name."""

from functools import partial

import pytest
from tests.support.refusals import refusal

from onehead import sparse
from onehead.sparse import Protocol, Task, compare, finite_size, grow, oracle, predict, train, tune

ASKED = partial(predict, Task(), Protocol())
TRAINED = partial(train, Task(), Protocol(), dim=20, trials=1)
COMPARED = partial(compare, Task(), Protocol(loss="square"), dims=[20, 30])
MAPPED = partial(sparse.map, Task(), Protocol())
GIVEN = Protocol(cos_query=0.5, sharpness=1.0)


@pytest.mark.parametrize(
    ("call", "words", "name"),
    [
        (Task, {"length": 0}, "length"),
        (Task, {"length": 2.5}, "length"),
        (Task, {"signal_tokens": 11}, "signal_tokens"),
        (Task, {"signal_tokens": 0}, "signal_tokens"),
        (Task, {"strength": -1}, "strength"),
        (Task, {"strength": float("nan")}, "strength"),
        (Task, {"positive_rate": 0}, "positive_rate"),
        (Task, {"positive_rate": 1}, "positive_rate"),
        (Task, {"positions": (1, 2)}, "positions"),
        (Task, {"positions": (1,) * 9 + (0,)}, "positions"),
        (Task, {"tokens": 3}, "argument of Task"),
        (Protocol, {"alpha0": 0}, "alpha0"),
        (Protocol, {"alpha1": -1}, "alpha1"),
        (Protocol, {"beta": -1}, "beta"),
        (Protocol, {"eta_w": 0}, "eta_w"),
        (Protocol, {"eta_b": -0.1}, "eta_b"),
        (Protocol, {"ridge": -1e-3}, "ridge"),
        (Protocol, {"loss": "cubic"}, "loss"),
        (Protocol, {"cos_query": 1.5, "sharpness": 1.0}, "cos_query"),
        (Protocol, {"cos_query": 0.5}, "sharpness"),
        (Protocol, {"sharpness": 0.5}, "cos_query"),
        (ASKED, {"model": "transformer"}, "model"),
        (ASKED, {"test_length": 0}, "test_length"),
        (ASKED, {"test_length": 20, "model": "vectorised"}, "test_length"),
        (ASKED, {"accuracy": 0.0}, "accuracy"),
        (TRAINED, {"dim": 2}, "dim"),
        (TRAINED, {"trials": 0}, "trials"),
        (TRAINED, {"mode": "magic"}, "mode"),
        (TRAINED, {"mode": "joint", "model": "pooled"}, "model"),
        (TRAINED, {"model": "mean"}, "model"),
        (TRAINED, {"test_length": 5, "model": "vectorised"}, "test_length"),
        (partial(train, Task(), GIVEN), {"dim": 20, "trials": 1, "mode": "joint"}, "cos_query"),
        (partial(finite_size, Task(), GIVEN), {"dim": 20}, "cos_query"),
        (partial(finite_size, Task(), Protocol()), {"dim": 20, "trials": 1}, "trials"),
        (COMPARED, {"alphas": []}, "alphas"),
        (COMPARED, {"dims": []}, "trials"),
        (COMPARED, {"trials": [2]}, "trials"),
        (COMPARED, {"dims": [2]}, "dims"),
        (MAPPED, {"x": ("colour", [1.0]), "y": ("beta", [1.0])}, "x"),
        (MAPPED, {"x": ("beta", []), "y": ("ridge", [1.0])}, "x"),
        (MAPPED, {"x": ("beta", [1.0]), "y": ("beta", [2.0])}, "y"),
        (MAPPED, {"x": ("split", [1.5]), "y": ("beta", [2.0])}, "split"),
        (MAPPED, {"x": ("ridge", [-1.0]), "y": ("beta", [2.0])}, "ridge"),
        (MAPPED, {"x": ("alpha", [1.0]), "y": ("alpha0", [2.0])}, "y"),
        (MAPPED, {"x": ("beta", [1.0]), "y": ("ridge", [0.1]), "of": "test_eror"}, "of"),
        (partial(tune, Task(), GIVEN), {}, "cos_query"),
        (partial(tune, Task(), Protocol()), {"alpha": 0.0}, "alpha"),
        (partial(tune, Task(), Protocol(eta_q=0.0)), {}, "eta_q"),
        (partial(oracle, Task()), {"activation": "tanh"}, "activation"),
        (partial(oracle, Task(length=2, positions=(1, 2))), {}, "positions"),
        (partial(grow, Task(), [10]), {"growth": "cubic"}, "growth"),
    ],
)
def test_a_wrong_argument_is_named(call, words, name):
    assert refusal(call, **words).name == name
