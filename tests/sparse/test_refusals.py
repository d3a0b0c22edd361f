"""Wrong arguments of the sparse theory: each is refused in one sentence that begins with its name."""

from functools import partial

import pytest
from tests.support.refusals import refusal

from onehead import sparse
from onehead.sparse import Protocol, Task, compare, finite_size, grow, oracle, predict, train, tune

PREDICT = partial(predict, Task(), Protocol())
TRAIN = partial(train, Task(), Protocol(), dim=20, trials=1)
COMPARE = partial(compare, Task(), Protocol(loss="square"), dims=[20, 30])
MAP = partial(sparse.map, Task(), Protocol())
FIXED_QUERY = Protocol(cos_query=0.5, sharpness=1.0)


@pytest.mark.parametrize(
    ("call", "arguments", "name"),
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
        (PREDICT, {"model": "transformer"}, "model"),
        (PREDICT, {"test_length": 0}, "test_length"),
        (PREDICT, {"test_length": 20, "model": "vectorised"}, "test_length"),
        (PREDICT, {"accuracy": 0.0}, "accuracy"),
        (TRAIN, {"dim": 2}, "dim"),
        (TRAIN, {"trials": 0}, "trials"),
        (TRAIN, {"mode": "magic"}, "mode"),
        (TRAIN, {"mode": "joint", "model": "pooled"}, "model"),
        (TRAIN, {"model": "mean"}, "model"),
        (TRAIN, {"test_length": 5, "model": "vectorised"}, "test_length"),
        (partial(train, Task(), FIXED_QUERY), {"dim": 20, "trials": 1, "mode": "joint"}, "cos_query"),
        (partial(finite_size, Task(), FIXED_QUERY), {"dim": 20}, "cos_query"),
        (partial(finite_size, Task(), Protocol()), {"dim": 20, "trials": 1}, "trials"),
        (COMPARE, {"alphas": []}, "alphas"),
        (COMPARE, {"dims": []}, "trials"),
        (COMPARE, {"trials": [2]}, "trials"),
        (COMPARE, {"dims": [2]}, "dims"),
        (MAP, {"x": ("colour", [1.0]), "y": ("beta", [1.0])}, "x"),
        (MAP, {"x": ("beta", []), "y": ("ridge", [1.0])}, "x"),
        (MAP, {"x": ("beta", [1.0]), "y": ("beta", [2.0])}, "y"),
        (MAP, {"x": ("split", [1.5]), "y": ("beta", [2.0])}, "split"),
        (MAP, {"x": ("ridge", [-1.0]), "y": ("beta", [2.0])}, "ridge"),
        (MAP, {"x": ("alpha", [1.0]), "y": ("alpha0", [2.0])}, "y"),
        (MAP, {"x": ("beta", [1.0]), "y": ("ridge", [0.1]), "of": "test_eror"}, "of"),
        (partial(tune, Task(), FIXED_QUERY), {}, "cos_query"),
        (partial(tune, Task(), Protocol()), {"alpha": 0.0}, "alpha"),
        (partial(tune, Task(), Protocol(eta_q=0.0)), {}, "eta_q"),
        (partial(oracle, Task()), {"activation": "tanh"}, "activation"),
        (partial(oracle, Task(length=2, positions=(1, 2))), {}, "positions"),
        (partial(grow, Task(), [10]), {"growth": "cubic"}, "growth"),
    ],
)
def test_refusals_name_the_argument(call, arguments, name):
    assert refusal(call, **arguments).name == name
