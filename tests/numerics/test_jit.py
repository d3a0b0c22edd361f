"""Compilation: on the first call, with a cache or one warning, and reported at a terminal."""

import ast
import os
import pickle
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import pytest
from tests.support.folders import small_disk
from tests.support.programs import python, run

import onehead
from onehead.numerics import jit
from onehead.validation import checked

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


def test_the_warning_is_given_once_in_a_process_and_not_in_its_workers(monkeypatch):
    jit._warn_no_cache.cache_clear()
    with pytest.warns(RuntimeWarning, match="every process compiles it again"):
        jit._warn_no_cache()
    jit._warn_no_cache()  # a second warning would be an error here
    jit._warn_no_cache.cache_clear()
    monkeypatch.setattr("multiprocessing.parent_process", lambda: "the process that started this one")
    jit._warn_no_cache()


def test_a_function_typed_at_a_prompt_is_compiled_without_a_warning():
    space = {"njit": jit.njit}
    exec("def twice(x):\n    return 2.0 * x\n", space)
    assert jit.njit(space["twice"])(2.0) == 4.0
    assert jit.njit(cache=False)(lambda x: x + 1)(1) == 2


def test_a_kernel_that_is_not_called_is_not_compiled():
    @jit.njit(cache=False)
    def half(x, y):
        return 0.5 * (x - y)

    @jit.njit("float64(float64)", cache=False)
    def quarter(x):
        return half(half(x, 0), 0)

    assert half.signatures == [] and quarter.kernel is None
    with ThreadPoolExecutor(4) as pool:  # concurrent first calls
        assert list(pool.map(quarter, [8] * 8)) == [2.0] * 8
    assert len(quarter.kernel.signatures) == 1
    with pytest.raises(TypeError):
        quarter("text")


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


def test_every_file_with_kernels_is_part_of_the_name_of_the_cache():
    known = {path for pattern in jit.KERNEL_FILES for path in SOURCE.glob(pattern)}
    assert all(any(SOURCE.glob(pattern)) for pattern in jit.KERNEL_FILES)
    uses = re.compile(r"import .*\b(njit|compile_pointer)\b")
    assert {path for path in SOURCE.rglob("*.py") if uses.search(path.read_text())} <= known


def test_kernels_use_nothing_from_files_outside_the_name_of_the_cache():
    """Constants are compiled into a kernel, so a change of their file has to change the name of the cache."""
    known = {path for pattern in jit.KERNEL_FILES for path in SOURCE.glob(pattern)}
    modules = {"onehead." + ".".join(path.relative_to(SOURCE).with_suffix("").parts) for path in known}
    imported_in_kernels = 0
    for path in known:
        tree = ast.parse(path.read_text())
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        origin = {alias.asname or alias.name: str(node.module) for node in imports for alias in node.names}
        for function in compiled_functions(tree):
            used = {origin.get(node.id, "") for node in ast.walk(function) if isinstance(node, ast.Name)}
            ours = {module for module in used if module.split(".")[0] == "onehead"}
            assert ours <= modules, (path, function.name)
            imported_in_kernels += len(ours)
    assert imported_in_kernels > 100


def compiled_functions(tree):
    """Functions of a file that `njit` decorates."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [found for found in functions if any("njit" in ast.unparse(mark) for mark in found.decorator_list)]


def test_all_kernels_with_a_signature_can_be_compiled_in_advance():
    found = python(
        "from onehead.numerics import jit; names, compiled = [], jit._compiled\n"
        "jit._compiled = lambda f, s, *rest: compiled(f, s, *rest) if s is None else names.append(f.__name__)\n"
        "jit.compile_all(); print(*names)"
    )
    with_signature = [
        function.name
        for path in SOURCE.rglob("*.py")
        for function in compiled_functions(ast.parse(path.read_text()))
        if any(isinstance(mark, ast.Call) and mark.args for mark in function.decorator_list)
    ]
    assert set(with_signature) <= set(found.split())  # a factory makes one or two more
    assert len(with_signature) > 25


def test_a_kernel_is_compiled_again_when_one_that_it_calls_in_another_file_changes(tmp_path, monkeypatch):
    """Numba compares a cached kernel with its own file only."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    copy = tmp_path / "onehead"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.nb[ic]"))
    (copy / "numerics" / "inner.py").write_text(
        "from onehead.numerics.jit import njit\n@njit\ndef inner(x):\n    return 2.0 * x\n"
    )
    (copy / "numerics" / "outer.py").write_text(
        "from onehead.numerics.inner import inner\nfrom onehead.numerics.jit import njit\n"
        "@njit('float64(float64)')\ndef outer(x):\n    return inner(x)\n"
    )
    environment = {"PYTHONPATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "user"), "PYTHONSAFEPATH": "1"}
    text = "from onehead.numerics.outer import outer; print(outer(1.0))"
    assert run("-c", text, cwd=tmp_path, **environment).stdout == "2.0\n"
    inner = copy / "numerics" / "inner.py"
    inner.write_text(inner.read_text().replace("2.0", "3.00"))  # byte code of a file of equal size and second is reused
    assert run("-c", text, cwd=tmp_path, **environment).stdout == "3.0\n"


def test_caches_of_a_few_states_of_the_source_are_kept(tmp_path, monkeypatch):
    for number in range(5):
        monkeypatch.setattr(jit, "_source_name", lambda number=number: f"{jit.FOLDER_PREFIX}{number}")
        jit._folder_of_source.cache_clear()
        assert jit._folder_of_source(str(tmp_path)) == str(tmp_path / f"{jit.FOLDER_PREFIX}{number}")
        os.utime(tmp_path / f"{jit.FOLDER_PREFIX}{number}", (number, number))
    assert sorted(path.name[-1] for path in tmp_path.iterdir()) == ["2", "3", "4"]
    for number in (2, 5):  # a state that is used again is not the next to be removed
        monkeypatch.setattr(jit, "_source_name", lambda number=number: f"{jit.FOLDER_PREFIX}{number}")
        jit._folder_of_source.cache_clear()
        jit._folder_of_source(str(tmp_path))
    jit._folder_of_source.cache_clear()
    assert sorted(path.name[-1] for path in tmp_path.iterdir()) == ["2", "4", "5"]


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


@pytest.fixture(scope="module")
def small_cache(tmp_path_factory):
    """Folder with the cache of a few small kernels."""
    folder = tmp_path_factory.mktemp("cache")
    assert run("-c", PROX, cwd=folder, NUMBA_CACHE_DIR=str(folder)).returncode == 0
    return folder


@pytest.mark.parametrize(("ending", "kept"), [(".nbi", 0.0), (".nbi", 0.5), (".nbc", 0.0), (".nbc", 0.99)])
def test_a_damaged_cache_is_noticed_and_replaced(tmp_path, small_cache, ending, kept):
    shutil.copytree(small_cache, tmp_path / "cache")
    files = sorted((tmp_path / "cache").rglob(f"*{ending}"))
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content[: int(kept * len(content))])
    damaged = {file: file.read_bytes() for file in files}
    found = run("-c", PROX, cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")
    assert any(file.exists() and file.read_bytes() != damaged[file] for file in files)  # replaced
    assert not any(jit._is_damaged(file) for file in (tmp_path / "cache").rglob("*.nb[ic]"))


def test_a_public_function_that_meets_a_damaged_cache_is_called_again(tmp_path, monkeypatch):
    """Kernels without a signature load their cache when they are called, inside of public functions."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    (tmp_path / "kernel-1.nbi").write_bytes(b"")

    @checked()
    def load():
        for path in tmp_path.glob("*.nbi"):
            pickle.loads(path.read_bytes())
        return "loaded"

    assert load() == "loaded" and not list(tmp_path.iterdir())
    (tmp_path / "folder.nbi").mkdir()  # not a file that could be removed
    with pytest.raises(OSError):
        load()


def test_a_full_cache_folder_is_reported_once_and_the_answer_is_printed(tmp_path):
    with small_disk("100k") as folder:
        (folder / "ballast").write_bytes(bytes(90_000))
        found = run("-c", PROX + "; print('done')", cwd=tmp_path, NUMBA_CACHE_DIR=str(folder))
    assert found.returncode == 0 and found.stdout == "done\n"
    assert found.stderr.count(jit.NO_CACHE) == 1


def test_an_installed_package_is_cached_in_a_folder_of_the_user(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    copy = tmp_path / "site" / "onehead"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.nb[ic]"))
    environment = {"PYTHONPATH": str(copy.parent), "XDG_CACHE_HOME": str(tmp_path / "user"), "PYTHONSAFEPATH": "1"}
    assert run("-c", PROX, cwd=tmp_path, **environment).returncode == 0
    assert list((tmp_path / "user" / "onehead").rglob("*.nbi")) and not list(copy.rglob("*.nb[ic]"))


def test_compilation_is_not_reported_to_a_pipe(tmp_path):
    assert run("-c", PROX, cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path)).stderr == ""
