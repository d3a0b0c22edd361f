"""Arguments of verbs, checked where they come in: a wrong one gets one sentence, never a stray exception.

Descriptions of problems check themselves (`onehead.problem`); this is for what a verb takes besides.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from math import isfinite
from typing import Any, ParamSpec, TypeVar

import numpy as np

from onehead.errors import InvalidArgument, OutsideDomain, TooLarge, WrongCall
from onehead.text import Bare, likely

__all__ = [
    "Check",
    "an_array",
    "called",
    "checked",
    "generator",
    "instance",
    "number",
    "numbers",
    "one_of",
    "optional",
    "whole",
    "wholes",
]

BEYOND = "the values are too extreme for double precision; bring them closer to 1."
LARGEST = 2**63 - 1  # that a processor counts to
HALVES = ("aim", "sparse", "weights", "sweep")

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
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError as failure:
                raise WrongCall(_misused(verb.__name__, signature, kwargs, failure)) from None
            for name, check in checks.items():
                if name in given:
                    check(name, given[name])
            try:
                return verb(*args, **kwargs)
            except ArithmeticError as failure:  # a value that is allowed, and yet leaves what a float can hold
                raise OutsideDomain(BEYOND) from failure
            except MemoryError as failure:
                raise TooLarge(str(failure)) from failure

        return call

    return around


def _misused(verb: str, signature: inspect.Signature, given: Mapping[str, Any], failure: TypeError) -> str:
    """What is wrong with a call that does not fit its function."""
    known = [name for name, one in signature.parameters.items() if one.kind is not one.VAR_KEYWORD]
    for name in given:
        if name not in known:
            return f"{verb} has no argument {name}{likely(name, known)}; it has {', '.join(known)}."
    return f"{verb} takes {', '.join(known)}; {failure}."


def _must(allowed: str, test: Callable[[Any], bool]) -> Check:
    """The check of what a test tells, said in words."""

    def check(name: str, value: Any) -> None:
        if not test(value):
            raise InvalidArgument(name, value, allowed)

    return check


def called(kind: type) -> str:
    """A class in words, with the half of the library that it belongs to.

    Examples
    --------
    >>> from onehead import aim, sparse
    >>> called(aim.Task), called(sparse.Task), called(dict)
    ('an aim Task', 'a sparse Task', 'a dict')
    """
    package, _, half = kind.__module__.partition(".")
    room = half.partition(".")[0]
    name = f"{room} {kind.__name__}" if package == "onehead" and room in HALVES else kind.__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def instance(kind: type, example: str) -> Check:
    """An object of this class; one of ours that is another is named with its half, and not written out."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, kind):
            own = value if isinstance(value, type) else type(value)
            ours = own.__module__.startswith("onehead.")
            said = f"the class {own.__name__} itself" if isinstance(value, type) else called(own)
            raise InvalidArgument(name, Bare(said) if ours else value, f"{called(kind)}, such as {example}")

    return check


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
        found = np.asarray(values)
        if found.ndim > 1:
            raise InvalidArgument(name, Bare(f"an array of shape {found.shape}"), allowed)
        return list(found.ravel())
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

    def check(name: str, value: Any) -> None:
        if not (isinstance(value, str) and value in known):
            raise InvalidArgument(name, value, " or ".join(known), known)

    return check


def generator(name: str, value: Any) -> np.random.Generator:
    """A source of random numbers, from one or from a seed.

    Examples
    --------
    >>> int(generator("rng", 0).integers(10)) == int(np.random.default_rng(0).integers(10))
    True
    """
    if isinstance(value, np.random.Generator):
        return value
    if not _is_whole(value) or value < 0:
        raise InvalidArgument(name, value, "a seed (an integer >= 0) or a numpy.random.Generator")
    return np.random.default_rng(int(value))


def an_array(name: str, value: Any) -> None:
    """Something that numpy reads as numbers."""
    try:
        np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(name, type(value).__name__, "an array of numbers") from None
