"""Docstring examples, links, and completeness of the documentation."""

import doctest
import importlib
import pkgutil
import re
import runpy
from pathlib import Path

import pytest
from tests.support.dotted_names import missing_names

import onehead
from onehead.app.views import VIEWS
from onehead.problem import Problem

ROOT = Path(__file__).parents[2]
MODULES = [
    module.name
    for module in pkgutil.walk_packages(onehead.__path__, "onehead.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def test_every_public_verb_has_an_example():
    for package in (onehead.aim, onehead.sparse, onehead.weights):
        for name in dir(package):
            found = getattr(package, name)
            if callable(found) and not isinstance(found, type) and found.__module__.startswith("onehead"):
                if name in ("softmax",):  # a helper for compiled code
                    continue
                assert ">>>" in (found.__doc__ or ""), f"{package.__name__}.{name} has no example"


def test_the_example_of_a_user_defined_loss_prints_what_the_page_shows(capsys):
    runpy.run_path(str(ROOT / "examples" / "own_loss.py"), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    shown = (ROOT / "docs" / "assets" / "own_loss.txt").read_text().splitlines()
    number = re.compile(r"\d+\.\d+")
    for now, then in zip(printed, shown, strict=True):
        assert number.sub("#", now) == number.sub("#", then)
        # shown with four digits
        assert [float(x) for x in number.findall(now)] == pytest.approx(
            [float(x) for x in number.findall(then)], abs=2e-3
        )


def test_links_to_files_resolve():
    generated = {page.with_suffix(".md") for page in (ROOT / "docs" / "notebooks").glob("*.py")}
    for page in (ROOT / "docs").rglob("*.md"):
        for link in re.findall(r"\]\(((?!http)[^)#]+)", page.read_text()):
            where = (page.parent / link).resolve()
            assert where.exists() or where in generated, f"{page.name} links to {link}"
    for link in re.findall(r"\]\(((?!http)[^)#]+)", (ROOT / "README.md").read_text()):
        assert (ROOT / link).exists(), f"README links to {link}"


def slug(heading):
    """Anchor of a heading."""
    own = re.search(r"\{ ?#([^ }]+) ?\}", heading)
    bare = re.sub(r"[^\w\s-]", "", re.sub(r"\{.*|\[|\]\([^)]*\)", "", heading), flags=re.ASCII)
    return own[1] if own else re.sub(r"[-\s]+", "-", bare).strip("- ").lower()


def test_links_to_headings_resolve():
    pages = [
        page for page in sorted((ROOT / "docs").rglob("*.md")) if "assets" not in page.parts
    ]  # those are parts of pages
    anchors = {
        page: {slug(line) for line in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)} for page in pages
    }
    assert {slug("What is *exact*, what is not"), slug("Two { #own }")} == {"what-is-exact-what-is-not", "own"}
    unresolved = [
        (page.name, link)
        for page in pages
        for name, link in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text())
        if link not in anchors.get((page.parent / name).resolve() if name else page, {link})
    ]
    assert unresolved == []


def test_every_picture_of_the_lecture_is_drawn_by_the_command_above_it():
    page = (ROOT / "docs" / "lecture.md").read_text()
    drawn, shown = re.findall(r"--plot (\S+)\n", page), re.findall(r"\]\(assets/lecture/(\S+)\)", page)
    assert len(drawn) == 5 and drawn == shown
    assert {path.name for path in (ROOT / "docs" / "assets" / "lecture").iterdir()} == set(drawn)
    assert page.count("**Ask:**") == 5
    states = re.findall(r'<iframe class="explorer panel" src="assets/explorer/index.html\?embed=1&view=(\w+)', page)
    assert len(states) == 5 and set(states) <= set(VIEWS)


# helpers for losses and studies, which have an example but are not on the page
UNLISTED = {
    "softmax",
    "critical_bias_rate",
    "misalignment_constant",
    "draw",
    "grow",
    "ridgeless",
    "separable_share",
    "plan",
    "run",
    "predicted_exponents",
    "fresh_axes",
}


def test_every_verb_and_every_problem_is_in_the_reference():
    page = "\n".join(path.read_text() for path in sorted((ROOT / "docs" / "reference").glob("*.md")))
    for package in ("aim", "sparse", "weights", "plot"):
        listed = set(re.findall(rf"^::: onehead\.{package}\.(?:\w+\.)*(\w+)$", page, re.MULTILINE))
        module = importlib.import_module(f"onehead.{package}")
        verbs = {name for name in dir(module) if type(getattr(module, name)).__name__ == "function"}
        assert verbs - listed - UNLISTED == set(), f"onehead.{package}"
        problems = {
            name
            for name in dir(module)
            if isinstance(found := getattr(module, name), type) and issubclass(found, Problem) and name != "Target"
        }
        with_parameters = set(re.findall(rf"^<!-- parameters of onehead\.{package}\.(\w+) -->$", page, re.MULTILINE))
        assert with_parameters == problems, f"onehead.{package}"


def test_the_reference_lists_every_parameter_of_a_problem():
    hook = runpy.run_path(str(ROOT / "docs" / "reference.py"))
    table = hook["on_page_markdown"]("before\n<!-- parameters of onehead.aim.Learner -->\nafter")
    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == list(onehead.aim.Learner.model_fields)
    assert "| `weight_decay` | λ | `0.01` | Weight decay." in table and "*float: a number > 0" in table


def test_every_name_that_a_page_documents_exists():
    for page in sorted((ROOT / "docs").rglob("*.md")):
        names = re.findall(r"^::: (onehead\S+)", page.read_text(), re.MULTILINE)
        assert missing_names(names) == [], page.name


def test_every_test_that_a_page_names_exists():
    named = set()
    for page in sorted((ROOT / "docs").rglob("*.md")):
        named |= set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text()))
    assert len(named) > 40
    missing = [f"{path}::{name}" for path, name in sorted(named) if f"def {name}(" not in (ROOT / path).read_text()]
    assert missing == []


def test_maps_on_pages_have_at_least_five_values_per_axis():
    pages = " ".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    axes = re.findall(r"onehead \w+ map [^`\n]*?--x \S+=\S*?:(\d+) --y \S+=\S*?:(\d+)[ `\n]", pages)
    assert len(axes) >= 4
    assert min(int(count) for pair in axes for count in pair) >= 5
