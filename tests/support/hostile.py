"""What hostile input looks like: poisoned stores, marks left by unpickling, small checkpoints with strange names."""

import os
import sqlite3

import numpy as np

from onehead.sweep.schema import SEAL_POINTS, fingerprint
from tests.support import programs
from tests.support.checkpoints import KEY, QUERY, written


def poison(path, **columns):
    """Change the first row of a store as an attacker would, who knows how its hash is made."""
    database = sqlite3.connect(path)
    database.create_function("fingerprint", -1, fingerprint)
    for name, value in columns.items():
        database.execute(f"UPDATE points SET {name} = ? WHERE id = 1", (value,))
    database.execute(SEAL_POINTS)
    database.commit()
    database.close()


def program(*words, cwd):
    """Exit code, standard output and standard error of the program, without a traceback."""
    run = programs.program(*words, cwd=cwd)
    assert "Traceback" not in run.stderr, run.stderr[-600:]
    return run.returncode, run.stdout, run.stderr


class Mark:
    """Leaves a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def checkpoint(path, prefix="", more=(), size=4):
    """A small file whose tensors have these names."""
    names = [f"{prefix}{QUERY}", f"{prefix}{KEY}", *more]
    values = np.random.default_rng(0).standard_normal((len(names), size, size)).astype("<f4")
    path.write_bytes(written(dict(zip(names, values, strict=True)), "F32"))
