"""The arrays of `aim.sample` are those of `aim.train`: objective and errors computed from them are those of the run."""

import numpy as np
import pytest

from onehead import aim

DIM, ALPHA = 12, 1.0


def attention(S, tokens, keys=None):
    """Attention matrices of a map, written out from the definition of the logits (1.1, U1)."""
    logits = np.einsum("nad,de,nbe->nab", tokens, S, tokens if keys is None else keys)
    if keys is None:
        logits -= np.trace(S) * np.eye(tokens.shape[1])
    p = np.exp(logits / np.sqrt(len(S)))
    return p / p.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("run", [0, 1])
def test_objective_and_errors_of_a_tied_head_follow_from_the_arrays(run):
    task, learner = aim.Task(noise=0.5, tokens=3), aim.Learner(weight_decay=0.05)
    trained = aim.train(task, learner, dim=DIM, alpha=ALPHA, seeds=2, seed=7).runs[run]
    data = aim.sample(task, DIM, ALPHA, 7, run=run)
    assert np.array_equal(data.target, trained.target)
    S = trained.map
    objective = np.sum((attention(S, data.tokens) - data.labels) ** 2) + learner.weight_decay * DIM * np.trace(S)
    assert objective / DIM**2 == pytest.approx(trained.train_loss, rel=1e-9)  # rounding of the sums
    fresh = aim.sample(task, DIM, ALPHA, 7, run=run, part="test")
    assert len(fresh) == aim.Method().test_samples
    errors = np.sum((attention(S, fresh.tokens) - fresh.labels) ** 2, axis=(1, 2))
    assert errors.mean() == pytest.approx(trained.test_error, rel=1e-9)
    clean = np.sum((attention(S, fresh.tokens) - fresh.clean_labels) ** 2, axis=(1, 2))
    assert clean.mean() == pytest.approx(trained.test_error_clean, rel=1e-9)
    assert np.allclose(attention(data.target, fresh.tokens), fresh.clean_labels)


def test_cross_attention_has_keys_and_hard_labels_are_one_hot():
    task = aim.Task(aim.Product(0.5), attention="cross", labels="hard", noise=0.0)
    learner = aim.Learner(weight_decay=0.5, loss="cross-entropy")
    trained = aim.train(task, learner, dim=DIM, alpha=ALPHA, seeds=1, method=aim.Method(test_samples=50)).runs[0]
    data = aim.sample(task, DIM, ALPHA)
    assert data.keys.shape == data.tokens.shape == (144, 2, DIM)
    assert set(np.unique(data.labels)) == {0.0, 1.0} and np.all(data.labels.sum(axis=-1) == 1.0)
    p = attention(trained.map, data.tokens, data.keys)
    nuclear = np.linalg.svd(trained.map, compute_uv=False).sum()
    objective = -np.sum(data.labels * np.log(p)) + learner.weight_decay * DIM * nuclear
    assert objective / DIM**2 == pytest.approx(trained.train_loss, rel=1e-9)
    fresh = aim.sample(task, DIM, ALPHA, part="test", method=aim.Method(test_samples=50))
    assert np.allclose(fresh.labels, attention(data.target, fresh.tokens, fresh.keys))


def test_many_chunks_are_joined_in_order(monkeypatch):
    whole = aim.sample(aim.Task(), DIM, ALPHA)
    monkeypatch.setattr("onehead.aim.training.data.CHUNK_NUMBERS", 16 * 2 * DIM)
    parts = aim.sample(aim.Task(), DIM, ALPHA)
    assert parts.tokens.shape == whole.tokens.shape
    assert np.allclose(attention(parts.target, parts.tokens), parts.clean_labels)


def test_the_law_of_the_tokens_can_be_changed():
    signs = aim.sample(aim.Task(), DIM, ALPHA, variant=aim.Variant(token_law="rademacher"))
    assert set(np.unique(signs.tokens)) == {-1.0, 1.0}
