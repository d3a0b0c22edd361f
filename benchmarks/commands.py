"""Rows of the program as a user meets it: every call is a fresh process, so all times are cold; and all figures,
opt-in.
"""

import json
import tempfile

from benchmarks.harness import Budget, Clock, Finding, row, shell
from onehead.figures.registry import NAMES

PASS = "python -c pass"


def _computes_nothing(
    name: str, *words: str, repeats: int = 7, budget: Budget | None = None, ours: bool = True
) -> None:
    @row("shell", name, budget=budget, repeats=repeats, ours=ours)
    def measure(clock: Clock) -> Finding:
        clock(lambda: shell(*words))
        return Finding("nothing computed")


_computes_nothing(PASS, "-c", "pass", repeats=9, ours=False)
_computes_nothing("onehead --version", "-m", "onehead", "--version", budget=Budget(15.0, PASS))
_computes_nothing("import onehead", "-c", "import onehead")


def _command(words: str, *, repeats: int, budget: Budget | None = None) -> None:
    @row("shell", words, budget=budget, repeats=repeats)
    def measure(clock: Clock) -> Finding:
        return _error(clock(lambda: shell("-m", *words.split(), "--json")))


_command("onehead aim predict --alpha 0.5", budget=Budget(1.0, "s"), repeats=4)
_command("onehead aim curve --alphas 0.05:2:46", budget=Budget(10.0, "s"), repeats=2)
_command("onehead aim curve --alphas log:0.05:4:40 --tuned", budget=Budget(10.0, "s"), repeats=2)
_command("onehead aim map --x alpha=log:0.05:4:30 --y weight-decay=log:1e-4:1:30", budget=Budget(60.0, "s"), repeats=1)
_command("onehead sparse predict", budget=Budget(1.0, "s"), repeats=4)


def _first(name: str, *words: str) -> None:
    @row("shell", f"the first {name} ever: everything compiled", budget=Budget(10.0, "s"), repeats=1)
    def measure(clock: Clock) -> Finding:
        with tempfile.TemporaryDirectory() as empty:
            return _error(clock(lambda: shell("-m", "onehead", *words, "--json", NUMBA_CACHE_DIR=empty)))


_first("aim predict", "aim", "predict", "--alpha", "0.5")
_first("sparse predict", "sparse", "predict")


def _error(text: str) -> Finding:
    """The worst error that the printed rows state of themselves."""
    found = json.loads(text)
    worst = max(line["quadrature_error"] for line in (found if isinstance(found, list) else [found]))
    return Finding(f"{'worst ' if isinstance(found, list) else ''}certificate {worst:.0e}", worst)


def _figures(name: str, own: bool, budget: Budget | None) -> None:
    @row("figures", name, budget=budget, repeats=1)
    def measure(clock: Clock) -> Finding:
        names = [name for name in NAMES if name.startswith("own-") == own]
        with tempfile.TemporaryDirectory() as folder:
            words = ("figures", "make", *names, "--theory", "--out", folder, "--json")
            made = json.loads(clock(lambda: shell("-m", "onehead", *words)))
        points, failed = (sum(one[key] for one in made) for key in ("points", "failed"))
        slow = sorted(made, key=lambda one: -one["seconds"])[:3]
        longest = ", ".join(f"{one['name']} {one['seconds']:.0f} s" for one in slow)
        return Finding(
            f"{failed} of {points} points without an answer", float(failed), f"{len(made)} figures; {longest}"
        )


_figures("every theory curve of both papers, from nothing", False, Budget(120.0, "s"))
_figures("every theory curve of our own figures, from nothing", True, None)
