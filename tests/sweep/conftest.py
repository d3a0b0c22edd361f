"""Where a sweep of a test is kept."""

import pytest


@pytest.fixture
def store(tmp_path):
    return tmp_path / "points.db"
