"""The program, and other Python, in processes of their own."""

import os
import subprocess
import sys


def program(*words, cwd=None, **environment):
    """The finished program."""
    return run("-m", "onehead", *words, cwd=cwd, **environment)


def python(code, *words, cwd=None, **environment):
    """What a fresh interpreter prints."""
    done = run("-c", code, *words, cwd=cwd, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(*words, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
