"""Whatever is damaged, killed, interrupted, full or done twice: is anything lost, wrong or torn?

    python -m checks.faults [--scale 1.0] [--seed 0] [--store FILE] [--only KIND] [--write]

Answers go to a file of JSON lines, one per trial; a run that was stopped goes on where it was. ``--scale 0.05`` does a
twentieth of every kind. ``--write`` writes the report to docs/assets/faults.md. The exit code is 1 when a rule was
broken.
"""

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checks.faults_files import caches, disturbed, streams
from checks.faults_processes import ctrl_c, disk, killed, twice
from checks.faults_stores import made, trial
from checks.tool import append, parser, read, table, write

STORE = Path("out") / "faults.jsonl"
Trial = Callable[[int, Path, int], dict[str, Any]]


def damaged(number: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """One damaged store."""
    sound = folder.parent / "whole"
    if not sound.exists():
        sound.mkdir()
        made(sound / "s.db")
    row = trial(sound / "s.db", folder, number, seed)
    broken = [name for name in ("wrong", "changed", "raised") if row[name]]
    return {**row, "fault": ", ".join(broken)}


# kind -> how often, what, and what it means that nothing is wrong
KINDS: dict[str, tuple[int, Trial, str]] = {
    "stores": (
        600,
        damaged,
        "damaged stores (bits, cuts, pages, noise, SQL): exported wrong, changed by looking, or a traceback",
    ),
    "kills": (10, killed, "runs killed (`kill -9`) ten times each and resumed: points lost, changed or missing"),
    "keys": (200, ctrl_c, "Ctrl-C at a random moment of a long command: traceback, older file torn, exit code 0"),
    "links": (10, twice, "two runs on one store through a symbolic or a hard link: not refused, or points missing"),
    "disks": (12, disk, "a full disk: old content lost, or no sentence"),
    "names": (
        500,
        disturbed,
        "stores renamed, removed, replaced, overwritten or damaged under a running sweep, a third of them killed, too: "
        "counted points lost, exit code 0 with points missing, or wrong rows",
    ),
    "caches": (12, caches, "a damaged or full cache of compiled code: another answer, or a traceback"),
    "streams": (25, streams, "closed standard streams: work not done, a wrong exit code, or a traceback"),
}


def run(seed: int, scale: float, store: Path, only: str | None) -> list[dict[str, Any]]:
    """Do what is missing from the store; gives all rows."""
    rows = [row for row in read(store) if row["seed"] == seed]
    known = {(row["kind"], row["number"]) for row in rows}
    for kind, (count, function, _) in KINDS.items():
        if only not in (None, kind):
            continue
        with tempfile.TemporaryDirectory() as folder:
            for number in range(max(1, round(count * scale))):
                if (kind, number) in known:
                    continue
                place = Path(folder) / f"trial{number}"
                place.mkdir()
                clock = time.monotonic()
                row = {"kind": kind, "seed": seed, "number": number, **function(number, place, seed)}
                rows.append(row | {"took": round(time.monotonic() - clock, 2)})
                append(store, rows[-1])
                if row["fault"]:
                    print(row)
                print(f"\r{kind} {number + 1}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    """What was done, and what went wrong."""
    lines = []
    for kind, (_, _, meaning) in KINDS.items():
        own = [row for row in rows if row["kind"] == kind]
        count = sum(row.get("kills", 1) for row in own)
        lines.append(
            [
                meaning,
                str(count),
                str(sum(bool(row["fault"]) for row in own)),
                f"{sum(row['took'] for row in own) / 60:.1f}",
            ]
        )
    stores = Counter(row["end"] for row in rows if row["kind"] == "stores")
    pressed = sorted(row["seconds"] for row in rows if row["kind"] == "keys" and row["running"])
    told = [
        table(("what was done: what would be wrong", "times", "wrong", "minutes"), lines, right=(1, 2, 3)),
        f"Of the damaged stores {stores['refused']} were refused and {stores['whole']} read right: the damage lay "
        f"where nothing is kept.",
    ]
    if pressed:
        told.append(
            f"Ctrl-C reached {len(pressed)} commands while they ran; half of them ended within "
            f"{pressed[len(pressed) // 2]:.1f} s, "
            f"the slowest after {pressed[-1]:.1f} s; {sum(row['early'] for row in rows if row['kind'] == 'keys')} "
            f"were hit before "
            "Python had begun to read the program, and ended in its words."
        )
    return "\n\n".join(told)


def main(words: list[str] | None = None) -> int:
    """Run or go on, print the report, and say by the exit code whether a rule was broken."""
    asked = parser("checks.faults", __doc__, "docs/assets/faults.md")
    asked.add_argument("--scale", type=float, default=1.0)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--store", type=Path, default=STORE)
    asked.add_argument("--only", choices=list(KINDS))
    wish = asked.parse_args(words)
    rows = run(wish.seed, wish.scale, wish.store, wish.only)
    write("faults.md", report(rows), wanted=wish.write)
    return int(any(row["fault"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
