"""The system's Chromium, and pages that may ask nobody outside."""

import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.explorer import CHROMIUM, FLAGS

needs_chromium = pytest.mark.skipif(
    not Path(CHROMIUM).exists(), reason=f"{CHROMIUM} is not installed; `make setup` as root installs it"
)


@contextmanager
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


@contextmanager
def quiet_page(browser, *inside, **options):
    """A page that blocks what does not begin with ``inside``; in the end nothing was blocked and the console is empty."""
    context = browser.new_context(**options)
    made = context.new_page()
    outside, said = [], []

    def route(route):
        outside.append(route.request.url)
        route.abort()

    # matched in the browser's own process: what is inside does not wait for this one, which may be busy
    context.route(re.compile(f"^(?!{'|'.join(re.escape(start) for start in (*inside, 'data:', 'blob:'))})"), route)
    made.on("console", lambda m: said.append(m.text) if m.type in ("error", "warning") else None)
    made.on("pageerror", lambda error: said.append(str(error)))
    yield made
    context.close()
    assert outside == []
    assert said == []
