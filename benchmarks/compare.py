"""What got slower or faster than the stored baseline: ``python -m benchmarks.compare [NEW.json]``.

Rows are compared in units, so that another machine, or the same one on another day, is not a change. A row counts when it
moved by more than 20 % and by more than its noise, the spread of its repeats and the drift of the unit, in both runs together. Without a file the rows of the baseline are
measured now, and those that look slower once more. The exit code is 1 when something is slower.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.__main__ import measured
from benchmarks.harness import ROWS, USUAL, Row, load
from benchmarks.records import BASELINE, read

SMALLEST = 0.2  # relative change that is worth a word
UNREPEATED = 0.5  # spread taken for a row that was measured once
BUSY = 1.4  # largest over smallest unit of a run from which on a warning is printed


class Change(NamedTuple):
    """A row beside its baseline: the relative change in units, and the band within which it says nothing."""

    what: str
    old: float
    new: float
    band: float

    @property
    def change(self) -> float:
        return self.new / self.old - 1.0

    @property
    def slower(self) -> bool:
        return self.change > self.band

    @property
    def faster(self) -> bool:
        return self.old / self.new - 1.0 > self.band

    def __str__(self) -> str:
        return f"{self.what}: {self.old:.3g} -> {self.new:.3g} units ({self.change:+.0%}, noise {self.band:.0%})"


def noise(row: Row) -> float:
    """How far a row may be off: the spread of its repeats and the drift of its unit."""
    return (UNREPEATED if row.spread is None else row.spread) + row.drift


def busy(rows: Iterable[Row]) -> str:
    """A warning when the units of one run are far apart, or nothing."""
    units = [row.unit for row in rows]
    if not units or max(units) < BUSY * min(units):
        return ""
    return (
        f"the unit went from {1e3 * min(units):.0f} to {1e3 * max(units):.0f} ms in this run: the machine was busy, and "
        "changes below a factor of two say little"
    )


def changes(old: Iterable[Row], new: Iterable[Row]) -> list[Change]:
    """Every row of ours that both have."""
    before = {row.what: row for row in old if row.ours}
    return [
        Change(row.what, before[row.what].units, row.units, max(SMALLEST, noise(before[row.what]) + noise(row)))
        for row in new
        if row.what in before
    ]


def best(first: Iterable[Row], second: Iterable[Row]) -> list[Row]:
    """The better of two measurements of each row, in units."""
    again = {row.what: row for row in second}
    return [min(row, again.get(row.what, row), key=lambda one: one.units) for row in first]


def report(found: Sequence[Change]) -> str:
    """Slower rows first, then faster ones, then a count."""
    parts = []
    for title, rows in (("slower", [c for c in found if c.slower]), ("faster", [c for c in found if c.faster])):
        parts += [f"{title}:"] + [f"  {change}" for change in rows] if rows else []
    same = sum(not (change.slower or change.faster) for change in found)
    return "\n".join([*parts, f"{same} of {len(found)} rows as before"])


def fresh(old: Sequence[Row]) -> list[Row]:
    """The rows of a baseline, measured now; those that look slower get a second chance."""
    load(USUAL)
    wanted = [ROWS[row.what] for row in old if row.ours and row.what in ROWS]
    found = measured(wanted)
    slow = {change.what for change in changes(old, found) if change.slower}
    return best(found, measured([entry for entry in wanted if entry.what in slow])) if slow else found


def main(words: Sequence[str]) -> int:
    """Compare, print, and say by the exit code whether something is slower."""
    old = read(BASELINE)
    if not old:
        print(f"there is no baseline yet: python -m benchmarks --baseline writes {BASELINE.name}", file=sys.stderr)
        return 2
    if words and not Path(words[0]).is_file():
        print(f"NEW.json must be a file written by python -m benchmarks --json; got {words[0]}.", file=sys.stderr)
        return 2
    new = read(Path(words[0])) if words else fresh(old)
    found = changes(old, new)
    print(report(found))
    if warning := busy(new):
        print(f"note: {warning}", file=sys.stderr)
    return int(any(change.slower for change in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
