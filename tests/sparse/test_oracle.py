"""Oracles and their long-sequence limits (S2)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import hypergeom

from onehead.sparse import Task, grow, oracle
from onehead.sparse.theory.oracle import (
    ACTIVATIONS,
    _hypergeometric,
    best_linear_error,
    elementwise_error,
    elementwise_snr,
    hardmax_error,
    linear_error,
    sampled_errors,
)


def log_task(c, L, pi=0.5):
    return Task(length=L, strength=c * np.sqrt(np.log(L)), positive_rate=pi)


@pytest.mark.parametrize(
    ("problem", "expected"),
    [(Task(length=10, strength=5), 0.017833), (Task(length=100, strength=5), 0.043056), (log_task(2, 100), 0.097363)],
)
def test_hardmax_matches_printed_values(problem, expected):
    assert hardmax_error(problem) == pytest.approx(expected, abs=6e-7)


# theta, L -> pooled, hardmax (S2.4; the exact columns)
@pytest.mark.parametrize(
    ("c", "L", "pooled", "hardmax"),
    [
        (2, 10, 0.3157, 0.1543),
        (2, 100, 0.4150, 0.0974),
        (2, 1000, 0.4669, 0.0650),
        (2, 10000, 0.4879, 0.0445),
        (2.5, 10, 0.2743, 0.0764),
        (2.5, 100, 0.3943, 0.0266),
        (2.5, 1000, 0.4586, 0.0099),
        (1.2, 10, 0.3867, 0.3299),
        (1.2, 10000, 0.4927, 0.3678),
    ],
)
def test_exact_columns_of_the_reference_table(c, L, pooled, hardmax):
    problem = log_task(c, L)
    assert linear_error(problem.linear_snr, 0.5) == pytest.approx(pooled, abs=6e-5)
    assert hardmax_error(problem) == pytest.approx(hardmax, abs=6e-5)


@pytest.mark.parametrize(
    ("c", "L", "soft", "bayes", "step", "sigmoid", "power", "error"),
    [  # sampled columns (S2.4) with their Monte Carlo error
        (2, 10, 0.1546, 0.1538, 0.2451, 0.2346, 0.1728, 0.001),
        (2, 100, 0.0959, 0.0953, 0.3686, 0.3585, 0.2257, 0.002),
        (2.5, 100, 0.0255, 0.0253, 0.3343, 0.3224, 0.1341, 0.002),
        (1.2, 10, 0.3249, 0.3240, 0.3521, 0.3489, 0.3272, 0.001),
    ],
)
def test_sampled_columns_of_the_reference_table(c, L, soft, bayes, step, sigmoid, power, error):
    problem = log_task(c, L)
    found = oracle(problem)
    # the error of the table, and about as much of the sampled values
    assert found.softmax == pytest.approx(soft, abs=2 * error)
    assert found.bayes == pytest.approx(bayes, abs=2 * error)
    assert found.elementwise == pytest.approx(sigmoid, abs=2 * error)
    for activation, expected in (("step", step), ("relu", step), ("power", power)):
        again = (
            oracle(problem, activation=activation).elementwise if L <= 50 else elementwise_error(problem, activation)[0]
        )
        assert again == pytest.approx(expected, abs=2 * error)
    # softmax is sampled: three of its errors
    assert found.bayes - 3 * found.errors["softmax"] <= found.softmax <= found.hardmax + 1e-12


@pytest.mark.parametrize("activation", ["sigmoid", "step", "power"])
def test_inverted_characteristic_function_agrees_with_sampling(activation):
    """Error of the best threshold by inversion and by 40,000 samples per class."""
    problem = Task(length=60, signal_tokens=2, strength=2.5, positive_rate=0.4)
    exact, off = elementwise_error(problem, activation)
    assert off < 1e-5
    rng = np.random.default_rng(0)
    minus = rng.standard_normal((40_000, 60))
    plus = minus.copy()
    plus[:, :2] += 2.5
    psi = ACTIVATIONS[activation]
    T_plus, T_minus = psi(plus).sum(axis=1), psi(minus).sum(axis=1)
    grid = np.quantile(T_minus, np.linspace(0.02, 0.999, 300))
    errors = [0.4 * (T_plus < t).mean() + 0.6 * (T_minus > t).mean() for t in grid]
    # standard error of a share of 40,000, and the bias of the best of 300 thresholds
    assert min(errors) == pytest.approx(exact, abs=4 * np.sqrt(0.25 / 40_000))


@pytest.mark.parametrize(("activation", "constant"), [("step", 1 / 0.583819), ("sigmoid", 1 / 0.559538)])
def test_elementwise_gates_gain_a_constant_only(activation, constant):
    problem = Task(length=10**8, strength=1e4)
    assert elementwise_snr(problem, activation) == pytest.approx(constant, abs=1e-3)


def test_concentrated_linear_rule_for_rare_positives():
    for pi, best, uniform in ((0.05, 0.0480, 0.0499), (0.01, 0.00969, 0.0100)):
        problem = Task(length=400, strength=20, positive_rate=pi)
        assert best_linear_error(problem) == pytest.approx(best, abs=6e-5)
        assert linear_error(problem.linear_snr, pi) == pytest.approx(uniform, abs=6e-5)
    for pi in (0.2, 0.5, 0.8):
        problem = Task(length=400, strength=20, positive_rate=pi)
        assert best_linear_error(problem) == pytest.approx(linear_error(1.0, pi), abs=1e-9)


def test_hypergeometric_weights_match_scipy():
    for places in (1, 3, 17, 20):
        got = _hypergeometric(Task(length=20, signal_tokens=4), places)
        assert got == pytest.approx(hypergeom.pmf(np.arange(5), 20, 4, places), abs=1e-12)


def test_oracles_up_to_a_billion_tokens():
    errors = [hardmax_error(log_task(1.2, L)) for L in (10, 10**4, 10**9)]
    assert errors == pytest.approx([0.33, 0.368, 0.412], abs=6e-4)
    long = oracle(log_task(1.2, 10**9))
    assert long.softmax is None
    assert 0.40 < long.bayes < long.hardmax  # one signal token: no sampling
    assert oracle(Task(length=10**6, signal_tokens=2)).bayes is None
    assert "too long to sample" in long.certificate.status
    assert long.elementwise == pytest.approx(ndtr(-elementwise_snr(log_task(1.2, 10**9), "sigmoid") / 2), abs=1e-6)


def test_hardmax_and_linear_errors_separate_with_the_length():
    """theta = 2.5 sqrt(log L): hardmax tends to zero, linear rules to one half; theta = sqrt(L): linear rules stay."""
    log = grow(Task(strength=2.5), [10, 1000, 10**5, 10**7], "log")
    assert np.all(np.diff([hardmax_error(t) for t in log]) < 0)
    assert np.all(np.diff([linear_error(t.linear_snr, 0.5) for t in log]) > 0)
    root = grow(Task(strength=1.0), [10, 1000, 10**5], "sqrt")
    assert [linear_error(t.linear_snr, 0.5) for t in root] == pytest.approx([ndtr(-0.5)] * 3)
    assert hardmax_error(root[1]) < 1e-6


@settings(max_examples=60, deadline=None)
@given(L=st.integers(1, 10**6), R=st.integers(1, 4), theta=st.floats(0.0, 12.0), pi=st.floats(0.02, 0.98))
def test_exact_oracles_are_bounded_and_fall_with_the_strength(L, R, theta, pi):
    problem = Task(length=L, signal_tokens=min(R, L), strength=theta, positive_rate=pi)
    floor = min(pi, 1 - pi)
    symmetric = linear_error(problem.linear_snr, pi)
    assert 0.0 <= hardmax_error(problem) <= floor + 1e-12
    assert 0.0 <= symmetric <= floor + 1e-9
    stronger = Task(length=L, signal_tokens=min(R, L), strength=theta + 1, positive_rate=pi)
    assert hardmax_error(stronger) <= hardmax_error(problem) + 1e-9


def test_all_signal_tokens_make_pooling_optimal():
    """R = L: the sum is a sufficient statistic, so the Bayes error is that of pooling."""
    problem = Task(length=5, signal_tokens=5, strength=0.7)
    found = oracle(problem)
    assert found.bayes == pytest.approx(found.pooled, abs=0.003)  # 100,000 samples per class, control variate


def test_same_seed_gives_the_same_result():
    assert oracle(Task(), seed=3) == oracle(Task(), seed=3)


def test_softmax_of_many_weak_signal_tokens_is_as_good_as_the_mean():
    """Zero sharpness is the mean of the tokens, whose error is known; small sharpnesses are close to it."""
    found = oracle(Task(length=100, signal_tokens=50, strength=0.3))
    assert found.pooled == pytest.approx(ndtr(-0.75), abs=1e-9)  # delta = 1.5
    assert found.softmax <= found.pooled
    assert abs(found.softmax - found.pooled) < 3 * found.errors["softmax"] < 0.004
    assert found.softmax_sharpness < 0.25 * np.sqrt(2 * np.log(100))


def test_softmax_with_two_equal_tokens_and_no_signal():
    """Without a signal nothing beats guessing, whatever the sampled errors say."""
    found = oracle(Task(length=2, strength=0.0, positive_rate=0.3))
    assert found.softmax == found.elementwise == 0.3


def test_sampled_errors_are_not_optimistic():
    """Sharpness and threshold are chosen on other samples than those on which the error is measured.

    With 400 samples the lowest error on the same sample would lie far below the true one.
    """
    problem = Task(length=30, signal_tokens=5, strength=1.0, positive_rate=0.2)
    many = oracle(problem)  # 66,666 samples per class
    few = [sampled_errors(problem, "sigmoid", np.random.default_rng(seed), 400) for seed in range(60)]
    for name in ("softmax", "elementwise"):
        values = np.array([getattr(one, name) for one in few])
        stated = np.array([getattr(one, f"{name}_err") for one in few])
        error = np.hypot(values.std() / np.sqrt(60), many.errors[name])
        assert values.mean() > getattr(many, name) - 3 * error
        assert np.mean(np.abs(values - getattr(many, name)) > 3 * stated) == 0.0
        assert np.median(stated) < 4 * values.std()


def test_softmax_is_not_held_at_the_bayes_error():
    """A sampled error is reported as measured; over seeds it scatters within its stated error."""
    problem = grow(Task(strength=1.5), [200], "log")[0]
    found = [oracle(problem, seed=seed) for seed in range(4)]
    assert all(one.softmax != one.bayes for one in found)
    assert all(abs(one.softmax - one.bayes) < 0.01 for one in found)
    spread = np.std([one.softmax for one in found])
    assert spread < 3 * max(one.errors["softmax"] for one in found)


@pytest.mark.parametrize(
    ("problem", "sampled"),
    [
        (Task(), "softmax elementwise"),
        (Task(length=60, strength=3.0), "softmax"),
        (Task(length=12, signal_tokens=2), "softmax elementwise bayes"),
        (Task(length=10**6), ""),
    ],
)
def test_status_names_the_sampled_numbers(problem, sampled):
    found = oracle(problem)
    words = found.certificate.status.partition("sampled: ")[2]
    hardest = found.softmax is not None and found.softmax_sharpness is None  # infinite, which JSON cannot show
    assert ("the best sharpness is infinite" in found.certificate.status) == hardest
    assert [name for name in ("softmax", "elementwise", "bayes") if f"{name} (error" in words] == sampled.split()
    assert found.certificate.kind == ("measurement" if sampled else "theorem")
    for name in {"softmax", "elementwise", "bayes"} - set(sampled.split()):
        assert found.errors.get(name, 0.0) < 1e-6
    for name in sampled.split():
        assert found.errors[name] > 1e-6 and f"{name} (error {found.errors[name]:.1g})" in words
