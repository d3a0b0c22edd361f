"""Lines of the theory that the tests run, compiled kernels included.

    python -m checks.coverage [--write]

Compiled functions leave no trace, so there are two kinds of runs, two at a time: all tests of the theory that are not slow
with kernels compiled, and those that look at kernels with compilation switched off, where a test that would take more than
a few seconds is stopped; what it ran until then counts. Ends with 1 when fewer than 97 % of the lines were run or a test
failed.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import coverage

__all__ = ["main"]

ROOT = Path(__file__).parent.parent
OUT = ROOT / "out/coverage"
SOURCE = "src/onehead"
ROOMS = ("aim", "sparse", "spectra", "numerics", "problem.py", "results.py", "errors.py")
GOAL = 97.0
SECONDS = 5.0  # a test without compilation


class Run(NamedTuple):
    """A name, test files, and whether kernels are compiled."""

    name: str
    files: tuple[str, ...]
    compiled: bool = True


RUNS = (
    Run("aim", ("tests/aim/test_losses.py", "tests/aim/test_targets.py", "tests/aim/equations", "tests/aim/solve")),
    Run("aim-verbs", ("tests/aim/verbs", "tests/house/test_rules.py")),
    Run("aim-trained", ("tests/aim/training", "tests/cli")),
    Run("sparse", ("tests/sparse",)),
    Run(
        "others",
        (
            "tests/spectra",
            "tests/numerics",
            "tests/sweep/test_security.py",
            "tests/weights/test_security.py",
            "tests/app/test_security.py",
            "tests/house/test_documents.py",
            "tests/house/test_public_face.py",
        ),
    ),
    Run("kernels-spectra", ("tests/spectra", "tests/numerics"), compiled=False),
    Run(
        "kernels-aim",
        ("tests/aim/equations", "tests/aim/test_losses.py", "tests/sparse/test_kernels.py"),
        compiled=False,
    ),
    Run("kernels-trained", ("tests/aim/training/test_objective.py",), compiled=False),
)


class File(NamedTuple):
    """Counts of one file, and the lines that no test ran, as a text."""

    name: str
    lines: int
    missed: int
    where: str


def main(arguments: list[str] | None = None) -> int:
    """Run everything, combine, print the table."""
    parser = argparse.ArgumentParser(prog="python -m checks.coverage", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", action="append", choices=[run.name for run in RUNS], help="this run; may be repeated")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--keep", action="store_true", help="add to what earlier runs left")
    parser.add_argument("--write", action="store_true", help="write docs/assets/coverage.md")
    given = parser.parse_args(arguments)
    OUT.mkdir(parents=True, exist_ok=True)
    if not given.keep:
        for path in OUT.glob("data*"):
            path.unlink()
    with ThreadPoolExecutor(given.jobs) as pool:
        passed = list(pool.map(_run, [run for run in RUNS if not given.only or run.name in given.only]))
    files = list(_files())
    text = table(files)
    if given.write:
        (ROOT / "docs/assets/coverage.md").write_text(text)
    print(text)
    return 0 if all(passed) and share(files) >= GOAL else 1


def _run(run: Run) -> bool:
    """One run of pytest under coverage; its output goes to a file, failures to stderr."""
    quiet = {"ONEHEAD_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg", "CI": "true"}
    quiet["PYTHONPATH"] = str(ROOT / "src")  # the package beside this file, in whichever copy of the tree
    command = [sys.executable, "-m", "coverage", "run", f"--data-file={OUT / 'data'}", "--parallel-mode"]
    command += [
        f"--include={ROOT / SOURCE}/*",
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
    ]
    if not run.compiled:
        # numpy warns about overflow where compiled code does not
        quiet |= {"NUMBA_DISABLE_JIT": "1", "ONEHEAD_TEST_SECONDS": str(SECONDS)}
        command += ["-p", "checks.limit", "-W", "ignore::RuntimeWarning"]
    log = OUT / f"{run.name}.log"
    files = [file for file in run.files if (ROOT / file).exists()]
    with log.open("w") as out:
        code = subprocess.run(
            [*command, *files], cwd=ROOT, env={**os.environ, **quiet}, stdout=out, stderr=out, check=False
        ).returncode
    lines = log.read_text().splitlines()
    print(f"{run.name}: {lines[-1] if lines else code}", file=sys.stderr, flush=True)
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            print(f"  {line}", file=sys.stderr)
    return code == 0


def _files() -> Iterator[File]:
    """Counts of every file of the theory."""
    data = coverage.Coverage(data_file=str(OUT / "data"), include=[f"{ROOT / SOURCE}/*"])
    data.combine([str(path) for path in OUT.glob("data*")], keep=True)
    data.exclude(r"if TYPE_CHECKING:")
    data.exclude(r"@abstractmethod")
    for path in sorted((ROOT / SOURCE).rglob("*.py")):
        name = str(path.relative_to(ROOT / SOURCE))
        if name.split("/", 1)[0] in ROOMS:
            _, lines, _, missed, where = data.analysis2(str(path))
            yield File(name, len(lines), len(missed), where)


def share(files: list[File]) -> float:
    """Per cent of lines that were run."""
    lines = sum(file.lines for file in files)
    return 100.0 * (lines - sum(file.missed for file in files)) / max(lines, 1)


def table(files: list[File]) -> str:
    """Markdown: the whole, the rooms, and the files that are not complete."""
    lines = [
        f"**{share(files):.2f} %** of {sum(file.lines for file in files):,} lines are run by the tests that are not slow.",
        "",
        "| room | lines | run |",
        "| --- | ---: | ---: |",
    ]
    for room in ROOMS:
        here = [file for file in files if file.name.split("/", 1)[0] == room]
        lines.append(f"| `{room}` | {sum(file.lines for file in here)} | {share(here):.1f} % |")
    lines += ["", "| file | lines | run | lines not run |", "| --- | ---: | ---: | --- |"]
    lines += [f"| `{f.name}` | {f.lines} | {share([f]):.1f} % | {f.where} |" for f in files if f.missed]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
