"""Accessibility of the page: axe-core (vendored for tests) reports nothing; alternative texts, focus order, sizes."""

from pathlib import Path

import pytest
import tests.support
from tests.support.browser import needs_chromium
from tests.support.explorer import until, visit

from onehead.app.views import VIEWS

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = needs_chromium

AXE = (Path(tests.support.__file__).parent / "axe" / "axe.min.js").read_text(encoding="utf-8")
RUN = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations.map((v) => [v.impact, v.id, v.nodes.map((n) => n.target.join(" ")).slice(0, 4)]);
}"""
PAGES = ["view=head", "view=curve", "view=spectrum", "view=map", "view=sparse", "view=checkpoint", "view=curve&embed=1"]
EVERY_PAGE = [
    f"view={name}" + (f"&{view.panel}={panel}" if panel else "")
    for name, view in VIEWS.items()
    for panel in view.panels
]


def test_axe_core_reports_no_violations(page, address):
    for i, query in enumerate(PAGES):
        page.set_viewport_size({"width": 390, "height": 844} if i % 3 == 2 else {"width": 1280, "height": 860})
        visit(page, address, query)
        page.evaluate(
            f"document.documentElement.dataset.theme !== '{'dark' if i % 2 else 'light'}' && "
            f"document.getElementById('theme').click()"
        )
        if query == "view=curve":
            page.click("[data-tour='0']")
        until(page, "onehead.reported === onehead.asked")
        page.evaluate(AXE)
        assert page.evaluate(RUN) == [], query


@pytest.mark.nightly
@pytest.mark.parametrize("query", EVERY_PAGE)
def test_axe_core_reports_no_violations_in_any_theme_or_width(page, address, query):
    """Every view and panel, with all parameters unfolded."""
    visit(page, address, query)
    until(page, "onehead.machine().refusal !== '' || onehead.reported === onehead.asked")
    page.evaluate(AXE)
    for theme in ("light", "dark"):
        page.evaluate(
            "(theme) => document.documentElement.dataset.theme !== theme && document.getElementById('theme').click()",
            theme,
        )
        page.evaluate("document.querySelectorAll('details').forEach((more) => (more.open = true))")
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 860})
            assert page.evaluate(RUN) == [], (theme, width)


def test_every_picture_has_an_alternative_text(page, address):
    for query, phrases in (
        ("view=curve", ("error against sample ratio", "test error (factorised): from", "best possible")),
        ("view=spectrum", ("density against eigenvalue", "zero eigenvalues")),
        (
            "view=head",
            (
                "map of the teacher: 24 by 24 cells",
                "attention of the learner: 8 by 8 cells",
                "Sampled from the theory, not trained",
            ),
        ),
    ):
        visit(page, address, query)
        until(page, "onehead.exact === onehead.asked")
        text = page.get_attribute("#picture", "aria-label")
        assert all(phrase in text for phrase in phrases), text


def test_keyboard_focus_follows_the_order_of_the_page(page, address):
    visit(page, address, "view=curve")
    page.keyboard.press("Tab")
    assert page.inner_text(":focus") == "Skip to the picture"
    order = []
    for _ in range(60):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
    positions = [
        order.index(name) for name in ("reset", "tab-curve", "grip", "train", "slide-alpha", "slide-weight_decay")
    ]
    assert positions == sorted(positions)


def test_controls_and_letters_are_large_enough_on_a_phone(page, address):
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, address, "view=curve")
    small = page.evaluate(
        """[...document.querySelectorAll("button, select, input, a, summary, #grip")].filter((e) => e.offsetParent && !e.closest("svg"))
        .filter((e) => e.getBoundingClientRect().height < 24 && e.type !== "checkbox" && !e.classList.contains("skip")
          && !e.closest("#papers")).map((e) => [e.id || e.className, e.getBoundingClientRect().height])"""
    )
    assert small == []
    letters = page.evaluate(
        """[...document.querySelectorAll("p, label, td, th, button, summary, li, small")].filter((e) => e.offsetParent && e.textContent.trim())
        .map((e) => parseFloat(getComputedStyle(e).fontSize)).reduce((a, b) => Math.min(a, b), 99)"""
    )
    assert letters >= 11.5
