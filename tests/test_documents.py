"""What the documentation shows is what the code does."""

import doctest
import importlib
import pkgutil
import re
import runpy
import shlex
from pathlib import Path

import click
import pytest

import onehead

ROOT = Path(__file__).parent.parent
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


PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if "```python" in page.read_text()]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.stem)
def test_python_on_pages_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    space = {"__name__": "page"}
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        if "--8<--" not in block:  # a file shown as it is has a test of its own
            exec(compile(block, page.name, "exec"), space)


def test_commands_on_pages_are_commands():
    # every flag shown on a page is one the program knows; running them all would take a quarter of an hour
    from onehead.cli.main import cli

    for page in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        for line in re.findall(r"^\$? ?(?:\.venv/bin/)?onehead ([^`\n]+)$", page.read_text(), re.MULTILINE):
            words = shlex.split(line, comments=True)
            words = words[: words.index(">")] if ">" in words else words
            command, rest = cli, words
            while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
                context = click.Context(command)
                command, rest = command.get_command(context, rest[0]), rest[1:]
                assert command is not None, f"{page.name}: {line}"
            known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
            for word in rest:
                assert not word.startswith("--") or word.split("=")[0] in known | {"--help", "--version"}, (
                    f"{page.name}: {line}"
                )


def test_pages_name_only_files_that_exist():
    generated = {page.with_suffix(".md") for page in (ROOT / "docs" / "notebooks").glob("*.py")}
    for page in (ROOT / "docs").rglob("*.md"):
        for link in re.findall(r"\]\(((?!http)[^)#]+)", page.read_text()):
            where = (page.parent / link).resolve()
            assert where.exists() or where in generated, f"{page.name} links to {link}"
    for link in re.findall(r"\]\(((?!http)[^)#]+)", (ROOT / "README.md").read_text()):
        assert (ROOT / link).exists(), f"README links to {link}"


def test_the_change_log_has_the_version_and_a_place_for_numbers():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert f"## {onehead.__version__}" in text
    assert "### Numerical changes" in text
