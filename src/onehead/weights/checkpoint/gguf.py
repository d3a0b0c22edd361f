"""Reader for GGUF files from untrusted sources; quantised tensors are dequantised by the package ``gguf``.

The format: the letters GGUF, a version, the number of tensors and of metadata pairs; the pairs; name, shape, type and
offset of every tensor; then the data. Reading stops at the end of the file, so that no count in a header can cost more
than the file itself. `gguf.GGUFReader` is not used: on 24 of 30 damaged files it raised IndexError, ValueError,
RecursionError or UnicodeDecodeError instead of one error that says what is wrong.
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

from onehead.atomic_io import checked_size
from onehead.sanitize import quoted
from onehead.weights.checkpoint.reader import BadFile, Checkpoint, ReadableTensor, StoredTensor, Tensor, opened

MAGIC = b"GGUF"
VERSIONS = (2, 3)
HEADER_LIMIT = 128_000_000  # bytes; a large vocabulary takes a tenth of it
MAX_ARRAY_DEPTH = 4
MAX_LIST_LENGTH = 4096  # longer lists of numbers in the metadata are skipped
MAX_DIMENSIONS = 4
TEXT_TYPE, ARRAY_TYPE = 8, 9  # of metadata values
# number types of metadata values, as formats of `struct`
NUMBER_FORMATS = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"
}  # fmt: skip
PLAIN_TYPES = {0: "F32", 1: "F16", 28: "F64", 30: "BF16"}  # types of tensors that are not quantised
BYTES = {"F32": 4, "F16": 2, "F64": 8, "BF16": 2}
CONFIG_KEYS = {  # metadata keys after the name of the architecture -> names in a config.json
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
}
INSTALL = "needs the package gguf, pip install 'onehead[gguf]'"


class _Cursor:
    """Position in the bytes of a header, from which values are read in sequence."""

    def __init__(self, path: Path, data: bytes) -> None:
        self.path, self.data, self.position = path, data, 0

    def take(self, count: int) -> bytes:
        if count > len(self.data) - self.position:
            raise BadFile(self.path, f"its header extends beyond the end of the file, or beyond {HEADER_LIMIT:,} bytes")
        self.position += count
        return self.data[self.position - count : self.position]

    def number(self, kind: str) -> Any:
        return struct.unpack(kind, self.take(struct.calcsize(kind)))[0]

    def text(self) -> str:
        return self.take(self.number("<Q")).decode("utf-8", errors="backslashreplace")

    def value(self, kind: int, depth: int = 0) -> Any:
        """Read a metadata value.

        Lists of text and long lists are skipped, since head counts are never stored in them.
        """
        if kind == TEXT_TYPE:
            return self.text()
        if kind in NUMBER_FORMATS:
            return self.number(NUMBER_FORMATS[kind])
        if kind != ARRAY_TYPE or depth >= MAX_ARRAY_DEPTH:
            raise BadFile(self.path, f"its metadata have a value of the unknown type {kind}")
        inner, count = self.number("<I"), self.number("<Q")
        if inner in NUMBER_FORMATS:
            number_format = NUMBER_FORMATS[inner]
            data = self.take(count * struct.calcsize(number_format))
            return [item for (item,) in struct.iter_unpack(number_format, data)] if count <= MAX_LIST_LENGTH else None
        for _ in range(count):  # ends with the file, because each item takes at least eight bytes
            self.value(inner, depth + 1)
        return None


@dataclass(frozen=True)
class GgufFile(Checkpoint):
    """Tensors of a GGUF file, by name; head counts come from its own metadata."""

    kinds: Mapping[str, int] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """Head counts under the names of a ``config.json``; a list of equal counts per layer becomes one number."""
        model = self.metadata.get("general.architecture")
        found: dict[str, Any] = {}
        for key, name in CONFIG_KEYS.items():
            value = self.metadata.get(f"{model}.{key}")
            if isinstance(value, list) and value and all(item == value[0] for item in value):
                value = value[0]
            if value is not None:
                found[name] = value
        return found

    def trouble(self, name: str) -> str:
        """Return why a tensor cannot be read: its type needs a package that is missing, or that does not support it."""
        kind = self.kinds[name]
        if kind in PLAIN_TYPES:
            return ""
        if find_spec("gguf") is None:
            return f"is quantised (GGUF type {kind}) and {INSTALL}"
        return "" if _quantised_type(kind) is not None else f"has the GGUF type {kind}, which is not supported"

    def notes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return a note if some of these tensors were quantised."""
        kinds = {found.name for name in names if (found := _quantised_type(self.kinds[name])) is not None}
        return (f"weights were quantised ({', '.join(sorted(kinds))}), which adds noise",) if kinds else ()

    def raw(self, name: str) -> ReadableTensor:
        """Return one tensor, dequantised if necessary."""
        tensor, kind = self.tensors[name], self.kinds[name]
        if kind in PLAIN_TYPES:
            return super().raw(name)
        from gguf import GGML_QUANT_SIZES
        from gguf.quants import dequantize

        found = _quantised_type(kind)
        if found is None:
            raise BadFile(tensor.path, f"{quoted(name)} {self.trouble(name)}")
        block, block_bytes = GGML_QUANT_SIZES[found]
        rows, columns = prod(tensor.shape[:-1]), tensor.shape[-1]
        if columns % block:
            raise BadFile(
                tensor.path, f"{quoted(name)} has {columns} columns, but {found.name} needs a multiple of {block}"
            )
        width = columns // block * block_bytes
        if tensor.start + rows * width > checked_size(tensor.path, None, partial(BadFile, tensor.path)):
            raise BadFile(tensor.path, f"it ended inside {quoted(name)}")
        with opened(tensor.path) as file:
            data = np.fromfile(file, dtype=np.uint8, count=rows * width, offset=tensor.start)
        with np.errstate(all="ignore"):  # values that are not finite are reported later, by the survey
            values = dequantize(data.reshape(rows, width), found)
        return StoredTensor(np.asarray(values).reshape(tensor.shape), "F32")


@lru_cache
def _quantised_type(kind: int) -> Any:
    """Return the type of the package ``gguf`` with this number, or None if the package cannot dequantise it."""
    if kind in PLAIN_TYPES or find_spec("gguf") is None:
        return None
    from gguf import GGML_QUANT_SIZES
    from gguf.quants import dequantize

    found = next((known for known in GGML_QUANT_SIZES if int(known) == kind), None)
    if found is None:
        return None
    try:
        dequantize(np.zeros((1, GGML_QUANT_SIZES[found][1]), dtype=np.uint8), found)  # one block, as a trial
    except NotImplementedError:
        return None
    return found


def open_gguf(path: Path) -> GgufFile:
    """Open a GGUF file: read and check its header."""
    size = checked_size(path, None, partial(BadFile, path))
    with opened(path) as file:
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
    return GgufFile(path, _located(path, found, _data_start(path, cursor, metadata), size), kinds, metadata)


def _tensor(cursor: _Cursor) -> tuple[str, Tensor, int]:
    """Read name, location and type of one tensor; its offset is counted from the start of the data."""
    name, count = cursor.text(), cursor.number("<I")
    if not 1 <= count <= MAX_DIMENSIONS:
        raise BadFile(cursor.path, f"{quoted(name)} has {count} dimensions, not 1 to {MAX_DIMENSIONS}")
    shape = tuple(cursor.number("<Q") for _ in range(count))[::-1]  # GGUF lists the fastest dimension first
    kind, offset = cursor.number("<I"), cursor.number("<Q")
    if any(side >= 1 << 40 for side in shape) or offset >= 1 << 60:
        raise BadFile(cursor.path, f"{quoted(name)} has the impossible shape {quoted(list(shape))} or offset {offset}")
    return name, Tensor(cursor.path, PLAIN_TYPES.get(kind, f"GGUF type {kind}"), shape, offset, offset), kind


def _data_start(path: Path, cursor: _Cursor, metadata: Mapping[str, Any]) -> int:
    """Return the offset at which the data begin: the end of the header, rounded up to the alignment."""
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or not 1 <= alignment <= 1 << 20:
        raise BadFile(path, f"its alignment is {quoted(alignment)}, not an integer from 1 to {1 << 20}")
    return -(-cursor.position // alignment) * alignment


def _located(path: Path, tensors: dict[str, Tensor], start: int, size: int) -> dict[str, Tensor]:
    """Return the tensors with offsets counted from the start of the file; those not quantised must end within it."""
    located = {}
    for name, tensor in tensors.items():
        first = start + tensor.start
        last = first + prod(tensor.shape) * BYTES.get(tensor.dtype, 0)
        if first > size or last > size:
            raise BadFile(path, f"{quoted(name)} ends {last - size:,} bytes after the file (cut short?)")
        located[name] = tensor._replace(start=first, stop=last)
    return located
