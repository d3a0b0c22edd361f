"""The page for those who come from 1.x: every old name on it warns and works, every key on it is in an answer, every number is the stored one."""

import ast
import re
import warnings
from functools import cache
from pathlib import Path

import pytest
from tests.support import golden

import onehead
from onehead import aim, plot, sparse
from onehead.sparse.training.compare import Comparison

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
PLAN = sparse.Protocol(loss="square", ridge=0.1)


def table(heading):
    """The rows below a heading, cell by cell, without the two rows of the head."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]
    rows = [line for line in section.splitlines() if line.startswith("|")]
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
NAMES = {codes(old)[0]: codes(new)[0] for old, new in table("Names of Python")}


@pytest.mark.parametrize("old", NAMES)
def test_an_old_name_warns_and_works(old):
    first, second = FORMS[old]
    with pytest.warns(DeprecationWarning, match="the old form goes in 3.0") as heard:
        before = first()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert before == second()
    new = re.sub(r"(?<=\()(?:task, plan|curve), ", "", NAMES[old]).removeprefix("sparse.").removeprefix("plot.")
    assert new in str(heard[0].message)


def test_no_old_name_is_missing_on_the_page():
    """Those of the rooms, of comparisons, and as many other places as warn."""
    assert set(NAMES) == set(FORMS)
    source = Path(onehead.__file__).parent
    for room in ("aim", "sparse", "plot"):
        call = re.search(r"old_names=(\{[^}]*\})", (source / room / "__init__.py").read_text(encoding="utf-8"))
        for old, new in ast.literal_eval(call[1]).items():
            assert NAMES[f"{room}.{old}"] == f"{room}.{new}"
    for old, new in Comparison._OLD.items():
        assert NAMES[f"Comparison.{old}"] == f"Comparison.{new}"
    warns = [
        (path.relative_to(source).as_posix(), len(re.findall(r"^\s+renamed\(", path.read_text(encoding="utf-8"), re.M)))
        for path in sorted(source.rglob("*.py"))
    ]
    assert {path: count for path, count in warns if count} == {
        "lazy.py": 1,
        "plot/_call.py": 1,
        "sparse/training/compare.py": 2,
        "sparse/verbs/map.py": 2,
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
