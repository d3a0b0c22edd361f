"""An exported page beyond its grid: presets, tours and tables; recordings that are interrupted and continued."""

import csv
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.support.browser import chromium, needs_chromium, quiet_page
from tests.support.explorer import until

from onehead import aim
from onehead.app import recording
from onehead.app.export import PARTIAL_FOLDER, export
from onehead.app.presets import PRESETS
from onehead.app.recording import GRID, Grid, knob_run, off_grid_settings
from onehead.app.tours import TOURS
from onehead.app.views import curve
from onehead.app.views.base import Picture
from onehead.errors import OneheadError

ALPHAS = (0.1, 0.5, 1.0)
STOPS = {"alpha": ALPHAS, "kappa0": (0.2, 0.5), "noise": (0.5,), "weight_decay": (0.01,)}
DRAWN = "window.onehead && onehead.drawn > 0 && onehead.drawn === onehead.asked"
RUNNING = "oneheadTour.moving()"


def some_settings():
    """The settings of the first tour, and a preset of another view that takes no time."""
    found = [
        s
        for s in off_grid_settings(ALPHAS)
        if s.view in Grid.views and any(s.values == step.values for step in TOURS[0].steps)
    ]
    align = next(
        s
        for s in off_grid_settings(ALPHAS)
        if s.values.get("sparse_panel") == "alignment" and "signal_tokens" in s.values
    )
    return (*found, align)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder, points = tmp_path_factory.mktemp("tours"), dict(curve.EXACT_POINTS)
    curve.EXACT_POINTS.update({2: 5})  # fewer points of every curve, because only the page is tested
    try:
        export(folder, grid=Grid(stops=STOPS, settings=some_settings()))
    finally:
        curve.EXACT_POINTS.update(points)
    assert not (folder / PARTIAL_FOLDER).exists()
    return folder


@pytest.fixture
def opened(written):
    address = (written / "index.html").as_uri()
    size = {"width": 1280, "height": 860}
    with chromium() as browser, quiet_page(browser, address, viewport=size, accept_downloads=True) as page:
        yield page, address


def test_every_preset_and_every_step_of_a_tour_is_recorded():
    names, recorded = GRID.off_grid_names(), {GRID.name(s) for chain in GRID.chains for point in chain for s in point}
    assert set(names) <= recorded
    for preset in PRESETS:
        assert GRID.name(recording._state(preset.view, preset.values)) in recorded, preset.name
    for tour in TOURS:
        for step in tour.steps:
            knob, stops = knob_run(step, recording.ALPHAS)
            assert (knob, [stops[0], stops[-1]] if stops else []) == next(
                ((name, list(ends)) for name, ends in step.runs.items()), ("", [])
            )
            for value in stops or (None,):
                values = {**step.values, **({knob: value} if knob else {})}
                assert GRID.name(recording._state(step.view, values)) in recorded, step.title
    assert len(Grid().chains) == 30 and Grid().total == 450 < GRID.total


@needs_chromium
def test_a_tour_runs_without_a_server(opened):
    page, address = opened
    page.goto(address)
    until(page, DRAWN)
    page.click("[data-tour='0']")
    texts = []
    for step in TOURS[0].steps:
        until(page, f"document.getElementById('tour-title').textContent === {step.title!r} && !{RUNNING} && {DRAWN}")
        until(page, "onehead.reported === onehead.asked")
        assert page.evaluate("onehead.machine().status") == "exact", step.title
        assert page.inner_text("#badge").startswith(("Converged", "Approximate"))
        alpha = page.evaluate("oneheadKnobs.values.alpha")
        assert float(alpha) == (step.runs["alpha"][1] if step.runs else step.values["alpha"])
        texts.append(page.inner_text("#tour-text"))
        page.click("#tour-next")
    assert page.locator("#tour").is_hidden()
    assert texts[-1] == TOURS[0].steps[-1].recorded and "onehead app" in texts[-1]


@needs_chromium
def test_presets_tables_and_knobs_work_off_the_grid(opened, tmp_path):
    page, address = opened
    page.goto(f"{address}?view=curve")
    until(page, DRAWN)
    with page.expect_download() as waiting:
        page.click("#csv")
    waiting.value.save_as(tmp_path / "curve.csv")
    rows = list(csv.DictReader((tmp_path / "curve.csv").read_text(encoding="utf-8").splitlines()))
    first = [row for row in rows if row["curve"] == "test error (factorised)"]
    assert len(first) == 5 and len({row["curve"] for row in rows}) == 3
    for row in first:
        true = aim.predict(aim.Task(), aim.Learner(), float(row["sample ratio α = n/d²"])).test_error
        assert float(row["error"]) == pytest.approx(true, rel=1e-4)  # both numbers are recorded with five digits
    page.select_option("#preset", label="Sparse: alignment of the query (L 10, R 3, θ 6, π 0.2)")
    until(page, f"{DRAWN} && onehead.machine().key.startsWith('view=sparse')")
    until(page, "onehead.reported === onehead.asked")
    assert page.evaluate("onehead.machine().status") == "exact"
    link = page.url
    page.goto(link)  # reopens the same setting, though it is not on the grid
    until(page, DRAWN)
    assert page.evaluate("oneheadKnobs.values.strength") == "6" and page.evaluate("onehead.machine().status") == "exact"
    # a step of the tour: α may be moved along its curve; for another value of κ₀ the page computes a draft
    page.goto(f"{address}?view=curve&noise=0&weight_decay=0.001&kappa0=0.3&direct=0&alpha=0.05")
    until(page, DRAWN)
    assert page.evaluate("oneheadKnobs.values.noise") == "0"
    page.evaluate("oneheadKnobs.set({ alpha: 0.5 })")
    until(page, DRAWN)
    assert [page.evaluate(f"Number(oneheadKnobs.values.{knob})") for knob in ("noise", "alpha")] == [0, 0.5]
    page.evaluate("oneheadKnobs.set({ kappa0: 0.2 })")
    until(page, DRAWN)
    knobs = ("noise", "weight_decay", "kappa0", "alpha")
    assert [page.evaluate(f"Number(oneheadKnobs.values.{knob})") for knob in knobs] == [0, 0.001, 0.2, 0.5]
    until(page, "onehead.machine().status === 'local'")


def test_an_interrupted_recording_is_continued(tmp_path, monkeypatch):
    grid = Grid(views=("spectrum",), stops={**STOPS, "alpha": (0.5, 1.0)})
    monkeypatch.setattr("onehead.app.export._card", lambda: b"")
    steps = []

    def interrupt_second_chain():
        steps.append(1)
        if len(steps) == 3:  # in the second chain
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(tmp_path, grid=grid, progress=interrupt_second_chain)
    saved = list((tmp_path / PARTIAL_FOLDER).iterdir())
    assert len(saved) == 1 and not (tmp_path / "index.html").exists()
    recorded = []
    record_chain = recording._record_chain
    monkeypatch.setattr(recording, "_record_chain", lambda *args: recorded.append(1) or record_chain(*args))
    steps.clear()
    summary = export(tmp_path, grid=grid, progress=lambda: steps.append(1))
    assert len(recorded) == 1 and len(steps) == summary["points"] == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["card.png", "index.html"]
    # a damaged file is recorded again
    (tmp_path / PARTIAL_FOLDER).mkdir()
    for name in {path.name for path in saved}:
        (tmp_path / PARTIAL_FOLDER / name).write_bytes(b"\x1f\x8bno")
    export(tmp_path, grid=grid)
    assert len(recorded) == 3


def test_a_swallowed_ctrl_c_ends_the_recording_at_the_next_point(tmp_path):
    """Compiled code may swallow the exception."""
    steps, before = [], signal.signal(signal.SIGINT, signal.default_int_handler)

    def swallow():
        steps.append(1)
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)

    try:
        with pytest.raises(KeyboardInterrupt):
            export(tmp_path, grid=Grid(views=("spectrum",), stops={**STOPS, "alpha": (0.5, 1.0)}), progress=swallow)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(steps) == 1


def test_a_gap_without_a_solution_is_left_out_of_the_interpolation_error(monkeypatch):
    """Near the peak, with little weight decay, the theory may have no solution between two solved points."""
    state = recording._state("curve", {})
    alphas, errors = [0.1, 0.2, 0.4, 0.8, 1.6], [0.5, 0.4, 0.1, 0.05, 0.04]
    picture = Picture({"data": [{"x": alphas, "y": errors}]}, "")
    predicted = []

    def predict(task, learner, alpha):
        predicted.append(alpha)
        if len(predicted) == 1:
            raise OneheadError("no solution found here.")
        return SimpleNamespace(test_error=0.08)

    monkeypatch.setattr(recording.aim, "predict", predict)
    # the gap between the errors 0.5 and 0.4, as a share of the highest value
    assert recording._interpolation_error(state, picture) == pytest.approx(abs(0.45 - 0.08) / 0.5)
    assert len(predicted) == 3


def test_ctrl_c_keeps_finished_recordings(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "onehead", "app", "export", str(tmp_path / "page")], stderr=subprocess.PIPE, text=True
    )
    partial, end = tmp_path / "page" / PARTIAL_FOLDER, time.monotonic() + 240.0
    try:
        while not (partial.is_dir() and any(partial.glob("*.json.gz"))):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)
        _, messages = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert re.search(r"interrupted; recorded points are kept in .*; run the same command to go on\.$", messages.strip())
    assert any(partial.glob("*.json.gz"))


PREPARED = Path(__file__).parents[2] / "docs" / "assets" / "explorer" / "index.html"


@needs_chromium
def test_the_recorded_page_of_the_documentation_works():
    """The file written by `python -m studies.explorer_page` is small, and has tours, presets and correct numbers."""
    assert PREPARED.stat().st_size < 2.2e6
    address = PREPARED.as_uri()
    with chromium() as browser, quiet_page(browser, address, viewport={"width": 1280, "height": 860}) as page:
        page.goto(f"{address}?view=curve&alpha=1&weight_decay=0.1")
        until(page, DRAWN)
        until(page, "onehead.reported === onehead.asked")
        point = aim.predict(aim.Task(), aim.Learner(weight_decay=0.1), 1.0)
        assert page.locator('td[data-number="Test error"]').inner_text() == f"{point.test_error:.5g}"
        assert page.locator("[data-tour]:visible").count() == len(TOURS) and page.locator("#preset option").count() > 10
        links = page.evaluate(
            "[...document.querySelectorAll('#papers li:not([hidden]) a')].map((a) => a.getAttribute('href'))"
        )
        assert "../../aim.html" in links


def test_home_begins_with_the_recorded_page():
    docs = Path(__file__).parents[2] / "docs"
    lines = [line for line in (docs / "index.md").read_text(encoding="utf-8").splitlines() if line.strip()]
    assert lines[1].startswith("**[Try it here](try.md)**")
    frame = re.search(r'src="(assets/explorer/index.html)', lines[2])
    assert frame and (docs / frame[1]).is_file()


@needs_chromium
def test_every_knob_of_the_page_of_the_documentation_is_alive():
    """Each slider changes the picture, and the presets of learning curves have trained points."""
    with chromium() as browser, quiet_page(browser, PREPARED.as_uri()) as page:
        for view in ("curve", "decay"):
            page.goto(f"{PREPARED.as_uri()}?view={view}")
            until(page, DRAWN)
            sliders = page.evaluate(
                "[...document.querySelectorAll('[data-slide]')].filter((e) => !e.closest('.knob').hidden).map((e) => e.dataset.slide)"
            )
            assert {"noise", "kappa0", "weight_decay", "alpha"} <= set(sliders)
            for knob in sliders:
                before = page.evaluate("JSON.stringify(oneheadDrawing.current.figure)")
                page.evaluate(
                    """(name) => { const slide = document.getElementById("slide-" + name);
                    slide.value = Number(slide.value) + (Number(slide.value) < Number(slide.max) / 2 ? 12 : -12);
                    slide.dispatchEvent(new Event("input", { bubbles: true })); }""",
                    knob,
                )
                until(page, DRAWN)
                assert page.evaluate("JSON.stringify(oneheadDrawing.current.figure)") != before, knob
                page.click("#reset")
                until(page, DRAWN)
        stored = "async () => (await oneheadNetwork.ask('train', onehead.machine().key, { do: 'status' })).total"
        page.select_option("#preset", label="Interpolation peak (Δ 1, λ 0.001)")
        until(page, DRAWN)
        assert page.evaluate(stored) >= 12
