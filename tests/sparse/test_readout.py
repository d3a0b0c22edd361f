"""The trained readout: invariants and closed forms, then reference values (S9)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr
from tests.support.problems import SmoothHinge
from tests.support.problems import sparse_task as task

from onehead.errors import InvalidArgument, OutsideDomain
from onehead.sparse import Hinge, Logistic, Protocol, Square, SquaredHinge, Task, curve, predict, ridgeless
from onehead.sparse.solve.hinge import solve_hard_margin, solve_hinge
from onehead.sparse.solve.proximal import solve_proximal
from onehead.sparse.solve.readout import errors_of, solve_readout
from onehead.sparse.solve.square import ridgeless_limit, solve_square
from onehead.sparse.theory.features import attention_features, pooled_features, vectorised_features, with_gauss
from onehead.sparse.theory.oracle import linear_error
from onehead.sparse.theory.order_parameters import radius

LOSSES = {"logistic": Logistic(), "square": Square(), "hinge": Hinge(), "squared-hinge": SquaredHinge()}


def query(kappa, s, alpha1, ridge, loss="logistic", **more):
    return Protocol(cos_query=s, sharpness=kappa, alpha1=alpha1, ridge=ridge, loss=loss, **more)


# ---- invariants


@pytest.mark.parametrize("loss", list(LOSSES))
def test_attention_without_sharpness_is_pooling(loss):
    """kappa = 0 weights all tokens equally; the direction of the query is one of d and has no effect."""
    problem = task(10, 2, 4, 0.4)
    attention = predict(problem, query(0.0, 0.6, 2.0, 0.01, loss))
    pooled = predict(problem, Protocol(alpha0=1.0, alpha1=1.0, ridge=0.01, loss=loss), model="pooled")
    assert attention.test_error == pytest.approx(pooled.test_error, abs=2e-4)  # the accuracy asked for


@pytest.mark.parametrize("loss", list(LOSSES))
def test_pooled_is_the_vectorised_problem_at_another_ridge(loss):
    """pooled(alpha, lambda) = unit-noise linear model with ratio alpha and ridge L lambda (S4.6)."""
    problem, alpha, ridge = task(8, 1, 5, 0.3), 3.0, 0.02
    pooled = predict(problem, Protocol(alpha0=1.0, alpha1=2.0, ridge=ridge, loss=loss), model="pooled")
    wide = Protocol(alpha0=alpha * 8 / 3, alpha1=alpha * 16 / 3, ridge=8 * ridge, loss=loss)
    vectorised = predict(problem, wide, model="vectorised")
    assert pooled.test_error == pytest.approx(vectorised.test_error, abs=1e-7)
    assert pooled.train_loss == pytest.approx(vectorised.train_loss, abs=1e-7)


@pytest.mark.parametrize("loss", ["square", "hinge"])
def test_closed_forms_solve_the_general_equations(loss):
    """The general solver, which uses the proximal operator only, agrees with the closed form."""
    f = attention_features(task(6, 2, 3, 0.4), cos_query=0.4, sharpness=1.5, log2_points=15, seed=3)
    solve, same = (solve_square, Square()) if loss == "square" else (solve_hinge, SmoothHinge(1e-3))
    closed = solve(f, alpha=1.7, ridge=0.05)
    start = np.append(closed.x, np.log([closed.rp, closed.chi]))
    general = solve_proximal(f, same, alpha=1.7, ridge=0.05, start=start)
    noise = 2e-2  # the closed form has integrated over the Gaussian, the general one samples it (2^16 points)
    assert general.x == pytest.approx(closed.x, rel=noise, abs=noise * 0.2)
    assert (general.rp, general.chi) == pytest.approx((closed.rp, closed.chi), rel=noise)


def test_linear_square_loss_matches_its_closed_form():
    """Formulas of S5.1 for ae > 1 and ae < 1 compared with the general solver."""
    delta, pi = 5 / np.sqrt(10), 0.3
    P = pi * (1 - pi)
    problem = task(10, 1, 5, pi)
    for ae in (0.2, 0.7, 1.3, 6.0):
        found = predict(problem, Protocol(alpha0=ae / 2, alpha1=ae / 2, ridge=0, loss="square"), model="pooled")
        if ae > 1:
            D = 1 + delta**2 * P
            m, rp2 = 2 * delta * P / D, 4 * P / (D * (ae - 1))
        else:
            D = 1 + ae * delta**2 * P
            m = 2 * ae * delta * P / D
            rp2 = ae * (4 * P / D**2 + m**2) / (1 - ae)
        b, r = 2 * pi - 1 - pi * delta * m, np.sqrt(m**2 + rp2)
        expected = pi * ndtr(-(m * delta + b) / r) + (1 - pi) * ndtr(b / r)
        assert found.test_error == pytest.approx(expected, abs=1e-12)


def test_square_interpolation_peak_is_reported():
    found = predict(Task(), Protocol(alpha0=0.5, alpha1=0.5, ridge=0, loss="square"), model="pooled")
    assert found.test_error == 0.5
    assert found.certificate.status.startswith("interpolation peak")
    assert found.to_dict()["rest_norm"] is None


@pytest.mark.parametrize("loss", list(LOSSES))
def test_small_ridge_tends_to_the_ridgeless_limit(loss):
    """Above capacity the limit is smooth; for hinge and square loss below capacity, too."""
    problem = task(10, 1, 2, 0.5)
    for alpha1 in (4.0, 0.8) if loss in {"hinge", "square"} else (4.0,):
        limit, near = (predict(problem, query(1.0, 0.5, alpha1, r, loss), accuracy=1.0) for r in (0.0, 1e-7))
        assert near.test_error == pytest.approx(limit.test_error, abs=1e-4)
        assert alpha1 == 4.0 or (limit.train_loss, limit.train_error) == (0.0, 0.0)


def test_max_margin_limit_is_the_same_for_all_three_margin_losses():
    problem = task(10, 1, 5, 0.5)
    found = {name: predict(problem, query(2.0, 0.9, 2.0, 0.0, name), accuracy=1.0) for name in LOSSES}
    # logistic starts with fewer points than hinge: both within the accuracy
    assert found["logistic"].test_error == pytest.approx(found["hinge"].test_error, abs=4e-4)
    assert found["logistic"].certificate.status.startswith("separable")
    assert found["hinge"].certificate.status == "hard-margin limit"
    # logistic approaches it like 1/log(1/ridge), from below (S4.7)
    errors = [predict(problem, query(2.0, 0.9, 2.0, ridge)).test_error for ridge in (1e-2, 1e-3, 1e-5, 1e-6, 1e-10)]
    assert errors == pytest.approx([0.0334, 0.0380, 0.0427, 0.0439, 0.0464], abs=4e-4)
    assert np.all(np.diff([*errors, found["logistic"].test_error]) > 0)


def test_hard_margin_solution_satisfies_its_constraint():
    """alpha E[((1 - y c)/tau - r g)_+^2] = rp^2 (S4.7), by independent quadrature over g."""
    f = attention_features(task(10, 1, 5, 0.5), cos_query=0.9, sharpness=2.0, log2_points=12, seed=0)
    found = solve_hard_margin(f, alpha=2.0)
    r = radius(f, found.x, found.rp)
    a = (1 - f.label * f.logit(found.x)) / f.noise
    square = (a**2 + r**2) * ndtr(a / r) + a * r * np.exp(-0.5 * (a / r) ** 2) / np.sqrt(2 * np.pi)
    assert 2.0 * f.average(square) == pytest.approx(found.rp**2, rel=1e-7)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_classes_can_be_exchanged_for_a_linear_model(loss):
    """Negating features and labels and shifting by the mean signal exchanges the classes."""
    one = predict(task(10, 1, 5, 0.3), Protocol(ridge=0.01, loss=loss), model="pooled")
    two = predict(task(10, 1, 5, 0.7), Protocol(ridge=0.01, loss=loss), model="pooled")
    assert one.test_error == pytest.approx(two.test_error, abs=1e-7)
    assert one.signal_weight == pytest.approx(two.signal_weight, rel=1e-6)


def test_no_signal_means_guessing():
    for model in ("attention", "pooled", "vectorised"):
        found = predict(Task(strength=0.0), Protocol(ridge=0.01, loss="square"), model=model)
        assert found.test_error == pytest.approx(0.5, abs=2e-4)


def test_signal_weight_vanishes_at_perfect_alignment():
    """At s = 1 and s = -1 the signal has no component orthogonal to the query."""
    for s in (1.0, -1.0):
        found = predict(task(10, 1, 5, 0.5), query(1.0, s, 2.0, 0.01))
        assert found.signal_weight == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_more_data_and_no_ridge_approach_the_population_optimum_from_above(loss):
    problem = task(10, 1, 3, 0.5)
    errors = [
        p.test_error for p in curve(problem, Protocol(ridge=1e-4, loss=loss), alphas=[8, 30, 120], model="pooled")
    ]
    assert np.all(np.diff(errors) < 0)
    assert errors[-1] > linear_error(problem.linear_snr, 0.5)
    assert errors[-1] == pytest.approx(linear_error(problem.linear_snr, 0.5), abs=0.01)  # C1/alpha, C1 about 0.5


def test_equal_position_weights_are_the_uniform_law():
    """Equal weights of the positions are the uniform law, which is solved with one signal direction."""
    plain = predict(task(5, 1, 4, 0.4), Protocol(ridge=0.02), model="vectorised")
    listed = Task(length=5, strength=4, positive_rate=0.4, positions=(1, 1, 1, 1, 1))
    assert predict(listed, Protocol(ridge=0.02), model="vectorised").test_error == pytest.approx(
        plain.test_error, abs=1e-8
    )


def test_a_certain_position_is_a_shorter_task():
    """With nearly all weight on one position the others only add noise dimensions."""
    sure = Task(length=4, strength=3, positions=(1.0, 1e-12, 1e-12, 1e-12))
    found = predict(sure, Protocol(alpha0=4, alpha1=4, ridge=0.05, loss="square"), model="vectorised")
    alone = predict(task(1, 1, 3, 0.5), Protocol(alpha0=1, alpha1=1, ridge=0.05, loss="square"), model="vectorised")
    assert found.test_error == pytest.approx(alone.test_error, abs=1e-9)


def test_length_generalisation_at_the_same_length_changes_nothing():
    plan = Protocol(loss="square")
    assert predict(Task(), plan, test_length=10).test_error == predict(Task(), plan).test_error
    longer = [predict(Task(), plan, test_length=n).test_error for n in (10, 20, 40, 80)]
    assert np.all(np.diff(longer) > 0)  # more noise tokens, same signal


def test_training_error_formula_against_the_proximal_points():
    """E Phi(-(y c + c0 chi tau^2)/(tau r)) equals the share of negative proximal points, one g at a time."""
    f = with_gauss(pooled_features(task(10, 1, 5, 0.5)))
    found = solve_proximal(f, Logistic(), alpha=4.0, ridge=1e-5)
    r = radius(f, found.x, found.rp)
    p = Logistic().prox(f.label * (f.logit(found.x) + f.noise * r * f.gauss), found.chi * f.noise**2)
    counted = f.average((p < 0).astype(float))
    # the indicator jumps within one cell of the grid, whose largest weight is 0.009 * phi(0)
    assert errors_of(f, Logistic(), found).train_error == pytest.approx(counted, abs=0.009 * 0.4)


# ---- reference values (S9)

# loss; L,R,theta,pi; kappa,s; alpha1; ridge -> test, loss, a, m, b, rp, chi, each with its standard error
# chi of the two rows of the square loss is that of 2^20 points: 3.14337 and 0.391981
SECTION_9 = [
    ("square", (10, 1, 5, 0.5), (2, 0.9), 1.5, 1e-2,
     (0.106827, 0.024741, 0.35773, 0.23575, -1.28029, 0.67603, 3.1434), (8e-6, 4e-6, 2e-5, 2e-5, 3e-5, 2e-5, 1e-4)),
    ("logistic", (10, 1, 5, 0.5), (2, 0.9), 1.5, 1e-2,
     (0.035708, 0.021269, 1.8052, 1.2033, -6.1893, 1.3638, 41.374), (8e-6, 5e-6, 1e-4, 1e-4, 5e-4, 3e-4, 5e-3)),
    ("hinge", (10, 1, 5, 0.5), (2, 0.9), 1.5, 1e-2,
     (0.050908, 0.0, 0.55806, 0.37567, -1.8905, 0.6168, 33.707), (2e-5, 1e-9, 6e-5, 7e-5, 2e-4, 2e-4, 7e-3)),
    ("square", (6, 2, 3, 0.3), (1.5, -0.5), 2, 1e-2,
     (0.401629, 0.196719, -0.17866, 0.201767, -0.29947, 1.32623, 2.37986), (1e-6, 1e-6, 1e-5, 4e-6, 1e-5, 1e-5, 3e-5)),
    ("logistic", (6, 2, 3, 0.3), (1.5, -0.5), 2, 1e-2,
     (0.377861, 0.282112, -0.6435, 0.59818, -1.0035, 3.48020, 13.6967), (2e-6, 7e-6, 1e-4, 4e-5, 1e-4, 4e-5, 7e-4)),
    ("hinge", (6, 2, 3, 0.3), (1.5, -0.5), 2, 1e-2,
     (0.399875, 0.179865, -0.59055, 0.55995, -0.79055, 3.73727, 8.4114), (1e-6, 2e-6, 3e-5, 1e-5, 3e-5, 1e-5, 1e-4)),
    ("logistic", (10, 1, 2, 0.5), (1, 0.5), 4, 0,
     (0.415359, 0.46906, 0.889, 2.2409, -1.1329, 4.2125, 12.237), (6e-6, 3e-5, 1e-3, 4e-4, 7e-4, 7e-4, 3e-3)),
    ("hinge", (10, 1, 2, 0.5), (1, 0.5), 4, 0,
     (0.419569, 0.496207, 0.7597, 1.92109, -0.9790, 3.88074, 6.5868), (1e-6, 2e-6, 1e-4, 6e-5, 1e-4, 4e-5, 2e-4)),
    ("square", (10, 1, 5, 0.5), (2, 0.9), 5, 0,
     (0.039025, 0.066471, 0.35915, 0.23730, -1.27499, 0.273808, 0.39198), (4e-6, 5e-6, 1e-5, 1e-5, 2e-5, 8e-6, 1e-5)),
    ("square", (10, 1, 5, 0.5), (2, 0.9), 0.5, 0,
     (0.100786, 0.0, 0.31626, 0.20240, -1.18750, 0.53546, np.inf), (1.6e-5, 1e-9, 2e-5, 1e-5, 4e-5, 7e-5, 1.0)),
]  # fmt: skip


def row_name(row):
    return f"{row[0]}-{row[1]}-{row[3]}-{row[4]}"


@pytest.mark.parametrize("row", SECTION_9, ids=row_name)
def test_reference_values_at_default_accuracy(row):
    loss, problem, (kappa, s), alpha1, ridge, expected, _ = row
    found = predict(task(*problem), query(kappa, s, alpha1, ridge, loss))
    # predict promises 2e-4, estimated from two point sets; twice that covers a lucky estimate
    assert found.test_error == pytest.approx(expected[0], abs=4e-4)
    assert found.train_loss == pytest.approx(expected[1], abs=6e-4)
    assert found.certificate.residual < 1e-8
    assert found.certificate.kind == "claim"


@pytest.mark.slow
@pytest.mark.parametrize("row", SECTION_9, ids=row_name)
def test_reference_values_to_their_errors(row):
    loss, problem, (kappa, s), alpha1, ridge, expected, errors = row
    answers, start = [], None
    for seed in range(6):
        f = attention_features(task(*problem), cos_query=s, sharpness=kappa, log2_points=14, seed=seed)
        found = solve_readout(f, LOSSES[loss], alpha=alpha1, ridge=ridge, start=start)
        if np.isfinite(found.chi):
            start = np.append(found.x, np.log([found.rp, found.chi]))
        got = errors_of(f, LOSSES[loss], found)
        answers.append([got.test_error, got.train_loss, *found.x, found.rp, found.chi])
    answers = np.array(answers)
    mean = answers.mean(axis=0)
    with np.errstate(invalid="ignore"):
        own = answers.std(axis=0, ddof=1) / np.sqrt(len(answers))
    for k in range(7):
        if np.isinf(expected[k]):
            assert np.isinf(mean[k])
            continue
        # four standard errors of the difference: the table's own and that of six scramblings here; half a digit
        tolerance = 4 * np.hypot(errors[k], own[k]) + errors[k] / 2
        assert abs(mean[k] - expected[k]) < tolerance, (k, mean[k], expected[k], tolerance)


@pytest.mark.parametrize(
    ("alpha", "attention", "pooled", "pooled_train", "vectorised"),
    [
        (0.5, 0.1519, 0.3727, 0.0, 0.4464),
        (1, 0.068887, 0.353570, 0.0, 0.427124),
        (2, 0.048969, 0.3405, 0.0, 0.4043),
        (4, 0.042528, 0.290769, 0.1261, 0.380844),
        (6, 0.0409, 0.2648, 0.1594, 0.3684),
    ],
)
def test_predictions_of_all_models_match_printed_values(alpha, attention, pooled, pooled_train, vectorised):
    plan = Protocol(alpha0=alpha / 2, alpha1=alpha / 2, ridge=1e-5)
    found = {model: predict(Task(), plan, model=model) for model in ("attention", "pooled", "vectorised")}
    # three stated errors, and the 2e-4 of the table's own points
    assert found["attention"].test_error == pytest.approx(attention, abs=3 * found["attention"].test_error_err + 2e-4)
    assert found["attention"].train_error == pytest.approx(0.0, abs=1e-9)
    assert found["pooled"].test_error == pytest.approx(pooled, abs=6e-5)
    assert found["pooled"].train_error == pytest.approx(pooled_train, abs=6e-5)
    assert found["vectorised"].test_error == pytest.approx(vectorised, abs=6e-5)


@pytest.mark.parametrize(
    ("problem", "plan", "s", "test", "pooled"),
    [  # token-level runs (S8): theory columns; the pooled one is trained on the second half only
        ((6, 2, 4, 0.3), {"eta_b": 3, "beta": 6, "ridge": 1e-2, "alpha0": 1.5, "alpha1": 2}, 0.9076, 0.0306, 0.0775),
        ((8, 1, 4, 0.2), {"eta_b": 0, "beta": 8, "ridge": 1e-2, "alpha0": 4, "alpha1": 3}, -0.1765, 0.2354, 0.1916),
        ((6, 1, 5, 0.5), {"loss": "square", "beta": 4, "ridge": 0.1, "alpha0": 1, "alpha1": 2}, 0.8965, 0.0480, 0.2196),
        ((6, 1, 5, 0.5), {"loss": "hinge", "beta": 4, "ridge": 1e-2, "alpha0": 1, "alpha1": 2}, 0.9181, 0.0451, 0.2554),
    ],
)
def test_predictions_match_the_theory_columns_of_the_training_table(problem, plan, s, test, pooled):
    found = predict(task(*problem), Protocol(**plan))
    assert found.cos_query == pytest.approx(s, abs=6e-5)
    assert found.test_error == pytest.approx(test, abs=4e-4)
    half = {**plan, "alpha0": plan["alpha1"] / 2, "alpha1": plan["alpha1"] / 2}
    assert predict(task(*problem), Protocol(**half), model="pooled").test_error == pytest.approx(pooled, abs=6e-5)


@pytest.mark.parametrize(
    ("loss", "problem", "kappa", "s", "alpha1", "ridge", "test"),
    [  # theory columns (S4.8)
        ("logistic", (10, 1, 5, 0.5), 2, 0.9, 0.5, 1e-5, 0.0602),
        ("logistic", (10, 3, 3, 0.2), 1, 0.6, 3, 1e-3, 0.0580),
        ("square", (10, 3, 3, 0.2), 1, 0.6, 3, 1e-3, 0.0678),
        ("square", (10, 1, 2, 0.5), 1, 0.5, 4, 0, 0.4166),
        ("logistic", (6, 2, 3, 0.3), 1.5, -0.5, 4, 0, 0.3743),
        ("square", (6, 2, 3, 0.3), 1.5, -0.5, 4, 0, 0.3634),
        ("hinge", (6, 2, 3, 0.3), 1.5, -0.5, 4, 0, 0.3776),
        ("squared-hinge", (10, 1, 5, 0.5), 2, 0.9, 1.5, 1e-2, 0.0493),
        ("squared-hinge", (6, 2, 3, 0.3), 1.5, -0.5, 5, 1e-3, 0.3572),
        ("squared-hinge", (6, 2, 3, 0.3), 1.5, -0.5, 2, 1e-2, 0.4033),
    ],
)
def test_predictions_match_the_theory_columns_of_the_readout_table(loss, problem, kappa, s, alpha1, ridge, test):
    found = predict(task(*problem), query(kappa, s, alpha1, ridge, loss))
    assert found.test_error == pytest.approx(test, abs=5e-4)  # 2e-4 of accuracy twice, and half a printed digit


@pytest.mark.parametrize(
    ("problem", "kappa", "s", "limit", "slope", "limit_err", "slope_err"),
    [
        ((10, 1, 5, 0.5), 2, 0.9, 0.024353, 0.05338, 5e-6, 1e-5),
        ((10, 3, 3, 0.2), 1, 0.6, 0.040184, 0.052364, 3e-6, 5e-6),
        ((6, 2, 3, 0.3), 1.5, -0.5, 0.292551, -0.25045, 2e-6, 1.1e-4),
    ],
)
def test_ridgeless_limit_and_coefficient(problem, kappa, s, limit, slope, limit_err, slope_err):
    found = np.array(ridgeless(task(*problem), query(kappa, s, 1.0, 0.0)))
    # 2^17 points have about twice the error of the table's eight scramblings of 2^16
    assert found == pytest.approx([limit, slope], abs=12 * max(limit_err, slope_err / 2))


def test_ridgeless_coefficient_is_the_slope_of_predict():
    """(E(alpha) - E0) alpha -> C1, on the same points."""
    problem, plan = task(10, 3, 3, 0.2), query(1, 0.6, 1.0, 0.0, "square")
    f = attention_features(problem, cos_query=0.6, sharpness=1, log2_points=12, seed=0)
    E0, C1 = ridgeless_limit(f)
    at = [errors_of(f, Square(), solve_square(f, alpha=a, ridge=0.0)).test_error for a in (1e3, 1e4)]
    assert (np.array(at) - E0) * [1e3, 1e4] == pytest.approx([C1, C1], rel=5e-3)
    assert plan.loss == Square()


@pytest.mark.parametrize(
    ("delta", "pi", "limit", "slope"), [(5, 0.5, 0.214598, 0.299969), (9, 0.2, 0.059417, 0.107734)]
)
def test_linear_ridgeless_limit(delta, pi, limit, slope):
    problem = task(10, 1, delta, pi)
    assert ridgeless(problem, Protocol(), model="pooled") == pytest.approx((limit, slope), abs=6e-7)
    assert ridgeless(problem, Protocol(), model="vectorised") == pytest.approx((limit, 10 * slope), abs=6e-6)


def test_linear_ridgeless_errors_next_to_the_peak():
    for ae, expected in ((2, 0.338461), (0.5, 0.392514)):
        plan = Protocol(alpha0=ae / 2, alpha1=ae / 2, ridge=0, loss="square")
        assert predict(Task(), plan, model="pooled").test_error == pytest.approx(expected, abs=6e-7)


def test_ridgeless_expansion_needs_weight_on_the_signal():
    with pytest.raises(OutsideDomain, match="no weight along the signal"):
        ridgeless(Task(strength=0.0), Protocol(), model="pooled")


# ---- the interface


@pytest.mark.parametrize("loss", [Logistic(), SquaredHinge(), SmoothHinge(0.5)])
@settings(max_examples=50, deadline=None)
@given(margin=st.floats(-60, 60), log_step=st.floats(-8, 9))
def test_proximal_points_are_stationary(loss, margin, log_step):
    """l'(p) + (p - t)/c = 0, to rounding of the larger term."""
    t, c = np.array([margin]), np.array([np.exp(log_step)])
    p = loss.prox(t, c)
    gap = loss.derivative(p) + (p - t) / c
    assert abs(gap[0]) < 1e-9 * (1 + (abs(margin) + abs(p[0])) / c[0])


def test_a_loss_of_the_user_works_in_theory_and_training():
    found = predict(Task(), query(2.0, 0.9, 1.5, 0.01, SmoothHinge(0.02)))
    hinge = predict(Task(), query(2.0, 0.9, 1.5, 0.01, "hinge"))
    assert found.test_error == pytest.approx(hinge.test_error, abs=2e-3)
    assert found.certificate.residual < 1e-8


@pytest.mark.parametrize("factor", [0.5, 2.0, -1.0])
def test_a_loss_with_a_wrong_derivative_is_refused(factor):
    class Wrong(SmoothHinge):
        def derivative(self, margin):
            return factor * super().derivative(margin)

    with pytest.raises(InvalidArgument, match="not the slope of its value"):
        predict(Task(), query(2.0, 0.9, 1.5, 0.01, Wrong(0.5)))


def test_unknown_separable_limit_is_refused():
    with pytest.raises(OutsideDomain, match="give ridge a positive value"):
        predict(Task(), query(2.0, 0.9, 0.5, 0.0, SmoothHinge(0.5)))


def test_features_have_unit_weight_and_the_right_means():
    f = attention_features(task(7, 2, 3, 0.3), cos_query=0.5, sharpness=0.0, log2_points=12, seed=0)
    assert f.weight.sum() == pytest.approx(1.0)
    # kappa = 0: attention is uniform, tau = 1/sqrt(L), K = theta sqrt(1-s^2) R/L on positives
    assert f.noise == pytest.approx(7**-0.5)
    positive = f.label > 0
    assert f.design[positive, 1] == pytest.approx(3 * np.sqrt(0.75) * 2 / 7)
    spread = (
        np.std([part.average(part.design[:, 0]) for part in f.replicates()]) / 4
    )  # of the mean of sixteen replicates
    assert f.average(f.design[:, 0]) == pytest.approx(0.3 * 3 * 0.5 * 2 / 7, abs=4 * spread)
    assert spread < 5e-4
    assert vectorised_features(task(7, 2, 3, 0.3)).design[0, 0] == pytest.approx(6 / 7**0.5)
