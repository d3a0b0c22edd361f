"""The draft solver of pages without a server (assets/solver.js), compared with the library, and a page that uses it."""

import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.support.browser import needs_chromium, quiet_page
from tests.support.explorer import DRAG, until

from onehead import aim
from onehead.app import export as export_module
from onehead.app.export import SOLVED_KNOBS, SOLVED_VIEWS, export
from onehead.app.knobs import KNOBS
from onehead.app.page import ASSETS
from onehead.app.recording import Grid, Setting
from onehead.app.views import VIEWS, curve
from onehead.app.views.head import DIM, SEED, random_numbers, scene
from onehead.approximation import without_approximation_warnings
from onehead.errors import OneheadError

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = needs_chromium

SOLVED = "window.onehead && onehead.drawn > 0 && onehead.exact === onehead.asked"
# solve along a path of falling sample ratios, as the page does where it knows no neighbour
SOLVE = """([values, quality]) => {
  const problem = oneheadSolver.problem(values), path = [values.alpha];
  while (path[0] < 4) path.unshift(1.5 * path[0]);
  const found = oneheadSolver.curve(problem, path, quality).find((point) => point.alpha === values.alpha);
  return found && { test_error: found.test_error, test_error_clean: found.test_error_clean, rank: found.rank, train_loss: found.train_loss };
}"""


@pytest.fixture(scope="module")
def solver(browser):
    page = browser.new_page()
    page.evaluate((ASSETS / "solver.js").read_text(encoding="utf-8"))
    yield page
    page.close()


def problem_of(values):
    """Task and learner of the library with the values of knobs."""
    tied = values["attention"] == "tied"
    target = (aim.MarchenkoPastur if tied else aim.Product)(kappa0=values["kappa0"])
    names = ("noise", "beta0", "attention", "mask", "unasked")
    task = aim.Task(target=target, **{name: values[name] for name in names})
    return task, aim.Learner(**{name: values[name] for name in ("weight_decay", "beta", "param", "loss", "width")})


def random_values(seed):
    """Random values of the knobs that the solver knows."""
    rng = np.random.default_rng([44, seed])

    def log_uniform(low, high):
        return float(f"{np.exp(rng.uniform(np.log(low), np.log(high))):.4g}")

    attention = str(rng.choice(["tied", "cross"]))
    mask = str(rng.choice(["none", "none", "causal"]))
    return {
        "alpha": log_uniform(0.05, 4.0),
        "kappa0": log_uniform(0.1, 2.0),
        "noise": float(rng.choice([0.1, 0.5, 1.0])),
        "weight_decay": log_uniform(0.01, 0.5),
        "beta": float(rng.choice([1.0, 0.7, 1.5])),
        "beta0": float(rng.choice([1.0, 0.7, 1.5])),
        "attention": attention,
        "mask": mask,
        "param": str(rng.choice(["factorised", "factorised", "direct"])),
        "loss": str(rng.choice(["squared", "cross-entropy"])),
        "width": float(rng.choice([1.0, 1.0, 0.5])),
        "unasked": float(rng.choice([0.0, 0.3])) if attention == "cross" else 0.0,
    }


@pytest.mark.parametrize("seed", range(24))
def test_drafts_agree_with_the_library(solver, seed):
    values = random_values(seed)
    with without_approximation_warnings():
        exact = aim.predict(*problem_of(values), values["alpha"])
    found = solver.evaluate(SOLVE, [values, "draft"])
    assert found is not None, values
    # 1 %, the width of a line; differences below 0.0005 cannot be seen in a picture of errors
    assert found["test_error"] == pytest.approx(exact.test_error, rel=1e-2, abs=5e-4), values
    assert found["rank"] == pytest.approx(exact.rank, rel=1e-2, abs=2e-3), values
    assert found["train_loss"] == pytest.approx(exact.train_loss, rel=1e-2, abs=1e-4), values


# both rules at one point, as the page compares them
COMPARED = """(values) => {
  const problem = oneheadSolver.problem(values);
  if (oneheadSolver.tooSharp(problem)) return "too sharp";
  const path = [values.alpha];
  while (path[0] < 4) path.unshift(1.5 * path[0]);
  const found = oneheadSolver.curve(problem, path, "fine").find((point) => point.alpha === values.alpha);
  if (!found) return "not found";
  const other = oneheadSolver.solve(problem, values.alpha, found.coordinates, "draft");
  return [found.test_error, other ? Math.abs(other.test_error / found.test_error - 1) : 1];
}"""


@pytest.mark.nightly
def test_over_the_whole_sliders_drafts_agree_or_are_marked(solver):
    """Random values over the whole range of every slider: within 1 %, or the two rules differ, or a sentence."""
    outcomes = Counter()
    for seed in range(120):
        rng = np.random.default_rng([45, seed])
        values = random_values(seed)
        for name in ("alpha", "kappa0", "noise", "weight_decay", "beta", "beta0", "width", "unasked"):
            low, high, _, log = KNOBS[name].slider
            drawn = np.exp(rng.uniform(np.log(low), np.log(high))) if log else rng.uniform(low, high)
            if name in ("alpha", "kappa0", "noise", "weight_decay") or rng.random() < 0.4:
                values[name] = float(f"{drawn:.4g}")
        if values["attention"] == "tied" and values["mask"] == "causal":
            values["unasked"] = 0.0  # not solved in the page
        found = solver.evaluate(COMPARED, values)
        if isinstance(found, str) or found[1] > 1e-2:
            outcomes["marked"] += 1
            continue
        try:
            with without_approximation_warnings():
                exact = aim.predict(*problem_of(values), values["alpha"])
        except OneheadError:
            continue
        assert found[0] == pytest.approx(exact.test_error, rel=1e-2, abs=5e-4), values
        outcomes["agree"] += 1
    assert outcomes["agree"] > 3 * outcomes["marked"], outcomes


def test_queries_with_a_mean_agree_with_the_library(solver):
    """Tied heads see the common logits in a sector of their own (D2.2)."""
    values = random_values(0) | {"attention": "tied", "mask": "none", "param": "factorised", "loss": "squared"}
    values |= {"beta": 1.0, "beta0": 1.0, "kappa0": 0.5, "alpha": 0.8, "weight_decay": 0.05, "noise": 0.5}
    values |= {"unasked": 0.3, "width": 1.0}
    exact = aim.predict(*problem_of(values), values["alpha"])
    found = solver.evaluate(SOLVE, [values, "draft"])
    assert found["test_error"] == pytest.approx(exact.test_error, rel=1e-2)
    assert found["rank"] == pytest.approx(exact.rank, rel=1e-2)


@pytest.mark.parametrize(
    "changes", [{}, {"noise": 0.0, "kappa0": 0.3}, {"attention": "cross"}, {"noise": 1.0, "weight_decay": 0.3}]
)
def test_thresholds_and_the_best_learner_agree_with_the_library(solver, changes):
    values = {name: KNOBS[name].default for name in SOLVED_KNOBS} | changes
    task, learner = problem_of(values)
    marks = aim.thresholds(task, learner)
    found = solver.evaluate("(values) => oneheadSolver.thresholds(oneheadSolver.problem(values))", values)
    for name in ("interpolation", "emergence", "recovery"):
        if name in found:
            assert found[name] == pytest.approx(getattr(marks, name), rel=1e-3), name  # emergence: the coarse rule
    assert found["interpolation"]
    if task.tied:
        best = solver.evaluate(
            "(values) => [0.05, 0.5, 2].map((a) => oneheadSolver.bestPossible(oneheadSolver.problem(values), a))",
            values,
        )
        assert best == pytest.approx([aim.bayes(task, a).test_error for a in (0.05, 0.5, 2.0)], rel=1e-4, abs=1e-9)


def test_kinds_of_heads_that_are_not_solved_are_left_to_the_library(solver):
    for other in ({"attention": "self"}, {"tokens": 3}, {"labels": "hard"}, {"kurtosis": 1}, {"weight_decay": "0+"}):
        assert solver.evaluate("(values) => oneheadSolver.problem(values)", other) is None


def test_the_random_numbers_of_the_page_are_those_of_the_server():
    numbers = random_numbers()
    found = scene(aim.Task(), DIM, len(numbers["tokens"]))
    width = round(0.5 * DIM)
    factor = np.reshape(numbers["normal"][: width * DIM], (width, DIM))
    # four decimals are kept, in sums of 12 products
    assert factor.T @ factor / np.sqrt(width * DIM) == pytest.approx(found.target, abs=1e-3), SEED
    noise = np.array(numbers["noise"])
    assert (noise + noise.T) / np.sqrt(2 * DIM) == pytest.approx(found.noise, abs=1e-4)
    assert np.array(numbers["tokens"]) == pytest.approx(found.tokens[:, 0], abs=1e-4)


# --- a page without a server


@pytest.fixture(scope="module")
def static_page(browser, tmp_path_factory):
    """A page from a file that holds two sample ratios of one problem."""
    folder, points, card = tmp_path_factory.mktemp("page"), dict(curve.EXACT_POINTS), export_module._card
    curve.EXACT_POINTS.update({2: 5})
    export_module._card = lambda: b""
    stops = {"alpha": (0.5, 1.0), "kappa0": (0.5,), "noise": (0.5,), "weight_decay": (0.01,)}
    try:
        export(folder, grid=Grid(stops=stops, settings=(Setting("decay", {}),)))
    finally:
        curve.EXACT_POINTS.update(points)
        export_module._card = card
    address = (folder / "index.html").as_uri()
    with quiet_page(browser, address, viewport={"width": 1280, "height": 860}) as page:
        yield page, address


QUERIES = {
    "view=curve&noise=1.3": {"noise": 1.3},
    "view=spectrum&alpha=2&attention=cross": {"alpha": 2.0, "attention": "cross"},
    "view=head&alpha=0.8&kappa0=0.3": {"alpha": 0.8, "kappa0": 0.3},
    "view=decay&noise=0.2": {"noise": 0.2},
}


@pytest.mark.parametrize("query", QUERIES)
def test_every_solved_view_is_drawn_for_settings_that_are_not_recorded(static_page, query):
    page, address = static_page
    page.goto(f"{address}?{query}")
    until(page, SOLVED)
    assert page.inner_text("#state") == "computed in this page"
    assert page.inner_text("#badge").startswith("Draft.")
    values = {name: KNOBS[name].default for name in SOLVED_KNOBS} | QUERIES[query]
    exact = aim.predict(*problem_of(values), values["alpha"])
    shown = float(page.locator('td[data-number="Test error"]').inner_text())
    assert shown == pytest.approx(exact.test_error, rel=1e-2)


def test_drafts_with_a_larger_error_say_so(static_page):
    """Where the solutions of two quadrature rules differ by more than 1 %, badge and caption give the difference."""
    page, address = static_page
    page.goto(f"{address}?view=curve&alpha=0.396&kappa0=0.1637&noise=2.997&weight_decay=0.01425&alpha_from=0.3")
    until(page, SOLVED)
    assert re.search(r"quadrature rules, which differ by [12](\.\d)? %", page.inner_text("#badge"))
    assert re.search(r"Two quadrature rules differ by up to \d(\.\d)? %\.", page.inner_text("#caption"))
    page.goto(f"{address}?view=curve&beta0=5")
    until(page, "onehead.machine().refusal")
    assert "The labels are too sharp for the quadrature rule of this page" in page.inner_text("#badge")


def test_recorded_settings_stay_exact_and_sliders_move_between_them(static_page):
    page, address = static_page
    page.goto(f"{address}?view=curve&alpha=1")
    until(page, SOLVED)
    assert page.inner_text("#state") == "exact"
    for knob in (name for name in SOLVED_KNOBS if KNOBS[name].parameter.kind == "number"):
        if knob not in VIEWS["curve"].knobs:
            continue
        asked = page.evaluate("onehead.asked")
        page.evaluate(
            """(name) => { const slide = document.getElementById("slide-" + name);
            slide.value = Number(slide.value) + (Number(slide.value) < Number(slide.max) / 2 ? 7 : -7);
            slide.dispatchEvent(new Event("input", { bubbles: true })); }""",
            knob,
        )
        until(page, f"onehead.asked > {asked} && onehead.drawn === onehead.asked")
        assert page.evaluate("onehead.machine().status") in ("draft", "solving", "local"), knob
        assert page.evaluate("document.getElementById('picture').data[0].y.length") > 1, knob
        page.click("#reset")
        until(page, "onehead.drawn === onehead.asked && onehead.machine().status === 'exact'")


def test_sliders_of_the_page_are_fast(static_page):
    """From the input event to the picture: 200 ms in the median, times the load per core where that is above one."""
    page, address = static_page
    page.goto(f"{address}?view=curve")
    until(page, SOLVED)
    times = [
        page.evaluate(DRAG, [("kappa0", "noise", "weight_decay", "alpha")[i % 4], (1, 2, 3, 5)[i % 3]])
        for i in range(16)
    ]
    assert np.median(times) < 200.0 * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)), times


def test_values_that_the_page_cannot_solve_are_explained(static_page):
    page, address = static_page
    page.goto(f"{address}?view=curve")
    until(page, SOLVED)
    for typed in ("-1", "0+", "much"):
        page.fill("#knob-weight_decay", typed)
        page.keyboard.press("Enter")
        until(page, "!document.getElementById('wrong-weight_decay').hidden")
        assert "onehead app" in page.inner_text("#wrong-weight_decay")
    page.fill("#knob-weight_decay", "0.02")
    page.keyboard.press("Enter")
    until(page, SOLVED)
    assert page.is_hidden("#wrong-weight_decay")
    page.goto(f"{address}?view=decay&mask=causal&unasked=0.3")  # each is solved, both together are not
    until(page, "onehead.machine().refusal")
    assert page.inner_text("#badge").endswith("No draft was found here; onehead app solves these values.")
    page.goto(f"{address}?view=curve")
    assert page.locator("#knob-attention option[value='self']").get_attribute("disabled") is not None


def test_the_preview_image_has_an_absolute_address_or_none(static_page):
    page, _ = static_page
    assert page.locator("meta[property='og:image']").count() == 0
    nothing = Grid(views=(), stops={"alpha": (0.5,)}), export_module.Recording({"draw": {}}, 0.0)
    found = export_module._page(*nothing, "https://example.org/x", "")
    assert 'content="https://example.org/x/card.png"' in found


def test_solved_views_and_knobs_exist():
    assert set(SOLVED_VIEWS) <= set(VIEWS) and set(SOLVED_KNOBS) <= set(KNOBS)


PREPARED = Path(__file__).parents[2] / "docs" / "assets" / "explorer" / "index.html"
EVENTS = 2000
BATCHES = 20
# random moves: sliders, choices, views, presets, undo; a pause of up to 60 ms after each
RANDOM_EVENTS = """async ([seed, count]) => {
  let x = seed;
  const any = (n) => (x = (x * 48271) % 2147483647) % n, shown = (e) => e.offsetParent !== null && !e.disabled;
  const pick = (query) => { const all = [...document.querySelectorAll(query)].filter(shown); return all[any(all.length)]; };
  for (let i = 0; i < count; i++) {
    const kind = any(20);
    if (kind < 13) {
      const slide = pick("[data-slide]");
      if (slide) {
        slide.value = any(Number(slide.max) + 1);
        slide.dispatchEvent(new Event("input", { bubbles: true }));
      }
    } else if (kind < 15) {
      const choice = pick("select[data-knob]");
      if (choice) {
        const options = [...choice.options].filter((o) => !o.disabled);
        choice.value = options[any(options.length)].value;
        choice.dispatchEvent(new Event("change", { bubbles: true }));
      }
    } else if (kind < 17) pick("nav a").click();
    else if (kind === 17) {
      const preset = document.getElementById("preset");
      preset.value = preset.options[1 + any(preset.options.length - 1)].value;
      preset.dispatchEvent(new Event("change", { bubbles: true }));
    } else document.getElementById(kind === 18 ? "undo" : "reset").click();
    await new Promise((done) => setTimeout(done, any(60)));
  }
}"""


@pytest.mark.nightly
def test_random_events_never_show_a_wrong_number(browser):
    """2,000 events on the page of the documentation; numbers are compared with the library whenever it rests."""
    address, compared = PREPARED.as_uri(), 0
    with quiet_page(browser, address, viewport={"width": 1280, "height": 860}) as page:
        page.goto(f"{address}?view=curve")
        for batch in range(BATCHES):
            page.evaluate(RANDOM_EVENTS, [4444 + 77 * batch, EVENTS // BATCHES])
            until(page, "onehead.machine().refusal !== '' || onehead.exact === onehead.asked")
            now = page.evaluate(
                "[onehead.machine().status, onehead.machine().key, oneheadKnobs.query().toString(), oneheadKnobs.values]"
            )
            status, key, query, values = now
            assert key == query
            assert page.evaluate("document.getElementById('picture').layout.meta.key") == query or status == "refused"
            if status != "local" or page.locator('td[data-number="Test error"]').count() == 0:
                continue
            numeric = {name for name in SOLVED_KNOBS if KNOBS[name].parameter.kind == "number"}
            typed = {name: float(values[name]) if name in numeric else values[name] for name in SOLVED_KNOBS}
            try:
                with without_approximation_warnings():
                    exact = aim.predict(*problem_of(typed), typed["alpha"])
            except OneheadError:
                continue
            if exact.status != "converged":
                continue
            shown = float(page.locator('td[data-number="Test error"]').inner_text())
            assert shown == pytest.approx(exact.test_error, rel=2e-2, abs=1e-3), typed
            compared += 1
    assert compared > 2
