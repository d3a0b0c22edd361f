"""Speed, memory and growth of cost."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from checks.tool import ASSETS, parser
from threadpoolctl import threadpool_limits

from benchmarks.harness import MODULES, USUAL, Entry, Row, judged, load, measure
from benchmarks.records import RESULTS, changes, identity, markdown, merged, read, sentence, to_json

BUSY = 1.4  # largest over smallest unit of a run from which on a warning is printed


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """What was asked for."""
    made = parser("benchmarks", __doc__, "the numbers into the table of the documentation")
    made.add_argument("--only", action="append", choices=list(MODULES), help="group; may be repeated")
    made.add_argument("--compare", action="store_true", help="what is slower or faster than the stored numbers")
    return made.parse_args(words)


def line(row: Row) -> str:
    """A row as it is measured."""
    cpu = "" if row.cpu is None else f", {row.cpu:.4g} s = {row.cpu_units:.3g} units of the processor"
    cold = "" if row.cold is None else f"  cold {row.cold:.2f} s"
    memory = "" if row.memory_mb is None else f"  {row.memory_mb:.0f} MB"
    note = f"  ({row.note})" if row.note else ""
    return f"{row.what}: {row.seconds:.4g} s = {row.units:.3g} units{cpu}{cold}{memory}  {row.accuracy}{note}"


def measured(entries: Sequence[Entry]) -> list[Row]:
    """Measure on one thread unless ONEHEAD_THREADS says otherwise, and show every row as it comes."""
    os.environ.setdefault("ONEHEAD_THREADS", "1")
    run = identity()
    rows = []
    with threadpool_limits(1, "blas"):
        try:
            for row in measure(entries, run=run):
                print(line(row), file=sys.stderr, flush=True)
                rows.append(row)
        except KeyboardInterrupt:
            print("interrupted: the rows so far are shown, nothing is stored", file=sys.stderr)
            run["interrupted"] = True
    return judged(rows)


def compare(entries: Sequence[Entry]) -> int:
    """Measure rows of ours, and those that look slower once more; print what moved; 1 when something is slower."""
    old = read(RESULTS)
    rows = measured([entry for entry in entries if entry.ours])
    slow = {name for name, text in changes(old, rows).items() if text.startswith("slower")}
    again = {row.what: row for row in measured([entry for entry in entries if entry.what in slow])} if slow else {}
    rows = [min(row, again.get(row.what, row), key=lambda one: one.units) for row in rows]
    moved = sorted(changes(old, rows).values(), reverse=True)
    print("\n".join([*moved, f"{len(rows) - len(moved)} of {len(rows)} rows as before"]))
    units = [row.unit for row in rows]
    if max(units) > BUSY * min(units):
        print(
            f"note: the unit grew {max(units) / min(units):.1f} times in this run: the machine was busy",
            file=sys.stderr,
        )
    return int(any(text.startswith("slower") for text in moved))


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print the table, and store it if asked; 1 when a row failed."""
    wanted = arguments(words)
    groups = wanted.only or list(USUAL)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a run that is ended prints its rows, as with Ctrl-C
    if wanted.compare:
        return compare(load(groups))
    rows = measured(load(groups))
    print(markdown(rows), end="")
    if rows:
        print(sentence(rows[0].run), file=sys.stderr)
    if rows and rows[0].run.get("interrupted"):
        return 130
    if wanted.write:
        page = merged(read(RESULTS), rows, groups)
        RESULTS.write_text(to_json(page))
        (ASSETS / "benchmarks.md").write_text(markdown(page))
    return int(len(rows) == 0 or "failed" in rows[0].run)


if __name__ == "__main__":
    sys.exit(main())
