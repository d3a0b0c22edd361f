"""Stores renamed, removed, replaced or damaged under a running sweep, damaged caches of compiled code, and closed
streams.
"""

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, cast

from checks.faults_processes import ended, small_disk
from checks.tool import QUIET
from onehead.errors import OneheadError
from onehead.sweep import Inline, Spec, Store, drive

__all__ = ["caches", "disturbed", "streams"]

POINTS = 150
PREDICT = "sparse predict --model pooled --json"
PROGRAM_EVERY = 25  # one sweep in so many runs as the program of the shell, the others in a forked process


def square(parameters: dict[str, Any], seed: int) -> dict[str, Any]:
    """A call of our own that takes a millisecond."""
    time.sleep(0.001)
    return {"square": parameters["x"] ** 2}


class _Batches(Inline):
    """Executor that hands over a few points at a time, so that there are many transactions."""

    def run(self, call: str, points: Any) -> Any:
        for outcomes in super().run(call, points):
            for start in range(0, len(outcomes), 5):
                yield outcomes[start : start + 5]


class _Timed:
    """A store that sends the times at which its last check begins and ends."""

    def __init__(self, store: Store, pipe: Any) -> None:
        self._store, self._pipe = store, pipe

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def verify(self, sweep: int) -> Any:
        self._pipe.send(time.monotonic())
        counts = self._store.verify(sweep)
        self._pipe.send(time.monotonic())
        return counts


def _sweep(store: str, pipe: Any) -> None:
    """Run a sweep, send the number of counted points after every transaction, and end with its exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    spec = Spec(call="checks.faults_files:square", axes={"x": list(range(POINTS))}, own=True)
    try:
        with Store.writing(store) as opened:
            drive(spec, cast(Store, _Timed(opened, pipe)), _Batches(), progress=lambda counts: pipe.send(counts.done))
    except OneheadError as failure:
        pipe.send(str(failure))
        os._exit(1)
    os._exit(0)


def _forked(store: Path) -> tuple[Any, Any]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_sweep, args=(str(store), theirs))
    process.start()
    theirs.close()
    return process, ours


def _received(pipe: Any) -> list[Any]:
    messages = []
    try:
        while True:
            messages.append(pipe.recv())
    except EOFError:
        return messages


def _squares(store: Path) -> list[int] | None:
    """Squares of the finished points of a store in order; None if it is refused."""
    try:
        with Store.reading(store) as opened:
            return sorted(row["square"] for row in opened.rows())
    except OneheadError:
        return None


# --- what is done to the files of a running sweep


def _rename(store: Path, chance: random.Random) -> None:
    store.rename(store.with_name("renamed.db"))


def _rename_all(store: Path, chance: random.Random) -> None:
    for path in store.parent.glob("s.db*"):
        path.rename(store.with_name(path.name.replace("s.db", "renamed.db")))


def _rename_folder(store: Path, chance: random.Random) -> None:
    store.parent.rename(store.parent.with_name("renamed"))


def _remove(store: Path, chance: random.Random) -> None:
    store.unlink()


def _remove_all(store: Path, chance: random.Random) -> None:
    for path in store.parent.glob("s.db*"):
        path.unlink()


def _replace(store: Path, chance: random.Random) -> None:
    shutil.copyfile(store.parent.parent / "other.db", store.with_name("other.db"))
    store.with_name("other.db").replace(store)


def _overwrite(store: Path, chance: random.Random) -> None:
    shutil.copyfile(store.parent.parent / "other.db", store)


def _damage_store(store: Path, chance: random.Random) -> None:
    _flip(store, chance)


def _damage_journal(store: Path, chance: random.Random) -> None:
    _flip(store.with_name("s.db-wal"), chance)


def _remove_journal(store: Path, chance: random.Random) -> None:
    store.with_name("s.db-wal").unlink()


def _leave(store: Path, chance: random.Random) -> None:
    """Nothing but what else happens to the process."""


def _flip(path: Path, chance: random.Random) -> None:
    with path.open("r+b") as file:
        size = path.stat().st_size
        for _ in range(3 if size else 0):
            at = chance.randrange(size)
            file.seek(at)
            (byte,) = file.read(1) or b"\0"
            file.seek(at)
            file.write(bytes([byte ^ (1 << chance.randrange(8))]))


# what is done, and whether counted points must survive it in some file
DISTURBANCES = (
    (_rename, True),
    (_rename_all, True),
    (_rename_folder, True),
    (_remove, True),
    (_remove_all, True),
    (_replace, True),
    (_overwrite, False),
    (_damage_store, False),
    (_damage_journal, False),
    (_remove_journal, True),
    (_leave, True),
)


def disturbed(number: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Disturb a running sweep at a random moment, kill it in one of three trials, and look for its counted points.

    Exit code 0 must mean that every point is in the store of that name. Every counted point must be in a readable
    file, unless its file was removed or overwritten and the process was killed before it could save a copy. A second
    run must complete the sweep or refuse the store.
    """
    chance = random.Random(f"names {seed} {number}")
    other, tempfile.tempdir = folder / "other.db", str(folder)
    with Store.writing(other) as opened:
        drive(Spec(call="checks.faults_files:square", axes={"x": [7, 8]}, own=True), opened, Inline())
    (folder / "place").mkdir()
    store = folder / "place" / "s.db"
    act, survives = DISTURBANCES[number % len(DISTURBANCES)]
    kill = chance.random() < 1 / 3
    if number % PROGRAM_EVERY == PROGRAM_EVERY - 1:
        return _program(act.__name__.strip("_"), lambda: act(store, chance), folder, store, chance)
    process, pipe = _forked(store)
    wanted, counted = chance.choice((0, 0, 5, 30, 80, POINTS - 5)), -1
    messages = []
    while counted < wanted and pipe.poll(30):
        try:
            messages.append(pipe.recv())
        except EOFError:
            break
        counted = messages[-1] if isinstance(messages[-1], int) else POINTS
    time.sleep(chance.choice((0.0, chance.uniform(0.0, 0.02))))
    after_death = kill and act is _damage_journal  # a journal in use is copied into the store, with its damage
    if after_death:
        process.kill()
        process.join(60)
    acted = _done(lambda: act(store, chance))
    moment = time.monotonic()
    if kill:
        time.sleep(chance.uniform(0.0, 0.02))
        process.kill()
    messages += _received(pipe)
    process.join(60)
    code = process.exitcode
    counted = max((message for message in messages if isinstance(message, int)), default=0)
    check = [message for message in messages if isinstance(message, float)]  # when the last check began and ended
    content = act in (_overwrite, _damage_store)  # is read once by the check, and the name is looked at until its end
    during = acted and (len(check) < 2 or moment < check[0 if content else 1])
    files = [path for path in folder.rglob("*") if path.is_file() and path != other]
    files = [path for path in files if not path.name.endswith(("-wal", "-shm", "-journal", ".lock"))]
    found = {path: _squares(path) for path in files}
    whole = [x * x for x in range(POINTS)]
    most = max((len(squares) for squares in found.values() if squares), default=0)
    wrong = any(squares is not None and not set(squares) <= set(whole) for squares in found.values())
    removed = act in (_remove, _remove_all, _replace)
    must_survive = (survives or after_death) and (during or not removed) and not (removed and code not in (0, 1))
    fault = (
        "did not end" if code is None
        else "exit code 0 with points missing" if code == 0 and found.get(store) != whole and during
        else f"{counted - most} counted points lost" if must_survive and most < counted
        else "wrong rows" if wrong
        else f"exit code {code}" if code not in (0, 1, -9)
        else _again(store, whole)
    )  # fmt: skip
    tempfile.tempdir = None
    row = {"act": act.__name__.strip("_"), "killed": kill, "during": during, "code": code}
    return {**row, "counted": counted, "kept": most, "fault": fault}


def _done(act: Any) -> bool:
    """Whether the files were there to be disturbed."""
    try:
        act()
    except FileNotFoundError:
        return False
    return True


def _again(store: Path, whole: list[int]) -> str:
    """Run the sweep again under its name: it must be complete, or refused."""
    store.parent.mkdir(exist_ok=True)
    process, pipe = _forked(store)
    messages = _received(pipe)
    process.join(60)
    if process.exitcode == 0 and not set(whole) <= set(_squares(store) or []):
        return "a second run ended with exit code 0 and points missing"
    if process.exitcode == 1 and isinstance(messages[-1], str) and "\n" not in messages[-1]:
        return ""
    return "" if process.exitcode == 0 else f"a second run ended with exit code {process.exitcode}: {messages[-1:]}"


def _program(name: str, act: Any, folder: Path, store: Path, chance: random.Random) -> dict[str, Any]:
    """The same with ``onehead sweep run``: exit code 0 and "missing 0" only if every point is there."""
    (folder / "s.toml").write_text('call = "aim.predict"\n[grid]\nalpha = "0.3:2:60"\n')
    process = subprocess.Popen(
        [sys.executable, "-m", "onehead", "sweep", "run", "s.toml", "--store", str(store)],
        cwd=folder,
        env={**os.environ, **QUIET},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while process.poll() is None and not store.exists():
        time.sleep(0.01)
    time.sleep(chance.uniform(0.0, 2.0))
    _done(act)
    code, out, told = ended(process)
    try:
        with Store.reading(store) as opened:
            complete = opened.counts().done == 60 and opened.counts().missing == 0
    except OneheadError:
        complete = False
    fault = (
        "exit code 0 with points missing" if code == 0 and not complete
        else "missing 0" if "missing 0" in out and not complete
        else "traceback" if "Traceback" in told
        else ""
    )  # fmt: skip
    return {"act": f"{name}, program", "killed": False, "code": code, "counted": 0, "kept": 0, "fault": fault}


# --- the cache of compiled code


def caches(number: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Cut, empty or overwrite one file of the cache in five, or fill its disk: the same answer, and no traceback."""
    chance = random.Random(f"caches {seed} {number}")
    whole = folder.parent / "cache"
    answer = folder.parent / "answer"
    if not answer.exists():
        code, out, _ = ended(_run(PREDICT, folder, NUMBA_CACHE_DIR=str(whole)))
        assert code == 0
        answer.write_text(out)
    kind = ("cut", "empty", "noise", "full")[number % 4]
    if kind == "full":
        with small_disk("300k") as small:
            if small is None:
                return {"damage": kind, "fault": "", "skipped": True}
            (small / "ballast").write_bytes(bytes(chance.choice((290_000, 200_000))))
            code, out, told = ended(_run(PREDICT, folder, NUMBA_CACHE_DIR=str(small)))
    else:
        shutil.copytree(whole, folder / "cache")
        for path in (folder / "cache").rglob("*.nb[ic]"):
            if chance.random() < 0.2:
                content = path.read_bytes()
                cut = content[: chance.randrange(len(content))]
                path.write_bytes({"cut": cut, "empty": b"", "noise": chance.randbytes(len(content))}[kind])
        code, out, told = ended(_run(PREDICT, folder, NUMBA_CACHE_DIR=str(folder / "cache")))
        shutil.rmtree(folder / "cache")
    good = code == 0 and out == answer.read_text() and "Traceback" not in told
    return {"damage": kind, "code": code, "fault": "" if good else f"code {code}: {told[-300:]}"}


def _run(command: str, folder: Path, **environment: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-m", "onehead", *command.split()],
        cwd=folder,
        env={**os.environ, **QUIET, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


# --- closed streams

STREAM_COMMANDS = (
    ("sparse align --json", ""),
    ("sparse align --csv o.csv", "o.csv"),
    ("sweep run s.toml --store s.db", "s.db"),
    ("sweep run s.toml --store s.db --on local --workers 1", "s.db"),
    ("sparse align --alpha0 -1", ""),
)


def streams(number: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Run a command with standard input, output or error closed: its work is done, and its exit code is right."""
    command, output = STREAM_COMMANDS[number % len(STREAM_COMMANDS)]
    closed = ("<&-", ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-")[number // len(STREAM_COMMANDS) % 5]
    (folder / "s.toml").write_text('call = "sparse.align"\n[grid]\nalpha0 = "0.5:4:10"\n')
    process = subprocess.Popen(
        ["sh", "-c", f'exec "{sys.executable}" -m onehead {command} {closed}'],
        cwd=folder,
        env={**os.environ, **QUIET},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    code, _, told = ended(process)
    refused = "-1" in command
    unprinted = "1" in closed.replace("2>", "").replace("<", "") or ">&-" in closed.split()
    wanted = 2 if refused else 1 if unprinted and not output.endswith((".csv", ".db")) else None
    done = not output or (folder / output).exists()
    good = done and "Traceback" not in told and (code == wanted if wanted is not None else code in (0, 1))
    return {"command": f"{command} {closed}", "code": code, "fault": "" if good else f"code {code}: {told[-300:]}"}
