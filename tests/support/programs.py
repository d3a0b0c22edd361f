"""Run the program, or Python code, in a separate process."""

import os
import subprocess
import sys


def program(*arguments, cwd=None, **environment):
    """Run the program and return the finished process."""
    return run("-m", "onehead", *arguments, cwd=cwd, **environment)


def python(code, *arguments, cwd=None, **environment):
    """Run code in a new interpreter and return what it prints."""
    done = run("-c", code, *arguments, cwd=cwd, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(*arguments, cwd=None, **environment):
    """Run Python with these arguments and environment variables."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
