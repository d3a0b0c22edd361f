"""Help texts, answers, controls and keys agree with the golden files; an intended difference is recorded with
--write.
"""

import json

import pytest
from tests.support import golden

# rounding of other processors and versions of numpy; the tolerance of the solver is 3e-7
RELATIVE_TOLERANCE = 1e-5
# A minimiser stops where the gradient is 1e-3 of what it was, after a number of steps that depends on rounding; spreads
# and differences of runs lose another digit.
TRAINED_TOLERANCE = 1e-3
TRAINED = ("aim train", "aim compare", "sparse train", "sparse compare")


@pytest.mark.parametrize("name", ["help.txt", "knobs.json", "keys.json"])
def test_golden_files_are_up_to_date(name):
    assert golden.text_of(golden.FILES[name]()) == golden.text_of(golden.stored(name))


@pytest.mark.slow
def test_answers_of_every_command():
    new, old = json.loads(golden.text_of(golden.answers())), golden.stored("answers.json")
    assert list(new) == list(old)
    found = []
    for command, answer in new.items():
        close = TRAINED_TOLERANCE if command.startswith(TRAINED) else RELATIVE_TOLERANCE
        found += golden.differences(old[command], answer, close=close, where=command)
    assert found == []


def test_differences_are_found():
    old = {"a": [1.0, "x"], "b": None}
    assert list(golden.differences(old, {"a": [1.0, "x"], "b": None})) == []
    assert list(golden.differences(old, {"a": [1.0 + 1e-4, "y"], "c": 1}, close=1e-5)) == [
        "a[0]: 1.0 became 1.0001",
        "a[1]: 'x' became 'y'",
        "b: gone",
        "c: new",
    ]
