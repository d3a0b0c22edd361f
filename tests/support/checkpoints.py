"""Tensors of small checkpoints."""

import numpy as np


def attention_layers(layers, hidden, rng):
    """Random query and key weights under the names of BERT."""
    return {
        f"encoder.layer.{layer}.attention.self.{side}.weight": rng.standard_normal((hidden, hidden), dtype=np.float32)
        for layer in range(layers)
        for side in ("query", "key")
    }
