"""Rows of checkpoints: all heads of a small model with fits, and a file the size of 7 billion parameters, sparse on
disk.

The latter has the shapes of Llama-7B in float16, random numbers in the query and key matrices of the first layers,
holes elsewhere.
"""

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Budget, Clock, Finding, row
from onehead.weights import survey

HIDDEN, INNER, HEADS, LAYERS, WORDS = 4096, 11008, 32, 32, 32000
FILLED = 2
BLOCK = 256  # rows written at once: writing must not take the memory that reading is judged by


def shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of all tensors: 6.7 billion numbers."""
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (WORDS, HIDDEN)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}"
        for word in "qkvo":
            found[f"{layer}.self_attn.{word}_proj.weight"] = (HIDDEN, HIDDEN)
        for word, shape in (("gate", (INNER, HIDDEN)), ("up", (INNER, HIDDEN)), ("down", (HIDDEN, INNER))):
            found[f"{layer}.mlp.{word}_proj.weight"] = shape
        for word in ("input", "post_attention"):
            found[f"{layer}.{word}_layernorm.weight"] = (HIDDEN,)
    return found | {"model.norm.weight": (HIDDEN,), "lm_head.weight": (WORDS, HIDDEN)}


def write(folder: Path, filled: int) -> Path:
    """The file; only the query and key matrices of the first layers take room on disk."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in shapes().items():
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path = folder / "model.safetensors"
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for i in range(filled):
            for word in "qk":
                file.seek(8 + len(text) + header[f"model.layers.{i}.self_attn.{word}_proj.weight"]["data_offsets"][0])
                for _ in range(HIDDEN // BLOCK):
                    file.write((0.02 * rng.standard_normal((BLOCK, HIDDEN), dtype=np.float32)).astype("<f2").tobytes())
        file.truncate(8 + len(text) + end)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "num_attention_heads": HEADS}))
    return path


def _survey(name: str, layers: Iterable[int] | None, heads: Iterable[int] | None, *, fit: bool) -> None:
    @row("weights", f"a file shaped as 7 billion parameters, 13.5 GB, {name}", repeats=1, fresh=True)
    def measure(clock: Clock) -> Finding:
        with tempfile.TemporaryDirectory() as folder:
            path = write(Path(folder), FILLED)
            found = clock(lambda: survey(path, layers=layers, heads=heads, fit=fit))
        measured = [head for head in found if head.status == "ok"]
        alarms = sum(bool(head.outliers) for head in measured)
        each = clock.seconds / max(len(measured), 1)
        text = f"{alarms} of {len(measured)} random heads with a false outlier"
        return Finding(text, float(alarms), f"{each:.2f} s for each of them; {len(found)} rows")


@row("weights", "72 heads of 32 x 384, verdicts and fits of five laws", budget=Budget(20.0, "s"), repeats=1)
def small_model(clock: Clock) -> Finding:
    """Random heads with the shapes of MiniLM."""
    rng = np.random.default_rng(0)
    names = [f"encoder.layer.{i}.attention.self.{side}.weight" for i in range(6) for side in ("query", "key")]
    tensors = {name: rng.standard_normal((384, 384)) for name in names}
    found = clock(lambda: survey(tensors, head_count=12))
    alarms = len(found) - found.verdicts.get("noise", 0)
    return Finding(f"{alarms} of {len(found)} random heads get another word than noise", float(alarms), "")


_survey("spectra of two layers", range(FILLED), None, fit=False)
_survey("spectra and fits of eight heads", (0,), range(8), fit=True)
_survey("spectra of all layers, most of them empty", None, None, fit=False)
