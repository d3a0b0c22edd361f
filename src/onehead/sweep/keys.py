"""Points of a sweep and their keys."""

import hashlib
import json
from typing import Any, NamedTuple

from onehead.sweep.version import NUMERICAL

__all__ = ["Point", "key_of"]


class Point(NamedTuple):
    """One point: what to solve and under which key its answer is kept; no seed where nothing is random."""

    key: str
    parameters: dict[str, Any]
    seed: int | None
    repeat: int


def key_of(call: str, parameters: dict[str, Any], seed: int | None, repeat: int) -> str:
    """Hash of the call, the words of the problem as validated, the seed and the numerical version; None: nothing is random.

    Examples
    --------
    >>> one, other = ({"alpha": 0.5, "noise": 0.1}, {"noise": 0.1, "alpha": 0.5})
    >>> key_of("aim.predict", one, None, 0) == key_of("aim.predict", other, None, 0)
    True
    >>> key_of("aim.train", one, 0, 0) == key_of("aim.train", one, 1, 0)
    False
    """
    text = json.dumps([call, parameters, seed, repeat, NUMERICAL], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
