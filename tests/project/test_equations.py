"""Numbers of equations: every reference in the source, such as (2.8) or (S4.2), has its heading in docs/theory*.md.

A reference is a parenthesis in a comment or docstring that holds numbers of headings and nothing else, several divided
by commas, at most with a remark behind a semicolon: (3), (2.3, 3, 6), (S6; a conjecture).
"""

import ast
import doctest
import io
import re
import tokenize
from pathlib import Path

import pytest

import onehead

SOURCE = Path(onehead.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"

# what a number begins with -> the page of its headings
PAGES = {
    "": "theory.md",
    "S": "theory-sparse.md",
    "A.": "theory-bayes.md",
    "B.": "theory-bayes.md",
    "U": "theory-heads.md",
    "L": "theory-long.md",
    "P": "theory-power.md",
    "D": "theory-data.md",
    "J": "theory-joint.md",
    "M": "theory-several.md",
}

NUMBER = r"(?:[A-Z]\.?)?[1-9]\d*(?:\.[1-9]\d*)?"  # no zeros: (0, 1) is an interval and 2.0 a value
REFERENCE = re.compile(rf"(?<![\w)\]}}])\(({NUMBER}(?:,\s+{NUMBER})*)(?:;[^()]*)?\)")
LOOSE = re.compile(r"\b[Ss]ections?\s+[A-Z]?\d|\([^()]*\b(?:theory|sections?)\b[^()]*\d[^()]*\)")
HEADING = re.compile(rf"^(##+) ({NUMBER}) (.*?)(?: \{{#(.+)\}})?$", re.MULTILINE)
LINK = re.compile(r"\]\((theory[a-z-]*\.md)?#(eq-[^)]*)\)")


def prefix(number):
    """S of S4.2, nothing of 4.2."""
    return re.match(r"(?:[A-Z]\.?)?", number)[0]


def key(number):
    """Numbers in their natural order: 2 < 2.9 < 2.10 < 10."""
    return tuple(int(part) for part in number.removeprefix(prefix(number)).split("."))


def anchor(number):
    """eq-s4-2 of S4.2."""
    return "eq-" + re.sub(r"\W", "-", number.lower())


def prose(source):
    """(line, text) of every comment and docstring, without the examples in docstrings."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node, clean=False)
            if text:
                parts = doctest.DocTestParser().parse(text)
                yield node.body[0].lineno, "".join(part for part in parts if isinstance(part, str))


def references(source):
    """(line, number) of every reference in a source; the line is that on which its comment or docstring begins."""
    return [
        (line, number)
        for line, text in prose(source)
        for match in REFERENCE.finditer(text)
        for number in re.split(r",\s+", match[1])
    ]


def headings(page):
    """(marks, number, anchor) of every numbered heading of a page."""
    return [(marks, number, name) for marks, number, _, name in HEADING.findall(page)]


@pytest.fixture(scope="module")
def sources():
    return {
        path.relative_to(SOURCE).as_posix(): path.read_text()
        for path in sorted(SOURCE.rglob("*.py*"))
        if path.suffix in (".py", ".pyi")
    }


@pytest.fixture(scope="module")
def numbers():
    return {start: {number for _, number, _ in headings((DOCS / page).read_text())} for start, page in PAGES.items()}


def test_every_reference_has_its_heading(sources, numbers):
    found = [(path, *reference) for path, source in sources.items() for reference in references(source)]
    assert len(found) > 100
    assert [(*where, number) for *where, number in found if number not in numbers.get(prefix(number), ())] == []


def test_references_have_one_form(sources):
    loose = [
        (path, line, match[0])
        for path, source in sources.items()
        for line, text in prose(source)
        for match in LOOSE.finditer(text)
    ]
    assert loose == []


def test_sparse_tokens_have_numbers_of_their_own(sources):
    """A plain number there would be that of another theory, and might well exist."""
    plain = [
        (path, *reference)
        for path, source in sources.items()
        if path.startswith("sparse/")
        for reference in references(source)
        if not prefix(reference[1])
    ]
    assert plain == []


@pytest.mark.parametrize("start", PAGES)
def test_headings_are_unique_in_order_and_linkable(start):
    page = headings((DOCS / PAGES[start]).read_text())
    assert {prefix(number) for _, number, _ in page} == {other for other in PAGES if PAGES[other] == PAGES[start]}
    found = [heading for heading in page if prefix(heading[1]) == start]
    order = [number for _, number, _ in found]
    assert len(order) > 3
    assert order == sorted(set(order), key=key)
    for marks, number, name in found:
        assert name == anchor(number)
        assert len(marks) == 1 + len(key(number))
        assert number.rpartition(".")[0] in ("", start.rstrip("."), *order)


def test_links_to_equations_lead_somewhere(numbers):
    anchors = {page: {anchor(number) for number in numbers[start]} for start, page in PAGES.items()}
    assert anchors["theory-bayes.md"] >= {"eq-a-1", "eq-b-1"}  # two prefixes on one page
    links = [(path.name, *link) for path in sorted(DOCS.rglob("*.md")) for link in LINK.findall(path.read_text())]
    assert len(links) > 20
    assert [link for link in links if link[2] not in anchors.get(link[1] or link[0], ())] == []


def test_the_search_itself():
    """What counts as a reference, and what does not, on a made-up text."""
    source = '''
"""A title (2.8).

More (2.3, 3,
6), and (S6; a conjecture), (A.1), (U10.12). Not f(2), (0, 1), (2.0), (-2, 2), (1 - 2), (n = 3), [1](2).

>>> print((4.1))  # (4.2)
(4.3)

Again (4.4).
"""
text = "(5.1)"
area = sqrt(5.2) * (5.3)  # the cubic (5)
def f():
    """(7; our definition)"""
    # of section 8, (theory, 4.2), (theory of the task, S1)
    return """(9)"""
'''
    assert sorted(number for _, number in references(source)) == sorted(
        ["2.8", "2.3", "3", "6", "S6", "A.1", "U10.12", "4.4", "5", "7"]
    )
    assert [match[0] for _, text in prose(source) for match in LOOSE.finditer(text)] == [
        "section 8",
        "(theory, 4.2)",
        "(theory of the task, S1)",
    ]
    assert [prefix(number) for number in ("2.8", "S6", "A.1", "U10.12")] == ["", "S", "A.", "U"]
    assert sorted(["10", "2.10", "2", "2.9"], key=key) == ["2", "2.9", "2.10", "10"]
    page = "## 2 One {#eq-2}\n### 2.1 Two\n## Not numbered\n### S2.10 λ → 0⁺ {#eq-s2-10}\n"
    assert headings(page) == [("##", "2", "eq-2"), ("###", "2.1", ""), ("###", "S2.10", "eq-s2-10")]
    assert anchor("S2.10") == "eq-s2-10"
