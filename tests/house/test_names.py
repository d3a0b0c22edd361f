"""Names of a room: loaded when first used, and none of them hides a module."""

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

LAZY = ("aim", "plot", "weights")


@pytest.mark.parametrize("room", LAZY)
def test_no_name_hides_a_module(room):
    for name in import_module(f"onehead.{room}").__all__:
        assert find_spec(f"onehead.{room}.{name}") is None, f"onehead.{room}.{name} is a module and something else"


@pytest.mark.parametrize("room", LAZY)
def test_a_room_loads_nothing_before_it_is_used(room):
    code = "import sys; from importlib import import_module; import_module(sys.argv[1]); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code, f"onehead.{room}"], capture_output=True, text=True, check=True)
    loaded = {name for name in out.stdout.split() if name.split(".")[0] in ("onehead", "numpy", "matplotlib", "numba")}
    assert loaded == {"onehead", "onehead.lazy", f"onehead.{room}"}
