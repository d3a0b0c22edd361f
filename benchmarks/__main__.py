"""Speed, memory and growth of cost."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from checks.tool import ASSETS, parser
from threadpoolctl import threadpool_limits

from benchmarks.harness import MODULES, USUAL, Entry, Row, judged, load, measure
from benchmarks.records import BASELINE, RESULTS, identity, markdown, merged, read, sentence, to_json


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """What was asked for."""
    made = parser("benchmarks", __doc__, "the numbers into the table of the documentation")
    made.add_argument("--only", action="append", choices=list(MODULES), metavar="GROUP", help=f"one of {', '.join(MODULES)}; may be repeated  [{', '.join(USUAL)}]")  # fmt: skip
    made.add_argument("--baseline", action="store_true", help="keep them as what `make bench-compare` compares with")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the rows as JSON")
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
            print("interrupted: the rows so far are shown, the page and the baseline stay as they are", file=sys.stderr)
            run["interrupted"] = True
    return judged(rows)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print the table, and keep it where that was asked for; 1 when a row failed."""
    wanted = arguments(words)
    groups = wanted.only or list(USUAL)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # whoever ends a long run gets its rows, as with Ctrl-C
    rows = measured(load(groups))
    print(markdown(rows), end="")
    if rows:
        print(sentence(rows[0].run), file=sys.stderr)
    if wanted.json:
        wanted.json.write_text(to_json(rows))
    if rows and rows[0].run.get("interrupted"):
        return 130
    if wanted.write:
        page = merged(read(RESULTS), rows, groups)
        RESULTS.write_text(to_json(page))
        (ASSETS / "benchmarks.md").write_text(markdown(page))
    if wanted.baseline:
        BASELINE.write_text(to_json(merged(read(BASELINE), rows, groups)))
    return int(len(rows) == 0 or "failed" in rows[0].run)


if __name__ == "__main__":
    sys.exit(main())
