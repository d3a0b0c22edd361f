"""Time limits of tests grow with the load of the machine."""

import os
from types import SimpleNamespace

import pytest
from tests.support import machine
from tests.support.browser import wait_for_the_machine


@pytest.fixture
def load(monkeypatch):
    """Set the load average per core of a machine that is not slow by itself."""
    monkeypatch.setattr(machine, "_slowness", lambda: 0.9)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    return lambda processes: monkeypatch.setattr(os, "getloadavg", lambda: (2.0 * processes, 0.0, 0.0), raising=False)


@pytest.mark.parametrize(("processes", "seconds"), [(0.2, 30.0), (7.0, 210.0), (50.0, 300.0)])
def test_limits_grow_with_the_load_up_to_five_minutes(load, processes, seconds):
    load(processes)
    assert machine.scaled_seconds(30.0) == pytest.approx(seconds)


def test_every_page_of_a_browser_gets_the_limit(load):
    load(7.0)
    limits = []
    opened = SimpleNamespace(set_default_timeout=limits.append)
    browser = wait_for_the_machine(SimpleNamespace(new_page=lambda: opened, new_context=lambda **_: opened))
    assert browser.new_page() is opened and browser.new_context(viewport=None) is opened
    assert limits == [210_000.0, 210_000.0]  # milliseconds
