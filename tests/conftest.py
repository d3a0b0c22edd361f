"""Property tests explore anew on every local run; on CI they repeat the same examples, so that a change is to blame."""

import os
import signal
from typing import NamedTuple

import pytest
from hypothesis import settings

# a shell that starts the tests in the background makes them deaf to Ctrl-C, which some of them send
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="module")
def browser():
    """One per file, not per worker: while its loop lives, no other test could run one."""
    from tests.support.browser import chromium  # the explorer with it, which most files do without

    with chromium() as made:
        yield made


class Said(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def onehead(capsys):
    """What the program says, called in this process, which saves its start; a file about one command gives it the word of that."""
    from onehead.cli.main import run

    def call(*words):
        with pytest.raises(SystemExit) as stop:
            run([str(word) for word in words])
        return Said(stop.value.code, *capsys.readouterr())

    return call
