"""Budgets as ratios, measured in one run: ``python -m benchmarks [--write]``.

A unit is the time of one numpy.exp over ten million doubles on one thread, measured between the rows.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from onehead import aim

PAGE = Path(__file__).parent.parent / "docs" / "assets" / "benchmarks.md"


def best(function: Callable[[], Any], repeats: int) -> float:
    """Shortest of a few runs, seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def unit() -> float:
    """Seconds of one numpy.exp over ten million doubles."""
    x = np.linspace(-3.0, 3.0, 10_000_000)
    return best(lambda: np.exp(x), 5)


def shell(*words: str) -> float:
    """Seconds of a command in a fresh process."""
    return best(lambda: subprocess.run([sys.executable, *words], check=True, capture_output=True), 3)


def rows() -> list[tuple[str, float, str, str]]:
    """(what, seconds, budget, accuracy) for every budget of the theory."""
    found = []
    task, learner = aim.Task(), aim.Learner(weight_decay=0.01)
    for alpha in (0.1, 0.5, 4.0):
        point = aim.predict(task, learner, alpha)
        seconds = best(lambda alpha=alpha: aim.predict(task, learner, alpha), 7)
        error = f"{point.certificate.quadrature_error:.0e}"
        found.append((f"one point, T = 2, alpha = {alpha}, warm", seconds, "1 unit", error))
    near = aim.predict(task, learner, 0.5)
    found.append(
        (
            "the same at 0.52 from its neighbour",
            best(lambda: aim.predict(task, learner, 0.52, near=near), 7),
            "1 unit",
            "",
        )
    )
    for tokens, alpha in ((3, 0.2), (5, 0.05), (8, 0.03)):
        point = aim.predict(aim.Task(tokens=tokens), learner, alpha)
        seconds = best(lambda tokens=tokens, alpha=alpha: aim.predict(aim.Task(tokens=tokens), learner, alpha), 3)
        budget = "10 units" if tokens == 5 else ""
        found.append((f"one point, T = {tokens}, warm", seconds, budget, f"{point.certificate.quadrature_error:.0e}"))
    found.append(("thresholds, warm", best(lambda: aim.thresholds(task, learner), 5), "", "1e-09"))
    found.append(("best weight decay at alpha = 0.5, warm", best(lambda: aim.tune(task, learner, 0.5), 1), "", ""))
    curve = ["-m", "onehead", "aim", "curve", "--alphas", "0.05:2:46", "--json"]
    found.append(("a 46-point curve from the shell, cold", shell(*curve), "10 s", ""))
    found.append(("onehead --version, cold", shell("-m", "onehead", "--version"), "15 x python", ""))
    found.append(("python -c pass", shell("-c", "pass"), "", ""))
    return found


def main() -> None:
    """Print the table; with --write also put it into the documentation."""
    before = unit()
    measured = rows()
    scale = min(before, unit())
    lines = ["| work | seconds | units | budget | error |", "| --- | --- | --- | --- | --- |"]
    lines += [f"| {what} | {s:.3f} | {s / scale:.2f} | {budget} | {error} |" for what, s, budget, error in measured]
    text = "\n".join(lines)
    print(f"one unit is {1e3 * scale:.0f} ms here\n{text}")
    if "--write" in sys.argv:
        PAGE.write_text(text + "\n")


if __name__ == "__main__":
    main()
