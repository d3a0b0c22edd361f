"""Public names of a package are loaded on first use, documented in full, and none of them is also a module."""

import inspect
import re
from importlib import import_module
from importlib.util import find_spec

import pytest
from tests.support.programs import python

import onehead

LAZY = ("aim", "plot", "weights")


@pytest.mark.parametrize("package", LAZY)
def test_no_public_name_is_also_a_module(package):
    for name in dir(import_module(f"onehead.{package}")):
        assert find_spec(f"onehead.{package}.{name}") is None, (
            f"onehead.{package}.{name} is both a module and a public name"
        )


@pytest.mark.parametrize("package", LAZY)
def test_a_package_loads_nothing_before_it_is_used(package):
    code = "import sys; from importlib import import_module; import_module(sys.argv[1]); print(*sys.modules)"
    names = python(code, f"onehead.{package}").split()
    loaded = {name for name in names if name.split(".")[0] in ("onehead", "numpy", "matplotlib", "numba")}
    assert loaded == {"onehead", "onehead.lazy", f"onehead.{package}"}


def test_old_names_are_not_listed():
    with pytest.warns(DeprecationWarning, match=r"onehead\.plot\.course is now onehead\.plot\.trajectory"):
        old = onehead.plot.course
    assert old is onehead.plot.trajectory
    assert "course" not in dir(onehead.plot)


# public functions that accept whatever they are given
NEVER_RAISE = {"aim.softmax", "weights.bulk_edge", "weights.power_tail"}


@pytest.mark.parametrize("package", ["aim", "sparse", "weights", "sweep", "plot"])
def test_public_functions_document_parameters_results_errors_and_an_example(package):
    module = import_module(f"onehead.{package}")
    functions = {name: getattr(module, name) for name in module.__all__}
    missing = []
    for name, function in functions.items():
        if inspect.isclass(function) or inspect.ismodule(function) or not callable(function):
            continue
        sections = set(re.findall(r"^(\w+)\n-{3,}$", inspect.getdoc(function) or "", re.MULTILINE))
        wanted = {"Examples", "Yields" if inspect.isgeneratorfunction(inspect.unwrap(function)) else "Returns"}
        wanted |= {"Parameters"} if inspect.signature(function).parameters else set()
        wanted |= {"Raises"} if f"{package}.{name}" not in NEVER_RAISE else set()
        missing += [f"{package}.{name}: {section}" for section in sorted(wanted - sections)]
    assert missing == []
