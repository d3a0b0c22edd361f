"""The documentation built by ``make docs``, opened as files in Chromium with all network access blocked."""

from pathlib import Path

import pytest
from tests.support.browser import needs_chromium, quiet_page

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

SITE = Path(__file__).parents[2] / "site"
PAGES = sorted(page.relative_to(SITE).as_posix() for page in SITE.rglob("*.html") if page.name != "404.html")
pytestmark = [pytest.mark.slow, needs_chromium, pytest.mark.skipif(not PAGES, reason="no site; `make docs` builds it")]
# formulas that are not rendered, not recognised, or wrong; images that did not load;
# formulas wider than a column (on a telephone they scroll); pages wider than the screen
FAULTS = """() => ({
    formulas: [...document.querySelectorAll('.arithmatex')].filter(e => !e.querySelector('.katex')).map(e => e.textContent),
    raw: [...document.querySelectorAll('article p, article li, article td')].filter(e => {
        const copy = e.cloneNode(true);
        copy.querySelectorAll('code, pre, .katex').forEach(part => part.remove());
        return /\\\\[a-zA-Z]{2,}|\\$\\S/.test(copy.textContent);
    }).map(e => e.textContent.slice(0, 80)),
    errors: [...document.querySelectorAll('.katex-error')].map(e => e.textContent),
    images: [...document.images].filter(e => !e.naturalWidth).map(e => e.src),
    cut: innerWidth > 1000 && [...document.querySelectorAll('.katex-display')].some(e => e.scrollWidth > e.clientWidth + 1),
    wide: document.documentElement.scrollWidth > document.documentElement.clientWidth,
})"""
# thumbnails outside the window are loaded when they are scrolled to
LOAD_IMAGES = """async () => {
    const images = [...document.images];
    images.forEach(e => { e.loading = 'eager'; });
    await Promise.all(images.map(e => e.complete || new Promise(end => { e.onload = e.onerror = end; })));
}"""
SCREENS = {"desk": (1280, 860), "telephone": (390, 800)}
NONE = {"formulas": [], "raw": [], "errors": [], "images": [], "cut": False, "wide": False}


@pytest.fixture
def page(browser):
    with quiet_page(browser, "file:") as made:
        yield made


def test_every_page_renders_without_network_access(page):
    faults = {}
    for name in PAGES:
        for screen, (width, height) in SCREENS.items():
            page.set_viewport_size({"width": width, "height": height})
            if screen == "desk":
                page.goto((SITE / name).as_uri())
                page.evaluate(LOAD_IMAGES)
            if page.evaluate(FAULTS)["wide"]:
                page.wait_for_timeout(1000.0)  # pictures are resized after the window
            if (found := page.evaluate(FAULTS)) != NONE:
                faults[name, screen] = found
    assert faults == {}


def test_links_and_search_work_without_a_server(page):
    page.goto((SITE / "index.html").as_uri())
    targets = page.eval_on_selector_all("a[href]", "links => links.map(a => a.href.split('#')[0])")
    inside = {target for target in targets if target.startswith("file:")}
    assert len(inside) > 20 and all(target.endswith((".html", ".png")) for target in inside)
    page.fill("input[name=query]", "weight decay", force=True)
    page.wait_for_selector(".md-search-result__item", state="attached")


def test_frames_in_closed_boxes_are_drawn_when_they_are_opened(page):
    """Legends of a page that is drawn while it is hidden overlap."""
    page.goto((SITE / "lecture.html").as_uri())
    box = page.locator("details:has(iframe)").nth(2)
    assert box.locator("iframe").get_attribute("src") is None
    box.locator("summary").click()
    legend = box.frame_locator("iframe").locator(".legendtext")
    legend.first.wait_for(timeout=300_000.0)
    page.wait_for_timeout(1000.0)
    places = [text.bounding_box() for text in legend.all()]
    assert len(places) > 1
    for one in places:
        for other in places:
            apart = one["x"] + one["width"] <= other["x"] or other["x"] + other["width"] <= one["x"]
            assert one == other or apart or abs(one["y"] - other["y"]) > 0.5 * one["height"]
