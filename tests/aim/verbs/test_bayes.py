"""The best possible learner: values of the derivation, identities, limits, and that no trained head does better."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onehead.aim import (
    Learner,
    MarchenkoPastur,
    PowerLaw,
    Task,
    bayes,
    bayes_curve,
    compare,
    curve,
    data_for,
    plateau,
    predict,
    tune,
)
from onehead.aim.verbs.bayes import BayesReference
from onehead.errors import InvalidArgument, SolveError

NARROW, FULL = MarchenkoPastur(kappa0=0.05), MarchenkoPastur(kappa0=1.0)
TARGETS = {
    "narrow, little noise": Task(target=NARROW, noise=0.05),
    "narrow": Task(target=NARROW),
    "half": Task(),
    "full": Task(target=FULL),
    "power law": Task(target=PowerLaw(gamma=0.75, dim=200)),
}
# target, alpha, mmse, test error, error of the best head, plug-in error, clean test error (A.7)
TABLE = [
    ("narrow, little noise", 0.02, 0.53555, 0.19325, 0.19327, 0.20032, 0.18689),
    ("narrow, little noise", 0.1, 0.00803, 0.01238, 0.01238, 0.01242, 0.00305),
    ("narrow, little noise", 4.0, 0.00015, 0.00944, 0.00944, 0.00947, 0.00006),
    ("narrow", 0.05, 0.20898, 0.14848, 0.14850, 0.15401, 0.07634),
    ("narrow", 0.5, 0.01276, 0.08761, 0.08763, 0.08981, 0.00485),
    ("half", 0.05, 0.80074, 0.27986, 0.27988, 0.29739, 0.23411),
    ("half", 0.5, 0.11139, 0.10496, 0.10499, 0.10861, 0.03612),
    ("half", 20.0, 0.00236, 0.07473, 0.07475, 0.07669, 0.00078),
    ("full", 0.1, 0.64735, 0.21664, 0.21669, 0.23130, 0.17003),
    ("full", 4.0, 0.01543, 0.07048, 0.07051, 0.07250, 0.00455),
    ("power law", 0.02, 0.36556, 0.19840, 0.19842, 0.20679, 0.13278),
    ("power law", 4.0, 0.00968, 0.08797, 0.08799, 0.09014, 0.00374),
]


@pytest.mark.parametrize(("name", "alpha", "mmse", "best", "head", "plugin", "clean"), TABLE)
def test_errors_match_the_table_of_the_derivation(name, alpha, mmse, best, head, plugin, clean):
    found = bayes(TARGETS[name], alpha)
    wanted = {
        "mmse": mmse,
        "test_error": best,
        "head_error": head,
        "plugin_error": plugin,
        "test_error_clean": clean,
    }
    for key, value in wanted.items():
        assert getattr(found, key) == pytest.approx(value, abs=6e-6), key  # the last digit given


@pytest.mark.parametrize(
    ("name", "floor", "empty", "zero"),
    [
        ("narrow, little noise", 0.0093852, 0.339894, 0.355474),
        ("narrow", 0.0835401, 0.375726, 0.389695),
        ("half", 0.0740645, 0.327300, 0.443943),
        ("full", 0.0665867, 0.290876, 0.489615),
        ("power law", 0.0848356, 0.304390, 0.382586),
    ],
)
def test_errors_of_infinitely_many_samples_of_almost_none_and_of_the_zero_map(name, floor, empty, zero):
    """Infinitely many samples, next to none (the trace is known), and S = 0."""
    reference = BayesReference(TARGETS[name])
    assert reference.at(1.0).floor == pytest.approx(floor, abs=6e-8)
    assert reference.test_error(reference.posterior.known) == pytest.approx(empty, abs=6e-7)
    assert reference.plugin_error(0.0) == pytest.approx(zero, abs=6e-7)


@pytest.mark.parametrize(
    ("arguments", "alpha", "wanted", "close"),
    [
        ({"tokens": 3}, 0.05, {"mmse": 0.499569, "test_error": 0.34762, "test_error_clean": 0.25236}, 1.5e-4),
        ({"tokens": 5}, 0.05, {"mmse": 0.168368, "test_error": 0.32989, "plugin_error": 0.33829}, 1.5e-4),
        ({"tokens": 5}, 0.2, {"mmse": 0.035981, "test_error": 0.23149}, 1.5e-4),
        ({"tokens": 3}, 0.1, {"mmse": 0.248838, "test_error": 0.24019, "plugin_error": 0.24887}, 1.5e-4),
        ({"beta0": 0.5}, 0.2, {"mmse": 0.319055, "test_error": 0.069957, "plugin_error": 0.070615}, 1e-6),
        ({"beta0": 2.0}, 0.2, {"mmse": 0.319055, "test_error": 0.276193, "plugin_error": 0.314424}, 1e-6),
    ],
)
def test_more_tokens_and_other_temperatures(arguments, alpha, wanted, close):
    """Values of A.9; those of more than two tokens were sampled there, to 1.5e-4."""
    found = bayes(Task(**arguments), alpha)
    for key, value in wanted.items():
        assert getattr(found, key) == pytest.approx(value, abs=close), key


@pytest.mark.parametrize("arguments", [{}, {"tokens": 4}, {"tokens": 3, "mask": "causal"}, {"attention": "cross"}])
def test_the_optimal_output_is_the_mean_of_labels_given_the_estimate(arguments):
    """Monte Carlo without replicas: the output p(ω) is a mean over labels, and the error its mean squared distance."""
    task, alpha, rng = Task(**arguments), 0.3, np.random.default_rng(5)
    found, T = bayes(task, alpha), task.tokens
    q, remaining = found.overlap, task.target.second_moment + 0.5 * task.noise - found.overlap
    count, labels = 1500, 400

    def logits(power, shape):
        h = np.sqrt(power) * rng.standard_normal((*shape, T, T))
        if task.tied:  # symmetric, twice the variance on the diagonal
            h = (h + np.swapaxes(h, -1, -2)) / np.sqrt(2.0)
        return h

    def softmax(h):
        for row, length in enumerate(task.columns):
            h[..., row, length:] = -np.inf
        y = np.exp(h - h.max(axis=-1, keepdims=True))
        return y / y.sum(axis=-1, keepdims=True)

    estimate = logits(q, (count, 1))
    y = softmax(estimate + logits(remaining, (count, labels)))
    errors = ((y - y.mean(axis=1, keepdims=True)) ** 2).sum(axis=(1, 2, 3)) / (labels - 1)
    assert abs(errors.mean() - found.test_error) < 4.0 * errors.std() / np.sqrt(count)  # sampling


@pytest.mark.parametrize(
    ("name", "alpha", "error", "close"),
    [
        ("half", 0.1, 0.2707, 6e-5),
        ("half", 0.5, 0.10619, 6e-6),
        ("half", 4.0, 0.07763, 6e-6),
        ("full", 0.5, 0.1071, 6e-5),
        ("narrow, little noise", 0.1, 0.01443, 6e-6),
        ("power law", 0.1, 0.174, 6e-4),
    ],
)
def test_error_of_weight_decay_on_logits(name, alpha, error, close):
    """Values of A.8, to the last digit given."""
    assert BayesReference(TARGETS[name]).logit_nuclear(alpha) == pytest.approx(error, abs=close)


def test_data_for_inverts_the_test_error():
    for task in (Task(), Task(tokens=3), Task(attention="cross"), TARGETS["power law"], Task(noise=0.0)):
        for alpha in (0.03, 0.15, 0.7) if task.noise else (0.03, 0.15):
            assert data_for(task, bayes(task, alpha).test_error) == pytest.approx(alpha, rel=1e-6)
    assert data_for(Task(), 0.33) == 0.0  # above the error with next to no samples, .3273
    assert data_for(Task(), 0.07) == np.inf  # below the floor, .0741
    # without noise the error jumps to zero at recovery: any positive error needs fewer samples than that
    assert 0.18 < data_for(Task(noise=0.0), 1e-4) < 0.1875


def test_without_noise_the_target_is_recovered_exactly():
    found = bayes(Task(noise=0.0), 0.19)
    assert found.test_error == found.mmse == found.head_error == 0.0
    assert found.status.startswith("perfect recovery")
    # continuous: V ~ sqrt(Delta) at the threshold (A.3)
    assert bayes(Task(noise=1e-4), 0.1875).mmse == pytest.approx(0.0060, abs=6e-5)


@given(
    kappa0=st.floats(0.05, 2.0),
    noise=st.one_of(st.just(0.0), st.floats(1e-3, 2.0)),
    tokens=st.sampled_from([2, 2, 3, 5]),
    head=st.sampled_from([("tied", "none"), ("tied", "causal"), ("cross", "none"), ("cross", "causal")]),
    beta0=st.floats(0.5, 2.0),
    ratio=st.floats(-2.0, 1.5),
    step=st.floats(0.01, 0.5),
)
@settings(max_examples=40, deadline=None)
def test_errors_are_ordered_and_do_not_grow_with_more_data(kappa0, noise, tokens, head, beta0, ratio, step):
    task = Task(
        attention=head[0],
        mask=head[1],
        target={"kind": "mp" if head[0] == "tied" else "product", "kappa0": kappa0},
        noise=noise,
        tokens=tokens,
        beta0=beta0,
    )
    less, more = bayes_curve(task, [10.0**ratio, 10.0 ** (ratio + step)])
    close = 1e-9 + 1e-7 * less.test_error
    for found in (less, more):
        assert found.test_error <= found.head_error + close
        assert found.head_error <= found.plugin_error + close
        assert found.test_error_clean <= found.test_error + close
        assert found.floor <= found.test_error + close
        assert found.mmse + found.overlap == pytest.approx(task.target.second_moment, rel=1e-9)
        assert 0.0 <= found.head_scale <= 1.0 + 1e-6
    assert more.test_error <= less.test_error + close
    assert more.mmse <= less.mmse + close


@given(
    kappa0=st.floats(0.05, 1.5),
    noise=st.floats(0.01, 2.0),
    decay=st.one_of(st.just("0+"), st.floats(1e-4, 1.0)),
    ratio=st.floats(-1.5, 1.0),
    attention=st.sampled_from(["tied", "cross"]),
    loss=st.sampled_from(["squared", "cross-entropy"]),
)
@settings(max_examples=20, deadline=None)
def test_no_trained_head_has_a_smaller_error(kappa0, noise, decay, ratio, attention, loss):
    kind = {"kind": "mp" if attention == "tied" else "product", "kappa0": kappa0}
    task, alpha = Task(target=kind, noise=noise, attention=attention), 10.0**ratio
    try:
        point = predict(task, Learner(weight_decay=decay, loss=loss), alpha)
    except SolveError:
        return
    assert point.test_error + 3.0 * point.test_error_err >= bayes(task, alpha).head_error - 1e-12


def test_the_best_head_with_many_samples_reaches_the_plateau_of_a_trained_one():
    assert bayes(Task(), 1e5).head_error == pytest.approx(plateau(Task()).test_error, rel=1e-5)


def test_stated_errors_are_positive_and_small():
    """A power law has the largest ones, from two ways to compute F; none is zero by mistake."""
    found = bayes(TARGETS["power law"], 0.02)
    for name in ("mmse", "overlap", "test_error", "test_error_clean", "head_error", "plugin_error"):
        assert 1e-12 < found.errors[name] < 1e-6, name
    assert found.kind == "conjecture"
    assert "6 %" in found.certificate.warnings[0]


@pytest.mark.parametrize("arguments", [{}, {"tokens": 4}, {"attention": "cross"}, {"beta0": 3.0}])
def test_stated_error_of_the_best_head_covers_the_tolerance_of_its_scale(arguments, monkeypatch):
    rough = {alpha: bayes(Task(**arguments), alpha) for alpha in (0.05, 0.4)}
    monkeypatch.setattr("onehead.aim.verbs.bayes.HEAD_SCALE_TOLERANCE", 1e-10)
    for alpha, found in rough.items():
        assert abs(found.head_error - bayes(Task(**arguments), alpha).head_error) < found.errors["head_error"]
        assert found.errors["floor"] > 0.0


def test_curve_tune_and_compare_report_the_best_possible_error():
    task, learner = Task(), Learner(weight_decay=0.05)
    found = curve(task, learner, [0.5, 1.0], bayes=True)
    assert found.column("bayes_test_error") == pytest.approx([0.10496, 0.08850], abs=6e-6)
    assert [round(row["bayes_test_error"], 4) for row in found.to_rows()] == [0.105, 0.0885]
    tuned = tune(task, learner, 0.5, bayes=True)
    assert tuned.gap == pytest.approx(0.155, abs=1e-3)  # 15 %, and 1.45 times the data (A.7)
    assert tuned.data_multiple == pytest.approx(1.45, abs=6e-3)
    assert tuned.logit_nuclear == pytest.approx(0.10619, abs=6e-6)
    assert "needs 0.345 d² samples for this error; you have 0.5 d²." in tuned.explain().replace("\n  ", " ")
    table = compare(task, learner, [1.0], dims=[12], seeds=2, bayes=True)
    assert table.to_rows()[0]["bayes_test_error"] == pytest.approx(0.08850, abs=6e-6)


def test_explain_says_how_much_data_the_best_possible_learner_needs():
    text = predict(Task(), Learner(weight_decay=0.048), 0.5).explain().replace("\n  ", " ")
    assert "has 0.105 here, and needs 0.345 d² samples for this error; you have 0.5 d²." in text
    few_samples = predict(Task(), Learner(), 0.02).explain().replace("\n  ", " ")
    assert "needs next to no samples for this error" in few_samples
    hard = predict(Task(labels="hard", attention="cross"), Learner(loss="cross-entropy", weight_decay=0.1), 1.0)
    assert "best possible" not in hard.explain()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"labels": "hard"}, "labels must be soft"), ({"attention": "self"}, "attention must be tied or cross")],
)
def test_tasks_without_a_known_bayes_optimal_learner_are_refused(arguments, message):
    task = Task(**arguments)
    assert not task.bayes_known
    for call in (lambda: bayes(task, 0.5), lambda: curve(task, Learner(), [0.5], bayes=True)):
        with pytest.raises(InvalidArgument, match=message):
            call()


def test_parameters_that_the_best_possible_learner_does_not_know_are_refused_by_it_and_not_explained():
    task = Task(attention="cross", token_spectrum="subspace:0.5")
    assert not task.bayes_known
    assert not task.supported_by("bayes") and task.supported_by("predict")
    with pytest.raises(InvalidArgument, match="token_spectrum must be isotropic for bayes"):
        BayesReference(task)
    assert "best possible" not in predict(task, Learner(), 0.5).explain()


@pytest.mark.parametrize("task", [Task(beta0=30.0), Task(target=MarchenkoPastur(kappa0=1000.0))])
def test_wide_logits_of_two_tokens_are_resolved(task):
    """Test error and that of the best head by sampled logits; the lattice of narrow logits was off by 2 to 50 %."""
    best = bayes(task, 0.5)
    assert best.errors["test_error"] < 1e-6 * best.test_error
    assert best.head_error > best.test_error
    assert not best.certificate.warnings
    reference = BayesReference(task)
    (row,) = reference.problem.output.geometry.rows
    q, power, variance = best.overlap * task.beta0**2, reference.label_power, row.covariance[0, 0]
    x, y = np.random.default_rng(0).standard_normal((2, 400_000))
    label = np.sqrt(variance * power) * x
    other = q / power * label + np.sqrt(variance * (power - q * q / power)) * y
    losses = 0.25 * row.multiplicity * (np.tanh(0.5 * label) - np.tanh(0.5 * other)) ** 2
    # four standard errors of the sample
    assert abs(losses.mean() - best.test_error) < 4.0 * losses.std() / np.sqrt(len(losses))
    if task.beta0 == 30.0:
        assert best.test_error == pytest.approx(0.39389, abs=1e-5)  # an independent two-dimensional integral
