"""Guess, then see: the reader draws how the error goes on, then the curve and trained heads are shown."""

import numpy as np
import pytest
from tests.support.browser import needs_chromium, quiet_page
from tests.support.explorer import DRAWN, EXACT, until, visit

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = needs_chromium

PEAK = "view=curve&weight_decay=0.001&noise=1&alpha=0.28"
SHOWN = "document.getElementById('picture').data.map((t) => [t.name, [...t.x], [...t.y]])"


def drawn_by_mouse(page):
    """Draw a guess that falls from left to right."""
    box = page.locator("#guess-pad").bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 0.9 * box["height"], steps=12)
    page.mouse.up()


def test_the_curve_is_hidden_until_the_guess_is_drawn(page, address):
    visit(page, address, PEAK)
    until(page, EXACT)
    label = page.get_attribute("#picture", "aria-label")
    page.click("#guess")
    until(page, "oneheadGuess.phase === 'draw' && document.getElementById('picture').data.length === 2")
    (name, x, _), (own, at, flat) = page.evaluate(SHOWN)
    assert name.startswith("test error") and own == "your guess" and len(set(flat)) == 1
    assert max(x) == pytest.approx(at[0]) and at[0] < 0.15 < max(at)  # the peak lies in the part that is hidden
    assert page.evaluate("document.getElementById('picture').layout.shapes.length") == 0  # nor thresholds
    assert not page.is_visible("#numbers") and page.is_disabled("#guess-see")
    assert "hidden" in page.get_attribute("#picture", "aria-label")
    drawn_by_mouse(page)
    guess = page.evaluate("oneheadGuess.guess.y")
    assert all(np.diff(guess[1:]) < 0.0) and guess[0] == pytest.approx(flat[0])
    page.click("#guess-see")
    until(page, "oneheadGuess.phase === 'done'")
    assert "You drew no peak: it rises to 0.5" in page.inner_text("#guess-text")
    until(page, f"document.getElementById('picture').getAttribute('aria-label') === {label!r}")
    assert [row[0] for row in page.evaluate(SHOWN)][-1] == "your guess"
    page.click("#guess-leave")
    until(page, "!document.getElementById('picture').data.some((t) => t.name === 'your guess')")
    assert page.is_visible("#numbers") and page.is_hidden("#guess-row")


def test_the_guess_is_drawn_with_the_keyboard_and_ends_with_another_question(page, address):
    visit(page, address, PEAK)
    until(page, EXACT)
    page.focus("#guess")
    page.keyboard.press("Enter")
    until(page, "document.activeElement.id === 'guess-pad'")
    before = page.evaluate("oneheadGuess.guess.y[3]")
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp", "PageUp"):
        page.keyboard.press(key)
    assert page.evaluate("oneheadGuess.guess.y[3]") > before
    assert page.evaluate("oneheadGuess.guess.y[2]") == before
    assert "sample ratio" in page.get_attribute("#guess-pad", "aria-valuetext")
    page.keyboard.press("Enter")
    until(page, "oneheadGuess.phase === 'done'")
    page.fill("#knob-noise", "0.4")
    page.keyboard.press("Enter")
    until(page, DRAWN)
    assert page.is_hidden("#guess-row") and page.evaluate("oneheadGuess.phase") == ""
    page.click("#tab-spectrum")
    until(page, f"{DRAWN} && onehead.machine().key.startsWith('view=spectrum')")
    assert page.is_hidden("#guess")


def test_reduced_motion_shows_the_curve_at_once_and_an_embedded_page_asks(browser, address):
    with quiet_page(browser, address, viewport={"width": 720, "height": 480}, reduced_motion="reduce") as page:
        page.goto(f"{address}/?{PEAK}&embed=1&guess=1")
        until(page, "oneheadGuess.phase === 'draw'")
        assert page.is_visible("#guess-row") and page.is_hidden("#knobs")
        assert "guess=1" in page.evaluate("onehead.embedCode()")
        drawn_by_mouse(page)
        page.click("#guess-see")
        assert page.evaluate("oneheadGuess.phase") == "done"
        assert "You drew no peak" in page.inner_text("#guess-text")


def test_trained_points_land_one_by_one(page, address):
    visit(page, address, PEAK)
    until(page, EXACT)
    page.evaluate(
        """() => { const now = oneheadDrawing.current, first = now.figure.data[0];
        const x = [0.05, 0.2, 1.0], near = (v) => first.y[first.x.findIndex((a) => a >= v)];
        now.figure.data.push({ type: "scatter", mode: "markers", name: "trained, d = 50, 4 seeds", x: x, y: x.map(near), error_y: { type: "data", array: [0, 0, 0] } }); }"""
    )
    page.click("#guess")
    until(page, "oneheadGuess.phase === 'draw'")
    drawn_by_mouse(page)
    counts = "window.counts"
    page.evaluate(
        """() => { window.counts = []; document.addEventListener("onehead-drawn", () => {
        const t = document.getElementById("picture").data.find((t) => t.name.startsWith("trained")); window.counts.push(t ? t.x.length : -1); }); }"""
    )
    page.click("#guess-see")
    until(
        page, f"{counts}.at(-1) === 3 && document.getElementById('guess-text').textContent.includes('3 trained points')"
    )
    seen = page.evaluate(counts)
    assert {-1, 1, 2, 3} <= set(seen) and seen == sorted(seen)


def test_the_sentence_of_a_guess(page, address):
    """Distance and peaks of guesses whose answer is known."""
    visit(page, address, "view=sparse&sparse_panel=alignment")
    x = np.geomspace(0.1, 4.0, 17).tolist()
    falling = np.linspace(1.0, 0.2, 17).tolist()
    peaked = [1.0, 0.9, 0.8, 0.9, 1.2, 1.6, 1.2, *np.linspace(1.0, 0.2, 10).tolist()]

    def said(guess, truth, threshold=None):
        return page.evaluate(
            "([g, t, at]) => oneheadGuess.verdict(g, at)", [{"x": x, "y": guess, "truth": truth}, 0, threshold]
        )

    assert said(falling, falling).startswith("On average your guess is off by 0 %")
    assert said([1.1 * v for v in falling], falling).startswith("On average your guess is off by 10 %")
    assert said(falling, falling).endswith("without a peak.")
    assert said(peaked, falling).endswith("without the peak that you drew.")
    assert "You drew no peak: it rises to 1.6 at α = 0.32 before it falls." in said(falling, peaked)
    assert "fits every label" in said(falling, peaked, 0.2) and "fits every label" not in said(falling, peaked, 0.5)
    assert "You drew a peak at α = 0.32; it rises to 1.6" in said(peaked, peaked)
