"""Small checkpoints: tensors, and files written by hand, right or wrong."""

import json

import numpy as np

QUERY, KEY = (f"encoder.layer.0.attention.self.{side}.weight" for side in ("query", "key"))


def attention_layers(layers, hidden, rng):
    """Random query and key weights under the names of BERT."""
    return {
        f"encoder.layer.{layer}.attention.self.{side}.weight": rng.standard_normal((hidden, hidden), dtype=np.float32)
        for layer in range(layers)
        for side in ("query", "key")
    }


def entry(start=0, stop=16, shape=(2, 2), dtype="F32"):
    """What a header says of one tensor."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, stop]}


def packed(header, data=b"", length=None):
    """The bytes of a file with this header, right or wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def written(tensors, dtype):
    """The bytes of a file with these arrays, one behind the other; ``dtype`` is what the header calls their words."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        content = tensor.tobytes()
        header[name] = entry(len(data), len(data) + len(content), tensor.shape, dtype)
        data += content
    return packed(header, data)
