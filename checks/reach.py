"""Which test reaches which function, how long it takes, and running a chosen few.

Measured once per test file with `coverage`, and kept beside the results; a function is known by file and name, so that
the map survives edits elsewhere. Compiled functions leave no trace: their tests are those of the functions that name them.
Some tests are quick enough to run with compilation switched off, which saves compiling; there kernels leave a trace too.
"""

import ast
import hashlib
import json
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from checks.plugin import functions_of
from checks.tool import QUIET, Ended, child

__all__ = ["Reach", "failures", "measure", "run_pytest", "run_tests"]

ROOMS = ("aim", "sparse", "spectra", "numerics")
GRACE = 20.0  # seconds on top of three times the usual ones: the machine may be busy
PLAIN_SECONDS = 6.0  # longest test without compilation
COMPILING = 60.0  # more, when kernels must be compiled


def run_pytest(
    tree: Path, words: list[str], plan: dict[str, Any], note: Path, *, compiled: bool, under: tuple[str, ...] = ()
) -> Ended:
    """Tests of a tree that are not slow, with the plugin and its ``plan``, written to ``note``; ``under`` another program."""
    note.write_text(json.dumps(plan))
    command = [sys.executable, *under, "-m", "pytest", "-q", "-n", "0", "-m", "not slow"]
    command += ["-p", "no:cacheprovider", "-p", "checks.plugin"]
    environment = {**QUIET, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    if not compiled:
        environment["NUMBA_DISABLE_JIT"] = "1"
        command += ["-W", "ignore::RuntimeWarning"]  # numpy warns about overflow where compiled code does not
    return child([*command, *words], cwd=tree, ONEHEAD_PLAN=str(note), **environment)


def failures(text: str) -> list[str]:
    """Tests that failed, by what pytest printed."""
    lines = [line for line in text.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return [line.split(" ", 1)[1].split(" - ")[0] for line in lines]


def measure(tree: Path, files: list[str], store: Path, *, compiled: bool = True) -> "Reach":
    """The map for these test files of a tree; only those that changed since the last time are run."""
    known: dict[str, Any] = json.loads(store.read_text()) if store.exists() else {}
    store.parent.mkdir(parents=True, exist_ok=True)
    trace = tree / "trace.json"
    plan = {"trace": str(trace)} | ({} if compiled else {"seconds": PLAIN_SECONDS})
    for place, file in enumerate(files):
        digest = hashlib.sha256((tree / file).read_bytes()).hexdigest()
        if known.get(file, {}).get("digest") == digest:
            continue
        print(f"measuring {file} ({place + 1} of {len(files)})", file=sys.stderr, flush=True)
        trace.unlink(missing_ok=True)
        run = run_pytest(tree, [file], plan, tree / "plan.json", compiled=compiled)
        if not trace.exists():
            raise SystemExit(f"{file} cannot be measured:\n{run.out[-2000:]}{run.err[-2000:]}")
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
                for name, node in functions_of(source):
                    self._note(f"{place}:{name}", node)
                for statement in source.body:
                    if not isinstance(statement, ast.FunctionDef):
                        for name in _assigned(statement):
                            self._note(f"{place}:{name}", statement)

    def _note(self, user: str, node: ast.AST) -> None:
        for part in ast.walk(node):
            word = part.id if isinstance(part, ast.Name) else getattr(part, "attr", None)
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


def _assigned(statement: ast.stmt) -> list[str]:
    """Names that a statement of a module gives to what it makes, of compiled functions among others; no name, where it gives none."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)] or [""]


def run_tests(reach: Reach, tests: list[str], *, compiling: bool) -> tuple[str, str]:
    """("survived" | "killed" | "timeout" | "broken", the test) of a run that stops at the first failure."""
    begun = reach.tree / "begun.txt"
    begun.write_text("")
    more = GRACE + (COMPILING if compiling else 0.0)
    plan: dict[str, Any] = {"begun": str(begun), "first": GRACE + 3.0 * COMPILING}
    plan["chosen"] = {test: 3.0 * reach.seconds[test] + more for test in tests}
    if not reach.compiled:  # a late test is no verdict: the tests with compiled kernels come next
        plan |= {"seconds": PLAIN_SECONDS, "late_ends": True}
    files = sorted({test.split("::")[0] for test in tests})
    run = run_pytest(reach.tree, ["-x", *files], plan, reach.tree / "plan.json", compiled=reach.compiled)
    names, late, _ = begun.read_text().partition("Timeout (")  # what faulthandler writes before it ends the process
    if late:
        return "timeout", (names.splitlines() or [""])[-1]
    if run.code in {0, 5}:  # 5: none of the tests is there any more
        return "survived", ""
    text = (run.out + run.err).strip()
    if run.code == 1 and failures(text):
        return "killed", failures(text)[0]
    if run.code is not None and (run.code in {2, 3, 4} or run.code < 0):  # it cannot be imported, or it crashed
        return "broken", text.splitlines()[-1][:200] if text else f"exit {run.code}"
    raise SystemExit(f"pytest ended with {run.code}:\n{text[-3000:]}")
