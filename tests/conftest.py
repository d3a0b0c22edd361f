"""Settings and fixtures of all tests.

Property tests use new random examples on every local run, and the same examples on CI, so that a failure there is due
to a change.
"""

import os
import signal
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import settings

# a shell that starts the tests in the background makes them ignore Ctrl-C, which some of them send
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


# folders whose tests train, start processes, servers or browsers, or read the whole repository
INTEGRATION = ("app", "cli", "figures", "plot", "project", "slurm", "studies", "sweep", "weights", "training")


def pytest_collection_modifyitems(items):
    """Mark every test as unit or integration, by its folder."""
    for item in items:
        folders = item.path.relative_to(Path(__file__).parent).parts[:-1]
        item.add_marker("integration" if any(name in INTEGRATION for name in folders) else "unit")


@pytest.fixture(scope="module")
def browser():
    """A browser per file, not per worker: while its event loop runs, no other test can start one."""
    from tests.support.browser import chromium  # also imports the explorer, which most tests do not need

    with chromium() as made:
        yield made


class ProgramOutput(NamedTuple):
    """Exit code and output of the program."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def onehead(capsys):
    """Function that runs the program in this process, which saves its start, and returns its output."""
    from onehead.cli.main import run

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            run([str(argument) for argument in arguments])
        return ProgramOutput(stop.value.code, *capsys.readouterr())

    return call
