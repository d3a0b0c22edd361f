"""Moments of the tokens that enter attention, and gradients of the loss with respect to the map of every head."""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from studies.real_heads.corpus import Tokens
from studies.real_heads.model import Transformer, loss
from studies.real_heads.runs import Run

__all__ = ["moments", "windows"]

WINDOWS_PER_BATCH = 64


def windows(run: Run, tokens: Tokens) -> Tensor:
    """Return windows, one token longer than the context, that cover the tokens once."""
    count = (len(tokens) - 1) // run.context
    return torch.from_numpy(tokens[run.context * np.arange(count)[:, None] + np.arange(run.context + 1)])


def moments(model: Transformer, run: Run, tokens: Tokens) -> dict[str, Tensor]:
    """Return mean and second moment of the tokens that enter attention, and the gradient ∂L/∂(W_Q'W_K), by layer.

    The gradient has shape (2, heads, width, width), one for each half of the text, so that its noise can be estimated.
    """
    sums = {
        layer: {"mean": torch.zeros(run.width), "second": torch.zeros(run.width, run.width)}
        for layer in range(run.layers)
    }

    def add(layer: int, _: object, given: tuple[Tensor, ...]) -> None:
        x = given[0].detach().reshape(-1, run.width)
        sums[layer]["mean"] += x.sum(0)
        sums[layer]["second"] += x.T @ x

    hooks = [block.attn.register_forward_pre_hook(partial(add, layer)) for layer, block in enumerate(model.h)]
    halves = windows(run, tokens).tensor_split(2)
    gradients = [_gradients(model, run, half) for half in halves]
    for hook in hooks:
        hook.remove()
    count = sum(half.shape[0] for half in halves) * run.context
    found = {f"{layer}.{name}": total / count for layer, both in sums.items() for name, total in both.items()}
    return found | {
        f"{layer}.gradient": torch.stack([half[layer] for half in gradients]) for layer in range(run.layers)
    }


def _gradients(model: Transformer, run: Run, half: Tensor) -> list[Tensor]:
    """Return the gradient of the mean loss with respect to the map of every head, for every layer."""
    added = [torch.zeros(run.heads, run.width, run.width, requires_grad=True) for _ in range(run.layers)]
    for block, zero in zip(model.h, added, strict=True):
        block.attn.added = zero
    totals = [torch.zeros_like(zero) for zero in added]
    for part in half.split(WINDOWS_PER_BATCH):
        for total, gradient in zip(totals, torch.autograd.grad(loss(model, part), added), strict=True):
            total.add_(gradient, alpha=len(part) / len(half))
    for block in model.h:
        block.attn.added = None
    return totals
