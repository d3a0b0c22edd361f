"""Python warnings about approximate results, once per reason."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from onehead.deprecation import depth_of_caller
from onehead.errors import ApproximationWarning

NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?")  # sentences that differ in their numbers state the same reason

_quiet: ContextVar[bool] = ContextVar("_quiet", default=False)  # within a public function, or switched off
_stated: set[str] = set()  # reasons that this process has warned about


@contextmanager
def without_approximation_warnings() -> Iterator[None]:
    """Context manager in which results do not warn, because their warnings are shown or stored in another way."""
    before = _quiet.set(True)
    try:
        yield
    finally:
        _quiet.reset(before)


def public_call(function: Any, *args: Any, **keywords: Any) -> Any:
    """Call a public function; the outermost one of nested calls warns about each new reason in its result.

    The reasons are the ``cautions`` of the result. A reason is stated once per process, unless a filter turns the
    warning into an exception.
    """
    if _quiet.get():
        return function(*args, **keywords)
    with without_approximation_warnings():
        answer = function(*args, **keywords)
    for reason in getattr(answer, "cautions", ()):
        kind = NUMBER.sub("#", reason)
        if kind not in _stated:
            warnings.warn(f"{reason.rstrip('.')}.", ApproximationWarning, stacklevel=depth_of_caller())
            _stated.add(kind)
    return answer
