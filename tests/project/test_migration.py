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

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")


def table(heading):
    """The rows of the first table below a heading, cell by cell, without the two rows of the head."""
    section = re.search(rf"^##+ {heading}\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]
    rows = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)[0].splitlines()
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


def codes(cell):
    return re.findall(r"`([^`]+)`", cell)


# old form of 2.x on the page -> what it does, and what the new one does; both must be equal
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
    "Target.apart": (lambda: target_with(apart=property(lambda self: 0.25)).free_eigenvector_share, lambda: 0.25),
    "Target.lost": (
        lambda: target_with(lost=lambda self, share: ([share], [1.0])).unrepresentable_spectrum(0.5),
        lambda: ([0.5], [1.0]),
    ),
}


def target_with(**method):
    """A target of a class with a method of its own."""
    known = dict(aim.Target.known)
    try:
        return type("Own", (aim.MarchenkoPastur,), method)()
    finally:
        aim.Target.known.update(known)


@cache
def tuned():
    return aim.tune(aim.Task(), aim.Learner(), 0.5, bayes=True)


def flat(text):
    """The text without line breaks and indents."""
    return " ".join(text.split())


def spec_with(**argument):
    return sweep.Spec(call="sparse.align", axes={"alpha0": [1.0]}, **argument).locate_error


NAMES_OF_1 = {codes(old)[0]: codes(new)[0] for old, new in table("Names of Python")}
NAMES_OF_2 = {codes(old)[0]: codes(new)[0] for old, new in table("Names that warn until 4.0")}


@pytest.mark.parametrize("old", NAMES_OF_2)
def test_a_name_of_2_warns_and_works(old):
    first, second = FORMS_OF_2[old]
    with pytest.warns(DeprecationWarning, match="the old form goes in 4.0") as caught:
        before = first()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert before == second(), old
    assert re.findall(r"\w+", NAMES_OF_2[old].removesuffix("=f)"))[-1] in str(caught[0].message)


def test_names_of_1_are_removed_and_their_replacements_exist():
    packages = {"aim": aim, "sparse": sparse, "plot": plot}
    modules = [(old.split("."), new.split(".")) for old, new in NAMES_OF_1.items() if re.fullmatch(r"[\w.]+", old)]
    checked = [(old, new) for old, new in modules if old[0] in packages]
    assert len(checked) == 4
    for (package, old), (_, new) in checked:
        assert old not in dir(packages[package]) and callable(getattr(packages[package], new))
        with pytest.raises(AttributeError, match=f"has no attribute '{old}'"):
            getattr(packages[package], old)


def test_no_old_name_is_missing_on_the_page():
    """Old names of packages are all listed, and so are all other places that warn."""
    assert set(NAMES_OF_2) == set(FORMS_OF_2)
    source = Path(onehead.__file__).parent
    for package in ("aim", "sparse", "plot", "sweep", "weights"):
        call = re.search(r"old_names=(\{[^}]*\})", (source / package / "__init__.py").read_text(encoding="utf-8"))
        for old, new in ast.literal_eval(call[1]).items() if call else ():
            assert NAMES_OF_2[f"{package}.{old}"] == f"{package}.{new}"
    warning = re.compile(r"^\s+warn_renamed\(", re.MULTILINE)
    warns = {path: len(warning.findall(path.read_text(encoding="utf-8"))) for path in sorted(source.rglob("*.py"))}
    assert {path.relative_to(source).as_posix(): count for path, count in warns.items() if count} == {
        "lazy.py": 1,
        "aim/verbs/tune.py": 1,
        "sweep/registry/base.py": 1,
        "sweep/spec.py": 1,
        "aim/targets/base.py": 1,
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
