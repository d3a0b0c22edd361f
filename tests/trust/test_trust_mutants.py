"""The tool that makes mutants: each is one change, in the right place, and what is left alone is left alone."""

import ast
from collections import Counter

import pytest
from checks.mutants import ROOT, THEORY, population, report, sample
from checks.mutants_explained import EXPLAINED
from checks.mutations import apply, is_python, mutants_of
from checks.reach import Reach

SOURCE = '''"""Über alles: a docstring with 1 number and é."""

import math
from typing import Final

__all__ = ["area"]

LIMIT: Final[int] = 3
TINY = 1e-9


@cached(maxsize=64)
def area(width: float, height: float = 2.0) -> float:
    """Text with 5 > 3."""
    # a comment with * and <
    if not width > 0.0 and height < LIMIT:
        raise ValueError(f"width must be > 0; got {width - 1}" + " or 7")
    total = math.sqrt(width) * (  # é * é
        height
    )
    total += min(width, height) ** 2
    assert total is not None
    return swap(width, height) - total, 4
'''


@pytest.fixture
def mutants(tmp_path):
    path = tmp_path / "room" / "area.py"
    path.parent.mkdir()
    path.write_text(SOURCE)
    return mutants_of(path, "room/area.py")


def test_every_kind_of_change_is_made_where_it_says(mutants, tmp_path):
    changes = {(mutant.line, mutant.old, mutant.new) for mutant in mutants}
    for expected in (
        (8, "3", "4"),
        (13, "2.0", "2.2"),
        (16, "not width > 0.0", "(width > 0.0)"),
        (16, ">", "<="),
        (16, "and", "or"),
        (16, "<", ">="),
        (16, "0.0", "1.0"),
        (18, "math.sqrt(width)", "(width)"),
        (18, "*", "/"),
        (21, "+=", "-="),
        (21, "min", "max"),
        (21, "**", "*"),
        (21, "total += min(width, height) ** 2", "pass"),
        (23, "width, height", "height, width"),
        (23, "-", "+"),
    ):
        assert expected in changes
    assert {mutant.function for mutant in mutants} == {"", "area"}
    for mutant in mutants:
        assert is_python(mutant, tmp_path)
        assert ast.dump(ast.parse(apply(mutant, SOURCE.encode()))) != ast.dump(ast.parse(SOURCE))


def test_words_types_decorators_assertions_and_tolerances_are_left_alone(mutants):
    touched = Counter(mutant.line for mutant in mutants)
    left_alone = {1, 3, 4, 6, 9, 12, 14, 15, 22}
    assert not left_alone & set(touched)
    assert [mutant.new for mutant in mutants if mutant.line == 17] == ["pass"]  # the raise goes, its text stays
    assert all(">" not in mutant.old for mutant in mutants if mutant.line == 13)  # an annotation is no comparison


def test_a_key_belongs_to_the_function_not_to_its_line(mutants, tmp_path):
    path = tmp_path / "room" / "area.py"
    path.write_text(SOURCE.replace("TINY = 1e-9", "TINY = 1e-9\nMORE = TINY"))
    moved = mutants_of(path, "room/area.py")
    assert {mutant.key for mutant in mutants} == {mutant.key for mutant in moved}
    assert len({mutant.key for mutant in mutants}) == len(mutants)
    path.write_text(SOURCE.replace("total += min", "total -= min"))
    changed = {mutant.key for mutant in mutants_of(path, "room/area.py")}
    assert not changed & {mutant.key for mutant in mutants if mutant.function == "area"}


def test_a_sample_is_repeatable_and_a_larger_one_holds_a_smaller():
    few, more = sample(ROOT, 20, 0), sample(ROOT, 40, 0)
    assert more[:20] == few
    assert sample(ROOT, 20, 1) != few
    everything = population(ROOT)
    assert len(everything) > 5000
    assert {mutant.path.split("/")[0] for mutant in everything} == set(THEORY)


def test_tests_of_a_function_come_cheapest_first_within_the_limit(tmp_path):
    folder = tmp_path / "src/onehead/numerics"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("@njit\ndef kernel(x):\n    return x\n\n\ndef door(x):\n    return kernel(x)\n")
    rows = {
        "dear": {"seconds": 9.0, "reach": ["numerics/a.py:door"]},
        "cheap": {"seconds": 1.0, "reach": ["numerics/a.py:door"]},
        "other": {"seconds": 0.1, "reach": ["numerics/b.py:else"]},
    }
    reach = Reach(tmp_path, rows)
    assert reach.of("numerics/a.py", "door", 20.0) == ["cheap", "dear"]
    assert reach.of("numerics/a.py", "door", 5.0) == ["cheap"]
    assert reach.of("numerics/a.py", "kernel", 20.0) == ["cheap", "dear"]  # compiled: by whoever names it
    assert Reach(tmp_path, rows, compiled=False).of("numerics/a.py", "kernel", 20.0) == []


def test_the_report_counts_and_names_survivors():
    chosen = sample(ROOT, 4, 0)
    verdicts = ("killed", "survived", "timeout", "broken")
    rows = {mutant.key: {"verdict": verdict} for mutant, verdict in zip(chosen, verdicts, strict=True)}
    text = report(chosen, rows, 1000, 0)
    assert "3 caught, 75.0 %" in text
    assert f"`{chosen[1].path}:{chosen[1].line}`" in text


def test_explanations_are_sentences():
    for key, why in EXPLAINED.items():
        assert len(key) == 16
        assert len(why) > 20
        assert why.endswith(".")
