"""Both stages on the same samples: published figures, training on tokens, and the limit of many samples."""

import numpy as np
import pytest
from checks.soak_problems import check_readout
from tests.support.refusals import refusal

from onehead.sparse import Protocol, Task, align, bayes, predict, train
from onehead.sparse.solve.reused_data import solve_reused
from onehead.sparse.theory.joint.reused_data import ReusedData

STRONG = Task(length=10, signal_tokens=1, strength=5.0, positive_rate=0.5)
RARE = Task(length=6, signal_tokens=2, strength=3.0, positive_rate=0.3)
LOGISTIC = Protocol(alpha0=1.0, alpha1=1.0, beta=8.0, ridge=0.1, reuse=True)

# task, protocol, figures of an independent implementation (4 x 2^13 points) with their standard errors:
# <w, xi>, |w|, <q, w>, b, training loss, training error, test error, chi, K_A, K_B
FIGURES = {
    "logistic": (
        STRONG, LOGISTIC,
        (1.2488, 1.3435, 2.807, -3.797, 0.1065, 0.0030, 0.02779, 3.4704, 0.0475, -0.0247),
        (9e-4, 9e-4, 2e-3, 4e-3, 1e-4, 2e-4, 1e-4, 5e-4, 3e-4, 1e-4),
    ),
    "square": (
        STRONG, LOGISTIC.changed(beta=np.sqrt(20.0), ridge=0.3, loss="square"),
        (0.4088, 0.4788, 1.044, -1.286, 0.04904, 0.0031, 0.04012, 0.6430, 0.0451, -0.0345),
        (4e-4, 4e-4, 1e-3, 2e-3, 5e-5, 2e-4, 1e-4, 2e-4, 5e-4, 4e-4),
    ),
    "rare positives": (
        RARE, LOGISTIC.changed(beta=6.0, ridge=0.05, eta_b=3.0),
        (1.5910, 1.8391, 1.4392, -3.490, 0.12438, 0.0133, 0.08381, 6.775, 0.0879, -0.0189),
        (6e-4, 8e-4, 8e-4, 1e-3, 5e-5, 2e-4, 1e-4, 2e-3, 2e-4, 1e-4),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_order_parameters_are_those_of_an_independent_implementation(name):
    task, protocol, figures, errors = FIGURES[name]
    rows = []
    for seed in range(4):
        equations = ReusedData(task, protocol, 9, [seed])
        found = solve_reused(equations)
        weights, readout = equations.weights(found.readout), found.readout
        rows.append(
            [
                readout.overlap,
                np.sqrt(weights.gram[1, 1]),
                weights.gram[0, 1],
                readout.bias,
                found.equations.train_loss,
                found.equations.train_error,
                readout.chi,
                readout.memory_first,
                readout.memory_query,
            ]
        )
        assert found.residual < 1e-7
    without_test = [index for index in range(len(figures)) if index != 6]
    own = np.std(rows, axis=0, ddof=1) / 2.0
    # four point sets of 512: standard errors with three degrees of freedom
    assert np.all(
        np.abs(np.mean(rows, axis=0) - np.array(figures)[without_test])
        < 5.0 * np.hypot(own, np.array(errors)[without_test])
    )
    point = predict(task, protocol)
    assert abs(point.test_error - figures[6]) < 3.0 * np.hypot(point.errors["test_error"], errors[6])


def test_query_is_that_of_the_two_steps_on_all_samples():
    steps = align(STRONG, LOGISTIC.changed(alpha0=2.0, reuse=False))
    point = predict(STRONG, LOGISTIC)
    assert (point.cos_query, point.sharpness) == pytest.approx((steps.cos_query, steps.sharpness))


def test_memory_vanishes_with_many_samples():
    """At large alpha the readout is that of a split protocol whose two parts both have alpha samples."""
    plan = LOGISTIC.changed(alpha0=100.0, alpha1=100.0)
    reused = predict(STRONG, plan)
    split = predict(STRONG, plan.changed(alpha0=200.0, alpha1=200.0, reuse=False))
    assert reused.test_error == pytest.approx(split.test_error, rel=0.01)
    assert reused.bias == pytest.approx(split.bias, rel=0.02)


@pytest.mark.parametrize(
    "protocol", [LOGISTIC, LOGISTIC.changed(beta=np.sqrt(20.0), ridge=0.3, loss="square")], ids=["logistic", "square"]
)
def test_theory_agrees_with_training_on_tokens(protocol):
    runs = train(STRONG, protocol, dim=300, trials=4, mode="tokens")
    verdicts = {item.quantity: item.verdict for item in runs.against(predict(STRONG, protocol))}
    assert set(verdicts.values()) <= {"agrees within noise", "agrees within noise and the finite-size bias"}


def test_split_costs_and_the_best_possible_learner_is_better():
    reused = predict(STRONG, LOGISTIC).test_error
    assert bayes(STRONG, 2.0).test_error < reused < predict(STRONG, LOGISTIC.changed(reuse=False)).test_error


def test_what_the_theory_does_not_cover_is_refused():
    assert refusal(predict, STRONG, LOGISTIC, model="pooled").name == "reuse"
    assert refusal(predict, STRONG, LOGISTIC.changed(ridge=0.0)).name == "ridge"
    assert refusal(predict, STRONG, LOGISTIC.changed(loss="hinge")).name == "loss"
    assert refusal(predict, STRONG, LOGISTIC.changed(loss="squared-hinge")).name == "loss"
    assert refusal(predict, Task(length=1), LOGISTIC).name == "length"
    assert refusal(predict, STRONG, LOGISTIC.changed(beta=0.0)).name == "beta"
    assert refusal(predict, STRONG, LOGISTIC.changed(cos_query=0.5, sharpness=1.0)).name == "cos_query"
    assert refusal(train, STRONG, LOGISTIC, dim=30, trials=1).name == "reuse"
    assert refusal(align, STRONG, LOGISTIC).name == "reuse"


@pytest.mark.parametrize(
    ("task", "protocol"),
    [
        # plain steps and Powell's method end far from a solution
        (
            Task(length=29, signal_tokens=3, strength=1.08116, positive_rate=0.5),
            Protocol(
                alpha0=0.637, alpha1=0.637, ridge=0.0724, loss="square", reuse=True, beta=9.2, eta_w=0.93, eta_b=1.928
            ),
        ),
        # plain steps reach a point at which no sample has curvature
        (
            Task(length=19, signal_tokens=1, strength=1.65239, positive_rate=0.211339),
            Protocol(
                alpha0=2.36184, alpha1=2.36184, ridge=0.00903971, reuse=True, beta=11.6131, eta_w=2.90654, eta_b=6.30619
            ),
        ),
    ],
    ids=["square loss", "no curvature"],
)
def test_a_solution_that_plain_steps_miss_is_continued_from_a_larger_ridge(task, protocol):
    found = predict(task, protocol)
    assert check_readout(found) == ""
    # the objective is a minimum over the readout: its value changes with the ridge by half the squared norm (S4.2)
    step = 0.02
    more, less = (predict(task, protocol.changed(ridge=protocol.ridge * (1.0 + sign * step))) for sign in (1.0, -1.0))

    def objective(point):
        squares = point.query_weight**2 + point.signal_weight**2 + point.rest_norm**2
        return point.train_loss + 0.5 * point.protocol.ridge * squares, squares

    slope = (objective(more)[0] - objective(less)[0]) / (2.0 * step * protocol.ridge)
    # common points at both ridges; the replica equations on finitely many points keep the identity to a few per cent
    assert slope == pytest.approx(0.5 * objective(found)[1], rel=0.05)
