"""Extension of griffe, which collects docstrings: keeps the module `onehead.sweep`, which the stub of `onehead` types as an object.

For type checkers `onehead.sweep` is an object that can be called, because no module can be; its documentation is that of the module.
"""

from typing import Any

from griffe import Attribute, Extension


class CallableModules(Extension):
    """Drop attributes of a stub that stand for a module of the same name."""

    def on_attribute_instance(self, *, attr: Attribute, **_: Any) -> None:
        """Remove the attribute from its module."""
        if attr.path == "onehead.sweep" and attr.parent is not None:
            attr.parent.del_member("sweep")
