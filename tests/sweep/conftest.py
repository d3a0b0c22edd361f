"""Fixtures of the sweep tests."""

import pytest


@pytest.fixture
def store(tmp_path):
    """Path of a new store."""
    return tmp_path / "points.db"
