"""What a single prediction from the shell loads and compiles: nothing that it does not call. Times are in the benchmarks."""

import json

import pytest
from tests.support.programs import python

SCRIPT = """
import contextlib, io, json, sys
from onehead.cli.main import run
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    run(sys.argv[1:])
from numba.core.dispatcher import Dispatcher
rooms = [(name, vars(module)) for name, module in sorted(sys.modules.items()) if name.startswith("onehead.")]
ready = {f"{value.py_func.__module__}.{value.py_func.__name__}" for _, room in rooms for value in room.values()
         if isinstance(value, Dispatcher) and value.overloads}
print(json.dumps([sorted(sys.modules), sorted(ready)]))
"""
HEAVY = ("scipy.optimize", "scipy.stats", "scipy.linalg", "pandas", "matplotlib", "rich", "flask", "dask")


def loaded(*words):
    """Modules in memory after a command, and compiled functions that it made ready."""
    return map(set, json.loads(python(SCRIPT, *words).splitlines()[-1]))


@pytest.mark.parametrize("words", [("aim", "predict", "--alpha", "0.5"), ("sparse", "predict")], ids=" ".join)
def test_a_prediction_loads_what_it_calls(words):
    modules, _ = loaded(*words, "--json")
    # special functions bring scipy.linalg with them in versions of scipy before 1.17
    brought = python("import scipy.special, sys; print(*sys.modules)").split() if "scipy.special" in modules else []
    assert [name for name in HEAVY if name in modules and name not in brought] == []
    assert not any(name.startswith(f"onehead.{words[0]}.training.") and "settings" not in name for name in modules)
    assert not {"onehead.cli.aim_train", "onehead.cli.aim_bayes", "onehead.cli.aim_map"} & modules


def test_two_tokens_load_no_scipy_at_all_but_its_name():
    modules, _ = loaded("aim", "predict", "--alpha", "0.5", "--json")
    assert "scipy.special" not in modules


def test_a_prediction_compiles_what_it_calls():
    """Functions that a kernel calls are compiled with it, and not even loaded once it is kept: at most these are ready."""
    _, ready = loaded("aim", "predict", "--alpha", "0.5", "--json")
    assert {name for name in ready if name.endswith("_sums")} == {
        f"onehead.aim.equations.{name}" for name in ("kernels.origin_sums", "lanes.squared_sums")
    }
    _, ready = loaded("sparse", "predict", "--json")
    names = {name.rpartition(".")[2] for name in ready}
    assert names - {"_start", "_below"} == {"gram", "logistic_prox", "moment", "project"}
