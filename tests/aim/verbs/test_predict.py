"""predict: limits, identities and properties over the whole range of parameters."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.problems import log_uniform, mp

from onehead.aim import Learner, Task, plateau, predict, thresholds
from onehead.errors import SolveError


@given(
    kappa0=log_uniform(0.01, 3.0),
    noise=st.one_of(st.just(0.0), st.floats(0.0, 2.0)),
    alpha=log_uniform(0.01, 50.0),
    decay=log_uniform(1e-5, 1.0),
    loss=st.sampled_from(["squared", "cross-entropy"]),
    param=st.sampled_from(["factorised", "direct"]),
)
@settings(max_examples=15, deadline=None, derandomize=True)
@pytest.mark.slow
def test_certificates_hold_everywhere(kappa0, noise, alpha, decay, loss, param):
    task = mp(kappa0, noise=noise)
    try:
        point = predict(task, Learner(weight_decay=decay, loss=loss, param=param), alpha)
    except SolveError as error:
        sentence = str(error)
    else:
        sentence = ""
    if sentence:  # a refusal is allowed if it says what to change
        assert "weight_decay" in sentence or "alpha" in sentence
        return
    assert point.certificate.residual < 1e-6
    assert 0.0 <= point.rank <= 1.0
    assert point.m**2 <= point.q * task.target.second_moment * (1.0 + 1e-9)
    assert point.test_error >= 0.0
    assert point.test_error_clean >= 0.0
    assert point.certificate.train_loss_gap < 1e-4
    numbers = json.loads(point.to_json())
    assert "NaN" not in point.to_json()
    assert numbers["status"] == point.status
    if point.status == "converged":
        # no learner beats the plateau by more than the quadrature error allows, for the loss it minimises
        floor = plateau(task, Learner(loss=loss)).test_error
        if loss == "squared":
            assert point.test_error > floor - 1e-5


def test_many_samples_end_on_the_plateau():
    end = plateau(Task())
    point = predict(Task(), Learner(weight_decay=0.01), 1e4)
    assert point.slope == pytest.approx(end.shrinkage, rel=1e-3)
    assert point.excess_error == pytest.approx(0.0, abs=1e-5)
    errors = [predict(Task(), Learner(weight_decay=0.01), a).excess_error for a in (100.0, 400.0)]
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.05)  # the excess falls like 1/alpha


@pytest.mark.parametrize(
    ("kappa0", "noise", "c", "test"), [(0.5, 0.5, 0.876168, 0.0740840), (0.05, 0.05, 0.984718, 0.00938563)]
)
def test_plateau_values(kappa0, noise, c, test):
    end = plateau(mp(kappa0, noise=noise))
    assert end.shrinkage == pytest.approx(c, abs=2e-6)
    assert end.test_error == pytest.approx(test, rel=2e-6)


def test_plateau_without_noise_is_the_target():
    end = plateau(mp(0.5, noise=0.0))
    assert (end.shrinkage, end.test_error) == pytest.approx((1.0, 0.0), abs=1e-12)


def test_temperatures_only_rescale_the_map():
    # beta = beta0 with noise and weight decay rescaled is the problem with both one: S is the same
    warm = predict(mp(0.5, noise=0.5, beta0=2.0), Learner(weight_decay=0.02, beta=2.0), 0.5)
    assert warm.q > 0.0
    # another route: scale the target into the learner. h(2 S*) = 2 h(S*), so beta = 1 learns 2 S
    cold = predict(mp(0.5, noise=0.5, beta0=2.0), Learner(weight_decay=0.01, beta=1.0), 0.5)
    assert cold.q == pytest.approx(4.0 * warm.q, rel=1e-9)
    assert cold.m == pytest.approx(2.0 * warm.m, rel=1e-9)
    assert cold.test_error == pytest.approx(warm.test_error, rel=1e-9)
    assert cold.train_loss == pytest.approx(warm.train_loss, rel=1e-9)
    direct = [
        predict(Task(beta0=2.0), Learner(weight_decay=0.01 * b * b, beta=b, param="direct"), 0.5) for b in (1.0, 2.0)
    ]
    assert direct[0].test_error == pytest.approx(direct[1].test_error, rel=1e-9)
    assert direct[0].q == pytest.approx(4.0 * direct[1].q, rel=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 0.1])
def test_small_weight_decay_approaches_the_limit(alpha):
    limit = predict(Task(), Learner(weight_decay="0+"), alpha)
    gaps = [abs(predict(Task(), Learner(weight_decay=d), alpha).q / limit.q - 1.0) for d in (1e-3, 1e-5, 1e-6)]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.05  # logarithmically slow, because saturated labels are not fitted


@pytest.mark.slow
def test_the_ridgeless_limit_is_continuous_across_interpolation():
    edge = thresholds(Task()).interpolation
    below, at, above = (predict(Task(), Learner(weight_decay="0+"), a) for a in (edge * (1 - 1e-8), edge, 0.1545))
    # the peak is a cusp: the error falls off like the square root of the distance, here 1e-4
    assert below.test_error == pytest.approx(at.test_error, abs=2e-4)
    # above, labels that are saturated are the last to be fitted: the approach is slow (0.5004 at 0.1539)
    assert above.test_error == pytest.approx(at.test_error, abs=3e-3)
    assert above.certificate.residual < 1e-6
    assert "approximate" in above.status


@pytest.mark.parametrize(
    ("alpha", "test"),
    [(0.5, 0.1577), (0.4625, 0.1699), (0.425, 0.1860), (0.3876, 0.2081), (0.3501, 0.2401), (0.3126, 0.2884)],
)
@pytest.mark.slow
def test_published_errors_of_the_ridgeless_limit_above_interpolation(alpha, test):
    point = predict(Task(), Learner(weight_decay="0+"), alpha)
    # the figures are quoted to four digits; near the peak proximal points jump, and the certificate states the error
    assert point.test_error == pytest.approx(test, abs=1e-4 + point.certificate.quadrature_error)
    assert point.threshold == 0.0


def test_perfect_recovery_without_noise():
    task = mp(0.5, noise=0.0)
    ratio = thresholds(task).recovery
    below, above = (predict(task, Learner(weight_decay="0+"), a) for a in (0.999 * ratio, 1.001 * ratio))
    assert above.test_error == pytest.approx(0.0, abs=1e-12)
    assert above.status.startswith("perfect recovery")
    assert above.rank == 0.5
    assert 0.0 < below.test_error < 1e-3  # continuous
    assert predict(task, Learner(weight_decay="0+"), 0.6 * ratio).test_error > 0.01


def test_the_map_is_zero_below_emergence():
    task, learner = Task(), Learner(weight_decay=1.0)
    edge = thresholds(task, learner).emergence
    before, after = predict(task, learner, 0.99 * edge), predict(task, learner, 1.02 * edge)
    assert before.status.startswith("not emerged")
    assert (before.q, before.m, before.rank) == (0.0, 0.0, 0.0)
    assert before.test_error == pytest.approx(0.443943, abs=1e-6)
    assert before.train_loss == pytest.approx(before.alpha * before.test_error, rel=1e-9)
    assert 0.0 < after.rank < 0.05
    assert after.test_error < before.test_error


def test_direct_training_matches_closed_forms_and_training():
    # closed forms below interpolation at vanishing weight decay (6)
    point = predict(Task(), Learner(weight_decay="0+", param="direct"), 0.1)
    assert point.m == pytest.approx(0.4 * 1.5)
    assert point.q == pytest.approx(0.4 * (1.75 - 0.4 * 1.5) / 0.6)
    # finite-size runs of direct training lie within their few per cent of these
    for alpha, decay, q, m, test, train in (
        (0.1, 0.01, 0.284, 0.353, 0.348, 3.78e-3),
        (0.5, 0.01, 1.027, 1.115, 0.156, 0.0243),
    ):
        found = predict(Task(), Learner(weight_decay=decay, param="direct"), alpha)
        got = (found.q, found.m, found.test_error, found.train_loss)
        assert got == pytest.approx((q, m, test, train), rel=3e-3)  # three digits are quoted
        assert found.certificate.train_loss_gap < 1e-6  # both forms of the training loss


def test_a_narrow_learner_matches_published_numbers():
    found = predict(Task(), Learner(width=0.3), 0.5)
    assert (found.q, found.m, found.test_error, found.train_loss) == pytest.approx(
        (1.378, 1.310, 0.1526, 0.0311), rel=1e-3
    )
    assert found.rank == 0.3
    assert found.kind == "heuristic"
    assert found.certificate.warnings
    other = predict(Task(), Learner(width=0.4, weight_decay=0.001), 1.0)
    assert (other.test_error, other.train_loss) == pytest.approx((0.1049, 0.0570), rel=1e-3)
    # a width above the rank the learner would choose changes nothing
    wide, free = predict(Task(), Learner(width=0.75), 0.5), predict(Task(), Learner(), 0.5)
    assert wide.test_error == free.test_error


def test_a_warning_near_the_peak_says_that_branches_differ():
    point = predict(Task(), Learner(weight_decay=1e-5), 0.256)
    assert point.certificate.switch_mass > 1e-3
    assert point.kind == "heuristic"
    assert "branch" in point.certificate.warnings[0]
    # published for the label branch: test error 0.378, q 5.22
    assert point.test_error == pytest.approx(0.378, abs=0.002)
    assert abs(point.q - 5.22) < point.errors["q"] + 0.005  # and half of the last digit
    assert point.errors["q"] < 0.06 * point.q


def test_cross_entropy_shares_the_limits_of_the_squared_loss():
    # without weight decay both losses fit every label below interpolation, so they learn the same map
    squared, entropy = (
        predict(Task(), Learner(weight_decay="0+", loss=loss), 0.1) for loss in ("squared", "cross-entropy")
    )
    assert entropy.test_error == squared.test_error
    assert entropy.train_loss > squared.train_loss  # the entropy of the labels is left
    assert entropy.kind == "conjecture"
    # many samples, no noise: both find the target
    assert predict(mp(0.5, noise=0.0), Learner(weight_decay=1e-4, loss="cross-entropy"), 20.0).test_error < 1e-6


def test_a_neighbour_changes_the_start_and_not_the_answer():
    near = predict(Task(), Learner(), 0.5)
    fresh, continued = predict(Task(), Learner(), 0.55), predict(Task(), Learner(), 0.55, near=near)
    # averages are extrapolated from the start, whose remainder is part of the stated error
    stated = np.hypot(fresh.errors["test_error"], continued.errors["test_error"])
    assert abs(continued.test_error - fresh.test_error) < 3.0 * stated < 1e-5
    assert continued.certificate.evaluations < fresh.certificate.evaluations


def test_explain_mentions_every_symbol():
    text = predict(Task(), Learner(), 0.5).explain()
    for expected in ("q =", "m =", "Sigma", "Rank", "Replicon", "claim", "fresh sample"):
        assert expected in text
    zero = predict(Task(), Learner(weight_decay=10.0), 0.01).explain()
    assert "too few samples" in zero
    limit = predict(Task(), Learner(weight_decay="0+"), 0.1).explain()
    assert "infinite" in limit


def test_problems_are_frozen_and_comparable():
    assert Task(noise=0.5) == Task()
    assert hash(Learner()) == hash(Learner(weight_decay=0.01))
    with pytest.raises(AttributeError, match="noise of an aim Task cannot be set"):
        Task().noise = 1.0


@pytest.mark.parametrize("alpha", [0.2, 0.211, 0.215, 0.2185])
def test_without_noise_between_recovery_and_interpolation(alpha):
    # perfect recovery at 0.2111, interpolation at 0.21875: no interpolating state to start from in between
    errors = [
        predict(Task(noise=0.0), Learner(weight_decay=0.001), a).test_error for a in (0.99 * alpha, alpha, 1.01 * alpha)
    ]
    assert errors[0] > errors[1] > errors[2] > 0.0


def test_numbers_of_the_certificate_are_where_the_error_says():
    """`to_dict` and JSON have them beside the numbers of the result."""
    point = predict(Task(), Learner(), 0.5)
    for name in ("replicon", "warnings", "residual"):
        assert name in point.to_dict()
        with pytest.raises(AttributeError, match=rf"has no attribute '{name}'; it is \.certificate\.{name}$"):
            getattr(point, name)
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        point.nothing  # noqa: B018
