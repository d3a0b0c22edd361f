"""Words of a sweep are those of the declarations: nothing is said twice, and a new field needs no change in a call."""

import sys
from importlib import reload

import pytest

from onehead.aim.task import Learner
from onehead.aim.training.results import Method, Variant
from onehead.errors import InvalidArgument
from onehead.fields import word, words_of
from onehead.sparse.task import Protocol, Task
from onehead.sweep import CALLS
from onehead.sweep.settings import Training


def test_every_field_is_a_word():
    train = CALLS["aim.train"].words
    assert set(Learner.model_fields) <= set(train)
    assert set(Method.model_fields) - {"dtype", "memory"} <= set(train)
    assert set(Variant.model_fields) - {"tied"} <= set(train) and {"untied", "float32", "samples"} <= set(train)
    predict = CALLS["sparse.predict"].words
    assert set(Protocol.model_fields) | set(Task.model_fields) - {"positions"} <= set(predict)
    for name in (*Method.model_fields, *Variant.model_fields):
        if name in train:
            own = {**words_of(Method), **words_of(Variant)}[name]
            assert (train[name].default, train[name].bounds, train[name].choices) == (
                own.default,
                own.bounds,
                own.choices,
            )


def test_settings_are_those_of_the_library():
    assert Training(alpha=1.0, dim=5).method == Method() and Training(alpha=1.0, dim=5).variant == Variant()
    asked = Training(alpha=1.0, dim=5, untied=True, float32=True, heads=3, starts=1)
    assert asked.variant == Variant(tied=False, heads=3) and asked.method == Method(dtype="float32", starts=1)
    assert Variant(token_law=[[1.0, 0.0], [0.0, 1.0]]).token_law  # still takes rows in Python
    for words in ({"token_law": [[1.0]]}, {"token_law": "moon"}, {"heads": 65}, {"correlation": 1.0}, {"memory": 1.0}):
        with pytest.raises(InvalidArgument, match=next(iter(words))):
            CALLS["aim.train"].ready({"alpha": 1.0, "dim": 5, **words})


def test_a_call_takes_words_not_objects():
    from onehead.aim.losses import Squared
    from onehead.sparse.losses import LOSSES

    with pytest.raises(InvalidArgument, match="loss must be squared or cross-entropy in a sweep"):
        CALLS["aim.predict"].ready({"alpha": 1.0, "loss": Squared()})
    with pytest.raises(InvalidArgument, match=r"loss must be .* in a sweep"):
        CALLS["sparse.predict"].ready({"loss": LOSSES["hinge"]})


def test_a_new_field_of_a_learner_is_a_word_of_every_call(monkeypatch):
    class Wider(Learner):
        __doc__ = Learner.__doc__
        momentum: float = word(0.0, "", "A word that 1.1 did not have.", ge=0.0, since="2.0")

    old = CALLS["aim.predict"]
    plain, key = old.ready({"alpha": 0.5}), old.key(old.ready({"alpha": 0.5}), None)
    rooms = [sys.modules[name] for name in ("onehead.aim.task", "onehead.aim.words", "onehead.sweep.calls.aim")]
    try:
        with monkeypatch.context() as patch:
            patch.setattr(rooms[0], "Learner", Wider)
            for room in rooms[1:]:
                reload(room)
            (call,) = (one for one in rooms[2].AIM_CALLS if one.name == "aim.predict")
            same, other = call.ready({"alpha": 0.5}), call.ready({"alpha": 0.5, "momentum": 0.5})
            assert same.parameters == {**plain.parameters, "momentum": 0.0}
            assert call.key(same, None) == key != call.key(other, None)
            with pytest.raises(InvalidArgument, match="momentum must be a number >= 0; got -1"):
                call.ready({"alpha": 0.5, "momentum": -1})
    finally:
        for room in rooms[1:]:
            reload(room)
