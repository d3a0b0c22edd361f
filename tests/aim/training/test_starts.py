"""Training from random weights and from the target: where the objective has several minima, both are shown (4.7)."""

import json

import numpy as np
import pytest

from onehead.aim import Atoms, Learner, Product, Task, compare, predict, train
from onehead.aim.training.parametrisation import parametrisation
from onehead.aim.training.results import solution_reached
from onehead.aim.training.settings import Method, Variant
from onehead.errors import InvalidArgument

D, ALPHA = 20, 3.0
# sharp labels of 16 tokens: S = 0 is stable from λ = 11.6 on, and a map has a lower objective up to about 15
SHARP = Task(attention="cross", tokens=16, beta0=10.0, noise=0.0, target=Atoms([1.0] * D))
LEARNER = Learner(weight_decay=12.74, leading=0)
BOTH = Method(start="both", starts=1, test_samples=1000)
FINITE_SIZE = 4.0 / D  # (3 + 1/(α J))/d of q (1.8), and 0.14 T/d for so many tokens


@pytest.fixture(scope="module")
def table():
    return compare(SHARP, LEARNER, [ALPHA], [D], seeds=2, method=BOTH)


def test_random_weights_stay_at_zero_and_an_informed_start_reaches_the_lower_objective(table):
    (random, informed), theory = table.points, predict(SHARP, LEARNER, ALPHA)
    (zero,) = theory.other_solutions
    assert [point.start for point in table.points] == ["random", "informed"]
    assert random.beside[0] == zero
    assert informed.beside[0].test_error == theory.test_error
    (small,), (large,) = random.runs, informed.runs
    assert small.q == 0.0
    assert large.train_loss < small.train_loss
    for run, predicted in ((small, zero), (large, theory)):
        assert run.train_loss == pytest.approx(predicted.train_loss, rel=0.01)  # 1/d²: the objective is stationary in S
        assert run.test_error == pytest.approx(predicted.test_error, rel=FINITE_SIZE)
    assert large.q == pytest.approx(theory.q, rel=FINITE_SIZE)


def test_rows_and_json_name_the_start(table):
    rows = table.to_rows()
    assert [row["start"] for row in rows] == ["random", "informed"]
    assert rows[0]["test_error_theory"] > 1.5 * rows[1]["test_error_theory"]
    json.dumps(table.to_dict(), allow_nan=False)


def test_both_starts_are_listed_and_the_lower_objective_is_kept():
    run = train(SHARP, LEARNER, dim=D, alpha=ALPHA, seeds=1, method=BOTH)
    random, informed = run.solutions
    assert (random.start, informed.start) == ("random", "informed")
    assert (run.train_loss, run.test_error) == (informed.train_loss, informed.test_error)
    assert run.runs[0].start == "informed"
    assert json.loads(json.dumps(run.to_dict()))["solutions"][0]["q"] == random.q == 0.0
    alone = train(SHARP, LEARNER, dim=D, alpha=ALPHA, seeds=1, method=Method(starts=1, test_samples=1000))
    assert alone.solutions == ()
    assert alone.train_loss == random.train_loss  # random weights do not depend on what else is started


@pytest.mark.parametrize(
    ("task", "learner", "variant"),
    [
        (Task(), Learner(), Variant()),
        (Task(), Learner(param="direct"), Variant()),
        (Task(beta0=2.0), Learner(loss="cross-entropy"), Variant()),
        (Task(attention="cross", tokens=3, target=Product()), Learner(weight_decay=0.1), Variant()),
    ],
)
def test_one_minimum_is_reached_from_both_starts(task, learner, variant):
    method = Method(start="both", starts=1, test_samples=100, tolerance=1e-4)
    run = train(task, learner, dim=14, alpha=1.0, seeds=1, variant=variant, method=method)
    random, informed = run.solutions
    assert informed.train_loss == pytest.approx(random.train_loss, rel=1e-5)  # stationarity 1e-4 leaves 1e-8
    assert solution_reached(predict(*run.trained), "informed").test_error == predict(*run.trained).test_error


@pytest.mark.parametrize("param", ["factorised", "direct"])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("width", "heads"), [(1.0, 1), (1.5, 2), (0.5, 2)])
def test_closest_weights_give_the_map_as_far_as_the_width_allows(param, tied, width, heads):
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((8, 8))
    S = factor @ factor.T if tied else factor
    weights = parametrisation(param, tied=tied, dim=8, width=width, heads=heads)
    maps = weights.maps(weights.closest(S))
    values = np.linalg.svd(S, compute_uv=False)
    left = 0.0 if param == "direct" or width >= 1.0 else np.sum(values[4:] ** 2)  # of the best map of rank four
    for one in maps:
        assert np.sum((one - S) ** 2) == pytest.approx(left, rel=1e-9, abs=1e-18 * np.sum(S * S))


def test_message_passing_has_no_other_start():
    with pytest.raises(InvalidArgument, match="start must be random with message passing"):
        train(Task(), Learner(), dim=10, alpha=1.0, seeds=1, method=Method(optimiser="amp", start="both"))
