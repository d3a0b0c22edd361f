"""The one way to write: refused before the work where it cannot be, whole or not at all where it can."""

import os
import re
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

import onehead
from onehead.errors import InvalidArgument, NotWritten
from onehead.files import check_file, check_folder, whole_file, write_whole
from tests.support.folders import folder_that_cannot_be_written

OLD = "what was there before"


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "old.csv"
    path.write_text(OLD)
    return path


def parts(folder):
    return [path.name for path in folder.iterdir() if path.suffix == ".part"]


def test_what_cannot_be_written_is_refused_in_one_sentence(tmp_path, old):
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
        "circle": "the name of a file that can be reached",
        "zero\0": "the name of a file that can be reached",
        "s.db": "another file than a store",
        "link.db": "another file than a store",
        "hard.db": "another file than a store",
        "old.csv": "or one that is read",
        "hard.csv": "or one that is read",
        "soft.csv": "or one that is read",
    }.items():
        with pytest.raises(InvalidArgument, match=f"^--csv must be .*{re.escape(allowed)}.*; got ") as refused:
            check_file("--csv", tmp_path / name, never=[old])
        assert "\n" not in str(refused.value)
    with pytest.raises(InvalidArgument, match=r"--plot must be a file name that ends in \.png, \.pdf"):
        check_file("--plot", tmp_path / "a.gif", endings=(".png", ".pdf"))
    with folder_that_cannot_be_written(old) as folder:
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


def test_mode_and_links_stay(tmp_path, old):
    old.chmod(0o600)
    link = tmp_path / "link.csv"
    link.symlink_to("old.csv")
    write_whole(link, "new")
    assert link.is_symlink() and old.read_text() == "new" and stat.S_IMODE(old.stat().st_mode) == 0o600
    (tmp_path / "dangling").symlink_to("fresh.csv")
    mask = os.umask(0o027)
    try:
        write_whole(tmp_path / "dangling", b"x")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "fresh.csv").stat().st_mode) == 0o640  # a new file is as the shell would make it


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, ValueError, OSError(28, "No space left on device")])
def test_whatever_happens_the_old_content_stays(tmp_path, old, trouble):
    def torn():
        with whole_file(old) as part:
            part.write_text("half")
            raise trouble

    wanted = NotWritten if isinstance(trouble, OSError) else trouble
    with pytest.raises(wanted) as raised:
        torn()
    assert old.read_text() == OLD and parts(tmp_path) == []
    if wanted is NotWritten:
        assert (
            str(raised.value)
            == f"{old} could not be written (No space left on device); what was there before has not changed."
        )


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_disk_that_fails_at_the_last_moment(tmp_path, old, step, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, full) if step == "fsync" else monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(NotWritten, match="No space left"):
        write_whole(old, "new")
    assert old.read_text() == OLD and parts(tmp_path) == []


def test_content_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    seen = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (seen.append((tmp_path / "a").exists()), real(handle)))
    write_whole(tmp_path / "a", "x")
    assert seen[0] is False


def test_nothing_else_writes():
    """One writer: no other file of the package opens one for writing."""
    writes = re.compile(r"write_text\(|write_bytes\(|savefig\(|to_parquet\(|\.open\(\"w")
    package = Path(onehead.__file__).parent  # where it is installed, which need not be beside the tests
    found = {
        path.relative_to(package).as_posix(): len(writes.findall(path.read_text())) for path in package.rglob("*.py")
    }
    allowed = {
        "files.py": 1,  # the writer itself
        "plot/style.py": 1,  # each into the name that the writer gives
        "sweep/export.py": 2,
        "cli/output.py": 1,
        "app/export.py": 1,  # a card, into memory
        "app/views/sample.py": 1,  # the sample checkpoint, into a folder of its own that is gone afterwards
        "app/server.py": 1,  # what a page sends, into a folder of its own that is gone afterwards
    }
    assert {name: count for name, count in found.items() if count} == allowed
