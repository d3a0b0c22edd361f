"""Rows of the program as a user meets it: every call is a fresh process, so all times are cold."""

import json
import tempfile

from benchmarks.harness import Budget, Clock, Finding, row, shell

PASS = "python -c pass"


@row("shell", PASS, repeats=9, ours=False)
def nothing(clock: Clock) -> Finding:
    clock(lambda: shell("-c", "pass"))
    return Finding("nothing computed")


@row("shell", "onehead --version", budget=Budget(15.0, PASS), repeats=7)
def version(clock: Clock) -> Finding:
    clock(lambda: shell("-m", "onehead", "--version"))
    return Finding("nothing computed")


@row("shell", "import onehead", repeats=7)
def importing(clock: Clock) -> Finding:
    clock(lambda: shell("-c", "import onehead"))
    return Finding("nothing computed")


@row("shell", "onehead aim predict --alpha 0.5", repeats=4)
def predict(clock: Clock) -> Finding:
    return _error(clock(lambda: shell("-m", "onehead", "aim", "predict", "--alpha", "0.5", "--json")))


@row("shell", "onehead aim curve --alphas 0.05:2:46", budget=Budget(10.0, "s"), repeats=2)
def curve(clock: Clock) -> Finding:
    return _error(clock(lambda: shell("-m", "onehead", "aim", "curve", "--alphas", "0.05:2:46", "--json")))


@row("shell", "onehead sparse predict", repeats=4)
def sparse(clock: Clock) -> Finding:
    return _error(clock(lambda: shell("-m", "onehead", "sparse", "predict", "--json")))


def _first(name: str, *words: str) -> None:
    @row("shell", f"the first {name} ever: everything compiled", repeats=1)
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
