"""GGUF files written by the reference package: plain, quantised, damaged and hostile."""

import struct

import numpy as np
import pytest

from onehead.errors import InvalidArgument
from onehead.weights import survey
from onehead.weights.checkpoint.gguf import open_gguf

gguf = pytest.importorskip("gguf")

P, D, H, K = 32, 64, 4, 2
NAMES = ("blk.0.attn_q.weight", "blk.0.attn_k.weight")


def weights(seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((H * P, D)).astype(np.float32), rng.standard_normal((K * P, D)).astype(np.float32)


def write_gguf(path, kind="F32", counts=True, tensors=None):
    """Write a file with the reference package and return its tensors as rounded by the format."""
    kind = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(str(path), "llama")
    if counts:
        writer.add_head_count(H)
        writer.add_head_count_kv(K)
        writer.add_key_length(P)
    writer.add_array("tokenizer.ggml.tokens", ["a", "é", "word"] * 200)
    writer.add_array("tokenizer.ggml.scores", [0.5] * 600)
    rounded = {}
    for name, values in (tensors or dict(zip(NAMES, weights(), strict=True))).items():
        data = gguf.quants.quantize(values, kind)
        rounded[name] = gguf.quants.dequantize(data, kind)
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return rounded


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q5_1"])
def test_heads_agree_with_the_reference_package(tmp_path, kind):
    rounded = write_gguf(tmp_path / "m.gguf", kind)
    table = survey(tmp_path / "m.gguf", fit=False)
    assert len(table) == H and table.layouts == ("gguf",)
    query, key = (np.asarray(rounded[name], dtype=float) for name in NAMES)
    for row in table:
        A = query[row.head * P : (row.head + 1) * P].T @ key[row.kv_head * P : (row.kv_head + 1) * P]
        np.testing.assert_allclose(row.singular_values[:P], np.linalg.svd(A, compute_uv=False)[:P], rtol=1e-5)
        assert row.kv_head == row.head // 2
    assert any("quantised" in text for text in table[0].notes) == kind.startswith("Q")


def test_a_fused_tensor_is_split_into_heads(tmp_path):
    query, key = weights()
    fused = np.concatenate([query, key, 100.0 * key])
    write_gguf(tmp_path / "m.gguf", tensors={"blk.0.attn_qkv.weight": fused})
    table = survey(tmp_path / "m.gguf", fit=False)
    assert table.layouts == ("gguf-fused",) and [row.status for row in table] == ["ok"] * H


def test_head_counts_are_requested_if_the_file_has_none(tmp_path):
    write_gguf(tmp_path / "m.gguf", counts=False)
    with pytest.raises(InvalidArgument, match=r"head_count must be given.*attn_q"):
        survey(tmp_path / "m.gguf")
    assert len(survey(tmp_path / "m.gguf", head_count=H, fit=False)) == H


def test_without_the_gguf_package_quantised_tensors_are_reported_with_a_reason(tmp_path, monkeypatch):
    write_gguf(tmp_path / "m.gguf", "Q8_0")
    monkeypatch.setattr("onehead.weights.checkpoint.gguf.find_spec", lambda name: None)
    table = survey(tmp_path / "m.gguf", fit=False)
    assert all(
        row.status == "unsupported" and "onehead[gguf]" in row.reason and NAMES[0] in row.reason for row in table
    )
    write_gguf(tmp_path / "plain.gguf")
    assert survey(tmp_path / "plain.gguf", fit=False)[0].status == "ok"


def test_damaged_files_are_refused_in_one_sentence(tmp_path):
    path = tmp_path / "m.gguf"
    write_gguf(path)
    good = path.read_bytes()
    size = len(good)
    rng = np.random.default_rng(0)
    damaged = [good[:n] for n in (0, 3, 4, 8, 16, 24, 100, 3000, size // 2, size - 1)]
    damaged += [b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + good[24:] for version, tensors, pairs in
                ((1, 2, 5), (3, 2**60, 5), (3, 2, 2**60), (3 << 24, 2, 5))]  # fmt: skip
    for _ in range(150):
        content = bytearray(good)
        for place in rng.integers(0, min(size, 9000), rng.integers(1, 6)):
            content[place] ^= 1 << int(rng.integers(0, 8))
        damaged.append(bytes(content))
    messages = []
    for content in damaged:
        path.write_bytes(content)
        try:
            survey(path, fit=False)
        except InvalidArgument as failure:
            messages.append(str(failure))
    assert len(messages) >= 14 and all("\n" not in text and len(text) < 1000 for text in messages)


def test_false_sizes_in_the_header_do_not_allocate_memory(tmp_path):
    """Nested arrays, lengths of 2^60 and names of a gigabyte: reading stops at the end of the file."""
    begin = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    key = struct.pack("<Q", 1) + b"x"
    for value in (
        struct.pack("<I", 9) * 40,
        struct.pack("<IIQ", 9, 8, 2**60),
        struct.pack("<IIQ", 9, 6, 2**61),
        struct.pack("<IQ", 8, 2**30),
        struct.pack("<I", 77),
    ):
        (tmp_path / "m.gguf").write_bytes(begin + key + value)
        with pytest.raises(InvalidArgument):
            open_gguf(tmp_path / "m.gguf")
