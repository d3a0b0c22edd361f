"""What an exported page knows beside its grid: presets, tours and tables; and that nothing is recorded twice."""

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
from onehead.app.export import KEPT, export
from onehead.app.presets import PRESETS
from onehead.app.recording import GRID, Grid, places, run_of
from onehead.app.tours import TOURS
from onehead.app.views import curve
from onehead.app.views.base import Picture
from onehead.errors import OneheadError

ALPHAS = (0.1, 0.5, 1.0)
STOPS = {"alpha": ALPHAS, "kappa0": (0.2, 0.5), "noise": (0.5,), "weight_decay": (0.01,)}
DRAWN = "window.onehead && onehead.drawn > 0 && onehead.drawn === onehead.asked"
RUNNING = "oneheadTour.moving()"


def some_places():
    """The first tour, and a preset of another view that costs nothing."""
    found = [
        p for p in places(ALPHAS) if p.view in Grid.views and any(p.values == step.values for step in TOURS[0].steps)
    ]
    align = next(
        p for p in places(ALPHAS) if p.values.get("sparse_panel") == "alignment" and "signal_tokens" in p.values
    )
    return (*found, align)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder, kept = tmp_path_factory.mktemp("tours"), dict(curve.POINTS)
    curve.POINTS.update({2: 5})  # fewer points of every curve: what is looked at is the page
    try:
        export(folder, grid=Grid(stops=STOPS, places=some_places()))
    finally:
        curve.POINTS.update(kept)
    assert not (folder / KEPT).exists()
    return folder


@pytest.fixture
def opened(written):
    address = (written / "index.html").as_uri()
    size = {"width": 1280, "height": 860}
    with chromium() as browser, quiet_page(browser, address, viewport=size, accept_downloads=True) as page:
        yield page, address


def test_every_preset_and_every_step_of_a_tour_is_recorded():
    names, recorded = GRID.off_grid(), {GRID.name(s) for chain in GRID.chains for point in chain for s in point}
    assert set(names) <= recorded
    for preset in PRESETS:
        assert GRID.name(recording._state(preset.view, preset.values)) in recorded, preset.name
    for tour in TOURS:
        for step in tour.steps:
            knob, stops = run_of(step, recording.ALPHAS)
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
    seen = []
    for step in TOURS[0].steps:
        until(page, f"document.getElementById('tour-title').textContent === {step.title!r} && !{RUNNING} && {DRAWN}")
        until(page, "onehead.reported === onehead.asked")
        assert page.evaluate("onehead.machine().word") == "exact", step.title
        assert page.inner_text("#badge").startswith(("Converged", "Approximate"))
        at = page.evaluate("oneheadKnobs.values.alpha")
        assert float(at) == (step.runs["alpha"][1] if step.runs else step.values["alpha"])
        seen.append(page.inner_text("#tour-text"))
        page.click("#tour-next")
    assert page.locator("#tour").is_hidden()
    assert seen[-1] == TOURS[0].steps[-1].recorded and "onehead app" in seen[-1]


@needs_chromium
def test_presets_tables_and_knobs_off_the_grid(opened, tmp_path):
    page, address = opened
    page.goto(f"{address}?view=curve")
    until(page, DRAWN)
    with page.expect_download() as waiting:
        page.click("#csv")
    waiting.value.save_as(tmp_path / "curve.csv")
    rows = list(csv.DictReader((tmp_path / "curve.csv").read_text(encoding="utf-8").splitlines()))
    first = [row for row in rows if row["curve"] == "test error (factorised)"]
    assert len(first) == 5 and len({row["curve"] for row in rows}) > 3
    for row in first:
        true = aim.predict(aim.Task(), aim.Learner(), float(row["sample ratio α = n/d²"])).test_error
        assert float(row["error"]) == pytest.approx(true, rel=1e-4)  # five digits, of the ratio too
    page.select_option("#preset", label="Sparse: alignment of the query (L 10, R 3, θ 6, π 0.2)")
    until(page, f"{DRAWN} && onehead.machine().key.startsWith('view=sparse')")
    until(page, "onehead.reported === onehead.asked")
    assert page.evaluate("onehead.machine().word") == "exact"
    link = page.url
    page.goto(link)  # which leads to the same place, though it is not on the grid
    until(page, DRAWN)
    assert page.evaluate("oneheadKnobs.values.strength") == "6" and page.evaluate("onehead.machine().word") == "exact"
    # a step of the tour: its curve may be moved along, another knob leads back to the grid
    page.goto(f"{address}?view=curve&noise=0&weight_decay=0.001&kappa0=0.3&direct=0&alpha=0.05")
    until(page, DRAWN)
    assert page.evaluate("oneheadKnobs.values.noise") == "0"
    page.evaluate("oneheadKnobs.set({ alpha: 0.5 })")
    until(page, DRAWN)
    assert [page.evaluate(f"Number(oneheadKnobs.values.{knob})") for knob in ("noise", "alpha")] == [0, 0.5]
    page.evaluate("oneheadKnobs.set({ kappa0: 0.2 })")
    until(page, DRAWN)
    knobs = ("noise", "weight_decay", "kappa0", "alpha")
    assert [page.evaluate(f"Number(oneheadKnobs.values.{knob})") for knob in knobs] == [0.5, 0.01, 0.2, 0.5]
    assert page.evaluate("onehead.machine().word") == "exact"


def test_what_was_recorded_is_not_recorded_again(tmp_path, monkeypatch):
    grid = Grid(views=("spectrum",), stops={**STOPS, "alpha": (0.5, 1.0)})
    monkeypatch.setattr("onehead.app.export._card", lambda: b"")
    steps = []

    def until_second():
        steps.append(1)
        if len(steps) == 3:  # in the second chain
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(tmp_path, grid=grid, progress=until_second)
    kept = list((tmp_path / KEPT).iterdir())
    assert len(kept) == 1 and not (tmp_path / "index.html").exists()
    solved = []
    real = recording._record_chain
    monkeypatch.setattr(recording, "_record_chain", lambda *given: solved.append(1) or real(*given))
    steps.clear()
    told = export(tmp_path, grid=grid, progress=lambda: steps.append(1))
    assert len(solved) == 1 and len(steps) == told["points"] == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["card.png", "index.html"]
    # a damaged file is recorded again
    (tmp_path / KEPT).mkdir()
    for name in {path.name for path in kept}:
        (tmp_path / KEPT / name).write_bytes(b"\x1f\x8bno")
    export(tmp_path, grid=grid)
    assert len(solved) == 3


def test_a_ctrl_c_that_vanishes_is_heard_at_the_next_point(tmp_path):
    """On its way through compiled code the exception may be lost."""
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


def test_a_gap_without_an_answer_is_left_out(monkeypatch):
    """Near the peak, with little weight decay, the theory breaks down between two points that are solved."""
    state = recording._state("curve", {})
    alphas, errors = [0.1, 0.2, 0.4, 0.8, 1.6], [0.5, 0.4, 0.1, 0.05, 0.04]
    picture = Picture({"data": [{"x": alphas, "y": errors}]}, "")
    asked = []

    def predict(task, learner, alpha):
        asked.append(alpha)
        if len(asked) == 1:
            raise OneheadError("no solution found here.")
        return SimpleNamespace(test_error=0.08)

    monkeypatch.setattr(recording.aim, "predict", predict)
    assert recording._interpolation(state, picture) == pytest.approx(
        abs(0.45 - 0.08) / 0.08
    )  # of the gap from 0.5 to 0.4
    assert len(asked) == 3


def test_ctrl_c_keeps_what_is_done(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "onehead", "app", "export", str(tmp_path / "page")], stderr=subprocess.PIPE, text=True
    )
    kept, end = tmp_path / "page" / KEPT, time.monotonic() + 240.0
    try:
        while not (kept.is_dir() and any(kept.glob("*.json.gz"))):
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert re.search(r"interrupted; what is recorded is kept in .*; run the same command to go on\.$", said.strip())
    assert any(kept.glob("*.json.gz"))


PREPARED = Path(__file__).parents[2] / "docs" / "assets" / "explorer" / "index.html"


@needs_chromium
def test_the_page_of_the_documentation_is_small_and_true():
    """What `python -m studies.explorer_page` wrote: it opens, tours and presets are there, and a number is the library's."""
    assert PREPARED.stat().st_size < 2.2e6
    address = PREPARED.as_uri()
    with chromium() as browser, quiet_page(browser, address, viewport={"width": 1280, "height": 860}) as page:
        page.goto(f"{address}?view=curve&alpha=1&weight_decay=0.1")
        until(page, DRAWN)
        until(page, "onehead.reported === onehead.asked")
        point = aim.predict(aim.Task(), aim.Learner(weight_decay=0.1), 1.0)
        assert page.locator('td[data-number="Test error"]').inner_text() == f"{point.test_error:.5g}"
        assert page.locator("[data-tour]:visible").count() == 2 and page.locator("#preset option").count() > 10
        places = page.evaluate(
            "[...document.querySelectorAll('#papers li:not([hidden]) a')].map((a) => a.getAttribute('href'))"
        )
        assert "../../aim.html" in places
