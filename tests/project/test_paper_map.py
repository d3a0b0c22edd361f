"""The map between papers, theory pages, code and tests: every numbered heading has its line, and every name on it
exists.
"""

import re
from pathlib import Path

import pytest
from tests.project.test_equations import HEADING, PAGES
from tests.support.dotted_names import missing_names

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
THEORY_PAGES = sorted(set(PAGES.values()))
PAPER_MAP = "paper-map.md"

# **In the paper:** ... **In the code:** ... **Checked by:** ..., the first part only where the paper has a number
MAP_LINE = re.compile(
    r"(?:\*\*In the paper:\*\* arXiv \d{4}\.\d{5}, [^*]+\. )?\*\*In the code:\*\* [^*]+\. \*\*Checked by:\*\* [^*]+\."
)
CODE_NAME = re.compile(r"`(onehead(?:\.\w+)+)`")
TEST_FILE = re.compile(r"`(tests/[^`]+)`")


def map_lines(page):
    """(number of the heading, first line of text below it) of every numbered heading of a page."""
    return [(match[2], page[match.end() :].lstrip("\n").partition("\n")[0]) for match in HEADING.finditer(page)]


def unresolved(text):
    """Names of code and of test files in a text that do not exist."""
    missing = [path for path in TEST_FILE.findall(text) if not (ROOT / path).exists()]
    return missing + missing_names(CODE_NAME.findall(text))


@pytest.mark.parametrize("page", THEORY_PAGES)
def test_every_numbered_heading_names_its_code_and_its_tests(page):
    lines = map_lines((DOCS / page).read_text(encoding="utf-8"))
    assert len(lines) > 5
    assert [number for number, line in lines if not MAP_LINE.fullmatch(line)] == []
    for number, line in lines:
        code, _, tests = line.partition("**Checked by:**")
        assert CODE_NAME.search(code) or "not used" in code, f"{number} names no code"
        assert TEST_FILE.search(tests) or "no test" in tests, f"{number} names no test"


@pytest.mark.parametrize("page", [*THEORY_PAGES, PAPER_MAP])
def test_every_name_on_the_map_exists(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    mapped = text if page == PAPER_MAP else "\n".join(line for _, line in map_lines(text))
    assert CODE_NAME.search(mapped)
    assert unresolved(mapped) == []


def test_statements_of_the_papers_are_in_the_table():
    table = (DOCS / PAPER_MAP).read_text(encoding="utf-8")
    for page in THEORY_PAGES:
        for number, line in map_lines((DOCS / page).read_text(encoding="utf-8")):
            for statement in re.findall(
                r"[,;] ([A-Z][a-z]+s? [A-Z\d]+(?:\.\d+)?)", line.partition("**In the code:**")[0]
            ):
                assert statement in table, f"{number}: {statement} is not in {PAPER_MAP}"


def test_the_search_itself():
    page = "## 2 One {#eq-2}\n\n**In the code:** `onehead.aim`. **Checked by:** no test.\n\n"
    page += "### 2.1 Two {#eq-2-1}\n\nText.\n"
    assert [(number, bool(MAP_LINE.fullmatch(line))) for number, line in map_lines(page)] == [
        ("2", True),
        ("2.1", False),
    ]
    assert unresolved("`onehead.aim.predict`, `onehead.spectra.law`, `tests/project/test_paper_map.py`") == []
    wrong = ["tests/nowhere.py", "onehead.aim.nowhere", "onehead.nowhere", "onehead.aim.task.Task.nowhere"]
    assert unresolved(" ".join(f"`{name}`" for name in wrong)) == wrong
