"""Untrusted input files: type and size are checked before they are read."""

import os
import time

import pytest

from onehead.atomic_io import checked_size, read_file
from onehead.cli.aim.flags import read_array, read_eigenvalues
from onehead.errors import InvalidArgument
from onehead.sweep.spec_file import read_spec
from onehead.weights import open_checkpoint, survey

READERS = {
    "spec": read_spec,
    "atoms": read_eigenvalues,
    "tokens": lambda path: read_array("--token-law", path),
    "checkpoint": open_checkpoint,
}


@pytest.fixture
def pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize("reader", READERS)
def test_devices_pipes_and_invalid_names_are_refused_at_once(tmp_path, pipe, reader):
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in ("/dev/zero", pipe, tmp_path / "link", tmp_path / "nowhere", "a\0b", "/proc/self/mem/x", "x" * 5000):
        start = time.monotonic()
        with pytest.raises(InvalidArgument) as refusal:
            READERS[reader](str(path))
        assert "\n" not in str(refusal.value)
        assert time.monotonic() - start < 1.0
    with pytest.raises(InvalidArgument, match="regular file"):
        READERS[reader](str(pipe))


def test_files_next_to_a_checkpoint_are_checked_too(tmp_path, pipe):
    from tests.support.hostile import checkpoint

    checkpoint(tmp_path / "model.safetensors")
    pipe.rename(tmp_path / "config.json")
    with pytest.raises(InvalidArgument, match="regular file"):
        survey(tmp_path / "model.safetensors", fit=False)
    (tmp_path / "config.json").rename(tmp_path / "pipe.safetensors")
    with pytest.raises(InvalidArgument, match="regular file"):
        open_checkpoint(tmp_path / "pipe.safetensors")
    (tmp_path / "x.safetensors.index.json").symlink_to("/dev/zero")
    with pytest.raises(InvalidArgument, match="regular file"):
        open_checkpoint(tmp_path / "x.safetensors.index.json")


@pytest.mark.parametrize("reader", ["spec", "atoms"])
def test_large_files_are_refused_by_their_size(tmp_path, reader):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(10**13)  # a sparse file, which takes no space
    with pytest.raises(InvalidArgument, match="10,000,000,000,000 bytes; the limit for such a file is 2,000,000"):
        READERS[reader](str(tmp_path / "large"))


def test_a_file_that_grows_after_the_check_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "grows"
    path.write_bytes(b"x" * 100)
    monkeypatch.setattr("onehead.atomic_io.checked_size", lambda *_: 1)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        read_file(path, 10, ValueError)
    assert read_file(path, 100, ValueError) == b"x" * 100
    assert checked_size(path, None, ValueError) == 100


def test_text_files_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "s.toml").write_bytes(b'\xef\xbb\xbfcall = "sparse.align"\r\n[grid]\r\nalpha0 = [1.0]\r\n')
    assert len(read_spec(str(tmp_path / "s.toml"))) == 1
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf2, 1 # two\r\n0\r\n")
    assert read_eigenvalues(str(tmp_path / "a.txt")) == [2.0, 1.0, 0.0]
