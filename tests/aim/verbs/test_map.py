"""Maps over two parameters: cells are predictions of their own problems, lines are at the right values, bad axes are
refused.
"""

import warnings

import numpy as np
import pytest

from onehead import aim, plot
from onehead.aim import Learner, MarchenkoPastur, PowerLaw, Task
from onehead.errors import InvalidArgument, OutsideDomain
from onehead.results import Result
from onehead.results.grids import MapCell, solve_grid


def test_cells_are_predictions_of_their_own_problems():
    found = aim.map(Task(), Learner(), x=("kappa0", [0.2, 0.8]), y=("alpha", [2.0, 0.3, 1.0]))
    assert found.grid("test_error").shape == (3, 2)
    for row, alpha in zip(found.grid("test_error"), [2.0, 0.3, 1.0], strict=True):
        for value, kappa0 in zip(row, [0.2, 0.8], strict=True):
            point = aim.predict(Task(target=MarchenkoPastur(kappa0=kappa0)), Learner(), alpha)
            assert value == pytest.approx(point.test_error, rel=2e-5)  # the same root from another start
    first = found.to_rows()[0]
    assert (first["kappa0"], first["alpha"], first["status"]) == (0.2, 2.0, "converged")
    assert list(found.to_frame()["alpha"]) == [2.0, 2.0, 0.3, 0.3, 1.0, 1.0]


def test_axes_may_be_parameters_of_target_task_and_learner_and_integers_stay_integers():
    cross = Task(attention="cross", target={"kind": "product", "kappa0": 0.5})
    found = aim.map(cross, Learner(), 1.0, x=("tokens", [2.0, 3]), y=("width", [0.5, 1.0]))
    assert [cell.point.task.tokens for cell in found] == [2, 3, 2, 3]
    assert [cell.point.learner.width for cell in found] == [0.5, 0.5, 1.0, 1.0]
    assert "κ₀ = 0.5" in found.setting and "cross" in found.setting and "T =" not in found.setting
    law = aim.map(Task(target=PowerLaw(gamma=0.75, dim=50)), Learner(), 0.5, x=("gamma", [0.8]), y=("noise", [0.1]))
    assert law.cells[0].point.task.target == PowerLaw(gamma=0.8, dim=50)


def test_lines_of_the_best_weight_decay_and_of_thresholds():
    decays = np.geomspace(0.01, 0.3, 12)
    found = aim.map(Task(), Learner(), x=("weight_decay", decays), y=("alpha", [0.5, 1.0]))
    lines = found.lines()
    best = {alpha: decay for decay, alpha in lines["best weight decay"]}
    assert best[0.5] == pytest.approx(0.048, rel=0.03)  # A.7; a parabola through cells a third apart
    assert best[1.0] == pytest.approx(0.062, rel=0.03)
    assert [alpha for _, alpha in lines["interpolation"]] == pytest.approx([0.15348210] * 12)
    assert "recovery" not in lines  # infinite with noise
    axes = plot.heat_map(found, lines=lines)
    assert [line.get_label() for line in axes.get_lines()] == ["best weight decay"]  # the others lie outside
    assert axes.get_xscale() == "log"


@pytest.mark.slow
def test_a_map_may_contain_the_limit_of_no_weight_decay():
    """Zero has no logarithm: the line of the best weight decay needs a minimum with two neighbours."""
    decays = [0.0, 0.01, 0.05, 0.2]
    found = aim.map(Task(), Learner(), x=("alpha", [0.5, 40.0]), y=("weight_decay", decays))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        valley = found.valley("test_error", "weight_decay")
    best = [decays[int(np.argmin(column))] for column in found.grid("test_error").T]
    assert best == [0.05, 0.2] and 0.01 < valley[0] < 0.2 and np.isnan(valley[1])
    low = aim.map(Task(), Learner(), x=("alpha", [0.5]), y=("weight_decay", [0.0, 0.05, 0.2]))
    assert np.isnan(low.valley("test_error", "weight_decay")).all()  # the neighbour 0 is infinitely far away


def test_tuned_maps_and_curves_have_the_best_weight_decay_everywhere():
    alphas = [0.1, 0.5, 1.0, 4.0]
    found = aim.map(
        Task(), Learner(), x=("alpha", alphas), y=("noise", [0.5]), tuned=True, bayes=True, of="weight_decay"
    )
    wanted = [0.29516, 0.12121, 0.09715, 0.07991]  # A.7, to the last digit given
    assert found.grid("test_error")[0] == pytest.approx(wanted, abs=6e-6)
    assert found.grid("bayes_test_error")[0] == pytest.approx([0.22800, 0.10496, 0.08850, 0.07747], abs=6e-6)
    assert found.grid("weight_decay")[0] == pytest.approx([0.023, 0.048, 0.062, 0.088], rel=0.05)
    curve = aim.curve(Task(), Learner(), alphas, tuned=True)
    assert curve.column("test_error") == pytest.approx(wanted, abs=6e-6)
    # the error is flat at its minimum: two searches end within a percent of each other
    decays = [row["weight_decay"] for row in curve.to_rows()]
    assert decays == pytest.approx(list(found.grid("weight_decay")[0]), rel=1e-2)


@pytest.mark.slow
def test_following_a_neighbour_finds_the_same_minimum_as_a_search():
    from onehead.aim.verbs.tune import best_decay

    task, learner = Task(target=MarchenkoPastur(kappa0=0.05), noise=0.05), Learner()
    near = best_decay(task, learner, 0.2)
    followed, searched = (best_decay(task, learner, 0.1, near=start) for start in (near, None))
    assert followed.test_error == pytest.approx(searched.test_error, rel=1e-6)
    assert followed.learner.decay == pytest.approx(0.0092, abs=6e-5)  # A.7


def test_a_failed_cell_has_its_reason():
    task = Task(labels="hard", attention="cross", target={"kind": "product", "kappa0": 0.5})
    learner = Learner(loss="cross-entropy", weight_decay="0+")
    found = aim.map(task, learner, x=("alpha", [0.2, 3.0]), y=("noise", [0.5]))
    failed, solved = found.cells
    assert failed.point is None and solved.point is not None
    assert len(found.failures) == 1 and np.isnan(found.grid("test_error")[0, 0])
    assert "separable" in found.to_rows()[0]["status"]
    assert plot.heat_map(found) is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": ("alpha", [1.0]), "y": ("alpha", [2.0])}, "y must be a parameter other than that of x \\(alpha\\)"),
        ({"x": ("attention", [1.0]), "y": ("alpha", [2.0])}, "x must be alpha or kappa0"),
        ({"x": ("gamma", [1.0]), "y": ("alpha", [2.0])}, "x must be a parameter of the target, which has kappa0"),
        ({"x": ("noise", []), "y": ("alpha", [2.0])}, "x must be at least one value"),
        ({"x": ("noise", [1.0]), "y": ("kappa0", [0.5])}, "alpha must be given, or one of the two parameters"),
        (
            {"x": ("noise", [1.0]), "y": ("alpha", [0.5]), "alpha": 1.0},
            "alpha must be given, or one of the two parameters",
        ),
        ({"x": ("noise", [-1.0]), "y": ("alpha", [0.5])}, "noise must be a number >= 0"),
        ({"x": ("tokens", [2.5]), "y": ("alpha", [0.5])}, "tokens must be an integer"),
        ({"x": ("noise", [0.1]), "y": ("alpha", [0.5]), "of": "speed"}, "of must be alpha or test_error"),
        ({"x": ("weight_decay", [0.1]), "y": ("alpha", [0.5]), "tuned": True}, "tuned must be left out"),
        ({"x": "alpha", "y": ("alpha", [0.5])}, "x must be a pair of a parameter and its values"),
    ],
)
def test_bad_arguments_get_one_sentence(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        aim.map(Task(), Learner(), **arguments)


def test_unknown_quantities_and_axes_of_a_map_are_refused():
    found = aim.map(Task(), Learner(), x=("alpha", [1.0]), y=("noise", [0.5]))
    with pytest.raises(InvalidArgument, match="a number of the points"):
        found.grid("speed")
    with pytest.raises(InvalidArgument, match="along must be alpha or noise"):
        found.valley("test_error", "kappa0")


def test_chains_run_from_large_to_small_and_an_interrupted_map_says_so():
    calls = []

    def solve(a, b, near):
        calls.append((a, b, near))
        if b == 2.0:
            raise OutsideDomain("not here.")
        return Result(), {"sum": a + b}

    cells = solve_grid(("p", [1, 3, 2]), ("alpha", [1, 2, 5]), solve, ("alpha", "p"), None)
    assert [(a, b) for a, b, _ in calls] == [(a, b) for a in (1, 3, 2) for b in (5, 2, 1)]
    assert [cell.value("sum") for cell in cells] == [2, 4, 3, None, None, None, 6, 8, 7]
    assert MapCell(x=1.0, y=1.0).to_dict()["status"] == "failed: interrupted before it was solved."
