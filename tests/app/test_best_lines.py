"""The best possible learner in every picture of errors, or the sentence why it is not there; sketches where there were none."""

import numpy as np
import pytest

from onehead import aim, sparse
from onehead.aim.sketch.derived import best_error, sketch_bayes_excess
from onehead.app.drawing import levels
from onehead.app.state import read_state
from onehead.app.views import VIEWS, hard, pair, scaling
from onehead.app.views.base import POSSIBLE
from onehead.app.views.best import not_known
from onehead.numerics.patience import stopwatch

HARD = {"labels": "hard", "loss": "cross-entropy"}


def state_of(**raw):
    state, wrong = read_state({name: str(value) for name, value in raw.items()})
    assert not wrong
    return state


def sketched(monkeypatch, **raw):
    """A sketch with all the time it wants."""
    monkeypatch.setattr(pair, "PATIENCE", 60.0)
    monkeypatch.setattr(hard, "PATIENCE", 60.0)
    monkeypatch.setattr("onehead.aim.sketch.curves.stopwatch", lambda _: stopwatch(60.0))
    state = state_of(**raw)
    return state, VIEWS[state.view].sketch(state)


def dotted(picture):
    """The line of the best possible learner in a picture."""
    found = [trace for trace in picture.figure["data"] if trace.get("name") == POSSIBLE]
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
def test_every_picture_of_errors_has_its_line(raw, monkeypatch):
    _, picture = sketched(monkeypatch, **raw)
    trace = dotted(picture)
    assert trace.get("z") or len(trace["y"]) > 1


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"view": "curve", **HARD}, "labels must be soft"),
        ({"view": "decay", **HARD}, "labels must be soft"),
        ({"view": "map", **HARD}, "labels must be soft"),
        ({"view": "scaling", "dim": 30, "attention": "self"}, "attention must be tied or cross"),
    ],
    ids=lambda raw: raw.get("view", "") if isinstance(raw, dict) else "",
)
def test_where_it_is_not_known_a_sentence_says_so(raw, words, monkeypatch):
    _, picture = sketched(monkeypatch, **raw)
    assert all(trace.get("name") != POSSIBLE for trace in picture.figure["data"])
    assert f"No line of the best possible learner: {words}" in picture.caption
    assert picture.caption.count("is not known") == 1


def test_a_map_above_the_best_is_refused_where_that_is_not_known():
    state = state_of(view="map", map_of="above_best", **HARD)
    for picture in (VIEWS["map"].sketch(state), VIEWS["map"].picture(state)):
        assert picture.refusal.startswith("labels must be soft: the best possible learner of drawn labels is not known")


def test_a_head_with_leading_directions_has_no_best_beside_it():
    task = aim.Task(target=aim.PowerLaw(gamma=1.2, dim=40))
    assert not_known(task, aim.Learner(leading=0)) == ""
    assert "who is not known with 2 directions told apart" in not_known(task, aim.Learner(leading=2))


def test_the_quick_best_is_the_library_s():
    for task in (aim.Task(), aim.Task(noise=0.0), aim.Task(target=aim.PowerLaw(gamma=0.75, dim=30))):
        for alpha in (0.05, 0.4, 3.0):
            # the same quadrature, without the errors of it
            assert best_error(task, alpha) == pytest.approx(aim.bayes(task, alpha).test_error, rel=1e-12)
        assert best_error(task, np.inf) == pytest.approx(aim.bayes(task, 1.0).floor, rel=1e-12)


def test_the_best_excess_of_a_sketch_is_near_the_library_s():
    task = aim.Task(target=aim.PowerLaw(gamma=0.75, dim=30))
    ratios = tuple(np.geomspace(0.07, 20.0, 9).tolist())
    exact = [best.test_error - best.floor for best in aim.bayes_curve(task, ratios).points]
    # power laws between seven points: a line's width on an axis of three decades
    assert np.allclose(np.log(sketch_bayes_excess(task, ratios)), np.log(exact), atol=0.12)


def test_no_trained_head_is_below_the_best_possible(monkeypatch):
    monkeypatch.setattr(scaling, "EXACT", 4)
    state = state_of(view="scaling", dim=30)
    rows = VIEWS["scaling"].picture(state).rows
    for row in rows:
        best = aim.bayes(state.task, row["alpha"])
        assert row["bayes_excess_error"] == pytest.approx(best.test_error - best.floor, rel=1e-9)
        assert row["test_error"] > best.test_error
    monkeypatch.setattr(pair, "EXACT", (3, 2))
    for words in ({}, {"map_x": "kappa0", "map_y": "noise"}):
        state = state_of(view="map", **words)
        picture = VIEWS["map"].picture(state)
        assert len(picture.rows) == 6
        assert all(row["test_error"] > row["bayes_test_error"] > 0.0 for row in picture.rows)
        above = VIEWS["map"].picture(state.changed(map_of="above_best"))
        table = np.array(above.figure["data"][0]["z"])
        expected = [row["test_error"] - row["bayes_test_error"] for row in above.rows]
        assert np.allclose(table.ravel(), expected, rtol=1e-9)
        best = dotted(picture)
        assert {key: best["contours"][key] for key in ("start", "end", "size")} == levels(
            picture.figure["data"][0]["z"]
        )


def test_the_line_of_tuning_is_the_library_s():
    state = state_of(view="sparse", sparse_panel="tuning")
    line = dotted(VIEWS["sparse"].sketch(state))
    assert line["y"] == [sparse.bayes(state.sparse_task, state.protocol.alpha).test_error] * 2
    names = [number.name for number in VIEWS["sparse"].report(state).numbers]
    assert names == ["Test error, attention", "Best possible"]


@pytest.mark.parametrize("of", ["test_error", "rank", "train_loss", "above_best"])
def test_a_map_without_ratio_or_decay_has_a_sketch(of, monkeypatch):
    monkeypatch.setattr(pair, "CELLS", (3, 2))
    state, picture = sketched(monkeypatch, view="map", map_x="kappa0", map_y="noise", map_of=of)
    table, (x, y) = picture.figure["data"][0]["z"], (picture.figure["data"][0][axis] for axis in "xy")
    own = state.changed(kappa0=x[1], noise=y[1])
    point = aim.predict(own.task, own.learner, own["alpha"])
    true = point.test_error - best_error(own.task, own["alpha"]) if of == "above_best" else getattr(point, of)
    assert table[1][1] == pytest.approx(true, rel=0.03, abs=0.003)  # the coarsest rule


def test_a_map_of_the_training_loss_along_the_decay_has_a_sketch(monkeypatch):
    monkeypatch.setattr(pair, "CELLS", (2, 2))
    state, picture = sketched(monkeypatch, view="map", map_x="weight_decay", map_y="noise", map_of="train_loss")
    first = picture.figure["data"][0]
    own = state.changed(weight_decay=first["x"][1], noise=first["y"][1])
    true = aim.predict(own.task, own.learner, own["alpha"]).train_loss
    assert first["z"][1][1] == pytest.approx(true, rel=0.03)


def test_the_hard_phase_has_a_sketch(monkeypatch):
    raw = {"view": "sparse", "sparse_panel": "hard-phase", "length": 300, "strength": 8}
    state, picture = sketched(monkeypatch, **raw, alpha0=0.0125, alpha1=0.0125)
    assert not picture.exact and "Hard between" in picture.caption
    assert 4 <= len(picture.rows) < 20
    low, high = (min(r["alpha"] for r in picture.rows if r["hard"]), max(r["alpha"] for r in picture.rows if r["hard"]))
    known = sparse.bayes(state.sparse_task, 0.02)
    # the jumps are drawn a thousandth beside them
    assert low == pytest.approx(known.information_threshold, rel=2e-3)
    assert high == pytest.approx(known.algorithmic_threshold, rel=2e-3)
    monkeypatch.setattr(hard, "PATIENCE", 0.0)
    assert VIEWS["sparse"].sketch(state).figure["data"] == []
