"""Measurements on checkpoints: verdicts of all heads at all steps, and at the end laws, gradients and token statistics.

PyTorch is not needed. For a head A = W_Q'W_K = Σ σᵢ uᵢvᵢ' the columns of this study are:

* ``left``, number of directions that decay has left: singular values above a twentieth of the median one at step 0;
  ``traced``, above a hundredth.
* ``pull``, mean of uᵢ'(-∂L/∂A)vᵢ over the directions left. At the minimum of L + λ(‖W_Q‖² + ‖W_K‖²)/2, which is L +
  λ‖A‖_* (U1), the pull is λ in every direction left and at most λ in all others; ``most`` is the strongest pull of any
  direction, found on one half of the text and measured on the other.
* ``imbalance``, ‖W_QW_Q' - W_KW_K'‖/‖W_QW_Q' + W_KW_K'‖, zero at that minimum.
* ``unasked``, share of the variance of the logits in a row that is common to all queries, zero for tokens of mean zero.
* ``even_share``, symmetric share of C^½ A C^½, the map for tokens made isotropic as in the theory (C is their
  covariance).
* ``mean_overlap``, squared cosine between u₁ and the mean token; ``dimension``, effective dimension of the tokens, (Tr
  C)²/Tr C².
"""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

from onehead.weights import HeadReport, compare, open_checkpoint, survey
from studies.real_heads.runs import Run
from studies.real_heads.store import MOMENTS, log

__all__ = ["CUT", "TRACE", "Array", "Row", "decomposed", "directions", "final_heads", "steps", "text_columns"]

Array = NDArray[np.float64]
Row = dict[str, Any]

CUT = 0.05  # ratio to the median value at step 0 below which a value counts as zero
TRACE = 0.2  # ratio of a second, lower cut to the first, to test how much depends on it
RUN_COLUMNS = ("width", "tokens", "penalty", "decay", "seed")


def steps(run: Run, store: Path) -> list[Row]:
    """Return a row per step and head: verdict, outliers, ranks, symmetric share."""
    found = compare([run.file(store, step) for step in run.checkpoints])
    rows = []
    for change in found:
        limit = CUT * float(np.median(_values(change.heads[0])))
        for step, head in zip(change.steps, change.heads, strict=True):
            rows.append({name: asdict(run)[name] for name in RUN_COLUMNS} | {"step": step} | _head_columns(head, limit))
    return rows


def _values(head: HeadReport) -> Array:
    return head.singular_values[: head.head_dim]


def _head_columns(head: HeadReport, limit: float) -> Row:
    return {
        "layer": head.layer,
        "head": head.head,
        "verdict": head.verdict,
        "outliers": len(head.own_outliers),
        "strength": head.strength,
        "effective_rank": head.effective_rank_nuclear,
        "left": int((_values(head) > limit).sum()),
        "traced": int((_values(head) > TRACE * limit).sum()),
        "norm": head.norm,
        "share": head.symmetric_share,
    }


def final_heads(run: Run, store: Path) -> list[Row]:
    """Return a row per head at the end: best law, gradients, token statistics, and losses and times of the run."""
    last = log(run, store)[-1]
    first = survey(run.file(store, 0), fit=False)
    found = survey(run.file(store, run.steps))
    weights, moments = _read(run, store)
    rows = []
    for old, head in zip(first, found, strict=True):
        layer, number = head.layer, int(head.head or 0)
        limit = CUT * float(np.median(_values(old)))
        query, key = _pair(run, weights[layer], number)
        gradient = moments[f"{layer}.gradient"][:, number]
        rows.append(
            {name: asdict(run)[name] for name in RUN_COLUMNS}
            | {"train": last["train"], "held": last["held"], "gradient": last["gradient"]}
            | {"wall": last["wall"], "cpu": last["cpu"], "head_dim": head.head_dim}
            | _head_columns(head, limit)
            | {"first_norm": old.norm, "first_rank": old.effective_rank_nuclear}
            | {"law": head.best_law, "margin": head.bic_margin, "bulk_share": head.bulk_symmetric_share}
            | text_columns(query, key, gradient, moments[f"{layer}.mean"], moments[f"{layer}.second_moment"], limit)
        )
    return rows


def text_columns(
    query: Array, key: Array, gradient: Array, mean: Array, second: Array, limit: float
) -> dict[str, float]:
    """Return the columns that need the text (see the docstring of the module); ``gradient`` has two halves."""
    U, values, V = decomposed(query, key)
    pulls = -np.einsum("di,hde,ei->hi", U, gradient, V)
    left = values > limit
    products = query @ query.T, key @ key.T
    covariance = second - np.outer(mean, mean)
    map_ = query.T @ key
    common = float(mean @ map_ @ covariance @ map_.T @ mean)
    own = float(np.sum((covariance @ map_) * (map_ @ covariance)))
    return {
        "pull": float(pulls[:, left].mean()) if left.any() else np.nan,
        "pull_spread": float(pulls.mean(axis=0)[left].std()) if left.any() else np.nan,
        "most": 0.5 * (_strongest(*gradient) + _strongest(*gradient[::-1])),
        "imbalance": float(np.linalg.norm(products[0] - products[1]) / np.linalg.norm(products[0] + products[1])),
        "unasked": common / max(common + own, 1e-300),
        "even_share": _isotropic_share(map_, covariance),
        "mean_overlap": float((U[:, 0] @ mean) ** 2 / max(mean @ mean, 1e-300)),
        "dimension": float(np.trace(covariance) ** 2 / np.sum(covariance**2)),
        "mean_part": float(mean @ mean / np.trace(second)),
    }


def _isotropic_share(map_: Array, covariance: Array) -> float:
    """Return the symmetric share of the map for tokens made isotropic."""
    sizes, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.clip(sizes, 0.0, None))) @ vectors.T
    isotropic = root @ map_ @ root
    return float(0.5 * (1.0 + np.sum(isotropic * isotropic.T) / max(np.sum(isotropic**2), 1e-300)))


def _strongest(found: Array, measured: Array) -> float:
    """Return the pull of one gradient along the strongest direction of another."""
    U, _, Vt = np.linalg.svd(found)
    return float(U[:, 0] @ measured @ Vt[0])


def directions(run: Run, store: Path) -> Iterator[Row]:
    """Yield a row per direction of every final head: its singular value, and the pull of the loss with its noise."""
    weights, moments = _read(run, store)
    for layer in range(run.layers):
        for head in range(run.heads):
            U, values, V = decomposed(*_pair(run, weights[layer], head))
            pulls = -np.einsum("di,hde,ei->hi", U, moments[f"{layer}.gradient"][:, head], V)
            for place, (value, pull) in enumerate(zip(values, pulls.T, strict=True)):
                row = {name: asdict(run)[name] for name in RUN_COLUMNS} | {"layer": layer, "head": head, "place": place}
                yield row | {"value": value, "pull": pull.mean(), "noise": 0.5 * abs(pull[0] - pull[1])}


def _read(run: Run, store: Path) -> tuple[list[Array], dict[str, Array]]:
    """Weights of every layer at the end, and moments."""
    file = open_checkpoint(run.file(store, run.steps))
    weights = [file.read(f"h.{layer}.attn.c_attn.weight") for layer in range(run.layers)]
    found = load_file(run.folder(store) / MOMENTS)
    return weights, {name: np.asarray(value, dtype=np.float64) for name, value in found.items()}


def _pair(run: Run, fused: Array, head: int) -> tuple[Array, Array]:
    """Return W_Q and W_K of one head; rows are all queries, all keys, all values."""
    query, key, _ = fused.reshape(3, run.heads, -1, run.width)[:, head]
    return query, key


def decomposed(query: Array, key: Array) -> tuple[Array, Array, Array]:
    """Return left vectors, values and right vectors of W_Q'W_K, head_dim of each, with vectors as columns."""
    U, values, Vt = np.linalg.svd(query.T @ key)
    rows = len(query)
    return U[:, :rows], values[:rows], Vt[:rows].T
