"""A room whose names are loaded when they are first used.

The names of a room stand once, in its stub ``__init__.pyi``, where type checkers and the documentation look for them; at run
time the stub says where each one lives.
"""

import ast
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["lazy_room"]


def lazy_room(
    package: str, file: str, *, old_names: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package, from the stub beside its ``__init__.py``.

    ``old_names`` maps names of 1.x to those they have now: they go on working through 2.x, with a warning.
    """
    old = old_names or {}
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    places = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names = sorted(places)

    def load(name: str) -> Any:
        if name in old:
            from onehead.renamed import renamed  # noqa: PLC0415  (a room loads nothing before it is used)

            renamed(f"{package}.{name}", f"{package}.{old[name]}")
            return load(old[name])
        if name not in places:
            from onehead.text import likely  # noqa: PLC0415

            close = likely(name, names)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{close}; it has {', '.join(names)}")
        module, own = places[name]
        return getattr(import_module(module), own)

    return load, lambda: list(names), names
