"""The calls a sweep can make: flat words in, one flat row and its arrays out.

A word is a flag of the command line with underscores (``weight_decay``, ``signal_tokens``). Each call builds its problem
from words, so that a bad value gets the same sentence as anywhere else, and hands back the words of the problem as
validated, defaults included: two ways of writing one problem are one point.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from onehead.errors import InvalidArgument
from onehead.results import plain
from onehead.sweep.calls.aim import AIM_CALLS
from onehead.sweep.calls.base import Answer, Call, Ready
from onehead.sweep.calls.sparse import SPARSE_CALLS

__all__ = ["CALLS", "call_named"]

CALLS: dict[str, Call] = {call.name: call for call in (*AIM_CALLS, *SPARSE_CALLS)}


def call_named(name: str, *, own: bool = False) -> Call:
    """Look up a call; ``own`` also allows ``module:function``, which only Python code may ask for, never a file.

    Such a function takes the words as a dict and a seed, and returns a dict of numbers, words and arrays.
    """
    if not isinstance(name, str):
        raise InvalidArgument("call", name, "a name such as 'aim.predict', or 'module:function' for one of your own")
    if name in CALLS:
        return CALLS[name]
    if own and ":" in name:
        return _own(name)
    raise InvalidArgument("call", name, f"one of {', '.join(CALLS)}", CALLS)


@cache
def _own(name: str) -> Call:
    module, _, function = name.partition(":")
    try:
        run: Callable[[dict[str, Any], int], dict[str, Any]] = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as failure:
        raise InvalidArgument("call", name, f"a function that can be imported ({failure})") from None

    def prepare(words: dict[str, Any]) -> Ready:
        def solve(seed: int) -> Answer:
            found = run(words, seed)
            arrays = {key: value for key, value in found.items() if isinstance(value, np.ndarray)}
            return Answer(row=plain({k: v for k, v in found.items() if k not in arrays}), arrays=arrays)

        return Ready(parameters=plain(words), solve=solve)

    return Call(name=name, words=None, seeded=True, prepare=prepare)
