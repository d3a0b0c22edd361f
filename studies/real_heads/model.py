"""A small decoder-only transformer in PyTorch without parameters that could compensate weight decay on query and key.

Normalisations have no scale (a larger one would undo the decay of the weights after it), positions are learned vectors
that are added to the tokens (so W_Q'W_K determines the logits), and there are no biases.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from studies.real_heads.corpus import VOCABULARY
from studies.real_heads.runs import Run

__all__ = ["Transformer", "loss"]


class Attention(nn.Module):
    """Causal attention; rows of ``c_attn`` are all queries, all keys, all values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width, bias=False)
        self.c_proj = nn.Linear(width, width, bias=False)
        # added to W_Q'W_K of every head, (heads, width, width), because its gradient is that of the map
        self.added: Tensor | None = None
        self.logits: Tensor | None = None  # the part of the logits of all heads that `added` causes
        self.silenced: int | None = None  # head whose query is set to zero

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.c_attn(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mask = None
        if self.silenced is not None:
            parts = parts.clone()
            parts[0, :, self.silenced] = 0.0
        if self.added is not None:
            self.logits = torch.einsum("bid,hde,bje->bhij", x, self.added, x) * (width // self.heads) ** -0.5
            mask = self.logits + torch.full((length, length), -torch.inf).triu(1)
        mixed = functional.scaled_dot_product_attention(*parts, attn_mask=mask, is_causal=mask is None)
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Pre-normalised residual block of attention and a two-layer perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attn = Attention(width, heads)
        self.c_fc = nn.Linear(width, 4 * width, bias=False)
        self.c_proj = nn.Linear(4 * width, width, bias=False)
        self.norm = nn.LayerNorm(width, elementwise_affine=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.norm(x))
        return x + self.c_proj(functional.gelu(self.c_fc(self.norm(x))))


class Transformer(nn.Module):
    """Decoder-only transformer that maps tokens to the logits of the next token."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, run.width)
        self.places = nn.Parameter(0.5 * torch.randn(run.context, run.width))
        self.h = nn.ModuleList(Block(run.width, run.heads) for _ in range(run.layers))
        self.norm = nn.LayerNorm(run.width, elementwise_affine=False)
        self.out = nn.Linear(run.width, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places[: tokens.shape[1]]
        for block in self.h:
            x = block(x)
        return self.out(self.norm(x))

    def query_and_key(self) -> list[Tensor]:
        """Return W_Q and W_K, stacked, of every layer."""
        return [block.attn.c_attn.weight[: 2 * block.attn.c_attn.in_features] for block in self.h]

    def value_and_output(self) -> list[Tensor]:
        """Return W_V and W_O of every layer."""
        found = []
        for block in self.h:
            found += [block.attn.c_attn.weight[2 * block.attn.c_attn.in_features :], block.attn.c_proj.weight]
        return found


def loss(model: Transformer, windows: Tensor) -> Tensor:
    """Return the mean cross-entropy in nats of the next token, over windows one token longer than the context."""
    logits = model(windows[:, :-1])
    return functional.cross_entropy(logits.reshape(-1, VOCABULARY), windows[:, 1:].reshape(-1))
