"""Packages whose public names are loaded on first use.

The names of a package are listed once, in its stub ``__init__.pyi``, where type checkers and the documentation look for
them; at run time the stub also says from which module each name is imported.
"""

import ast
import builtins
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def attach_stub(
    package: str, file: str, *, old_names: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` of a package from the stub next to its ``__init__.py``.

    Parameters
    ----------
    package, file : str
        ``__name__`` and ``__file__`` of the package.
    old_names : mapping, optional
        Deprecated names, which still work with a warning: old name -> new name. They are removed in 4.0.

    Returns
    -------
    tuple
        The functions ``__getattr__`` and ``__dir__``, and the list ``__all__``. The latter leaves out names of
        built-in functions, such as ``map``, so that a star import does not replace these.
    """
    old = dict(old_names or {})
    stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    sources: dict[str, tuple[str | None, str]] = {
        alias.asname: (node.module, alias.name)
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname is not None  # the form that exports a name from a stub
    }
    # ``name: type``: a submodule that has a class of its own, or a variable of the package
    sources |= {
        node.target.id: (None, node.target.id)
        for node in stub.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    names = sorted(sources)

    def load(name: str) -> Any:
        if name in old:
            from onehead.deprecation import warn_renamed  # a package loads nothing before it is used

            warn_renamed(f"{package}.{name}", f"{package}.{old[name]}")
            return load(old[name])
        if name not in sources:
            from onehead.sanitize import did_you_mean

            close = did_you_mean(name, names)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{close}; it has {', '.join(names)}")
        module, attribute = sources[name]
        if module is None:  # ``from . import name``: a submodule
            return import_module(f"{package}.{name}")
        return getattr(import_module(module), attribute)

    return load, lambda: list(names), [name for name in names if not hasattr(builtins, name)]
