"""Tables of a store, the hash in every row, and the check that a file is as it was written."""

import hashlib
import sqlite3
from contextlib import closing
from functools import cache
from typing import Any

from onehead.sweep.errors import BadStore, damaged_store

SCHEMA_VERSION = 2  # since 2: a hash in every row
APPLICATION_ID = 0x0EAD5EE9  # SQLite header field that tells a store from another program's database

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

# columns that enter the hash of a row; a store of version 1 gets its hashes when it is next written
COLUMNS = {
    "sweeps": "id, call, total, started_at, host, process",
    "points": "key, sweep, position, call, parameters, seed, repeat, state, results, arrays, status, kind, residual, "
    "reason, "
    "duration, version, numerical_version, finished_at",
}
SET_SWEEP_HASHES = f"UPDATE sweeps SET hash = fingerprint({COLUMNS['sweeps']})"
SET_POINT_HASHES = f"UPDATE points SET hash = fingerprint({COLUMNS['points']})"
COUNT_CHANGED_SWEEPS = f"SELECT count(*) FROM sweeps WHERE hash IS NOT fingerprint({COLUMNS['sweeps']})"
COUNT_CHANGED_POINTS = f"SELECT count(*) FROM points NOT INDEXED WHERE hash IS NOT fingerprint({COLUMNS['points']})"
ROWS_LOST = """
SELECT total - (SELECT count(*) FROM points WHERE points.sweep = sweeps.id) FROM sweeps ORDER BY id DESC LIMIT 1
"""


def fingerprint(*values: Any) -> str:
    """Hash of the values of a row.

    Examples
    --------
    >>> fingerprint("key", 1, 0.5, None), fingerprint("key", 1, 0.5, "None") == fingerprint("key", 1, 0.5, None)
    ('4441e68c73bf00da5284e1953f9c1a35', False)
    """
    return hashlib.blake2b(ascii(values).encode(), digest_size=16).hexdigest()


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables of a new store."""
    connection.executescript(
        f"BEGIN IMMEDIATE; {SCHEMA} {HASHES} PRAGMA application_id = {APPLICATION_ID}; "
        f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
    )


def add_hashes(connection: sqlite3.Connection) -> None:
    """Upgrade a store of version 1 to this version in one transaction."""
    connection.executescript(
        f"BEGIN IMMEDIATE; {HASHES} {SET_SWEEP_HASHES}; {SET_POINT_HASHES}; PRAGMA user_version = {SCHEMA_VERSION}; "
        f"COMMIT;"
    )


@cache
def _tables(version: int) -> dict[str, str]:
    """Names and SQL text of the tables and indexes of a store of this version, as SQLite records them."""
    with closing(sqlite3.connect(":memory:")) as memory:
        memory.executescript(SCHEMA)
        if version > 1:
            memory.executescript(HASHES)
        return dict(memory.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall())


def validate_store(connection: sqlite3.Connection, name: str) -> int:
    """Check every page and row of a store and return its version; 0 for an empty file."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    owner = int(connection.execute("PRAGMA application_id").fetchone()[0])
    found = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
    if found and owner != APPLICATION_ID:
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
        or (version > 1 and connection.execute(COUNT_CHANGED_SWEEPS).fetchone()[0])
        or (version > 1 and connection.execute(COUNT_CHANGED_POINTS).fetchone()[0])
        or any(lost for (lost,) in connection.execute(ROWS_LOST))
    ):
        raise damaged_store(name)
    return version
