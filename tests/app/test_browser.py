"""The explorer in the system's Chromium: what a visitor sees, with every outside request blocked."""

import csv
import re
import subprocess
import sys
from functools import partial

import pytest
from tests.support.browser import needs_chromium
from tests.support.explorer import DRAG, DRAWN, EXACT, checkpoint_file, until, visit
from tests.support.programs import program

from onehead import aim, sparse
from onehead.app.state import read_state

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = needs_chromium

REPORTED = "onehead.reported === onehead.asked"
EXACT_PICTURE = 'document.getElementById("picture").layout.meta.exact'


def number(page, name):
    """A value of the table of numbers on the screen."""
    return page.locator(f'td[data-number="{name}"]').inner_text()


def curve(page, index=0):
    """The values of one trace on the screen."""
    return page.evaluate(f'document.getElementById("picture").data[{index}].y.slice()')


VIEWS = {
    "view=head": "The head",
    "view=map": "Map",
    "view=curve": "Learning curve",
    "view=spectrum": "Spectrum",
    "view=decay": "Weight decay",
    "view=scaling": "Scaling laws",
    "view=scaling&scaling_panel=phase": "Scaling laws",
    "view=sparse": "Sparse tokens",
    "view=sparse&sparse_panel=capacity": "Sparse tokens",
    "view=checkpoint": "Checkpoint",
}


def test_every_view_is_drawn_in_both_themes_and_widths(page, address):
    for i, (query, title) in enumerate(VIEWS.items()):
        page.set_viewport_size({"width": 390, "height": 844} if i % 2 else {"width": 1280, "height": 860})
        visit(page, address, query)
        assert page.inner_text("h1") == title
        assert page.locator("#formula .katex").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{query} is wider than the screen"
        box = page.locator("#picture .main-svg").first.bounding_box()
        assert box["width"] > 250
        assert box["height"] > 250
        page.click("#theme")
        assert page.get_attribute("html", "data-theme") == (
            "light" if i % 2 else "dark"
        )  # the theme is kept from page to page
        if title != "Checkpoint":
            # a draft that is not ready in time is replaced by a note, and the exact picture follows
            until(page, "document.querySelectorAll('#picture .trace, #picture .hm, #picture .contour').length > 0")


def test_a_slider_changes_the_picture_and_the_address(page, address):
    for query, knob in (
        ("view=curve", "kappa0"),
        ("view=spectrum", "alpha"),
        ("view=decay", "noise"),
        ("view=sparse", "strength"),
    ):
        visit(page, address, query)
        index = 1 if query == "view=spectrum" else 0
        before = curve(page, index)
        page.evaluate(DRAG, [knob, 20])
        until(page, DRAWN)
        assert curve(page, index) != before
        assert f"{knob}=" in page.url
        assert page.input_value(f"#knob-{knob}") == re.search(rf"{knob}=([^&]+)", page.url).group(1)


def test_arrow_keys_and_typed_numbers_move_a_slider(page, address):
    visit(page, address, "view=decay")
    page.focus("#slide-noise")
    page.keyboard.press("ArrowRight")
    until(page, "onehead.asked > 1 && onehead.drawn === onehead.asked")
    assert page.input_value("#knob-noise") == "0.51"
    page.fill("#knob-noise", "1.5")
    page.keyboard.press("Enter")
    until(page, "onehead.asked > 2 && onehead.drawn === onehead.asked")
    assert page.input_value("#slide-noise") == "150"
    labels = page.evaluate(
        "[...document.querySelectorAll('input, select, button')].filter((e) => !(e.labels && e.labels.length)"
        " && !e.getAttribute('aria-label') && !e.textContent.trim()).map((e) => e.id)"
    )
    assert labels == []


def test_a_refused_value_is_explained_beside_its_knob(page, address):
    visit(page, address, "view=curve")
    page.fill("#knob-noise", "-1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#wrong-noise:not([hidden])")
    assert page.inner_text("#wrong-noise") == "Noise Δ must be at least 0 and at most 1,000 (you entered -1)."
    assert page.get_attribute("#knob-noise", "aria-invalid") == "true"
    page.fill("#knob-noise", "0.4")
    page.keyboard.press("Enter")
    until(page, DRAWN)
    assert page.locator("#wrong-noise").is_hidden()


def test_texts_formula_and_knobs_follow_the_kind_of_head(page, address):
    visit(page, address, "view=spectrum")
    formula = page.get_attribute("#formula", "aria-label")
    assert "eigenvalues" in page.inner_text("#about")
    page.select_option("#knob-attention", "cross")
    until(page, "onehead.asked > 1 && " + DRAWN)
    assert "singular values" in page.inner_text("#about")
    assert page.get_attribute("#formula", "aria-label") != formula
    page.select_option("#knob-mask", "strict")
    until(page, "onehead.asked > 2 && " + DRAWN)
    assert page.input_value("#knob-tokens") == "3" and "tokens=3" in page.url
    page.select_option("#knob-labels", "hard")
    until(page, "onehead.asked > 3 && " + DRAWN)
    assert page.input_value("#knob-loss") == "cross-entropy" and "loss=cross-entropy" in page.url
    until(page, REPORTED)
    if "No answer within" in page.inner_text("#badge"):  # the machine is too busy: try again, as the sentence says
        page.reload()
        until(page, REPORTED)
    assert page.inner_text("#badge").startswith("Conjecture")
    assert 0.0 < float(number(page, "Zero singular values")) < 1.0
    page.select_option("#knob-attention", "tied")
    until(page, "onehead.asked > 4 && " + REPORTED)
    assert 0.0 < float(number(page, "Zero eigenvalues")) < 1.0


def test_a_refusal_is_shown_in_the_picture(page, address):
    for query, phrase in (
        ("view=curve&attention=self&weight_decay=0%2B&alpha_to=0.45", "is not known"),
        ("view=scaling&scaling_panel=decomposition&attention=self&mask=causal&dim=30", "is not split"),
    ):
        visit(page, address, query)
        until(page, EXACT)
        text = page.evaluate('document.getElementById("picture").layout.annotations[0].text')
        assert phrase in text.replace("<br>", " "), query
        assert page.locator("#picture .annotation-text").is_visible()


def test_the_numbers_on_the_screen_equal_those_of_the_library(page, address):
    visit(page, address, "view=curve&kappa0=0.3&noise=0.2&alpha=0.8&weight_decay=0.02")
    until(page, REPORTED)
    state, _ = read_state({"kappa0": "0.3", "noise": "0.2", "alpha": "0.8", "weight_decay": "0.02"})
    point = aim.predict(state.task, state.learner, 0.8)
    assert number(page, "Test error") == f"{point.test_error:.5g}"
    assert number(page, "Training loss") == f"{point.train_loss:.5g}"
    assert number(page, "Rank") == f"{point.rank:.5g}"
    assert page.inner_text("#badge").startswith("Converged")
    visit(page, address, "view=sparse&sparse_panel=capacity")
    until(page, REPORTED)
    assert page.inner_text("#badge").startswith("Conjecture")
    found = sparse.capacity(sparse.Task(), sparse.Protocol())
    assert number(page, "Capacity, attention") == f"{found.attention:.5g}"
    visit(page, address, "view=curve&weight_decay=0%2B&param=direct&alpha=0.25")
    until(page, REPORTED)
    assert "infinite test error" in page.inner_text("#badge")


@pytest.mark.parametrize("name", ["constructor", "__proto__", "toString", "hasOwnProperty"])
def test_names_of_object_properties_in_the_address_are_not_views_or_heads(page, address, name):
    """Every JavaScript object has these properties; the fixture also checks that the console has no error."""
    visit(page, address, f"view={name}")
    assert page.inner_text("h1") == "The head"
    visit(page, address, f"view=spectrum&attention={name}")
    assert page.inner_text("h1") == "Spectrum"
    assert "eigenvalues" in page.inner_text("#about")
    assert page.inner_text("#wrong-attention") == f"Attention must be tied or self or cross (you entered {name})."


def test_a_link_reopens_the_same_view(page, address, browser):
    visit(page, address, "view=sparse")
    page.select_option("#preset", label="The bulk splits (κ₀ 0.1, α 0.5)")
    until(page, "onehead.asked > 1 && onehead.drawn === onehead.asked")
    assert page.inner_text("h1") == "Spectrum"
    until(page, EXACT_PICTURE)  # it has more points than the draft, and may come at any moment
    link, values = page.url, curve(page, 1)
    other = browser.new_page()
    other.goto(link)
    until(other, DRAWN)
    until(other, EXACT_PICTURE)
    assert other.inner_text("h1") == "Spectrum"
    assert other.input_value("#knob-kappa0") == "0.1"
    assert curve(other, 1) == values
    other.close()
    page.click("#reset")
    until(page, "onehead.asked > 2 && onehead.drawn === onehead.asked")
    assert page.input_value("#knob-kappa0") == "0.5"


def test_pictures_and_tables_can_be_downloaded(page, address, tmp_path):
    visit(page, address, "view=sparse&sparse_panel=alignment")
    starts = {"png": b"\x89PNG", "svg": b"<svg"}
    for button in ("png", "svg", "csv"):
        with page.expect_download() as waiting:
            page.click(f"#{button}")
        path = tmp_path / button
        waiting.value.save_as(path)
        if button in starts:
            assert path.read_bytes().startswith(starts[button])
    rows = list(csv.DictReader((tmp_path / "csv").read_text().splitlines()))
    state, _ = read_state({"view": "sparse"})
    row = rows[30]
    found = sparse.align(state.sparse_task, state.protocol.changed(alpha0=float(row["alpha0"])))
    assert float(row["cos_query"]) == pytest.approx(found.cos_query, rel=1e-12)
    page.click("#code summary")
    assert "oh.sparse.align(task, plan)" in page.inner_text("#python")
    assert page.inner_text("#shell").startswith("onehead sparse align --length 10")


def test_the_exact_picture_replaces_the_draft(page, address):
    visit(page, address, "view=spectrum&alpha=2")
    until(page, EXACT)
    assert len(curve(page, 1)) == 400  # the exact density has 400 points
    until(page, EXACT_PICTURE)


def test_play_moves_the_sample_ratio(page, address):
    visit(page, address, "view=spectrum&alpha=0.05")
    page.click("#play")
    until(page, "onehead.drawn > 6")
    page.click("#play")
    assert float(page.input_value("#knob-alpha")) > 0.06
    until(page, DRAWN)


def test_training_can_be_started_cancelled_and_reloaded(page, address):
    query = "view=curve&train_dim=20&train_points=12&train_seeds=20&alpha_from=0.5&alpha_to=2"
    visit(page, address, query)
    page.click("#train")
    until(page, "onehead.trained && onehead.trained.running && onehead.trained.done >= 2")
    page.click("#cancel")
    until(page, "onehead.trained && !onehead.trained.running")
    until(page, 'document.getElementById("training-message").textContent.startsWith("Cancelled.")')
    visit(page, address, query)  # a reload shows what is in the store
    traces = page.evaluate('document.getElementById("picture").data.map((t) => t.name)')
    assert any(name.startswith("trained, d = 20") for name in traces)
    visit(page, address, "view=curve&train_dim=24&train_points=1&train_seeds=3&alpha=0.7")
    page.click("#train")
    until(page, "onehead.trained && onehead.trained.total === 3 && !onehead.trained.running")
    assert page.inner_text("#training-message") == "Training finished; 3 runs stored."
    # one sample ratio; its error bar has a length as soon as two runs are in the picture
    bars = '(document.getElementById("picture").data.find((t) => t.name.startsWith("trained, d = 24"))?.error_y.array'
    until(page, f"{bars} || [])[0] > 0.0")
    assert page.evaluate(f"{bars}).length") == 1


def test_a_dropped_file_shows_its_heads(page, address, tmp_path):
    visit(page, address, "view=checkpoint&heads=12")
    page.set_input_files("#file", checkpoint_file(str(tmp_path)))
    until(page, "onehead.asked > 1 && onehead.drawn === onehead.asked")
    assert page.inner_text("#file-message") == "model.safetensors: 144 heads in 12 layers."
    until(page, REPORTED)
    assert number(page, "Rank") == f"{32 / 384:.5g}"  # Gaussian weights have full rank
    page.fill("#knob-heads", "6")  # another number of heads: the file is read again
    page.keyboard.press("Enter")
    until(page, "document.getElementById('file-message').textContent === 'model.safetensors: 72 heads in 12 layers.'")
    page.fill("#knob-heads", "0")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('file-message').textContent.includes('Query heads H must be given')")
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 64)
    page.set_input_files("#file", str(tmp_path / "bad.safetensors"))
    until(page, 'document.getElementById("file-message").textContent.startsWith("Cannot read")')


# --- the command


program = partial(program, "app")


def test_bad_flags_give_one_line():
    for flags, sentence in (
        (("--port", "70000"), "onehead: --port must be an integer >= 0 and <= 65535; got '70000'."),
        (("--store", "/no/such/folder/x"), "onehead: --store must be a file in a folder that exists"),
    ):
        done = program(*flags)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.splitlines()[-1].startswith(sentence)
        assert len(done.stderr.splitlines()) == 1


def test_a_port_in_use_and_an_open_host_are_reported(address):
    port = address.rsplit(":", 1)[1]
    done = program("--port", port)
    assert done.returncode == 2
    assert " is in use; choose another" in done.stderr.splitlines()[-1]
    process = subprocess.Popen(
        [sys.executable, "-m", "onehead", "app", "--host", "0.0.0.0", "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr.readline().startswith("warning: listening on 0.0.0.0")
    finally:
        process.terminate()
        process.wait(30)
        process.stderr.close()
