"""Compilation: on the first call, with a cache or one warning, and reported at a terminal."""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import pytest
from tests.support.programs import run

import onehead
from onehead.numerics import jit

SOURCE = Path(onehead.__file__).parent

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="about compilation, which is switched off")


@pytest.fixture
def package_without_cache(tmp_path):
    """A copy of the package that cannot be cached: files in place of the cache folders also stop root."""
    copy = tmp_path / "site" / "onehead"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.nb[ic]"))
    for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        (folder / "__pycache__").write_text("no folder")
    return {
        "PYTHONPATH": str(copy.parent),
        "HOME": "/proc/nowhere",
        "XDG_CACHE_HOME": "/proc/nowhere",
        "PYTHONSAFEPATH": "1",
    }


def test_a_read_only_installation_works_and_reports_that_nothing_is_cached(
    tmp_path, package_without_cache, monkeypatch
):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    arguments = ("-m", "onehead", "sparse", "predict", "--model", "pooled", "--json")
    found = run(*arguments, cwd=tmp_path, **package_without_cache)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("{")
    assert found.stderr == f"note: {jit.NO_CACHE}\n"


def test_the_warning_is_given_once_for_all_processes(monkeypatch):
    monkeypatch.delenv(jit.NO_CACHE_REPORTED, raising=False)
    with pytest.warns(RuntimeWarning, match="every process compiles it again"):
        jit._warn_no_cache()
    jit._warn_no_cache()  # a second warning would be an error here
    assert os.environ[jit.NO_CACHE_REPORTED] == "1"  # child processes inherit it
    monkeypatch.delenv(jit.NO_CACHE_REPORTED)


def test_a_function_typed_at_a_prompt_is_compiled_without_a_warning():
    space = {"njit": jit.njit}
    exec("def twice(x):\n    return 2.0 * x\n", space)
    assert jit.njit(cache=True)(space["twice"])(2.0) == 4.0
    assert jit.njit()(lambda x: x + 1)(1) == 2


def test_a_kernel_that_is_not_called_is_not_compiled():
    @jit.njit("float64(float64, float64)")
    def half(x, y):
        return 0.5 * (x - y)

    @jit.njit("float64(float64)")
    def quarter(x):
        return half(half(x, 0), 0)

    assert half.signatures == quarter.signatures == []
    with ThreadPoolExecutor(4) as pool:  # concurrent first calls
        assert list(pool.map(quarter, [8] * 8)) == [2.0] * 8
    assert len(quarter.signatures) == 1
    assert half(3, 1) == 1.0
    with pytest.raises(TypeError):
        half("text", 0.0)


def test_linear_algebra_is_loaded_when_a_kernel_uses_it(tmp_path):
    """Importing numba does not load the BLAS of scipy; a kernel with a matrix product does."""
    text = """
import sys
import numpy as np
from onehead.numerics.jit import njit
assert not {"scipy.linalg", "scipy.linalg.cython_blas"} & set(sys.modules)
@njit("float64[:, ::1](float64[:, ::1])")
def square(x):
    return x @ x
print(square(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist())
assert hasattr(sys.modules["scipy.linalg.cython_blas"], "__pyx_capi__")
"""
    assert run("-c", text, cwd=tmp_path).stdout == "[[7.0, 10.0], [15.0, 22.0]]\n"


def test_all_kernels_are_compiled_by_this_module():
    for path in SOURCE.rglob("*.py"):
        if path.name != "jit.py":
            assert "numba.njit" not in path.read_text(), path
            assert not re.search(
                r"^from (?!onehead\.numerics\.jit).* import .*\bnjit", path.read_text(), re.MULTILINE
            ), path


PROX = "import numpy as np; from onehead.sparse import Logistic; Logistic().prox(np.zeros(2), np.ones(2))"


def stderr_at_a_terminal(**environment):
    """Return what a process writes to standard error if that is a terminal."""
    ours, theirs = os.openpty()
    subprocess.run(
        [sys.executable, "-c", PROX], stderr=theirs, env={**os.environ, **environment}, check=True, timeout=120
    )
    os.close(theirs)
    try:
        return os.read(ours, 1000).decode().replace("\r\n", "\n")
    except OSError:  # closed without output
        return ""
    finally:
        os.close(ours)


def test_the_first_compilation_is_reported_at_a_terminal(tmp_path):
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, *others = stderr_at_a_terminal(**environment).splitlines(keepends=True)
    assert first == jit.COMPILING
    assert all(re.fullmatch(r"onehead: compiled logistic_prox, \d+ s\.\n", line) for line in others)
    assert stderr_at_a_terminal(**environment) == ""  # cached


def test_compilation_is_not_reported_to_a_pipe(tmp_path):
    assert run("-c", PROX, cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path)).stderr == ""
