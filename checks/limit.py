"""A plugin for pytest: a test that takes longer than ``ONEHEAD_TEST_SECONDS`` is skipped where it stands.

With ``ONEHEAD_LATE_ENDS`` the whole run ends there, as if the tests that are left had passed.
"""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

__all__: list[str] = []


def _stop(*_: Any) -> None:
    if "ONEHEAD_LATE_ENDS" in os.environ:
        os._exit(0)
    pytest.skip("takes too long without compilation")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Ring after the allowed time; lines run until then count."""
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, float(os.environ["ONEHEAD_TEST_SECONDS"]))
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
