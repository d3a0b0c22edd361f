"""Layouts: how known model families store the query and key weights of their heads.

Layouts are recognised by the names and shapes of tensors and never guessed. A stored matrix is (out, in) unless its
layout says transposed. With H query heads, K key heads (groups) and head dimension p, the rows of one layer are

    separate     query (H, p), key (K, p), each its own tensor
    query-kv     query (H, p) as one tensor, all keys, then all values as another
    sections     one tensor, all queries, then all keys, then all values
    interleaved  one tensor (K, H/K + 2, p): for each group its queries, its key, its value

and query head h belongs to key head h // (H/K). Multi-query attention has K = 1, ordinary attention K = H.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal

from onehead.errors import InvalidArgument

Order = Literal["separate", "query-kv", "sections", "interleaved", "latent"]


@dataclass(frozen=True)
class Layout:
    """How one family of models names and stores its query and key weights, an element of `LAYOUTS`.

    Attributes
    ----------
    name : str
        Name of the layout, as in the argument ``layout`` of `survey`.
    order : str
        Order of the rows: separate, query-kv, sections, interleaved, or latent (which has no map per head).
    tensors : tuple of str
        Names of the query and the key tensor, or of the one that holds both, with ``{layer}`` in place of the number.
    value, output : str
        Names of the value tensor, if it is a tensor of its own, and of the output tensor; empty if they are not known.
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
    value: str = ""
    output: str = ""

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
FALCON_MODELS = "falcon RefinedWeb RefinedWebModel"

# in the order in which they are tried; a checkpoint whose config.json has another model_type than those listed is
# refused
_TABLE = (
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
    Layout("falcon", "interleaved", ("h.{layer}.self_attention.query_key_value.weight",), _GPT, FALCON_MODELS,
           "rotary or linear position factors are not applied"),
)  # fmt: skip

# layout -> what takes the place of the query in the name of the value tensor, and the name of the output tensor
_VALUES_AND_OUTPUTS = {
    "bert": ("value", "encoder.layer.{layer}.attention.output.dense.weight"),
    "vit": ("value", "encoder.layer.{layer}.attention.output.dense.weight"),
    "distilbert": ("v", "transformer.layer.{layer}.attention.out_lin.weight"),
    "clip": ("v", "encoder.layers.{layer}.self_attn.out_proj.weight"),
    "opt": ("v", "decoder.layers.{layer}.self_attn.out_proj.weight"),
    "llama": ("v", "layers.{layer}.self_attn.o_proj.weight"),
    "gptj": ("v", "h.{layer}.attn.out_proj.weight"),
    "gpt2": ("", "h.{layer}.attn.c_proj.weight"),
    "nanogpt": ("", "h.{layer}.attn.c_proj.weight"),
    "gguf": ("v", "blk.{layer}.attn_output.weight"),
    "gguf-fused": ("", "blk.{layer}.attn_output.weight"),
    "phi3": ("", "layers.{layer}.self_attn.o_proj.weight"),
    "mpt": ("", "blocks.{layer}.attn.out_proj.weight"),
    "timm-vit": ("", "blocks.{layer}.attn.proj.weight"),
    "gpt-neox": ("", "layers.{layer}.attention.dense.weight"),
    "bloom": ("", "h.{layer}.self_attention.dense.weight"),
    "falcon": ("", "h.{layer}.self_attention.dense.weight"),
    "torch": ("", "layers.{layer}.self_attn.out_proj.weight"),
}


def _with_values(layout: Layout) -> Layout:
    """Return a layout with the names of its value and output tensors."""
    part, output = _VALUES_AND_OUTPUTS.get(layout.name, ("", ""))
    if not part:
        return replace(layout, output=output)
    query, key = layout.tensors  # they differ in one place: the letter or the word for query and key
    place = next(i for i, (one, other) in enumerate(zip(query, key, strict=False)) if one != other)
    tail = key[place:].removeprefix("key" if part == "value" else "k")
    return replace(layout, value=query[:place] + part + tail, output=output)


LAYOUTS = tuple(_with_values(layout) for layout in _TABLE)

# names in a spelled-out layout, and how many of them are needed; those left out are not read
SPELLED: dict[Order, tuple[tuple[str, ...], int]] = {
    "separate": (("QUERY", "KEY", "VALUE", "OUTPUT"), 2),
    "query-kv": (("QUERY", "KEY_VALUE", "OUTPUT"), 2),
    "sections": (("NAME", "OUTPUT"), 1),
    "interleaved": (("NAME", "OUTPUT"), 1),
}
ALLOWED = (
    f"{', '.join(layout.name for layout in LAYOUTS if layout.order != 'latent')}, or separate:QUERY:KEY, "
    "query-kv:QUERY:KEY_VALUE, sections:NAME or interleaved:NAME with tensor names that contain {layer} (for matrices "
    "stored (in, out) separate-transposed, query-kv-transposed, sections-transposed or interleaved-transposed)"
)
PYTORCH_NAME = re.compile(r"(?:[\w.]*\.)?in_proj_weight", re.ASCII)  # of nn.MultiheadAttention in any module


def spelled_layout(text: str) -> Layout:
    """Return the layout given by the user: the name of a known layout, or tensor names spelled out."""
    for layout in LAYOUTS:
        if layout.name == text:
            return layout
    prefix, *names = text.split(":")
    order = next((order for order in SPELLED if prefix in (order, f"{order}-transposed")), None)
    fields, needed = SPELLED.get(order or "latent", ((), 1))
    complete = needed <= len(names) <= len(fields) and all(name.count("{layer}") == 1 for name in names)
    if order is None or not complete:
        raise InvalidArgument("layout", text, ALLOWED, [one.name for one in LAYOUTS])
    found = dict(zip(fields, names, strict=False))
    return Layout(
        text, order, tuple(names[:needed]), stack="", transposed=prefix != order,
        value=found.get("VALUE", ""), output=found.get("OUTPUT", ""),
    )  # fmt: skip


def pytorch_layout(name: str) -> tuple[Layout, int] | None:
    """Return the layout of a fused tensor of PyTorch's ``nn.MultiheadAttention`` and its layer; None for other names.

    Its module may have any name; the layer is the last number in it, 0 if there is none.

    Examples
    --------
    >>> layout, layer = pytorch_layout("visual.resblocks.3.attn.in_proj_weight")
    >>> layout.tensors, layout.output, layer
    (('visual.resblocks.{layer}.attn.in_proj_weight',), 'visual.resblocks.{layer}.attn.out_proj.weight', 3)
    """
    if not name.endswith("in_proj_weight") or not PYTORCH_NAME.fullmatch(name):
        return None
    parts = name.split(".")
    numbers = [i for i, part in enumerate(parts) if re.fullmatch(r"0|[1-9]\d{0,5}", part)]
    number = int(parts[numbers[-1]]) if numbers else 0
    if numbers:
        parts[numbers[-1]] = "{layer}"
    pattern = ".".join(parts)
    output = pattern.removesuffix("in_proj_weight") + "out_proj.weight"
    return Layout("torch", "sections", (pattern,), stack="", output=output), number
