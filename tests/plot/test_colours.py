"""One colour per meaning: theory, training, target, best possible learner, optimum, and the models of sparse tokens."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from matplotlib.colors import to_hex

import onehead
from onehead import aim, plot, sparse
from onehead.figures.drawing import curves
from onehead.plot import style

FOLDER = Path(onehead.__file__).parent
TASK, HEAD = aim.Task(), aim.Learner()


def lines_of(axes):
    return {line.get_label(): line for line in axes.get_lines()}


def colour_of(line):
    return to_hex(line.get_color())


def test_colours_are_defined_in_one_module():
    sources = [*(FOLDER / "plot").glob("*.py"), *(FOLDER / "figures").rglob("*.py")]
    literal = re.compile(r"""["']#[0-9a-fA-F]{3,8}["']|color=["']0?\.\d+["']|["']C\d["']""")
    found = [path.name for path in sources if path.name != "style.py" and literal.search(path.read_text("utf-8"))]
    assert found == []


def test_meanings_have_different_colours():
    meanings = [style.THEORY, style.TRAINING, style.GREY, style.BEST, style.OPTIMUM, style.ACCENT, style.PURPLE]
    assert len(set(meanings)) == len(meanings)
    models = list(style.MODEL_COLOURS.values())
    assert len(set(models)) == 3 and style.TRAINING not in [*models, *style.OVERLAY_COLOURS]


def test_the_best_possible_learner_looks_the_same_in_both_models():
    curve = aim.curve(TASK, HEAD, [0.5, 1.0], bayes=True)
    signal = sparse.curve(sparse.Task(), sparse.Protocol(loss="square", ridge=0.1), [1.0, 2.0], bayes=True)
    for axes in (plot.learning_curve(curve), plot.error_curve(signal)):
        best = lines_of(axes)[style.BEST_LABEL]
        assert (colour_of(best), best.get_linestyle()) == (style.BEST, ":")


def test_the_best_weight_decay_is_no_measurement():
    found = lines_of(plot.tuning(aim.tune(TASK, HEAD, alpha=0.5)))
    point = next(line for label, line in found.items() if label.startswith("best"))
    assert colour_of(point) == style.OPTIMUM


def test_models_keep_their_colour_in_every_picture():
    plan, ratios = sparse.Protocol(loss="square", ridge=0.1, cos_query=0.5, sharpness=2.0), [1.0, 2.0]
    curves = {model: sparse.curve(sparse.Task(), plan, ratios, model=model) for model in style.MODEL_COLOURS}
    errors = lines_of(plot.error_curve(curves))
    capacity = lines_of(plot.capacity([sparse.capacity(sparse.Task(), plan)] * 2, [0.1, 0.2]))
    for model, colour in style.MODEL_COLOURS.items():
        assert colour_of(errors[model]) == colour == colour_of(capacity[model])


def test_figures_of_the_models_use_their_colours():
    rows = [
        {"model": model, "alpha": alpha, "test_error": 0.1, "state": "done", "dim": 10}
        for model in style.MODEL_COLOURS
        for alpha in (1.0, 2.0)
    ]
    axes = style.fresh_axes()
    labels = {model: model for model in style.MODEL_COLOURS}
    table = SimpleNamespace(rows=rows)
    curves(axes, table, None, "alpha", "test_error", "model", labels)
    found = lines_of(axes)
    assert {model: colour_of(found[model]) for model in labels} == style.MODEL_COLOURS


def test_lines_on_a_map_have_a_white_border():
    decays = {"y": ("weight_decay", [0.01, 0.1])}
    grid = aim.map(TASK, HEAD, x=("alpha", [0.5, 1.0]), **decays)
    line = lines_of(plot.heat_map(grid, lines={"best": [(0.5, 0.05), (1.0, 0.05)]}))["best"]
    assert colour_of(line) == style.OPTIMUM
    assert to_hex(line.get_path_effects()[0]._gc["foreground"]) == "#ffffff"


def test_approximate_stretches_are_dashed_and_missing_points_leave_a_gap():
    # The two branches differ near the interpolation peak, at the first two points, and agree at the others.
    curve = aim.curve(TASK, aim.Learner(weight_decay=1e-4), [0.16, 0.2, 0.5, 1.0])
    axes = plot.learning_curve(curve, quantity="test_error")
    sure, dashed = axes.get_lines()[0], lines_of(axes)["approximate"]
    assert list(np.isnan(sure.get_ydata())) == [True, True, False, False]
    assert list(np.isnan(dashed.get_ydata())) == [False, False, False, True]
    assert sure.get_linestyle() == "-" and dashed.get_linestyle() == "--" and colour_of(sure) == colour_of(dashed)
