"""A single prediction from the shell loads and compiles only what it calls. Times are in the benchmarks."""

import json

import pytest
from tests.support.programs import python

SCRIPT = """
import contextlib, io, json, sys
from onehead.cli.main import run
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    run(sys.argv[1:])
from numba.core.dispatcher import Dispatcher
modules = [(name, vars(module)) for name, module in sorted(sys.modules.items()) if name.startswith("onehead.")]
kernels = [getattr(value, "kernel", value) for _, namespace in modules for value in namespace.values()]
compiled = {f"{kernel.py_func.__module__}.{kernel.py_func.__name__}" for kernel in kernels
         if isinstance(kernel, Dispatcher) and kernel.overloads}
print(json.dumps([sorted(sys.modules), sorted(compiled)]))
"""
HEAVY = ("scipy.optimize", "scipy.stats", "scipy.linalg", "pandas", "matplotlib", "rich", "flask", "dask")


def loaded(*command):
    """Modules that a command imports, and the functions that it compiles or loads from the cache."""
    return map(set, json.loads(python(SCRIPT, *command).splitlines()[-1]))


@pytest.mark.parametrize("command", [("aim", "predict", "--alpha", "0.5"), ("sparse", "predict")], ids=" ".join)
def test_a_prediction_loads_what_it_calls(command):
    modules, _ = loaded(*command, "--json")
    # before version 1.17 scipy.special imports scipy.linalg
    by_scipy_special = (
        python("import scipy.special, sys; print(*sys.modules)").split() if "scipy.special" in modules else []
    )
    assert [name for name in HEAVY if name in modules and name not in by_scipy_special] == []
    assert not any(name.startswith(f"onehead.{command[0]}.training.") and "settings" not in name for name in modules)
    assert not {"onehead.cli.aim.train", "onehead.cli.aim.bayes", "onehead.cli.aim.map"} & modules


def test_two_tokens_do_not_load_scipy_special():
    modules, _ = loaded("aim", "predict", "--alpha", "0.5", "--json")
    assert "scipy.special" not in modules


def test_a_prediction_compiles_what_it_calls():
    """Functions that a kernel calls are compiled with it and are not loaded separately once it is cached."""
    _, compiled = loaded("aim", "predict", "--alpha", "0.5", "--json")
    assert {name for name in compiled if name.endswith("_sums")} == {
        f"onehead.aim.kernels.{name}" for name in ("dense.origin_sums", "two_tokens_simd.two_token_squared_sums")
    }
    _, compiled = loaded("sparse", "predict", "--json")
    names = {name.rpartition(".")[2] for name in compiled}
    assert names - {"_start", "_below"} == {"gram", "logistic_prox", "moment", "project"}
