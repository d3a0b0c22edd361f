"""A small sample checkpoint: one layer of heads at their initialisation, one layer of trained heads."""

import json
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead import aim

Array = NDArray[np.float64]

DIM, WIDTH, HEADS = 64, 16, 3  # d, rows of a head, heads in a layer
# trained heads: features of the task, sample ratio α, weight decay, noise
TRAINED = ((4, 0.5, 0.3, 0.2), (3, 2.0, 0.1, 0.2), (2, 1.0, 0.03, 1.0))
NAMES = "model.layers.{}.self_attn.{}_proj.weight"


def write_sample(path: Path) -> None:
    """Write a safetensors file with a layer of Gaussian heads and a layer of trained heads."""
    rng = np.random.default_rng(0)
    random = [(rng.standard_normal((WIDTH, DIM)), rng.standard_normal((WIDTH, DIM))) for _ in range(HEADS)]
    layers = [random, [_trained(*case) for case in TRAINED]]
    tensors = {
        NAMES.format(number, side): np.concatenate([head[k] for head in layer]).astype("<f4")
        for number, layer in enumerate(layers)
        for k, side in enumerate("qk")
    }
    header: dict[str, Any] = {}
    offset = 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t.tobytes() for t in tensors.values()))


def _trained(features: int, alpha: float, decay: float, noise: float) -> tuple[Array, Array]:
    """Return query and key weights of a trained head, split from its map by singular vectors."""
    task = aim.Task(target=aim.Product(kappa0=features / DIM), attention="cross", noise=noise)
    learner = aim.Learner(width=WIDTH / DIM, weight_decay=decay)
    run = aim.train(task, learner, dim=DIM, alpha=alpha, seeds=1).runs[0]
    left, values, right = np.linalg.svd(run.map)
    size = np.sqrt(values[:WIDTH])[:, None]
    return size * left.T[:WIDTH], size * right[:WIDTH]


def sample_heads() -> list[dict[str, Any]]:
    """Write the sample to a temporary file and measure its heads, as those of any other file; runs in a worker."""
    from onehead.app.views.checkpoint import survey_heads

    with tempfile.TemporaryDirectory(prefix="onehead-") as folder:
        path = Path(folder) / "sample.safetensors"
        write_sample(path)
        return survey_heads(str(path), HEADS)
