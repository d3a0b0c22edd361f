"""Training of a small transformer of the study for a few steps; skipped without PyTorch."""

import numpy as np
import pytest
from safetensors.numpy import load_file
from studies.real_heads.corpus import VOCABULARY, Corpus
from studies.real_heads.runs import Run
from studies.real_heads.store import MOMENTS, finished, log

from onehead.weights import compare

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

TINY = Run(width=64, tokens=600, penalty=1e-3, context=8, batch=4, steps=8)


@pytest.fixture(scope="module")
def text():
    rng = np.random.default_rng(0)
    return Corpus(rng.integers(0, VOCABULARY, TINY.tokens), rng.integers(0, VOCABULARY, 400))


@pytest.fixture(scope="module")
def store(tmp_path_factory, text):
    """Store of a run that was trained without interruption."""
    from studies.real_heads.training import train

    folder = tmp_path_factory.mktemp("complete")
    train(TINY, folder, text)
    return folder


def test_checkpoints_are_read_by_onehead(store):
    assert finished(TINY, store)
    found = compare([TINY.file(store, step) for step in TINY.checkpoints])
    assert found.steps == TINY.checkpoints and len(found) == 8
    assert {head.verdict for head in found.surveys[0]} == {"noise"}  # PyTorch's own initialisation
    assert all(change.moved[-1] > 0.01 for change in found)


def test_an_interrupted_run_ends_with_identical_files(store, text, tmp_path, monkeypatch):
    from studies.real_heads.training import Trainer, train

    advance = Trainer.advance

    def interrupted(self, step):
        if step == 6:
            raise KeyboardInterrupt
        return advance(self, step)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(TINY, tmp_path, text)
    assert not finished(TINY, tmp_path) and log(TINY, tmp_path)[-1]["step"] == 6
    train(TINY, tmp_path, text)
    for step in TINY.checkpoints:
        assert TINY.file(tmp_path, step).read_bytes() == TINY.file(store, step).read_bytes()
    for name in ("held", "roots", "adam_time"):
        assert [row[name] for row in log(TINY, tmp_path)] == [row[name] for row in log(TINY, store)]


def test_a_finished_run_is_not_trained_again(store, text, monkeypatch):
    from studies.real_heads import training

    monkeypatch.setattr(training, "Trainer", None)
    training.train(TINY, store, text)


def test_gradients_of_the_map_agree_with_those_of_its_factors():
    # W_K (∂L/∂A)' is the gradient of W_Q, and W_Q (∂L/∂A) that of W_K
    from studies.real_heads.model import Transformer, loss
    from studies.real_heads.moments import moments, windows

    torch.manual_seed(0)
    run = Run(width=16, heads=2, context=8)
    model = Transformer(run)
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, 8 * 40 + 1)
    found = moments(model, run, tokens)
    loss(model, windows(run, tokens)).backward()
    for layer, block in enumerate(model.h):
        weight, slope = block.attn.c_attn.weight.detach(), block.attn.c_attn.weight.grad
        for head in range(2):
            query, key = (slice(16 * side + 8 * head, 16 * side + 8 * head + 8) for side in (0, 1))
            G = found[f"{layer}.gradient"].mean(0)[head]
            # gradients are summed in single precision
            assert torch.allclose(weight[key] @ G.T, slope[query], atol=1e-8)
            assert torch.allclose(weight[query] @ G, slope[key], atol=1e-7)


def test_second_moments_have_the_trace_of_normalised_tokens(store):
    found = load_file(TINY.folder(store) / MOMENTS)
    # a normalised token has the squared length of its width, up to the 1e-5 in the normalisation
    for layer in range(TINY.layers):
        assert np.trace(found[f"{layer}.second_moment"]) == pytest.approx(TINY.width, rel=1e-3)


def test_forces_on_the_logits_are_those_of_the_attention_itself(monkeypatch):
    # second route: from ∂ℓ/∂p of the attention p in an explicit forward pass, ∂ℓ/∂a_b = p_b (∂ℓ/∂p_b - Σ p ∂ℓ/∂p)
    from studies.real_heads.model import Attention, Transformer, loss
    from studies.real_heads.moments import moments, windows

    torch.manual_seed(0)
    run = Run(width=16, heads=2, context=8)
    model = Transformer(run)
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, 8 * 40 + 1)
    found, kept, outputs = moments(model, run, tokens), [], []

    def explicit(self, x):
        batch, length, width = x.shape
        query, key, value = self.c_attn(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = torch.full((length, length), -torch.inf).triu(1)
        kept.append((query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5 + mask).softmax(-1))
        outputs.append(self.c_proj((kept[-1] @ value).transpose(1, 2).reshape(batch, length, width)))
        for part in (kept[-1], outputs[-1]):
            part.retain_grad()
        return outputs[-1]

    monkeypatch.setattr(Attention, "forward", explicit)
    every = windows(run, tokens)
    (loss(model, every) * every.shape[0] * run.context).backward()
    for layer, (p, o) in enumerate(zip(kept, outputs, strict=True)):
        slope = p * (p.grad - (p * p.grad).sum(-1, keepdim=True))
        force = (slope**2).sum((0, 2, 3)) / (every.shape[0] * run.context)
        assert torch.allclose(found[f"{layer}.force"].mean(0), force, rtol=1e-4)  # single precision
        flat = o.grad.reshape(-1, run.width)
        assert torch.allclose(found[f"{layer}.output"].mean(0), flat.T @ flat / len(flat), rtol=1e-3, atol=1e-6)


def test_pulls_at_zero_are_gradients_of_a_model_with_this_head_set_to_zero():
    from studies.real_heads.model import Transformer
    from studies.real_heads.moments import moments, pulls_at_zero

    torch.manual_seed(0)
    run = Run(width=16, heads=2, context=8)
    model = Transformer(run)
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, 8 * 40 + 1)
    found, before = pulls_at_zero(model, run, tokens), moments(model, run, tokens)
    with torch.no_grad():
        model.h[1].attn.c_attn.weight[8:16] = 0.0  # queries of the second head
    after = moments(model, run, tokens)
    assert torch.allclose(found["1.at_zero"][:, 1], after["1.gradient"][:, 1], atol=1e-8)
    assert not torch.allclose(before["1.gradient"][:, 1], after["1.gradient"][:, 1], atol=1e-6)


def test_plain_descent_moves_query_and_key_alone(text, tmp_path):
    from studies.real_heads.training import Trainer, rate_at

    run = Run(width=64, tokens=600, penalty=1e-2, context=8, batch=4, steps=8, descent=3.0)
    trainer = Trainer(run, tmp_path, text)
    trainer.begin()
    weight = trainer.model.h[0].attn.c_attn.weight
    before = weight.detach().clone()
    trainer.advance(2)
    moved = weight.detach() - before
    share = rate_at(run, 2) / run.rate
    # the gradient includes λ W of the penalty
    assert torch.allclose(moved[:128], -3.0 * share * weight.grad[:128], atol=1e-6)
    assert moved[128:].abs().max() <= 1.01 * rate_at(run, 2)  # the first step of AdamW is the rate
    assert trainer.adam_time.min() > 0.0
