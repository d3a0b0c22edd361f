"""A checkpoint the size of 7 billion parameters: memory, and time per head with and without the fits.

`python -m benchmarks.weights [LAYERS]` writes a sparse file with the shapes of Llama-7B in float16, random numbers in the query
and key matrices of the first LAYERS (2) layers and holes elsewhere, and surveys it with the program in a process of its own.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

HIDDEN, INNER, HEADS, LAYERS, WORDS = 4096, 11008, 32, 32, 32000


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
                file.write((0.02 * rng.standard_normal((HIDDEN, HIDDEN), dtype=np.float32)).astype("<f2").tobytes())
        file.truncate(8 + len(text) + end)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "num_attention_heads": HEADS}))
    return path


def survey(path: Path, *flags: str) -> tuple[float, list[dict[str, Any]]]:
    """Seconds and rows of the program."""
    clock = time.perf_counter()
    words = [sys.executable, "-m", "onehead", "weights", str(path), "--json", *flags]
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return time.perf_counter() - clock, json.loads(out)


def main() -> None:
    """Print size, seconds per head and the peak of the memory of any child."""
    filled = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    layers = ",".join(str(i) for i in range(filled))
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), filled)
        status = path.stat()
        print(f"file: {status.st_size / 1e9:.1f} GB, on disk {512 * status.st_blocks / 1e9:.2f} GB")
        for text, flags in (
            ("spectra only, filled layers", ("--layer", layers, "--no-fit")),
            ("with fits, 8 heads of layer 0", ("--layer", "0", "--head", "0:7:8")),
            ("all layers, spectra only", ("--no-fit",)),
        ):
            seconds, rows = survey(path, *flags)
            measured = sum(row["status"] == "ok" for row in rows)
            alarms = sum(bool(row["outliers"]) for row in rows)
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024**2
            print(
                f"{text}: {len(rows)} rows, {measured} measured, {seconds:.1f} s, {seconds / max(measured, 1):.2f} s per "
                f"measured head, {alarms} with outliers, peak memory {peak:.2f} GiB"
            )


if __name__ == "__main__":
    main()
