"""Opening of checkpoints from a file, a folder or a mapping of arrays, with names and adapters normalised.

* A ``state_dict`` or any other mapping of names to arrays may hold numpy arrays and PyTorch tensors; PyTorch is not
  imported.
* The prefixes ``_orig_mod.`` and ``module.`` of compiled and distributed models are removed from names.
* Low-rank adapters (LoRA) are read as the matrix B A, under the name of the matrix that they adapt.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.sanitize import quoted
from onehead.weights.checkpoint.gguf import MAGIC, open_gguf
from onehead.weights.checkpoint.reader import (
    BadFile,
    Checkpoint,
    ReadableTensor,
    StoredTensor,
    Tensor,
    open_checkpoint,
    opened,
)

Source = str | os.PathLike[str] | Mapping[str, Any] | Checkpoint

WRAPPER_PREFIX = re.compile(r"(?:^|(?<=\.))_orig_mod\.|^(?:module\.)+")
LORA_NAME = re.compile(r"^(?:base_model\.model\.)?(?P<name>.+)\.lora_(?P<side>[AB])(?:\.[^.]+)?\.weight$", re.DOTALL)


@dataclass(frozen=True)
class Arrays(Checkpoint):
    """Checkpoint of arrays in memory, by name."""

    arrays: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """Empty: a mapping of arrays has no configuration."""
        return {}

    def trouble(self, name: str) -> str:
        """Return why an array cannot be used as weights; empty if it can."""
        kind = self.tensors[name].dtype
        return "" if kind == "F64" else f"has elements of type {kind}, not floating-point numbers"

    def raw(self, name: str) -> ReadableTensor:
        """Return one array in double precision."""
        try:
            return StoredTensor(np.asarray(_as_numpy(self.arrays[name]), dtype=np.float64), "F64")
        except (TypeError, ValueError) as failure:
            raise InvalidArgument(f"the array {quoted(name)}", type(self.arrays[name]).__name__, "numbers") from failure


def _as_numpy(value: Any) -> Any:
    """Return a value that numpy can read; PyTorch tensors are detached, and converted if numpy lacks their type."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    try:
        return value.numpy()
    except TypeError:  # bfloat16
        return value.float().numpy()


def _element_type(value: Any) -> str:
    """Return F64 for floating-point numbers of any precision, otherwise the name of the element type."""
    text = str(getattr(value, "dtype", np.asarray(value).dtype)).removeprefix("torch.")
    return "F64" if re.fullmatch(r"(?:b?float\d*)|half|double", text) else text


def _from_arrays(found: Mapping[str, Any]) -> Arrays:
    """Return a mapping as a checkpoint; entries that are not arrays (versions, counters) are ignored."""
    arrays = {name: value for name, value in found.items() if isinstance(name, str) and hasattr(value, "shape")}
    if not arrays:
        raise InvalidArgument("the mapping", f"{len(found)} entries", "names with arrays, such as model.state_dict()")
    path = Path(f"a mapping of {len(arrays)} arrays")
    shapes = {
        name: Tensor(path, _element_type(value), tuple(int(n) for n in value.shape), 0, 0)
        for name, value in arrays.items()
    }
    return Arrays(path, shapes, arrays)


@dataclass(frozen=True)
class Adapter(Checkpoint):
    """Checkpoint ``inner`` with its low-rank adapters as matrices B A.

    ``pairs`` maps the name of each product to the names of A (rank x in) and B (out x rank).
    """

    inner: Checkpoint = field(kw_only=True)
    pairs: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """Configuration of the checkpoint that holds the adapters."""
        return self.inner.config

    def trouble(self, name: str) -> str:
        """Return why a tensor, or a factor of an adapter, cannot be read; empty if it can."""
        if name not in self.pairs:
            return self.inner.trouble(name)
        return next((f"{quoted(part)} {why}" for part in self.pairs[name] if (why := self.inner.trouble(part))), "")

    def adapter_rank(self, names: tuple[str, ...]) -> int | None:
        """Return the smallest rank of the adapters among these tensors, or None if there are none."""
        ranks = [self.inner.tensors[self.pairs[name][0]].shape[0] for name in names if name in self.pairs]
        return min(ranks) if ranks else None

    def notes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return a note if these tensors are adapters."""
        rank = self.adapter_rank(names)
        return (f"the product of adapters of rank {rank} alone, without the weights they are added to",) if rank else ()

    def missing(self, name: str) -> str:
        """Return the reason given for a tensor that no adapter changes."""
        return f"no adapter changes {quoted(name)}; only heads with an adapter on both query and key are measured"

    def raw(self, name: str) -> ReadableTensor:
        """Return one tensor, an adapter as the product B A."""
        if name not in self.pairs:
            return self.inner.raw(name)
        A, B = (self.inner.raw(part).to_float64(...) for part in self.pairs[name])
        return _LowRankProduct(B, A)


class _LowRankProduct(NamedTuple):
    """Product B A of which only the requested rows and columns are computed."""

    B: NDArray[np.float64]
    A: NDArray[np.float64]

    def to_float64(self, part: Any) -> NDArray[np.float64]:
        """Return some rows, or some columns of all rows."""
        rows, columns = part if isinstance(part, tuple) else (part, slice(None))
        with np.errstate(all="ignore"):  # values that are not finite are reported later, by the survey
            return np.asarray(self.B[rows] @ self.A[:, columns])


def _with_adapters(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint in which low-rank adapters, if there are any, appear as matrices."""
    sides: dict[str, dict[str, str]] = {}
    for name in checkpoint.tensors:
        if match := LORA_NAME.match(name):
            sides.setdefault(f"{match['name']}.weight", {})[match["side"]] = name
    if not sides:
        return checkpoint
    tensors, pairs = dict(checkpoint.tensors), {}
    for name, found in sides.items():
        if name in tensors or set(found) != {"A", "B"}:
            continue
        A, B = (checkpoint.tensors[found[side]] for side in "AB")
        if len(A.shape) != 2 or len(B.shape) != 2 or A.shape[0] != B.shape[1]:
            raise InvalidArgument(
                "FILE",
                str(B.shape),
                f"an adapter whose {quoted(found['B'])} fits {quoted(found['A'])} of shape {A.shape}",
            )
        tensors[name], pairs[name] = Tensor(A.path, "F64", (B.shape[0], A.shape[1]), 0, 0), (found["A"], found["B"])
    return Adapter(checkpoint.path, tensors, pairs, inner=checkpoint)


def open_source(source: Source) -> Checkpoint:
    """Open a checkpoint from a file, a folder or a mapping of names to arrays; an open checkpoint is returned as it is.

    Examples
    --------
    >>> open_source({"_orig_mod.h.0.attn.c_attn.weight": np.zeros((4, 12))}).tensors.keys()
    dict_keys(['h.0.attn.c_attn.weight'])
    """
    if isinstance(source, Checkpoint):
        return source
    if isinstance(source, Mapping):
        names = _without_prefixes(source, Path("the mapping"))
        return _with_adapters(_from_arrays({names.get(name, name): value for name, value in source.items()}))
    if not isinstance(source, (str, os.PathLike)):
        raise InvalidArgument("path", source, "a file, a folder, or a mapping of names to arrays")
    path = Path(source)
    opened = open_gguf(path) if _is_gguf(path) else open_checkpoint(path)
    names = _without_prefixes(opened.tensors, opened.path)
    if type(opened) is Checkpoint and any(name != new for name, new in names.items()):
        opened = Checkpoint(opened.path, {names[name]: tensor for name, tensor in opened.tensors.items()})
    return _with_adapters(opened)


def _is_gguf(path: Path) -> bool:
    """Return whether a regular file begins with the letters GGUF or has the suffix .gguf."""
    if not path.is_file():
        return False
    with opened(path) as file:
        return file.read(4) == MAGIC or path.suffix == ".gguf"


def _without_prefixes(found: Mapping[Any, Any], path: Path) -> dict[str, str]:
    """Return the names without the prefixes of model wrappers, or raise BadFile if two names become equal."""
    names = {name: WRAPPER_PREFIX.sub("", name) for name in found if isinstance(name, str)}
    if len(set(names.values())) < len(names):
        taken = next(name for name, new in names.items() if new != name and new in found)
        raise BadFile(path, f"{quoted(taken)} occurs with and without the prefix of a model wrapper")
    return names
