"""Folders without write permission."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def read_only_folder(content=None):
    """Yield a folder without write permission; root, for whom permissions do not count, acts as user nobody
    meanwhile.
    """
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
