"""Hostile sweep files, stores and arrays are refused with one sentence; none of their text is executed."""

import json
import re
import struct

import numpy as np
import pytest
from tests.support.hostile import UnpicklingMark, poison, program

from onehead.errors import InvalidArgument, OneheadError
from onehead.sweep import Store, sweep
from onehead.sweep.errors import BadStore
from onehead.sweep.spec_file import parse_spec
from onehead.sweep.storage.arrays import Arrays

HEAD = 'call = "sparse.align"\n'


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "[grid]\nalpha0 = " + "[" * 5000 + "]" * 5000,
        HEAD + "[fixed]\nx = " + "{a = " * 3000 + "1" + "}" * 3000,
        HEAD + "[grid]\nalpha0 = [" + "9" * 5000 + "]",
        HEAD + "[grid]\nalpha0 = [nan]",
        HEAD + "[grid]\nalpha0 = [inf]",
        HEAD + '[grid]\nalpha0 = "0:1:100000000000"',
        HEAD + '[grid]\nalpha0 = "1:2:100000"\nstrength = "1:2:100000"\neta_w = "1:2:100000"\nbeta = "1:2:100000"',
        HEAD + '[fixed]\n__class__ = "x"\n[grid]\nalpha0 = [1.0]',
        HEAD + '[grid]\n"alpha0\'; DROP TABLE points; --" = [1.0]',
        HEAD + '[run]\nchunk = "x"\n[grid]\nalpha0 = [1.0]',
        'call = "aim.train"\nseeds = 1000000000000\n[grid]\nalpha = [1.0]',
        'call = "aim.predict"\n[fixed]\ntarget = "atoms"\natoms = "/etc/passwd"\n[grid]\nalpha = [1.0]',
        'call = "aim.predict"\n[fixed]\ntarget = "/etc/passwd"\n[grid]\nalpha = [1.0]',
        "\x00",
    ],
    ids=lambda text: re.sub(r"\W+", "-", text[-40:]),
)
def test_hostile_sweep_files_are_refused_with_one_sentence(text):
    with pytest.raises(InvalidArgument) as failure:
        parse_spec(text)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"partition": "x\ntouch owned"},
        {"partition": "x; touch owned"},
        {"partition": "$(touch owned)"},
        {"partition": "x --wrap=touch"},
        {"partition": ""},
        {"time": "01:00:00\ntouch owned"},
        {"memory": "2GB\ntouch owned"},
        {"memory": "2GB; touch owned"},
    ],
    ids=str,
)
def test_no_text_of_a_file_becomes_a_line_of_the_job_script(settings):
    from onehead.sweep.executors.slurm import SlurmSettings

    with pytest.raises(InvalidArgument):
        SlurmSettings(**settings)


def test_names_of_partitions_are_accepted():
    from onehead.sweep.executors.slurm import SlurmSettings

    for name in ("main", "gpu-a100", "short,long", "part_1.x", None):
        assert SlurmSettings(partition=name).partition == name


@pytest.mark.parametrize(
    "name", ["x'; DROP TABLE points; --.db", "a?mode=memory&x#y.db", "100%25.db", "ä ö.db", "-.db"]
)
def test_the_name_of_a_store_is_never_interpreted(tmp_path, name):
    table = sweep("sparse.align", {"alpha0": [1.0]}, store=tmp_path / name)
    with Store.reading(tmp_path / name) as store:
        assert [row["key"] for row in store.rows()] == [table[0]["key"]]
    assert name in {path.name for path in tmp_path.iterdir()}


def echo(values, seed):
    """Call that returns its parameter."""
    return {"returned": values["text"]}


def test_values_never_become_statements(tmp_path):
    texts = ["'); DROP TABLE points; --", '"; DELETE FROM sweeps; --', "? :id", "\x1b[31m", "=1+1", "[/b]", "<script>"]
    table = sweep("tests.sweep.test_security:echo", {"text": texts}, store=tmp_path / "s.db")
    assert [row["returned"] for row in table] == texts
    with Store.reading(tmp_path / "s.db") as store:
        assert [row["text"] for row in store.rows()] == texts
        assert store.stored() == len(texts)
    code, out, _ = program("sweep", "export", "--store", "s.db", cwd=tmp_path)
    assert code == 0
    assert "[/b]" in out  # printed as it is, not read as markup
    assert "\x1b" not in out


@pytest.mark.parametrize(
    "columns",
    [
        {"parameters": "{"},
        {"parameters": "[1]"},
        {"parameters": b"\xff\xfe"},
        {"parameters": "[" * 100_000 + "]" * 100_000},
        {"results": "{"},
        {"results": "7"},
        {"results": '{"a": ' * 50_000 + "1" + "}" * 50_000},
    ],
    ids=lambda columns: f"{next(iter(columns))}-{len(str(columns))}",
)
def test_a_store_with_broken_rows_is_refused_as_damaged(tmp_path, columns):
    sweep("sparse.align", {"alpha0": [1.0, 2.0]}, store=tmp_path / "s.db")
    poison(tmp_path / "s.db", **columns)
    with pytest.raises(OneheadError, match="damaged") as failure, Store.reading(tmp_path / "s.db") as store:
        list(store.rows())
    assert "\n" not in str(failure.value)


def test_text_of_a_store_is_printed_and_never_interpreted(tmp_path):
    (tmp_path / "s.toml").write_text(HEAD + "[grid]\nalpha0 = [1.0, 2.0]\n")
    sweep("sparse.align", {"alpha0": [1.0, 2.0]}, store=tmp_path / "s.db")
    # markup of the terminal library, a window title, and a cleared screen
    poison(tmp_path / "s.db", state="failed", reason="[/b] [link=file:///]x[/link] \x1b]0;owned\x07 \x1b[2J")
    for arguments in (("export",), ("export", "--csv", "s.csv"), ("export", "--parquet", "s.parquet"), ("status",)):
        code, out, err = program("sweep", *arguments, "--store", "s.db", cwd=tmp_path)
        assert code == 0
        assert "\x1b" not in out + err
    code, out, err = program("sweep", "run", "s.toml", "--store", "s.db", cwd=tmp_path)
    assert "\x1b" not in out + err
    # results that would hide columns, and numbers that are not finite
    poison(tmp_path / "s.db", state="done", reason=None, results='{"call": 5, "key": "other", "x": NaN, "y": 1e999}')
    code, out, _ = program("sweep", "export", "--store", "s.db", "--json", cwd=tmp_path)
    assert code == 0
    row = json.loads(out)[0]
    assert row["call"] == "sparse.align" and row["key"] != "other"
    assert row["x"] is None and row["y"] is None


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    (tmp_path / "s.db.lock").symlink_to(mine)
    with pytest.raises(OneheadError):
        sweep("sparse.align", {"alpha0": [1.0]}, store=tmp_path / "s.db")
    assert mine.read_text() == "precious"


def test_names_of_arrays_cannot_leave_their_folder(tmp_path):
    (tmp_path / "s.db.arrays").mkdir()
    np.savez(tmp_path / "secret.npz", x=np.ones(2))
    arrays = Arrays(tmp_path / "s.db.arrays")
    for name in ("../secret.npz", "../secret", str(tmp_path / "secret.npz"), "..", ""):
        with pytest.raises(FileNotFoundError):
            arrays.get(name)
    np.savez(tmp_path / "s.db.arrays" / "evil.npz", x=np.array([UnpicklingMark(tmp_path / "executed")], dtype=object))
    with pytest.raises(BadStore, match=r"evil\.npz is damaged"):
        arrays.get("evil")
    assert not (tmp_path / "executed").exists()


def npy(path, header, data=bytes(64)):
    """Write a .npy file with this header, valid or not."""
    text = header.encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data)


def described(shape="(8,)", descr="'<f8'"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


def test_hostile_arrays_on_the_command_line_are_refused_in_one_line(tmp_path):
    from onehead.cli.aim.flags import read_eigenvalues

    npy(tmp_path / "huge.npy", described("(1000000000000,)"))
    npy(tmp_path / "negative.npy", described("(-1,)"))
    npy(tmp_path / "deep.npy", described("(" * 200 + ")" * 200))
    npy(tmp_path / "code.npy", described(descr=f"__import__('os').mkdir('{tmp_path / 'executed'}')"))
    npy(tmp_path / "words.npy", described(descr="'<U8'"))
    npy(tmp_path / "record.npy", described(descr="[('a', '<f8')]"))
    np.save(
        tmp_path / "pickled.npy", np.array([UnpicklingMark(tmp_path / "executed")], dtype=object), allow_pickle=True
    )
    np.savez(tmp_path / "zip.npz", a=np.ones(3))
    (tmp_path / "zip.npz").rename(tmp_path / "zip.npy")
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "bytes.txt").write_bytes(bytes(range(256)))
    for path in tmp_path.iterdir():
        with pytest.raises(InvalidArgument) as failure:
            read_eigenvalues(str(path))
        assert "\n" not in str(failure.value), path.name
    assert not (tmp_path / "executed").exists()
    code, out, err = program("aim", "predict", "--target", "atoms", "--atoms", "huge.npy", "--alpha", "1", cwd=tmp_path)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
