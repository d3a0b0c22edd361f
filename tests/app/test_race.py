"""The race: the prediction first, then trained heads land on it; on a server, and from runs stored in a page."""

import numpy as np
import pytest
from tests.support.browser import needs_chromium, quiet_page
from tests.support.explorer import DRAWN, EXACT, until, visit

from onehead import aim
from onehead.app import VIEWS, read_state
from onehead.app.export import export
from onehead.app.presets import PRESETS
from onehead.app.recording import GRID, Grid, Setting, _trained
from onehead.app.server.training_jobs import training_sweep
from onehead.app.views import curve
from onehead.sweep import sweep

TRAINED = "oneheadDrawing.current.figure.data.filter((t) => (t.name || '').startsWith('trained'))"
NARROW = {"width": 0.75, "kappa0": 0.5}  # a preset
SMALL = {"train_dim": "20", "train_points": "2", "train_seeds": "2"}


def test_runs_are_recorded_for_every_preset_that_can_be_trained():
    names = GRID.trained_names
    for preset in PRESETS:
        state, _ = read_state({"view": preset.view, **{name: str(value) for name, value in preset.values.items()}})
        assert (GRID.name(state) in names) == VIEWS[preset.view].trains, preset.name


def test_recorded_runs_are_means_over_seeds():
    state, _ = read_state({"view": "curve", **SMALL})
    found = _trained(state)
    error, rank = found["traces"]
    axes, fixed, seeds = training_sweep(state)
    assert (error["yaxis"], rank["yaxis"]) == ("y", "y2") and len(error["x"]) == 2 and found["seeds"] == seeds == 2
    rows = sweep("aim.train", axes, fixed=fixed, seeds=seeds).to_rows()
    for i, alpha in enumerate(axes["alpha"]):
        runs = [row for row in rows if row["alpha"] == alpha]
        errors = np.array([row["test_error"] for row in runs])
        # a page stores five digits
        assert error["x"][i] == pytest.approx(runs[0]["samples"] / 400, rel=1e-4)
        assert error["y"][i] == pytest.approx(errors.mean(), rel=1e-4)
        assert rank["y"][i] == pytest.approx(np.mean([row["rank"] for row in runs]), rel=1e-4)
        assert error["error_y"]["array"][i] == pytest.approx(errors.std(ddof=1) / np.sqrt(2.0), rel=1e-3)
        # and they are near the prediction, at d = 20
        assert errors.mean() == pytest.approx(aim.predict(state.task, state.learner, alpha).test_error, rel=0.3)


def test_an_exact_picture_says_how_long_it_took(monkeypatch):
    monkeypatch.setitem(curve.EXACT_POINTS, 2, 3)
    state, _ = read_state({"view": "curve"})
    assert VIEWS["curve"].picture(state).seconds > 0.0
    assert VIEWS["curve"].draft(state).seconds == 0.0


@needs_chromium
def test_runs_land_on_the_prediction_as_they_finish(page, address):
    # a noise of its own, so that no other test has trained these heads
    query = "&".join(f"{name}={value}" for name, value in {**SMALL, "train_seeds": "3", "noise": "0.37"}.items())
    visit(page, address, f"view=curve&{query}")
    page.click("#train")  # before the exact picture: the prediction comes first
    until(page, "onehead.trained && onehead.trained.running")
    assert page.evaluate("onehead.machine().status") == "exact"
    assert page.inner_text("#job-message").startswith("Theory: ")
    assert "of 6 runs in" in page.inner_text("#job-message")
    # the picture of the last run is drawn after the server has said that it ended
    until(page, f"!onehead.trained.running && {EXACT} && {TRAINED}.length === 2")
    until(page, f"{TRAINED}[0].error_y.array.length === 2 && {TRAINED}[0].error_y.array.every(bar => bar > 0)")
    assert "6 runs stored" in page.inner_text("#training-message")


@needs_chromium
def test_stored_runs_land_one_by_one(browser, tmp_path):
    stops = {"alpha": (0.2, 0.5, 1.0), "kappa0": (0.5,), "noise": (0.5,), "weight_decay": (0.01,)}
    settings = (Setting("curve", NARROW, "alpha", (0.2, 0.5)), Setting("curve", {"beta": 3.0}))
    export(tmp_path, grid=Grid(views=("curve",), stops=stops, settings=settings))
    address = (tmp_path / "index.html").as_uri()
    with quiet_page(browser, address) as page:
        page.goto(f"{address}?view=curve&width=0.75")
        until(page, DRAWN)
        until(page, EXACT)
        until(page, "!document.getElementById('train').hidden")
        assert page.inner_text("#train") == "Race: trained heads"
        assert page.evaluate(TRAINED) == []
        page.click("#train")
        counts = set()
        while page.evaluate("!onehead.trained || onehead.trained.running"):
            landed = page.evaluate(TRAINED)
            counts.add(len(landed[0]["x"]) if landed else 0)
        until(page, f"{EXACT} && {TRAINED}.length === 2 && {TRAINED}[0].x.length === 6")
        assert len(counts) > 3  # not all at once
        assert page.inner_text("#training-message").startswith("24 runs, trained when this page was recorded")
        page.evaluate("oneheadKnobs.set({ alpha: 0.2 })")  # the runs belong to the problem, not to the marked point
        until(page, f"{EXACT} && {TRAINED}.length === 2")
        page.evaluate("oneheadKnobs.set({ noise: 0.6 })")  # another problem, drawn by the page itself
        until(page, f"{EXACT} && document.getElementById('train').hidden")
        assert page.evaluate(TRAINED) == []
    with quiet_page(browser, address, reduced_motion="reduce") as page:
        page.goto(f"{address}?view=curve&width=0.75")
        until(page, EXACT)
        until(page, "!document.getElementById('train').hidden")
        page.click("#train")
        until(page, f"{TRAINED}.length === 2 && {TRAINED}[0].x.length === 6")
