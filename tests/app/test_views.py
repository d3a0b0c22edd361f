"""Views without a browser: sketches near the library, numbers equal to it, code that gives the same."""

import contextlib
import io
import json
import shlex
from collections import deque

import numpy as np
import plotly.graph_objects as go
import pytest
from tests.support.programs import program

from onehead import aim, sparse
from onehead.aim.sketch.curves import dot, sketch_decays, sketch_plateau, sketch_ratios
from onehead.app import VIEWS, read_state
from onehead.app.drawing import PAINTS, paint, show
from onehead.app.views import curve
from onehead.app.views.base import badge_of
from onehead.results import Certificate
from onehead.sparse.solve.sketch import capacities, errors

PAGES = [
    {"view": "curve"},
    {"view": "curve", "weight_decay": "0+", "noise": "0"},
    {"view": "curve", "param": "direct", "direct": "0", "loss": "cross-entropy"},
    {"view": "spectrum", "alpha": "4", "kappa0": "0.2", "noise": "0.1"},
    {"view": "spectrum", "alpha": "0.01", "weight_decay": "1"},
    {"view": "spectrum", "param": "direct", "beta": "2"},
    {"view": "spectrum", "param": "direct", "noise": "0", "weight_decay": "0+", "alpha": "2"},
    {"view": "decay"},
    {"view": "scaling"},
    {"view": "scaling", "scaling_panel": "decomposition"},
    {"view": "scaling", "scaling_panel": "phase", "dim": "40"},
    {"view": "sparse"},
    {"view": "sparse", "sparse_loss": "hinge", "ridge": "0"},
    {"view": "sparse", "sparse_loss": "squared-hinge"},
    {"view": "sparse", "sparse_panel": "alignment"},
    {"view": "sparse", "sparse_panel": "capacity"},
    {"view": "sparse", "sparse_panel": "tuning", "sparse_loss": "square"},
    {"view": "checkpoint"},
]


def state_of(**raw):
    state, wrong = read_state(raw)
    assert wrong == {}
    return state


@pytest.mark.parametrize("raw", PAGES, ids=lambda raw: " ".join(raw.values()))
def test_every_sketch_is_a_valid_figure_in_both_themes(raw):
    state = state_of(**raw)
    figure = VIEWS[state.view].sketch(state).figure
    for theme in PAINTS:
        painted = paint(figure, theme)
        go.Figure(painted)  # plotly checks every name and value
        text = json.dumps(painted, allow_nan=False)
        assert '"@' not in text  # no symbolic colour is left


def test_a_sketch_of_the_curve_is_within_half_a_per_cent_of_the_axis(monkeypatch):
    monkeypatch.setattr(
        "onehead.aim.sketch.curves._recent", deque()
    )  # whatever was drawn before, and how much of it in time
    # residual 3e-3 in log q on the coarsest rule: the test error moves by less than that; two pixels of 400
    alphas = [0.05, 0.12, 0.3, 0.8, 2.0]
    for changes in ({}, {"param": "direct"}, {"weight_decay": 0.2}):
        head = aim.Learner(**changes)
        drawn = sketch_ratios(aim.Task(), head, alphas, patience=60.0)
        exact = aim.curve(aim.Task(), head, alphas)
        assert drawn.x == pytest.approx(alphas)
        for name in ("test_error", "test_error_clean", "train_loss"):
            top = np.max(exact.column("test_error"))
            assert np.allclose(drawn.column(name), exact.column(name), rtol=0.0, atol=5e-3 * top), name
        assert np.allclose(drawn.column("rank"), exact.column("rank"), rtol=0.0, atol=5e-3)


def test_other_sketches_are_near_the_library():
    task, head = aim.Task(), aim.Learner()
    drawn = sketch_decays(task, head, 0.5, [0.003, 0.03, 0.3], patience=60.0)
    exact = [aim.predict(task, head.changed(weight_decay=d), 0.5).test_error for d in (0.003, 0.03, 0.3)]
    assert drawn.column("test_error") == pytest.approx(exact, rel=5e-3)
    assert dot(task, head, 0.5, patience=60.0).rank == pytest.approx(aim.predict(task, head, 0.5).rank, abs=3e-3)
    assert sketch_plateau(task, head).test_error == pytest.approx(aim.plateau(task, head).test_error, rel=5e-3)
    for model in ("attention", "pooled", "vectorised"):
        found = errors(sparse.Task(), [sparse.Protocol()], model, patience=60.0)[0]
        # 2^9 points: measured below 5e-3
        assert found == pytest.approx(
            sparse.predict(sparse.Task(), sparse.Protocol(), model=model).test_error, abs=6e-3
        )
    near = capacities(sparse.Task(), [sparse.Protocol()], patience=60.0)[0]
    assert near == pytest.approx(sparse.capacity(sparse.Task(), sparse.Protocol()).attention, rel=0.1)


def test_a_sketch_stops_when_its_time_is_up():
    drawn = sketch_ratios(aim.Task(tokens=5), aim.Learner(), np.geomspace(0.1, 2.0, 30), patience=0.05)
    assert len(drawn.dots) < 30


def numbers_of(state):
    report = VIEWS[state.view].report(state)
    return report.badge, {number.name: number.value for number in report.numbers}


def test_the_numbers_are_the_library_s():
    state = state_of(view="curve", kappa0="0.3", alpha="0.7")
    badge, shown = numbers_of(state)
    point = aim.predict(state.task, state.learner, 0.7)
    assert shown["Test error"] == f"{point.test_error:.5g}"
    assert shown["Rank"] == f"{point.rank:.5g}"
    assert shown["Overlap"] == f"{point.m:.5g}"
    assert shown["Interpolation"] == f"{aim.thresholds(state.task, state.learner).interpolation:.5g}"
    assert badge.level == "converged"
    state = state_of(view="sparse", strength="4")
    _, shown = numbers_of(state)
    for model in ("attention", "pooled", "vectorised"):
        exact = sparse.predict(state.sparse_task, state.protocol, model=model).test_error
        assert shown[f"Test error, {model}"] == f"{exact:.5g}"


def test_badges_say_how_far_to_trust():
    assert numbers_of(state_of(view="curve", weight_decay="0.0001", alpha="0.2"))[0].level == "approximate"
    assert numbers_of(state_of(view="sparse", sparse_panel="capacity"))[0].level == "conjecture"
    badge, _ = numbers_of(state_of(view="curve", weight_decay="0+", param="direct", alpha="0.25"))
    assert badge.level == "failed"
    assert "infinite test error" in badge.text
    assert badge_of(Certificate(status="converged", kind="claim")).level == "converged"


def test_numbers_are_written_with_five_digits():
    assert [show(v) for v in (0.1359874, 3, None, float("inf"), float("nan"), True, "x")] == [
        "0.13599", "3", "–", "∞", "–", "yes", "x",
    ]  # fmt: skip


shown_code = pytest.mark.parametrize(
    ("raw", "name", "key"),
    [
        ({"view": "curve", "kappa0": "0.3", "alpha": "0.7", "alpha_from": "0.5", "alpha_to": "0.7"}, "Test error", "test_error"),
        ({"view": "spectrum", "alpha": "2", "beta": "1.5"}, "Zero eigenvalues", "zero_mass"),
        ({"view": "sparse", "strength": "4.5", "sparse_loss": "square"}, "Test error, attention", "test_error"),
        ({"view": "sparse", "sparse_panel": "alignment", "alpha0": "2"}, "Cosine of the query", "cos_query"),
        ({"view": "scaling", "samples": "20000", "dim": "60"}, "Excess error", "excess_error"),
    ],
)  # fmt: skip


@shown_code
def test_the_python_shown_gives_the_number_shown(raw, name, key):
    state = state_of(**raw)
    code = VIEWS[state.view].code(state)
    # the curve with two points and the law left out: the words are what is tested, not the patience
    python = code.python.replace(", 31)", ", 2)").split("\nlaw = oh.aim.scaling")[0]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(python, "<as code>", "exec"), {})
    printed = [
        show(float(word)) for word in out.getvalue().replace("(", " ").replace(",", " ").split() if _is_number(word)
    ]
    assert numbers_of(state)[1][name] in printed


def _is_number(word):
    try:
        float(word)
    except ValueError:
        return False
    return True


@shown_code
def test_the_command_shown_gives_the_number_shown(raw, name, key):
    state = state_of(**raw)
    command = VIEWS[state.view].code(state).shell.splitlines()[0]
    words = shlex.split(command)
    assert words[0] == "onehead"
    done = program(*words[1:])
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    answer = answer[0] if isinstance(answer, list) else answer
    assert show(answer[key]) == numbers_of(state)[1][name]


def test_the_exact_picture_has_the_rows_of_the_library(monkeypatch):
    monkeypatch.setitem(curve.POINTS, 2, 5)
    state = state_of(view="curve", alpha_from="0.5", alpha_to="1", tokens="2", direct="0")
    picture = VIEWS["curve"].picture(state)
    assert picture.exact
    assert len(picture.rows) == 5
    first = aim.predict(state.task, state.learner, 0.5)
    assert picture.rows[0]["test_error"] == pytest.approx(first.test_error, rel=1e-4)  # quadrature error of a point


def test_best_weight_decay_lies_below_every_fixed_one(monkeypatch):
    monkeypatch.setitem(curve.POINTS, 2, 3)
    monkeypatch.setattr(curve, "TUNED_POINTS", 3)
    state = state_of(view="curve", best="1", direct="0", alpha_from="0.3", alpha_to="1")
    rows = VIEWS["curve"].picture(state).rows
    best = [row for row in rows if row["status"] == "best weight decay"]
    fixed = {round(row["alpha"], 9): row["test_error"] for row in rows if row["status"] != "best weight decay"}
    assert [round(row["alpha"], 9) for row in best] == list(fixed)
    assert all(row["test_error"] < fixed[round(row["alpha"], 9)] for row in best)
