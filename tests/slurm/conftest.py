"""Tests that install and start a SLURM of their own run only when asked for: ``pytest -m slurm``."""

import pytest


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "slurm: installs (as root) and starts a private one-node SLURM; `make test-slurm`"
    )


def pytest_collection_modifyitems(config, items):
    if "slurm" not in (config.option.markexpr or ""):
        for item in items:
            if item.get_closest_marker("slurm"):
                item.add_marker(pytest.mark.skip(reason="only with -m slurm (make test-slurm)"))
