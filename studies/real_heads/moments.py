"""Statistics of the tokens that enter attention, and of the gradients of the loss at every head.

With the loss ℓ summed over the tokens of a text and logits a of one head, the squared force of the loss on the logits
is R = E Σ_b (∂ℓ/∂a_b)², a mean over rows of attention and a sum over keys b. The force on the outputs o of attention
has the second moment F = E (∂ℓ/∂o)(∂ℓ/∂o)'.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor

from studies.real_heads.corpus import Tokens
from studies.real_heads.model import Transformer, loss
from studies.real_heads.runs import Run

__all__ = ["moments", "pulls_at_zero", "token_moments", "windows"]

WINDOWS_PER_BATCH = 64


def windows(run: Run, tokens: Tokens) -> Tensor:
    """Return windows, one token longer than the context, that cover the tokens once."""
    count = (len(tokens) - 1) // run.context
    return torch.from_numpy(tokens[run.context * np.arange(count)[:, None] + np.arange(run.context + 1)])


@contextmanager
def token_moments(model: Transformer, run: Run) -> Iterator[dict[str, Tensor]]:
    """Collect mean and second moment of the tokens that enter attention while the model is used.

    They are in the dictionary at the end, by layer, with the names that `onehead weights --activations` reads.
    """
    sums: dict[str, Tensor] = {}
    count = [0] * run.layers

    def add(layer: int, _: object, given: tuple[Tensor, ...]) -> None:
        x = given[0].detach().reshape(-1, run.width)
        count[layer] += len(x)
        for name, part in (("mean", x.sum(0)), ("second_moment", x.T @ x)):
            sums[f"{layer}.{name}"] = sums.get(f"{layer}.{name}", torch.zeros(())) + part

    hooks = [block.attn.register_forward_pre_hook(partial(add, layer)) for layer, block in enumerate(model.h)]
    found: dict[str, Tensor] = {}
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
    found |= {name: total / count[int(name.partition(".")[0])] for name, total in sums.items()}


def moments(model: Transformer, run: Run, tokens: Tokens) -> dict[str, Tensor]:
    """Return statistics by layer, each of the gradients for two halves of the text, so that its noise is known.

    They are ``mean`` and ``second_moment`` of the tokens that enter attention; ``gradient``, ∂L/∂(W_Q'W_K) of the mean
    loss L, of shape (2, heads, width, width); ``force``, R of every head, of shape (2, heads); ``output``, F, of shape
    (2, width, width).
    """
    with token_moments(model, run) as found:
        halves = [_gradients(model, run, half) for half in windows(run, tokens).tensor_split(2)]
    for name in halves[0]:
        found[name] = torch.stack([half[name] for half in halves])
    return found


def _gradients(model: Transformer, run: Run, half: Tensor) -> dict[str, Tensor]:
    """Return gradient, force and output of every layer for one part of the text."""
    shapes = {"gradient": (run.heads, run.width, run.width), "force": (run.heads,), "output": (run.width, run.width)}
    found = {f"{layer}.{name}": torch.zeros(shape) for layer in range(run.layers) for name, shape in shapes.items()}
    added = [torch.zeros(shapes["gradient"], requires_grad=True) for _ in range(run.layers)]
    outputs: dict[int, Tensor] = {}
    hooks = [
        block.attn.register_forward_hook(lambda _, __, output, layer=layer: outputs.__setitem__(layer, output))
        for layer, block in enumerate(model.h)
    ]
    for block, zero in zip(model.h, added, strict=True):
        block.attn.added = zero
    for part in half.split(WINDOWS_PER_BATCH):
        value, share, rows = loss(model, part), len(part) / len(half), len(part) * run.context
        logits = [block.attn.logits for block in model.h]
        wanted = [*added, *logits, *(outputs[layer] for layer in range(run.layers))]
        slopes = torch.autograd.grad(value, wanted)
        for layer in range(run.layers):
            gradient, on_logits, on_outputs = slopes[layer :: run.layers]
            # the mean loss is the sum over `rows` tokens divided by their number
            flat = on_outputs.reshape(-1, run.width)
            found[f"{layer}.gradient"].add_(gradient, alpha=share)
            found[f"{layer}.force"].add_((on_logits**2).sum((0, 2, 3)), alpha=share * rows)
            found[f"{layer}.output"].add_(flat.T @ flat, alpha=share * rows)
    for hook in hooks:
        hook.remove()
    _release(model)
    return found


def pulls_at_zero(model: Transformer, run: Run, tokens: Tokens) -> dict[str, Tensor]:
    """Return ∂L/∂A of every head at A = W_Q'W_K = 0, all other weights as they are, for two halves of the text.

    The names are ``{layer}.at_zero``, the shapes (2, heads, width, width).
    """
    halves = windows(run, tokens).tensor_split(2)
    found = {f"{layer}.at_zero": torch.zeros(2, run.heads, run.width, run.width) for layer in range(run.layers)}
    for layer, block in enumerate(model.h):
        for head in range(run.heads):
            block.attn.silenced = head
            block.attn.added = added = torch.zeros(run.heads, run.width, run.width, requires_grad=True)
            for place, half in enumerate(halves):
                for part in half.split(WINDOWS_PER_BATCH):
                    (slope,) = torch.autograd.grad(loss(model, part), added)
                    found[f"{layer}.at_zero"][place, head].add_(slope[head], alpha=len(part) / len(half))
        _release(model)
    return found


def _release(model: Transformer) -> None:
    """Undo what was set for measurements."""
    for block in model.h:
        block.attn.added = block.attn.logits = block.attn.silenced = None
