"""Public names of a package are loaded on first use, and none of them is also the name of a module."""

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


def test_old_names_work_and_warn():
    with pytest.warns(DeprecationWarning, match=r"onehead\.aim\.Channel is now onehead\.aim\.Loss"):
        old = onehead.aim.Channel
    assert old is onehead.aim.Loss
    assert "Channel" not in dir(onehead.aim)
