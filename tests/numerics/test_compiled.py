"""Without a place to keep compiled code there is no cache, and one line says so."""

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
from onehead.numerics import compiled

SOURCE = Path(onehead.__file__).parent

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="about compilation, which is switched off")


@pytest.fixture
def sealed(tmp_path):
    """A copy of the package in which nothing can be kept: where the caches would lie there is a file, which stops root as well."""
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


def test_a_read_only_installation_works_and_says_that_it_keeps_nothing(tmp_path, sealed, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    words = ("-m", "onehead", "sparse", "predict", "--model", "pooled", "--json")
    found = run(*words, cwd=tmp_path, **sealed)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("{")
    assert found.stderr == f"note: {compiled.SENTENCE}\n"


def test_it_is_said_once_for_all_processes(monkeypatch):
    monkeypatch.delenv(compiled.SAID, raising=False)
    with pytest.warns(RuntimeWarning, match="every process compiles it anew"):
        compiled._say_once()
    compiled._say_once()  # a second warning would be an error here
    assert os.environ[compiled.SAID] == "1"  # which the processes that this one starts inherit
    monkeypatch.delenv(compiled.SAID)


def test_a_function_typed_at_a_prompt_is_compiled_without_a_word():
    space = {"njit": compiled.njit}
    exec("def twice(x):\n    return 2.0 * x\n", space)
    assert compiled.njit(cache=True)(space["twice"])(2.0) == 4.0
    assert compiled.njit()(lambda x: x + 1)(1) == 2


def test_a_kernel_that_is_not_called_is_not_compiled():
    @compiled.njit("float64(float64, float64)")
    def half(x, y):
        return 0.5 * (x - y)

    @compiled.njit("float64(float64)")
    def quarter(x):
        return half(half(x, 0), 0)

    assert half.signatures == quarter.signatures == []
    with ThreadPoolExecutor(4) as pool:  # several ask at once
        assert list(pool.map(quarter, [8] * 8)) == [2.0] * 8
    assert len(quarter.signatures) == 1
    assert half(3, 1) == 1.0
    with pytest.raises(TypeError):
        half("text", 0.0)


def test_linear_algebra_is_loaded_by_who_uses_it(tmp_path):
    """numba asks for scipy's BLAS when it is loaded; it is there when a kernel calls for it."""
    text = """
import sys
import numpy as np
from onehead.numerics.compiled import njit
assert not {"scipy.linalg", "scipy.linalg.cython_blas"} & set(sys.modules)
@njit("float64[:, ::1](float64[:, ::1])")
def square(x):
    return x @ x
print(square(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist())
assert hasattr(sys.modules["scipy.linalg.cython_blas"], "__pyx_capi__")
"""
    assert run("-c", text, cwd=tmp_path).stdout == "[[7.0, 10.0], [15.0, 22.0]]\n"


def test_all_kernels_are_compiled_here():
    for path in SOURCE.rglob("*.py"):
        if path.name != "compiled.py":
            assert "numba.njit" not in path.read_text(), path
            assert not re.search(
                r"^from (?!onehead\.numerics\.compiled).* import .*\bnjit", path.read_text(), re.MULTILINE
            ), path


PROX = "import numpy as np; from onehead.sparse import Logistic; Logistic().prox(np.zeros(2), np.ones(2))"


def said_at_a_terminal(**words):
    """What a process writes on standard error, where that is a terminal."""
    ours, theirs = os.openpty()
    subprocess.run([sys.executable, "-c", PROX], stderr=theirs, env={**os.environ, **words}, check=True, timeout=120)
    os.close(theirs)
    try:
        return os.read(ours, 1000).decode().replace("\r\n", "\n")
    except OSError:  # closed, and nothing in it
        return ""
    finally:
        os.close(ours)


def test_who_waits_at_a_terminal_for_the_first_compilation_is_told(tmp_path):
    words = {"NUMBA_CACHE_DIR": str(tmp_path)}
    first, *others = said_at_a_terminal(**words).splitlines(keepends=True)
    assert first == compiled.COMPILING
    assert all(re.fullmatch(r"onehead: compiled logistic_prox, \d+ s\.\n", line) for line in others)
    assert said_at_a_terminal(**words) == ""  # kept


def test_a_pipe_is_told_nothing_of_it(tmp_path):
    assert run("-c", PROX, cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path)).stderr == ""
