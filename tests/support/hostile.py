"""Hostile input: tampered stores, pickles with side effects, checkpoints with unusual tensor names."""

import os
import sqlite3

import numpy as np

from onehead.sweep.storage.schema import SET_POINT_HASHES, fingerprint
from tests.support import programs
from tests.support.checkpoints import KEY, QUERY, safetensors_bytes


def poison(path, **columns):
    """Change the first row of a store and recompute its hash, as an attacker would."""
    database = sqlite3.connect(path)
    database.create_function("fingerprint", -1, fingerprint)
    for name, value in columns.items():
        database.execute(f"UPDATE points SET {name} = ? WHERE id = 1", (value,))
    database.execute(SET_POINT_HASHES)
    database.commit()
    database.close()


def program(*arguments, cwd):
    """Run the program; return exit code, standard output and standard error, which must not contain a traceback."""
    run = programs.program(*arguments, cwd=cwd)
    assert "Traceback" not in run.stderr, run.stderr[-600:]
    return run.returncode, run.stdout, run.stderr


class UnpicklingMark:
    """Object that creates a folder when it is unpickled, so that unpickling can be detected."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def checkpoint(path, prefix="", more=(), size=4):
    """Write a small checkpoint file with query and key weights under a prefix, and tensors named ``more``."""
    names = [f"{prefix}{QUERY}", f"{prefix}{KEY}", *more]
    values = np.random.default_rng(0).standard_normal((len(names), size, size)).astype("<f4")
    path.write_bytes(safetensors_bytes(dict(zip(names, values, strict=True)), "F32"))
