"""Checks that need environments or tools of their own: ``nox --list``; `make compat`, `audit`, `coverage` and `mutants`
call them.

A session with a number such as ``tests-3.12`` runs under that Python, if it is installed.
"""

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.sessions = ["tests", "lowest"]

ROOT = Path(__file__).parent
OUT = ROOT / "out"
ASSETS = ROOT / "docs" / "assets"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("tables", "app", "cluster")
# theory kernels and BLAS use threads of their own; in tests the workers are the parallel part
ONE_THREAD = {"ONEHEAD_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg", "CI": "1", "PYTHONPATH": ""}
# tests of the theory, and those that enter kernels and are quick enough without compilation
THEORY_TESTS = ("tests/aim", "tests/sparse", "tests/spectra", "tests/numerics", "tests/cli")
KERNEL_TESTS = (
    *(f"tests/aim/{name}" for name in ("kernels", "logits", "theory", "test_losses.py", "training/test_objective.py")),
    *("tests/sparse/test_kernels.py", "tests/spectra", "tests/numerics"),
)
# mutated folder -> tests that have to notice
MUTATED = {
    "numerics": ("tests/numerics",),
    "spectra": ("tests/spectra",),
    "sparse": ("tests/sparse",),
    "aim/kernels": ("tests/aim/kernels", "tests/aim/theory"),
    "aim/logits": ("tests/aim/logits", "tests/aim/theory"),
    "aim/theory": ("tests/aim/theory", "tests/aim/solve"),
    "aim/solve": ("tests/aim/solve", "tests/aim/verbs"),
    "aim/verbs": ("tests/aim/verbs",),
}


def lower_bounds() -> list[str]:
    """Lower bounds of the dependencies that users install, each as an exact minor version."""
    needs = [*PROJECT["dependencies"], *(need for name in EXTRAS for need in PROJECT["optional-dependencies"][name])]
    return [re.sub(r"^([\w.-]+)>=([\w.]+)$", r"\1==\2.*", need) for need in needs]


def check_installed(session: nox.Session, suffix: str, *pins: str) -> None:
    """Install a distribution without extras, run the smoke test, then all tests (or those given after ``--``)."""
    folder = Path(session.create_tmp()) / "dist"
    shutil.rmtree(folder, ignore_errors=True)
    session.run(sys.executable, "-m", "hatchling", "build", "-d", str(folder), external=True, silent=True)
    package = next(str(path) for path in folder.iterdir() if path.name.endswith(suffix))
    session.install(*pins, package)
    session.run("python", "checks/smoke.py", env=ONE_THREAD)
    session.install(*pins, f"{package}[{','.join((*EXTRAS, 'dev'))}]")
    tests = session.posargs or ["-n", "2", "--dist", "worksteal"]
    session.run("python", "-m", "pytest", "-p", "no:cacheprovider", *tests, env=ONE_THREAD)


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def tests(session: nox.Session) -> None:
    """The wheel in an empty environment with the newest dependencies."""
    check_installed(session, ".whl", "--upgrade")


@nox.session(python="3.11")
def lowest(session: nox.Session) -> None:
    """The source distribution with the lowest dependencies that pyproject.toml allows."""
    constraints = Path(session.create_tmp()) / "constraints.txt"
    constraints.write_text("\n".join(lower_bounds()) + "\n", encoding="utf-8")
    check_installed(session, ".tar.gz", "--constraint", str(constraints))


@nox.session
def audit(session: nox.Session) -> None:
    """Known vulnerabilities of everything that is pinned; fails also when the index does not know a version."""
    session.install("pip-audit==2.10.1")
    session.run("pip-audit", "--strict", "--disable-pip", "--requirement", "requirements.lock", *session.posargs)


@nox.session(venv_backend="none")
def coverage(session: nox.Session) -> None:
    """Lines of the theory that the fast tests run, kernels included; settings are in pyproject.toml."""
    coverage = (sys.executable, "-m", "coverage")
    run = (*coverage, "run", "-m", "pytest", "-q", "-n", "2", "-m", "not slow", "-p", "no:cacheprovider")
    (OUT / "coverage").mkdir(parents=True, exist_ok=True)
    session.run(*coverage, "erase")
    session.run(*run, *(session.posargs or THEORY_TESTS), env=ONE_THREAD)
    # Compiled functions leave no trace, so tests that enter kernels run once more without compilation, for two seconds
    # each: lines of a kernel are reached in its first steps. Numpy warns about overflow where compiled code does not.
    plain = {**ONE_THREAD, "NUMBA_DISABLE_JIT": "1"}
    limit = ("--timeout", "2", "--timeout-method", "signal", "-W", "ignore::RuntimeWarning", "--tb", "no")
    session.run(*run, *limit, *(session.posargs or KERNEL_TESTS), env=plain, success_codes=[0, 1])
    session.run(*coverage, "combine", "--quiet")
    report = session.run(*coverage, "report", "--format", "markdown", silent=True, success_codes=[0, 2])
    if not session.posargs:
        (ASSETS / "coverage.md").write_text(str(report).strip() + "\n", encoding="utf-8")
    wanted = ("--fail-under", "0") if session.posargs else ()  # the limit is that of all tests
    session.run(*coverage, "report", "--format", "total", *wanted)


@nox.session
def mutants(session: nox.Session) -> None:
    """Random wrong changes in the theory, made by cosmic-ray in a copy of the tree; resumable.

    After ``--``: folders, and how many mutants of each (25 by default).
    """
    folders = [word for word in session.posargs if not word.isdigit()] or list(MUTATED)
    count = next((word for word in session.posargs if word.isdigit()), "25")
    session.install("cosmic-ray==8.7.0")
    work = OUT / "mutants"
    tree = work / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    for name in ("src", "tests", "checks", "docs", "examples", "pyproject.toml", "README.md", "CHANGELOG.md"):
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, target)
    for folder in folders:
        database, config = (work / f"{folder.replace('/', '-')}.{kind}" for kind in ("sqlite", "toml"))
        pytest = f"{sys.executable} -m pytest -x -q -n 0 -p no:cacheprovider -m 'not slow' {' '.join(MUTATED[folder])}"
        settings = {"module-path": f"src/onehead/{folder}", "timeout": 900.0, "test-command": pytest}
        lines = [f"{name} = {json.dumps(value)}" for name, value in (settings | {"excluded-modules": []}).items()]
        config.write_text("\n".join(["[cosmic-ray]", *lines, "[cosmic-ray.distributor]", 'name = "local"', ""]))
        with session.chdir(tree):
            if not database.exists():
                session.run("cosmic-ray", "init", str(config), str(database))
                session.run("python", str(ROOT / "checks/mutants.py"), "sample", str(database), "--count", count)
            # numerics/jit.py gives every state of the files with kernels a folder of its own in this cache, so only
            # their mutants compile; one mutant after the other is there when a kernel is read
            paths = {**ONE_THREAD, "PYTHONPATH": f"{tree / 'src'}:{tree}", "NUMBA_CACHE_DIR": str(work / "cache")}
            session.run("cosmic-ray", "exec", str(config), str(database), env=paths)
    session.run("python", "checks/mutants.py", "report", *map(str, sorted(work.glob("*.sqlite"))))
