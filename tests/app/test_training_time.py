"""The view of training time: numbers of the shell, singular values that stay and fade, play and reduced motion."""

import json

import numpy as np
import pytest
from tests.support.browser import needs_chromium, quiet_page
from tests.support.explorer import DRAWN, EXACT, until, visit

from onehead import aim
from onehead.aim.verbs.training_time import relaxation_of
from onehead.app import VIEWS, read_state
from onehead.app.export import export
from onehead.app.recording import TIME_STOPS, Grid, off_grid_settings
from onehead.app.views.training_time import DRAWN as COUNT
from onehead.app.views.training_time import LOWEST
from onehead.errors import InvalidArgument

FADING = {"attention": "cross", "weight_decay": "0.3", "alpha": "1", "time": "20"}


def state_of(**raw):
    state, wrong = read_state({"view": "time", **raw})
    assert wrong == {}
    return state


def bundle(figure, name):
    """The curves of one trace, which are separated by gaps."""
    trace = next(trace for trace in figure["data"] if trace["name"] == name)
    curves = [[]]
    for x, y in zip(trace["x"], trace["y"], strict=True):
        if x is None:
            curves.append([])
        else:
            curves[-1].append((x, y))
    return [curve for curve in curves if curve]


def test_the_view_opens_with_an_untied_head():
    state = state_of()
    assert state.task.attention == "cross" and state.adjusted == {"attention": "cross"}
    assert read_state({"view": "spectrum"})[0].task.attention == "tied"


def test_numbers_are_those_of_the_shell(onehead):
    state = state_of(**FADING, start="0.05", cut="1e-5")
    report = VIEWS["time"].report(state)
    shown = {number.name: number.value for number in report.numbers}
    shell = VIEWS["time"].code(state).shell
    assert "--time 20.0 --start 0.05 --cut 1e-05" in shell
    done = onehead(*shell.split()[1:])
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    for name, key in (
        ("Rank above the cut", "rank_above"),
        ("Rank", "rank"),
        ("Time needed", "time_needed"),
        ("Faintest", "faintest"),
        ("Largest", "largest"),
        ("Decades", "decades"),
        ("Mean", "mean"),
        ("Second moment", "second_moment"),
    ):
        assert shown[name] == f"{answer[key]:.5g}", name
    assert report.badge.level == answer["kind"] == "conjecture"


def test_curves_solve_the_equation_of_gradient_descent():
    """The curves in the picture, against a Runge-Kutta solution of s' = 2 s (mhat x - λ - Sigmahat s) / λ by λt."""
    state = state_of(**FADING)
    figure = VIEWS["time"].picture(state).figure
    point = aim.predict(state.task, state.learner, 1.0)
    relaxation = relaxation_of(point, 0.1)
    sources = relaxation.quantile_sources(COUNT)
    kept = bundle(figure, "stay")
    faded = bundle(figure, "fade")
    assert len(kept) + len(faded) == COUNT
    assert len(kept) / COUNT == pytest.approx(point.rank, abs=1.0 / COUNT)
    epsilon, slope = point.threshold, point.slope
    for source, curve in ((sources[0], kept[0]), (sources[-1], faded[-1])):

        def rate(s, source=source):
            return 2.0 * s * (source / epsilon - 1.0 - s / (slope * epsilon))

        s, now = 0.1, 0.0
        for end, drawn in curve[:30]:
            steps = max(20, int(400 * (end - now)))
            h = (end - now) / steps
            for _ in range(steps):
                k1 = rate(s)
                k2 = rate(s + 0.5 * h * k1)
                k3 = rate(s + 0.5 * h * k2)
                s += h * (k1 + 2.0 * k2 + 2.0 * k3 + rate(s + h * k3)) / 6.0
            now = end
            assert drawn == pytest.approx(s, rel=1e-4)  # fourth order, steps of 1/400
    assert min(y for curve in faded for _, y in curve[:-1]) >= LOWEST


def test_the_share_above_the_cut_falls_to_the_rank():
    picture = VIEWS["time"].picture(state_of(**FADING))
    above = next(t for t in picture.figure["data"] if t["name"] == "share above the cut")["y"]
    assert above[0] == 1.0 and np.all(np.diff(above) <= 0.0)
    rank = next(t for t in picture.figure["data"] if t["name"] == "rank at the minimum")["y"][0]
    assert above[-1] == pytest.approx(rank, abs=0.01)  # at λt = 300; a few values of the minimum are below the cut
    rows = [row for row in picture.rows if row["time"] == picture.rows[-1]["time"]]
    assert [row["share"] for row in rows] == [(i + 0.5) / COUNT for i in range(COUNT)]


def test_a_draft_is_close_to_the_exact_picture():
    state = state_of(**FADING)
    draft, exact = (job(state).figure for job in (VIEWS["time"].draft, VIEWS["time"].picture))
    own, other = (np.array([curve[20][1] for curve in bundle(figure, "stay")]) for figure in (draft, exact))
    assert own == pytest.approx(other, rel=0.02)  # the coarsest rule moves threshold and slope by a per cent


def test_heads_without_the_law_are_refused_in_the_words_of_the_library():
    one_head, no_mean = "time must be left out unless one untied head", "unasked must be 0 for training_time"
    refused = [({"attention": "self"}, one_head), ({"param": "direct"}, one_head), ({"unasked": "0.3"}, no_mean)]
    for raw, sentence in refused:
        state = state_of(**{**FADING, **raw})
        for job in ("draft", "picture"):
            with pytest.raises(InvalidArgument, match=sentence):
                getattr(VIEWS["time"], job)(state)
    state = state_of(**{**FADING, "weight_decay": "3", "alpha": "0.02"})
    for job in ("draft", "picture"):
        with pytest.raises(InvalidArgument, match="left out where the map is zero"):
            getattr(VIEWS["time"], job)(state)


@needs_chromium
def test_play_moves_the_marked_time_and_the_numbers_follow(page, address):
    visit(page, address, "view=curve")
    page.click("#tab-time")
    until(page, EXACT)
    assert page.input_value("#knob-attention") == "cross"
    assert page.inner_text("#play") == "▶ Play λt"
    before = float(page.input_value("#knob-time"))
    page.click("#play")
    until(page, f"Number(oneheadKnobs.values.time) > {3.0 * before}")
    page.click("#play")
    until(page, EXACT)
    time = float(page.input_value("#knob-time"))
    marked = page.evaluate("oneheadDrawing.current.figure.layout.meta.at")
    assert marked == time
    found = aim.training_time(aim.predict(aim.Task(attention="cross"), aim.Learner(), 0.5), time)
    assert page.inner_text("[data-number='Rank above the cut']") == f"{found.rank_above:.5g}"


@needs_chromium
def test_without_motion_nothing_plays(browser, address):
    with quiet_page(browser, address, reduced_motion="reduce") as page:
        visit(page, address, "view=time&attention=cross")
        assert page.locator("#play").is_hidden()
        page.fill("#knob-time", "30")
        page.keyboard.press("Enter")
        until(page, EXACT)
        assert page.evaluate("oneheadDrawing.current.figure.layout.meta.at") == 30


@needs_chromium
def test_a_page_without_a_server_plays_recorded_times(browser, tmp_path):
    own = [setting for setting in off_grid_settings((0.5,)) if setting.view in ("time", "head")]
    stops = {"alpha": (0.5,), "kappa0": (0.5,), "noise": (0.5,), "weight_decay": (0.01,)}
    export(tmp_path, grid=Grid(views=("head",), stops=stops, settings=tuple(own)))
    address = (tmp_path / "index.html").as_uri()
    with quiet_page(browser, address) as page:
        page.goto(f"{address}?view=time")
        until(page, DRAWN)
        until(page, EXACT)
        page.evaluate("oneheadKnobs.set({ time: '21.3' })")  # between two stops
        until(page, EXACT)
        time = page.evaluate("Number(oneheadKnobs.values.time)")
        assert time in TIME_STOPS and page.evaluate("onehead.machine().status") == "exact"
        found = aim.training_time(aim.predict(aim.Task(attention="cross"), aim.Learner(), 0.5), time)
        assert page.inner_text("[data-number='Rank above the cut']") == f"{found.rank_above:.5g}"
        dots = page.evaluate("oneheadDrawing.current.figure.data.find((t) => t.meta && t.meta.follows)")
        exact = [y for y in found.quantiles(COUNT) if y >= LOWEST]
        assert {round(x, 9) for x in dots["x"]} == {time}
        # interpolated between points a seventh apart in log t; the faintest bend most
        assert np.allclose(np.log(sorted(dots["y"])[-20:]), np.log(sorted(exact)[-20:]), atol=0.15)
        page.evaluate("oneheadKnobs.set({ time: '0.1' })")
        until(page, EXACT)
        page.click("#play")
        until(page, "Number(oneheadKnobs.values.time) > 1")
