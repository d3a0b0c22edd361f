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
from safetensors.torch import load_file, save_file
from torch import Tensor

from studies.real_heads.corpus import Corpus, Tokens, corpus
from studies.real_heads.model import Transformer, loss
from studies.real_heads.moments import moments, windows
from studies.real_heads.runs import Run
from studies.real_heads.store import MOMENTS, STATE, finished, note, progress, renew

__all__ = ["train"]

HELD_OUT_TOKENS = 65_536  # on which the final loss is measured
INTERMEDIATE_FRACTION = 4  # one quarter of them is used before the end
WARM_UP = 0.05  # share of the steps in which the rate grows
DECAY_START = 0.5  # share of the steps after which the rate decreases linearly to zero
MOMENT_TOKENS = 81_920  # of the training text, for moments and gradients
BETAS = (0.9, 0.99)


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


def rate_at(run: Run, step: int) -> float:
    """Return the learning rate: warm-up, constant, and linear decrease to zero."""
    return run.rate * min(1.0, (step + 1) / (WARM_UP * run.steps), (1.0 - step / run.steps) / (1.0 - DECAY_START))


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
        return int(row["step"])

    def advance(self, step: int) -> float:
        """Make one step and return the loss before it, without the penalty."""
        self.optimiser.param_groups[0]["lr"] = rate_at(self.run, step)
        found = loss(self.model, batch_at(self.run, self.text.train, step))
        penalty = sum((part**2).sum() for part in self.model.query_and_key())
        self.optimiser.zero_grad()
        (found + 0.5 * self.run.penalty * penalty).backward()
        self.optimiser.step()
        return found.item()

    def gradient(self) -> float | None:
        """Return the root mean square of the gradients of W_Q and W_K in AdamW; ``decay`` acts as λ = decay x this."""
        squares = []
        for block in self.model.h:
            weight = block.attn.c_attn.weight
            if not (state := self.optimiser.state.get(weight)):
                return None
            mean = float(state["exp_avg_sq"][: 2 * weight.shape[1]].mean())
            squares.append(mean / (1.0 - BETAS[1] ** float(state["step"])))
        return float(np.mean(squares)) ** 0.5

    def write(self, step: int, losses: list[float]) -> None:
        """Write a checkpoint of the attention weights, then the state of the training, then a line of the log."""
        weights = {name: W for name, W in self.model.state_dict().items() if name.endswith("attn.c_attn.weight")}
        save_file(weights, self.run.file(self.store, step))
        last = step == self.run.steps
        row: dict[str, Any] = {
            "step": step,
            "train": float(np.mean(losses)) if losses else None,
            "held": held_out_loss(
                self.model,
                self.run,
                self.text.held if last else self.text.held[: HELD_OUT_TOKENS // INTERMEDIATE_FRACTION],
            ),
            "gradient": self.gradient(),
        }
        if last:
            found = moments(self.model, self.run, self.text.train[:MOMENT_TOKENS])
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
