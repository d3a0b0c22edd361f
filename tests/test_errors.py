"""Exceptions survive pickling, so that they reach the caller from another process."""

import copy
import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from pkgutil import walk_packages

import pytest

import onehead
from onehead.errors import InvalidArgument, MissingExtra, NotWritten, OneheadError, SolveError, TooLarge
from onehead.validation import checked

# arguments of the constructors that do not take one sentence; subclasses without a constructor of their own use those
# of their base
ARGUMENTS = {
    InvalidArgument: (("alpha", -1.0, "a number > 0", ["beta"]), {}),
    MissingExtra: (("pandas", "tables"), {}),
    NotWritten: (("curve.csv", "No space left on device"), {}),
    SolveError: (("the iteration stopped.",), {"residual": 0.25}),
    TooLarge: (("Unable to allocate 9 GiB",), {}),
}
VALUES = {Path: Path("file"), float: 0.5, int: 3}  # of other arguments, by type; a string is the name of its argument
BUILT_IN = ("errno", "strerror", "filename", "msg", "name", "path")  # attributes that Python does not keep in __dict__


def subclasses(kind):
    """Return a class and all classes derived from it."""
    return [kind, *(found for child in kind.__subclasses__() for found in subclasses(child))]


@pytest.fixture(scope="module")
def errors():
    """One exception of every class of the package."""
    for module in walk_packages(onehead.__path__, "onehead."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    classes = [kind for kind in subclasses(OneheadError) if kind.__module__.startswith("onehead.")]
    made = []
    for kind in classes:
        owner = next(base for base in kind.__mro__ if "__init__" in vars(base))
        if owner.__module__ == "builtins":
            made.append(kind("one sentence."))
        elif owner in ARGUMENTS:
            args, keywords = ARGUMENTS[owner]
            made.append(kind(*args, **keywords))
        else:
            parameters = inspect.signature(kind).parameters.values()
            made.append(kind(*(VALUES.get(one.annotation, one.name) for one in parameters)))
    return made


def attributes(error):
    """Return all attributes as text, in which nan equals nan."""
    values = {**vars(error), **{name: getattr(error, name) for name in BUILT_IN if hasattr(error, name)}}
    return {name: (type(value), repr(value)) for name, value in values.items()}


def test_every_exception_survives_pickling_and_copying(errors):
    assert len(errors) > 15
    for error in errors:
        error.add_note("a note of the caller")
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert type(again) is type(error)
            assert (str(again), again.args) == (str(error), error.args)
            assert attributes(again) == attributes(error)


def test_the_sentence_of_a_pickled_memory_error_is_not_doubled():
    again = pickle.loads(pickle.dumps(TooLarge("9 GiB")))
    assert str(again) == "the problem does not fit into the memory of this machine (9 GiB); make it smaller."


def test_the_sentence_of_a_memory_error_is_not_doubled_by_nested_functions():
    @checked()
    def inner():
        raise MemoryError("9 GiB")

    @checked()
    def outer():
        inner()

    with pytest.raises(TooLarge) as caught:
        outer()
    assert str(caught.value).count("does not fit") == 1


def test_a_value_that_cannot_be_pickled_is_sent_as_text():
    cyclic = []
    cyclic.append(cyclic)
    for value in (lambda: 0, cyclic):
        error = InvalidArgument("call", value, "the name of a function")
        again = pickle.loads(pickle.dumps(error))
        assert str(again) == str(error)
        assert repr(again.got) == repr(error.got)


def test_an_exception_of_a_worker_process_reaches_the_caller():
    with get_context("spawn").Pool(1) as pool, pytest.raises(InvalidArgument, match="alpha must be") as caught:
        pool.map_async(refuse, [-1.0]).get(timeout=120)
    assert caught.value.got == -1.0


def refuse(alpha):
    raise InvalidArgument("alpha", alpha, "a number > 0")


def predicted(alpha):
    """Test error at one sample ratio, as a user would compute it in a pool of processes."""
    return onehead.aim.predict(onehead.aim.Task(), onehead.aim.Learner(), alpha).test_error


@pytest.mark.slow
def test_a_pool_over_predictions_with_one_bad_value_returns():
    """`multiprocessing.Pool.map` waits for ever if a worker cannot send its exception."""
    with get_context("spawn").Pool(1) as pool, pytest.raises(InvalidArgument, match="alpha must be") as caught:
        pool.map_async(predicted, [0.5, -1.0]).get(timeout=120)
    assert (caught.value.name, caught.value.got) == ("alpha", -1.0)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        good, bad = pool.submit(predicted, 0.5), pool.submit(predicted, -1.0)
        assert good.result(timeout=120) == predicted(0.5)
        assert isinstance(bad.exception(timeout=120), InvalidArgument)
