"""What a wrong command gets."""

import pytest


@pytest.fixture
def refused(onehead):
    """The one line that a wrong command gets."""

    def call(*words, code=2):
        found = onehead(*words)
        assert found.returncode == code, found
        assert found.stdout == "" and found.stderr.count("\n") == 1 and found.stderr.startswith("onehead: ")
        return found.stderr

    return call
