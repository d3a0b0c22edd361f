"""Build hook: run every text notebook of ``docs/notebooks`` and add it to the site with its output.

A notebook is a Python file in cells: ``# %% [markdown]`` starts a cell of text, ``# %%`` one of code, ``# %% solution``
one of code that is folded on the page. The last expression of a code cell is shown: axes and figures as pictures,
results as tables. A cell that fails fails the build. Beside every page stands the same notebook as ``.ipynb``.
"""

import ast
import html
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "notebooks"


def on_files(files: Any, config: Any) -> Any:
    """Add one generated page per notebook."""
    from mkdocs.structure.files import File  # noqa: PLC0415  (a hook is loaded by mkdocs, a test is not)

    for source in sorted(FOLDER.glob("*.py")):
        files.append(File.generated(config, f"notebooks/{source.stem}.md", content=page(source)))
        files.append(File.generated(config, f"notebooks/{source.stem}.ipynb", content=jupyter(source)))
        stale = files.get_file_from_path(f"notebooks/{source.name}")
        if stale is not None:
            files.remove(stale)
    return files


def page(source: Path) -> str:
    """The notebook as Markdown, executed."""
    space: dict[str, Any] = {"__name__": "__notebook__"}
    parts = []
    for kind, text in cells(source.read_text()):
        if kind == "markdown":
            parts.append(markdown(text))
        elif kind == "solution":
            code = f"<pre><code>{html.escape(text)}</code></pre>"
            parts.append(
                f"<details><summary>Solution</summary>{code}{run(text, space, source.name, as_html=True)}</details>"
            )
        else:
            parts.append(f"```python\n{text}\n```")
            parts.append(run(text, space, source.name))
    parts.append(
        f"*This page is `docs/notebooks/{source.name}`, run when the site was built; "
        f"[download it as a Jupyter notebook]({source.stem}.ipynb).*"
    )
    return "\n\n".join(part for part in parts if part)


def markdown(text: str) -> str:
    """The text of a cell of comments."""
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines())


def jupyter(source: Path) -> str:
    """The notebook in Jupyter's format (nbformat 4), without output."""
    found: list[dict[str, Any]] = []
    for i, (kind, text) in enumerate(cells(source.read_text())):
        lines = (markdown(text) if kind == "markdown" else text).splitlines(keepends=True)
        cell: dict[str, Any] = {"id": f"cell-{i}", "metadata": {}, "source": lines}
        if kind == "markdown":
            found.append({"cell_type": "markdown", **cell})
        else:
            if kind == "solution":
                found.append(
                    {"cell_type": "markdown", "id": f"solution-{i}", "metadata": {}, "source": ["*Solution:*"]}
                )
            found.append({"cell_type": "code", "execution_count": None, "outputs": [], **cell})
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": found, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def cells(text: str) -> list[tuple[str, str]]:
    """Kind and text of every cell."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("# %%"):
            title = line.removeprefix("# %%").strip()
            found.append(({"[markdown]": "markdown", "solution": "solution"}.get(title, "code"), []))
        elif found:
            found[-1][1].append(line)
    return [(kind, "\n".join(lines).strip()) for kind, lines in found]


def run(text: str, space: dict[str, Any], name: str, *, as_html: bool = False) -> str:
    """Execute a cell; return what it printed, then its last expression, as Markdown or as HTML."""
    tree = ast.parse(text, filename=name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, name, "exec"), space)
        value = eval(compile(ast.Expression(last.value), name, "eval"), space) if isinstance(last, ast.Expr) else None
    output = printed.getvalue().rstrip()
    if as_html:
        return f"<pre>{html.escape(output)}</pre>" + ("" if value is None else show(value))
    shown = [f"```text\n{output}\n```"] if output else []
    if value is not None:
        shown.append(show(value))
    return "\n\n".join(shown)


def show(value: Any) -> str:
    """Markdown or HTML of a value: pictures for figures, tables for results, text for the rest."""
    figure = getattr(value, "figure", None) or (value if hasattr(value, "savefig") else None)
    if figure is not None:
        picture = io.StringIO()
        figure.savefig(picture, format="svg", metadata={"Date": None})
        svg = picture.getvalue()
        return f"<div class='drawing'>{svg[svg.index('<svg') :]}</div>"
    if hasattr(value, "_repr_html_"):
        return str(value._repr_html_())
    return f"```text\n{value!r}\n```"
