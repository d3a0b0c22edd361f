"""Tensors of a checkpoint that look like attention, with the layout to give for them."""

import re
from typing import NamedTuple

from onehead.weights.checkpoint.layers import recognised
from onehead.weights.checkpoint.loading import Source, open_source

ATTENTION = re.compile(
    r"att|quer|key|[qkvo]_proj|qkv|in_proj|to_[qkv]|(?<![a-z])(?:[qkv]|kv)(?![a-z])|w[qkv]|[qkv]_lin", re.I
)
NUMBER = re.compile(r"(?<=\.)(?:0|[1-9]\d{0,5})(?=\.)")
FUSED = re.compile(r"qkv|query_key_value|in_proj|c_attn", re.I)
INTERLEAVED = re.compile(r"query_key_value")
# parts of a name that stand for the query, and those that take their place in the name of the key
QUERY_AND_KEY = (("query", "key"), ("q_proj", "k_proj"), ("q_lin", "k_lin"), ("to_q", "to_k"), ("wq", "wk"),
                 ("Wq", "Wk"), ("attn_q", "attn_k"), ("q_", "k_"), ("_q", "_k"), (".q", ".k"))  # fmt: skip
QUERY_AND_KEY_VALUE = (("to_q", "to_kv"), ("q_proj", "kv_proj"), ("query", "key_value"), ("_q", "_kv"), (".q", ".kv"))
MAX_NAME_LENGTH = 300  # longer names are not listed


class Candidate(NamedTuple):
    """Tensors of the same name in several layers: their shape, type and number, and the layout to give, if any."""

    tensor: str
    shape: tuple[int, ...]
    dtype: str
    layers: int
    layout: str


def candidates(source: Source) -> list[Candidate]:
    """Return the matrices whose names look like attention, grouped by layer.

    The layout is a known one, or spelled out from the names; whether a fused tensor is stored in sections or
    interleaved cannot be seen from its name, and head counts must be given in any case.

    Parameters
    ----------
    source : str, Path, mapping or Checkpoint
        The checkpoint, as for `onehead.weights.survey`; only its header is used.

    Returns
    -------
    list of Candidate

    Raises
    ------
    BadFile
        If the file cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> arrays = {f"net.{i}.wq.weight": np.ones((8, 8)) for i in range(2)}
    >>> arrays |= {f"net.{i}.wk.weight": np.ones((8, 8)) for i in range(2)}
    >>> [(row.tensor, row.layers, row.layout) for row in candidates(arrays)][1]
    ('net.{layer}.wq.weight', 2, 'separate:net.{layer}.wq.weight:net.{layer}.wk.weight')
    """
    checkpoint = open_source(source)
    groups: dict[str, list[str]] = {}
    for name, tensor in checkpoint.tensors.items():
        if len(tensor.shape) == 2 and len(name) <= MAX_NAME_LENGTH and ATTENTION.search(name):
            groups.setdefault(_pattern(name), []).append(name)
    known = recognised(checkpoint)
    rows = []
    for pattern, names in sorted(groups.items()):
        first = checkpoint.tensors[names[0]]
        layout = known.get(names[0]) or _spelled(pattern, groups, first.shape)
        rows.append(Candidate(pattern, first.shape, first.dtype, len(names), layout))
    return rows


def _pattern(name: str) -> str:
    """Return a name with ``{layer}`` in place of its last number."""
    places = list(NUMBER.finditer(name))
    return name[: places[-1].start()] + "{layer}" + name[places[-1].end() :] if places else name


def _spelled(pattern: str, groups: dict[str, list[str]], shape: tuple[int, ...]) -> str:
    """Return the layout spelled out from a name, empty if it is not that of a query or of a fused tensor."""
    if "{layer}" not in pattern:
        return ""
    for order, pairs in (("separate", QUERY_AND_KEY), ("query-kv", QUERY_AND_KEY_VALUE)):
        for query, key in pairs:
            head, found, tail = pattern.rpartition(query)
            if found and (other := head + key + tail) in groups:
                return f"{order}:{pattern}:{other}"
    if not FUSED.search(pattern):
        return ""
    order = "interleaved" if INTERLEAVED.search(pattern) else "sections"
    return f"{order}{'-transposed' if shape[1] > shape[0] else ''}:{pattern}"
