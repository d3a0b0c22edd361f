"""Every layout against a dense computation: weights are sampled per head and packed as the model unpacks them."""

import json
from itertools import pairwise

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.support.checkpoints import safetensors_bytes

from onehead.errors import InvalidArgument
from onehead.weights import open_checkpoint, survey
from onehead.weights.checkpoint.candidates import candidates
from onehead.weights.checkpoint.layers import find_layers

HIDDEN, HEADS, LAYERS = 24, 6, 2


def sample_weights(layers=LAYERS, heads=HEADS, groups=HEADS, size=4, hidden=HIDDEN, seed=0):
    """Return query (heads, size, hidden) and key (groups, size, hidden) of every layer."""
    rng = np.random.default_rng(seed)
    return [
        (rng.standard_normal((heads, size, hidden)), rng.standard_normal((groups, size, hidden))) for _ in range(layers)
    ]


def value_like(key, seed=9):
    """Return values so large that every result would be wrong if they were taken for keys."""
    return 100.0 * np.random.default_rng(seed).standard_normal(key.shape)


def packing(matrices, *names):
    """Return a function from the weights of all layers to named tensors; ``matrices`` makes those of one layer."""
    return lambda weights: {
        name.format(i): matrix
        for i, layer in enumerate(weights)
        for name, matrix in zip(names, matrices(*layer), strict=False)
    }


def separate(*names):
    """Pack query, key and value as one matrix each."""
    return packing(lambda query, key: [p.reshape(-1, p.shape[-1]) for p in (query, key, value_like(key))], *names)


def sections(name, transposed=False):
    def fused(query, key):
        rows = np.concatenate([part.reshape(-1, part.shape[-1]) for part in (query, key, value_like(key))])
        return [np.ascontiguousarray(rows.T) if transposed else rows]

    return packing(fused, name)


def interleaved(name):
    """Pack as (groups, share + 2, size, hidden): the queries of a group, its key, its value."""

    def fused(query, key):
        by_group = query.reshape(len(key), len(query) // len(key), *query.shape[1:])
        parts = np.concatenate([by_group, key[:, None], value_like(key)[:, None]], axis=1)
        return [parts.reshape(-1, query.shape[-1])]

    return packing(fused, name)


def attention(prefix, q="q_proj", k="k_proj", v="v_proj"):
    return separate(*(f"{prefix}.{{}}.self_attn.{part}.weight" for part in (q, k, v)))


def bert(prefix="", own="self"):
    return separate(*(f"{prefix}encoder.layer.{{}}.attention.{own}.{w}.weight" for w in ("query", "key", "value")))


def query_and_key_value(query_name, name):
    """Pack the queries as one matrix, all keys and then all values as another."""

    def fused(query, key):
        rows = np.concatenate([part.reshape(-1, part.shape[-1]) for part in (key, value_like(key))])
        return [query.reshape(-1, query.shape[-1]), rows]

    return packing(fused, query_name, name)


BERT = bert()
CASES = {  # case -> (layout, packing, shapes, config)
    "bert": ("bert", BERT, {}, {"model_type": "bert"}),
    "bert with prefix": ("bert", bert("bert."), {}, {}),
    "roberta": ("bert", bert("roberta."), {}, {"model_type": "roberta"}),
    "vit": ("vit", bert("vit.", "attention"), {}, {"model_type": "vit"}),
    "distilbert": (
        "distilbert", separate(*(f"distilbert.transformer.layer.{{}}.attention.{w}_lin.weight" for w in "qkv")), {},
        {"model_type": "distilbert", "num_attention_heads": None, "n_heads": HEADS},
    ),
    "llama": ("llama", attention("model.layers"), {}, {"model_type": "llama"}),
    "llama without prefix": ("llama", attention("layers"), {}, {}),
    "mistral, grouped": ("llama", attention("model.layers"), {"groups": 2},
                         {"model_type": "mistral", "num_key_value_heads": 2}),
    "qwen2, multi-query": ("llama", attention("model.layers"), {"groups": 1},
                           {"model_type": "qwen2", "num_key_value_heads": 1}),
    "qwen3, wide heads": (
        "llama", attention("model.layers"), {"groups": 3, "size": 7},
        {"model_type": "qwen3", "num_key_value_heads": 3, "head_dim": 7},
    ),
    "gemma, heads wider than the input": (
        "llama", attention("model.layers"), {"groups": 1, "size": 30},
        {"model_type": "gemma", "num_key_value_heads": 1, "head_dim": 30},
    ),
    "gemma3 inside a vision model": (
        "llama", attention("language_model.model.layers"), {"groups": 2},
        {"model_type": "gemma3", "num_attention_heads": None,
         "text_config": {"model_type": "gemma3_text", "num_attention_heads": HEADS, "num_key_value_heads": 2}},
    ),
    "opt": ("opt", attention("model.decoder.layers"), {}, {"model_type": "opt"}),
    "clip, vision": (
        "clip", attention("vision_model.encoder.layers"), {},
        {"model_type": "clip", "num_attention_heads": 5, "vision_config": {"num_attention_heads": HEADS}},
    ),
    "gptj": ("gptj", separate(*(f"transformer.h.{{}}.attn.{w}_proj.weight" for w in "qkv")), {},
             {"model_type": "gptj", "num_attention_heads": None, "n_head": HEADS}),
    "gpt2": ("gpt2", sections("h.{}.attn.c_attn.weight", transposed=True), {},
             {"model_type": "gpt2", "num_attention_heads": None, "n_head": HEADS}),
    "gpt2 with prefix": ("gpt2", sections("transformer.h.{}.attn.c_attn.weight", transposed=True), {}, {}),
    "phi3, grouped": ("phi3", sections("model.layers.{}.self_attn.qkv_proj.weight"), {"groups": 2},
                      {"model_type": "phi3", "num_key_value_heads": 2}),
    "mpt": ("mpt", sections("transformer.blocks.{}.attn.Wqkv.weight"), {},
            {"model_type": "mpt", "num_attention_heads": None, "n_heads": HEADS}),
    "torch": ("torch", sections("encoder.layers.{}.self_attn.in_proj_weight"), {}, {}),
    "torch, any module": ("torch", sections("visual.resblocks.{}.attn.in_proj_weight"), {}, {}),
    "timm": ("timm-vit", sections("blocks.{}.attn.qkv.weight"), {}, {}),
    "gpt-neox": ("gpt-neox", interleaved("gpt_neox.layers.{}.attention.query_key_value.weight"), {},
                 {"model_type": "gpt_neox"}),
    "bloom": ("bloom", interleaved("h.{}.self_attention.query_key_value.weight"), {},
              {"model_type": "bloom", "num_attention_heads": None, "n_head": HEADS}),
    "falcon, multi-query": ("falcon", interleaved("transformer.h.{}.self_attention.query_key_value.weight"),
                            {"groups": 1},
                            {"model_type": "falcon", "multi_query": True, "num_kv_heads": HEADS}),
    "falcon, grouped": ("falcon", interleaved("transformer.h.{}.self_attention.query_key_value.weight"), {"groups": 3},
                        {"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 3}),
    "falcon, every head its key": ("falcon", interleaved("transformer.h.{}.self_attention.query_key_value.weight"), {},
                                   {"model_type": "falcon", "multi_query": False}),
}  # fmt: skip


def store(folder, tensors, config, dtype=np.float32):
    save_file({name: np.ascontiguousarray(tensor.astype(dtype)) for name, tensor in tensors.items()},
              folder / "model.safetensors")  # fmt: skip
    config = {"num_attention_heads": HEADS} | config
    (folder / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def check(table, weights, tolerance=1e-5):
    """Compare the report on every head with numpy on the full hidden x hidden matrix."""
    heads = len(weights[0][0])
    assert [(row.layer, row.head) for row in table] == [(i, h) for i in range(len(weights)) for h in range(heads)]
    for row in table:
        assert row.status == "ok", row.reason
        query, key = weights[row.layer]
        share = heads // len(key)
        assert row.kv_head == row.head // share
        A = query[row.head].T @ key[row.head // share]
        scale = np.linalg.norm(A)
        values = np.zeros(len(A))
        values[: len(row.singular_values)] = row.singular_values
        np.testing.assert_allclose(values, np.linalg.svd(A, compute_uv=False), atol=tolerance * scale)
        S = 0.5 * (A + A.T)
        assert row.symmetric_share == pytest.approx(np.linalg.norm(S) ** 2 / scale**2, abs=tolerance)
        found = np.zeros(len(A))
        found[: len(row.symmetric_eigenvalues)] = row.symmetric_eigenvalues
        np.testing.assert_allclose(np.sort(found), np.linalg.eigvalsh(S), atol=tolerance * scale)
        U, s, Vt = np.linalg.svd(A)
        rank = min(len(query[row.head]), len(A))
        overlaps = np.sum(U[:, :rank] * Vt[:rank].T, axis=0)
        separated = (
            np.array([min(abs(a - b) for j, b in enumerate(s) if j != i) for i, a in enumerate(s[:rank])]) > 1e-3 * s[0]
        )
        np.testing.assert_allclose(row.overlaps[:rank][separated], overlaps[separated], atol=100 * tolerance)
        # random heads have full rank: what is below 1e-9 of the largest value is rounding
        assert row.rank == pytest.approx(np.mean(s > 1e-9 * s[0])) and row.zero_mass == pytest.approx(1.0 - row.rank)


@pytest.mark.parametrize("case", CASES)
def test_every_layout_equals_the_dense_computation(tmp_path, case):
    layout, pack, shapes, config = CASES[case]
    weights = sample_weights(**shapes)
    store(tmp_path, pack(weights), config)
    table = survey(tmp_path, fit=False)
    assert table.layouts == (layout,)
    check(table, weights)


@pytest.mark.parametrize("dtype", ["F16", "BF16"])
def test_half_precision_is_converted_before_any_product(tmp_path, dtype):
    weights = sample_weights()
    if dtype == "F16":
        weights = [tuple(part.astype(np.float16).astype(float) for part in pair) for pair in weights]
        store(tmp_path, BERT(weights), {}, np.float16)
    else:
        to_bits = lambda x: (x.astype(np.float32).view(np.uint32) >> 16).astype("<u2")  # noqa: E731
        weights = [
            tuple((to_bits(part).astype(np.uint32) << 16).view(np.float32).astype(float) for part in pair)
            for pair in weights
        ]
        tensors = {name: to_bits(tensor) for name, tensor in BERT(weights).items()}
        (tmp_path / "model.safetensors").write_bytes(safetensors_bytes(tensors, "BF16"))
        (tmp_path / "config.json").write_text(json.dumps({"num_attention_heads": HEADS}))
    check(survey(tmp_path, fit=False), weights, 1e-10)


def test_grouped_queries_of_a_worked_example(tmp_path):
    # four queries and two keys of one row each: query h is e_h, key g is 10 (g + 1) e_g;
    # heads 0 and 1 share key 0, heads 2 and 3 key 1, so A_h = e_h (10 (g + 1) e_g)'
    query, key = np.eye(4, dtype=np.float32), np.diag([10.0, 20.0, 0.0, 0.0]).astype(np.float32)[:2]
    tensors = {"model.layers.0.self_attn.q_proj.weight": query, "model.layers.0.self_attn.k_proj.weight": key}
    store(tmp_path, tensors, {"num_attention_heads": 4, "num_key_value_heads": 2})
    table = survey(tmp_path, fit=False)
    assert [row.kv_head for row in table] == [0, 0, 1, 1]
    assert [float(row.singular_values[0]) for row in table] == pytest.approx([10.0, 10.0, 20.0, 20.0])
    # only head 0 is symmetric (e_0 e_0'); the others have half their weight in each part
    assert [row.symmetric_share for row in table] == pytest.approx([1.0, 0.5, 0.5, 0.5])
    assert [float(row.overlaps[0]) for row in table] == pytest.approx([1.0, 0.0, 0.0, 0.0])


def test_text_and_vision_towers_have_separate_head_counts(tmp_path):
    text, vision = sample_weights(heads=3, groups=3, size=8, seed=1), sample_weights(heads=2, groups=2, size=12, seed=2)
    tensors = attention("text_model.encoder.layers")(text) | attention("vision_model.encoder.layers")(vision)
    config = {"text_config": {"num_attention_heads": 3}, "vision_config": {"num_attention_heads": 2}}
    store(tmp_path, tensors, config | {"model_type": "clip", "num_attention_heads": None})
    table = survey(tmp_path, fit=False)
    check([row for row in table if row.module.startswith("text")], text)
    check([row for row in table if row.module.startswith("vision")], vision)
    assert len(table) == 10


@pytest.mark.parametrize(
    ("layout", "pack"),
    [
        ("separate:my.{layer}.q:my.{layer}.k", separate("my.{}.q", "my.{}.k")),
        ("sections:my.{layer}.qkv", sections("my.{}.qkv")),
        ("sections-transposed:my.{layer}.qkv", sections("my.{}.qkv", transposed=True)),
        ("interleaved:my.{layer}.qkv", interleaved("my.{}.qkv")),
        ("query-kv:my.{layer}.q:my.{layer}.kv", query_and_key_value("my.{}.q", "my.{}.kv")),
    ],
)
def test_a_layout_can_be_spelled_out(tmp_path, layout, pack):
    weights = sample_weights(groups=3)
    store(tmp_path, pack(weights), {"num_key_value_heads": 3})
    check(survey(tmp_path, layout=layout, fit=False), weights)
    with pytest.raises(InvalidArgument, match="none of the"):
        survey(tmp_path, fit=False)


@pytest.mark.parametrize(
    "layout", ["nonsense", "separate:a.{layer}", "sections:x", "separate:a:b", "interleaved:{layer}{layer}", ""]
)
def test_a_wrong_layout_is_refused(tmp_path, layout):
    store(tmp_path, BERT(sample_weights()), {})
    with pytest.raises(InvalidArgument, match="layout must be"):
        survey(tmp_path, layout=layout)


def test_a_given_layout_overrides_an_unknown_model_type(tmp_path):
    weights = sample_weights()
    store(tmp_path, attention("model.layers")(weights), {"model_type": "somebody_elses"})
    with pytest.raises(InvalidArgument, match="model_type 'somebody_elses'"):
        survey(tmp_path)
    check(survey(tmp_path, layout="llama", fit=False), weights)


def test_a_missing_or_contradictory_head_count_is_refused(tmp_path):
    weights = sample_weights()
    store(tmp_path, BERT(weights), {"num_attention_heads": None})
    with pytest.raises(InvalidArgument, match="head_count must be given"):
        survey(tmp_path)
    check(survey(tmp_path, head_count=HEADS, fit=False), weights)
    (tmp_path / "config.json").write_text('{"num_attention_heads": 6}')
    with pytest.raises(InvalidArgument, match=r"head_count must be 6, as config\.json says; got 3"):
        survey(tmp_path, head_count=3)


@pytest.mark.parametrize(
    ("shapes", "config", "message"),
    [
        ({}, {"num_attention_heads": 5}, "cannot be divided"),
        ({"groups": 2}, {"num_key_value_heads": 3}, "are not"),
        ({"groups": 4}, {"num_key_value_heads": 4}, "evenly"),
        ({}, {"head_dim": 5}, "cannot be divided"),
        ({}, {"head_dim": 2}, "are not"),
    ],
)
def test_inconsistent_shapes_are_reported_with_a_reason(tmp_path, shapes, config, message):
    store(tmp_path, attention("model.layers")(sample_weights(**shapes)), config)
    table = survey(tmp_path, fit=False)
    assert len(table) == LAYERS * config.get("num_attention_heads", HEADS)
    assert all(row.status == "unsupported" and message in row.reason for row in table)


def test_inconsistent_fused_shapes_are_reported_with_a_reason(tmp_path):
    """A fused matrix with too many rows, or with too few for keys."""
    weights = sections("h.{}.attn.c_attn.weight", transposed=True)(sample_weights())
    store(tmp_path, {name: np.ascontiguousarray(tensor[:, :30]) for name, tensor in weights.items()}, {})
    assert all(row.status == "unsupported" and "c_attn" in row.reason for row in survey(tmp_path, fit=False))
    weights = interleaved("gpt_neox.layers.{}.attention.query_key_value.weight")(sample_weights())
    store(tmp_path, {name: tensor[:-1] for name, tensor in weights.items()}, {})
    assert all(row.status == "unsupported" for row in survey(tmp_path, fit=False))


def test_latent_attention_is_refused_by_name(tmp_path):
    tensors = {}
    for i in range(2):
        for part, shape in {"q_proj": (24, 8), "kv_a_proj_with_mqa": (10, 8), "kv_b_proj": (24, 6)}.items():
            tensors[f"model.layers.{i}.self_attn.{part}.weight"] = np.ones(shape)
    store(tmp_path, tensors, {"model_type": "deepseek_v3", "num_attention_heads": 3})
    table = survey(tmp_path)
    assert len(table) == 6 and all(row.status == "unsupported" and "latent attention" in row.reason for row in table)
    (tmp_path / "config.json").unlink()
    assert [row.head for row in survey(tmp_path)] == [None, None]


def test_missing_and_quantised_tensors_are_reported_with_a_reason(tmp_path):
    tensors = BERT(sample_weights())
    del tensors["encoder.layer.1.attention.self.key.weight"]
    store(tmp_path, tensors, {})
    table = survey(tmp_path, fit=False)
    assert [row.status for row in table] == ["ok"] * HEADS + ["unsupported"] * HEADS
    assert "no tensor" in table[HEADS].reason
    assert table.certificate.status == "6 of 12 heads gave no numbers"
    packed = {name: np.zeros(tensor.shape) for name, tensor in BERT(sample_weights()).items()}
    store(tmp_path, packed, {}, np.int8)
    assert all("quantised" in row.reason for row in survey(tmp_path))


def test_notes_name_what_the_map_leaves_out(tmp_path):
    tensors = attention("model.layers")(sample_weights(layers=1))
    tensors["model.layers.0.self_attn.q_proj.bias"] = np.ones(HIDDEN)
    tensors["model.layers.0.self_attn.q_norm.weight"] = np.ones(4)
    store(tmp_path, tensors, {"model_type": "qwen3"})
    notes = " ".join(survey(tmp_path, fit=False)[0].notes)
    assert "rotary" in notes and "biases" in notes and "normalisation" in notes


def test_layers_and_heads_can_be_selected_and_are_ordered(tmp_path):
    weights = sample_weights(layers=12)
    store(tmp_path, BERT(weights), {})
    layers = [layer.layer for layer in find_layers(open_checkpoint(tmp_path))]
    assert all(a < b for a, b in pairwise(layers))  # 2 before 10
    table = survey(tmp_path, layers=[10, 3], heads=[5, 1], fit=False)
    assert [(row.layer, row.head) for row in table] == [(3, 1), (3, 5), (10, 1), (10, 5)]
    dense = weights[10][0][5].T @ weights[10][1][5]
    np.testing.assert_allclose(table[3].singular_values, np.linalg.svd(dense, compute_uv=False)[:4], rtol=1e-5)
    for wrong in ({"layers": [12]}, {"heads": [6]}, {"heads": [-1]}, {"layers": ["0"]}):
        with pytest.raises(InvalidArgument, match="must be from 0 to"):
            survey(tmp_path, **wrong)


def test_several_layouts_are_read_at_once(tmp_path):
    text, image = sample_weights(seed=1), sample_weights(seed=2)
    store(tmp_path, separate("a.{}.q", "a.{}.k")(text) | sections("b.{}.qkv")(image), {})
    table = survey(tmp_path, layout=["separate:a.{layer}.q:a.{layer}.k", "sections:b.{layer}.qkv"], fit=False)
    check([row for row in table if row.module.startswith("a")], text)
    check([row for row in table if row.module.startswith("b")], image)


def test_a_layout_that_matches_nothing_says_so(tmp_path):
    store(tmp_path, separate("a.{}.q.weight", "a.{}.k.weight")(sample_weights()), {})
    with pytest.raises(InvalidArgument) as failure:
        survey(tmp_path, layout="separate:a.{layer}.q:a.{layer}.k")
    text = str(failure.value)
    assert text.startswith("layout must be a layout of this file, but none of the 4 tensors (for example 'a.0.")
    assert "end in '.weight'" in text and "must be given" not in text
    with pytest.raises(InvalidArgument, match=r"none of the 4 tensors.*got 'gpt2'"):
        survey(tmp_path, layout="gpt2")


@pytest.mark.parametrize(
    ("pack", "layout"),
    [
        (BERT, "bert"),
        (sections("visual.resblocks.{}.attn.in_proj_weight"), "torch"),
        (separate("net.{}.wq.weight", "net.{}.wk.weight"), "separate:net.{layer}.wq.weight:net.{layer}.wk.weight"),
        (query_and_key_value("n.{}.to_q.w", "n.{}.to_kv.w"), "query-kv:n.{layer}.to_q.w:n.{layer}.to_kv.w"),
        (query_and_key_value("blocks.{}.q", "blocks.{}.kv"), "query-kv:blocks.{layer}.q:blocks.{layer}.kv"),
        (sections("b.{}.attn.to_qkv.weight"), "sections:b.{layer}.attn.to_qkv.weight"),
        (sections("b.{}.my_qkv", transposed=True), "sections-transposed:b.{layer}.my_qkv"),
    ],
)  # fmt: skip
def test_listed_layouts_can_be_given_as_they_are(tmp_path, pack, layout):
    weights = sample_weights()
    store(tmp_path, pack(weights) | {"mlp.0.weight": np.ones((3, 3))}, {})
    rows = candidates(open_checkpoint(tmp_path))
    assert layout in [row.layout for row in rows] and all(row.layers == LAYERS for row in rows)
    assert not any("mlp" in row.tensor for row in rows)
    check(survey(tmp_path, layout=layout, fit=False), weights)


def test_cross_attention_is_not_compared_with_the_theory_of_self_attention(tmp_path):
    weights = sample_weights(hidden=96, size=16)
    store(tmp_path, sections("decoder.layers.{}.multihead_attn.in_proj_weight")(weights), {})
    table = survey(tmp_path, fit=False)
    assert {row.attention for row in table} == {"cross"}
    text = " ".join(table.explain().split())
    assert "12 heads of cross-attention are not compared" in text and "(U5) predicts" not in text
