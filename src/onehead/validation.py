"""Checks of the arguments of public functions; an invalid one raises an exception of `onehead.errors`.

Descriptions of problems validate themselves (`onehead.problem`); the checks here are for all other arguments.

``pydantic.validate_call`` is not used: it accepts ``True`` and ``"1"`` as numbers and copies every list, and its
messages have four lines.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from math import inf, isfinite
from typing import Any, ParamSpec, TypeVar

import numpy as np

from onehead.approximation import public_call
from onehead.errors import InvalidArgument, OneheadError, OutsideDomain, TooLarge, WrongCall
from onehead.sanitize import Unquoted, did_you_mean

TOO_EXTREME = "the values are too extreme for double precision; bring them closer to 1."
MAX_INTEGER = 2**63 - 1
SUBMODULES = ("aim", "sparse", "weights", "sweep")

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
Check = Callable[[str, Any], None]
Seed = int | np.random.Generator  # of all random numbers of a call


def checked(**checks: Check) -> Callable[[Callable[Arguments, Answer]], Callable[Arguments, Answer]]:
    """Decorate a function so that its arguments are checked, by name, before it runs.

    Overflows and failed allocations inside the function become `OutsideDomain` and `TooLarge`. If compiled code cannot
    be loaded because its cache is damaged, the damaged files are removed and the function is called again.

    Examples
    --------
    >>> @checked(dim=integer(2))
    ... def area(dim):
    ...     return dim * dim
    >>> area("two")
    Traceback (most recent call last):
        ...
    onehead.errors.InvalidArgument: dim must be an integer >= 2; got 'two'.
    """

    def decorate(function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        signature = inspect.signature(function)

        @wraps(function)
        def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError as failure:
                raise WrongCall(_describe_wrong_call(function.__name__, signature, kwargs, failure)) from None
            for name, check in checks.items():
                if name in given:
                    check(name, given[name])
            for value in given.values():
                # problems, and results with their problem, refuse parameters that this function does not support
                if hasattr(value, "check_verb"):
                    value.check_verb(function.__name__)
            try:
                answer: Answer
                try:
                    answer = public_call(function, *args, **kwargs)
                except OneheadError:
                    raise
                except Exception:  # a damaged cache of compiled code can raise anything
                    from onehead.numerics.jit import discard_damaged_cache  # loads numba

                    if not discard_damaged_cache():
                        raise
                    answer = public_call(function, *args, **kwargs)
                return answer
            except ArithmeticError as failure:  # allowed values can still overflow
                raise OutsideDomain(TOO_EXTREME) from failure
            except TooLarge:  # of a checked function that this one calls
                raise
            except MemoryError as failure:
                raise TooLarge(str(failure)) from failure

        return call

    return decorate


def _describe_wrong_call(
    function: str, signature: inspect.Signature, given: Mapping[str, Any], failure: TypeError
) -> str:
    """Say what is wrong with a call that does not match the signature of its function."""
    known = [name for name, parameter in signature.parameters.items() if parameter.kind is not parameter.VAR_KEYWORD]
    for name in given:
        if name not in known:
            return f"{function} has no argument {name}{did_you_mean(name, known)}; it has {', '.join(known)}."
    return f"{function} takes {', '.join(known)}; {failure}."


def _require(allowed: str, test: Callable[[Any], bool]) -> Check:
    """Make a check from a predicate and the description of the allowed values."""

    def check(name: str, value: Any) -> None:
        if not test(value):
            raise InvalidArgument(name, value, allowed)

    return check


def describe_class(kind: type) -> str:
    """Name a class with its article and the submodule of onehead that it belongs to.

    Examples
    --------
    >>> from onehead import aim, sparse
    >>> describe_class(aim.Task), describe_class(sparse.Task), describe_class(dict)
    ('an aim Task', 'a sparse Task', 'a dict')
    """
    package, _, path = kind.__module__.partition(".")
    submodule = path.partition(".")[0]
    name = f"{submodule} {kind.__name__}" if package == "onehead" and submodule in SUBMODULES else kind.__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def instance(kind: type, example: str) -> Check:
    """Check for an object of a class; a refused object of onehead is named by its class and not written out."""

    def check(name: str, value: Any) -> None:
        if not isinstance(value, kind):
            found = value if isinstance(value, type) else type(value)
            ours = found.__module__.startswith("onehead.")
            text = f"the class {found.__name__} itself" if isinstance(value, type) else describe_class(found)
            raise InvalidArgument(name, Unquoted(text) if ours else value, f"{describe_class(kind)}, such as {example}")

    return check


def optional(check: Check) -> Check:
    """Extend a check so that it also accepts None."""

    def check_unless_none(name: str, value: Any) -> None:
        if value is not None:
            check(name, value)

    return check_unless_none


def _is_number(value: Any) -> bool:
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        return False
    try:
        return isfinite(value)
    except OverflowError:  # an integer larger than any float
        return False


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def integer(least: int) -> Check:
    """Check for an integer from ``least`` to the largest one of 64 bits."""
    check_least = _require(f"an integer >= {least}", lambda value: _is_integer(value) and bool(value >= least))

    def check(name: str, value: Any) -> None:
        check_least(name, value)
        if value > MAX_INTEGER:
            raise InvalidArgument(name, value, f"an integer from {least} to {MAX_INTEGER}")

    return check


def number(*, above: float, most: float = inf) -> Check:
    """Check for a finite number above a bound, and not above ``most``."""
    limit = f" and <= {most:g}" if most < inf else ""
    return _require(f"a number > {above:g}{limit}", lambda value: _is_number(value) and bool(above < value <= most))


def _items(name: str, values: Any, allowed: str, single: bool) -> list[Any]:
    """Return the items of a list, tuple, range or array; with ``single`` a single value counts as a list of one."""
    if hasattr(values, "__array__"):  # an array, or a column of a table
        array = np.asarray(values)
        if array.ndim > 1:
            raise InvalidArgument(name, Unquoted(f"an array of shape {array.shape}"), allowed)
        return list(array.ravel())
    if isinstance(values, (list, tuple, range)):
        return list(values)
    if single:
        return [values]
    raise InvalidArgument(name, values, allowed)


def _each_item(check_item: Check, allowed: str, single: bool) -> Check:
    """Make a check of a list from the check of one item."""

    def check(name: str, values: Any) -> None:
        for value in _items(name, values, allowed, single):
            check_item(name, value)

    return check


def numbers(*, single: bool = False) -> Check:
    """Check for a list of finite numbers; ``single`` also accepts one number."""
    return _each_item(_require("a list of finite numbers", _is_number), "a list of numbers", single)


def integers(least: int, *, single: bool = False) -> Check:
    """Check for a list of integers not below ``least``; ``single`` also accepts one integer."""
    return _each_item(integer(least), "a list of integers", single)


def one_of(choices: Iterable[str]) -> Check:
    """Check for one of some strings."""
    known = tuple(choices)

    def check(name: str, value: Any) -> None:
        if not (isinstance(value, str) and value in known):
            raise InvalidArgument(name, value, " or ".join(known), known)

    return check


def generator(name: str, value: Any) -> np.random.Generator:
    """Return a random generator: the one given, or a new one from a seed.

    Examples
    --------
    >>> int(generator("rng", 0).integers(10)) == int(np.random.default_rng(0).integers(10))
    True
    """
    if isinstance(value, np.random.Generator):
        return value
    if not _is_integer(value) or value < 0:
        raise InvalidArgument(name, value, "a seed (an integer >= 0) or a numpy.random.Generator")
    return np.random.default_rng(int(value))


def valid_seed(name: str, value: Any) -> None:
    """Check for a seed: an integer not below zero, or a random generator."""
    if not isinstance(value, np.random.Generator):
        if not _is_integer(value):
            raise InvalidArgument(name, value, "an integer >= 0 or a numpy.random.Generator")
        integer(0)(name, value)


def seed_number(seed: Seed) -> int:
    """Return a seed as an integer; a generator gives its next random integer, so that calls in a row differ.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> seed_number(3), seed_number(rng) == seed_number(rng)
    (3, False)
    """
    return int(seed.integers(MAX_INTEGER // 2)) if isinstance(seed, np.random.Generator) else int(seed)


def array_like(name: str, value: Any) -> None:
    """Check for a value that numpy can convert to an array of floats."""
    try:
        np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(name, type(value).__name__, "an array of numbers") from None
