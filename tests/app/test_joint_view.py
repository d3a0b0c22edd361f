"""Joint descent and the five ways to train in the explorer: numbers, code, refusals, and the page in the browser."""

import contextlib
import io
import json
import shlex

import pytest
from tests.support.browser import needs_chromium
from tests.support.explorer import DRAWN, EXACT, until, visit

from onehead import sparse
from onehead.app import VIEWS, read_state
from onehead.app.drawing import alt_text, format_value
from onehead.app.presets import JOINT
from onehead.app.recording import ALPHAS, knob_run
from onehead.app.tours import TOURS
from onehead.app.views import joint

VIEW = VIEWS["sparse"]
PLAN = sparse.Protocol(beta=1.0, eta_b=3.0, ridge=0.1, ridge_query=0.03)
ADDRESS = "view=sparse&" + "&".join(f"{name}={value}" for name, value in JOINT.items())
REPORTED = "onehead.reported === onehead.asked"


def state_of(panel, **knobs):
    values = {name: str(value) for name, value in {**JOINT, **knobs}.items()}
    state, wrong = read_state({"view": "sparse", "sparse_panel": panel, **values})
    assert wrong == {}
    return state


def shown(state):
    return {number.name: number.value for number in VIEW.report(state).numbers}


def test_numbers_of_a_step_are_those_of_descend():
    found = sparse.descend(sparse.Task(), PLAN, steps=15)
    for step in (3, 9, 15):
        own, numbers = found.after(step), shown(state_of("descent", descent_step=step))
        assert numbers["Test error"] == format_value(own.test_error)
        assert numbers["Cosine of the query"] == format_value(own.cos_query)
        assert numbers["Stop after step"] == str(found.best_step)
        assert numbers["Lowest test error"] == format_value(found.test_error)
        assert numbers["Best possible"] == format_value(sparse.bayes(sparse.Task(), 2.0).test_error)


def test_the_picture_of_descent_shows_where_to_stop_and_the_overfitting_of_the_query():
    picture = VIEW.picture(state_of("descent"))
    rows = picture.rows
    best = min(rows, key=lambda row: row["test_error"])
    assert f"Stop after step {best['step']}:" in picture.caption
    cosines = [row["cos_query"] for row in rows]
    # the query turns away from the signal after its best step, while the training error still falls
    assert cosines[-1] < max(cosines) - 0.02
    assert rows[-1]["train_error"] < best["train_error"] and rows[-1]["test_error"] > 1.1 * best["test_error"]
    names = [trace["name"] for trace in picture.figure["data"]]
    assert names[:2] == ["test error", "training error"] and "cosine of the query" in names
    assert picture.figure["layout"]["meta"] == {"by": "descent_step", "at": 9.0}


def test_more_steps_are_drawn_if_the_marked_one_lies_beyond():
    rows = VIEW.picture(state_of("descent", descent_step=17)).rows
    assert [row["step"] for row in rows] == list(range(1, 18))


def test_a_draft_of_the_steps_is_close_to_the_exact_ones():
    """At step 9 and later; the drafts have an eighth of the points, whose error near the minimum is below 2e-3."""
    state = state_of("descent")
    draft, exact = VIEW.draft(state), VIEW.picture(state)
    assert not draft.exact
    for drawn, row in list(zip(draft.figure["data"][0]["y"], exact.rows, strict=True))[8:]:
        assert abs(drawn - row["test_error"]) < 4e-3


def test_five_ways_are_those_of_the_library():
    task, staged = sparse.Task(), PLAN.changed(beta=8.0, ridge_query=0.0)
    numbers = shown(state_of("protocols", ridge_query=0.1))
    together = PLAN.changed(ridge_query=0.1)
    expected = {
        "Two steps, data split": sparse.predict(task, staged).test_error,
        "Two steps, all data": sparse.predict(task, staged.changed(reuse=True)).test_error,
        "Joint descent, best step": sparse.descend(task, together).test_error,
        "Joint minimum": sparse.joint(task, together).test_error,
        "One-pass SGD": sparse.descend(task, together, batch="one-pass").last_test_error,
        "Best possible": sparse.bayes(task, 2.0).test_error,
    }
    assert numbers == {name: format_value(value) for name, value in expected.items()}
    assert all(value > expected["Best possible"] for name, value in expected.items() if name != "Best possible")


def test_the_alternative_text_gives_the_error_of_every_way(monkeypatch):
    state = state_of("protocols")
    ways = [joint.Way(name, 0.01 * (i + 1), 0.9) for i, name in enumerate(joint.MARKS)]
    monkeypatch.setattr(joint, "_ways", lambda _: ways)
    monkeypatch.setattr(joint, "_best_error", lambda *_: (0.005, ""))
    picture = VIEWS["sparse"].picture(state)
    text = alt_text(picture.figure, picture.caption)
    assert "two steps, data split: 0.01. two steps, all data: 0.02." in text
    assert "best possible (known model): 0.005." in text


def test_a_way_without_an_answer_is_left_out_and_says_why():
    state = state_of("protocols", ridge_query=0.0)
    picture, report = VIEW.picture(state), VIEW.report(state)
    assert "No answer for joint minimum" in picture.caption
    assert report.badge.level == "approximate"
    assert "Query ridge λ_q must be a number > 0" in " ".join(report.badge.notes)
    assert len([row for row in picture.rows if row["test_error"] is not None]) == 5


def test_a_loss_without_second_derivative_is_refused_in_the_picture():
    assert "needs l''" in VIEW.picture(state_of("descent", sparse_loss="hinge")).refusal
    assert "needs l''" in VIEW.draft(state_of("descent", sparse_loss="hinge")).refusal


def test_other_panels_ignore_the_ridge_of_the_query():
    """It belongs to joint training alone; the two stages have none."""
    assert shown(state_of("error", ridge_query=0.5)) == shown(state_of("error", ridge_query=0.0))


@pytest.mark.parametrize("panel", ["descent", "protocols"])
def test_python_code_gives_the_numbers_of_the_page(panel):
    state = state_of(panel, ridge_query=0.1)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(VIEW.code(state).python, "<as code>", "exec"), {})
    printed = {format_value(float(word)) for word in out.getvalue().split()}
    numbers = shown(state)
    assert printed >= ({numbers["Lowest test error"]} if panel == "descent" else set(numbers.values()))


def test_shell_commands_give_the_numbers_of_the_page(onehead):
    state = state_of("descent")
    done = onehead(*shlex.split(VIEW.code(state).shell)[1:])
    assert done.returncode == 0, done.stderr
    assert format_value(json.loads(done.stdout)["test_error"]) == shown(state)["Lowest test error"]
    state = state_of("protocols", ridge_query=0.1)
    keys = ("test_error", "test_error", "test_error", "test_error", "last_test_error")
    for command, key, value in zip(VIEW.code(state).shell.splitlines(), keys, shown(state).values(), strict=False):
        done = onehead(*shlex.split(command)[1:])
        assert done.returncode == 0, (command, done.stderr)
        assert format_value(json.loads(done.stdout)[key]) == value, command


def test_a_recorded_tour_passes_every_step():
    (step,) = (step for tour in TOURS for step in tour.steps if "descent_step" in step.runs)
    assert knob_run(step, ALPHAS) == ("descent_step", tuple(float(k) for k in range(1, 16)))


@needs_chromium
def test_the_step_slider_moves_the_mark_and_the_numbers(page, address):
    visit(page, address, f"{ADDRESS}&sparse_panel=descent")
    until(page, REPORTED)
    found = sparse.descend(sparse.Task(), PLAN, steps=15)
    cell = page.locator('td[data-number="Test error"]')
    assert cell.inner_text() == format_value(found.test_error)
    page.fill("#knob-descent_step", "14")
    page.keyboard.press("Enter")
    until(page, f"onehead.asked > 1 && {REPORTED}")
    assert cell.inner_text() == format_value(found.after(14).test_error)
    until(page, EXACT)
    assert page.evaluate('document.getElementById("picture").layout.meta.at') == 14
    # dragging the mark gives whole steps
    box, grip = page.locator("#picture .nsewdrag").first.bounding_box(), page.locator("#grip").bounding_box()
    page.mouse.move(grip["x"] + grip["width"] / 2, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 4.9 / 15.0, box["y"] + 40)
    page.mouse.up()
    until(page, DRAWN)
    assert page.input_value("#knob-descent_step") == "5"
    assert page.locator("#wrong-descent_step").is_hidden()


@needs_chromium
def test_knobs_of_joint_training_are_shown_in_its_panels_only(page, address):
    visit(page, address, "view=sparse&sparse_panel=alignment")
    page.evaluate("document.querySelectorAll('details').forEach((more) => (more.open = true))")
    assert page.is_hidden("#knob-descent_step") and page.is_hidden("#knob-ridge_query")
    for panel, step in (("descent", True), ("protocols", False), ("alignment", False)):
        page.select_option("#knob-sparse_panel", panel)
        assert page.is_visible("#knob-descent_step") is step
        assert page.is_visible("#knob-ridge_query") is (panel != "alignment")


@needs_chromium
def test_the_page_shows_the_five_ways(page, address):
    visit(page, address, f"{ADDRESS}&sparse_panel=protocols")
    until(page, REPORTED)
    until(page, EXACT)
    names = page.evaluate('document.getElementById("picture").data.map((trace) => trace.name)')
    assert names[:2] == ["two steps, data split", "two steps, all data"] and len(names) == 6
    assert page.inner_text("#badge").startswith("Approximate")  # several minima at this ridge of the query
