"""A safetensors reader that trusts nothing: every number in a header is checked before it is used.

The format: eight bytes, the little-endian length N of the header; N bytes of JSON that give each tensor a type, a shape
and a range of bytes; then the data. Nothing is unpickled, nothing is executed, and a tensor is read only when asked for.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.files import read_file, size_of
from onehead.text import quoted

__all__ = ["BadFile", "Checkpoint", "Raw", "Tensor", "Widens", "open_checkpoint"]

HEADER_LIMIT = 32_000_000  # bytes of JSON, about 250,000 tensors in one file; the format itself allows 100 MB
CONFIG_LIMIT = 8_000_000
DIMENSIONS = 16
PREFIX = 8  # bytes in front of the header that hold its length
INDEX = ".safetensors.index.json"
PICKLED = (".bin", ".pt", ".pth", ".ckpt")

# bits of every element type of the format; weights are read from the four floating ones
BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
FLOATS = {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8"}


class BadFile(InvalidArgument):
    """A file that is not what it should be; the text says what is wrong with it."""

    def __init__(self, path: Path, trouble: str) -> None:
        super().__init__("FILE", path.name, "a readable safetensors checkpoint")
        self.path, self.trouble = path, trouble
        self.args = (f"cannot read {path.name!r}: {trouble}.",)


class Tensor(NamedTuple):
    """Where a tensor lies: file, element type, shape, first byte and end."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


class Widens(Protocol):
    """A tensor of which parts can be had in double precision."""

    def widen(self, part: Any) -> NDArray[np.float64]:
        """A part of it."""


class Raw(NamedTuple):
    """A tensor as stored; `widen` turns a part of it into float64, so that only that part grows."""

    values: NDArray[Any]
    dtype: str

    def widen(self, part: Any) -> NDArray[np.float64]:
        """A part in double precision; the 16 bits of a bfloat16 are the upper half of a float32."""
        values = self.values[part]
        if self.dtype == "BF16":
            values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        with np.errstate(invalid="ignore"):  # a signalling NaN stays one; what is not finite is found later
            return np.asarray(values, dtype=np.float64)


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of one or several safetensors files, by name, and the ``config.json`` beside them."""

    path: Path
    tensors: Mapping[str, Tensor]

    @cached_property
    def config(self) -> dict[str, Any]:
        """What ``config.json`` beside the file says; empty if there is none."""
        path = self.path.parent / "config.json"
        if not path.exists():
            return {}
        config = _json(path, read_file(path, CONFIG_LIMIT, partial(BadFile, path)))
        if not isinstance(config, dict):
            raise BadFile(path, "it holds no JSON object")
        return config

    def trouble(self, name: str) -> str:
        """Why a tensor cannot be read, after its name; nothing if it can."""
        kind = self.tensors[name].dtype
        return "" if kind in FLOATS else f"is stored as {kind}: quantised weights are not read"

    def missing(self, name: str) -> str:
        """Why there is no such tensor."""
        return f"there is no tensor {quoted(name)}"

    def notes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """What should be known of these tensors."""
        return ()

    def adapter_rank(self, names: tuple[str, ...]) -> int | None:
        """The rank of tensors that are low-rank adapters."""
        return None

    def raw(self, name: str) -> Widens:
        """One tensor as stored."""
        tensor = self.tensors[name]
        if tensor.dtype not in FLOATS:
            raise BadFile(tensor.path, f"{quoted(name)} is stored as {tensor.dtype}, not as a floating-point matrix")
        count = prod(tensor.shape)
        with tensor.path.open("rb") as file:
            values = np.fromfile(file, dtype=FLOATS[tensor.dtype], count=count, offset=tensor.start)
        if values.size != count:
            raise BadFile(tensor.path, f"it ended inside {quoted(name)}")
        return Raw(values.reshape(tensor.shape), tensor.dtype)

    def read(self, name: str) -> NDArray[np.float64]:
        """One tensor in double precision."""
        return self.raw(name).widen(...)


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Open a safetensors file, the index of a sharded one, or the folder that holds either; reads headers only.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from safetensors.numpy import save_file
    >>> from onehead.weights import open_checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_file({"a": np.eye(2, dtype=np.float16)}, f"{folder}/model.safetensors")
    ...     checkpoint = open_checkpoint(folder)
    ...     checkpoint.tensors["a"].shape, checkpoint.read("a").sum()
    ((2, 2), np.float64(2.0))
    """
    path = _choose(Path(path))
    if not path.name.endswith(INDEX):
        if path.suffix == ".json":
            raise BadFile(path, f"a JSON file is read only as an index, whose name ends in {INDEX}")
        return Checkpoint(path, _header(path))
    return Checkpoint(path, _sharded(path))


def _choose(path: Path) -> Path:
    """The file itself, or the one checkpoint in a folder."""
    if not os.path.exists(path):  # for some names asking the path itself is an error
        raise InvalidArgument("FILE", str(path), "a safetensors file, its index or a folder that exists")
    if not path.is_dir():
        return path
    found = sorted(path.glob(f"*{INDEX}")) or sorted(path.glob("*.safetensors"))
    if not found:
        pickled = sorted(file for ending in PICKLED for file in path.glob(f"*{ending}"))
        told = (
            f"only {quoted(pickled[0].name)}, a pickle; {_conversion(pickled[0])}" if pickled else "no safetensors file"
        )
        raise BadFile(path, f"the folder holds {told}")
    if len(found) > 1:
        raise BadFile(path, f"the folder holds {len(found)} safetensors files; name one of them")
    return found[0]


def _conversion(path: Path) -> str:
    """The two lines that turn a pickled checkpoint into one that is read here."""
    new = path.with_suffix(".safetensors").name
    return (
        "convert it: import torch, safetensors.torch; "
        f"safetensors.torch.save_file(torch.load({quoted(path.name)}, weights_only=True), {quoted(new)})"
    )


def _header(path: Path) -> dict[str, Tensor]:
    """Parse and check a header."""
    size = size_of(path, None, partial(BadFile, path))
    with path.open("rb") as file:
        prefix = file.read(PREFIX)
        length = int.from_bytes(prefix, "little")
        if prefix.startswith(b"PK\x03\x04"):
            raise BadFile(path, f"it is a zip archive, as pickled checkpoints are; {_conversion(path)}")
        if prefix[:1] == b"\x80" and prefix[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05") and length > size:
            raise BadFile(path, f"it looks like a pickle, which could run any code; {_conversion(path)}")
        if size < PREFIX + 2:
            raise BadFile(path, f"{size} bytes are too few for a safetensors file")
        if length > size - PREFIX:
            raise BadFile(path, f"its header would have {length:,} bytes, but the file has {size:,}")
        if length > HEADER_LIMIT:
            raise BadFile(path, f"its header has {length:,} bytes, more than the {HEADER_LIMIT:,} that are read")
        text = file.read(length)
    entries = _json(path, text)
    if not isinstance(entries, dict):
        raise BadFile(path, "its header is no JSON object")
    metadata = entries.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise BadFile(path, "its metadata are not words")
    data = PREFIX + length
    tensors = {name: _tensor(path, name, entry, data) for name, entry in entries.items()}
    _check_cover(path, tensors, data, size)
    return tensors


def _tensor(path: Path, name: str, entry: Any, data: int) -> Tensor:
    """Check one entry of a header by itself."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise BadFile(path, f"the header entry of {quoted(name)} needs dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise BadFile(path, f"{quoted(name)} has the unknown type {quoted(dtype)}")
    if not _counts(shape) or len(shape) > DIMENSIONS:
        raise BadFile(path, f"{quoted(name)} has the impossible shape {quoted(shape)}")
    if not _counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise BadFile(path, f"{quoted(name)} has the impossible offsets {quoted(offsets)}")
    if prod(shape) * BITS[dtype] != 8 * (offsets[1] - offsets[0]):
        raise BadFile(path, f"{quoted(name)} of shape {quoted(shape)} and type {dtype} does not fill its bytes exactly")
    return Tensor(path, dtype, tuple(shape), data + offsets[0], data + offsets[1])


def _counts(value: Any) -> bool:
    """Whether it is a list of integers >= 0 of a size that a file can have."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 60 for item in value)


def _check_cover(path: Path, tensors: dict[str, Tensor], data: int, size: int) -> None:
    """The tensors must cover the data once: no overlap, no hole, nothing behind the last."""
    end = data
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].stop)):
        if tensor.start < end:
            raise BadFile(path, f"{quoted(name)} overlaps another tensor")
        if tensor.start > end:
            raise BadFile(path, f"there are {tensor.start - end:,} unused bytes before {quoted(name)}")
        if tensor.stop > size:
            raise BadFile(path, f"{quoted(name)} ends {tensor.stop - size:,} bytes after the file (cut short?)")
        end = tensor.stop
    if end != size:
        raise BadFile(path, f"there are {size - end:,} unused bytes behind the last tensor")


def _sharded(path: Path) -> dict[str, Tensor]:
    """Tensors of all shards that an index names; shards must lie in the folder of the index."""
    index = _json(path, read_file(path, HEADER_LIMIT, partial(BadFile, path)))
    names = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(names, dict) or not names:
        raise BadFile(path, "it has no weight_map")
    for shard in names.values():
        if not isinstance(shard, str) or not shard.endswith(".safetensors") or set(shard) & set("/\\\0"):
            raise BadFile(path, f"its shard {quoted(shard)} is not the plain name of a safetensors file beside it")
    headers: dict[str, dict[str, Tensor]] = {}
    for shard in dict.fromkeys(names.values()):
        place = path.parent / shard
        if not place.exists():
            raise BadFile(path, f"its shard {quoted(shard)} is missing")
        headers[shard] = _header(place)
    for name, shard in names.items():
        if name not in headers[shard]:
            raise BadFile(path, f"{quoted(name)} is not in its shard {quoted(shard)}")
    return {name: headers[shard][name] for name, shard in names.items()}


def _json(path: Path, text: bytes) -> Any:
    """Parse JSON as the standard has it: no NaN, no key twice, no endless nesting."""
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse)
    except RecursionError:
        trouble = "its JSON is nested too deeply"
    except UnicodeDecodeError:
        trouble = "its JSON is not UTF-8 text"
    except ValueError as failure:
        trouble = f"its JSON is broken ({failure})"
    raise BadFile(path, trouble)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {quoted(key)} occurs twice")
        found[key] = value
    return found


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
