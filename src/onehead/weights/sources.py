"""Whatever people have: a file, a folder, or a mapping of arrays; names and adapters put in order.

* ``state_dict`` and every other mapping of names to arrays: anything numpy understands, and tensors of PyTorch, which is not imported.
* ``_orig_mod.`` and ``module.``, which compiled and distributed models put into names, are taken out.
* Low-rank adapters (LoRA) are read as matrices of their own, B A, under the name of what they adapt.
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
from onehead.text import quoted
from onehead.weights.gguf import MAGIC, open_gguf
from onehead.weights.reader import BadFile, Checkpoint, Raw, Tensor, Widens, open_checkpoint

__all__ = ["Adapter", "Arrays", "Source", "open_source"]

Source = str | os.PathLike[str] | Mapping[str, Any] | Checkpoint

WRAPPED = re.compile(r"(?:^|(?<=\.))_orig_mod\.|^(?:module\.)+")
LORA = re.compile(r"^(?:base_model\.model\.)?(?P<name>.+)\.lora_(?P<side>[AB])(?:\.[^.]+)?\.weight$", re.DOTALL)


@dataclass(frozen=True)
class Arrays(Checkpoint):
    """Arrays in memory, by name."""

    arrays: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """Arrays say nothing of heads."""
        return {}

    def trouble(self, name: str) -> str:
        """Why an array is none of weights."""
        kind = self.tensors[name].dtype
        return "" if kind == "F64" else f"has elements of type {kind}, not floating-point numbers"

    def raw(self, name: str) -> Widens:
        """One array in double precision."""
        try:
            return Raw(np.asarray(_array(self.arrays[name]), dtype=np.float64), "F64")
        except (TypeError, ValueError) as failure:
            raise InvalidArgument(f"the array {quoted(name)}", type(self.arrays[name]).__name__, "numbers") from failure


def _array(value: Any) -> Any:
    """What numpy can read: a tensor of PyTorch is detached first, and widened if numpy does not know its type."""
    if not hasattr(value, "detach"):
        return value
    value = value.detach().cpu()
    try:
        return value.numpy()
    except TypeError:  # bfloat16
        return value.float().numpy()


def _kind(value: Any) -> str:
    """F64 for every kind of floating-point number, else the name of the type."""
    text = str(getattr(value, "dtype", np.asarray(value).dtype)).removeprefix("torch.")
    return "F64" if re.fullmatch(r"(?:b?float\d*)|half|double", text) else text


def _of_arrays(found: Mapping[str, Any]) -> Arrays:
    """A mapping as a checkpoint; other values than arrays (versions, counters) are left aside."""
    arrays = {name: value for name, value in found.items() if isinstance(name, str) and hasattr(value, "shape")}
    if not arrays:
        raise InvalidArgument("the mapping", f"{len(found)} entries", "names with arrays, such as model.state_dict()")
    path = Path(f"a mapping of {len(arrays)} arrays")
    shapes = {
        name: Tensor(path, _kind(value), tuple(int(n) for n in value.shape), 0, 0) for name, value in arrays.items()
    }
    return Arrays(path, shapes, arrays)


@dataclass(frozen=True)
class Adapter(Checkpoint):
    """Low-rank adapters of a checkpoint as matrices: ``pairs`` are the names of A (rank x in) and B (out x rank)."""

    inner: Checkpoint = field(kw_only=True)
    pairs: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """That of the checkpoint."""
        return self.inner.config

    def trouble(self, name: str) -> str:
        """Why one of both factors cannot be read."""
        if name not in self.pairs:
            return self.inner.trouble(name)
        return next((f"{quoted(part)} {why}" for part in self.pairs[name] if (why := self.inner.trouble(part))), "")

    def adapter_rank(self, names: tuple[str, ...]) -> int | None:
        """The rank of a product of adapters."""
        ranks = [self.inner.tensors[self.pairs[name][0]].shape[0] for name in names if name in self.pairs]
        return min(ranks) if ranks else None

    def notes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """That it is an adapter's own product."""
        rank = self.adapter_rank(names)
        return (f"the product of adapters of rank {rank} alone, without the weights they are added to",) if rank else ()

    def missing(self, name: str) -> str:
        """Why there is no such tensor."""
        return f"no adapter changes {quoted(name)}, and without both query and key there is no product of the adapter's own"

    def raw(self, name: str) -> Widens:
        """B A."""
        if name not in self.pairs:
            return self.inner.raw(name)
        A, B = (self.inner.raw(part).widen(...) for part in self.pairs[name])
        return _Thin(B, A)


class _Thin(NamedTuple):
    """B A, of which only the part that is asked for is made."""

    B: NDArray[np.float64]
    A: NDArray[np.float64]

    def widen(self, part: Any) -> NDArray[np.float64]:
        """Some rows, or some columns of all rows."""
        rows, columns = part if isinstance(part, tuple) else (part, slice(None))
        with np.errstate(all="ignore"):  # what is not finite is found later
            return np.asarray(self.B[rows] @ self.A[:, columns])


def _adapted(checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint whose adapters, if it has any, are matrices."""
    sides: dict[str, dict[str, str]] = {}
    for name in checkpoint.tensors:
        if match := LORA.match(name):
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
    """A checkpoint of whatever people have.

    Examples
    --------
    >>> open_source({"_orig_mod.h.0.attn.c_attn.weight": np.zeros((4, 12))}).tensors.keys()
    dict_keys(['h.0.attn.c_attn.weight'])
    """
    if isinstance(source, Checkpoint):
        return source
    if isinstance(source, Mapping):
        names = _unwrapped(source, Path("the mapping"))
        return _adapted(_of_arrays({names.get(name, name): value for name, value in source.items()}))
    if not isinstance(source, (str, os.PathLike)):
        raise InvalidArgument("path", source, "a file, a folder, or a mapping of names to arrays")
    path = Path(source)
    opened = open_gguf(path) if _is_gguf(path) else open_checkpoint(path)
    names = _unwrapped(opened.tensors, opened.path)
    if type(opened) is Checkpoint and any(name != new for name, new in names.items()):
        opened = Checkpoint(opened.path, {names[name]: tensor for name, tensor in opened.tensors.items()})
    return _adapted(opened)


def _is_gguf(path: Path) -> bool:
    """Whether a regular file begins like one, or is called one."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == MAGIC or path.suffix == ".gguf"


def _unwrapped(found: Mapping[Any, Any], path: Path) -> dict[str, str]:
    """Names without what wrappers of a model add; two may not become one."""
    names = {name: WRAPPED.sub("", name) for name in found if isinstance(name, str)}
    if len(set(names.values())) < len(names):
        taken = next(name for name, new in names.items() if new != name and new in found)
        raise BadFile(path, f"{quoted(taken)} is there with and without the prefix of a wrapper")
    return names
