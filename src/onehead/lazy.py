"""Packages whose public names are loaded on first use.

The names of a package are listed once, in its stub ``__init__.pyi``, where type checkers and the documentation look for
them; at run time the stub also says from which module each name is imported.
"""

import ast
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["attach_stub"]


def attach_stub(
    package: str, file: str, *, old_names: Mapping[str, str | tuple[str, str]] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` of a package from the stub next to its ``__init__.py``.

    Parameters
    ----------
    package, file : str
        ``__name__`` and ``__file__`` of the package.
    old_names : mapping, optional
        Deprecated names, which still work with a warning: old name -> new name where the old one is removed in 4.0, or
        old name -> (new name, version in which the old one is removed).

    Returns
    -------
    tuple
        The functions ``__getattr__`` and ``__dir__``, and the list ``__all__``.
    """
    old = {name: (new, "4.0") if isinstance(new, str) else new for name, new in (old_names or {}).items()}
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    sources = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names = sorted(sources)

    def load(name: str) -> Any:
        if name in old:
            from onehead.deprecation import warn_renamed  # a package loads nothing before it is used

            new, removed_in = old[name]
            warn_renamed(f"{package}.{name}", f"{package}.{new}", removed_in=removed_in)
            return load(new)
        if name not in sources:
            from onehead.sanitize import did_you_mean

            close = did_you_mean(name, names)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{close}; it has {', '.join(names)}")
        module, attribute = sources[name]
        return getattr(import_module(module), attribute)

    return load, lambda: list(names), names
