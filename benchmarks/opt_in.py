"""Rows that take many minutes or need a browser: every theory curve of both papers, and the explorer."""

import json
import tempfile
from functools import lru_cache
from pathlib import Path

from benchmarks.app import CHROMIUM, DRAGGED, MOVES, moves, running_server
from benchmarks.harness import Budget, Clock, Finding, Missing, row, shell


@row("figures", "every theory curve of both papers, from nothing", budget=Budget(120.0, "s"), repeats=1)
def figures(clock: Clock) -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        words = ("figures", "make", "all", "--theory", "--out", folder, "--json")
        made = json.loads(clock(lambda: shell("-m", "onehead", *words)))
    points, failed = (sum(one[key] for one in made) for key in ("points", "failed"))
    slow = sorted(made, key=lambda one: -one["seconds"])[:3]
    longest = ", ".join(f"{one['name']} {one['seconds']:.0f} s" for one in slow)
    return Finding(f"{failed} of {points} points without an answer", float(failed), f"{len(made)} figures; {longest}")


@lru_cache(maxsize=1)
def _moved() -> dict[str, tuple[float, float]]:
    """(median, worst) of the slider moves in each view, milliseconds, from one session in a browser."""
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415  (only these rows need a browser)
    except ImportError:
        raise Missing("rows of the explorer are left out: pip install 'onehead[dev]'") from None
    if not Path(CHROMIUM).exists():
        raise Missing(f"rows of the explorer are left out: they need a browser in {CHROMIUM}")
    with running_server() as address, sync_playwright() as playwright:
        found = moves(address, playwright)
    return {view: (median, worst) for view, median, worst in found}


def _view(name: str) -> None:
    @row("app", f"explorer, {name}", budget=Budget(0.2, "s"), repeats=1)
    def measure(clock: Clock) -> Finding:
        median, worst = _moved()[name]
        clock.take(1e-3 * median)
        return Finding("a sketch; the exact picture follows", None, f"median of {MOVES} moves, worst {worst:.0f} ms")


for _name in (f"{view} {panel}".strip() for view, panel in DRAGGED):
    _view(_name)
