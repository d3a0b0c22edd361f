"""Groups of rows, and the modules that hold them; importing one registers its rows."""

from collections.abc import Iterable
from importlib import import_module

from benchmarks.harness import ROWS, Entry

MODULES = {
    "theory": "benchmarks.theory",
    "shell": "benchmarks.commands",
    "training": "benchmarks.training",
    "plain": "benchmarks.baselines",
    "growth": "benchmarks.growth",
    "figures": "benchmarks.opt_in",
    "app": "benchmarks.opt_in",
    "weights": "benchmarks.weights",
}
USUAL = ("theory", "shell", "training", "plain", "growth")  # about ten minutes; the others only when asked for


def load(groups: Iterable[str]) -> list[Entry]:
    """The rows of some groups, in the order of registration."""
    groups = list(groups)
    for group in groups:
        import_module(MODULES[group])
    return [entry for group in groups for entry in ROWS.values() if entry.group == group]
