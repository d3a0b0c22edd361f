"""Folders in which something is not allowed."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def folder_that_cannot_be_written(content=None):
    """A folder without write permission; root, whom permissions do not stop, becomes nobody for the time being."""
    folder = Path(tempfile.mkdtemp())
    user = os.geteuid()
    try:
        if content is not None:
            shutil.copy(content, folder)
        folder.chmod(0o555)
        if user == 0:
            os.seteuid(65534)
        yield folder
    finally:
        if user == 0:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)
