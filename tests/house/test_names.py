"""Names of a room: loaded when first used, and none of them hides a module."""

from importlib import import_module
from importlib.util import find_spec

import pytest
from tests.support.programs import python

import onehead

LAZY = ("aim", "plot", "weights")


@pytest.mark.parametrize("room", LAZY)
def test_no_name_hides_a_module(room):
    for name in import_module(f"onehead.{room}").__all__:
        assert find_spec(f"onehead.{room}.{name}") is None, f"onehead.{room}.{name} is a module and something else"


@pytest.mark.parametrize("room", LAZY)
def test_a_room_loads_nothing_before_it_is_used(room):
    code = "import sys; from importlib import import_module; import_module(sys.argv[1]); print(*sys.modules)"
    names = python(code, f"onehead.{room}").split()
    loaded = {name for name in names if name.split(".")[0] in ("onehead", "numpy", "matplotlib", "numba")}
    assert loaded == {"onehead", "onehead.lazy", f"onehead.{room}"}


def test_old_names_go_on_working_and_say_the_new_one():
    with pytest.warns(DeprecationWarning, match=r"onehead\.aim\.Channel is now onehead\.aim\.Loss"):
        old = onehead.aim.Channel
    assert old is onehead.aim.Loss
    assert "Channel" not in dir(onehead.aim)
