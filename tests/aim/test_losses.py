"""The built-in losses, a loss of one's own, and refusals of wrong ones."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from onehead.aim import CrossEntropy, Learner, Loss, Squared, Task, predict
from onehead.aim.kernels.losses import softmax
from onehead.aim.losses import _check_row, _response_of_row
from onehead.errors import InvalidArgument

logits = st.integers(2, 5).flatmap(lambda T: arrays(float, T, elements=st.floats(-30.0, 30.0)))


@given(logits)
def test_softmax_keeps_relative_precision(x):
    p = np.empty_like(x)
    softmax(x, p)
    exact = np.exp(np.longdouble(x) - np.max(x))
    assert np.allclose(p, np.float64(exact / exact.sum()), rtol=1e-13, atol=0.0)


@pytest.mark.parametrize("loss", [Squared(), CrossEntropy()])
@given(x=logits, seed=st.integers(0, 1000))
def test_symmetries_and_derivatives(loss, x, seed):
    T = len(x)
    rng = np.random.default_rng(seed)
    label = rng.dirichlet(np.ones(T))
    gradient, hessian = np.empty(T), np.empty((T, T))
    value = loss.compiled(x, label, gradient, hessian)
    g, H = gradient.copy(), hessian.copy()
    assert value >= 0.0
    assert abs(g.sum()) < 1e-12  # adding a constant to all logits changes nothing
    assert np.allclose(H, H.T, atol=1e-12)
    assert np.allclose(H.sum(axis=0), 0.0, atol=1e-12)
    order = rng.permutation(T)
    assert loss.compiled(x[order], label[order], gradient, hessian) == pytest.approx(value, abs=1e-12)
    step = 1e-5
    for k in range(T):
        ahead, behind = x.copy(), x.copy()
        ahead[k] += step
        behind[k] -= step
        value_ahead = loss.compiled(ahead, label, gradient, hessian)
        gradient_ahead = gradient.copy()
        value_behind = loss.compiled(behind, label, gradient, hessian)
        # central differences: step² times the third derivative, plus rounding of values up to 60 over the step
        assert g[k] == pytest.approx((value_ahead - value_behind) / (2 * step), abs=3e-9)
        assert H[:, k] == pytest.approx((gradient_ahead - gradient) / (2 * step), abs=1e-9)


def test_cross_entropy_is_smallest_at_the_label():
    x = np.log([0.2, 0.5, 0.3])
    gradient, hessian = np.empty(3), np.empty((3, 3))
    value = CrossEntropy().compiled(x, np.exp(x), gradient, hessian)
    assert np.allclose(gradient, 0.0, atol=1e-15)
    assert value == pytest.approx(-(np.exp(x) * x).sum())  # the entropy of the label


class TwiceSquared(Loss):
    """Twice the squared loss, written by a user."""

    name = "twice squared"

    @staticmethod
    def row(logits, label, gradient, hessian):
        p = np.empty(logits.shape[0])
        softmax(logits, p)
        s, value = 0.0, 0.0
        for b in range(p.shape[0]):
            s += (p[b] - label[b]) * p[b]
            value += 2.0 * (p[b] - label[b]) ** 2
        for b in range(p.shape[0]):
            gradient[b] = 4.0 * p[b] * (p[b] - label[b] - s)
            for k in range(p.shape[0]):
                jacobian = p[b] * ((1.0 if b == k else 0.0) - p[k])
                pull = 0.0
                for c in range(p.shape[0]):
                    pull += p[c] * ((1.0 if c == k else 0.0) - p[k]) * (2.0 * p[c] - label[c])
                hessian[b, k] = 4.0 * (jacobian * (p[b] - label[b] - s) + p[b] * (jacobian - pull))
        return value


@pytest.mark.slow
def test_a_loss_of_ones_own_is_one_class():
    # twice the loss with twice the weight decay is the same problem, with twice the objective
    plain = predict(Task(), Learner(weight_decay=0.01), 0.5)
    own = predict(Task(), Learner(weight_decay=0.02, loss=TwiceSquared()), 0.5)
    assert own.test_error == pytest.approx(plain.test_error, abs=1e-6)
    assert own.train_loss == pytest.approx(2.0 * plain.train_loss, rel=1e-5)
    assert own.test_loss == pytest.approx(2.0 * plain.test_loss, rel=1e-5)
    assert own.kind == "conjecture"
    assert own.to_dict()["learner"]["loss"] == "twice squared"


def test_wrong_derivatives_and_symmetries_are_refused():
    base = Squared().compiled

    def broken(fault):
        def row(logits, label, gradient, hessian):
            value = base(logits.copy(), label, gradient, hessian)
            if fault == "gradient":
                gradient *= 1.01
            if fault == "Hessian":
                hessian *= 1.01
            if fault == "constant":
                value += 0.1 * logits.sum()
                gradient += 0.1
            if fault == "renamed":
                value += 0.1 * (logits[0] - logits[1])
                gradient[0] += 0.1
                gradient[1] -= 0.1
            return value

        return row

    _check_row("good", broken("none"))
    for fault in ("gradient", "Hessian", "constant", "renamed"):
        with pytest.raises(InvalidArgument, match=fault):
            _check_row("own", broken(fault))


response_by_differences = cache(_response_of_row)  # compiled once per loss, not once per example


@pytest.mark.parametrize("loss", [Squared(), CrossEntropy()])
@given(x=logits, seed=st.integers(0, 1000))
def test_response_to_the_label_is_the_slope_of_the_gradient(loss, x, seed):
    T = len(x)
    label = np.random.default_rng(seed).dirichlet(np.ones(T))
    exact, by_differences = np.empty((T, T)), np.empty((T, T))
    loss.compiled_response(x, label, exact)
    response_by_differences(loss.compiled)(x, label, by_differences)
    # central differences with a step of 1e-5: its square times a third derivative of order one, and rounding over the
    # step
    assert np.allclose(exact, by_differences, atol=1e-9)
    assert np.allclose(exact.sum(axis=1), 0.0, atol=1e-12)  # adding a constant to the label logits changes no label
    assert np.allclose(exact.sum(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("loss", [Squared(), CrossEntropy()])
@given(v=st.floats(-40.0, 40.0), t=st.floats(-40.0, 40.0))
def test_vectorised_losses_of_two_columns_match_the_row_function(loss, v, t):
    label, gradient, hessian = np.empty(2), np.empty(2), np.empty((2, 2))
    softmax(np.array([t, 0.0]), label)
    one = loss.compiled(np.array([v, 0.0]), label, gradient, hessian)
    many = type(loss).pair_losses(np.array([v, 0.3]), np.array([t, 0.7]))
    # probabilities close to one are rounded at 1e-16 before they are subtracted, and a label so rounded is multiplied
    # with v
    assert many[0] == pytest.approx(one, rel=1e-9, abs=1e-14 * (1.0 + abs(v)))
