"""Sources of checkpoints: mappings of arrays and tensors, wrapped names, adapters, fused tensors, pickles."""

import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from onehead.errors import InvalidArgument
from onehead.weights import survey

P, D, H = 8, 32, 4
QUERY, KEY = ("model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight")


class Tensor:
    """Stand-in for a PyTorch tensor; one of bfloat16 cannot be converted to numpy."""

    def __init__(self, values, dtype="torch.float32"):
        self.values, self.dtype, self.shape = values, dtype, values.shape

    def detach(self):
        return self

    def cpu(self):
        return self

    def float(self):
        return Tensor(self.values)

    def numpy(self):
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self.values


def weights(seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((H, P, D)), rng.standard_normal((H, P, D))


def check(table, query, key, tolerance=1e-6):
    assert [row.status for row in table] == ["ok"] * len(query), table[0].reason
    for row in table:
        values = np.linalg.svd(query[row.head].T @ key[row.head], compute_uv=False)
        np.testing.assert_allclose(row.singular_values[:P], values[:P], atol=tolerance * values[0])


def flat(matrix):
    return matrix.reshape(-1, D)


@pytest.mark.parametrize("dtype", ["torch.float32", "torch.bfloat16", "torch.float64"])
def test_pytorch_tensors_are_read_without_importing_pytorch(dtype):
    query, key = weights()
    state = {QUERY: Tensor(flat(query), dtype), KEY: Tensor(flat(key), dtype), "step": 7, 5: "x"}
    check(survey(state, head_count=H, fit=False), query, key)
    assert "torch" not in sys.modules


def test_arrays_of_other_element_types():
    query, key = weights()
    check(survey({QUERY: flat(query).astype(np.float32), KEY: flat(key)}, head_count=H, fit=False), query, key)
    table = survey({QUERY: flat(query).astype(np.int32), KEY: flat(key)}, head_count=H, fit=False)
    assert "int32" in table[0].reason and QUERY in table[0].reason
    assert repr(table).startswith("Survey('a mapping of 2 arrays'")
    with pytest.raises(InvalidArgument, match="names with arrays"):
        survey({"a": 1})


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "module._orig_mod."])
def test_prefixes_of_model_wrappers_are_removed(tmp_path, prefix):
    query, key = weights()
    tensors = {prefix + name: flat(part) for name, part in ((QUERY, query), (KEY, key))}
    check(survey(tensors, head_count=H, fit=False), query, key)
    save_file({name: part.astype(np.float32) for name, part in tensors.items()}, tmp_path / "model.safetensors")
    check(survey(tmp_path, head_count=H, fit=False), query, key, 1e-5)
    inside = {name.replace("layers.0.", "layers.0._orig_mod."): part for name, part in tensors.items()}
    check(survey(inside, head_count=H, fit=False), query, key)


def test_names_that_differ_only_by_a_prefix_are_refused():
    query, _ = weights()
    with pytest.raises(InvalidArgument, match="with and without the prefix"):
        survey({QUERY: flat(query), f"_orig_mod.{QUERY}": flat(query)}, head_count=H)


def test_nanogpt_is_told_from_gpt2_by_shape():
    query, key = weights()
    fused = np.concatenate([flat(query), flat(key), 100.0 * flat(key)])
    name = "transformer.h.0.attn.c_attn.weight"
    nano = survey({name: fused}, head_count=H, fit=False)
    assert nano.layouts == ("nanogpt",)
    check(nano, query, key)
    huggingface = survey({name: fused.T}, head_count=H, fit=False)
    assert huggingface.layouts == ("gpt2",)
    check(huggingface, query, key)


def test_the_fused_projection_of_pytorch():
    query, key = weights()
    fused = np.concatenate([flat(query), flat(key), 100.0 * flat(key)])
    table = survey({"transformer_encoder.layers.0.self_attn.in_proj_weight": fused}, head_count=H, fit=False)
    assert table.layouts == ("torch",)
    check(table, query, key)


def adapter_pair(rng, out, rank, name):
    A, B = rng.standard_normal((rank, D)), rng.standard_normal((out, rank))
    return {f"{name}.lora_A.weight": A, f"{name}.lora_B.weight": B}, B @ A


@pytest.mark.parametrize("end", ["", ".default"])
def test_an_adapter_is_measured_as_the_product_of_its_factors(end):
    rng = np.random.default_rng(3)
    tensors, products = {}, []
    for side in "qk":
        found, product = adapter_pair(rng, H * P, 3, f"base_model.model.model.layers.0.self_attn.{side}_proj")
        tensors |= {name.replace(".weight", f"{end}.weight"): part for name, part in found.items()}
        products.append(product.reshape(H, P, D))
    table = survey(tensors, head_count=H, fit=False)
    check(table, *products)
    assert all(round(row.rank * D) == 3 for row in table)
    assert "adapters of rank 3" in table[0].notes[-1] and table[0].verdict is None


def test_an_adapter_of_the_query_alone_is_reported_with_a_reason():
    tensors, _ = adapter_pair(np.random.default_rng(4), H * P, 3, "base_model.model.model.layers.0.self_attn.q_proj")
    table = survey(tensors, head_count=H, fit=False)
    assert all(
        row.status == "unsupported" and "k_proj.weight" in row.reason and "adapter" in row.reason for row in table
    )


def test_factors_of_an_adapter_of_different_rank_are_refused():
    tensors, _ = adapter_pair(np.random.default_rng(4), H * P, 3, "model.layers.0.self_attn.q_proj")
    tensors["model.layers.0.self_attn.q_proj.lora_B.weight"] = np.ones((H * P, 5))
    with pytest.raises(InvalidArgument, match=r"lora_B\.weight"):
        survey(tensors, head_count=H)


def test_an_adapter_with_a_huge_product_is_refused():
    name = "model.layers.0.self_attn.{}_proj.lora_{}.weight"
    tensors = {name.format(side, "A"): np.ones((1, 2**20)) for side in "qk"}
    tensors |= {name.format(side, "B"): np.ones((2**20, 1)) for side in "qk"}
    table = survey(tensors, head_count=1, fit=False)
    assert "too large for an adapter" in table[0].reason and "q_proj" in table[0].reason


def test_a_pickle_is_refused_with_the_code_that_converts_it(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK\x03\x04" + bytes(100))
    lines = (
        r"import torch, safetensors\.torch; "
        r"state = torch\.load\('pytorch_model\.bin', map_location='cpu', weights_only=True\); "
    )
    for path in (tmp_path, tmp_path / "pytorch_model.bin"):
        with pytest.raises(InvalidArgument, match=lines) as failure:
            survey(path)
        assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    "tensors",
    [
        {"some.thing": np.ones((4, 4))},
        {QUERY: np.ones((H * P, D))},
        {QUERY: np.ones((H * P, D)), KEY: np.ones((H * P, D + 1))},
        {QUERY: np.ones((H * P + 1, D)), KEY: np.ones((H * P, D))},
        {QUERY: np.ones(H * P), KEY: np.ones((H * P, D))},
        {"h.0.attn.c_attn.weight": np.ones((7, 5))},
        {"blk.0.attn_qkv.weight": np.ones((H, D))},
    ],
)
def test_every_refusal_names_a_tensor(tensors):
    try:
        text = survey(tensors, head_count=H, fit=False)[0].reason
    except InvalidArgument as failure:
        text = str(failure)
    assert any(name in text for name in (*tensors, KEY)), text


def test_a_missing_head_count_is_reported_with_a_tensor_name():
    with pytest.raises(InvalidArgument, match="head_count must be given") as failure:
        survey({QUERY: np.ones((8, 8)), KEY: np.ones((8, 8))})
    assert QUERY in str(failure.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "model.onnx",
            b"\x08\x07\x12\x07pytorch" + bytes(range(100)),
            "it is an ONNX model; save its weights: import onnx",
        ),
        ("model.bin", b"\x08\x07\x12\x07pytorch" + bytes(range(100)), "it is an ONNX model"),
        (
            "model.pt",
            b"PK\x03\x04" + bytes(30) + b"model/code/__torch__/net.py",
            r"TorchScript archive; .*torch\.jit\.load\('model\.pt', map_location='cpu'\)\.state_dict\(\)",
        ),
    ],
)
def test_other_formats_are_named_with_what_to_do(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidArgument, match=message) as failure:
        survey(tmp_path / name)
    assert "\n" not in str(failure.value) and len(str(failure.value)) < 700
