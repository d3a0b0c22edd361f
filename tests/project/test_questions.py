"""Commands that pages name in running text exist, with the flags that they are given."""

import importlib.util
import json
import re
import shlex
from pathlib import Path

import click
import pytest

from onehead.cli.main import cli

DOCS = Path(__file__).parents[2] / "docs"
COMMAND = re.compile(r"`(onehead [^`]+)`")
NAMED = sorted({(page.name, found) for page in DOCS.glob("*.md") for found in COMMAND.findall(page.read_text("utf-8"))})


def leaf(words):
    """Return the command that some words name, and the words after its name."""
    command, context = cli, click.Context(cli)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        assert found is not None, f"no command {words[0]}"
        command, words = found, words[1:]
    return command, words


@pytest.mark.parametrize(("page", "text"), NAMED, ids=[f"{page}: {text}" for page, text in NAMED])
def test_a_command_that_a_page_names_exists(page, text):
    command, words = leaf([word for word in shlex.split(text)[1:] if word not in ("...", "…")])
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    flags = {word.split("=")[0] for word in words if word.startswith("--")}
    assert flags <= known | {"--help"}, (page, text)


def hook():
    """Return the build hook of the documentation."""
    spec = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("source", sorted((DOCS / "notebooks").glob("*.py")), ids=lambda path: path.stem)
def test_jupyter_notebooks_have_the_code_of_their_page(source):
    notebooks = hook()
    made = json.loads(notebooks.jupyter(source))
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    identifiers = [cell["id"] for cell in made["cells"]]
    assert len(set(identifiers)) == len(identifiers)
    code = ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code"]
    assert code == [text for kind, text in notebooks.cells(source.read_text("utf-8")) if kind != "markdown"]


def test_a_solution_is_folded_and_run(tmp_path):
    source = tmp_path / "exercise.py"
    source.write_text("# %% [markdown]\n# Add.\n\n# %%\nx = 2\n\n# %% solution\nprint(x + 3 < 9)\n", encoding="utf-8")
    page = hook().page(source)
    assert (
        "<details><summary>Solution</summary><pre><code>print(x + 3 &lt; 9)</code></pre><pre>True</pre></details>"
        in page
    )
