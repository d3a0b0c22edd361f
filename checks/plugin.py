"""A plugin for pytest: chosen tests only, time limits, and which function each test reaches. ``-p checks.plugin``.

``ONEHEAD_PLAN`` names a JSON file with any of these:

- ``seconds``: a test that takes longer is skipped where it stands, and lines run until then count; with ``late_ends`` the
  whole run ends there, as if the tests that are left had passed;
- ``trace``: where to write seconds and reached functions of every test;
- ``chosen``: the tests to run, in this order, with the seconds after which the process is ended, compiled code or not;
  ``begun`` is the file that says which of them were begun, and ``first`` the seconds until the first.
"""

import ast
import faulthandler
import json
import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import coverage
import pytest

__all__ = ["functions_of"]

SOON = 0.01  # seconds after which a test is stopped that could not be stopped at once
# where coverage looks at a line; it also runs the whole of the tests, in other files
TRACING = tuple(f"/coverage/{name}.py" for name in ("collector", "inorout", "pytracer", "sqldata", "data", "control"))


def pytest_configure(config: pytest.Config) -> None:
    """Hand pytest what the plan asks for."""
    plan = json.loads(Path(os.environ["ONEHEAD_PLAN"]).read_text())
    for word, part in {"seconds": _Limit, "trace": _Tracer, "chosen": _Chooser}.items():
        if word in plan:
            config.pluginmanager.register(part(plan))


class _Limit:
    """Stops tests that take too long."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.seconds, self.late_ends = plan["seconds"], plan.get("late_ends", False)

    def stop(self, _: int, frame: FrameType | None) -> None:
        if self.late_ends:
            os._exit(0)
        while frame is not None:
            if frame.f_code.co_filename.endswith(TRACING):  # it holds its lock, and would hold it for ever
                signal.setitimer(signal.ITIMER_REAL, SOON)
                return
            frame = frame.f_back
        pytest.skip("takes too long without compilation")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        signal.signal(signal.SIGALRM, self.stop)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)


class _Tracer:
    """Notes for every test the functions of the package it runs, and its seconds."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.path, self.source = Path(plan["trace"]), str(Path("src/onehead").resolve())
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
        self.path.write_text(json.dumps({"tests": rows, "failed": self.failed}))


class _Chooser:
    """Runs the tests of a list, in its order, says which one it has begun, and ends the process when one hangs."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.seconds: dict[str, float] = plan["chosen"]
        self.begun = Path(plan["begun"]).open("w", buffering=1)  # noqa: SIM115  (open until the process ends)
        self.ring(plan["first"])

    def ring(self, seconds: float) -> None:
        # a thread that is not Python's: it rings inside compiled loops too
        faulthandler.dump_traceback_later(seconds, exit=True, file=self.begun)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        order = {test: place for place, test in enumerate(self.seconds)}
        items[:] = sorted((i for i in items if i.nodeid in order), key=lambda item: order[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.begun.write(nodeid + "\n")
        self.ring(self.seconds[nodeid])

    def pytest_sessionfinish(self) -> None:
        faulthandler.cancel_dump_traceback_later()


def _function_of_line(path: Path) -> dict[int, str]:
    """Line -> the outermost function or method it belongs to, without the line of ``def``, which an import runs."""
    found: dict[int, str] = {}
    for name, node in functions_of(ast.parse(path.read_text())):
        for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1):
            found[line] = name
    return found


def functions_of(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods with their names, those inside others left out."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    yield f"{node.name}.{part.name}", part
