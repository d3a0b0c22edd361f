"""The installed Chromium, and pages that may not request anything from outside."""

import re
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.explorer import CHROMIUM, FLAGS
from tests.support.machine import scaled_seconds

needs_chromium = pytest.mark.skipif(
    not Path(CHROMIUM).exists(), reason=f"{CHROMIUM} is not installed; `make setup` as root installs it"
)


PAGE_SECONDS = 30.0  # a page may take for anything, on an idle machine


def wait_for_the_machine(browser):
    """Give every page and context that the browser opens a time limit that fits the load of the machine."""

    def patient(open_one):
        def opened(*arguments, **options):
            made = open_one(*arguments, **options)
            made.set_default_timeout(1e3 * scaled_seconds(PAGE_SECONDS))
            return made

        return opened

    browser.new_page, browser.new_context = patient(browser.new_page), patient(browser.new_context)
    return browser


@contextmanager
def chromium():
    """Start the browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield wait_for_the_machine(made)
        made.close()


@contextmanager
def quiet_page(browser, *inside, **options):
    """Open a page that may only request addresses beginning with ``inside``; fail on blocked requests and console
    messages.
    """
    context = browser.new_context(**options)
    made = context.new_page()
    blocked, messages = [], []

    def route(route):
        blocked.append(route.request.url)
        route.abort()

    # the pattern is matched in the process of the browser: allowed requests do not wait for this process
    context.route(re.compile(f"^(?!{'|'.join(re.escape(start) for start in (*inside, 'data:', 'blob:'))})"), route)
    made.on("console", lambda m: messages.append(m.text) if m.type in ("error", "warning") else None)
    made.on("pageerror", lambda error: messages.append(str(error)))
    yield made
    context.close()
    assert blocked == []
    assert messages == []
