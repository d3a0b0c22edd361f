"""Parameters of a sweep are those of the declarations; a new field needs no change in a call."""

import sys
from importlib import reload

import pytest

from onehead.aim.task import Learner
from onehead.aim.training.results import Method, Variant
from onehead.errors import InvalidArgument
from onehead.fields import parameter, parameters_of
from onehead.sparse.task import Protocol, Task
from onehead.sweep import CALLS
from onehead.sweep.settings import Training


def test_every_field_is_a_parameter_of_a_call():
    train = CALLS["aim.train"].parameters
    assert set(Learner.model_fields) <= set(train)
    assert set(Method.model_fields) - {"dtype", "memory"} <= set(train)
    assert set(Variant.model_fields) - {"tied"} <= set(train)
    assert {"untied", "float32", "samples", "averaged_heads"} <= set(train)
    predict = CALLS["sparse.predict"].parameters
    assert set(Protocol.model_fields) | set(Task.model_fields) - {"positions"} <= set(predict)
    for name in (*Method.model_fields, *Variant.model_fields):
        if name in train and name != "heads":  # heads of the task; those of the learner are averaged_heads
            own = {**parameters_of(Method), **parameters_of(Variant)}[name]
            assert (train[name].default, train[name].bounds, train[name].choices) == (
                own.default,
                own.bounds,
                own.choices,
            )


def test_settings_of_training_are_those_of_the_library():
    assert Training(alpha=1.0, dim=5).method == Method() and Training(alpha=1.0, dim=5).variant == Variant()
    changed = Training(alpha=1.0, dim=5, untied=True, float32=True, averaged_heads=3, starts=1)
    assert changed.variant == Variant(tied=False, heads=3) and changed.method == Method(dtype="float32", starts=1)
    assert Variant(token_law=[[1.0, 0.0], [0.0, 1.0]]).token_law  # an array of tokens is allowed in Python only
    for values in (
        {"token_law": [[1.0]]},
        {"token_law": "moon"},
        {"averaged_heads": 65},
        {"correlation": 1.0},
        {"memory": 1.0},
    ):
        with pytest.raises(InvalidArgument, match=next(iter(values))):
            CALLS["aim.train"].prepare({"alpha": 1.0, "dim": 5, **values})


def test_a_call_takes_names_of_losses_not_objects():
    from onehead.aim.losses import Squared
    from onehead.sparse.losses import LOSSES

    with pytest.raises(InvalidArgument, match="loss must be squared or cross-entropy in a sweep"):
        CALLS["aim.predict"].prepare({"alpha": 1.0, "loss": Squared()})
    with pytest.raises(InvalidArgument, match=r"loss must be .* in a sweep"):
        CALLS["sparse.predict"].prepare({"loss": LOSSES["hinge"]})


def test_a_new_field_of_a_learner_is_a_parameter_of_every_call(monkeypatch):
    class Wider(Learner):
        __doc__ = Learner.__doc__
        momentum: float = parameter(0.0, "", "A parameter that 1.1 did not have.", ge=0.0, since="2.0")

    old = CALLS["aim.predict"]
    plain, key = old.prepare({"alpha": 0.5}), old.key(old.prepare({"alpha": 0.5}), None)
    modules = [
        sys.modules[name] for name in ("onehead.aim.task", "onehead.aim.flat_parameters", "onehead.sweep.registry.aim")
    ]
    try:
        with monkeypatch.context() as patch:
            patch.setattr(modules[0], "Learner", Wider)
            for module in modules[1:]:
                reload(module)
            (call,) = (one for one in modules[2].AIM_CALLS if one.name == "aim.predict")
            same, other = call.prepare({"alpha": 0.5}), call.prepare({"alpha": 0.5, "momentum": 0.5})
            assert same.parameters == {**plain.parameters, "momentum": 0.0}
            assert call.key(same, None) == key != call.key(other, None)
            with pytest.raises(InvalidArgument, match="momentum must be a number >= 0; got -1"):
                call.prepare({"alpha": 0.5, "momentum": -1})
    finally:
        for module in modules[1:]:
            reload(module)


def test_a_mask_of_ones_own_is_swept_as_text():
    fixed = {"attention": "self", "alpha": 1.0}
    own = CALLS["aim.predict"].prepare({**fixed, "mask": "100/110/011"})
    named = CALLS["aim.predict"].prepare({**fixed, "mask": "100/110/111"})
    assert (own.parameters["mask"], own.parameters["tokens"]) == ("100/110/011", 3)
    assert (named.parameters["mask"], named.parameters["tokens"]) == ("causal", 3)
    with pytest.raises(InvalidArgument, match="mask must be a square matrix"):
        CALLS["aim.predict"].prepare({**fixed, "mask": "100/110"})
    with pytest.raises(InvalidArgument, match="left out, or 3"):
        CALLS["aim.predict"].prepare({**fixed, "mask": "100/110/011", "tokens": 4})
