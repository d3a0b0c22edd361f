"""A transformer of the study, trained for a few steps; skipped where PyTorch is missing."""

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
def whole(tmp_path_factory, text):
    from studies.real_heads.training import train

    store = tmp_path_factory.mktemp("whole")
    train(TINY, store, text)
    return store


def test_checkpoints_are_read_by_onehead(whole):
    assert finished(TINY, whole)
    found = compare([TINY.file(whole, step) for step in TINY.checkpoints])
    assert found.steps == TINY.checkpoints and len(found) == 8
    assert {head.verdict for head in found.surveys[0]} == {"noise"}  # PyTorch's own initialisation
    assert all(change.moved[-1] > 0.01 for change in found)


def test_a_run_that_was_stopped_goes_on_with_the_very_numbers_of_one_that_was_not(whole, text, tmp_path, monkeypatch):
    from studies.real_heads.training import Trainer, train

    advance = Trainer.advance

    def stopped(self, step):
        if step == 6:
            raise KeyboardInterrupt
        return advance(self, step)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "advance", stopped)
        with pytest.raises(KeyboardInterrupt):
            train(TINY, tmp_path, text)
    assert not finished(TINY, tmp_path) and log(TINY, tmp_path)[-1]["step"] == 6
    train(TINY, tmp_path, text)
    for step in TINY.checkpoints:
        assert TINY.file(tmp_path, step).read_bytes() == TINY.file(whole, step).read_bytes()
    assert [row["held"] for row in log(TINY, tmp_path)] == [row["held"] for row in log(TINY, whole)]


def test_what_has_ended_is_not_trained_again(whole, text, monkeypatch):
    from studies.real_heads import training

    monkeypatch.setattr(training, "Trainer", None)
    training.train(TINY, whole, text)


def test_the_gradient_of_a_map_is_that_of_its_factors():
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
            assert torch.allclose(
                weight[key] @ G.T, slope[query], atol=1e-8
            )  # gradients are added up in single precision
            assert torch.allclose(weight[query] @ G, slope[key], atol=1e-7)


def test_moments_are_those_of_normalised_tokens(whole):
    found = load_file(TINY.folder(whole) / MOMENTS)
    for layer in range(
        TINY.layers
    ):  # a normalised token has the squared length of its width, up to the 1e-5 of the normalisation
        assert np.trace(found[f"{layer}.second"]) == pytest.approx(TINY.width, rel=1e-3)
