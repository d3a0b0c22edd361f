"""Damaged stores: bits, pages and columns changed at random, and what reading and resuming then do."""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from onehead.errors import OneheadError
from onehead.sweep import Store, sweep

__all__ = ["DAMAGES", "damage", "made", "trial"]

POINTS, PAGE = 120, 4096
CALL = "checks.faults_stores:answer"


def answer(words: dict[str, Any], seed: int) -> dict[str, Any]:
    """A call of our own: quick, with rows that fill pages and some that need more than one."""
    if words["x"] % 7 == 3:
        raise OneheadError(f"no answer at {words['x']}, on purpose.")
    length = 9000 if words["x"] % 29 == 1 else 300
    return {
        "square": words["x"] ** 2,
        "text": "αβγ" * (length // 3),
        "status": "done",
        "kind": "claim",
        "residual": 1e-9,
    }


def _axes(start: int = 0) -> dict[str, list[int]]:
    return {"x": list(range(start, POINTS))}


def made(store: Path) -> None:
    """A whole store of two sweeps, at rest."""
    sweep(CALL, _axes(60), store=store)
    sweep(CALL, _axes(), store=store)


def seen(store: Path) -> Any:
    """Everything that export and status say of a store."""
    with Store.reading(store) as opened:
        return list(opened.rows()), opened.counts(), opened.latest(), opened.stored()


def _flip(store: Path, chance: random.Random) -> str:
    data, count = bytearray(store.read_bytes()), chance.choice((1, 1, 1, 8, 64))
    for _ in range(count):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    store.write_bytes(data)
    return f"{count} bits flipped"


def _cut(store: Path, chance: random.Random) -> str:
    size = chance.choice(
        (chance.randrange(1, store.stat().st_size), PAGE * chance.randrange(1, store.stat().st_size // PAGE))
    )
    with store.open("r+b") as file:
        file.truncate(size)
    return f"cut to {size} bytes"


def _pages(store: Path, chance: random.Random, count: int) -> list[int]:
    return chance.sample(range(store.stat().st_size // PAGE), count)


def _zero(store: Path, chance: random.Random) -> str:
    (page,) = _pages(store, chance, 1)
    data = bytearray(store.read_bytes())
    data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    store.write_bytes(data)
    return f"page {page} zeroed"


def _swap(store: Path, chance: random.Random) -> str:
    one, other = _pages(store, chance, 2)
    data = bytearray(store.read_bytes())
    a, b = (slice(page * PAGE, (page + 1) * PAGE) for page in (one, other))
    data[a], data[b] = data[b], data[a]
    store.write_bytes(data)
    return f"pages {one} and {other} swapped"


def _noise(store: Path, chance: random.Random) -> str:
    start, length = chance.randrange(store.stat().st_size), chance.randrange(1, 5000)
    with store.open("r+b") as file:
        file.seek(start)
        file.write(chance.randbytes(length))
    return f"{length} bytes of noise at {start}"


def _edit(store: Path, chance: random.Random) -> str:
    """Another value in one column of one row, as any program that speaks SQL can write it."""
    with closing(sqlite3.connect(store)) as database, database:
        table = chance.choice(("points", "points", "points", "sweeps"))
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        column = chance.choice(columns)
        ids = [row[0] for row in database.execute(f"SELECT id FROM {table}")]
        row, value = (
            chance.choice(ids),
            chance.choice((None, 7, -0.5, "other", b"\xff\xfe", "failed", "done", "{}", 10**6)),
        )
        try:
            database.execute(f"UPDATE {table} SET {column} = ? WHERE id = ?", (value, row))
        except sqlite3.IntegrityError:  # the tables themselves do not allow it
            database.execute(f"UPDATE {table} SET call = 'aim.tune' WHERE id = ?", (row,))
            column, value = "call", "aim.tune"
    return f"{table}.{column} of row {row} set to {value!r}"


DAMAGES = {"bits": _flip, "cut": _cut, "zeroed page": _zero, "swapped pages": _swap, "noise": _noise, "SQL": _edit}


def damage(store: Path, number: int, seed: int = 0) -> tuple[str, str]:
    """Do damage number so-and-so to a store; gives its kind, and what was done."""
    kind = list(DAMAGES)[number % len(DAMAGES)]
    return kind, DAMAGES[kind](store, random.Random(f"{seed} {number}"))


def _traces(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def trial(whole: Path, folder: Path, number: int, seed: int = 0) -> dict[str, Any]:
    """Damage a copy of a whole store, look at it, and go on with its sweep; says which of the three rules were
    broken.
    """
    truth = seen(whole)
    store = folder / "s.db"
    shutil.copyfile(whole, store)
    kind, done = damage(store, number, seed)
    before = _traces(folder)
    row: dict[str, Any] = {"damage": kind, "done": done, "wrong": False, "changed": False, "raised": ""}
    try:
        found = seen(store)
        row["end"] = "whole"
        row["wrong"] = found != truth
    except OneheadError as failure:
        row["end"] = "refused"
        row["wrong"] = "\n" in str(failure)
    except Exception as failure:  # the point of the check
        row |= {"end": "raised", "raised": f"{type(failure).__name__}: {failure}"[:200]}
    row["changed"] = _traces(folder) != before
    try:
        table = sweep(CALL, _axes(), store=store)
        row["wrong"] |= [r["square"] for r in table if r["state"] == "done"] != [
            r["square"] for r in truth[0] if r["state"] == "done"
        ]
    except OneheadError:
        row["changed"] |= _traces(folder) != before
    except Exception as failure:
        row["raised"] = f"{type(failure).__name__}: {failure}"[:200]
    for path in folder.iterdir():
        path.unlink()
    return row
