"""Training one transformer: batches, steps, checkpoints, and going on after a stop.

Every step draws its batch from a generator of its own, so that a run that was stopped goes on with the very numbers of one that was not.
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
from studies.real_heads.store import MOMENTS, REST, finished, note, progress, renew

__all__ = ["train"]

HELD = 65_536  # tokens held out that the last loss is measured on
FEWER = 4  # times fewer on the way
WARM = 0.05  # share of the steps in which the rate grows
LEVEL = 0.5  # share after which it falls to zero along a line
MEASURED = 81_920  # tokens of the text trained on that moments and gradients are measured on
BETAS = (0.9, 0.99)


def train(run: Run, store: Path, text: Corpus | None = None) -> None:
    """Carry a run to its end from wherever it is; one that has ended is left alone."""
    if finished(run, store):
        return
    torch.set_num_threads(1)  # runs are the parallel part
    trainer = Trainer(run, store, corpus(run.tokens, HELD) if text is None else text)
    losses: list[float] = []
    for step in range(trainer.begin(), run.steps):
        losses.append(trainer.advance(step))
        if step + 1 in run.checkpoints:
            trainer.write(step + 1, losses)
            losses = []


def rate_at(run: Run, step: int) -> float:
    """The learning rate: up, level, and down to zero."""
    return run.rate * min(1.0, (step + 1) / (WARM * run.steps), (1.0 - step / run.steps) / (1.0 - LEVEL))


def batch_at(run: Run, tokens: Tokens, step: int) -> Tensor:
    """Windows of the text at places that depend on seed and step alone."""
    starts = np.random.default_rng([run.seed, step]).integers(0, len(tokens) - run.context, run.batch)
    return torch.from_numpy(tokens[starts[:, None] + np.arange(run.context + 1)])


@torch.no_grad()
def held_loss(model: Transformer, run: Run, tokens: Tokens) -> float:
    """Mean loss on windows that cover the tokens once."""
    cut = windows(run, tokens)
    return sum(float(loss(model, part)) * len(part) for part in cut.split(128)) / len(cut)


class Trainer:
    """One run in memory."""

    def __init__(self, run: Run, store: Path, text: Corpus) -> None:
        self.run, self.store, self.text = run, store, text
        torch.manual_seed(run.seed)
        self.model = Transformer(run)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=run.rate, betas=BETAS, weight_decay=run.decay)
        self.before = {"wall": 0.0, "cpu": 0.0}
        self.since = self.clocks()

    @staticmethod
    def clocks() -> dict[str, float]:
        """Seconds on the wall and of this process."""
        return {"wall": time.monotonic(), "cpu": time.process_time()}

    def begin(self) -> int:
        """The step to go on from: that of what lies on disk, or 0, which is written down."""
        row = progress(self.run, self.store)
        if row is None:
            renew(self.run, self.store)
            self.write(0, [])
            return 0
        tensors = load_file(self.run.folder(self.store) / REST)
        self.model.load_state_dict({name: value for name, value in tensors.items() if "/" not in name})
        for name, value in self.model.named_parameters():
            state = {key.partition("/")[2]: part for key, part in tensors.items() if key.startswith(f"{name}/")}
            if state:
                self.optimiser.state[value] = state
        self.before = {name: row[name] for name in self.before}
        return int(row["step"])

    def advance(self, step: int) -> float:
        """One step; the loss before it, without the penalty."""
        self.optimiser.param_groups[0]["lr"] = rate_at(self.run, step)
        found = loss(self.model, batch_at(self.run, self.text.train, step))
        penalty = sum((part**2).sum() for part in self.model.query_and_key())
        self.optimiser.zero_grad()
        (found + 0.5 * self.run.penalty * penalty).backward()
        self.optimiser.step()
        return found.item()

    def gradient(self) -> float | None:
        """Root mean square of the gradients of W_Q and W_K as AdamW knows it: λ = decay x this pulls as strongly as ``decay``."""
        squares = []
        for block in self.model.h:
            weight = block.attn.c_attn.weight
            if not (state := self.optimiser.state.get(weight)):
                return None
            mean = float(state["exp_avg_sq"][: 2 * weight.shape[1]].mean())
            squares.append(mean / (1.0 - BETAS[1] ** float(state["step"])))
        return float(np.mean(squares)) ** 0.5

    def write(self, step: int, losses: list[float]) -> None:
        """A checkpoint of the attention weights, all that is needed to go on, and a line in the log, in this order."""
        weights = {name: W for name, W in self.model.state_dict().items() if name.endswith("attn.c_attn.weight")}
        save_file(weights, self.run.file(self.store, step))
        last = step == self.run.steps
        row: dict[str, Any] = {
            "step": step,
            "train": float(np.mean(losses)) if losses else None,
            "held": held_loss(self.model, self.run, self.text.held if last else self.text.held[: HELD // FEWER]),
            "gradient": self.gradient(),
        }
        if last:
            found = moments(self.model, self.run, self.text.train[:MEASURED])
            save_file(found, self.run.folder(self.store) / MOMENTS)
        now = self.clocks()
        row |= {name: round(self.before[name] + now[name] - self.since[name], 2) for name in now}
        tensors = dict(self.model.state_dict())
        if not last:  # a finished run keeps its weights alone
            for name, value in self.model.named_parameters():
                tensors |= {f"{name}/{key}": part for key, part in self.optimiser.state.get(value, {}).items()}
        rest = self.run.folder(self.store) / REST
        save_file(tensors, part := rest.with_suffix(".part"), {"row": json.dumps(row)})
        part.replace(rest)
        note(self.run, self.store, row)
