"""The migration page: old names warn and work, every key is in an answer, every number is the stored one."""

import ast
import re
import warnings
from functools import cache
from pathlib import Path

import pytest
from tests.support import golden

import onehead
from onehead import aim, plot, sparse, sweep, weights
from onehead.sparse.training.compare import Comparison

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
PLAN = sparse.Protocol(loss="square", ridge=0.1)


def table(heading):
    """The rows of the first table below a heading, cell by cell, without the two rows of the head."""
    section = re.search(rf"^##+ {heading}\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]
    rows = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)[0].splitlines()
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


def codes(cell):
    return re.findall(r"`([^`]+)`", cell)


@cache
def found_map():
    return sparse.map(sparse.Task(length=3), PLAN, x=("ridge", [0.1]), y=("alpha1", [2.0]))


@cache
def compared():
    return sparse.compare(sparse.Task(length=3), PLAN, dims=[60], trials=2)


def deviation(name):
    return lambda: getattr(compared(), f"{name}_deviation"), lambda: compared().to_rows()[0][f"{name}_z"]


def axes_of(word):
    ax = plot.learning_curve(aim.curve(aim.Task(), aim.Learner(), [0.5]))
    return plot.learning_curve(aim.curve(aim.Task(), aim.Learner(), [1.0]), **{word: ax}).get_ylabel()


# old form on the page -> what it does, and what the new one does; both must be equal
FORMS = {
    "aim.Channel": (lambda: aim.Channel, lambda: aim.Loss),
    "sparse.landscape": (lambda: sparse.landscape, lambda: sparse.map),
    "sparse.Landscape": (lambda: sparse.Landscape, lambda: sparse.SparseMap),
    "Landscape.rows()": (lambda: found_map().rows(), lambda: found_map().to_rows()),
    "Landscape.spots": (lambda: found_map().spots, lambda: found_map().cells),
    "plot.landscape": (lambda: plot.landscape, lambda: plot.heat_map),
    "plot.learning_curve(curve, axes=...)": (lambda: axes_of("axes"), lambda: axes_of("ax")),
    "sparse.compare(task, plan, dim=60)": (
        # a seed of 1.x was that of its one dimension
        lambda: sparse.compare(sparse.Task(length=3), PLAN, dim=60, trials=2, seed=60).to_rows(),
        lambda: compared().to_rows(),
    ),
    "Comparison.measurement": (lambda: compared().measurement, lambda: compared().points[0].runs[-1]),
    "Comparison.prediction": (lambda: compared().prediction, lambda: compared().points[0].prediction),
    **{f"Comparison.{name}_deviation": deviation(name) for name in ("test_error", "train_loss", "cos_query")},
}
# the same for names of 2.x
FORMS_OF_2 = {
    "weights.WORDS": (lambda: weights.WORDS, lambda: weights.VERDICTS),
    "weights.Course": (lambda: weights.Course, lambda: weights.Trajectory),
    "plot.course": (lambda: plot.course, lambda: plot.trajectory),
    "Tuned.beside": (lambda: all(one in flat(tuned().explain()) for one in tuned().beside), lambda: True),
    "sweep.Spec(..., told=f)": (lambda: spec_with(told=len), lambda: spec_with(locate_error=len)),
    "sweep.CALLS['aim.predict'].words": (
        lambda: sweep.CALLS["aim.predict"].words,
        lambda: sweep.CALLS["aim.predict"].parameters,
    ),
}


@cache
def tuned():
    return aim.tune(aim.Task(), aim.Learner(), 0.5, bayes=True)


def flat(text):
    """The text without line breaks and indents."""
    return " ".join(text.split())


def spec_with(**argument):
    return sweep.Spec(call="sparse.align", axes={"alpha0": [1.0]}, **argument).locate_error


NAMES = {codes(old)[0]: codes(new)[0] for old, new in table("Names of Python")}
NAMES_OF_2 = {codes(old)[0]: codes(new)[0] for old, new in table("Coming from 2.x")}


def warns_and_works(old, first, second, removed_in):
    """The message of the warning of an old form, whose value is that of the new form."""
    with pytest.warns(DeprecationWarning, match=f"the old form goes in {removed_in}") as caught:
        before = first()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert before == second(), old
    return str(caught[0].message)


@pytest.mark.parametrize("old", NAMES)
def test_a_name_of_1_warns_and_works(old):
    message = warns_and_works(old, *FORMS[old], "3.0")
    new = re.sub(r"(?<=\()(?:task, plan|curve), ", "", NAMES[old]).removeprefix("sparse.").removeprefix("plot.")
    assert new in message


@pytest.mark.parametrize("old", NAMES_OF_2)
def test_a_name_of_2_warns_and_works(old):
    message = warns_and_works(old, *FORMS_OF_2[old], "4.0")
    assert re.findall(r"\w+", NAMES_OF_2[old].removesuffix("=f)"))[-1] in message


def test_no_old_name_is_missing_on_the_page():
    """Old names of packages and of comparisons are all listed, and so are all other places that warn."""
    assert set(NAMES) == set(FORMS)
    assert set(NAMES_OF_2) == set(FORMS_OF_2)
    source = Path(onehead.__file__).parent
    for package in ("aim", "sparse", "plot", "sweep", "weights"):
        call = re.search(r"old_names=(\{[^}]*\})", (source / package / "__init__.py").read_text(encoding="utf-8"))
        for old, new in ast.literal_eval(call[1]).items() if call else ():
            listed, name = (NAMES_OF_2, new) if isinstance(new, str) else (NAMES, new[0])
            assert listed[f"{package}.{old}"] == f"{package}.{name}"
    for old, new in Comparison._OLD.items():
        assert NAMES[f"Comparison.{old}"] == f"Comparison.{new}"
    warning = re.compile(r"^\s+warn_renamed\(", re.MULTILINE)
    warns = {path: len(warning.findall(path.read_text(encoding="utf-8"))) for path in sorted(source.rglob("*.py"))}
    assert {path.relative_to(source).as_posix(): count for path, count in warns.items() if count} == {
        "lazy.py": 1,
        "plot/_axes.py": 1,
        "sparse/training/compare.py": 2,
        "sparse/verbs/map.py": 2,
        "aim/verbs/tune.py": 1,
        "sweep/registry/base.py": 1,
        "sweep/spec.py": 1,
    }


def paths(answer):
    """Every key of an answer, however deep."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            yield key
            yield from paths(value)
    elif isinstance(answer, list):
        for value in answer:
            yield from paths(value)


def test_every_key_on_the_page_is_in_an_answer():
    answers = golden.stored("answers.json")
    seen = 0
    for commands, keys in table("Keys of JSON"):
        for command in codes(commands):
            own = {key for words, answer in answers.items() if words.startswith(command) for key in paths(answer)}
            words = [word for word in codes(keys) if not word.startswith("-") and " " not in word]
            assert set(words) - {"task", "learner"} <= own, f"{command}: {set(words) - own}"
            seen += len(words)
    assert seen > 50


def test_every_number_on_the_page_is_the_stored_one():
    answers, rows = golden.stored("answers.json"), table("Numbers that move")
    assert len(rows) > 5
    for command, key, old, new, _ in rows:
        answer = answers[codes(command)[0]]
        stored = (answer[0] if isinstance(answer, list) else answer)[codes(key)[0]]
        digits = 0.5 * 10.0 ** -len(new.split(".")[1])
        assert stored == pytest.approx(float(new), abs=1.01 * digits)
        assert float(old) != float(new)
