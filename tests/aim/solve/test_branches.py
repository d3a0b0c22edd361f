"""Several solutions of the equations: all are found, the one with the lowest objective is returned."""

import numpy as np
import pytest
from checks import objective as search

from onehead.aim import Atoms, Learner, MarchenkoPastur, Product, Task, curve, predict, thresholds, tune
from onehead.aim.solve import certificate, solver
from onehead.aim.solve.branches import coarse_branches, is_saddle, may_have_several, zero_loss
from onehead.aim.solve.draft import DraftStart, draft_numbers_at
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.limits.emergence import largest_decay

# squared loss, 64 columns, sharp labels: S = 0 is stable for λ > 1.107, and a map has a lower objective up to λ of
# about 1.6
SHARP = Task(attention="cross", tokens=64, beta0=4.0, noise=0.1, target=Product(kappa0=1.0))
DIRECT = Task(target=Atoms([1.0] * 100), attention="cross", tokens=1024, beta0=4.0, noise=0.0)


def objective_of(point, decay):
    """The objective over d² of the map of a prediction, kept as it is, at another weight decay: the penalty is λ
    |S|_*/d.
    """
    slope, problem = point.train_loss, point.equations
    loss = slope - point.learner.decay * _nuclear_norm(point)
    assert problem.input.degree == 1
    return loss + decay * _nuclear_norm(point)


def _nuclear_norm(point):
    """|S|_*/d by the spectral map of a prediction."""
    law = point.channel.law(point.spread)
    nodes = law.nodes(point.cut)
    return 2.0 * float(nodes.mass @ (point.slope * (nodes.x - point.threshold)))


def test_a_map_with_a_lower_objective_is_found_where_the_zero_map_is_stable():
    point = predict(SHARP, Learner(weight_decay=1.1186), 0.1)
    (zero,) = point.other_solutions
    assert (zero.q, zero.reached_from) == (0.0, "small weights")
    assert zero.train_loss == pytest.approx(2.9015, rel=1e-4)
    assert point.train_loss < 2.445
    assert 10.5 < point.test_error < 11.1
    assert zero.test_error == pytest.approx(29.015, rel=1e-4)
    assert any("2 minima" in warning and "small weights" in warning for warning in point.certificate.warnings)


@pytest.mark.slow
def test_the_objective_is_continuous_and_rises_with_weight_decay():
    """And no neighbour's map, kept as it is, has a lower objective than the answer."""
    decays = np.geomspace(0.9, 2.2, 8)
    points = [predict(SHARP, Learner(weight_decay=float(decay)), 0.1) for decay in decays]
    objectives = np.array([point.train_loss for point in points])
    assert (np.diff(objectives) >= -1e-9).all()
    for point, decay in zip(points, decays, strict=True):
        for neighbour in points:
            if neighbour.rank > 0.0:
                assert point.train_loss <= objective_of(neighbour, float(decay)) * (1.0 + 1e-3)  # of the quadrature
    assert points[0].rank > 0.0
    assert points[-1].rank == 0.0


def test_emergence_is_the_transition_and_the_spinodal_stands_beside_it():
    found = thresholds(SHARP, Learner(weight_decay=1.1186))
    assert found.emergence_spinodal == pytest.approx(0.1010, rel=1e-3)
    assert 0.06 < found.map_spinodal < found.emergence < 0.08
    few = thresholds(Task(attention="cross", tokens=4, beta0=4.0), Learner(weight_decay=0.5))
    assert few.emergence_spinodal is None
    assert few.map_spinodal is None


@pytest.mark.slow
def test_two_solutions_of_direct_training_are_compared():
    """Both were called converged, whichever the start; the lower objective is the answer, from any neighbour."""
    learner = Learner(param="direct", leading=0, weight_decay=0.3392)
    point = predict(DIRECT, learner, 0.01)
    (other,) = point.other_solutions
    assert (point.test_error, point.train_loss) == pytest.approx((277.32, 2.7775), rel=1e-4)
    assert (other.test_error, other.train_loss) == pytest.approx((135.29, 2.7929), rel=1e-3)
    near = predict(DIRECT, learner.changed(weight_decay=0.15), 0.01)
    assert predict(DIRECT, learner, 0.01, near=near).test_error == pytest.approx(point.test_error, rel=1e-4)


def test_one_minimum_is_not_searched_twice():
    """Convex losses, few columns and the limit have one solution."""
    assert may_have_several(build_state_evolution(SHARP, Learner()))
    for task, learner in (
        (Task(), Learner()),
        (Task(attention="cross", tokens=4), Learner()),
        (SHARP, Learner(loss="cross-entropy")),
        (SHARP, Learner(weight_decay="0+")),
    ):
        assert not may_have_several(build_state_evolution(task, learner))


@pytest.mark.slow
def test_tune_without_noise_reaches_the_limit():
    """Above recovery the limit of no weight decay finds the target: the error is zero, and nothing else is."""
    for task in (Task(noise=0.0), Task(noise=0.0, target=Task().target.changed(kappa0=0.1))):
        best = tune(task, Learner(), 0.3)
        assert (best.weight_decay, best.test_error) == (0.0, 0.0)
        assert "0+ is best" in best.certificate.status


def test_two_maps_that_are_not_zero_are_compared():
    """Followed along their branches, the objectives of a large and of a small map cross at 0.855 of the weight decay of
    emergence.
    """
    task = Task(attention="cross", tokens=16, beta0=10.0, noise=0.0, target=Product(kappa0=1.0))
    problem = build_state_evolution(task, Learner(weight_decay=1.0))
    top = largest_decay(problem, 0.5)
    small, large = sorted(
        coarse_branches(problem.with_decay(0.84 * top), 0.5), key=lambda branch: branch.coordinates[0]
    )
    assert (small.reached_from, large.reached_from) == ("small weights", "the target")
    assert large.objective < small.objective
    (left,) = coarse_branches(problem.with_decay(0.88 * top), 0.5)
    assert left.reached_from == "small weights"


@pytest.mark.parametrize(
    "words",
    [
        {"attention": "cross", "tokens": 2100, "beta0": 9.0, "target": Product(kappa0=0.2)},
        {"tokens": 10, "beta0": 4.4, "target": MarchenkoPastur(kappa0=1.0)},
    ],
)
def test_the_loss_of_the_zero_map_is_known_for_wide_logits(words):
    """Standard deviations of 13 and 7: the loss of S = 0 is that of uniform weights, here on the coarsest rule."""
    problem = build_state_evolution(Task(noise=0.1, **words), Learner(weight_decay=1.0))
    assert zero_loss(problem) == pytest.approx(problem.output.fresh_loss(0.0, 0.0), rel=1e-3)


@pytest.mark.slow
def test_rows_of_thousands_of_tokens_have_both_minima_or_a_warning():
    """Up to 4,096 tokens are sampled; longer rows with wide labels were called "not emerged", without a warning."""
    task = Task(attention="cross", tokens=3000, beta0=3.0, noise=0.1, target=Product(kappa0=0.5))
    point = predict(task, Learner(weight_decay=2.0), 0.1)
    assert [other.q for other in point.other_solutions] == [0.0]
    assert 50.0 < point.test_error < 65.0 < point.other_solutions[0].test_error
    long = predict(task.changed(tokens=8000), Learner(weight_decay=2.0), 0.1)
    assert long.q > 0.0 or any("is not known" in warning for warning in long.certificate.warnings)
    transition = thresholds(task.changed(tokens=8000), Learner(weight_decay=2.0))
    assert transition.map_spinodal is not None or any(
        "is not known" in text for text in transition.certificate.warnings
    )
    narrow = predict(task.changed(tokens=8000, beta0=1.0), Learner(weight_decay=20.0), 0.1)
    assert narrow.q == 0.0
    assert not narrow.certificate.warnings


@pytest.mark.parametrize("rules", ["coarse", "full"])
def test_the_random_search_finds_jumps(rules, monkeypatch):
    """Without the comparison of branches the answer is the one that local stability of S = 0 gives."""
    shares = 0.98, 1.2  # over the weight decay from which on S = 0 is stable
    monkeypatch.setattr(search, "draw", lambda seed, number: (SHARP, {}, 0.1, shares))
    number = search.FULL if rules == "full" else 1
    assert search.run_one(0, number)["end"] == "continuous"
    monkeypatch.setattr(certificate, "coarse_branches", lambda *_, **__: [])
    monkeypatch.setattr(search, "coarse_branches", _unless_zero_is_stable)
    row = search.run_one(0, number)
    assert (row["end"], row["rules"]) == ("jump", "full")
    assert row["worst"] > 10.0


def _unless_zero_is_stable(problem, alpha):
    return [] if problem.decay > largest_decay(problem, alpha) else coarse_branches(problem, alpha)


def test_a_solution_between_two_minima_is_a_saddle():
    assert is_saddle(np.diag([1.5, 0.2, 0.1]))  # grows along one direction
    assert not is_saddle(np.diag([0.5, -1.5, 0.1]))  # an iteration that oscillates is not a saddle
    assert not is_saddle(None)


def test_a_draft_follows_the_solution_with_the_lowest_objective():
    """S = 0 is stable at all three weight decays, but has the lower objective at the last one only."""
    problem, found, start = build_state_evolution(SHARP, Learner(weight_decay=1.0)), [], DraftStart()
    for decay in (1.1186, 1.3, 2.2):
        numbers = draft_numbers_at(problem.with_decay(decay), 0.1, start, timed_out=lambda: False)
        start = numbers.start
        found.append(numbers)
    assert [numbers.is_zero for numbers in found] == [False, False, True]
    assert 10.0 < found[0].test_error < 11.6  # 10.8 exactly; the coarsest rule has an eighth of the points
    assert found[2].test_error == pytest.approx(29.015, rel=1e-2)
    alone = draft_numbers_at(problem.with_decay(1.1186), 0.1, timed_out=lambda: False)  # without a neighbour
    assert alone.test_error == pytest.approx(found[0].test_error, rel=0.02)


# 16 columns: S = 0 is stable below α of 3.3, a map has a lower objective above about 2.7
FLAT, ALONG = Task(attention="cross", tokens=16, beta0=10.0, noise=0.0, target=Atoms([1.0] * 20)), [2.4, 2.9, 3.1]


@pytest.mark.slow
def test_curves_follow_the_minimum_in_both_directions():
    """Each point starts from its neighbour, and has the objective of a point that is solved alone."""
    learner = Learner(weight_decay=12.74, leading=0)
    alone = [predict(FLAT, learner, alpha) for alpha in ALONG]
    assert [point.q > 0.0 for point in alone] == [False, True, True]
    for order in (ALONG, ALONG[::-1]):
        found = {point.alpha: point for point in curve(FLAT, learner, order)}
        for point in alone:
            error = point.errors["train_loss"] + found[point.alpha].errors["train_loss"]
            assert abs(found[point.alpha].train_loss - point.train_loss) < 3.0 * error + 1e-6 * point.train_loss


@pytest.mark.nightly
@pytest.mark.parametrize("beta0", [4.0, 10.0])
@pytest.mark.parametrize("tokens", [16, 64])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_the_objective_is_continuous_and_monotone_in_weight_decay(beta0, tokens, noise):
    """No map of a neighbour, kept as it is, has a lower objective; from whichever neighbour a point starts."""
    task = Task(attention="cross", tokens=tokens, beta0=beta0, noise=noise, target=Product(kappa0=1.0))
    top = largest_decay(build_state_evolution(task, Learner(weight_decay=1.0)), 0.3)
    decays = top * np.geomspace(0.7, 3.0, 9)
    near, points = None, []
    for decay in decays:
        near = predict(task, Learner(weight_decay=float(decay)), 0.3, near=near)
        points.append(near)
    back = predict(task, Learner(weight_decay=float(decays[3])), 0.3, near=points[5])
    assert back.train_loss == pytest.approx(points[3].train_loss, rel=1e-3)
    losses = np.array([point.train_loss for point in points])
    assert (np.diff(losses) >= -1e-3 * losses[1:]).all()
    for point, decay in zip(points, decays, strict=True):
        for neighbour in points:
            if neighbour.rank > 0.0:
                assert point.train_loss <= objective_of(neighbour, float(decay)) * (1.0 + 1e-3)  # of the quadrature


@pytest.mark.slow
def test_competing_minima_are_solved_for_once_and_by_stein_forms(monkeypatch):
    """A solution by derivatives, which do not see jumps, takes most of the time and only leads to the other one."""
    task, learner, starts = Task(attention="cross", tokens=64, noise=1.0, beta0=4.0), Learner(weight_decay=0.0061), []
    solve = certificate._solve_directly

    def counted(problem, alpha, start, accuracy):
        starts.append(None if start is None else tuple(start.coordinates))
        return solve(problem, alpha, start, accuracy)

    monkeypatch.setattr(certificate, "_solve_directly", counted)
    point = predict(task, learner, 0.002)
    assert len(starts) == len(set(starts))
    monkeypatch.setattr(solver, "CERTAIN_JUMPS", np.inf)
    other = predict(task, learner, 0.002)
    assert point.certificate.evaluations < 0.6 * other.certificate.evaluations
    assert point.test_error == pytest.approx(other.test_error, abs=other.errors["test_error"])
