"""The program in this process, which saves its start."""

import pytest

from onehead.cli.main import run


@pytest.fixture
def onehead(capsys):
    """(exit code, standard output, standard error) of the program."""

    def call(*words):
        with pytest.raises(SystemExit) as stop:
            run([str(word) for word in words])
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return call
