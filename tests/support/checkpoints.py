"""Small checkpoints: random tensors, and the bytes of valid and invalid safetensors files."""

import json

import numpy as np
from safetensors.numpy import save_file

QUERY, KEY = (f"encoder.layer.0.attention.self.{side}.weight" for side in ("query", "key"))


def attention_layers(layers, hidden, rng):
    """Return random query and key weights under the names of BERT."""
    return {
        f"encoder.layer.{layer}.attention.self.{side}.weight": rng.standard_normal((hidden, hidden), dtype=np.float32)
        for layer in range(layers)
        for side in ("query", "key")
    }


def training_steps(folder):
    """Write checkpoints at steps 0, 20 and 100 of two layers with three heads and hidden size 96.

    Head 1 of layer 0 has an outlier from step 20 on, head 2 of layer 1 from step 100 on. The paths are returned out of
    order.
    """
    first = attention_layers(2, 96, np.random.default_rng(0))
    for step in (0, 20, 100):
        tensors = {name: matrix.copy() for name, matrix in first.items()}
        for layer, head, when in ((0, 1, 20), (1, 2, 100)):
            for side in ("query", "key"):
                if step >= when:
                    tensors[f"encoder.layer.{layer}.attention.self.{side}.weight"][32 * head, head] += 150.0
        save_file(tensors, folder / f"step-{step}.safetensors")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": 3}))
    return [folder / f"step-{step}.safetensors" for step in (100, 0, 20)]


def tensor_entry(start=0, stop=16, shape=(2, 2), dtype="F32"):
    """Return the entry of one tensor in a header."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}


def header_with_data(header, data=b"", length=None):
    """Return the bytes of a file with this header, which may be invalid; ``length`` replaces the stated length of the
    header.
    """
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def safetensors_bytes(tensors, dtype):
    """Return the bytes of a safetensors file with these arrays; ``dtype`` is their type in the header."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        content = tensor.tobytes()
        header[name] = tensor_entry(len(data), len(data) + len(content), tensor.shape, dtype)
        data += content
    return header_with_data(header, data)
