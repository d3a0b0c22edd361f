"""Arguments that all plotting functions share: axes, labels, colours, one quantity, overlays with unique legends."""

import inspect
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from tests.support.checkpoints import training_steps

from onehead import aim, plot, sparse, weights
from onehead.errors import InvalidArgument

TASK, HEAD = aim.Task(), aim.Learner()
SIGNAL, PLAN = sparse.Task(), sparse.Protocol(loss="square", ridge=0.1)
PAGES = ("head_page", "head_pages")  # figures of several panels, which take no axes


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(scope="module")
def curve():
    return aim.curve(TASK, HEAD, [0.3, 1.0, 3.0])


@pytest.fixture(scope="module")
def runs():
    return [aim.train(TASK, HEAD, dim=12, alpha=alpha, seeds=2) for alpha in (0.5, 1.0)]


def legend_of(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def functions():
    return {name: getattr(plot, name) for name in plot.__all__ if inspect.isfunction(getattr(plot, name))}


def test_every_plotting_function_takes_axes_as_ax():
    plotting = {name for name in functions() if name not in ("save", "fresh_axes", "predicted_exponents")}
    for name in plotting:
        parameters = inspect.signature(getattr(plot, name)).parameters
        assert ("ax" in parameters) == (name not in PAGES), name
        assert "axes" not in parameters


def test_given_axes_are_returned(ax, curve, runs):
    laws = aim.spectrum(curve[1])
    grid = aim.map(TASK, HEAD, x=("alpha", [0.5, 1.0]), y=("noise", [0.1, 0.2]))
    for draw in (
        lambda: plot.learning_curve(curve, ax=ax),
        lambda: plot.learning_curve(curve, runs[0], ax=ax),
        lambda: plot.training_points(runs, ax=ax),
        lambda: plot.spectrum(laws, ax=ax),
        lambda: plot.trained_spectrum(runs[1], laws, ax=ax),
        lambda: plot.heat_map(grid, ax=ax),
        lambda: plot.error_curve(sparse.curve(SIGNAL, PLAN, [1.0], model="pooled"), ax=ax),
    ):
        assert draw() is ax
    assert isinstance(plot.learning_curve(curve), Axes)
    with pytest.raises(InvalidArgument, match="ax must be one matplotlib Axes"):
        plot.learning_curve(curve, ax="left")


def test_the_old_name_of_trajectory_gives_a_warning():
    with pytest.warns(DeprecationWarning, match=r"onehead\.plot\.course\b.*onehead\.plot\.trajectory\b"):
        assert plot.course is plot.trajectory


def test_overlaid_curves_have_their_own_labels_and_colours(ax, curve):
    other = aim.curve(TASK.changed(noise=0.1), HEAD, [0.3, 1.0])
    plot.learning_curve(curve, label="loud", color="crimson", ax=ax)
    plot.learning_curve(other, label="quiet", ax=ax)
    assert legend_of(ax) == ["loud", "quiet", "test error, clean labels", "objective per sample"]
    main = [line for line in ax.get_lines() if line.get_label() in ("loud", "quiet")]
    assert to_hex(main[0].get_color()) == to_hex("crimson") and len({to_hex(line.get_color()) for line in main}) == 2
    plot.learning_curve(curve, ax=ax)  # without a label the legend describes the problem
    assert r"\Delta=0.5" in legend_of(ax)[2]


def test_one_quantity_can_be_drawn_alone(ax, curve, runs):
    plot.learning_curve(curve, runs, quantity="rank", ax=ax)
    assert [line.get_ydata().tolist() for line in ax.get_lines()[:1]] == [curve.rank.tolist()]
    assert ax.get_ylabel() == "rank" and len(legend_of(ax)) == 2
    with pytest.raises(InvalidArgument, match=r"did you mean rank\?"):
        plot.learning_curve(curve, quantity="rnak", ax=ax)
    with pytest.raises(InvalidArgument, match="a number of a training result"):
        plot.training_points(runs, quantity="colour", ax=ax)


def test_error_curves_accept_results_lists_and_mappings(ax):
    first = sparse.curve(SIGNAL, PLAN, np.array([2.0, 1.0]), model="pooled", bayes=True)
    second = sparse.curve(SIGNAL.changed(length=20), PLAN, [1.0, 2.0], model="pooled")
    plot.error_curve(first, ax=ax)
    assert legend_of(ax) == ["best possible (known model)", "pooled"]
    drawn = ax.get_lines()[-1]
    assert (drawn.get_xdata().tolist(), drawn.get_ydata().tolist()) == ([1.0, 2.0], first.test_error[::-1].tolist())
    both = plot.error_curve({"L = 10": first, "L = 20": second}, quantity="train_loss")
    assert legend_of(both) == ["L = 10", "L = 20"] and both.get_ylabel() == "train loss"
    listed = plot.error_curve([first, second])
    plot.error_curve(second, label="again", color="k", ax=listed)
    assert "again" in legend_of(listed)
    low = sparse.curve(SIGNAL, PLAN, [4.0, 8.0])
    plot.error_curve(first, ax=plot.error_curve(low, ax=(together := Figure().subplots())))
    assert together.get_ylim()[1] > max(first.test_error) > max(low.test_error)  # the overlaid curve is not cut off
    measured = sparse.train(SIGNAL, PLAN, model="pooled", dim=40, trials=2)
    assert "pooled, trained" in legend_of(plot.error_curve(second, runs=measured))
    assert plot.learning_curve(first, label="mine").get_ylabel() == "test error"  # a curve of sparse tokens
    with pytest.raises(InvalidArgument, match="curves must be an answer of curve"):
        plot.error_curve(3.0)


def test_single_panels_of_checkpoint_figures(ax, tmp_path):
    steps = training_steps(tmp_path)
    heads, found = list(weights.survey(steps[0], fit=False)), weights.compare(steps)
    assert plot.survey_map(heads, quantity="strength", ax=ax) is ax
    assert plot.trajectory(found, quantity="ranks", ax=ax) is ax
    plot.head_spectrum(heads[0], label="quiet", color="k", ax=ax)
    plot.head_spectrum(heads[1], label="loud", color="r", ax=ax)
    assert {"quiet", "loud"} <= set(legend_of(ax))
    # a head without outliers drawn over one whose outliers made the axis logarithmic leaves the axis as it is, without
    # a warning
    strong = next(head for head in weights.survey(steps[-1], fit=False) if head.outliers)
    _, fresh = plt.subplots()
    plot.head_spectrum(strong, label="strong", ax=fresh)
    plot.head_spectrum(heads[0], label="quiet", ax=fresh)
    assert fresh.get_yscale() == "log"
    for draw in (plot.survey_map, lambda _, quantity: plot.trajectory(found, quantity=quantity)):
        with pytest.raises(InvalidArgument, match="quantity must be"):
            draw(heads, quantity="colour")
    page = next(plot.head_pages(heads[:1])).figure  # one head: the legend is not wider than the page
    page.canvas.draw()
    box = page.legends[0].get_window_extent()
    assert box.x0 >= 0.0 and box.x1 <= page.bbox.width


def test_labels_of_short_logarithmic_axes_do_not_overlap(ax):
    x = [0.3, 1.0, 8.0]
    plot.alignment([sparse.align(SIGNAL, PLAN.changed(alpha0=a)) for a in x], x, ax=ax)
    ax.figure.canvas.draw()
    labels = [text for text in ax.get_xticklabels() if text.get_text()]
    boxes = [text.get_window_extent() for text in labels]
    assert len(labels) >= 3 and all(a.x1 < b.x0 for a, b in pairwise(boxes))
    assert not any(text.get_text() for text in ax.get_xticklabels(minor=True))


@pytest.mark.parametrize("ending", ["pdf", "svg"])
def test_vector_files_contain_text_as_text(tmp_path, curve, ending):
    path = tmp_path / f"curve.{ending}"
    plot.save(plot.learning_curve(curve), path)
    content = path.read_bytes()
    if ending == "svg":
        assert b"<text" in content
    else:
        assert b"/FontFile2" in content and b"/Type3" not in content  # TrueType, which journals accept


def test_results_without_a_hard_phase_are_refused():
    with pytest.raises(InvalidArgument, match=r"results must be results of which at least one has a hard phase"):
        plot.hard_phase([sparse.bayes(SIGNAL, 1.0)], [10])
