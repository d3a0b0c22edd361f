"""Help texts, answers, controls and keys agree with the golden files; an intended difference is recorded with
--write.
"""

import json

import pytest
from tests.support import golden

# rounding of other processors and versions of numpy; the tolerance of the solver is 3e-7
RELATIVE_TOLERANCE = 1e-5


@pytest.mark.parametrize("name", ["help.txt", "knobs.json", "keys.json"])
def test_golden_files_are_up_to_date(name):
    assert golden.text_of(golden.FILES[name]()) == golden.text_of(golden.stored(name))


@pytest.mark.slow
def test_answers_of_every_command():
    new = json.loads(golden.text_of(golden.answers()))
    assert list(golden.differences(golden.stored("answers.json"), new, close=RELATIVE_TOLERANCE)) == []


def test_differences_are_found():
    old = {"a": [1.0, "x"], "b": None}
    assert list(golden.differences(old, {"a": [1.0, "x"], "b": None})) == []
    assert list(golden.differences(old, {"a": [1.0 + 1e-4, "y"], "c": 1}, close=1e-5)) == [
        "a[0]: 1.0 became 1.0001",
        "a[1]: 'x' became 'y'",
        "b: gone",
        "c: new",
    ]
