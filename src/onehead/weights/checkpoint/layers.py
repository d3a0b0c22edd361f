"""Attention layers of a checkpoint: which tensors they consist of, and the weights of their heads."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.sanitize import quoted
from onehead.weights.checkpoint.layouts import (
    ALLOWED,
    FALCON_MODELS,
    LAYOUTS,
    Layout,
    Order,
    pytorch_layout,
    spelled_layout,
)
from onehead.weights.checkpoint.reader import Checkpoint, ReadableTensor, Tensor

Array = NDArray[np.float64]

ARGUMENTS = {"heads": "head_count", "kv_heads": "kv_head_count", "head_dim": "head_dim"}  # fields of Counts -> `survey`
CROSS_ATTENTION = ("crossattention", "cross_att", "encoder_attn", "encdecattention", "multihead_attn", "enc_dec")
MAX_ADAPTER_ENTRIES = 1 << 24  # of the matrix of a head, which two thin factors could make larger than the memory
# of one layer: the largest models have 128 heads, and every head costs a millisecond whatever its size
LARGEST_COUNTS = {"heads": 4096, "kv_heads": 4096, "head_dim": 100_000}


class Counts(NamedTuple):
    """Query heads H, key heads K and head dimension p as given by the user; None for those not given."""

    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None


@dataclass(frozen=True)
class Layer:
    """One attention module: its location, tensors and counts, and the ``reason`` if it cannot be read."""

    module: str
    layer: int
    layout: Layout
    heads: int
    reason: str = ""
    names: tuple[str, ...] = ()
    kv_heads: int = 0
    head_dim: int = 0
    hidden: int = 0
    notes: tuple[str, ...] = ()
    adapter_rank: int | None = None
    stack: str = ""

    @property
    def attention(self) -> str:
        """Kind of attention, by the name of the module: cross, from one sequence to another, or self."""
        return "cross" if any(part in self.module.lower() for part in CROSS_ATTENTION) else "self"

    def load(self, checkpoint: Checkpoint) -> tuple[ReadableTensor, ...]:
        """Read the tensors of this layer in the precision of the file."""
        return tuple(checkpoint.raw(name) for name in self.names)

    def key_head(self, head: int) -> int:
        """Return the key head that a query head uses."""
        return head // (self.heads // self.kv_heads)

    def factors(self, tensors: tuple[ReadableTensor, ...], head: int) -> tuple[Array, Array]:
        """Return W_Q and W_K of one query head, each head_dim x hidden, from the tensors of the layer."""
        query, key, _ = self._starts(head)
        return self._rows(tensors[0], query), self._rows(tensors[-1], key)

    def value_tensors(self, checkpoint: Checkpoint) -> tuple[ReadableTensor, ReadableTensor] | None:
        """Return the tensors of values and outputs; None if the checkpoint does not have them, or not as matrices."""
        names = [
            self.stack + name.replace("{layer}", str(self.layer)) for name in (self.layout.value, self.layout.output)
        ]
        value, output = names[0] if self.layout.value else self.names[-1], names[1]
        if self.reason or not self.layout.output or self.adapter_rank or _trouble(checkpoint, (value, output)):
            return None
        if self.layout.order == "separate" and not self.layout.value:
            return None
        turn = -1 if self.layout.transposed else 1
        rows, inputs = (checkpoint.tensors[value].shape[::turn][0], checkpoint.tensors[output].shape[::turn][1])
        needed = self._starts(self.heads - 1)[2] + self.head_dim
        if rows != needed or inputs != self.heads * self.head_dim:
            return None  # values of another dimension than queries
        return checkpoint.raw(value), checkpoint.raw(output)

    def value_factors(self, tensors: tuple[ReadableTensor, ReadableTensor], head: int) -> tuple[Array, Array]:
        """Return W_V (head_dim x hidden) and W_O (hidden x head_dim) of one head."""
        columns = slice(head * self.head_dim, (head + 1) * self.head_dim)
        output = (
            tensors[1].to_float64(columns).T
            if self.layout.transposed
            else tensors[1].to_float64((slice(None), columns))
        )
        return self._rows(tensors[0], self._starts(head)[2]), output

    def _starts(self, head: int) -> tuple[int, int, int]:
        """Return the first rows of query, key and value of one head in their tensors."""
        p, group = self.head_dim, self.key_head(head)
        if self.layout.order == "interleaved":
            share = self.heads // self.kv_heads
            base = group * (share + 2) * p
            return base + (head % share) * p, base + share * p, base + (share + 1) * p
        before = {"sections": self.heads, "query-kv": 0}.get(self.layout.order)  # heads before the first key
        if before is None:
            return head * p, group * p, group * p
        return head * p, (before + group) * p, (before + self.kv_heads + group) * p

    def _rows(self, tensor: ReadableTensor, start: int) -> Array:
        """Return ``head_dim`` output rows from ``start`` on; the tensor may be stored (in, out)."""
        rows = slice(start, start + self.head_dim)
        return tensor.to_float64((slice(None), rows)).T if self.layout.transposed else tensor.to_float64(rows)


def find_layers(
    checkpoint: Checkpoint, layout: str | Sequence[str] | None = None, counts: Counts | None = None
) -> list[Layer]:
    """Return all attention layers of a checkpoint, ordered by stack and layer; several layouts may be given."""
    counts = counts or Counts()
    for kind, value in counts._asdict().items():
        if value is not None and not 1 <= value <= LARGEST_COUNTS[kind]:
            raise InvalidArgument(ARGUMENTS[kind], value, f"an integer from 1 to {LARGEST_COUNTS[kind]}")
    wanted = (layout,) if isinstance(layout, str) else tuple(layout or ())
    matches = [match for text in wanted for match in _match_spelled(checkpoint, text)]
    if not wanted and not (matches := list(_match_known(checkpoint))):
        raise InvalidArgument(
            "layout",
            None,
            f"given, since none of the {_described(checkpoint)} has a name of any known layout: {ALLOWED}",
        )
    layers = [_layer(checkpoint, found, stack, number, counts) for found, stack, number in matches]
    return sorted(layers, key=lambda layer: (layer.module.count("."), re.sub(r"\d+", "", layer.module), layer.layer))


Match = tuple[Layout, str, int]


def _matches(checkpoint: Checkpoint, layout: Layout) -> Iterator[Match]:
    pattern = layout.pattern
    for name in checkpoint.tensors:
        match = pattern.match(name)
        if match:
            yield layout, match["stack"], int(match["layer"])


def _described(checkpoint: Checkpoint) -> str:
    """Return the number of tensors and an example, for a message."""
    count = len(checkpoint.tensors)
    return f"{count} tensors" + (f" (for example {quoted(next(iter(checkpoint.tensors)))})" if count else "")


def _match_spelled(checkpoint: Checkpoint, text: str) -> list[Match]:
    """Match a layout given by the user, or raise InvalidArgument if no tensor has its name."""
    layout = spelled_layout(text)
    matches = list(_matches(checkpoint, layout))
    if layout.name == "torch":
        matches = _pytorch_matches(checkpoint)
    if matches:
        return matches
    longer = replace(layout, tensors=tuple(f"{name}.weight" for name in layout.tensors))
    hint = "; the names in the file end in '.weight'" if any(_matches(checkpoint, longer)) else ""
    allowed = f"a layout of this file, but none of the {_described(checkpoint)} has such a name{hint}"
    raise InvalidArgument("layout", text, f"{allowed}; --list shows the tensors that look like attention")


def _pytorch_matches(checkpoint: Checkpoint) -> list[Match]:
    """Match the fused tensors of PyTorch's attention, whatever their modules are called."""
    found = (pytorch_layout(name) for name in checkpoint.tensors)
    return [(layout, "", number) for layout, number in filter(None, found)]


def _match_known(checkpoint: Checkpoint) -> Iterator[Match]:
    """Match all known layouts; of two with the same names, such as BLOOM and Falcon, the first is taken."""
    matched: set[tuple[str, str, int]] = set()
    latent: set[tuple[str, int]] = set()
    for layout in LAYOUTS:
        by_name = _pytorch_matches(checkpoint) if layout.name == "torch" else _matches(checkpoint, layout)
        for found, stack, number in by_name:
            module = (found.tensors[0], stack, number)
            if module in matched or (stack, number) in latent:
                continue
            model = _section(checkpoint.config, stack).get("model_type", checkpoint.config.get("model_type"))
            if not layout.allows(model):
                if any(other.tensors == layout.tensors and other.allows(model) for other in LAYOUTS):
                    continue
                raise InvalidArgument(
                    "layout", None,
                    f"given: names like {found.tensors[0]!r} look like '{layout.name}', but config.json says "
                    f"model_type {str(model)[:40]!r}, which is not known to use this layout",
                )  # fmt: skip
            matched.add(module)
            if layout.order == "latent":
                latent.add((stack, number))  # its query tensor may have the name of an ordinary one
            yield found, stack, number


def recognised(checkpoint: Checkpoint) -> dict[str, str]:
    """Return the names of the layouts that are recognised, by the name of the query or fused tensor."""
    try:
        matches = list(_match_known(checkpoint))
    except InvalidArgument:  # a model that is not known to use the layout of its names: nothing is recognised
        return {}
    return {
        stack + layout.tensors[0].replace("{layer}", str(number)): layout.name
        for layout, stack, number in matches
        if layout.order != "latent"
    }


def _section(config: dict[str, Any], stack: str) -> dict[str, Any]:
    """Return the part of a config that describes one stack of layers."""
    keys = ("vision_config",) if "vision" in stack else ("text_config", "llm_config")
    for key in keys:
        part = config.get(key)
        if isinstance(part, dict):
            return part
    return config


def _layer(checkpoint: Checkpoint, layout: Layout, stack: str, number: int, counts: Counts) -> Layer:
    """Return one layer with its counts, after checking names, types and shapes of its tensors."""
    names = tuple(stack + name.replace("{layer}", str(number)) for name in layout.tensors)
    module = names[0].removesuffix(".weight").rsplit(".", 1)[0]
    layout = _gpt2_or_nanogpt(layout, checkpoint.tensors[names[0]])
    config = _section(checkpoint.config, stack)
    heads, kv_heads, head_dim = (_count(config, counts, kind) for kind in Counts._fields)
    if heads is None and layout.order == "latent":
        heads = 0  # such a layer is refused below; it has one row with the reason
    if heads is None:
        missing = InvalidArgument("head_count", None, "given")
        missing.args = (
            f"head_count must be given: neither the file nor a config.json next to it says how many heads share "
            f"{quoted(names[0])}.",
        )
        raise missing
    source = "head_count" if counts.heads else "heads in config.json"
    _check_head_count(checkpoint.tensors[names[0]], names[0], layout, heads, source)
    layer = Layer(module, number, layout, heads, stack=stack)
    reason = layout.note if layout.order == "latent" else _trouble(checkpoint, names)
    if reason:
        return replace(layer, reason=reason)
    shapes = [checkpoint.tensors[name].shape[:: -1 if layout.transposed else 1] for name in names]
    try:
        kv_heads, head_dim, hidden = _fit(layout.order, shapes, heads, kv_heads, head_dim)
    except ValueError as failure:
        return replace(layer, reason=f"{quoted(names[0])}: {failure}")
    adapter = checkpoint.adapter_rank(names)
    if adapter is not None and head_dim * hidden > MAX_ADAPTER_ENTRIES:
        return replace(
            layer, reason=f"{quoted(names[0])} makes heads of {head_dim} x {hidden}, too large for an adapter"
        )
    notes = (*_notes(checkpoint, layout, module, names), *checkpoint.notes(names))
    return replace(
        layer,
        names=names,
        kv_heads=kv_heads,
        head_dim=head_dim,
        hidden=hidden,
        notes=notes,
        adapter_rank=adapter,
    )


def _gpt2_or_nanogpt(layout: Layout, tensor: Tensor) -> Layout:
    """Return the layout, with GPT-2 and nanoGPT told apart by shape.

    GPT-2 stores ``c_attn`` (in, out), nanoGPT (out, in) under the same name; the longer side is the output.
    """
    named = {found.name: found for found in LAYOUTS}
    if layout.name in ("gpt2", "nanogpt") and len(tensor.shape) == 2 and tensor.shape[0] != tensor.shape[1]:
        return named["nanogpt" if tensor.shape[0] > tensor.shape[1] else "gpt2"]
    return layout


def _check_head_count(tensor: Tensor, name: str, layout: Layout, heads: int, source: str) -> None:
    """Raise InvalidArgument for more heads than the query has rows, before a report is made for each of them."""
    matrix = len(tensor.shape) == 2 and layout.order != "latent"
    rows = tensor.shape[1 if layout.transposed else 0] if matrix else prod(tensor.shape)
    if heads > max(rows, 1):
        raise InvalidArgument(source, heads, f"at most {rows}, the rows of {quoted(name)}")


CONFIG_KEYS = {
    "heads": ("num_attention_heads", "n_head", "num_heads", "n_heads", "encoder_attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv"),
    "head_dim": ("head_dim",),
}


def _count(config: dict[str, Any], counts: Counts, kind: str) -> int | None:
    """Return a count given by the user or by the config, which must not contradict each other."""
    given, found = getattr(counts, kind), _count_in_config(config, kind)
    if found is not None and (type(found) is not int or not 1 <= found <= LARGEST_COUNTS[kind]):
        raise InvalidArgument(f"{kind} in config.json", str(found)[:60], f"an integer from 1 to {LARGEST_COUNTS[kind]}")
    if given is not None and found is not None and given != found:
        raise InvalidArgument(ARGUMENTS[kind], given, f"{found}, as config.json says")
    return given if given is not None else found


def _count_in_config(config: dict[str, Any], kind: str) -> Any:
    """Return a count from the config; for a Falcon ``num_kv_heads`` holds only in the new decoder architecture."""
    if kind == "kv_heads" and config.get("model_type") in FALCON_MODELS.split():
        if config.get("new_decoder_architecture"):
            return config.get("num_kv_heads", config.get("n_head_kv"))
        if config.get("multi_query", True):
            return 1
        kind = "heads"
    return next((config[key] for key in CONFIG_KEYS[kind] if config.get(key) is not None), None)


def _trouble(checkpoint: Checkpoint, names: Sequence[str]) -> str:
    """Return why the tensors of a layer cannot be used, whatever their sizes; empty if they can."""
    for name in names:
        if name not in checkpoint.tensors:
            return checkpoint.missing(name)
        tensor = checkpoint.tensors[name]
        if why := checkpoint.trouble(name):
            return f"{quoted(name)} {why}"
        if len(tensor.shape) != 2 or min(tensor.shape) < 1:
            return f"{quoted(name)} has shape {tensor.shape}, not that of a matrix"
    return ""


def _fit(
    order: Order, shapes: list[tuple[int, ...]], heads: int, kv_heads: int | None, head_dim: int | None
) -> tuple[int, int, int]:
    """Return (key heads, head dimension, hidden) that account for every row of the matrices, or raise ValueError.

    Separate tensors have H p and K p rows, the fused tensor of keys and values 2 K p, that of all three (H + 2 K) p.
    Counts that are not given must follow from the rows.
    """
    rows, hidden = shapes[0]
    if order in ("separate", "query-kv"):
        other, width = shapes[1]
        if order == "query-kv":
            other = _divided(other, 2, "rows of keys and values", "key and value")
        if width != hidden:
            raise ValueError(f"query and key read inputs of different size, {hidden} and {width}")
        p = head_dim or _divided(rows, heads, "query rows", "heads")
        groups = kv_heads or _divided(other, p, "key rows", "the head dimension")
        if rows != heads * p or other != groups * p:
            raise ValueError(
                f"{rows} query rows and {other} key rows are not {heads} and {groups} heads of dimension {p}"
            )
    else:
        if head_dim is None and kv_heads is None:
            # hidden = H p in every fused family; a different head dimension must be given
            p = _divided(hidden, heads, "hidden size", "heads")
        else:
            p = head_dim or _divided(rows, heads + 2 * (kv_heads or heads), "fused rows", "query, key and value heads")
        groups = kv_heads or (_divided(rows, p, "fused rows", "the head dimension") - heads) // 2
        if groups < 1:
            raise ValueError(f"{rows} fused rows are too few for {heads} query heads of dimension {p} and their keys")
        if rows != (heads + 2 * groups) * p:
            raise ValueError(
                f"{rows} fused rows are not {heads} query and 2 x {groups} key and value heads of dimension {p}"
            )
    if heads % groups:
        raise ValueError(f"{heads} query heads cannot share {groups} key heads evenly")
    return groups, p, hidden


def _divided(total: int, parts: int, what: str, by: str) -> int:
    if total % parts:
        raise ValueError(f"{total} {what} cannot be divided by {parts} ({by})")
    return total // parts


def _notes(checkpoint: Checkpoint, layout: Layout, module: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return notes on what the map of a head leaves out."""
    notes = [layout.note] if layout.note else []
    if any(name.removesuffix("weight") + "bias" in checkpoint.tensors for name in names):
        notes.append("query and key biases are ignored")
    norms = ("q_norm", "k_norm", "q_layernorm", "k_layernorm", "query_norm", "key_norm")
    if any(f"{module}.{norm}.weight" in checkpoint.tensors for norm in norms):
        notes.append("the normalisation of queries and keys is ignored")
    return tuple(notes)
