"""What users see when a value is typed, a question is refused, a curve is pinned, a tour runs, or a page is printed."""

import re
from html import unescape
from pathlib import Path

import pytest
from tests.support.browser import needs_chromium, quiet_page
from tests.support.explorer import DRAWN, EXACT, until, visit

from onehead.app.drawing import add_vertical_mark, figure, line
from onehead.app.presets import PRESETS
from onehead.app.state import read_state
from onehead.app.tours import TOURS
from onehead.app.views import VIEWS

STATE = "document.getElementById('state').textContent"
QUICK = "view=sparse&sparse_panel=alignment"


def drawn(**query):
    """Return the exact picture of a view."""
    state, wrong = read_state(query)
    assert not wrong
    return VIEWS[state.view].picture(state)


# --- views


def test_names_of_vertical_lines_stand_above_the_plot():
    chart = figure([line([0.1, 1.0], [0.3, 0.2], "error")], x="α", y="error", log_x=True, xaxis={"range": [-1.0, 0.0]})
    layout = chart["layout"]
    for row, (x, anchor) in enumerate(((0.15, "left"), (0.9, "right"))):  # a name near the right end stays inside
        add_vertical_mark(layout, x, "interpolation", row=row)
        note = layout["annotations"][-1]
        assert note["xanchor"] == anchor
        assert (note["y"], note["yref"], note["yanchor"]) == (1.0, "paper", "bottom")
        assert 0 <= note["yshift"] < layout["margin"]["t"]


def test_the_head_is_drawn_for_tokens_of_any_kurtosis():
    picture = drawn(view="head", kurtosis="1")
    assert picture.figure["data"] and "kurtosis 1" in picture.caption


def test_matrices_are_square_on_the_screen():
    figure = drawn(view="head").figure
    matrices = [trace for trace in figure["data"] if trace["type"] == "heatmap"]
    assert len(matrices) == 4
    for trace in matrices:
        across, up = trace.get("xaxis", "x"), trace.get("yaxis", "y")
        assert figure["layout"]["yaxis" + up[1:]]["scaleanchor"] == across


def test_the_tour_and_the_preset_show_two_bulks_apart():
    """Each bulk and the gap between them is a tenth of the axis or more."""
    step = next(step for step in TOURS[0].steps if step.title == "The bulk splits")
    preset = next(preset for preset in PRESETS if preset.name.startswith("The bulk splits"))
    for values in ({**step.values, "alpha": step.runs["alpha"][1]}, preset.values):
        figure = drawn(view="spectrum", **{name: str(value) for name, value in values.items()}).figure
        low, high = figure["layout"]["xaxis"]["range"]
        first, second = ([t["x"][0], t["x"][-1]] for t in figure["data"] if t["name"] == "trained map S")
        parts = [first[1] - first[0], second[0] - first[1], second[1] - second[0]]
        assert min(parts) > 0.09 * (high - low), parts


# --- the page

pytestmark = needs_chromium


@pytest.mark.parametrize(
    ("typed", "value"),
    [("10,000", "10000"), ("1,500", "1500"), ("0,5", "0.5"), ("12,5", "12.5"), ("1,234,567.5", "1234567.5")],
)
def test_commas_group_digits_or_mark_decimals(page, address, typed, value):
    visit(page, address, QUICK)
    # the field of another view is hidden, and typed into all the same
    page.evaluate(
        """(typed) => { const field = document.getElementById("knob-samples"); field.value = typed;
        field.dispatchEvent(new Event("change")); }""",
        typed,
    )
    assert page.evaluate("oneheadKnobs.values.samples") == value


def test_fields_show_the_state_after_undo(page, address):
    visit(page, address, QUICK)
    before = page.input_value("#knob-strength")
    page.fill("#knob-strength", "3,5")
    page.keyboard.press("Enter")
    assert page.input_value("#knob-strength") == "3.5" == page.evaluate("oneheadKnobs.values.strength")
    page.keyboard.press("Control+z")
    assert page.input_value("#knob-strength") == before == str(page.evaluate("oneheadKnobs.values.strength"))


def test_a_refused_question_shows_its_sentence_and_nothing_of_another(page, address):
    visit(page, address, "view=curve")
    page.fill("#knob-noise", "-1")
    page.keyboard.press("Enter")
    until(page, "document.getElementById('picture').getAttribute('aria-label').startsWith('Noise')")
    assert page.evaluate(STATE) == "refused"
    assert page.locator("#picture .trace").count() == 0
    assert page.locator("#numbers td").count() == 0
    assert page.is_hidden("#grip")
    page.fill("#knob-noise", "0.5")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('#picture .trace').length > 0")


@pytest.mark.parametrize(
    ("level", "text", "style"),
    [
        ("converged", "exact", "exact"),
        ("approximate", "solved · approximate", "draft"),
        ("conjecture", "solved · conjecture", "draft"),
        ("failed", "no solution", "refused"),
    ],
)
def test_the_status_of_the_picture_agrees_with_the_badge(page, address, level, text, style):
    visit(page, address, QUICK)
    # read in the same step: the page shows its own state again twice a second
    shown = page.evaluate(
        """(level) => {
        oneheadPanel.show(Object.assign(onehead.machine(), { status: "exact", badge: [level, "", []] }));
        const state = document.getElementById("state");
        return [state.textContent, state.className]; }""",
        level,
    )
    assert shown == [text, style]


def test_a_checkpoint_without_a_file_is_not_called_exact(page, address):
    visit(page, address, "view=checkpoint")
    until(page, EXACT)
    assert page.evaluate(STATE) == "no file yet"


def test_curves_are_pinned_with_the_parameters_in_which_they_differ(page, address):
    visit(page, address, "view=curve&alpha_from=0.3&alpha_to=3&direct=0")
    until(page, EXACT)
    count = len(page.evaluate("document.getElementById('picture').data"))
    until(page, "!document.getElementById('pin').disabled")
    page.click("#pin")
    until(page, f"document.getElementById('picture').data.length === {count + 1}")
    pinned = page.evaluate("document.getElementById('picture').data[0].y")
    page.fill("#knob-noise", "1")
    page.keyboard.press("Enter")
    until(page, f"{DRAWN} && document.getElementById('picture').data.at(-1).name.includes('Δ = 0.5')")
    data = page.evaluate("document.getElementById('picture').data")
    assert data[-1]["y"] == pinned != data[0]["y"]
    page.click("#unpin")
    until(page, "!document.getElementById('picture').data.some((trace) => (trace.name || '').startsWith('pinned'))")
    assert page.is_hidden("#unpin")


def boxes_overlap(page, one, other):
    """Whether two elements cover each other on the screen."""
    a, b = (page.locator(name).bounding_box() for name in (one, other))
    return a["y"] + a["height"] > b["y"] and b["y"] + b["height"] > a["y"]


@pytest.mark.parametrize("projected", [False, True])
def test_a_tour_points_covers_nothing_and_obeys_a_presenter(page, address, projected):
    visit(page, address, "view=curve")
    if projected:
        page.click("#projector")
    page.click("[data-tour='0']")
    until(page, DRAWN)
    assert not boxes_overlap(page, "#tour", "#picture")
    page.keyboard.press("PageDown")
    until(page, "document.body.dataset.tour === '1'")
    assert "pointed" in page.locator(".knob", has=page.locator("#knob-alpha")).get_attribute("class")
    page.keyboard.press("PageUp")
    until(page, "document.body.dataset.tour === '0'")
    assert page.locator(".pointed").count() == 0
    page.keyboard.press("Escape")
    assert page.is_hidden("#tour")


# choices whose text is wider than their box
CUT = """() => {
  const pen = document.createElement("canvas").getContext("2d");
  return [...document.querySelectorAll("#knobs select")].filter((e) => e.offsetParent).filter((e) => {
    pen.font = getComputedStyle(e).font;
    return pen.measureText(e.selectedOptions[0].text).width > e.clientWidth - 20;
  }).map((e) => [e.id, e.clientWidth, e.selectedOptions[0].text]);
}"""


@pytest.mark.parametrize("width", [768, 1024, 1280])
def test_a_projected_page_fits_and_keeps_its_tours(page, address, width):
    page.set_viewport_size({"width": width, "height": 800})
    for query in ("view=curve", "view=spectrum", QUICK):
        visit(page, address, query)
        if not page.evaluate("document.body.classList.contains('projector')"):
            page.click("#projector")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.is_visible("[data-tour='0']")
        assert page.evaluate(CUT) == []
        box = page.locator("#picture").bounding_box()
        assert box["width"] > 0.55 * width
        assert width < 1280 or box["y"] + box["height"] <= 800  # the legend too is on the screen


def test_a_slow_draft_does_not_hold_up_another_view(page, address):
    """The draft of a kind of head whose code is being compiled takes seconds; other views are drawn meanwhile."""
    visit(page, address, QUICK)
    page.evaluate(
        """() => { const ask = oneheadNetwork.ask; window.held = 0;
        oneheadNetwork.ask = async (kind, key, ...rest) => {
          if (kind === "draw" && key.startsWith("view=curve")) { window.held += 1; await new Promise((done) => (window.free = done)); window.held -= 1; }
          return ask(kind, key, ...rest);
        }; }"""
    )
    page.click("#tab-curve")
    until(page, "window.held === 1")
    page.click("#tab-sparse")
    until(page, f"{DRAWN} && onehead.machine().key.startsWith('view=sparse')")
    assert page.evaluate("window.held") == 1
    page.click("#tab-curve")  # at most two at a time
    page.wait_for_timeout(1500)
    assert page.evaluate("window.held") == 2
    page.evaluate("window.free()")


def test_reduced_motion_stops_what_moves(browser, address):
    with quiet_page(browser, address, viewport={"width": 1280, "height": 860}, reduced_motion="reduce") as page:
        visit(page, address, "view=head")
        assert page.is_hidden("#play")
        page.click("[data-tour='0']")
        page.click("#tour-next")
        assert page.evaluate("oneheadKnobs.values.alpha") == 0.5  # where the step ends
        assert page.evaluate("oneheadTour.moving()") is False


def test_a_printed_page_has_the_whole_picture(page, address):
    visit(page, address, QUICK)
    page.emulate_media(media="print")
    for name in ("header", "#knobs", ".buttons", "#grip"):
        assert page.is_hidden(name), name
    picture, area = (page.locator(name).bounding_box() for name in ("#picture", "#picture-area"))
    assert picture["x"] >= area["x"] and picture["x"] + picture["width"] <= area["x"] + area["width"] + 1


def test_the_picture_is_on_the_upper_half_of_a_phone(browser, address):
    with quiet_page(browser, address, viewport={"width": 390, "height": 844}) as page:
        visit(page, address, "view=curve")
        assert page.locator("#picture").bounding_box()["y"] < 422


def test_reset_removes_sentences_about_training(page, address):
    visit(page, address, "view=curve")
    page.evaluate("document.getElementById('training-message').textContent = 'Trained 3 heads.'")
    page.click("#reset")
    assert page.inner_text("#training-message") == ""


def test_a_page_opened_later_does_not_speak_of_earlier_training(page, address):
    """The last job of the server may belong to another head."""
    page.route(
        "**/ask/train",
        lambda route: route.fulfill(
            json={"key": "", "running": False, "done": 3, "total": 3, "sentence": "Training finished; 3 runs stored."}
        ),
    )
    visit(page, address, "view=curve")
    until(page, "onehead.trained")
    assert page.inner_text("#training-message") == ""


def test_the_tools_have_one_row_on_a_phone(browser, address):
    with quiet_page(browser, address, viewport={"width": 390, "height": 844}) as page:
        visit(page, address, QUICK)
        tops = page.evaluate(
            "[...document.querySelectorAll('.tools > *')].filter((e) => e.offsetParent && !e.classList.contains('quiet')).map((e) => e.offsetTop)"
        )
        assert max(tops) - min(tops) < 10


def test_a_slow_first_draft_says_why(page, address):
    visit(page, address, QUICK)
    text = """(seconds) => { oneheadPanel.show(Object.assign(onehead.machine(), { status: "drawing", seconds: seconds }));
      return document.getElementById("state").textContent; }"""
    assert page.evaluate(text, 1) == "drawing"
    assert page.evaluate(text, 4) == "drawing · the first use of a kind of head takes up to 15 s · 4 s"


def test_a_page_without_an_address_begins_by_itself(browser, address):
    """The sample ratio grows, a sentence follows it, and three knobs are shown until the reader asks for all."""
    with quiet_page(browser, address, viewport={"width": 1280, "height": 860}) as page:
        page.goto(address)
        until(page, "document.getElementById('play').getAttribute('aria-pressed') === 'true'")
        until(page, "oneheadKnobs.values.alpha > 0.1 && document.getElementById('story').textContent")
        assert page.locator("#play").bounding_box()["y"] < page.locator("#picture").bounding_box()["y"]
        knobs = "[...document.querySelectorAll('.knob')].filter((e) => e.offsetParent).length"
        assert page.evaluate(knobs) == 3
        page.click("#all-knobs")  # whatever the reader touches stops the movement
        assert page.evaluate(knobs) > 5
        assert page.get_attribute("#play", "aria-pressed") == "false"
        page.goto(f"{address}/?view=head&alpha=0.5")
        until(page, DRAWN)
        assert page.evaluate("oneheadKnobs.values.alpha") == "0.5" and page.is_hidden("#all-knobs")


def test_the_first_learning_curve_has_two_lines():
    names = [trace["name"] for trace in drawn(view="curve").figure["data"]]
    assert names == ["test error (factorised)", "best possible (known model)", "rank"]
    more = [trace["name"] for trace in drawn(view="curve", details="1", direct="1").figure["data"]]
    assert len(more) == 6


def test_pictures_and_embed_code_carry_the_parameters(page, address):
    visit(page, address, QUICK + "&strength=6&signal_tokens=2")
    assert page.evaluate("oneheadDrawing.parameters()").startswith("R = 2, θ = 6")
    with page.expect_download() as waiting:
        page.click("#svg")
    assert "θ = 6" in Path(waiting.value.path()).read_text(encoding="utf-8")
    code = page.evaluate("onehead.embedCode()")
    found = re.search('src="([^"]+)"', code)
    page.goto(unescape(found[1]))
    until(page, DRAWN)
    assert page.evaluate("oneheadKnobs.values.strength") == "6"
    assert page.is_hidden("#knobs") and page.is_hidden("header") and page.is_visible("#picture")
    box = page.locator("#picture").bounding_box()
    assert box["y"] + box["height"] <= 860
