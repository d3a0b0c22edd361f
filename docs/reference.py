"""Build hook: replaces ``<!-- parameters of NAME -->`` on a page by the table of the parameters of that problem.

The tables are made from the declarations (`onehead.fields`), as the flags, the explorer and the glossary are.
"""

import re
from importlib import import_module
from typing import Any

MARKER = re.compile(r"^<!-- parameters of (onehead[\w.]+) -->$", re.MULTILINE)
TYPES = {"number": "float", "integer": "int", "choice": "str", "switch": "bool", "numbers": "list of float"}
HEAD = "| parameter | symbol | default | description |\n| --- | --- | --- | --- |\n"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with its markers replaced."""
    return MARKER.sub(lambda found: parameter_table(found[1]), markdown)


def parameter_table(name: str) -> str:
    """Table with one line per parameter of the problem ``name``, such as ``onehead.aim.Task``."""
    from onehead.fields import parameters_of  # noqa: PLC0415  (a hook is loaded by mkdocs before src is on its path)

    module, _, attribute = name.rpartition(".")
    problem = getattr(import_module(module), attribute)
    declared = [parameter for name, parameter in parameters_of(problem).items() if name != "kind"]
    return HEAD + "".join(_line(parameter, problem) for parameter in declared)


def _line(parameter: Any, problem: Any) -> str:
    annotation = problem.model_fields[parameter.name].annotation
    kind = TYPES.get(parameter.kind) or getattr(annotation, "__name__", str(annotation))
    default = "required" if parameter.required else f"`{parameter.default!r}`"
    allowed = parameter.allowed.replace("|", "or")
    cells = (f"`{parameter.name}`", parameter.symbol, default, f"{parameter.sentence} *{kind}: {allowed}*")
    return f"| {' | '.join(cells)} |\n"
