"""Folders without write permission, and small disks."""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest


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


@contextmanager
def small_disk(size):
    """Mount a file system of a given size."""
    folder = tempfile.mkdtemp()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, check=False
    )
    try:
        if mounted.returncode != 0:
            pytest.skip("no right to mount a small file system")
        yield Path(folder)
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", folder], check=True)
        Path(folder).rmdir()
