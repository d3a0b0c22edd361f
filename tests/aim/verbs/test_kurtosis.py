"""Tokens of another kurtosis: predictions, spectra, comparison with training, refusals (P11)."""

import numpy as np
import pytest

from onehead.aim import (
    Learner,
    Method,
    PowerLaw,
    Task,
    Variant,
    bayes,
    compare,
    curve,
    decompose,
    predict,
    spectrum,
    thresholds,
    train,
    tune,
)
from onehead.app.drafts.curves import draft_curve, draft_vanishing_decay
from onehead.errors import InvalidArgument

SIGNS = Task(kurtosis=1.0)


@pytest.mark.parametrize("kurtosis", [1.0, 9.0, 30.0])
@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
@pytest.mark.parametrize("param", ["factorised", "direct"])
def test_two_forms_of_the_training_loss_agree(kurtosis, loss, param):
    """They agree only at a fixed point of consistent equations: to the residual, 3e-7, and the quadrature error."""
    for alpha in (0.1, 0.5):
        point = predict(Task(kurtosis=kurtosis), Learner(loss=loss, param=param), alpha)
        assert point.certificate.train_loss_gap < 2e-6
        assert abs(point.certificate.stein_gap) < 2e-3
        assert point.kind == "conjecture"


def test_training_on_signs_agrees_with_the_prediction():
    """Three standard errors and a relative 3/d; the theory of Gaussian tokens lies further away."""
    runs = train(Task(), Learner(), dim=60, alpha=1.0, seeds=4, seed=3, variant=Variant(token_law="rademacher"))
    task, learner, alpha = runs.trained
    assert task.kurtosis == 1.0
    bound = 3.0 * runs.spread["test_error_err"] + 3.0 / 60 * runs.test_error
    assert abs(runs.test_error - predict(task, learner, alpha).test_error) < bound
    assert abs(runs.test_error - predict(task.changed(kurtosis=3.0), learner, alpha).test_error) > bound
    tau = np.mean([np.trace(run.map) / 60 for run in runs.runs])
    (trace,) = predict(task, learner, alpha).directions
    assert tau == pytest.approx(trace.learned, rel=0.05)


def test_kurtosis_of_task_and_law_of_tokens_are_consistent():
    """The law of tokens sets the kurtosis where the task has the default, and vice versa."""
    signs = Variant(token_law="rademacher")
    table = compare(Task(), Learner(), [0.5], [20], 2, variant=signs, method=Method(starts=1))
    (point,) = table.points
    assert (point.prediction.task.kurtosis, point.beside[0].task.kurtosis) == (1.0, 1.0)
    assert Variant().for_task(SIGNS).tokens.name == "rademacher"
    assert signs.task_with_token_kurtosis(Task()).kurtosis == signs.task_with_token_kurtosis(SIGNS).kurtosis == 1.0
    assert signs.task_with_token_kurtosis(Task(tokens=3)).kurtosis == 3.0  # not derived for three tokens
    mixed = Variant(token_law="sparse", correlation=0.5).tokens
    assert mixed.kurtosis == pytest.approx(3.0 + 27.0 / 2.0)
    with pytest.raises(InvalidArgument, match="token_law must be a law whose kurtosis is 1"):
        Variant(token_law="sparse").for_task(SIGNS)
    with pytest.raises(InvalidArgument, match="kurtosis must be one of 1, 3, 9, 30 to train with"):
        Variant().for_task(Task(kurtosis=2.0))


@pytest.mark.parametrize("param", ["factorised", "direct"])
def test_moments_of_the_spectrum_are_those_of_the_solution(param):
    """The solution computes the same moments by other integrals."""
    point = predict(SIGNS, Learner(param=param), 0.3)
    law, (trace,) = spectrum(point), point.directions
    assert (law.mean, law.second_moment, law.rank) == pytest.approx((trace.learned, point.q, point.rank), rel=1e-6)
    sample = law.sample(1, 100_000)
    assert sample.mean() == pytest.approx(trace.learned, abs=4.5 * sample.std() / np.sqrt(100_000))


def test_temperatures_only_rescale_the_trace():
    """Temperatures scale the trace as they scale the map (1.5)."""
    plain, hot = predict(SIGNS, Learner(), 0.5), predict(SIGNS, Learner(beta=2.0, weight_decay=0.02), 0.5)
    assert hot.test_error == pytest.approx(plain.test_error, rel=1e-6)
    assert hot.directions[0].learned == pytest.approx(0.5 * plain.directions[0].learned, rel=1e-6)
    assert hot.directions[0].effective == pytest.approx(plain.directions[0].effective, rel=1e-6)


def test_points_of_a_curve_agree_with_single_predictions():
    """Continuation from point to point gives the same results in fewer evaluations."""
    alphas = [0.2, 0.3, 0.5]
    line = curve(SIGNS, Learner(), alphas)
    alone = [predict(SIGNS, Learner(), alpha) for alpha in alphas]
    for one, other in zip(line, alone, strict=True):
        assert one.test_error == pytest.approx(other.test_error, rel=1e-5)
    near = predict(SIGNS, Learner(), 0.52, near=alone[-1])
    assert near.certificate.evaluations < predict(SIGNS, Learner(), 0.52).certificate.evaluations


def test_tuned_weight_decay_is_a_minimum():
    """No weight decay nearby is better."""
    best = tune(SIGNS, Learner(), 0.5)
    for factor in (0.7, 1.4):
        other = predict(SIGNS, Learner(weight_decay=factor * best.weight_decay), 0.5)
        assert other.test_error > best.test_error


def test_thresholds_of_signs_and_of_gaussian_tokens():
    signs, gaussian = thresholds(SIGNS), thresholds(Task())
    assert signs.interpolation > gaussian.interpolation
    assert signs.emergence > gaussian.emergence
    assert signs.direct == gaussian.direct
    at = predict(SIGNS, Learner(weight_decay="0+"), signs.interpolation)
    assert at.test_error == pytest.approx(signs.peak_test_error, rel=1e-6)


@pytest.mark.parametrize("weight_decay", [0.01, "0+"])
def test_drafts_are_close_to_predictions(weight_decay):
    """Drafts lie within two per cent of the predictions, below interpolation and above."""
    head = Learner(weight_decay=weight_decay)
    draft = draft_curve(SIGNS, head, [0.1, 0.5, 1.0], seconds=60.0)
    assert draft.x == [0.1, 0.5, 1.0]
    for found in draft.points:
        assert found.numbers.test_error == pytest.approx(predict(SIGNS, head, found.x).test_error, rel=0.02)
    if weight_decay == 0.01:
        vanishing = draft_vanishing_decay(SIGNS, head, 0.5)
        assert predict(SIGNS, Learner(weight_decay=1.02 * vanishing), 0.5).rank == 0.0
        assert predict(SIGNS, Learner(weight_decay=0.98 * vanishing), 0.5).rank > 0.0


@pytest.mark.parametrize(
    "head",
    [{"attention": "cross"}, {"attention": "self", "mask": "strict", "tokens": 3}, {"mask": "strict", "tokens": 3}],
)
def test_heads_without_their_own_logit_do_not_depend_on_the_kurtosis(head):
    """Results are bit for bit the same for any kurtosis."""
    known = predict(Task(**head), Learner(), 0.5)
    assert predict(Task(**head, kurtosis=1.0), Learner(), 0.5).test_error == known.test_error


@pytest.mark.parametrize(
    "head",
    [{"tokens": 3}, {"mask": "causal"}, {"attention": "self"}, {"labels": "hard"}],
)
def test_heads_without_theory_are_refused(head):
    with pytest.raises(InvalidArgument, match="kurtosis must be 3 for a head that sees its own logit, unless"):
        Task(**head, kurtosis=1.0)


def test_functions_without_theory_are_refused():
    with pytest.raises(InvalidArgument, match="kurtosis must be 3: the best possible learner"):
        bayes(SIGNS, 0.5)
    power = Task(target=PowerLaw(gamma=1.0, dim=60), kurtosis=1.0)
    point = predict(power, Learner(weight_decay=0.1), 0.5)
    assert len(point.directions) == 1  # leading directions are treated as Gaussian, with a warning
    assert any("far from Gaussian" in text for text in point.certificate.warnings)
    assert all(one.target in power.target.values for one in spectrum(point).outliers)
    with pytest.raises(InvalidArgument, match="kurtosis must be 3 to split the error"):
        decompose(point)
    with pytest.raises(InvalidArgument, match="tokens whose kurtosis is not 3"):
        predict(power, Learner(leading=2), 0.5)
    with pytest.raises(InvalidArgument, match="kurtosis must be 3 for message passing"):
        train(SIGNS, Learner(), dim=20, alpha=0.5, seeds=1, method=Method(optimiser="amp"))
    with pytest.raises(InvalidArgument, match="kurtosis must be a number >= 1"):
        Task(kurtosis=0.5)
