"""The calls that a sweep can make: flat parameters in, one flat row and its arrays out.

A parameter is a flag of the command line with underscores (``weight_decay``, ``signal_tokens``). Each call builds
its problem from flat parameters, so that a bad value gets the same message as anywhere else, and returns the
parameters of the problem as validated, defaults included: two ways of writing one problem have one key. A new call
belongs to `AIM_CALLS` or `SPARSE_CALLS`.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from onehead.errors import InvalidArgument
from onehead.results import plain
from onehead.sweep.registry.aim import AIM_CALLS
from onehead.sweep.registry.base import Call, PointResult, PreparedCall
from onehead.sweep.registry.sparse import SPARSE_CALLS

__all__ = ["CALLS", "call_named"]

CALLS: dict[str, Call] = {call.name: call for call in (*AIM_CALLS, *SPARSE_CALLS)}


def call_named(name: str, *, own: bool = False) -> Call:
    """Look up a call by its name.

    With ``own``, a name of the form ``module:function`` is imported. Only Python code may pass it; a sweep file
    never does. Such a function takes a dict of parameters and a seed, and returns a dict of numbers, text and
    arrays.
    """
    if not isinstance(name, str):
        raise InvalidArgument("call", name, "a name such as 'aim.predict', or 'module:function' for one of your own")
    if name in CALLS:
        return CALLS[name]
    if own and ":" in name:
        return _import_call(name)
    raise InvalidArgument("call", name, f"one of {', '.join(CALLS)}", CALLS)


@cache
def _import_call(name: str) -> Call:
    """Call of a user's function, given as ``module:function``."""
    module, _, function = name.partition(":")
    try:
        run: Callable[[dict[str, Any], int], dict[str, Any]] = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidArgument("call", name, f"a function that can be imported ({error})") from None

    def build(values: dict[str, Any]) -> PreparedCall:
        def solve(seed: int) -> PointResult:
            found = run(values, seed)
            arrays = {key: value for key, value in found.items() if isinstance(value, np.ndarray)}
            return PointResult(row=plain({k: v for k, v in found.items() if k not in arrays}), arrays=arrays)

        return PreparedCall(parameters=plain(values), solve=solve)

    return Call(name=name, parameters=None, seeded=True, build=build)
