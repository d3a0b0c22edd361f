"""The regression table: published numbers of every kind, each with its error, and the rule by which they may change.

    python -m checks.regression            # recompute and compare
    python -m checks.regression --write    # write tests/regression/table.json anew

**How a change is caught.** The tests recompute every row and fail when a number has moved by more than its stated
error. Writing the table keeps every old number that has not moved, so its hash changes only when a published number
did, or when rows were added; and it refuses to store moved numbers until `NUMERICAL` in
`onehead/sweep/storage/version.py` is raised. A second test demands that the newest hash named in a "Numerical changes"
section of CHANGELOG.md, written `table 0123456789ab`, is that of the table. So a moved number fails the tests until
somebody has raised the numerical version, written the table and said so in the changelog.

**Errors.** Every number is computed by two rules: the one users get, and a second one (the finest lattice, other panels
and points). Its error is twice their difference, plus its relative share of the certificate's own estimate, plus 1e-6
of itself for the residual at which solvers stop.
"""

import hashlib
import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any
from unittest import mock

import onehead
from checks.regression_rows import GROUPS, Numbers
from checks.tool import ROOT, parser
from onehead.aim.logits.geometry import Geometry
from onehead.aim.theory.limits import infinite_data as plateau
from onehead.aim.theory.limits import ridgeless
from onehead.sparse.verbs import predict as sparse_theory
from onehead.spectra import atoms, marchenko_pastur
from onehead.sweep.storage.version import NUMERICAL

TABLE = ROOT / "tests" / "regression" / "table.json"
CHANGELOG = ROOT / "CHANGELOG.md"
VERSION = 1  # of the format of the table
STOPPED = 1e-6  # relative: residuals of 3e-7, times the inverse of 1 - F'
OTHERS = 1e-3  # the largest share of the certificate's relative error that counts for numbers it does not speak of
# Another processor or another version of the linear algebra rounds differently, and a solver that stops one step
# earlier or later ends elsewhere within its residual.
SLACK = 2e-6
SMALL = 1e-11  # absolute: a number that is zero but for rounding

USUAL = Geometry.levels.fget  # type: ignore[attr-defined]


def _other_levels(shape: Geometry) -> tuple[int, ...]:
    """The finest lattice at once; of sampled points the next smaller number."""
    return (USUAL(shape)[-1] - (1 if shape.sampled else 0),)


@contextmanager
def second_rule() -> Iterator[None]:
    """Other quadrature everywhere: the finest lattice or another count, other panels, other scramblings."""
    changes = [
        (Geometry, "levels", property(_other_levels)),
        (marchenko_pastur, "NODES_PER_PANEL", 90),
        (atoms, "NODES_PER_PANEL", 24),
        (sparse_theory, "SCRAMBLING_SEED", 1000),
        (import_module("onehead.sparse.verbs.capacity"), "SCRAMBLING_SEED", 1000),  # the name is also that of the verb
    ]
    with ExitStack() as stack:
        for room, name, value in changes:
            stack.enter_context(mock.patch.object(room, name, value))
        _forget()
        yield
    _forget()


def _forget() -> None:
    """Drop what was found by the other rule."""
    ridgeless._interpolation.cache_clear()
    plateau._plateau.cache_clear()


def with_errors(group: str) -> dict[str, dict[str, list[float]]]:
    """The rows of a group: every number with its error."""
    first = list(GROUPS[group]())
    with second_rule():
        other = {name: numbers for name, numbers, _ in GROUPS[group]()}
    table = {}
    for name, numbers, share in first:
        table[name] = {
            key: [_digits(value), _error(key, value, other[name][key], share)] for key, value in numbers.items()
        }
    return table


def _error(key: str, value: float, other: float, share: float | Numbers) -> float:
    """Two digits, rounded up. The certificate speaks of the test error; other numbers may be much better known."""
    if isinstance(share, dict):
        own = share[key]
    else:
        own = (share if key.startswith("test_error") else min(share, OTHERS)) * abs(value)
    return float(f"{1.05 * (2.0 * abs(other - value) + own + STOPPED * abs(value) + SMALL):.1e}")


def _digits(value: float) -> float:
    return float(f"{value:.10g}")


def moved(old: dict[str, list[float]], new: Numbers) -> list[str]:
    """The numbers of a row that left their stated error, in words."""
    lost = [f"{key} is gone" for key in old if key not in new]
    found = [f"{key} is new" for key in new if key not in old]
    for key, (value, error) in old.items():
        if key in new and not abs(new[key] - value) <= error + SLACK * abs(value) + SMALL:
            found.append(f"{key} {value!r} → {new[key]!r}, error {error:.1e}")
    return lost + found


def compare(group: str, table: dict[str, Any]) -> list[str]:
    """Recompute a group and say what moved."""
    stored = table["groups"].get(group, {})
    complaints, seen = [], set()
    for name, numbers, _ in GROUPS[group]():
        seen.add(name)
        if name in stored:
            complaints += [f"{name}: {text}" for text in moved(stored[name], numbers)]
        else:
            complaints.append(f"{name}: not in the table")
    return complaints + [f"{name}: no longer computed" for name in stored if name not in seen]


def fingerprint(table: dict[str, Any]) -> str:
    """A short hash of all numbers and of the numerical version."""
    text = json.dumps([table["numerical"], table["groups"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def named_in_changelog(text: str) -> str | None:
    """The newest hash of a table in a "Numerical changes" section."""
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
        if section.startswith("Numerical changes"):
            found = re.search(r"`?table ([0-9a-f]{12})`?", section)
            if found:
                return found.group(1)
    return None


def load() -> dict[str, Any]:
    """The stored table."""
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def _merged(old: dict[str, Any], new: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """New rows, but the old numbers wherever they have not moved; and the names of rows that have."""
    rows, changed = {}, []
    for name, numbers in new.items():
        same = name in old and not moved(old[name], {key: pair[0] for key, pair in numbers.items()})
        rows[name] = old[name] if same else numbers
        if name in old and not same:
            changed.append(name)
    return rows, changed


def write() -> int:
    """Write the table; refuse when numbers moved and the numerical version did not."""
    old = load() if TABLE.exists() else {"groups": {}, "numerical": None}
    groups, changed = {}, []
    for group in GROUPS:
        print(group, file=sys.stderr)
        rows, names = _merged(old["groups"].get(group, {}), with_errors(group))
        groups[group] = rows
        changed += names
    if changed and old["numerical"] == NUMERICAL:
        print(
            "These numbers moved; raise NUMERICAL in src/onehead/sweep/storage/version.py first:", *changed, sep="\n  "
        )
        return 1
    table: dict[str, Any] = {
        "version": VERSION,
        "onehead": onehead.__version__,
        "numerical": NUMERICAL,
        "groups": groups,
    }
    table["table"] = fingerprint(table)
    TABLE.parent.mkdir(parents=True, exist_ok=True)
    TABLE.write_text(_text(table), encoding="utf-8")
    count = sum(len(rows) for rows in groups.values())
    print(
        f"{count} rows; CHANGELOG.md, under Numerical changes: - Regression table: `table {table['table']}`, {count} "
        f"rows."
    )
    return 0


def _text(table: dict[str, Any]) -> str:
    """JSON with one row per line, so that a change shows as a line."""
    head = ",\n".join(
        f" {json.dumps(key)}: {json.dumps(table[key])}" for key in ("version", "onehead", "numerical", "table")
    )
    groups = []
    for group, rows in table["groups"].items():
        lines = ",\n".join(
            f"   {json.dumps(name, ensure_ascii=False)}: {json.dumps(row)}" for name, row in rows.items()
        )
        groups.append(f"  {json.dumps(group)}: {{\n{lines}\n  }}")
    body = ",\n".join(groups)
    return f'{{\n{head},\n "groups": {{\n{body}\n }}\n}}\n'


def main(words: list[str] | None = None) -> int:
    """Compare or write."""
    wish = parser("checks.regression", __doc__, "tests/regression/table.json anew").parse_args(words)
    if wish.write:
        return write()
    table, complaints = load(), []
    for group in GROUPS:
        start = time.perf_counter()
        found = compare(group, table)
        known = len(table["groups"].get(group, {}))
        print(f"{group}: {known} rows, {len(found)} moved, {time.perf_counter() - start:.1f} s")
        complaints += found
    print(*complaints, sep="\n")
    return int(bool(complaints))


if __name__ == "__main__":
    sys.exit(main())
