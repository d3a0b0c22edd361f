"""Measurements of the second study: what the theory of the layer says of every head. PyTorch is not needed.

With the map A = W_Q'W_K = Σ σᵢ uᵢvᵢ' of a head, tokens of mean μ, second moment M and covariance C, and the mean loss
L the columns are:

* ``force``, R = E Σ_b (∂ℓ/∂a_b)², the squared force of the loss on the logits of a row, a mean over rows; ``spread``,
  half of the difference between two halves of the text.
* ``pulled``, number of directions of -∂L/∂A at A = 0 that the loss pulls by more than λ: singular vectors of one half
  of the text, pulls of the other, at most as many as the head has directions.
* ``asked``, ``unasked``, variances within a row of the part of the logits that depends on the query, and of the part
  that does not.
* ``part``, (μ·u₁)²/(u₁'Mu₁), one for a direction along which tokens are all mean; ``angle``, squared cosine of u₁ and
  μ; ``field``, share of the variance of the unasked logits that remains if only the first direction is kept.
* ``gain``, tr(V'V C)/d of the values V = W_O W_V; ``overlap``, largest |ρ_hk| with another head of the layer;
  ``weight``, tr(V'FV C)/d with F = E (∂ℓ/∂o)(∂ℓ/∂o)' of the outputs o of attention.
* ``root``, √v of AdamW; ``adam_time``, Σ rate/√v.
* ``imbalance``, ‖W_QW_Q' - W_KW_K'‖ over that of step 0.
* ``raw_distance``, ``white_distance``, Kolmogorov-Smirnov distance of the bulk of A, and of M^½AC^½, to the law of
  untied heads fitted to it; ``slope``, that of log Aᵢⱼ² on log cᵢcⱼ in the eigenbasis of the covariance.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import load_file

from onehead.weights import open_checkpoint
from onehead.weights.activations import TokenStatistics
from onehead.weights.law import fit_laws
from onehead.weights.value_overlap import value_overlaps
from studies.real_heads.measure import CUT, TRACE, Array, Row, decomposed
from studies.real_heads.runs import Run
from studies.real_heads.store import MOMENTS, log, token_file

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Layer", "fading", "head_rows", "layers_of", "pulled_directions", "step_rows", "token_columns", "whitening"]

RUN_COLUMNS = ("width", "penalty", "value_penalty", "decay", "descent", "steps", "seed")
NOT_WHITENED = dict.fromkeys(("slope", "raw_distance", "white_distance"))
FLOOR = 1e-3  # of the largest eigenvalue of the covariance, below which directions of tokens count as empty


class Layer:
    """Weights of one layer of a checkpoint, head by head."""

    def __init__(self, run: Run, fused: Array, output: Array) -> None:
        self.query, self.key, self.value = fused.reshape(3, run.heads, -1, run.width)
        self.output = output.reshape(run.width, run.heads, -1).transpose(1, 0, 2)

    def values(self, head: int) -> Array:
        """Return W_O W_V of one head."""
        found: Array = self.output[head] @ self.value[head]
        return found


def layers_of(run: Run, store: "Path", step: int) -> list[Layer]:
    """Return the layers of a checkpoint."""
    file = open_checkpoint(run.file(store, step))
    names = ("c_attn", "c_proj")
    return [Layer(run, *(file.read(f"h.{layer}.attn.{name}.weight") for name in names)) for layer in range(run.layers)]


def tokens_of(run: Run, store: "Path", step: int) -> list[TokenStatistics]:
    """Return the statistics of the tokens that enter every layer, on held-out text."""
    found = load_file(token_file(run, store, step))
    return [
        TokenStatistics(*(found[f"{layer}.{name}"].astype(np.float64) for name in ("mean", "second_moment")))
        for layer in range(run.layers)
    ]


def token_columns(query: Array, key: Array, tokens: TokenStatistics) -> Row:
    """Return the columns that depend on the map and on the tokens."""
    U, values, V = decomposed(query, key)
    mean, covariance = tokens.mean, tokens.covariance
    along = values * (U.T @ mean)  # the unasked field is Σ along_i v_i
    spread = V.T @ covariance @ V
    field = float(along @ spread @ along)
    own = float(np.sum((U.T @ covariance @ U) * np.outer(values, values) * spread))
    parts = parts_of(U, tokens)
    return {
        "asked": own / len(query),
        "unasked": field / len(query),
        "part": float(parts[0]),
        "angle": float((U[:, 0] @ mean) ** 2 / max(mean @ mean, 1e-300)),
        "field": float(along[0] ** 2 * spread[0, 0] / max(field, 1e-300)),
        "first": float(values[0]),
    }


def parts_of(U: Array, tokens: TokenStatistics) -> Array:
    """Return (μ·u)²/(u'Mu) of every direction, as columns of U."""
    second = np.einsum("ij,ij->j", U, tokens.second_moment @ U)
    found: Array = (tokens.mean @ U) ** 2 / np.maximum(second, 1e-300)
    return found


def pulled_directions(gradient: Array, penalty: float, most: int) -> float:
    """Return how many directions two halves of a text pull by more than the penalty, each measured on the other."""
    counts = []
    for found, measured in (gradient, gradient[::-1]):
        U, _, Vt = np.linalg.svd(found)
        pulls = np.einsum("di,de,ie->i", U[:, :most], measured, Vt[:most])  # of -G along (-u, v)
        counts.append(np.sum(pulls > penalty))
    return float(np.mean(counts))


def whitening(query: Array, key: Array, tokens: TokenStatistics) -> Row:
    """Return how far the spectra of the map and of the whitened map are from the law of untied heads."""
    sizes, vectors = np.linalg.eigh(tokens.covariance)
    full = sizes > FLOOR * sizes[-1]
    map_ = vectors.T @ query.T @ key @ vectors
    weights = np.log(np.outer(sizes[full], sizes[full])).ravel()
    entries = np.log(np.maximum(map_[np.ix_(full, full)] ** 2, 1e-300)).ravel()
    row: Row = {"slope": float(np.polyfit(weights, entries, 1)[0])}
    for name, spread in (("raw_distance", np.ones_like(sizes)), ("white_distance", np.clip(sizes, 0.0, None))):
        root = np.sqrt(spread)[:, None]
        # the mean is left out of both sides, as it is a single direction
        values = np.linalg.svd(root * map_ * root.T, compute_uv=False)[: len(query)]
        bulk = values[1:]  # without the first, unasked direction
        row[name] = fit_laws(bulk, dim=query.shape[1], width=len(bulk), bootstrap=0)[0].ks
    return row


def head_rows(run: Run, number: int, store: "Path", *, spectra: bool) -> Iterator[tuple[Row, list[Row]]]:
    """Yield a row per head of a finished run, and a row per direction of this head."""
    first, last, last_log = layers_of(run, store, 0), layers_of(run, store, run.steps), log(run, store)[-1]
    found = {name: value.astype(np.float64) for name, value in load_file(run.folder(store) / MOMENTS).items()}
    for place, (old, new) in enumerate(zip(first, last, strict=True)):
        tokens = TokenStatistics(found[f"{place}.mean"], found[f"{place}.second_moment"])
        gains, overlaps = value_overlaps(list(new.value), list(new.output), tokens.covariance)
        start = value_overlaps(list(old.value), list(old.output))[0]
        others = np.abs(overlaps - np.diag(np.diag(overlaps)))
        output = found[f"{place}.output"].mean(0)
        force = found[f"{place}.force"]
        for head in range(run.heads):
            query, key = new.query[head], new.key[head]
            U, values, V = decomposed(query, key)
            limit = CUT * float(np.median(decomposed(old.query[head], old.key[head])[1]))
            pulls = -np.einsum("di,hde,ei->hi", U, found[f"{place}.gradient"][:, head], V)
            mixed = new.values(head)
            pulled = None
            if run.penalty:
                pulled = pulled_directions(found[f"{place}.at_zero"][:, head], run.penalty, len(query))
            at = {"layer": place, "head": head}
            row = {"run": number} | {name: asdict(run)[name] for name in RUN_COLUMNS} | at
            row |= {"held": last_log["held"], "cpu": last_log["cpu"], "head_dim": len(query)}
            row |= {"left": int((values > limit).sum()), "traced": int((values > TRACE * limit).sum())}
            row |= {"force": force[:, head].mean(), "spread": 0.5 * abs(force[0, head] - force[1, head])}
            row |= {"pulled": pulled} | token_columns(query, key, tokens)
            row |= {"gain": gains[head], "gain_start": start[head], "overlap": float(others[head].max())}
            row |= {"weight": float(np.sum((mixed.T @ output @ mixed) * tokens.covariance)) / run.width}
            row |= {"root": last_log["roots"][place][head], "adam_time": last_log["adam_time"][place][head]}
            row |= {"imbalance": _imbalance(query, key) / _imbalance(old.query[head], old.key[head])}
            row |= whitening(query, key, tokens) if spectra and row["left"] == len(query) else NOT_WHITENED
            parts = parts_of(U, tokens)
            yield (
                row,
                [
                    {"run": number} | at | {"place": i, "value": values[i], "pull": pulls[:, i].mean()}
                    | {"noise": 0.5 * abs(pulls[0, i] - pulls[1, i]), "part": parts[i]}
                    for i in range(len(query))
                ],
            )  # fmt: skip


def _imbalance(query: Array, key: Array) -> float:
    return float(np.linalg.norm(query @ query.T - key @ key.T))


def step_rows(run: Run, number: int, store: "Path") -> Iterator[Row]:
    """Yield a row per checkpoint and head."""
    limits: dict[tuple[int, int], float] = {}
    for logged in log(run, store):
        step = logged["step"]
        tokens = tokens_of(run, store, step)
        for place, layer in enumerate(layers_of(run, store, step)):
            for head in range(run.heads):
                values = decomposed(layer.query[head], layer.key[head])[1]
                limits.setdefault((place, head), CUT * float(np.median(values)))
                found = token_columns(layer.query[head], layer.key[head], tokens[place])
                yield {
                    "run": number,
                    "step": step,
                    "layer": place,
                    "head": head,
                    "left": int((values > limits[place, head]).sum()),
                    "share": found["unasked"] / max(found["asked"] + found["unasked"], 1e-300),
                    "part": found["part"],
                    "first": found["first"],
                    "faintest": float(values[-1]),
                    "root": logged["roots"][place][head] if logged["roots"] else None,
                    "adam_time": logged["adam_time"][place][head],
                }


def fading(run: Run, number: int, store: "Path") -> Iterator[Row]:
    """Yield the singular values of every head, a row per place and a column per checkpoint."""
    every = [layers_of(run, store, step) for step in run.checkpoints]
    for place in range(run.layers):
        for head in range(run.heads):
            values = [decomposed(layers[place].query[head], layers[place].key[head])[1] for layers in every]
            for i, course in enumerate(zip(*values, strict=True)):
                at = {"run": number, "layer": place, "head": head, "place": i}
                yield at | {f"at {step}": float(s) for step, s in zip(run.checkpoints, course, strict=True)}
