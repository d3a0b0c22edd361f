"""Several heads in the explorer: knobs, refusals in the words of the library, what sharing costs."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.support.browser import needs_chromium
from tests.support.explorer import EXACT, until, visit

from onehead import aim
from onehead.app import VIEWS, read_state
from onehead.app.drafts.curves import draft_curve
from onehead.app.page import ASSETS
from onehead.app.presets import PRESETS
from onehead.app.refusals import explain
from onehead.app.server.training_jobs import Trainer, training_sweep
from onehead.app.tours import SEVERAL
from onehead.app.views import curve
from onehead.errors import InvalidArgument
from onehead.sweep import sweep

SHARED = {"attention": "cross", "aim_heads": "2", "sharing": "0.5"}


def state_of(view, **raw):
    state, wrong = read_state({"view": view, **raw})
    assert wrong == {}
    return state


def test_heads_without_a_theory_are_refused_in_the_words_of_the_library():
    for changes in ({}, {"attention": "self"}, {"attention": "cross", "mask": "causal"}):
        _, wrong = read_state({"view": "curve", "aim_heads": "2", **changes})
        with pytest.raises(InvalidArgument) as refusal:
            aim.Task(heads=2, **changes)
        assert refusal.value.allowed in wrong["aim_heads"]
        assert wrong["aim_heads"].startswith("Heads H must be 1 unless attention is cross")
    _, wrong = read_state({"view": "curve", "sharing": "0.5"})
    assert wrong["sharing"].startswith("Shared values ρ must be 0 for one head")


@pytest.mark.parametrize("view", ["head", "scaling"])
def test_views_whose_function_has_one_head_refuse_several(view):
    state = state_of(view, **SHARED)
    for job in ("draft", "report", "picture"):
        with pytest.raises(InvalidArgument, match="heads must be 1 for") as refusal:
            getattr(VIEWS[view], job)(state)
    assert explain(refusal.value).startswith("Heads H must be 1 for")
    with pytest.raises(InvalidArgument, match="heads must be 1 for scaling"):
        aim.scaling(state.task, state.learner, [1000.0])


def test_numbers_are_those_of_the_library():
    state = state_of("curve", **SHARED, alpha="2")
    report = VIEWS["curve"].report(state)
    shown = {number.name: number.value for number in report.numbers}
    task = aim.Task(target=aim.Product(kappa0=0.5), attention="cross", heads=2, sharing=0.5)
    point = aim.predict(task, aim.Learner(), 2.0)
    for name, key in (
        ("Test error", "test_error"),
        ("Error of one head", "head_error"),
        ("Size between heads", "q_cross"),
        ("Overlap between heads", "m_cross"),
    ):
        assert shown[name] == f"{getattr(point, key):.5g}"
    assert report.badge.level == point.certificate.kind == "conjecture"
    code = VIEWS["curve"].code(state)
    assert "--heads 2 --sharing 0.5" in code.shell and "heads=2, sharing=0.5" in code.python
    assert "thresholds" not in code.shell + code.python  # which have one head
    one = VIEWS["curve"].code(state_of("curve"))
    assert "heads" not in one.shell and "sharing" not in one.python


def test_heads_with_values_of_their_own_have_a_draft():
    """Their errors add up (M1): the draft is compared with the library, which solves one head with all samples."""
    task, learner = aim.Task(attention="cross", heads=3), aim.Learner()
    drawn = draft_curve(task, learner, [0.6, 2.0], seconds=60.0)
    exact = aim.curve(task, learner, [0.6, 2.0])
    top = np.max(exact.column("test_error"))
    for name in ("test_error", "test_error_clean", "train_loss"):
        # the coarsest rule to a residual of 3e-3, as other drafts
        assert np.allclose(drawn.column(name), exact.column(name), rtol=2e-3, atol=5e-3 * top), name
    assert draft_curve(task.changed(sharing=0.5), learner, [0.6, 2.0]).points == ()


def test_the_picture_shows_what_sharing_costs(monkeypatch):
    monkeypatch.setitem(curve.EXACT_POINTS, 3, 3)
    state = state_of("curve", **SHARED, alpha_from="0.5", alpha_to="2", best="1")
    draft = VIEWS["curve"].draft(state)
    assert [trace["name"] for trace in draft.figure["data"]] == ["values of their own (ρ = 0)"]
    picture = VIEWS["curve"].picture(state)
    assert "what sharing costs" in picture.caption and "best weight decay is not drawn" in picture.caption
    own = [row["test_error"] for row in picture.rows if row["status"] == "converged"]
    apart = [row["test_error"] for row in picture.rows if row["status"] == "values of their own"]
    one = aim.curve(aim.Task(attention="cross"), aim.Learner(), [0.5, 1.0, 2.0]).column("test_error")
    assert apart == pytest.approx((2.0 * one).tolist(), rel=1e-4)  # quadrature error of a point
    assert all(a < b for a, b in zip(apart, own, strict=True))
    line = next(trace for trace in picture.figure["data"] if trace["name"].startswith("values of their own"))
    assert line["y"] == apart


def test_runs_of_several_heads_and_of_one_are_kept_apart(tmp_path, monkeypatch):
    trainer = Trainer(tmp_path / "runs.sqlite")
    run = {"dim": 20, "alpha": 0.5, "seed": 0, "target": "product"}
    one, several = state_of("curve", attention="cross"), state_of("curve", **SHARED)
    numbers = dict.fromkeys(("test_error", "test_error_clean", "train_loss", "rank"), 0.1)
    for own, other in ((one, several), (several, one)):
        row = run | training_sweep(own)[1] | {"dim": 20} | numbers
        monkeypatch.setattr(trainer, "_rows", lambda row=row: [row])
        assert len(trainer.trained_points(own)) == 1
        assert trainer.trained_points(other) == []


def test_several_heads_are_trained_as_the_library_trains_them(tmp_path):
    state = state_of("curve", **SHARED, alpha="1", train_dim="20", train_points="1", train_seeds="1")
    axes, fixed, _ = training_sweep(state)
    trained = aim.train(state.task, state.learner, dim=20, alpha=axes["alpha"][0], seeds=1)
    assert (fixed["heads"], fixed["sharing"]) == (state["aim_heads"], state["sharing"])
    store = tmp_path / "runs.sqlite"
    sweep("aim.train", axes, fixed=fixed, seeds=1, store=store)
    (point,) = Trainer(store).trained_points(state)
    # the same run; the optimiser ends within its tolerance, from another number of starts
    assert point.mean["test_error"] == pytest.approx(trained.test_error, rel=1e-5)


def test_the_story_tells_what_the_library_says():
    """The two test errors in the last step of the story, with the digits written there."""
    (preset,) = (p for p in PRESETS if "share values" in p.name)
    state = state_of("curve", **{name: str(value) for name, value in preset.values.items()})
    errors = [
        aim.predict(task, state.learner, 1.0).test_error for task in (state.task, state.task.changed(sharing=0.0))
    ]
    assert f"{errors[0]:.2f} in place of {errors[1]:.2f}" in SEVERAL.steps[-1].text
    assert SEVERAL.steps[-1].values == preset.values


@needs_chromium
def test_the_story_shows_shared_values(page, address):
    visit(page, address, "view=curve")
    page.click("[data-tour='2']")
    levels = []
    for step in SEVERAL.steps:
        until(page, f"document.getElementById('tour-title').textContent === {step.title!r} && {EXACT}")
        names = page.evaluate("oneheadDrawing.current.figure.data.map((trace) => trace.name)")
        assert ("values of their own (ρ = 0)" in names) == (step.values["sharing"] > 0.0)
        assert page.locator("#knob-sharing").is_visible()
        assert page.input_value("#knob-aim_heads") == "2"
        levels.append(page.evaluate("document.getElementById('badge').className"))
        page.click("#tour-next")
    assert levels == ["badge converged", "badge conjecture", "badge conjecture"]
    page.click("#tab-head")
    until(page, "onehead.machine().status === 'refused'")
    assert "Heads H must be 1" in page.inner_text("#badge")


@needs_chromium
def test_the_draft_solver_of_a_page_leaves_several_heads_to_the_library(browser):
    page = browser.new_page()
    page.evaluate((ASSETS / "solver.js").read_text(encoding="utf-8"))
    made = SimpleNamespace(
        **page.evaluate("""() => ({
      one: oneheadSolver.problem({ attention: "cross" }) !== null,
      two: oneheadSolver.problem({ attention: "cross", aim_heads: "2" }) !== null,
    })""")
    )
    assert made.one and not made.two
    page.close()
