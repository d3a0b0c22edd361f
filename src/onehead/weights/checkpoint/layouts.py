"""Layouts: how known model families store the query and key weights of their heads.

Layouts are recognised by the names and shapes of tensors and never guessed. A stored matrix is (out, in) unless its
layout says transposed. With H query heads, K key heads (groups) and head dimension p, the rows of one layer are

    separate     query (H, p), key (K, p), each its own tensor
    sections     one tensor, all queries, then all keys, then all values
    interleaved  one tensor (K, H/K + 2, p): for each group its queries, its key, its value

and query head h belongs to key head h // (H/K). Multi-query attention has K = 1, ordinary attention K = H.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.sanitize import quoted
from onehead.weights.checkpoint.reader import Checkpoint, ReadableTensor, Tensor

__all__ = ["LAYOUTS", "Counts", "Layer", "Layout", "find_layers"]

Array = NDArray[np.float64]
Order = Literal["separate", "sections", "interleaved", "latent"]


@dataclass(frozen=True)
class Layout:
    """How one family of models names and stores its query and key weights, an element of `LAYOUTS`.

    Attributes
    ----------
    name : str
        Name of the layout, as in the argument ``layout`` of `survey`.
    order : str
        Order of the rows: separate, sections, interleaved, or latent (which has no map per head).
    tensors : tuple of str
        Names of the query and the key tensor, or of the one that holds both, with ``{layer}`` in place of the number.
    stack : str
        Regular expression of the prefixes that these names may have.
    models : str
        Model types known to use the layout, separated by spaces; empty for any.
    note : str
        What the map of a head leaves out.
    transposed : bool
        Whether matrices are stored (in, out).
    """

    name: str
    order: Order
    tensors: tuple[str, ...]
    stack: str = r"(?:\w+\.)*?"
    models: str = ""
    note: str = ""
    transposed: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        """Regular expression of the name of the query (or fused) tensor, with groups ``stack`` and ``layer``."""
        before, after = (re.escape(part) for part in self.tensors[0].split("{layer}"))
        return re.compile(rf"^(?P<stack>{self.stack}){before}(?P<layer>0|[1-9]\d{{0,5}}){after}$", re.ASCII)

    def allows(self, model: object) -> bool:
        """Return whether a checkpoint of this model type, None if unknown, may have the layout."""
        return model is None or not self.models or model in self.models.split()


def _query_and_key(name: str, query: str, key: str) -> tuple[str, str]:
    """Return the names of the query and the key tensor, with ``query`` and ``key`` in place of the asterisk."""
    return name.replace("*", query), name.replace("*", key)


_GPT = r"(?:transformer\.)?"
_MODEL = r"(?:model\.)?"
_LANGUAGE = r"(?:(?:model|language_model|text_model|base_model|llm|transformer)\.)*"
_TOWER = r"(?:\w+\.)*(?:vision_model|text_model)\."
_ROTARY = "rotary position factors are not applied"
_ALIBI = "the linear position bias (ALiBi) is not applied"
_FALCON = "falcon RefinedWeb RefinedWebModel"

# in the order in which they are tried; a checkpoint whose config.json has another model_type than those listed is
# refused
LAYOUTS = (
    Layout("deepseek", "latent", ("layers.{layer}.self_attn.kv_a_proj_with_mqa.weight",),
           note="latent attention (kv_a_proj_with_mqa): query and key share a compressed space and a rotary part, "
           "so a head has no fixed map W_Q'W_K of its own"),
    Layout("bert", "separate", _query_and_key("encoder.layer.{layer}.attention.self.*.weight", "query", "key"),
           models="bert roberta xlm-roberta camembert electra mpnet layoutlm ernie"),
    Layout("vit", "separate", _query_and_key("encoder.layer.{layer}.attention.attention.*.weight", "query", "key"),
           models="vit deit vit_mae vit_msn dinov2 beit dpt yolos audio-spectrogram-transformer"),
    Layout("distilbert", "separate", _query_and_key("transformer.layer.{layer}.attention.*_lin.weight", "q", "k"),
           models="distilbert"),
    Layout("clip", "separate", _query_and_key("encoder.layers.{layer}.self_attn.*_proj.weight", "q", "k"), _TOWER,
           "clip clip_vision_model clip_text_model siglip siglip_vision_model siglip_text_model "
           "llava llava_next gemma3 paligemma mistral3"),
    Layout("opt", "separate", _query_and_key("decoder.layers.{layer}.self_attn.*_proj.weight", "q", "k"), _MODEL,
           "opt"),
    Layout("llama", "separate", _query_and_key("layers.{layer}.self_attn.*_proj.weight", "q", "k"), _LANGUAGE,
           "llama mistral mixtral qwen2 qwen2_moe qwen3 qwen3_moe gemma gemma2 gemma3 gemma3_text phi phimoe stablelm "
           "starcoder2 olmo olmo2 cohere cohere2 granite smollm3 llava llava_next paligemma mistral3 exaone4 seed_oss "
           "glm glm4", _ROTARY),
    Layout("gptj", "separate", _query_and_key("h.{layer}.attn.*_proj.weight", "q", "k"), _GPT, "gptj", _ROTARY),
    Layout("gpt2", "sections", ("h.{layer}.attn.c_attn.weight",), _GPT, "gpt2 openai-gpt decision_transformer",
           transposed=True),
    Layout("nanogpt", "sections", ("h.{layer}.attn.c_attn.weight",), _GPT, "nanogpt"),
    Layout("torch", "sections", ("layers.{layer}.self_attn.in_proj_weight",)),
    Layout("gguf", "separate", _query_and_key("blk.{layer}.attn_*.weight", "q", "k"), "", note=_ROTARY),
    Layout("gguf-fused", "sections", ("blk.{layer}.attn_qkv.weight",), "", note=_ROTARY),
    Layout("phi3", "sections", ("layers.{layer}.self_attn.qkv_proj.weight",), _MODEL, "phi3 phi3_v", _ROTARY),
    Layout("mpt", "sections", ("blocks.{layer}.attn.Wqkv.weight",), _GPT, "mpt", _ALIBI),
    Layout("timm-vit", "sections", ("blocks.{layer}.attn.qkv.weight",), models="timm_wrapper"),
    Layout("gpt-neox", "interleaved", ("layers.{layer}.attention.query_key_value.weight",), r"(?:gpt_neox\.)?",
           "gpt_neox", _ROTARY),
    Layout("bloom", "interleaved", ("h.{layer}.self_attention.query_key_value.weight",), _GPT, "bloom", _ALIBI),
    Layout("falcon", "interleaved", ("h.{layer}.self_attention.query_key_value.weight",), _GPT, _FALCON,
           "rotary or linear position factors are not applied"),
)  # fmt: skip

ARGUMENTS = {"heads": "head_count", "kv_heads": "kv_head_count", "head_dim": "head_dim"}  # fields of Counts -> `survey`
TENSOR_COUNTS: dict[Order, int] = {"separate": 2, "sections": 1, "interleaved": 1}  # names in a spelled-out layout
ALLOWED = (
    f"{', '.join(layout.name for layout in LAYOUTS if layout.order != 'latent')}, or separate:QUERY:KEY, sections:NAME "
    "or interleaved:NAME with tensor names that contain {layer} (for matrices stored (in, out) separate-transposed, "
    "sections-transposed or interleaved-transposed)"
)
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

    def load(self, checkpoint: Checkpoint) -> tuple[ReadableTensor, ...]:
        """Read the tensors of this layer in the precision of the file."""
        return tuple(checkpoint.raw(name) for name in self.names)

    def key_head(self, head: int) -> int:
        """Return the key head that a query head uses."""
        return head // (self.heads // self.kv_heads)

    def factors(self, tensors: tuple[ReadableTensor, ...], head: int) -> tuple[Array, Array]:
        """Return W_Q and W_K of one query head, each head_dim x hidden, from the tensors of the layer."""
        p, group = self.head_dim, self.key_head(head)
        if self.layout.order == "interleaved":
            share = self.heads // self.kv_heads
            base = group * (share + 2) * p
            query, key = base + (head % share) * p, base + share * p
        else:
            query, key = head * p, group * p
            if self.layout.order == "sections":
                key += self.heads * p
        return self._rows(tensors[0], query), self._rows(tensors[-1], key)

    def _rows(self, tensor: ReadableTensor, start: int) -> Array:
        """Return ``head_dim`` output rows from ``start`` on; the tensor may be stored (in, out)."""
        rows = slice(start, start + self.head_dim)
        return tensor.to_float64((slice(None), rows)).T if self.layout.transposed else tensor.to_float64(rows)


def find_layers(checkpoint: Checkpoint, layout: str | None = None, counts: Counts | None = None) -> list[Layer]:
    """Return all attention layers of a checkpoint, ordered by stack and layer."""
    counts = counts or Counts()
    for kind, value in counts._asdict().items():
        if value is not None and not 1 <= value <= LARGEST_COUNTS[kind]:
            raise InvalidArgument(ARGUMENTS[kind], value, f"an integer from 1 to {LARGEST_COUNTS[kind]}")
    matches = list(_match_named(checkpoint, layout) if layout is not None else _match_known(checkpoint))
    if not matches:
        wanted = f"'{layout}'" if layout is not None else "any known layout"
        count = len(checkpoint.tensors)
        example = f" (for example {quoted(next(iter(checkpoint.tensors)))})" if count else ""
        raise InvalidArgument(
            "layout", layout, f"given, since none of the {count} tensors{example} has a name of {wanted}: {ALLOWED}"
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


def _match_named(checkpoint: Checkpoint, text: str) -> Iterator[Match]:
    """Match the layout given by the user: the name of a known layout, or tensor names spelled out."""
    for layout in LAYOUTS:
        if layout.name == text:
            return _matches(checkpoint, layout)
    prefix, *names = text.split(":")
    order = next((order for order in TENSOR_COUNTS if prefix in (order, f"{order}-transposed")), None)
    if order is None or len(names) != TENSOR_COUNTS[order] or any(name.count("{layer}") != 1 for name in names):
        raise InvalidArgument("layout", text, ALLOWED, [one.name for one in LAYOUTS])
    return _matches(checkpoint, Layout(text, order, tuple(names), stack="", transposed=prefix != order))


def _match_known(checkpoint: Checkpoint) -> Iterator[Match]:
    """Match all known layouts; of two with the same names, such as BLOOM and Falcon, the first is taken."""
    matched: set[tuple[str, str, int]] = set()
    latent: set[tuple[str, int]] = set()
    for layout in LAYOUTS:
        for found, stack, number in _matches(checkpoint, layout):
            module = (layout.tensors[0], stack, number)
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
    layer = Layer(module, number, layout, heads)
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
    if kind == "kv_heads" and config.get("model_type") in _FALCON.split():
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

    Separate tensors have H p and K p rows, fused ones (H + 2 K) p. Counts that are not given must follow from the rows.
    """
    rows, hidden = shapes[0]
    if order == "separate":
        other, width = shapes[1]
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
