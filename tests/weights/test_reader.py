"""The safetensors reader: agreement with the reference package, one sentence for bad files, and no code executed."""

import json
import os
import pickle
import zipfile
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from tests.support.checkpoints import KEY, QUERY, header_with_data, tensor_entry
from tests.support.hostile import UnpicklingMark

from onehead.errors import InvalidArgument, OneheadError
from onehead.weights import open_checkpoint, survey


def refused(path, **options):
    """Return the sentence with which a file is refused."""
    with pytest.raises(InvalidArgument) as failure:
        survey(path, **{"head_count": 1, "fit": False} | options)
    text = str(failure.value)
    assert text.endswith(".") and "\n" not in text and len(text) < 700
    return text


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_reads_what_the_reference_package_reads(tmp_path, dtype):
    rng = np.random.default_rng(0)
    tensors = {f"t{i}": rng.standard_normal((3, i + 1)).astype(dtype) for i in range(5)} | {"n": np.arange(4)}
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "np"})
    checkpoint = open_checkpoint(tmp_path)
    with safe_open(tmp_path / "model.safetensors", framework="numpy") as reference:
        assert set(reference.keys()) == set(checkpoint.tensors)
        for name in tensors:
            assert checkpoint.tensors[name].shape == tuple(reference.get_slice(name).get_shape())
            if name != "n":
                np.testing.assert_array_equal(checkpoint.read(name), reference.get_tensor(name).astype(float))
    with pytest.raises(InvalidArgument, match="stored as I64"):
        checkpoint.read("n")


def test_reads_bfloat16(tmp_path):
    # sign, 8 bits of exponent, 7 of mantissa: 1, -2, 3.140625, the smallest subnormal, infinity
    bits = np.array([0x3F80, 0xC000, 0x4049, 0x0001, 0x7F80], dtype="<u2")
    (tmp_path / "b.safetensors").write_bytes(header_with_data({"x": tensor_entry(0, 10, (5,), "BF16")}, bits.tobytes()))
    values = open_checkpoint(tmp_path / "b.safetensors").read("x")
    np.testing.assert_array_equal(values, [1.0, -2.0, 3.140625, 2.0**-133, np.inf])


def write_shards(folder):
    rng = np.random.default_rng(1)
    weights = {name: rng.standard_normal((8, 8), dtype=np.float32) for name in (QUERY, KEY)}
    for i, (name, tensor) in enumerate(weights.items()):
        save_file({name: tensor}, folder / f"part-{i}.safetensors")
    index = {"metadata": {"total_size": 512}, "weight_map": {QUERY: "part-0.safetensors", KEY: "part-1.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return weights, index


def test_reads_shards_through_their_index(tmp_path):
    weights, _ = write_shards(tmp_path)
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        head = survey(path, head_count=1, fit=False)[0]
        dense = weights[QUERY].astype(float).T @ weights[KEY].astype(float)
        np.testing.assert_allclose(head.singular_values, np.linalg.svd(dense, compute_uv=False), rtol=1e-10)


@pytest.mark.parametrize(
    "shard",
    ["../part-1.safetensors", "/etc/passwd", "a/b.safetensors", "gone.safetensors", "part-1.bin", 3, None, [], ".."],
)
def test_an_index_may_name_only_files_in_its_folder(tmp_path, shard):
    _, index = write_shards(tmp_path)
    index["weight_map"][KEY] = shard
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "shard" in refused(tmp_path)


@pytest.mark.parametrize(
    "text", ["{}", "[]", "", "{", '{"weight_map": 3}', '{"weight_map": {"x": "part-0.safetensors"}}']
)
def test_a_broken_index_is_refused(tmp_path, text):
    write_shards(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(text)
    refused(tmp_path)


def hostile(folder):
    """Return name -> (bytes, text that the refusal must contain)."""
    good = header_with_data({"x": tensor_entry()}, bytes(16))
    long = header_with_data({"x": tensor_entry()}, bytes(16), length=10**6)
    with zipfile.ZipFile(folder / "made.zip", "w") as archive:
        archive.writestr("archive/data.pkl", b"0" * 100)
    deep = b"[" * 200_000
    return {
        "empty": (b"", "too few"),
        "short": (b"\x10\0\0", "too few"),
        "truncated": (good[:-5], "cut short"),
        "cut in the header": (good[:20], "header would have"),
        "header longer than the file": (long, "header would have"),
        "length of 2^64 - 1": (b"\xff" * 8 + good[8:], "header would have"),
        "overlap": (header_with_data({"x": tensor_entry(), "y": tensor_entry(8, 24)}, bytes(24)), "overlaps"),
        "hole": (header_with_data({"x": tensor_entry(8, 24)}, bytes(24)), "unused bytes"),
        "bytes after the last tensor": (header_with_data({"x": tensor_entry()}, bytes(20)), "unused bytes"),
        "shape too large": (header_with_data({"x": tensor_entry(shape=(3, 2))}, bytes(16)), "does not fill"),
        "shape negative": (header_with_data({"x": tensor_entry(shape=(-2, -2))}, bytes(16)), "impossible shape"),
        "shape of booleans": (header_with_data({"x": tensor_entry(shape=(True, 4))}, bytes(16)), "impossible shape"),
        "shape of numbers": (header_with_data({"x": tensor_entry(shape=(2.0, 2))}, bytes(16)), "impossible shape"),
        "shape of 2^63": (
            header_with_data({"x": tensor_entry(shape=(2**63, 2**63, 0, 1))}, bytes(16)),
            "impossible shape",
        ),
        "shape that is text": (
            header_with_data({"x": tensor_entry() | {"shape": "22"}}, bytes(16)),
            "impossible shape",
        ),
        "offsets reversed": (header_with_data({"x": tensor_entry(16, 0)}, bytes(16)), "impossible offsets"),
        "offsets negative": (header_with_data({"x": tensor_entry(-16, 0)}, bytes(16)), "impossible offsets"),
        "unknown type": (header_with_data({"x": tensor_entry(dtype="object")}, bytes(16)), "unknown type"),
        "type that is a list": (header_with_data({"x": tensor_entry(dtype=["F32"])}, bytes(16)), "unknown type"),
        "missing field": (header_with_data({"x": {"dtype": "F32"}}, bytes(16)), "needs dtype"),
        "extra field": (header_with_data({"x": tensor_entry() | {"code": "1"}}, bytes(16)), "needs dtype"),
        "list": (header_with_data([1, 2]), "not a JSON object"),
        "number": (header_with_data(b"12"), "not a JSON object"),
        "key twice": (header_with_data(b'{"x": 1, "x": 2}'), "twice"),
        "NaN in the header": (header_with_data(b'{"x": NaN}'), "NaN"),
        "a long number": (header_with_data(b'{"x": ' + b"9" * 9999 + b"}"), "broken"),
        "deep nesting": (header_with_data(deep), "nested too deeply"),
        "not text": (header_with_data(b"\xff\xfe\x00{}"), "UTF-8"),
        "metadata of numbers": (
            header_with_data({"__metadata__": {"a": 1}, "x": tensor_entry()}, bytes(16)),
            "metadata",
        ),
        "pickle": (pickle.dumps(UnpicklingMark(folder / "executed"), protocol=4) + bytes(100), "pickle"),
        "old pickle": (pickle.dumps(UnpicklingMark(folder / "executed"), protocol=0) + bytes(100), "header would have"),
        "zip": ((folder / "made.zip").read_bytes(), "zip archive"),
        "no tensors": (header_with_data({}), "none of the 0 tensors"),
        "nothing known": (good, "none of the 1 tensors"),
    }


def test_hostile_files_are_refused_in_one_sentence(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for name, (content, message) in hostile(tmp_path).items():
        path = folder / "model.safetensors"
        path.write_bytes(content)
        assert message in refused(path), name
    assert not (tmp_path / "executed").exists()


def test_folders_pipes_and_missing_files_are_refused(tmp_path):
    assert "no safetensors file" in refused(tmp_path)
    (tmp_path / "model.safetensors").mkdir()
    refused(tmp_path)  # a folder with the name of a file
    refused(tmp_path / "model.safetensors")
    assert "exists" in refused(tmp_path / "gone.safetensors")
    os.mkfifo(tmp_path / "pipe.safetensors")
    assert "regular" in refused(tmp_path / "pipe.safetensors")
    for name in "ab":
        (tmp_path / f"{name}.safetensors").write_bytes(header_with_data({}))
    assert "name one of them" in refused(tmp_path)


def test_large_headers_are_read_up_to_the_limit(tmp_path):
    path = tmp_path / "model.safetensors"
    many = {f"x{i}": tensor_entry(4 * i, 4 * i + 4, (1,)) for i in range(10_000)}
    path.write_bytes(header_with_data(many, bytes(40_000)))
    assert "none of the 10000 tensors" in refused(path)
    with path.open("wb") as file:  # a sparse file: 100 MB of header without 100 MB of disk
        file.write((100_000_000).to_bytes(8, "little"))
        file.truncate(100_000_008 + 16)
    assert "more than the 32,000,000 that are read" in refused(path)


def test_weights_that_are_not_finite_are_reported_and_no_error(tmp_path):
    rng = np.random.default_rng(2)
    weights = {name: rng.standard_normal((4, 4), dtype=np.float32) for name in (QUERY, KEY)}
    weights[QUERY][0, 0], weights[KEY][2:] = np.nan, 0.0
    save_file(weights, tmp_path / "model.safetensors")
    first, second = survey(tmp_path, head_count=2, fit=False)
    assert (first.status, second.status) == ("failed", "empty")
    assert "not finite" in first.reason and "zero" in second.reason
    assert (second.rank, second.zero_mass) == (0.0, 1.0)


@pytest.mark.parametrize(
    "text", ["[]", "{", '{"num_attention_heads": "many"}', '{"num_attention_heads": -1}', '{"a": NaN}']
)
def test_a_broken_config_is_refused(tmp_path, text):
    save_file({name: np.eye(4, dtype=np.float32) for name in (QUERY, KEY)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(text)
    refused(tmp_path)


def mutants(rng, good, count):
    """Yield files with bytes changed, cut, inserted or replaced, most of them inside the header."""
    header = 8 + int.from_bytes(good[:8], "little")
    snippets = b'"F32" "BF16" [0,64] -1 1e9 { } null " [] 18446744073709551616 \\u0000'.split()
    for _ in range(count):
        content = bytearray(good)
        for _ in range(rng.integers(1, 4)):
            end = min(header if rng.random() < 0.7 else len(content), len(content))
            if end < 2:
                break
            place, kind = int(rng.integers(end)), rng.integers(5)
            if kind == 0:
                content[place] = int(rng.integers(256))
            elif kind == 1:
                del content[place : place + int(rng.integers(1, 20))]
            elif kind == 2:
                content[place:place] = snippets[rng.integers(len(snippets))]
            elif kind == 3:
                content[place : place + 4] = snippets[rng.integers(len(snippets))]
            else:
                content[place : place + 1] = bytes([content[place] ^ (1 << int(rng.integers(8)))])
        if rng.random() < 0.6:  # adapt the length to the changed header, so that the mutation reaches the parser
            content[:8] = max(len(content) - (len(good) - header) - 8, 0).to_bytes(8, "little")
        yield bytes(content)


def test_fuzzed_files_are_read_like_the_reference_or_refused(tmp_path):
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((4, 4), dtype=np.float32) for name in (QUERY, KEY)}
    save_file(weights, tmp_path / "good.safetensors")
    read = 0
    for content in mutants(rng, (tmp_path / "good.safetensors").read_bytes(), 4_000):
        with fresh(tmp_path, content) as path:
            checkpoint = accepted(path)
            if checkpoint is None:
                continue
            read += 1
            with suppress(OneheadError):
                survey(path, head_count=2, fit=False)
            compare_with_reference(path, checkpoint)
    assert 80 < read < 2000  # some mutations are accepted and some refused


@contextmanager
def fresh(folder, content):
    """Write a new file every time, because overwriting one would wait for the disk."""
    path = folder / "m.safetensors"
    path.write_bytes(content)
    yield path
    path.unlink()


def accepted(path):
    """Return the open checkpoint, or None if it was refused in one sentence; any other error fails the test."""
    try:
        return open_checkpoint(path)
    except OneheadError as failure:
        text = str(failure)
    assert "\n" not in text and len(text) < 500
    return None


def compare_with_reference(path, checkpoint):
    """Check that the reference package accepts the file too, with the same numbers."""
    with safe_open(path, framework="numpy") as reference:
        assert set(reference.keys()) == set(checkpoint.tensors)
        for name, tensor in checkpoint.tensors.items():
            if tensor.dtype in ("F32", "F16", "F64"):
                np.testing.assert_array_equal(checkpoint.read(name), reference.get_tensor(name))


def test_fuzzed_headers_made_of_valid_json(tmp_path):
    rng = np.random.default_rng(1)
    odd = [None, True, -1, 0, 1, 16, 17, 2**70, 1.5, "F32", "x", [], [0, 16], [16, 0], [2, 2], {}, {"dtype": "F32"}]
    odd.append([[2], 2])
    read = 0
    for _ in range(3000):
        fields = tensor_entry()
        for name in rng.choice(list(fields), rng.integers(0, 3), replace=False):
            fields[str(name)] = odd[rng.integers(len(odd))]
        name = [QUERY, KEY, "", "a\n\x00b", "__metadata__", "x" * 3000][rng.integers(6)]
        with fresh(tmp_path, header_with_data({name: fields, "y": tensor_entry(16, 32)}, bytes(32))) as path:
            checkpoint = accepted(path)
            if checkpoint is not None:
                read += 1
                compare_with_reference(path, checkpoint)
    assert read > 100


def test_an_error_of_the_device_is_told_as_such(tmp_path, monkeypatch):
    save_file({name: np.eye(4, dtype=np.float32) for name in (QUERY, KEY)}, tmp_path / "model.safetensors")

    def broken(*_, **__):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("onehead.weights.checkpoint.reader.np.fromfile", broken)
    assert "cannot read 'model.safetensors': reading failed (Input/output error)" in refused(tmp_path)


def test_very_many_heads_are_refused_at_once(tmp_path):
    # 400 kB that would make 100,000 heads of one dimension, a millisecond each
    save_file({name: np.ones((100_000, 1), dtype=np.float32) for name in (QUERY, KEY)}, tmp_path / "model.safetensors")
    assert "head_count must be an integer from 1 to 4096; got 100000" in refused(tmp_path, head_count=100_000)
