"""Arguments of verbs, checked where they come in: a wrong one gets one sentence, never a stray exception.

Descriptions of problems check themselves (`onehead.problem`); this is for what a verb takes besides.
"""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from math import isfinite
from typing import Any, ParamSpec, TypeVar

import numpy as np

from onehead.errors import InvalidArgument, OutsideDomain

__all__ = ["an_array", "checked", "instance", "number", "numbers", "one_of", "optional", "whole", "wholes"]

BEYOND = "the values are too extreme for double precision; bring them closer to 1."
LARGEST = 2**63 - 1  # that a processor counts to

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Check = Callable[[str, Any], None]


def checked(**checks: Check) -> Callable[[Callable[Given, Answer]], Callable[Given, Answer]]:
    """Check arguments by their names before a verb runs.

    Examples
    --------
    >>> @checked(dim=whole(2))
    ... def area(dim):
    ...     return dim * dim
    >>> area("two")
    Traceback (most recent call last):
        ...
    onehead.errors.InvalidArgument: dim must be an integer >= 2; got 'two'.
    """

    def around(verb: Callable[Given, Answer]) -> Callable[Given, Answer]:
        signature = inspect.signature(verb)

        @wraps(verb)
        def call(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
            given = signature.bind(*args, **kwargs).arguments
            for name, check in checks.items():
                if name in given:
                    check(name, given[name])
            try:
                return verb(*args, **kwargs)
            except ArithmeticError as failure:  # a value that is allowed, and yet leaves what a float can hold
                raise OutsideDomain(BEYOND) from failure

        return call

    return around


def _must(allowed: str, test: Callable[[Any], bool]) -> Check:
    """The check of what a test tells, said in words."""

    def check(name: str, value: Any) -> None:
        if not test(value):
            raise InvalidArgument(name, value, allowed)

    return check


def instance(kind: type, example: str) -> Check:
    """An object of this class."""
    return _must(f"{kind.__name__}, such as {example}", lambda value: isinstance(value, kind))


def optional(check: Check) -> Check:
    """The same, or nothing at all."""

    def either(name: str, value: Any) -> None:
        if value is not None:
            check(name, value)

    return either


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        return False
    try:
        return isfinite(value)
    except OverflowError:  # an integer beyond every float
        return False


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def whole(least: int) -> Check:
    """An integer not below ``least``, and not beyond what counts anything."""
    check = _must(f"an integer >= {least}", lambda value: _is_whole(value) and bool(value >= least))

    def both(name: str, value: Any) -> None:
        check(name, value)
        if value > LARGEST:
            raise InvalidArgument(name, value, f"an integer from {least} to {LARGEST}")

    return both


def number(*, above: float) -> Check:
    """A finite number above a bound."""
    return _must(f"a number > {above:g}", lambda value: _is_number(value) and bool(value > above))


def _items(name: str, values: Any, allowed: str, single: bool) -> list[Any]:
    """What a list, tuple, range or array holds; where it may, a single value counts as a list of one."""
    if hasattr(values, "__array__"):  # an array, or a column of a table
        return list(np.asarray(values).ravel())
    if isinstance(values, (list, tuple, range)):
        return list(values)
    if single:
        return [values]
    raise InvalidArgument(name, values, allowed)


def _each(item: Check, allowed: str, single: bool) -> Check:
    """The same check for every item of a list."""

    def check(name: str, values: Any) -> None:
        for value in _items(name, values, allowed, single):
            item(name, value)

    return check


def numbers(*, single: bool = False) -> Check:
    """A list of finite numbers; ``single``: or one of them."""
    return _each(_must("a list of finite numbers", _is_number), "a list of numbers", single)


def wholes(least: int, *, single: bool = False) -> Check:
    """A list of integers not below ``least``; ``single``: or one of them."""
    return _each(whole(least), "a list of integers", single)


def one_of(words: Iterable[str]) -> Check:
    """One of these words."""
    known = tuple(words)
    return _must(" or ".join(known), lambda value: isinstance(value, str) and value in known)


def an_array(name: str, value: Any) -> None:
    """Something that numpy reads as numbers."""
    try:
        np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(name, type(value).__name__, "an array of numbers") from None
