"""What is in a store: its tables, a hash in every row, and whether all of it is as it was written."""

import hashlib
import sqlite3
from contextlib import closing
from functools import cache
from typing import Any

from onehead.sweep.failures import BadStore, damaged

__all__ = ["SEAL_POINTS", "SEAL_SWEEPS", "checked", "fingerprint", "new_store", "with_hashes"]

SCHEMA_VERSION = 2  # since 2: a hash in every row
APPLICATION = 0x0EAD5EE9  # marks the file as ours, so that another program's database is not mistaken for a store

SCHEMA = """
CREATE TABLE sweeps (
    id INTEGER PRIMARY KEY, call TEXT NOT NULL, total INTEGER NOT NULL, started_at TEXT NOT NULL,
    host TEXT NOT NULL, process INTEGER NOT NULL
);
CREATE TABLE points (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, sweep INTEGER NOT NULL, position INTEGER NOT NULL,
    call TEXT NOT NULL, parameters TEXT NOT NULL, seed INTEGER, repeat INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('missing', 'done', 'failed')),
    results TEXT, arrays TEXT, status TEXT, kind TEXT, residual REAL, reason TEXT, duration REAL,
    version TEXT, numerical_version TEXT, finished_at TEXT
);
CREATE INDEX by_position ON points (sweep, position);
CREATE INDEX by_state ON points (sweep, state);
"""
HASHES = """
ALTER TABLE sweeps ADD COLUMN hash TEXT;
ALTER TABLE points ADD COLUMN hash TEXT;
"""

# what the hash of a row is made of; a store of version 1 gets its hashes when it is first written again
COLUMNS = {
    "sweeps": "id, call, total, started_at, host, process",
    "points": "key, sweep, position, call, parameters, seed, repeat, state, results, arrays, status, kind, residual, reason, "
    "duration, version, numerical_version, finished_at",
}
SEAL_SWEEPS = f"UPDATE sweeps SET hash = fingerprint({COLUMNS['sweeps']})"
SEAL_POINTS = f"UPDATE points SET hash = fingerprint({COLUMNS['points']})"
UNSEALED_SWEEPS = f"SELECT count(*) FROM sweeps WHERE hash IS NOT fingerprint({COLUMNS['sweeps']})"
UNSEALED_POINTS = f"SELECT count(*) FROM points NOT INDEXED WHERE hash IS NOT fingerprint({COLUMNS['points']})"
LATEST = """
SELECT total - (SELECT count(*) FROM points WHERE points.sweep = sweeps.id) FROM sweeps ORDER BY id DESC LIMIT 1
"""


def fingerprint(*values: Any) -> str:
    """The hash of a row.

    Examples
    --------
    >>> fingerprint("key", 1, 0.5, None), fingerprint("key", 1, 0.5, "None") == fingerprint("key", 1, 0.5, None)
    ('4441e68c73bf00da5284e1953f9c1a35', False)
    """
    return hashlib.blake2b(ascii(values).encode(), digest_size=16).hexdigest()


def new_store(connection: sqlite3.Connection) -> None:
    """Give a new file its tables."""
    connection.executescript(
        f"BEGIN IMMEDIATE; {SCHEMA} {HASHES} PRAGMA application_id = {APPLICATION}; "
        f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def with_hashes(connection: sqlite3.Connection) -> None:
    """Make a store of version 1 one of this version, all or nothing."""
    connection.executescript(
        f"BEGIN IMMEDIATE; {HASHES} {SEAL_SWEEPS}; {SEAL_POINTS}; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


@cache
def _tables(version: int) -> dict[str, str]:
    """Tables and indexes that a store of some version has, as SQLite writes them down."""
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript(SCHEMA)
        if version > 1:
            memory.executescript(HASHES)
        return dict(memory.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall())


def checked(connection: sqlite3.Connection, name: str) -> int:
    """The version of a store, every page and every row of which is as it was written; 0 of a file that holds nothing yet."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    if found and owner != APPLICATION:
        raise BadStore(name, f"{name} is a database of another program, not a store of sweeps.")
    if version > SCHEMA_VERSION:
        raise BadStore(
            name,
            f"{name} was written by a newer onehead (store version {version}, this one reads up to {SCHEMA_VERSION}); "
            "upgrade onehead or use another file.",
        )
    if version <= 0 and not found:
        return 0
    known = {(table, sql) for _, table, sql in found}
    if (
        version <= 0
        or any(kind == "trigger" for kind, *_ in found)
        or not known >= set(_tables(version).items())
        or connection.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]
        or (version > 1 and connection.execute(UNSEALED_SWEEPS).fetchone()[0])
        or (version > 1 and connection.execute(UNSEALED_POINTS).fetchone()[0])
        or any(lost for (lost,) in connection.execute(LATEST))
    ):
        raise damaged(name)
    return version
