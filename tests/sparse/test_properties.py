"""Sparse-token classification over its full range: bounds, order, symmetry, limits and alternative computations."""

import numpy as np
import pytest
from checks.soak_problems import check_readout
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tests.support.problems import log_uniform

from onehead import sparse
from onehead.errors import SolveError
from onehead.sparse.theory.oracle import best_linear_error, hardmax_error, linear_error

LOSSES = ["logistic", "square", "hinge", "squared-hinge"]


@st.composite
def tasks(draw, least=0.0, most=6.0, rate=None):
    length = draw(st.integers(1, 25))
    return sparse.Task(
        length=length,
        signal_tokens=draw(st.integers(1, min(3, length))),
        strength=draw(st.floats(least, most)),
        positive_rate=draw(st.floats(0.03, 0.97)) if rate is None else rate,
    )


protocols = st.builds(
    sparse.Protocol,
    alpha0=log_uniform(0.1, 20.0),
    alpha1=log_uniform(0.1, 20.0),
    beta=st.floats(0.0, 15.0),
    eta_w=log_uniform(0.01, 3.0),
    eta_b=st.floats(0.0, 8.0),
    loss=st.sampled_from(LOSSES),
    ridge=st.one_of(st.just(0.0), log_uniform(1e-5, 10.0)),
)


@given(task=tasks(), protocol=protocols, model=st.sampled_from(["attention", "pooled", "vectorised"]))
@example(  # an interpolation peak without a ridge, where the norm of the weights is infinite
    task=sparse.Task(length=1, strength=0.0),
    protocol=sparse.Protocol(beta=0.0, eta_w=1.0, eta_b=0.0, loss="square", ridge=0.0),
    model="attention",
)
@settings(max_examples=20)
def test_every_readout_is_bounded(task, protocol, model):
    """Errors are probabilities, and no linear model beats the best linear rule."""
    try:
        point = sparse.predict(task, protocol, model=model, accuracy=1e-2)
    except SolveError:
        return
    assert isinstance(point, sparse.Prediction)
    assert check_readout(point) == ""


@given(task=tasks(least=0.1), more=st.floats(0.1, 3.0))
@settings(max_examples=20)
def test_oracle_errors_fall_with_the_strength(task, more):
    """Hardmax, uniform linear and best linear errors fall with the strength and never exceed guessing (S2.1, S2.2)."""
    strong = task.changed(strength=task.strength + more)
    rate = task.positive_rate
    for error in (hardmax_error, best_linear_error, lambda t: linear_error(t.linear_snr, rate)):
        assert error(strong) <= error(task) + 1e-9
        assert 0.0 <= error(strong) <= min(rate, 1.0 - rate) + 1e-12
    assert best_linear_error(task) <= linear_error(task.linear_snr, rate) + 1e-12


@given(snr=log_uniform(1e-3, 8.0), rate=st.floats(0.01, 0.99))
def test_linear_error_is_symmetric_in_the_classes(snr, rate):
    assert linear_error(snr, rate) == pytest.approx(linear_error(snr, 1.0 - rate), rel=1e-9)


@given(task=tasks(least=0.5))
@settings(max_examples=3)
def test_oracle_errors_are_ordered(task):
    """Bayes ≤ softmax ≤ hardmax; Bayes ≤ every other rule, up to Monte-Carlo noise (S2.2)."""
    best = sparse.oracle(task)
    assert isinstance(best, sparse.Oracle)
    noise = 5.0 * best.certificate.quadrature_error
    assert 0.0 <= best.bayes <= best.softmax + noise <= best.hardmax + noise + 1e-12
    assert best.bayes <= min(best.elementwise, best.vectorised, best.pooled) + noise


@given(
    task=tasks(least=0.5, rate=0.5),
    eta_w=log_uniform(1e-5, 1e-3),
    alpha0=log_uniform(0.1, 100.0),
    loss=st.sampled_from(LOSSES[:2]),
)
def test_balanced_classes_always_align(task, eta_w, alpha0, loss):
    """At π = 1/2 the mean slope vanishes for small η_w, and the query points at the signal (S3)."""
    assume(task.length > task.signal_tokens)
    # L = 1 has nothing to attend to; with R = L every token carries the signal
    found = sparse.align(task, sparse.Protocol(eta_w=eta_w, alpha0=alpha0, loss=loss))
    assert isinstance(found, sparse.Alignment)
    assert 0.0 < found.cos_query <= 1.0
    assert sparse.critical_bias_rate(task, sparse.Protocol(loss=loss)) is None
    flipped = sparse.align(task, sparse.Protocol(eta_w=eta_w, alpha0=alpha0, loss=loss, eta_q=-1.0))
    assert flipped.cos_query == pytest.approx(-found.cos_query)


@given(task=tasks(least=1.0), eta_w=log_uniform(0.01, 1.0), eta_b=st.floats(0.0, 5.0), loss=st.sampled_from(LOSSES))
def test_misalignment_vanishes_as_one_over_the_samples(task, eta_w, eta_b, loss):
    """|cos| → 1 - C/α₀, the constant from its own formula (S3)."""
    plan = sparse.Protocol(eta_w=eta_w, eta_b=eta_b, loss=loss)
    constant = sparse.misalignment_constant(task, plan)
    assume(0.0 < constant < 1e3)
    alpha0 = 1e5 * max(constant, 1.0)
    cos = sparse.align(task, plan.changed(alpha0=alpha0)).cos_query
    # the next order is C²/α₀², and 1 - |cos| keeps eleven digits less than cos
    assert (1.0 - abs(cos)) * alpha0 == pytest.approx(constant, rel=1e-2, abs=1e-9)


@given(
    task=tasks(least=0.5, most=2.5),
    s=st.floats(-0.9, 0.9),
    kappa=log_uniform(0.2, 3.0),
    loss=st.sampled_from(["logistic", "hinge", "squared-hinge"]),
)
@settings(max_examples=3)
def test_capacity_is_where_training_errors_begin(task, s, kappa, loss):
    """Without ridge the training error is zero below the capacity and positive above; α* is at least two (S6)."""
    plan = sparse.Protocol(cos_query=s, sharpness=kappa, ridge=0.0, loss=loss)
    found = sparse.capacity(task, plan)
    assert isinstance(found, sparse.Capacity)
    assert min(found.attention, found.pooled) >= 2.0 - 1e-9
    assert found.vectorised == task.length * found.pooled
    below = sparse.predict(task, plan.changed(alpha1=0.9 * found.attention), accuracy=1e-2)
    assert (below.train_error, below.train_loss) == (0.0, 0.0)
    try:
        above = sparse.predict(task, plan.changed(alpha1=1.2 * found.attention), accuracy=1e-2)
    except SolveError:
        assume(False)
    assert above.train_error > 0.0


@pytest.mark.parametrize("model", ["attention", "pooled"])
def test_finite_samples_separate_below_capacity(model):
    """Linear programs at half and at twice the predicted ratio; at d = 30 the transition is about a fifth wide (S6)."""
    task = sparse.Task(length=4, strength=1.5)
    plan = sparse.Protocol(cos_query=0.5, sharpness=1.0)
    ratio = getattr(sparse.capacity(task, plan), model)
    share = [
        sparse.separable_share(
            task, plan.changed(alpha0=0.5 * x * ratio, alpha1=(1.0 if model == "attention" else 0.5) * x * ratio),
            model=model, dim=30, trials=8,
        )
        for x in (0.5, 2.0)
    ]  # fmt: skip
    assert share == [1.0, 0.0]


@given(
    task=tasks(least=0.5), sign=st.sampled_from([-1.0, 1.0]), kappa=log_uniform(0.2, 4.0), loss=st.sampled_from(LOSSES)
)
@settings(max_examples=6)
def test_perfect_alignment_is_reached_continuously(task, sign, kappa, loss):
    """s → ±1: the signal component orthogonal to the query vanishes as sqrt(1 - s²) (S4.1)."""

    def error(s):
        plan = sparse.Protocol(cos_query=s, sharpness=kappa, alpha1=3.0, ridge=0.1, loss=loss)
        return sparse.predict(task, plan, accuracy=1e-2)

    limit, near = error(sign), error(sign * (1.0 - 1e-8))
    # gam = 1.4e-4 there, and the error is even in it
    assert near.test_error == pytest.approx(limit.test_error, abs=1e-5)
    assert near.signal_weight == pytest.approx(limit.signal_weight, abs=1e-2)


@given(task=tasks(least=0.5, most=4.0), rate=log_uniform(1e-4, 1e-2), loss=st.sampled_from(LOSSES))
@settings(max_examples=6)
def test_error_of_rare_positives_is_at_most_their_share(task, rate, loss):
    """π → 0: with a large ridge the readout answers negative always, and the error tends to π."""
    rare = task.changed(positive_rate=rate)
    for model in ("pooled", "vectorised"):
        point = sparse.predict(rare, sparse.Protocol(ridge=10.0, alpha1=5.0, loss=loss), model=model)
        assert linear_error(rare.linear_snr, rate) - 1e-12 <= point.test_error <= rate * (1.0 + 1e-6)


@given(task=tasks(least=0.3), model=st.sampled_from(["pooled", "vectorised"]))
@settings(max_examples=10)
def test_ridgeless_expansion_agrees_with_predict_at_many_samples(task, model):
    """E0 + C1/α against the closed form at α = 1e5 (S5.1)."""
    limit, slope = sparse.ridgeless(task, sparse.Protocol(), model=model)
    alpha = 1e5 * task.length
    plan = sparse.Protocol(alpha0=0.5 * alpha, alpha1=0.5 * alpha, ridge=0.0, loss="square")
    point = sparse.predict(task, plan, model=model)
    # the next order is (slope/α)² over the limit, relative to a slope of order one
    assert (point.test_error - limit) * alpha == pytest.approx(slope, rel=1e-2, abs=1e-6)
    assert 0.0 <= limit <= 0.5


@given(length=st.integers(2, 10**6), strength=st.floats(0.0, 5.0))
def test_growth_scales_the_strength(length, strength):
    """Constant are the linear signal (sqrt), the strength over sqrt(log L) (log), or the strength (fixed)."""
    task = sparse.Task(length=10, strength=strength)
    root, slow, same = (sparse.grow(task, [length], growth)[0] for growth in ("sqrt", "log", "fixed"))
    assert root.linear_snr == pytest.approx(strength)
    assert slow.strength == pytest.approx(strength * np.sqrt(np.log(length)))
    assert same.strength == strength
    assert {t.length for t in (root, slow, same)} == {length}


@given(task=tasks(), samples=st.integers(1, 50), dim=st.integers(1, 6), seed=st.integers(0, 99))
def test_sampled_sequences_have_the_shape_of_the_task(task, samples, dim, seed):
    first, again = (sparse.draw(task, np.random.default_rng(seed), samples=samples, dim=dim) for _ in range(2))
    assert first.tokens.shape == (samples, task.length, dim)
    assert set(np.unique(first.label)) <= {-1.0, 1.0}
    assert np.linalg.norm(first.signal) == 1.0
    assert np.array_equal(first.tokens, again.tokens)


def test_maps_curves_and_finite_size_agree_with_predict():
    """`map` and `finite_size` call `predict` and return its numbers; a `curve` falls."""
    task, plan = sparse.Task(strength=4.0), sparse.Protocol(loss="square", ridge=0.1)
    spots = sparse.map(task, plan, x=("beta", [2.0, 8.0]), y=("ridge", [0.1, 1.0]), accuracy=5e-3)
    assert isinstance(spots, sparse.SparseMap)
    for spot in spots:
        moved = plan.changed(beta=spot.x, ridge=spot.y)
        assert spot.test_error == sparse.predict(task, moved, accuracy=5e-3).test_error
    along = sparse.curve(task, plan, alphas=[1.0, 4.0, 16.0], model="pooled")
    assert isinstance(along, sparse.Curve)
    assert (np.diff([point.test_error for point in along]) < 0.0).all()
    finite = sparse.finite_size(task, plan, dim=200, trials=4)
    assert isinstance(finite, sparse.FiniteSize)
    assert 0.0 <= finite.test_error <= 1.0
    assert finite.limit == sparse.predict(task, plan).test_error


def test_tuning_does_not_raise_the_error():
    best = sparse.tune(sparse.Task(strength=4.0), sparse.Protocol(loss="square"), alpha=2.0)
    assert isinstance(best, sparse.Tuned)
    # the search looks at errors of accuracy 1e-3 at worst
    assert best.test_error <= min(error for *_, error in best.scan) + 2e-3
    assert best.test_error <= best.given_test_error + 1e-4


@given(seed=st.integers(0, 10**6), model=st.sampled_from(["attention", "pooled", "vectorised"]))
@settings(max_examples=4)
def test_trained_readouts_stay_within_bounds(seed, model):
    """Measured errors lie between zero and one, and `compare` gives finite z-scores."""
    task, plan = sparse.Task(length=5, strength=3.0), sparse.Protocol(loss="square", ridge=0.1)
    both = sparse.compare(task, plan, dims=[60], model=model, trials=3, seed=seed)
    assert isinstance(both, sparse.Comparison)
    measured, (row,) = both.points[0].runs[0], both.to_rows()
    assert isinstance(measured, sparse.TrainingResult)
    assert 0.0 <= measured.test_error <= 1.0
    assert np.isfinite([row["test_error_z"], row["train_loss_z"]]).all()
    again = sparse.train(task, plan, model=model, dim=60, trials=3, seed=seed + 60)
    assert again.test_error == measured.test_error


@given(
    loss=st.sampled_from([sparse.Logistic(), sparse.Square(), sparse.Hinge(), sparse.SquaredHinge()]),
    margins=st.lists(st.floats(-50.0, 50.0), min_size=2, max_size=2),
    step=log_uniform(1e-4, 1e4),
)
def test_proximal_operator_is_increasing_and_nonexpansive(loss, margins, step):
    """The prox of a convex loss is increasing and nonexpansive, and does not raise the cost."""
    assert isinstance(loss, sparse.Loss)
    low, high = sorted(margins)
    p, q = loss.prox(np.array([low, high]), np.full(2, step))
    assert -1e-9 <= q - p <= (high - low) * (1.0 + 1e-9) + 1e-9
    for t, u in ((low, p), (high, q)):
        cost = float(loss.value(np.array([u]))[0]) + (u - t) ** 2 / (2.0 * step)
        assert cost <= float(loss.value(np.array([t]))[0]) * (1.0 + 1e-9) + 1e-12
