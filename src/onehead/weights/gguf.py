"""GGUF files: a header read here, trusting nothing, and quantised tensors turned into numbers by the package ``gguf``.

The format: the letters GGUF, a version, the number of tensors and of pairs of metadata; the pairs; name, shape, type and place of every
tensor; then the data. Counts in it are bounded by the bytes that are there, so that no claim costs more than the file.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from onehead.files import size_of
from onehead.text import quoted
from onehead.weights.reader import BadFile, Checkpoint, Raw, Tensor, Widens

__all__ = ["MAGIC", "GgufFile", "open_gguf"]

MAGIC = b"GGUF"
VERSIONS = (2, 3)
HEADER_LIMIT = 128_000_000  # bytes; the words of a large vocabulary are a tenth of it
DEEPEST = 4  # arrays of arrays
DIMENSIONS = 4
TEXT, ARRAY = 8, 9
NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
PLAIN = {0: "F32", 1: "F16", 28: "F64", 30: "BF16"}  # types whose elements are numbers as they stand
BYTES = {"F32": 4, "F16": 2, "F64": 8, "BF16": 2}
KEYS = {  # of the metadata, after the name of the architecture
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
}
INSTALL = "needs the package gguf, pip install 'onehead[gguf]'"


class _Cursor:
    """A place in the bytes of a header; nothing is read behind their end."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.data, self.place = path, data, 0

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.place:
            raise BadFile(self.path, "its header goes on behind the end of the file, or is longer than what is read")
        self.place += count
        return self.data[self.place - count : self.place]

    def number(self, kind: str) -> Any:
        return struct.unpack(kind, self.take(struct.calcsize(kind)))[0]

    def text(self) -> str:
        return self.take(self.number("<Q")).decode("utf-8", errors="backslashreplace")

    def value(self, kind: int, depth: int = 0) -> Any:
        """A value of the metadata; long lists are passed over, since no count of heads is one."""
        if kind == TEXT:
            return self.text()
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind != ARRAY or depth >= DEEPEST:
            raise BadFile(self.path, f"its metadata have a value of the unknown type {kind}")
        inner, count = self.number("<I"), self.number("<Q")
        if inner in NUMBERS:
            step = NUMBERS[inner]
            words = self.take(count * struct.calcsize(step))
            return [item for (item,) in struct.iter_unpack(step, words)] if count <= 4096 else None
        for _ in range(count):  # each takes at least eight bytes
            self.value(inner, depth + 1)
        return None


@dataclass(frozen=True)
class GgufFile(Checkpoint):
    """The tensors of a GGUF file; head counts come from its own metadata."""

    kinds: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """Head counts under the names of a ``config.json``; one count for all layers, as the theory of a layout needs it."""
        model = self.metadata.get("general.architecture")
        found: dict[str, Any] = {}
        for key, name in KEYS.items():
            value = self.metadata.get(f"{model}.{key}")
            if isinstance(value, list) and value and all(item == value[0] for item in value):
                value = value[0]
            if value is not None:
                found[name] = value
        return found

    def trouble(self, name: str) -> str:
        """Why a tensor cannot be read: its type needs a package that is not there, or does not know."""
        kind = self.kinds[name]
        if kind in PLAIN:
            return ""
        if find_spec("gguf") is None:
            return f"is quantised (GGUF type {kind}) and {INSTALL}"
        return "" if _quantised(kind) is not None else f"has the GGUF type {kind}, which is not read"

    def notes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """That weights were quantised."""
        kinds = {found.name for name in names if (found := _quantised(self.kinds[name])) is not None}
        return (f"weights were quantised ({', '.join(sorted(kinds))}), which adds noise",) if kinds else ()

    def raw(self, name: str) -> Widens:
        """One tensor, dequantised where it is not plain numbers."""
        tensor, kind = self.tensors[name], self.kinds[name]
        if kind in PLAIN:
            return super().raw(name)
        from gguf import GGML_QUANT_SIZES  # noqa: PLC0415
        from gguf.quants import dequantize  # noqa: PLC0415

        found = _quantised(kind)
        if found is None:
            raise BadFile(tensor.path, f"{quoted(name)} {self.trouble(name)}")
        block, size = GGML_QUANT_SIZES[found]
        rows, columns = prod(tensor.shape[:-1]), tensor.shape[-1]
        if columns % block:
            raise BadFile(
                tensor.path, f"{quoted(name)} has {columns} columns, not a multiple of {block} as {found.name} has"
            )
        width = columns // block * size
        if tensor.start + rows * width > size_of(tensor.path, None, partial(BadFile, tensor.path)):
            raise BadFile(tensor.path, f"it ended inside {quoted(name)}")
        with tensor.path.open("rb") as file:
            data = np.fromfile(file, dtype=np.uint8, count=rows * width, offset=tensor.start)
        with np.errstate(all="ignore"):  # what is not finite is found later
            values = dequantize(data.reshape(rows, width), found)
        return Raw(np.asarray(values).reshape(tensor.shape), "F32")


@lru_cache
def _quantised(kind: int) -> Any:
    """The type of the package ``gguf`` with this number, if there is one that it can dequantise."""
    if kind in PLAIN or find_spec("gguf") is None:
        return None
    from gguf import GGML_QUANT_SIZES  # noqa: PLC0415
    from gguf.quants import dequantize  # noqa: PLC0415

    found = next((known for known in GGML_QUANT_SIZES if int(known) == kind), None)
    if found is None:
        return None
    try:
        dequantize(np.zeros((1, GGML_QUANT_SIZES[found][1]), dtype=np.uint8), found)  # one block
    except NotImplementedError:
        return None
    return found


def open_gguf(path: Path) -> GgufFile:
    """Read and check the header of a GGUF file."""
    size = size_of(path, None, partial(BadFile, path))
    with path.open("rb") as file:
        cursor = _Cursor(path, file.read(min(size, HEADER_LIMIT)))
    if cursor.take(4) != MAGIC:
        raise BadFile(path, "it does not begin with the letters GGUF")
    version = cursor.number("<I")
    if version not in VERSIONS:
        raise BadFile(path, f"it has the GGUF version {version}, not 2 or 3 (little-endian)")
    tensors, pairs = cursor.number("<Q"), cursor.number("<Q")
    metadata: dict[str, Any] = {}
    for _ in range(pairs):
        key = cursor.text()
        metadata[key] = cursor.value(cursor.number("<I"))
    found: dict[str, Tensor] = {}
    kinds: dict[str, int] = {}
    for _ in range(tensors):
        name, tensor, kind = _tensor(cursor)
        if name in found:
            raise BadFile(path, f"the tensor {quoted(name)} occurs twice")
        found[name], kinds[name] = tensor, kind
    return GgufFile(path, _placed(path, found, kinds, _start(path, cursor, metadata), size), kinds, metadata)


def _tensor(cursor: _Cursor) -> tuple[str, Tensor, int]:
    """Name, shape and place of one tensor; the place is counted from the start of the data."""
    name, count = cursor.text(), cursor.number("<I")
    if not 1 <= count <= DIMENSIONS:
        raise BadFile(cursor.path, f"{quoted(name)} has {count} dimensions, not 1 to {DIMENSIONS}")
    shape = tuple(cursor.number("<Q") for _ in range(count))[::-1]  # the first is the fastest there
    kind, offset = cursor.number("<I"), cursor.number("<Q")
    if any(side >= 1 << 40 for side in shape) or offset >= 1 << 60:
        raise BadFile(cursor.path, f"{quoted(name)} has the impossible shape {quoted(list(shape))} or place {offset}")
    return name, Tensor(cursor.path, PLAIN.get(kind, f"GGUF type {kind}"), shape, offset, offset), kind


def _start(path: Path, cursor: _Cursor, metadata: Mapping[str, Any]) -> int:
    """Where the data begin."""
    step = metadata.get("general.alignment", 32)
    if type(step) is not int or not 1 <= step <= 1 << 20:
        raise BadFile(path, f"its alignment is {quoted(step)}, not an integer from 1 to {1 << 20}")
    return -(-cursor.place // step) * step


def _placed(path: Path, tensors: dict[str, Tensor], kinds: dict[str, int], start: int, size: int) -> dict[str, Tensor]:
    """Tensors with their places in the file; those of plain numbers must end within it."""
    placed = {}
    for name, tensor in tensors.items():
        first = start + tensor.start
        last = first + prod(tensor.shape) * BYTES.get(tensor.dtype, 0)
        if first > size or last > size:
            raise BadFile(path, f"{quoted(name)} ends {last - size:,} bytes after the file (cut short?)")
        placed[name] = tensor._replace(start=first, stop=last)
    return placed
