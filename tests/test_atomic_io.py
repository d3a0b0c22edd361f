"""Output files: refused before the work begins if they cannot be written, and replaced atomically."""

import os
import re
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

import onehead
from onehead.atomic_io import atomic_file, check_file, check_folder, write_atomically
from onehead.errors import InvalidArgument, NotWritten
from tests.support.folders import read_only_folder

OLD = "previous content"


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "old.csv"
    path.write_text(OLD)
    return path


def temporary_files(folder):
    return [path.name for path in folder.iterdir() if path.suffix == ".part"]


def test_outputs_that_cannot_be_written_are_refused_in_one_sentence(tmp_path, old):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "null").symlink_to("/dev/null")
    with closing(sqlite3.connect(tmp_path / "s.db")) as db:
        db.executescript("CREATE TABLE a (b); PRAGMA user_version = 1;")
    (tmp_path / "link.db").symlink_to(tmp_path / "s.db")
    os.link(tmp_path / "s.db", tmp_path / "hard.db")
    os.link(old, tmp_path / "hard.csv")
    (tmp_path / "soft.csv").symlink_to(old)
    for name, allowed in {
        "no/where.csv": "in a folder that exists",
        "old.csv/x.csv": "in a folder that exists",
        ".": "a regular file or a new name",
        "pipe": "a regular file or a new name",
        "null": "a regular file or a new name",
        "/dev/null": "a regular file or a new name",
        "circle": "a path that can be resolved",
        "zero\0": "a path that can be resolved",
        "s.db": "a file other than a store",
        "link.db": "a file other than a store",
        "hard.db": "a file other than a store",
        "s.db-wal": "a name other than those of the journals and the lock of a store",
        "s.db-shm": "a name other than those of the journals and the lock of a store",
        "s.db-journal": "a name other than those of the journals and the lock of a store",
        "s.db.lock": "a name other than those of the journals and the lock of a store",
        "old.csv": "or an input file",
        "hard.csv": "or an input file",
        "soft.csv": "or an input file",
    }.items():
        with pytest.raises(InvalidArgument, match=f"^--csv must be .*{re.escape(allowed)}.*; got ") as refused:
            check_file("--csv", tmp_path / name, never=[old])
        assert "\n" not in str(refused.value)
    with pytest.raises(InvalidArgument, match=r"--plot must be a file name that ends in \.png, \.pdf"):
        check_file("--plot", tmp_path / "a.gif", endings=(".png", ".pdf"))
    with read_only_folder(old) as folder:
        for path in (folder / "new.csv", folder / "old.csv"):
            with pytest.raises(InvalidArgument, match="in a folder that can be written"):
                check_file("--csv", path)
        with pytest.raises(InvalidArgument, match="--out must be a folder that can be written"):
            check_folder("--out", folder / "new" / "newer")
    assert check_folder("--out", tmp_path / "a" / "b") == tmp_path / "a" / "b"
    for path in (old, old / "below"):
        with pytest.raises(InvalidArgument, match="--out must be a folder, or the name of a new one"):
            check_folder("--out", path)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode) and old.read_text() == OLD


def test_mode_and_links_of_a_replaced_file_are_kept(tmp_path, old):
    old.chmod(0o600)
    link = tmp_path / "link.csv"
    link.symlink_to("old.csv")
    write_atomically(link, "new")
    assert link.is_symlink() and old.read_text() == "new" and stat.S_IMODE(old.stat().st_mode) == 0o600
    (tmp_path / "dangling").symlink_to("fresh.csv")
    mask = os.umask(0o027)
    try:
        write_atomically(tmp_path / "dangling", b"x")
    finally:
        os.umask(mask)
    assert (
        stat.S_IMODE((tmp_path / "fresh.csv").stat().st_mode) == 0o640
    )  # a new file has the mode that the shell would give it


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError, OSError(28, "No space left on device")])
def test_the_old_content_stays_when_writing_fails(tmp_path, old, failure):
    def interrupted_write():
        with atomic_file(old) as part:
            part.write_text("half")
            raise failure

    expected = NotWritten if isinstance(failure, OSError) else failure
    with pytest.raises(expected) as raised:
        interrupted_write()
    assert old.read_text() == OLD and temporary_files(tmp_path) == []
    if expected is NotWritten:
        assert (
            str(raised.value)
            == f"{old} could not be written (No space left on device); any previous content is unchanged."
        )


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_the_old_content_stays_when_the_last_step_fails(tmp_path, old, step, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full) if step == "fsync" else monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(NotWritten, match="No space left"):
        write_atomically(old, "new")
    assert old.read_text() == OLD and temporary_files(tmp_path) == []


def test_content_is_flushed_before_the_file_gets_its_name(tmp_path, monkeypatch):
    existed = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (existed.append((tmp_path / "a").exists()), real(handle)))
    write_atomically(tmp_path / "a", "x")
    assert existed[0] is False


def test_no_other_module_writes_files():
    writes = re.compile(r"write_text\(|write_bytes\(|savefig\(|to_parquet\(|\.open\(\"w")
    package = Path(onehead.__file__).parent  # the installed package, which need not be next to the tests
    found = {}
    for path in package.rglob("*.py"):
        code = [line for line in path.read_text().splitlines() if not line.lstrip().startswith((">>> ", "... "))]
        found[path.relative_to(package).as_posix()] = len(writes.findall("\n".join(code)))  # without doctests
    allowed = {
        "atomic_io.py": 1,  # the writer itself
        "plot/style.py": 1,  # this and the next two write to the temporary file of `atomic_file`
        "sweep/export.py": 2,
        "cli/rendering/output.py": 1,
        "app/export.py": 1,  # a preview image, in memory
        "app/views/sample.py": 1,  # the sample checkpoint, in a temporary folder
        "app/server/application.py": 1,  # an uploaded file, in a temporary folder
    }
    assert {name: count for name, count in found.items() if count} == allowed
