"""One attention head, solved exactly.

The public names are listed here and nowhere else. Each room is loaded when it is first used, so that
``import onehead`` costs a few milliseconds.
"""

from importlib import import_module

__version__ = "2.0.0"

__all__ = ["__version__", "aim", "cite", "errors", "plot", "sparse", "sweep", "weights"]

_ROOMS = ("aim", "errors", "plot", "sparse", "sweep", "weights")


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return import_module(f"onehead.{name}")
    if name == "cite":
        return import_module("onehead.citation").cite
    raise AttributeError(f"module 'onehead' has no attribute {name!r}; it has {', '.join(__all__[1:])}")


def __dir__() -> list[str]:
    return list(__all__)
