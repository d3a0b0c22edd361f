"""Which test reaches which function, how long it takes, and running a chosen few: a small plugin for pytest.

Measured once per test file with `coverage`, and kept beside the results; a function is known by file and name, so that
the map survives edits elsewhere. Compiled functions leave no trace: their tests are those of the functions that name them.
Some tests are quick enough to run with compilation switched off, which saves compiling; there kernels leave a trace too.
"""

import ast
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Reach", "measure", "run_tests"]

TRACE, CHOSEN, BEGUN = "ONEHEAD_REACH_TRACE", "ONEHEAD_REACH_CHOSEN", "ONEHEAD_REACH_BEGUN"
ROOMS = ("aim", "sparse", "spectra", "numerics")
GRACE = 20.0  # seconds on top of three times the usual ones: the machine may be busy
PLAIN_SECONDS = 6.0  # longest test without compilation
COMPILING = 60.0  # more, when kernels must be compiled


# --- inside pytest: `-p checks.reach`


class _Tracer:
    """Notes for every test the lines of the package it runs, and its seconds."""

    def __init__(self, path: str) -> None:
        import coverage  # noqa: PLC0415

        self.path, self.source = path, str(Path("src/onehead").resolve())
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: list[str] = []
        self.coverage = coverage.Coverage(data_file=None, include=[f"{self.source}/*"])
        self.coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration
        if not report.passed:  # skipped ones say nothing
            self.failed.append(report.nodeid)

    def pytest_runtest_logfinish(self) -> None:
        self.coverage.switch_context("")

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        data = self.coverage.get_data()
        reached: dict[str, set[str]] = defaultdict(set)
        for file in data.measured_files():
            name, functions = os.path.relpath(file, self.source), _function_of_line(Path(file))
            for line, tests in data.contexts_by_lineno(file).items():
                for test in tests:
                    if test and line in functions:
                        reached[test].add(f"{name}:{functions[line]}")
        rows = {test: {"seconds": round(s, 3), "reach": sorted(reached[test])} for test, s in self.seconds.items()}
        Path(self.path).write_text(json.dumps({"tests": rows, "failed": self.failed}))


class _Chooser:
    """Runs the tests of a list, in its order, and says which one it has begun."""

    def __init__(self, path: str) -> None:
        self.order = {test: place for place, test in enumerate(json.loads(Path(path).read_text()))}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self.order), key=lambda item: self.order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        with open(os.environ[BEGUN], "a") as file:
            file.write(nodeid + "\n")


def pytest_configure(config: Any) -> None:
    """Hand the plugin that the environment asks for to pytest."""
    if TRACE in os.environ:
        config.pluginmanager.register(_Tracer(os.environ[TRACE]))
    if CHOSEN in os.environ:
        config.pluginmanager.register(_Chooser(os.environ[CHOSEN]))


def _function_of_line(path: Path) -> dict[int, str]:
    """Line -> the outermost function or method it belongs to, without the line of ``def``, which an import runs."""
    found: dict[int, str] = {}
    for name, node in _functions(ast.parse(path.read_text())):
        for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1):
            found[line] = name
    return found


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods with their names, those inside others left out."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    yield f"{node.name}.{part.name}", part


# --- outside


def _environment(tree: Path, *, compiled: bool) -> dict[str, str]:
    quiet = {"ONEHEAD_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg", "CI": "true"}
    if not compiled:
        quiet |= {"NUMBA_DISABLE_JIT": "1", "ONEHEAD_TEST_SECONDS": str(PLAIN_SECONDS)}
    return {**os.environ, **quiet, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": "1"}


def _pytest(*, compiled: bool) -> list[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "checks.reach"]
    # numpy warns about overflow where compiled code does not
    return command if compiled else [*command, "-p", "checks.limit", "-W", "ignore::RuntimeWarning"]


def measure(tree: Path, files: list[str], store: Path, *, compiled: bool = True) -> "Reach":
    """The map for these test files of a tree; only those that changed since the last time are run."""
    known: dict[str, Any] = json.loads(store.read_text()) if store.exists() else {}
    store.parent.mkdir(parents=True, exist_ok=True)
    for place, file in enumerate(files):
        digest = hashlib.sha256((tree / file).read_bytes()).hexdigest()
        if known.get(file, {}).get("digest") == digest:
            continue
        print(f"measuring {file} ({place + 1} of {len(files)})", file=sys.stderr, flush=True)
        trace = tree / "trace.json"
        trace.unlink(missing_ok=True)
        run = subprocess.run(
            [*_pytest(compiled=compiled), "-m", "not slow", file],
            cwd=tree,
            env={**_environment(tree, compiled=compiled), TRACE: str(trace)},
            capture_output=True,
            text=True,
            check=False,
        )
        if not trace.exists():
            raise SystemExit(f"{file} cannot be measured:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
        answer = json.loads(trace.read_text())
        for test in answer["failed"]:
            print(f"left out, does not pass without any change: {test}", file=sys.stderr)
            answer["tests"].pop(test, None)
        known[file] = {"digest": digest, "tests": answer["tests"]}
        store.write_text(json.dumps(known))
    return Reach(tree, {test: row for file in files for test, row in known[file]["tests"].items()}, compiled=compiled)


class Reach:
    """The tests of a function, cheapest first."""

    def __init__(self, tree: Path, tests: dict[str, dict[str, Any]], *, compiled: bool = True) -> None:
        self.tree, self.compiled = tree, compiled
        self.seconds = {test: float(row["seconds"]) for test, row in tests.items()}
        self.tests: dict[str, set[str]] = defaultdict(set)  # function -> tests
        for test, row in tests.items():
            for function in row["reach"]:
                self.tests[function].add(test)
        self.named_by: dict[str, set[str]] = defaultdict(set)  # a word -> functions that use it
        for room in ROOMS:
            for path in sorted((tree / "src/onehead" / room).rglob("*.py")):
                source, place = ast.parse(path.read_text()), path.relative_to(tree / "src/onehead")
                for name, node in _functions(source):
                    self._note(f"{place}:{name}", node)
                for statement in source.body:
                    if not isinstance(statement, ast.FunctionDef):
                        self._note(f"{place}:", statement)

    def _note(self, user: str, node: ast.AST) -> None:
        for child in ast.walk(node):
            word = child.id if isinstance(child, ast.Name) else getattr(child, "attr", None)
            if word:
                self.named_by[word].add(user)

    def of(self, path: str, function: str, limit: float) -> list[str]:
        """Tests that reach a function of a file, cheapest first, up to ``limit`` seconds of their usual time."""
        chosen, total = [], 0.0
        for test in sorted(self._reaching(path, function), key=lambda test: (self.seconds[test], test)):
            total += self.seconds[test]
            if total > limit:
                break
            chosen.append(test)
        return chosen

    def _reaching(self, path: str, function: str) -> set[str]:
        parts = function.split(".")
        for name in (".".join(parts[:2]), parts[0]):
            if self.tests.get(f"{path}:{name}"):
                return self.tests[f"{path}:{name}"]
        if not self.compiled:
            return set()
        # compiled, or no function at all: go up to whoever names it until one is found that leaves a trace
        seen: set[str] = set()
        found: set[str] = set()
        level = {f"{path}:{function}"}
        for _ in range(8):
            level = {user for place in level for user in self._users(place)} - seen
            seen |= level
            for place in level:
                found |= self.tests.get(place, set())
        return found or {test for place, tests in self.tests.items() if place.startswith(f"{path}:") for test in tests}

    def _users(self, place: str) -> set[str]:
        path, name = place.split(":")
        if self.tests.get(place):
            return set()
        if name:
            return self.named_by.get(name.split(".")[-1], set())
        return {other for other in self.tests if other.startswith(f"{path}:")}


def run_tests(reach: Reach, tests: list[str], *, compiling: bool) -> tuple[str, str]:
    """("survived" | "killed" | "timeout" | "broken", the test) of a run that stops at the first failure."""
    tree = reach.tree
    chosen, begun = tree / "chosen.json", tree / "begun.txt"
    chosen.write_text(json.dumps(tests))
    begun.write_text("")
    files = sorted({test.split("::")[0] for test in tests})
    log = tree / "log.txt"
    with log.open("w") as out:
        process = subprocess.Popen(
            [*_pytest(compiled=reach.compiled), "-x", *files],
            cwd=tree,
            # without compilation a late test is no verdict: the tests with compiled kernels come next
            env={
                **_environment(tree, compiled=reach.compiled),
                CHOSEN: str(chosen),
                BEGUN: str(begun),
                "ONEHEAD_LATE_ENDS": "1",
            },
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
        try:
            current, deadline = "", time.monotonic() + GRACE + 3.0 * COMPILING  # to the first test
            while process.poll() is None:
                time.sleep(0.1)
                names = begun.read_text().splitlines()
                if names and names[-1] != current:
                    current = names[-1]
                    wait = 3.0 * reach.seconds[current] + GRACE + (COMPILING if compiling else 0.0)
                    deadline = time.monotonic() + wait
                if time.monotonic() > deadline:
                    return "timeout", current
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()
    if process.returncode in {0, 5}:  # 5: none of the tests is there any more
        return "survived", ""
    text = log.read_text()
    failed = [
        line.split(" ", 1)[1].split(" - ")[0] for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))
    ]
    if process.returncode == 1 and failed:
        return "killed", failed[0]
    if process.returncode in {2, 3, 4} or process.returncode < 0:  # the package cannot be imported, or it crashed
        return "broken", text.strip().splitlines()[-1][:200] if text.strip() else f"exit {process.returncode}"
    raise SystemExit(f"pytest ended with {process.returncode}:\n{text[-3000:]}")
