"""Message passing and the sampled posterior on finite data (B.5)."""

import numpy as np
import pytest

from onehead import sparse
from onehead.errors import InvalidArgument
from onehead.sparse import Task, amp
from onehead.sparse.theory.bayes_rule import bayes_error
from onehead.sparse.training import posterior
from onehead.sparse.training.posterior import _test_error, state_evolution

WEAK = Task(length=10, strength=3.0)


def test_message_passing_follows_state_evolution():
    """Every iteration at alpha = 1, for which 0.310, 0.658, 0.761 and 0.7745 were published."""
    assert state_evolution(WEAK, 1.0, 4) == pytest.approx([0.310, 0.658, 0.761, 0.7745], abs=6e-4)
    found = amp(WEAK, 1.0, dim=400, iterations=6, trials=20)
    for step in found.steps:
        # standard errors of 20 runs, and 3/d of the size of a run
        assert abs(step.overlap - step.overlap_theory) < 4.0 * step.overlap_err + 3.0 / 400
    assert found.overlap_theory == pytest.approx(sparse.bayes(WEAK, 1.0).overlap)


@pytest.mark.parametrize("method", ["amp", "gibbs"])
@pytest.mark.parametrize(
    ("problem", "alpha"),
    [
        (WEAK, 1.0),
        (Task(length=10, signal_tokens=3, strength=3.0, positive_rate=0.2), 1.0),
        (Task(length=3, signal_tokens=3, strength=1.0), 2.0),
    ],
)
def test_runs_agree_with_the_theory(problem, alpha, method):
    found = amp(problem, alpha, dim=300, method=method, iterations=80, trials=12)
    # standard errors of 12 runs (Student), and the finite size of a run
    assert abs(found.overlap - found.overlap_theory) < 4.5 * found.overlap_err + 3.0 / 300
    assert abs(found.test_error - found.test_error_theory) < 4.5 * found.test_error_err + 3e-3
    assert found.trials == 12 and found.kind == "measurement"


def test_gibbs_samples_stay_on_their_branch_in_a_hard_phase():
    """Samples of the exact posterior stay on the branch they start on."""
    hard = Task(length=300, strength=8.0)
    truth, nothing = (
        amp(hard, 0.035, dim=400, method="gibbs", start=start, iterations=60, trials=4)
        for start in ("truth", "uninformed")
    )
    assert truth.overlap_theory == pytest.approx(0.5270, abs=1e-4)
    assert nothing.overlap_theory == pytest.approx(0.0052, abs=1e-4)
    assert abs(truth.overlap - truth.overlap_theory) < 5 * truth.overlap_err + 0.02  # d = 400: seven positives
    assert abs(nothing.overlap) < 0.1
    assert nothing.test_error > 0.45
    assert truth.test_error < 0.1


def test_message_passing_and_gibbs_samples_give_the_same_estimate():
    """On the same data, fixed points of message passing are posterior means, up to 1/d and few sweeps."""
    runs = [amp(WEAK, 1.5, dim=300, method=method, iterations=200, trials=3) for method in ("amp", "gibbs")]
    one, two = ([run.overlap for run in found.runs] for found in runs)
    assert one == pytest.approx(two, abs=0.02)


def test_error_of_an_ideal_estimate_is_the_theory():
    for problem, q in ((WEAK, 0.7762), (Task(length=10, signal_tokens=3, strength=3.0, positive_rate=0.2), 0.82)):
        error, stated = bayes_error(problem.changed(strength=problem.strength * np.sqrt(q)))
        assert _test_error(problem, q, q) == pytest.approx(error, abs=3e-4 + 3 * stated)  # 2^15 points per class


def test_no_positive_sequence_gives_zero_overlap():
    rare = Task(length=5, positive_rate=1e-9)
    for method in ("amp", "gibbs"):
        found = amp(rare, 0.1, dim=20, method=method, iterations=3, trials=2)
        assert found.overlap == 0.0 and found.test_error == pytest.approx(1e-9)


def test_same_seed_gives_the_same_runs():
    first, again = (amp(WEAK, 1.0, dim=60, iterations=5, trials=2, seed=4) for _ in range(2))
    assert first.overlap == again.overlap
    assert first.overlap != amp(WEAK, 1.0, dim=60, iterations=5, trials=2, seed=5).overlap


def test_interrupted_runs_are_returned(monkeypatch):
    """Ctrl-C after two of five runs."""
    done = []

    def press():
        done.append(1)
        if len(done) == 2:
            raise KeyboardInterrupt

    found = amp(WEAK, 1.0, dim=50, iterations=3, trials=5, progress=press)
    assert found.trials == 2 and found.status == "interrupted: mean of 2 runs at d = 50, of 5 asked for"
    assert found.certificate.interrupted
    monkeypatch.setattr(posterior, "_amp", lambda *_: press())
    done[:] = [1]
    with pytest.raises(KeyboardInterrupt):
        amp(WEAK, 1.0, dim=50, iterations=3, trials=5)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"method": "em"}, "method must be amp or gibbs"),
        ({"start": "near"}, "start must be uninformed or truth"),
        ({"dim": 2}, "dim must be an integer >= 3"),
        ({"dim": 10**5}, "dim must be such that all tokens have at most 200,000,000 entries"),
    ],
)
def test_invalid_arguments_are_refused(arguments, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        amp(WEAK, 1.0, **arguments)


def test_unsuitable_tasks_are_refused():
    with pytest.raises(InvalidArgument, match="strength must be a number > 0"):
        amp(Task(strength=0.0), 1.0)
    with pytest.raises(InvalidArgument, match="positions must be None"):
        amp(Task(length=2, positions=(1.0, 2.0)), 1.0)
