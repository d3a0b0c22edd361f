"""Hostile checkpoints: symbolic links, false sizes, deep headers, and names with a meaning for other programs."""

import json
import os
import time
from pathlib import Path

import pytest
from tests.support.checkpoints import KEY, QUERY, header_with_data
from tests.support.hostile import checkpoint, program
from tests.support.programs import run

from onehead.errors import InvalidArgument, OneheadError
from onehead.results import Certificate
from onehead.sweep.table import Table
from onehead.weights import open_checkpoint, survey

ROOT = Path(__file__).parents[2]


def test_the_target_of_a_symbolic_link_is_not_disclosed(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("the password is swordfish " * 9)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "part.safetensors").symlink_to(secret)
    index = {"weight_map": {QUERY: "part.safetensors", KEY: "part.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InvalidArgument) as failure:
        survey(folder, head_count=1, fit=False)
    assert "swordfish" not in str(failure.value)
    (folder / "config.json").symlink_to(secret)
    checkpoint(folder / "good.safetensors")
    with pytest.raises(InvalidArgument) as failure:
        survey(folder / "good.safetensors", fit=False)
    assert "swordfish" not in str(failure.value)
    os.mkfifo(tmp_path / "pipe")
    (folder / "part.safetensors").unlink()
    (folder / "part.safetensors").symlink_to(tmp_path / "pipe")  # reading it would wait for ever
    with pytest.raises(InvalidArgument, match="regular"):
        survey(folder, head_count=1, fit=False)


def test_false_sizes_in_the_header_take_no_time(tmp_path):
    path = tmp_path / "model.safetensors"
    # tensors without bytes that claim 2^59 rows
    empty = {"dtype": "F32", "shape": [2**59, 0], "data_offsets": [0, 0]}
    path.write_bytes(header_with_data({QUERY: empty, KEY: empty}))
    start = time.monotonic()
    with pytest.raises(OneheadError) as failure:  # several tensors without bytes at one offset, or not a matrix
        raise_if_unread(survey(path, head_count=1, fit=False))
    assert "\n" not in str(failure.value)
    assert time.monotonic() - start < 5.0


def test_deep_values_in_a_header_are_refused_in_one_sentence(tmp_path):
    # some versions of Python can read such JSON but not print it
    deep = b"[" * 100_000 + b"]" * 100_000
    text = b'{"x": {"dtype": ' + deep + b', "shape": [1], "data_offsets": [0, 4]}}'
    (tmp_path / "model.safetensors").write_bytes(header_with_data(text, bytes(4)))
    with pytest.raises(InvalidArgument) as failure:
        open_checkpoint(tmp_path / "model.safetensors")
    assert "\n" not in str(failure.value) and len(str(failure.value)) < 500


def raise_if_unread(found):
    if all(head.status != "ok" for head in found):
        raise OneheadError(found[0].reason or "")


def test_long_names_are_matched_quickly(tmp_path):
    # names for which a careless regular expression would try every split
    path = tmp_path / "model.safetensors"
    start = time.monotonic()
    for prefix in ("a." * 100_000, "a" * 1_000_000 + "."):  # prefixes that models may have
        checkpoint(path, prefix)
        assert survey(path, head_count=1, fit=False)[0].status == "ok"
    for prefix in ("a" * 1_000_000, "é." * 50_000, "a." * 100_000 + "-"):
        checkpoint(path, prefix)
        with pytest.raises(InvalidArgument) as failure:
            survey(path, head_count=1, fit=False)
        assert len(str(failure.value)) < 1000
    assert time.monotonic() - start < 20.0


@pytest.mark.parametrize(
    "prefix", ["=cmd()|x!A1.", "[/b].", "\x1b[31mx.", "<img src=x onerror=alert(1)>.", "$\\frac$.", "@x."]
)
def test_names_with_special_characters_are_not_recognised(tmp_path, prefix):
    # spreadsheets, terminals, browsers or TeX would interpret these; module names are letters, digits and dots
    checkpoint(tmp_path / "model.safetensors", prefix)
    with pytest.raises(InvalidArgument, match="none of the 2 tensors"):
        survey(tmp_path / "model.safetensors", head_count=1, fit=False)


def test_a_file_with_special_characters_in_its_name_is_surveyed_and_drawn(tmp_path):
    name = "[_b] $\\frac$ <b>&.safetensors"
    folder = tmp_path / "q[" / "red]"
    folder.mkdir(parents=True)
    checkpoint(folder / name, size=16)
    code, out, _ = program("weights", f"q[/red]/{name}", "--heads", "1", "--no-fit", "--plot", "out", cwd=tmp_path)
    assert code == 0
    assert "q[/red]" in out
    assert (tmp_path / "out" / "map.png").exists()


def test_html_output_escapes_markup(tmp_path):
    evil = "<script>alert(1)</script>"
    folder = tmp_path / evil.replace("/", "")
    folder.mkdir()
    checkpoint(folder / "model.safetensors")
    found = survey(folder, head_count=1, fit=False)
    row = {"key": "k", "call": evil, "state": "failed", "reason": evil, evil: evil, "status": "failed", "arrays": None}
    other = row | {"reason": "x", evil: 2, "key": "l"}
    certificate = Certificate(status=evil, kind="claim", warnings=(evil,))
    for shown in (found, found[0], Table([row, other]), type(found)(**{**vars(found), "certificate": certificate})):
        assert "<script" not in shown._repr_html_()


def test_a_sample_of_hostile_checkpoints():
    # `make hostile` runs 1,600 of them
    done = run("-m", "checks.hostile", "--count", "20", "--seed", "1", cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("20 checkpoints: ")
