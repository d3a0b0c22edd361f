"""Build hook: run every text notebook of ``docs/notebooks`` and add it to the site with its output.

A notebook is a Python file in cells: ``# %% [markdown]`` starts a cell of text, ``# %%`` one of code. The last
expression of a code cell is shown: axes and figures as pictures, results as tables. A cell that fails fails the build.
"""

import ast
import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "notebooks"


def on_files(files: Any, config: Any) -> Any:
    """Add one generated page per notebook."""
    from mkdocs.structure.files import File  # noqa: PLC0415  (a hook is loaded by mkdocs, a test is not)

    for source in sorted(FOLDER.glob("*.py")):
        files.append(File.generated(config, f"notebooks/{source.stem}.md", content=page(source)))
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
            parts.append("\n".join(line.removeprefix("#").removeprefix(" ") for line in text.splitlines()))
        else:
            parts.append(f"```python\n{text}\n```")
            parts.append(run(text, space, source.name))
    parts.append(f"*This page is `docs/notebooks/{source.name}`, run when the site was built.*")
    return "\n\n".join(part for part in parts if part)


def cells(text: str) -> list[tuple[str, str]]:
    """Kind and text of every cell."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("# %%"):
            found.append(("markdown" if "[markdown]" in line else "code", []))
        elif found:
            found[-1][1].append(line)
    return [(kind, "\n".join(lines).strip()) for kind, lines in found]


def run(text: str, space: dict[str, Any], name: str) -> str:
    """Execute a cell; return what it printed, then its last expression, as Markdown."""
    tree = ast.parse(text, filename=name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, name, "exec"), space)
        value = eval(compile(ast.Expression(last.value), name, "eval"), space) if isinstance(last, ast.Expr) else None
    shown = [f"```text\n{printed.getvalue().rstrip()}\n```"] if printed.getvalue() else []
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
