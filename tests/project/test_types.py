"""What users write passes a strict type checker, and what they mistype does not."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import onehead
from onehead import aim, sparse
from onehead.results import Column

ROOT = Path(__file__).parents[2]
README = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL))
USE = """
import onehead as oh
from onehead.sweep import Table

task, head = oh.aim.Task(), oh.aim.Learner()
curve = oh.aim.curve(task, head, [0.2, 0.5], bayes=True)
rank: float = curve[0].rank
part: oh.aim.Curve = curve[1:]
status: tuple[str, ...] = part.status
mean: float = float(curve.test_error.mean() - curve.bayes_test_error.mean())
table: Table = oh.sweep("aim.predict", {"alpha": [0.3]})
"""
# a line of code, and what a type checker says about it
MISTAKES = {
    "curve.test_eror": '"Curve" has no attribute "test_eror"',
    "curve[0].task.nois": '"Task" has no attribute "nois"',
    "oh.swep": 'Module has no attribute "swep"',
    "oh.aim.predit": 'Module has no attribute "predit"',
    "oh.sweep(3, {})": "Argument 1 has incompatible type",
    "oh.aim.Task(nois=0.5)": "Unexpected keyword argument",
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Report of mypy in strict mode by file, from one run, with the configuration that checks the package itself."""
    folder = tmp_path_factory.mktemp("types")
    wrong = USE + "".join(f"print({line})\n" for line in MISTAKES)
    for name, text in {"readme.py": README, "use.py": USE, "wrong.py": wrong}.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = ["-m", "mypy", "--strict", "--no-error-summary", "readme.py", "use.py", "wrong.py"]
    done = subprocess.run(
        [sys.executable, *command, f"--config-file={ROOT / 'pyproject.toml'}", f"--cache-dir={ROOT / '.mypy_cache'}"],
        check=False,
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert not done.stderr
    return {name: [line for line in done.stdout.splitlines() if line.startswith(name)] for name in os.listdir(folder)}


@pytest.mark.slow
def test_the_python_of_the_readme_passes_a_strict_type_checker(reports):
    assert "oh.aim.predict" in README
    assert reports["readme.py"] == []


@pytest.mark.slow
def test_columns_slices_and_calls_of_submodules_have_types(reports):
    assert reports["use.py"] == []


@pytest.mark.slow
def test_a_type_checker_reports_mistyped_names(reports):
    first = USE.count("\n") + 1
    found = {line.split(":")[1]: line for line in reports["wrong.py"] if ": error:" in line}
    for number, message in enumerate(MISTAKES.values(), first):
        assert message in found.get(str(number), ""), message


@pytest.mark.parametrize("package", [aim, sparse])
def test_every_number_of_a_point_is_a_declared_column_of_its_curve(package):
    problem = (package.Task(), package.Learner() if package is aim else package.Protocol())
    curve = package.curve(*problem, [0.5, 1.0], bayes=True)
    numbers = {name for name, value in curve[0].to_dict().items() if isinstance(value, float)}
    declared = {name for name in dir(type(curve)) if isinstance(inspect.getattr_static(type(curve), name), Column)}
    certificate = {"residual", "quadrature_error", *vars(curve[0].certificate)}
    assert numbers - certificate <= declared
    for name in declared - {"zero_one_error", "weight_decay"}:
        assert len(getattr(curve, name)) == 2
        assert name in dir(curve)


def test_a_mistyped_name_is_refused_with_the_name_that_was_meant():
    curve = aim.curve(aim.Task(), aim.Learner(), [0.5])
    with pytest.raises(AttributeError, match="did you mean test_error"):
        _ = curve.test_eror
    with pytest.raises(AttributeError, match="did you mean sweep"):
        _ = onehead.swep
    assert {"aim", "sparse", "sweep", "weights", "plot", "errors", "cite"} <= set(dir(onehead))


def test_the_module_of_sweeps_has_the_names_that_its_class_declares():
    text = (ROOT / "src" / "onehead" / "sweep" / "module.py").read_text(encoding="utf-8")
    assert set(re.findall(r"^        (\w+) = ", text, re.MULTILINE)) - {"__call__"} == set(dir(onehead.sweep))


def test_a_star_import_does_not_replace_builtins():
    for package in (aim, sparse):
        names = {}
        exec(f"from {package.__name__} import *", names)
        assert "predict" in names and "map" not in names
        assert callable(package.map) and "map" in dir(package)
