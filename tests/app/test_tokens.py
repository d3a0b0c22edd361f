"""The head view: teacher and learner side by side, words on the tokens, the row of one of them, colours of symbols."""

import numpy as np
import pytest
from tests.support.browser import needs_chromium
from tests.support.explorer import EXACT, until, visit

from onehead.app.drawing import THEME_COLOURS
from onehead.app.state import read_state
from onehead.app.views import VIEWS
from onehead.app.views.head_drawing import KEY_WORDS, QUERY_WORDS, HeadPanels, draw_head

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = needs_chromium

ROW = """() => Object.fromEntries(document.getElementById("picture").data.filter((t) => /^row of/.test(t.name)).map((t) => [t.name, [...t.y]]))"""
TITLES = "document.getElementById('picture').layout.annotations.map((a) => a.text)"
FRAMES = "document.getElementById('picture').layout.shapes.filter((s) => s.name === 'row').map((s) => [s.y0, s.y1])"


def traces(**values):
    state, wrong = read_state({"view": "head", **values})
    assert not wrong
    figure = VIEWS["head"].picture(state).figure
    return {trace["name"]: trace for trace in figure["data"]}, figure["layout"]


def test_words_label_the_tokens_and_numbers_follow():
    assert len(set(QUERY_WORDS)) == len(set(KEY_WORDS)) == 8  # equal words would share a row of the picture
    table = np.full((10, 10), 0.1)
    many = draw_head(HeadPanels((table, table), (table, table), ([1.0] * 10, [1.0] * 10), "eigenvalue"), "tied")
    assert many["data"][2]["y"] == many["data"][5]["x"] == [*QUERY_WORDS, "9", "10"]
    cross, _ = traces(attention="cross")
    assert cross["attention of the teacher"]["x"] == list(KEY_WORDS)
    assert cross["attention of the teacher"]["y"] == list(QUERY_WORDS)
    assert "only label the tokens" in VIEWS["head"].picture(read_state({"view": "head"})[0]).caption


def test_teacher_and_learner_stand_side_by_side_in_square_panels():
    own, layout = traces()
    for what in ("map", "attention"):
        left, right = (own[f"{what} of the {who}"] for who in ("teacher", "learner"))
        domains = [layout["yaxis" + trace["yaxis"][1:]]["domain"] for trace in (left, right)]
        assert domains[0] == domains[1]
        assert layout["xaxis" + left["xaxis"][1:]]["domain"][1] < layout["xaxis" + right["xaxis"][1:]]["domain"][0]
        for trace in (left, right):
            assert layout["yaxis" + trace["yaxis"][1:]]["scaleanchor"] == trace["xaxis"]


@pytest.mark.parametrize("how", ["focus", "hover", "pointer"])
def test_a_token_shows_its_row_of_attention(page, address, how):
    visit(page, address, "view=head")
    until(page, EXACT)
    first = page.evaluate(ROW)
    if how == "focus":
        page.focus("#tokens button:nth-child(8)")
    elif how == "hover":
        page.hover("#tokens button:nth-child(8)")
    else:
        page.evaluate(
            """() => { const gd = document.getElementById("picture");
            gd.emit("plotly_hover", { points: [{ data: gd.data.find((t) => t.name === "attention of the learner"), y: "mat" }] }); }"""
        )
    until(page, f"{TITLES}.includes('row of “mat”')")
    shown = page.evaluate(ROW)
    assert shown != first
    for name in ("teacher", "learner"):
        table = page.evaluate(
            f"document.getElementById('picture').data.find((t) => t.name === 'attention of the {name}').z.map((r) => [...r])"
        )
        assert shown[f"row of the {name}"] == table[7]
    assert page.evaluate(FRAMES) == [[6.5, 7.5]] * 2
    assert page.locator("#tokens button[aria-pressed='true']").all_inner_texts() == ["mat"]
    page.click("#tab-curve")
    until(page, "onehead.drawn === onehead.asked && onehead.machine().key.startsWith('view=curve')")
    assert page.is_hidden("#tokens")


def test_symbols_have_one_colour_in_formula_knobs_numbers_and_picture(page, address):
    """The threshold of weight decay, the noise and the learner's map, in both themes."""
    visit(page, address, "view=head")
    until(page, "onehead.reported === onehead.asked")

    def colour(selector):
        return page.evaluate("(s) => getComputedStyle(document.querySelector(s)).color", selector)

    def rgb(role):
        page.evaluate("(c) => { document.body.dataset.c = c; const e = document.createElement('i'); e.id = 'probe';"
                      " e.style.color = c; document.body.append(e); }", role)  # fmt: skip
        found = colour("#probe")
        page.evaluate("document.getElementById('probe').remove()")
        return found

    in_formula = (
        "[...document.querySelectorAll('#formula .katex-html [style*=color]')].map((e) => getComputedStyle(e).color)"
    )
    for _ in range(2):
        theme = page.get_attribute("html", "data-theme")
        role = THEME_COLOURS[theme]
        until(page, f"{TITLES}.some((t) => t.includes('{role['@theory']}'))")
        shown = page.evaluate(in_formula)
        for name, knob in (("@second", "weight_decay"), ("@third", "noise"), ("@target", "kappa0")):
            assert rgb(role[name]) in shown, name
            assert colour(f"label[for='knob-{knob}'] .symbol") == rgb(role[name])
        number = "tr:has(td[data-number='Soft threshold']) .symbol"
        assert colour(number) == rgb(role["@second"])
        assert rgb(role["@theory"]) in shown
        page.click("#theme")
