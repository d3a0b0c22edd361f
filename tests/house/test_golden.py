"""What people and programs see of onehead is what the golden files say; a difference is meant, and then they are made anew."""

import json

import pytest
from tests.support import golden

# other processors and other versions of numpy round differently; the solver's own tolerance is 3e-7
CLOSE = 1e-5


@pytest.mark.parametrize("name", ["help.txt", "knobs.json", "keys.json"])
def test_what_is_written_down_is_what_is_there(name):
    assert golden.text_of(golden.FILES[name]()) == golden.text_of(golden.stored(name))


@pytest.mark.slow
def test_the_answer_of_every_command():
    new = json.loads(golden.text_of(golden.answers()))
    assert list(golden.differences(golden.stored("answers.json"), new, close=CLOSE)) == []


def test_a_difference_is_found():
    old = {"a": [1.0, "x"], "b": None}
    assert list(golden.differences(old, {"a": [1.0, "x"], "b": None})) == []
    assert list(golden.differences(old, {"a": [1.0 + 1e-4, "y"], "c": 1}, close=1e-5)) == [
        "a[0]: 1.0 became 1.0001",
        "a[1]: 'x' became 'y'",
        "b: gone",
        "c: new",
    ]
