"""What the documentation shows is what the code does."""

import doctest
import importlib
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import onehead

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
    for room in (onehead.aim, onehead.sparse, onehead.weights):
        for name in room.__all__:
            thing = getattr(room, name)
            if callable(thing) and not isinstance(thing, type) and thing.__module__.startswith("onehead"):
                if name in ("softmax",):  # a helper for compiled code
                    continue
                assert ">>>" in (thing.__doc__ or ""), f"{room.__name__}.{name} has no example"


def test_the_example_of_an_own_loss_runs_as_printed(capsys):
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


def test_pages_name_only_files_that_exist():
    generated = {page.with_suffix(".md") for page in (ROOT / "docs" / "notebooks").glob("*.py")}
    for page in (ROOT / "docs").rglob("*.md"):
        for link in re.findall(r"\]\(((?!http)[^)#]+)", page.read_text()):
            where = (page.parent / link).resolve()
            assert where.exists() or where in generated, f"{page.name} links to {link}"
    for link in re.findall(r"\]\(((?!http)[^)#]+)", (ROOT / "README.md").read_text()):
        assert (ROOT / link).exists(), f"README links to {link}"
