"""The program in this process, which saves its start."""

from typing import NamedTuple

import pytest

from onehead.cli.main import run


class Said(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def onehead(capsys):
    """What the program says; a file about one command gives it the word of that command."""

    def call(*words):
        with pytest.raises(SystemExit) as stop:
            run([str(word) for word in words])
        return Said(stop.value.code, *capsys.readouterr())

    return call


@pytest.fixture
def refused(onehead):
    """The one line that a wrong command gets."""

    def call(*words, code=2):
        found = onehead(*words)
        assert found.returncode == code, found
        assert found.stdout == "" and found.stderr.count("\n") == 1 and found.stderr.startswith("onehead: ")
        return found.stderr

    return call
