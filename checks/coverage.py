"""Lines of the theory that the tests run, compiled kernels included.

    python -m checks.coverage [--write]

Compiled functions leave no trace, so there are two kinds of runs, two at a time: all tests of the theory that are not slow
with kernels compiled, and those that look at kernels with compilation switched off, where a test that would take more than
a few seconds is stopped; what it ran until then counts. Ends with 1 when fewer than 97 % of the lines were run or a test
failed.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import coverage

from checks.reach import failures, run_pytest
from checks.tool import ROOT, parser, table, write

__all__ = ["main"]

OUT = ROOT / "out/coverage"
SOURCE = "src/onehead"
ROOMS = ("aim", "sparse", "spectra", "numerics", "problem.py", "results.py", "errors.py")
GOAL = 97.0
SECONDS = 2.0  # a test without compilation; lines of a kernel are reached in its first turns


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
    words = parser("checks.coverage", __doc__, "docs/assets/coverage.md")
    words.add_argument("--only", action="append", choices=[run.name for run in RUNS], help="this run; may be repeated")
    words.add_argument("--jobs", type=int, default=2, help="runs at a time")
    words.add_argument("--keep", action="store_true", help="add to what earlier runs left")
    given = words.parse_args(arguments)
    OUT.mkdir(parents=True, exist_ok=True)
    if not given.keep:
        for path in OUT.glob("data*"):
            path.unlink()
    with ThreadPoolExecutor(given.jobs) as pool:
        passed = list(pool.map(_run, [run for run in RUNS if not given.only or run.name in given.only]))
    files = list(_files())
    write("coverage.md", report(files), wanted=given.write)
    return 0 if all(passed) and share(files) >= GOAL else 1


def _run(run: Run) -> bool:
    """One run of pytest under coverage; its output goes to a file, failures to stderr."""
    under = ("-m", "coverage", "run", f"--data-file={OUT / 'data'}", "--parallel-mode", f"--include={ROOT / SOURCE}/*")
    files = [file for file in run.files if (ROOT / file).exists()]
    plan = {} if run.compiled else {"seconds": SECONDS}
    ended = run_pytest(ROOT, files, plan, OUT / f"{run.name}.json", compiled=run.compiled, under=under)
    (OUT / f"{run.name}.log").write_text(ended.out + ended.err)
    print(f"{run.name}: {(ended.out.splitlines() or [ended.code])[-1]}", file=sys.stderr, flush=True)
    for test in failures(ended.out):
        print(f"  failed: {test}", file=sys.stderr)
    return ended.code == 0


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


def report(files: list[File]) -> str:
    """Markdown: the whole, the rooms, and the files that are not complete."""
    lines = sum(file.lines for file in files)
    rooms = {room: [file for file in files if file.name.split("/", 1)[0] == room] for room in ROOMS}
    parts = [
        f"**{share(files):.2f} %** of {lines:,} lines are run by the tests that are not slow.",
        table(
            ["room", "lines", "run"],
            [[f"`{room}`", f"{sum(f.lines for f in here)}", f"{share(here):.1f} %"] for room, here in rooms.items()],
            right=(1, 2),
        ),
        table(
            ["file", "lines", "run", "lines not run"],
            [[f"`{f.name}`", f"{f.lines}", f"{share([f]):.1f} %", f.where] for f in files if f.missed],
            right=(1, 2),
        ),
    ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
