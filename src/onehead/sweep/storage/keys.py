"""Points of a sweep and the keys under which their results are stored."""

import hashlib
import json
from typing import Any, NamedTuple

from onehead.sweep.storage.version import NUMERICAL


class Point(NamedTuple):
    """One point of a sweep: its key, its parameters, its seed (None if nothing is random) and its repeat."""

    key: str
    parameters: dict[str, Any]
    seed: int | None
    repeat: int


def key_of(call: str, parameters: dict[str, Any], seed: int | None, repeat: int) -> str:
    """Hash of the call, its parameters, the seed (None if nothing is random), the repeat and the numerical version.

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
