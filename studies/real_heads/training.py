"""Training of one transformer: batches, steps, checkpoints, and continuation after an interruption.

Every step samples its batch from its own generator, so that an interrupted run continues with exactly the numbers of
one that was not interrupted.
"""

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from studies.real_heads.corpus import Corpus, Tokens, corpus
from studies.real_heads.model import Transformer, loss
from studies.real_heads.moments import moments, pulls_at_zero, token_moments, windows
from studies.real_heads.runs import Run
from studies.real_heads.store import MOMENTS, STATE, finished, note, progress, renew, token_file
from studies.real_heads.training_times import rate_at

__all__ = ["train"]

HELD_OUT_TOKENS = 65_536  # on which the final loss is measured
INTERMEDIATE_FRACTION = 4  # one quarter of them is used before the end
MOMENT_TOKENS = 81_920  # of the training text, for moments and gradients
ZERO_TOKENS = 2**22  # divided by the width: of the training text, for the pulls at A = 0
MOST_ZERO_TOKENS = 65_536
BETAS = (0.9, 0.99)
STORED = (".attn.c_attn.weight", ".attn.c_proj.weight")  # names of the weights in checkpoints


def train(run: Run, store: Path, text: Corpus | None = None) -> None:
    """Train a run to its end, from its last checkpoint if there is one; a finished run is left as it is."""
    if finished(run, store):
        return
    torch.set_num_threads(1)  # runs are trained in parallel processes
    trainer = Trainer(run, store, corpus(run.tokens, HELD_OUT_TOKENS) if text is None else text)
    losses: list[float] = []
    for step in range(trainer.begin(), run.steps):
        losses.append(trainer.advance(step))
        if step + 1 in run.checkpoints:
            trainer.write(step + 1, losses)
            losses = []


def batch_at(run: Run, tokens: Tokens, step: int) -> Tensor:
    """Return windows of the text at positions that depend on seed and step alone."""
    starts = np.random.default_rng([run.seed, step]).integers(0, len(tokens) - run.context, run.batch)
    return torch.from_numpy(tokens[starts[:, None] + np.arange(run.context + 1)])


@torch.no_grad()
def held_out_loss(model: Transformer, run: Run, tokens: Tokens) -> float:
    """Return the mean loss on windows that cover the tokens once."""
    every = windows(run, tokens)
    return sum(float(loss(model, part)) * len(part) for part in every.split(128)) / len(every)


class Trainer:
    """State of one run in memory: model, optimiser and clocks."""

    def __init__(self, run: Run, store: Path, text: Corpus) -> None:
        self.run, self.store, self.text = run, store, text
        torch.manual_seed(run.seed)
        self.model = Transformer(run)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=run.rate, betas=BETAS, weight_decay=run.decay)
        self.before = {"wall": 0.0, "cpu": 0.0}
        self.since = self.clocks()
        self.adam_time = np.zeros((run.layers, run.heads))

    @staticmethod
    def clocks() -> dict[str, float]:
        """Return wall-clock seconds and CPU seconds of this process."""
        return {"wall": time.monotonic(), "cpu": time.process_time()}

    def begin(self) -> int:
        """Return the step to continue from: that of the stored state, or 0 after writing the first checkpoint."""
        row = progress(self.run, self.store)
        if row is None:
            renew(self.run, self.store)
            self.write(0, [])
            return 0
        tensors = load_file(self.run.folder(self.store) / STATE)
        self.model.load_state_dict({name: value for name, value in tensors.items() if "/" not in name})
        for name, value in self.model.named_parameters():
            state = {key.partition("/")[2]: part for key, part in tensors.items() if key.startswith(f"{name}/")}
            if state:
                self.optimiser.state[value] = state
        self.before = {name: row[name] for name in self.before}
        self.adam_time = np.array(row["adam_time"])
        return int(row["step"])

    def advance(self, step: int) -> float:
        """Make one step and return the loss before it, without the penalties."""
        run, rate = self.run, rate_at(self.run, step)
        self.optimiser.param_groups[0]["lr"] = rate
        found = loss(self.model, batch_at(run, self.text.train, step))
        penalty = run.penalty * sum((part**2).sum() for part in self.model.query_and_key())
        if run.value_penalty:
            penalty = penalty + run.value_penalty * sum((part**2).sum() for part in self.model.value_and_output())
        self.optimiser.zero_grad()
        (found + 0.5 * penalty).backward()
        before = [part.detach().clone() for part in self.model.query_and_key()] if run.descent else []
        self.optimiser.step()
        for block, old in zip(self.model.h, before, strict=False):  # query and key by plain gradient descent
            weight, rows = block.attn.c_attn.weight, len(old)
            with torch.no_grad():
                weight[:rows] = old - (run.descent * rate / run.rate) * weight.grad[:rows]
        self.adam_time += rate / np.maximum(self.roots(), 1e-30)
        return found.item()

    def roots(self) -> NDArray[np.float64]:
        """Return √v of AdamW by layer and head, v the mean squared gradient of W_Q and W_K; NaN before the first step.

        ``decay`` acts as λ = decay x √v, and a penalty shrinks weights without gradient by the share λ rate/√v.
        """
        found = []
        for block in self.model.h:
            weight = block.attn.c_attn.weight
            state = self.optimiser.state.get(weight)
            if not state:
                return np.full((self.run.layers, self.run.heads), np.nan)
            squares = state["exp_avg_sq"][: 2 * weight.shape[1]].reshape(2, self.run.heads, -1).mean((0, 2))
            found.append(squares.double().numpy() / (1.0 - BETAS[1] ** float(state["step"])))
        return np.sqrt(found)

    def write(self, step: int, losses: list[float]) -> None:
        """Write a checkpoint of the attention weights, then the state of the training, then a line of the log."""
        weights = {name: W for name, W in self.model.state_dict().items() if name.endswith(STORED)}
        save_file(weights, self.run.file(self.store, step))
        last = step == self.run.steps
        held = self.text.held if last else self.text.held[: HELD_OUT_TOKENS // INTERMEDIATE_FRACTION]
        with token_moments(self.model, self.run) as tokens:
            held_loss = held_out_loss(self.model, self.run, held)
        save_file(tokens, token_file(self.run, self.store, step))
        roots = self.roots()
        row: dict[str, Any] = {
            "step": step,
            "train": float(np.mean(losses)) if losses else None,
            "held": held_loss,
            "gradient": float(np.mean(roots**2)) ** 0.5 if step else None,
            "roots": roots.tolist() if step else None,
            "adam_time": self.adam_time.tolist(),
        }
        if last:
            found = moments(self.model, self.run, self.text.train[:MOMENT_TOKENS])
            if self.run.penalty:
                count = min(ZERO_TOKENS // self.run.width, MOST_ZERO_TOKENS)
                found |= pulls_at_zero(self.model, self.run, self.text.train[:count])
            save_file(found, self.run.folder(self.store) / MOMENTS)
        now = self.clocks()
        row |= {name: round(self.before[name] + now[name] - self.since[name], 2) for name in now}
        tensors = dict(self.model.state_dict())
        if not last:  # a finished run needs no state of the optimiser
            for name, value in self.model.named_parameters():
                tensors |= {f"{name}/{key}": part for key, part in self.optimiser.state.get(value, {}).items()}
        state_file = self.run.folder(self.store) / STATE
        save_file(tensors, part := state_file.with_suffix(".part"), {"row": json.dumps(row)})
        part.replace(state_file)
        note(self.run, self.store, row)
