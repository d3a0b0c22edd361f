"""Reader for safetensors files from untrusted sources: every number in a header is checked before it is used.

The format: eight bytes, the little-endian length N of the header; N bytes of JSON that give each tensor a type, a shape
and a range of bytes; then the data. Nothing is unpickled, nothing is executed, and a tensor is read only on request.
`safetensors.safe_open` is not used: without PyTorch it reads no bfloat16 (TypeError), and a file cut short while it is
open ends the process (signal 7), because it maps the file into memory.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from onehead.atomic_io import checked_size, read_file
from onehead.errors import InvalidArgument
from onehead.sanitize import quoted

HEADER_LIMIT = 32_000_000  # bytes of JSON, about 250,000 tensors in one file; the format itself allows 100 MB
CONFIG_LIMIT = 8_000_000  # bytes of a config.json
MAX_DIMENSIONS = 16
PREFIX_LENGTH = 8  # bytes before the header, which hold its length
FORMAT_LENGTH = 65_536  # bytes in which the marks of other formats are looked for
# files of a TorchScript archive, and the first fields of an ONNX model: its version, and the name of its producer
TORCHSCRIPT = re.compile(rb"/code/__torch__|/constants\.pkl")
ONNX = re.compile(rb"\x08[\x01-\x20]\x12.[a-zA-Z]", re.DOTALL)
INDEX_SUFFIX = ".safetensors.index.json"
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt")

# bits of every element type of the format; weights are read from the four floating-point types
BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "I64": 64, "U64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
FLOATS = {"F16": "<f2", "BF16": "<u2", "F32": "<f4", "F64": "<f8"}


class BadFile(InvalidArgument):
    """Error raised for a file that is damaged or not a readable checkpoint; the message says what is wrong with it."""

    def __init__(self, path: Path, trouble: str) -> None:
        super().__init__("FILE", path.name, "a readable safetensors checkpoint")
        self.path, self.trouble = path, trouble
        self.args = (f"cannot read {path.name!r}: {trouble}.",)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading; an error of the device or the file system is raised as BadFile."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as failure:
        raise BadFile(path, f"reading failed ({failure.strerror or failure})") from failure


class Tensor(NamedTuple):
    """Location of a tensor: file, element type, shape, and the range of its bytes."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


class ReadableTensor(Protocol):
    """Tensor of which parts can be converted to double precision."""

    def to_float64(self, part: Any) -> NDArray[np.float64]:
        """Return a part of the tensor, given as an index, in double precision."""


class StoredTensor(NamedTuple):
    """Tensor in memory in the precision of the file; only the parts that are used are converted to float64."""

    values: NDArray[Any]
    dtype: str

    def to_float64(self, part: Any) -> NDArray[np.float64]:
        """Return a part in double precision; the 16 bits of a bfloat16 are the upper half of a float32."""
        values = self.values[part]
        if self.dtype == "BF16":
            values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        with np.errstate(invalid="ignore"):  # values that are not finite are reported later, by the survey
            return np.asarray(values, dtype=np.float64)


@dataclass(frozen=True)
class Checkpoint:
    """Tensors of one or several safetensors files, by name, with the ``config.json`` next to them."""

    path: Path
    tensors: Mapping[str, Tensor]

    @cached_property
    def config(self) -> dict[str, Any]:
        """Contents of the ``config.json`` next to the file; empty if there is none."""
        path = self.path.parent / "config.json"
        if not path.exists():
            return {}
        config = _json(path, read_file(path, CONFIG_LIMIT, partial(BadFile, path)))
        if not isinstance(config, dict):
            raise BadFile(path, "it does not contain a JSON object")
        return config

    def trouble(self, name: str) -> str:
        """Return why a tensor cannot be read, as a phrase to follow its name; empty if it can be read."""
        kind = self.tensors[name].dtype
        return "" if kind in FLOATS else f"is stored as {kind}: quantised weights are not read"

    def missing(self, name: str) -> str:
        """Return the reason given for a tensor that the checkpoint does not have."""
        return f"there is no tensor {quoted(name)}"

    def notes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return notes about these tensors for the report, such as that they were quantised."""
        return ()

    def adapter_rank(self, names: tuple[str, ...]) -> int | None:
        """Return the rank of these tensors if they are low-rank adapters, otherwise None."""
        return None

    def raw(self, name: str) -> ReadableTensor:
        """Return one tensor in the precision of the file."""
        tensor = self.tensors[name]
        if tensor.dtype not in FLOATS:
            raise BadFile(tensor.path, f"{quoted(name)} is stored as {tensor.dtype}, not as a floating-point matrix")
        count = prod(tensor.shape)
        with opened(tensor.path) as file:
            values = np.fromfile(file, dtype=FLOATS[tensor.dtype], count=count, offset=tensor.start)
        if values.size != count:
            raise BadFile(tensor.path, f"it ended inside {quoted(name)}")
        return StoredTensor(values.reshape(tensor.shape), tensor.dtype)

    def read(self, name: str) -> NDArray[np.float64]:
        """Return one tensor in double precision."""
        return self.raw(name).to_float64(...)


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Open a safetensors checkpoint; only the headers of its files are read.

    Parameters
    ----------
    path : str or Path
        A safetensors file, the index of a sharded checkpoint, or a folder with one of them.

    Returns
    -------
    Checkpoint

    Raises
    ------
    InvalidArgument
        If the file does not exist.
    BadFile
        If the file is damaged or of another format, or if the folder has no checkpoint or several.

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
    if not path.name.endswith(INDEX_SUFFIX):
        if path.suffix == ".json":
            raise BadFile(path, f"a JSON file is read only as an index, whose name ends in {INDEX_SUFFIX}")
        return Checkpoint(path, _header(path))
    return Checkpoint(path, _sharded(path))


def _choose(path: Path) -> Path:
    """Return the file itself, or the only checkpoint in a folder."""
    if not os.path.exists(path):  # Path.exists raises for some names
        raise InvalidArgument("FILE", str(path), "a safetensors file, its index or a folder that exists")
    if not path.is_dir():
        return path
    found = sorted(path.glob(f"*{INDEX_SUFFIX}")) or sorted(path.glob("*.safetensors"))
    if not found:
        pickled = sorted(file for suffix in PICKLE_SUFFIXES for file in path.glob(f"*{suffix}"))
        if pickled:
            raise BadFile(path, f"the folder has only {quoted(pickled[0].name)}, a pickle; {_conversion(pickled[0])}")
        raise BadFile(path, "the folder has no safetensors file")
    if len(found) > 1:
        raise BadFile(path, f"the folder has {len(found)} safetensors files; name one of them")
    return found[0]


def _conversion(path: Path, load: str = "torch.load({}, map_location='cpu', weights_only=True)") -> str:
    """Return the lines of Python that convert a checkpoint of PyTorch to safetensors, also one saved on a GPU."""
    state = load.format(quoted(path.name))
    return (
        f"convert it: import torch, safetensors.torch; state = {state}; safetensors.torch.save_file("
        f"{{name: tensor.clone() for name, tensor in state.items()}}, {quoted(path.with_suffix('.safetensors').name)})"
    )


def _refuse_other_formats(path: Path, start: bytes, length: int, size: int) -> None:
    """Raise BadFile for a file of another format that people have, with what to do about it."""
    if start.startswith(b"PK\x03\x04"):
        if TORCHSCRIPT.search(start):
            script = "torch.jit.load({}, map_location='cpu').state_dict()"
            raise BadFile(path, f"it is a TorchScript archive; {_conversion(path, script)}")
        raise BadFile(path, f"it is a zip archive, as pickled checkpoints are; {_conversion(path)}")
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05") and length > size:
        raise BadFile(path, f"it looks like a pickle, which could run any code; {_conversion(path)}")
    if (path.suffix == ".onnx" or ONNX.match(start)) and length > size:
        raise BadFile(
            path,
            "it is an ONNX model; save its weights: import onnx, onnx.numpy_helper, safetensors.numpy; "
            f"model = onnx.load({quoted(path.name)}); safetensors.numpy.save_file({{w.name: "
            f"onnx.numpy_helper.to_array(w) for w in model.graph.initializer}}, "
            f"{quoted(path.with_suffix('.safetensors').name)}), and find their names with --list",
        )


def _header(path: Path) -> dict[str, Tensor]:
    """Return the tensors that the header of a file describes, after checking it."""
    size = checked_size(path, None, partial(BadFile, path))
    with opened(path) as file:
        start = file.read(FORMAT_LENGTH)
        length = int.from_bytes(start[:PREFIX_LENGTH], "little")
        _refuse_other_formats(path, start, length, size)
        file.seek(PREFIX_LENGTH)
        if size < PREFIX_LENGTH + 2:
            raise BadFile(path, f"{size} bytes are too few for a safetensors file")
        if length > size - PREFIX_LENGTH:
            raise BadFile(path, f"its header would have {length:,} bytes, but the file has {size:,}")
        if length > HEADER_LIMIT:
            raise BadFile(path, f"its header has {length:,} bytes, more than the {HEADER_LIMIT:,} that are read")
        text = file.read(length)
    entries = _json(path, text)
    if not isinstance(entries, dict):
        raise BadFile(path, "its header is not a JSON object")
    metadata = entries.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise BadFile(path, "its metadata are not all text")
    data_start = PREFIX_LENGTH + length
    tensors = {name: _tensor(path, name, entry, data_start) for name, entry in entries.items()}
    _check_coverage(path, tensors, data_start, size)
    return tensors


def _tensor(path: Path, name: str, entry: Any, data_start: int) -> Tensor:
    """Return the tensor of one entry of a header, after checking the entry by itself."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise BadFile(path, f"the header entry of {quoted(name)} needs dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise BadFile(path, f"{quoted(name)} has the unknown type {quoted(dtype)}")
    if not _are_counts(shape) or len(shape) > MAX_DIMENSIONS:
        raise BadFile(path, f"{quoted(name)} has the impossible shape {quoted(shape)}")
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise BadFile(path, f"{quoted(name)} has the impossible offsets {quoted(offsets)}")
    if prod(shape) * BITS[dtype] != 8 * (offsets[1] - offsets[0]):
        raise BadFile(path, f"{quoted(name)} of shape {quoted(shape)} and type {dtype} does not fill its bytes exactly")
    return Tensor(path, dtype, tuple(shape), data_start + offsets[0], data_start + offsets[1])


def _are_counts(value: Any) -> bool:
    """Return whether a value is a list of non-negative integers of a size that a file can have."""
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 60 for item in value)


def _check_coverage(path: Path, tensors: dict[str, Tensor], data_start: int, size: int) -> None:
    """Raise BadFile unless the tensors cover the data exactly once: no overlap, no gap, nothing after the last."""
    end = data_start
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].stop)):
        if tensor.start < end:
            raise BadFile(path, f"{quoted(name)} overlaps another tensor")
        if tensor.start > end:
            raise BadFile(path, f"there are {tensor.start - end:,} unused bytes before {quoted(name)}")
        if tensor.stop > size:
            raise BadFile(path, f"{quoted(name)} ends {tensor.stop - size:,} bytes after the file (cut short?)")
        end = tensor.stop
    if end != size:
        raise BadFile(path, f"there are {size - end:,} unused bytes after the last tensor")


def _sharded(path: Path) -> dict[str, Tensor]:
    """Return the tensors of all shards that an index names; the shards must be in the folder of the index."""
    index = _json(path, read_file(path, HEADER_LIMIT, partial(BadFile, path)))
    names = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(names, dict) or not names:
        raise BadFile(path, "it has no weight_map")
    for shard in names.values():
        if not isinstance(shard, str) or not shard.endswith(".safetensors") or set(shard) & set("/\\\0"):
            raise BadFile(path, f"its shard {quoted(shard)} is not the plain name of a safetensors file in its folder")
    headers: dict[str, dict[str, Tensor]] = {}
    for shard in dict.fromkeys(names.values()):
        shard_path = path.parent / shard
        if not shard_path.exists():
            raise BadFile(path, f"its shard {quoted(shard)} is missing")
        headers[shard] = _header(shard_path)
    for name, shard in names.items():
        if name not in headers[shard]:
            raise BadFile(path, f"{quoted(name)} is not in its shard {quoted(shard)}")
    return {name: headers[shard][name] for name, shard in names.items()}


def _json(path: Path, text: bytes) -> Any:
    """Parse strict JSON: no NaN, no repeated keys, no deep nesting."""
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except RecursionError:
        trouble = "its JSON is nested too deeply"
    except UnicodeDecodeError:
        trouble = "its JSON is not UTF-8 text"
    except ValueError as failure:
        trouble = f"its JSON is broken ({failure})"
    raise BadFile(path, trouble)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {quoted(key)} occurs twice")
        found[key] = value
    return found


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
