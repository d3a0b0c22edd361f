"""The first ten seconds of a visit: a sentence that weighs sizes, and numbers that stay while a knob plays."""

from itertools import pairwise

import pytest
from tests.support.browser import needs_chromium, quiet_page
from tests.support.explorer import until, visit

from onehead import aim
from onehead.app.state import read_state
from onehead.app.views import VIEWS, head

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = needs_chromium


def shown_share(state, dim):
    """Share of the target's variance that a sampled map of the theory explains, in dimension ``dim``."""
    point = aim.predict(state.task, state.learner, state["alpha"])
    found = head.scene(state.task, dim, 8)
    S = head.sampled_map(state.task, state.learner, head._law(point), found.target, found.noise)
    return head.share_learned(found.target, S, state.learner.beta / state.task.beta0), point


@pytest.mark.parametrize("setting", [{"kappa0": 0.2, "weight_decay": 0.3}, {"beta": 2.0}, {"attention": "cross"}])
def test_the_share_learned_is_that_of_the_theory(setting):
    """From maps of 400 dimensions, and from size and overlap: 1 - |rS - S*|²/|S*|² = (2 r m - r² q)/(|S*|²/d)."""
    for alpha in (0.1, 0.24, 0.5, 2.0):
        state, _ = read_state({"view": "head", "alpha": alpha, **setting})
        share, point = shown_share(state, 400)
        r = state.learner.beta / state.task.beta0
        theory = (2.0 * r * point.m - r**2 * point.q) / state.task.target.second_moment
        assert share == pytest.approx(theory, abs=0.03)  # 1/400 of one sample, times a few eigenvalues at the edge


def test_the_sentence_of_the_first_visit_weighs_sizes(page, address):
    """At α = 0.24 the features point the right way and have a third of their size: most are not learned."""
    visit(page, address, "view=head&kappa0=0.2&weight_decay=0.3&alpha=0.24")
    told = []
    for alpha in (0.02, 0.1, 0.24, 0.5, 1.0, 5.0):
        state, _ = read_state({"view": "head", "kappa0": 0.2, "weight_decay": 0.3, "alpha": alpha})
        answer = VIEWS["head"].picture(state)
        share, _ = shown_share(state, head.DIM)
        on_the_page = page.evaluate("(figure) => oneheadStory.share(figure, 1)", answer.figure)
        assert on_the_page == pytest.approx(share, abs=1e-3)  # entries of the picture have four digits
        told.append(page.evaluate("oneheadStory.sentence", share))
    assert len(set(told)) >= 5
    assert "Most" not in told[2] and "too small" in told[2]
    assert told[-1] == "The head attends almost as the teacher does."
    noisy, _ = read_state({"view": "head", "noise": 5.0, "weight_decay": 1e-3, "alpha": 0.14})
    share, _ = shown_share(noisy, head.DIM)
    assert share < 0.0 and "noise" in page.evaluate("oneheadStory.sentence", share)


def test_numbers_stay_while_a_knob_plays(page, address):
    """No row is blank, and the title names the point that the numbers belong to."""
    visit(page, address, "view=head&kappa0=0.2&weight_decay=0.3&alpha=0.1")
    until(page, "onehead.reported === onehead.asked")
    page.evaluate(
        """() => { window.seen = []; new MutationObserver(() => {
          const cells = [...document.querySelectorAll("#numbers td")].map((td) => td.textContent);
          const others = ["badge", "caption", "state"].map((id) => document.getElementById(id).textContent);
          window.seen.push([document.getElementById("numbers-title").textContent, cells, others]);
        }).observe(document.getElementById("numbers"), { childList: true, subtree: true, characterData: true }); }"""
    )
    page.click("#play")
    until(page, "window.seen.length > 8")
    seen = page.evaluate("window.seen.slice(2)")
    assert all("…" not in cells and cells for _, cells, _ in seen), seen
    assert any(title.startswith("Draft of the numbers at α = 0.") for title, _, _ in seen), seen
    for _, _, (badge, caption, state) in seen:  # of the picture that is on the screen, without a gap
        assert badge.startswith("draft. Two digits of a quick preview") and caption and state != "drawing", seen
    page.click("#play")
    until(page, "onehead.reported === onehead.asked")
    assert page.inner_text("#numbers-title") == "Numbers at the marked point"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_picture_does_not_move_while_the_first_sentences_appear(browser, address, width):
    with quiet_page(browser, address, viewport={"width": width, "height": 860}) as page:
        page.goto(address)
        until(page, "window.onehead && oneheadDrawing.current !== null")
        tops = {page.locator("#picture").bounding_box()["y"]}
        for value in (0.05, 0.2, 1.0):
            until(page, f"Number(oneheadKnobs.values.alpha) > {value}")
            tops.add(page.locator("#picture").bounding_box()["y"])
        assert len(tops) == 1


def test_play_takes_the_same_time_on_a_slow_machine(page, address):
    """Where a draft takes long, a step of the slider is longer, at most a twentieth of it."""
    visit(page, address, "view=head&alpha=0.02&kappa0=0.2&weight_decay=0.3")
    until(page, "onehead.reported === onehead.asked")
    page.evaluate(
        """() => { const ask = oneheadNetwork.ask; window.steps = [];
        oneheadNetwork.ask = async (kind, ...rest) => {
          if (kind === "draw") { window.steps.push(oneheadKnobs.position("alpha")); await new Promise((done) => setTimeout(done, 500)); }
          return ask(kind, ...rest);
        }; }"""
    )
    page.click("#play")
    until(page, "window.steps.length > 4")
    page.click("#play")
    steps = page.evaluate("window.steps")
    assert all(6 <= b - a <= 10 for a, b in pairwise(steps[1:4])), steps
