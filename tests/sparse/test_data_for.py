"""Samples needed for an error, the sequences of a run, and explanations of nearly uniform attention."""

import math

import numpy as np
import pytest

from onehead.errors import InvalidArgument
from onehead.sparse import DataNeeded, Protocol, Task, bayes, data_for, predict, sample, train
from onehead.sparse.training.minimise import fit
from onehead.sparse.training.samplers import LabelledFeatures

TASK, PLAN = Task(), Protocol(loss="square")


@pytest.mark.parametrize(("model", "error"), [("pooled", 0.25), ("vectorised", 0.35), ("attention", 0.04)])
def test_samples_needed_reach_the_error(model, error):
    found = data_for(TASK, PLAN, error, model=model, dim=100)
    point = predict(TASK, PLAN.with_alpha(found.alpha).changed(ridge=found.ridge), model=model)
    # one percent is the accuracy of the search
    assert point.test_error == pytest.approx(error, rel=0.01)
    assert found.samples == math.ceil(100 * found.alpha)
    # neither fewer samples nor another ridge
    for ridge in (found.ridge / 4, found.ridge, min(4 * found.ridge, 1.0 if model == "attention" else 10.0)):
        fewer = PLAN.with_alpha(0.8 * found.alpha).changed(ridge=ridge)
        assert predict(TASK, fewer, model=model).test_error > error
    assert found.own_test_error == predict(TASK, PLAN.with_alpha(found.alpha), model=model).test_error
    # the best possible learner has this error with fewer samples
    assert bayes(TASK, found.best_possible_alpha).test_error == pytest.approx(error, rel=1e-3)
    assert found.data_multiple == pytest.approx(found.alpha / found.best_possible_alpha) and found.data_multiple > 1.0


def test_error_out_of_reach_is_reported():
    """The pooled model has no error below Phi(-delta/2) = 0.2146, whatever its samples."""
    found = data_for(TASK, PLAN, 0.2, model="pooled")
    assert isinstance(found, DataNeeded)
    assert found.alpha == math.inf and found.samples is None and found.ridge is None
    assert found.status.startswith("out of reach") and found.floor == pytest.approx(0.2146, abs=2e-4)
    assert 0.0 < found.best_possible_alpha < 0.1
    assert "No number of samples" in found.explain() and "no learner" not in found.status
    lowest = data_for(TASK, PLAN, 0.01, model="pooled")  # below the error of the best rule that knows the signal
    assert lowest.best_possible_alpha == math.inf and lowest.status.endswith("; no learner reaches it")
    assert "No learner reaches it" in data_for(TASK, PLAN, 0.01, model="pooled").explain()
    assert data_for(TASK, PLAN, 0.6, model="pooled").alpha == 0.0


def test_best_possible_learner_alone_and_invalid_arguments():
    assert data_for(TASK, 0.0327) == data_for(TASK, test_error=0.0327) == pytest.approx(0.37, abs=0.01)
    for call in (
        lambda: data_for(TASK, PLAN, -1.0),
        lambda: data_for(TASK, PLAN, 0.1, model="linear"),
        lambda: data_for(TASK, 0.1, dim=100),
        lambda: data_for(TASK),
    ):
        with pytest.raises(InvalidArgument):
            call()


@pytest.mark.parametrize("model", ["attention", "pooled", "vectorised"])
def test_sample_has_the_sequences_of_training(model):
    """The readout of the sampled sequences has the training loss of the run, bit for bit."""
    task = Task(length=4, strength=3.0)
    plan = Protocol(alpha0=0.5, alpha1=1.5, loss="square", ridge=0.1, cos_query=0.8, sharpness=0.0)
    runs = train(task, plan, model=model, dim=12, trials=3, seed=5, mode="tokens")
    data = sample(task, plan, model=model, dim=12, seed=5, trial=2)
    features = data.tokens.reshape(len(data.label), -1) if model == "vectorised" else data.tokens.mean(axis=1)
    readout = fit(LabelledFeatures(data.label, features), plan.loss, plan.ridge)
    margin = data.label * (features @ readout.weights + readout.bias)
    assert float(plan.loss.value(margin).mean()) == pytest.approx(runs.runs[2].train_loss, rel=1e-12)


def test_first_sequences_of_a_sample_give_the_query():
    """The two gradient steps on the first alpha0 d sequences give the cosine of the run."""
    task, plan = Task(length=4, strength=3.0), Protocol(alpha0=2.0, alpha1=1.0)
    run = train(task, plan, dim=20, trials=1, seed=3, mode="tokens").runs[0]
    data = sample(task, plan, dim=20, seed=3)
    assert len(data.label) == 60
    label, tokens = data.label[:40], data.tokens[:40]
    means = tokens.mean(axis=1)
    w = plan.eta_w * 0.5 * label @ means / 40
    b = plan.eta_b * 0.5 * label.mean()
    h = label * plan.loss.derivative(label * (means @ w + b))
    centred = tokens @ w - (tokens @ w).mean(axis=1, keepdims=True)
    q = -np.einsum("n,nl,nld->d", h, centred, tokens)
    assert q @ data.signal / np.linalg.norm(q) == pytest.approx(run.cos_query, rel=1e-10)
    assert len(sample(task, plan, dim=20, alpha=6.0, seed=3).label) == 120


def test_nearly_uniform_attention_is_explained():
    task = Task(length=100)
    flat = " ".join(predict(task, Protocol()).explain().split())
    assert "Attention is nearly uniform" in flat and "raise beta, to" in flat
    # the advised temperature has sharpness 1
    beta = float(flat.partition("raise beta, to ")[2].split()[0])
    assert predict(task, Protocol(beta=beta)).sharpness == pytest.approx(1.0, rel=0.01)
    assert "nearly uniform" not in predict(Task(), Protocol()).explain()
    assert "raise sharpness" in predict(task, Protocol(cos_query=0.5, sharpness=0.1)).explain()
