"""Fixtures of the command-line tests."""

import pytest


@pytest.fixture
def refused(onehead):
    """Run a command that must be refused, and return its one line on standard error."""

    def call(*arguments, code=2):
        found = onehead(*arguments)
        assert found.returncode == code, found
        assert found.stdout == "" and found.stderr.count("\n") == 1 and found.stderr.startswith("onehead: ")
        return found.stderr

    return call
