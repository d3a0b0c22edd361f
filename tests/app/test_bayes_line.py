"""The best possible learner in every picture of errors, or why it is missing; drafts of maps and the hard phase."""

import numpy as np
import pytest

from onehead import aim, sparse
from onehead.app.drafts.derived import bayes_error, draft_bayes_excess
from onehead.app.drawing import contour_levels
from onehead.app.state import read_state
from onehead.app.views import VIEWS, hard_phase, scaling, two_parameter_map
from onehead.app.views.base import BEST_POSSIBLE
from onehead.app.views.bayes_line import why_unknown
from onehead.numerics.time_budget import stopwatch

HARD = {"labels": "hard", "loss": "cross-entropy"}


def state_of(**raw):
    state, wrong = read_state({name: str(value) for name, value in raw.items()})
    assert not wrong
    return state


def drafted(monkeypatch, **raw):
    """A state and its draft, computed without a time limit."""
    monkeypatch.setattr(two_parameter_map, "DRAFT_SECONDS", 60.0)
    monkeypatch.setattr(hard_phase, "DRAFT_SECONDS", 60.0)
    monkeypatch.setattr("onehead.app.drafts.curves.stopwatch", lambda _: stopwatch(60.0))
    state = state_of(**raw)
    return state, VIEWS[state.view].draft(state)


def best_trace(picture):
    """The curve of the best possible learner in a picture."""
    found = [trace for trace in picture.figure["data"] if trace.get("name") == BEST_POSSIBLE]
    assert len(found) == 1 and found[0]["line"]["dash"] == "dot" and found[0]["line"]["color"] == "@ink"
    return found[0]


@pytest.mark.parametrize(
    "raw",
    [
        {"view": "curve"},
        {"view": "decay"},
        {"view": "scaling", "dim": 30},
        {"view": "scaling", "dim": 30, "scaling_panel": "decomposition"},
        {"view": "sparse"},
        {"view": "sparse", "sparse_panel": "tuning"},
        {"view": "sparse", "sparse_panel": "hard-phase"},
        {"view": "map"},
        {"view": "map", "map_x": "kappa0", "map_y": "noise"},
    ],
    ids=lambda raw: " ".join(map(str, raw.values())),
)
def test_every_picture_of_errors_shows_the_best_possible_learner(raw, monkeypatch):
    _, picture = drafted(monkeypatch, **raw)
    trace = best_trace(picture)
    assert trace.get("z") or len(trace["y"]) > 1


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ({"view": "curve", **HARD}, "Labels must be soft"),
        ({"view": "decay", **HARD}, "Labels must be soft"),
        ({"view": "map", **HARD}, "Labels must be soft"),
        ({"view": "scaling", "dim": 30, "attention": "self"}, "Attention must be tied or cross"),
    ],
    ids=lambda raw: raw.get("view", "") if isinstance(raw, dict) else "",
)
def test_the_caption_gives_the_reason_where_the_best_possible_learner_is_not_known(raw, reason, monkeypatch):
    _, picture = drafted(monkeypatch, **raw)
    assert all(trace.get("name") != BEST_POSSIBLE for trace in picture.figure["data"])
    assert f"The best possible learner is not drawn. {reason}" in picture.caption
    assert picture.caption.count("is not known") == 1


def test_a_map_of_the_error_above_the_best_possible_is_refused_where_that_is_not_known():
    state = state_of(view="map", map_of="above_best", **HARD)
    for picture in (VIEWS["map"].draft(state), VIEWS["map"].picture(state)):
        assert picture.refusal.startswith("Labels must be soft: the best possible learner is not known for hard labels")


def test_a_head_with_leading_directions_has_no_best_possible_learner():
    task = aim.Task(target=aim.PowerLaw(gamma=1.2, dim=40))
    assert why_unknown(task, aim.Learner(leading=0)) == ""
    assert "which is not known with 2 leading directions" in why_unknown(task, aim.Learner(leading=2))


def test_the_best_error_of_a_draft_is_exact():
    for task in (aim.Task(), aim.Task(noise=0.0), aim.Task(target=aim.PowerLaw(gamma=0.75, dim=30))):
        for alpha in (0.05, 0.4, 3.0):
            # the same quadrature, without its error estimate
            assert bayes_error(task, alpha) == pytest.approx(aim.bayes(task, alpha).test_error, rel=1e-12)
        assert bayes_error(task, np.inf) == pytest.approx(aim.bayes(task, 1.0).floor, rel=1e-12)


def test_the_best_excess_error_of_a_draft_is_close_to_the_exact_one():
    task = aim.Task(target=aim.PowerLaw(gamma=0.75, dim=30))
    ratios = tuple(np.geomspace(0.07, 20.0, 9).tolist())
    exact = [best.test_error - best.floor for best in aim.bayes_curve(task, ratios).points]
    # power laws between seven points: the width of a line on an axis of three decades
    assert np.allclose(np.log(draft_bayes_excess(task, ratios)), np.log(exact), atol=0.12)


def test_no_trained_head_is_better_than_the_best_possible_learner(monkeypatch):
    monkeypatch.setattr(scaling, "EXACT_POINTS", 4)
    state = state_of(view="scaling", dim=30)
    rows = VIEWS["scaling"].picture(state).rows
    for row in rows:
        best = aim.bayes(state.task, row["alpha"])
        assert row["bayes_excess_error"] == pytest.approx(best.test_error - best.floor, rel=1e-9)
        assert row["test_error"] > best.test_error
    monkeypatch.setattr(two_parameter_map, "EXACT_SIZE", (3, 2))
    for axes in ({}, {"map_x": "kappa0", "map_y": "noise"}):
        state = state_of(view="map", **axes)
        picture = VIEWS["map"].picture(state)
        assert len(picture.rows) == 6
        assert all(row["test_error"] > row["bayes_test_error"] > 0.0 for row in picture.rows)
        above = VIEWS["map"].picture(state.changed(map_of="above_best"))
        table = np.array(above.figure["data"][0]["z"])
        expected = [row["test_error"] - row["bayes_test_error"] for row in above.rows]
        assert np.allclose(table.ravel(), expected, rtol=1e-9)
        best = best_trace(picture)
        assert {key: best["contours"][key] for key in ("start", "end", "size")} == contour_levels(
            picture.figure["data"][0]["z"]
        )


def test_the_best_possible_error_in_the_tuning_panel_is_exact():
    state = state_of(view="sparse", sparse_panel="tuning")
    line = best_trace(VIEWS["sparse"].draft(state))
    assert line["y"] == [sparse.bayes(state.sparse_task, state.protocol.alpha).test_error] * 2
    names = [number.name for number in VIEWS["sparse"].report(state).numbers]
    assert names == ["Test error, attention", "Best possible"]


@pytest.mark.parametrize("of", ["test_error", "rank", "train_loss", "above_best"])
def test_a_map_without_alpha_or_weight_decay_has_a_draft(of, monkeypatch):
    monkeypatch.setattr(two_parameter_map, "CELL_DRAFT_SIZE", (3, 2))
    state, picture = drafted(monkeypatch, view="map", map_x="kappa0", map_y="noise", map_of=of)
    table, (x, y) = picture.figure["data"][0]["z"], (picture.figure["data"][0][axis] for axis in "xy")
    own = state.changed(kappa0=x[1], noise=y[1])
    point = aim.predict(own.task, own.learner, own["alpha"])
    true = point.test_error - bayes_error(own.task, own["alpha"]) if of == "above_best" else getattr(point, of)
    assert table[1][1] == pytest.approx(true, rel=0.03, abs=0.003)  # the coarsest quadrature rule


def test_a_map_of_the_training_loss_over_weight_decay_has_a_draft(monkeypatch):
    monkeypatch.setattr(two_parameter_map, "CELL_DRAFT_SIZE", (2, 2))
    state, picture = drafted(monkeypatch, view="map", map_x="weight_decay", map_y="noise", map_of="train_loss")
    first = picture.figure["data"][0]
    own = state.changed(weight_decay=first["x"][1], noise=first["y"][1])
    true = aim.predict(own.task, own.learner, own["alpha"]).train_loss
    assert first["z"][1][1] == pytest.approx(true, rel=0.03)


def test_the_hard_phase_has_a_draft(monkeypatch):
    raw = {"view": "sparse", "sparse_panel": "hard-phase", "length": 300, "strength": 8}
    state, picture = drafted(monkeypatch, **raw, alpha0=0.0125, alpha1=0.0125)
    assert not picture.exact and "Hard between" in picture.caption
    assert 4 <= len(picture.rows) < 20
    low, high = (min(r["alpha"] for r in picture.rows if r["hard"]), max(r["alpha"] for r in picture.rows if r["hard"]))
    known = sparse.bayes(state.sparse_task, 0.02)
    # points lie a thousandth on either side of a jump
    assert low == pytest.approx(known.information_threshold, rel=2e-3)
    assert high == pytest.approx(known.algorithmic_threshold, rel=2e-3)
    monkeypatch.setattr(hard_phase, "DRAFT_SECONDS", 0.0)
    assert VIEWS["sparse"].draft(state).figure["data"] == []
