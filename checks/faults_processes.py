"""Processes that die, are interrupted, meet a full disk, or meet each other; and what is in their files then."""

import csv
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from checks.tool import QUIET
from onehead.sweep import Spec, Store, drive, executor_named
from onehead.sweep.errors import BadStore

__all__ = ["COMMANDS", "ctrl_c", "disk", "ended", "killed", "small_disk", "twice"]

OLD = b"an older file, which somebody needs\n"
PATIENCE = 120.0  # seconds within which anything must end
POINTS = 1500
SWEEP = 'call = "aim.predict"\n[grid]\nalpha = "0.3:2:400"\n'

# long commands, what they write, and the rows of a whole CSV file
COMMANDS: dict[str, tuple[str, dict[str, int]]] = {
    "curve": ("aim curve --alphas 0.3:2:60 --csv o.csv --plot o.png", {"o.csv": 60, "o.png": 0}),
    "curve-json": ("aim curve --alphas 0.3:2:60 --tokens 3 --json --csv o.csv", {"o.csv": 60}),
    "phases": ("aim phase-diagram --dim 60 --csv o.csv --plot o.pdf", {"o.csv": 175, "o.pdf": 0}),
    "tune": ("aim tune --alpha 0.5 --tokens 3 --csv o.csv --plot o.svg", {"o.csv": -1, "o.svg": 0}),
    "train": ("aim train --dim 60 --alpha 0.5 --seeds 4 --csv o.csv --plot o.png", {"o.csv": 4, "o.png": 0}),
    "compare": ("aim compare --alphas 0.5,1 --dims 40,60 --seeds 3 --csv o.csv --plot o.png", {"o.csv": 6, "o.png": 0}),
    "amp": ("aim amp --dim 120 --alpha 0.5 --csv o.csv --plot o.png", {"o.csv": 81, "o.png": 0}),
    "scaling": ("aim scaling --dim 60 --samples log:300:1e5:12 --csv o.csv --plot o.png", {"o.csv": 12, "o.png": 0}),
    "optimal": ("aim scaling --dim 60 --samples log:300:1e5:4 --optimal --csv o.csv", {"o.csv": 4}),
    "features": ("aim features --dim 60 --samples log:300:1e5:12 --weight-decay 1 --csv o.csv", {"o.csv": -1}),
    "sparse-predict": (
        "sparse predict --model all --alpha log:0.5:8:8 --csv o.csv --plot o.png",
        {"o.csv": 24, "o.png": 0},
    ),
    "sparse-train": ("sparse train --dim 300 --trials 20 --csv o.csv", {"o.csv": 1}),
    "sparse-map": ("sparse map --x eta-b=0:9:5 --y beta=2:12:4 --csv o.csv --plot o.png", {"o.csv": 20, "o.png": 0}),
    "sparse-tune": ("sparse tune --alpha 2 --csv o.csv --plot o.png", {"o.csv": -1, "o.png": 0}),
    "sparse-oracle": ("sparse oracle --length 2:40:6 --csv o.csv", {"o.csv": 6}),
    "sweep": ("sweep run s.toml --store s.db", {}),
    "sweep-local": ("sweep run s.toml --store s.db --on local --workers 2", {}),
    "sweep-check": ("sweep check s.toml", {}),
    "figures": ("figures make aim-thresholds sparse-alignment --quick --theory --out .", {"sparse-alignment.png": 0}),
    "demo": ("demo --out .", {"learning_curve.png": 0, "spectrum.png": 0}),
    "weights": ("weights m.safetensors --heads 4 --plot . --csv o.csv", {"o.csv": 16, "map.png": 0}),
}


def start(folder: Path, command: str, **options: Any) -> "subprocess.Popen[bytes]":
    """The program, deaf to nothing."""
    return subprocess.Popen(
        [sys.executable, "-m", "onehead", *command.split()],
        cwd=folder,
        env={**os.environ, **QUIET},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
        **options,
    )


def ended(process: "subprocess.Popen[bytes]") -> tuple[int | None, str, str]:
    """How a process ended, and what it said; None if it did not."""
    try:
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None, "", ""


def whole(path: Path, rows: int) -> bool:
    """Whether a file is what a command leaves that was not disturbed."""
    data = path.read_bytes()
    if path.suffix == ".csv":
        found = len(list(csv.reader(data.decode().splitlines()))) - 1
        return found == rows if rows >= 0 else found > 0
    marks = {".png": (b"\x89PNG", b"IEND\xaeB`\x82"), ".pdf": (b"%PDF", b"%%EOF\n"), ".svg": (b"<?xml", b"</svg>\n")}
    first, last = marks[path.suffix]
    return data.startswith(first) and data.endswith(last)


def _checkpoint(path: Path) -> None:
    """Four layers of four small heads."""
    from safetensors.numpy import save_file

    chance = np.random.default_rng(0)
    names = [f"encoder.layer.{k}.attention.self.{side}.weight" for k in range(4) for side in ("query", "key")]
    save_file({name: chance.standard_normal((128, 128), dtype=np.float32) for name in names}, path)


def ctrl_c(number: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Press Ctrl-C at a random moment of a long command that would replace older files."""
    chance = random.Random(f"keys {seed} {number}")
    name = list(COMMANDS)[number % len(COMMANDS)]
    command, outputs = COMMANDS[name]
    (folder / "s.toml").write_text(SWEEP)
    if name == "weights":
        _checkpoint(folder / "m.safetensors")
    for file in outputs:
        (folder / file).write_bytes(OLD)
    moment = chance.choice((chance.uniform(0.0, 0.6), chance.uniform(0.0, 3.0), chance.uniform(1.0, 8.0)))
    process = start(folder, command)
    time.sleep(moment)
    running = process.poll() is None
    if running:
        process.send_signal(signal.SIGINT)
    clock = time.monotonic()
    code, _, told = ended(process)
    waited = time.monotonic() - clock
    new = {file: (folder / file).read_bytes() != OLD for file in outputs}
    torn = [file for file, rows in outputs.items() if new[file] and not whole(folder / file, rows)]
    left = [path.name for path in folder.iterdir() if path.suffix == ".part"]
    early = "Traceback" in told and "onehead" not in told  # the interpreter's own words, before our first line
    traceback = "Traceback" in told and not early
    finished = code == 0 and all(new.values())
    fault = (
        "did not end" if code is None
        else "traceback" if traceback
        else f"torn: {', '.join(torn)}" if torn
        else f"left behind: {', '.join(left)}" if left
        else "exit code 0" if running and code == 0 and not finished
        else ""
    )  # fmt: skip
    row = {"command": name, "moment": round(moment, 3), "running": running, "code": code, "seconds": round(waited, 2)}
    return {**row, "early": early, "fault": fault, "told": told[-600:] if fault else ""}


# --- kill -9


def point(words: dict[str, Any], seed: int) -> dict[str, Any]:
    """A call of our own that takes two milliseconds."""
    time.sleep(0.002)
    return {"square": words["x"] ** 2}


def sweep_of(store: str, points: int) -> None:
    """A local sweep that says how many points it has; run in a process of its own."""
    spec = Spec(call="checks.faults_processes:point", axes={"x": list(range(points))}, own=True)
    with Store.writing(store) as opened:
        drive(spec, opened, executor_named("local", workers=2), progress=lambda c: print(c.done, flush=True))


def _sweeping(store: Path, points: int = POINTS) -> "subprocess.Popen[bytes]":
    code = f"from checks.faults_processes import sweep_of; sweep_of({str(store)!r}, {points})"
    return subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **QUIET}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _rows(store: Path) -> dict[str, tuple[Any, Any]]:
    try:
        with Store.reading(store) as opened:
            return {row["key"]: (row["square"], row["finished_at"]) for row in opened.rows()}
    except BadStore as failure:
        if "holds no sweep yet" in str(failure) or "must be a file that exists" in str(failure):
            return {}
        raise


def killed(number: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Kill a run ten times at random moments, going on each time, and then let it end."""
    chance = random.Random(f"kills {seed} {number}")
    store, lost, changed, kept, kills = folder / "s.db", 0, 0, {}, 10
    for _ in range(kills):
        process = _sweeping(store)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        time.sleep(chance.uniform(0.5, 3.0))
        process.kill()
        said = (process.communicate()[0] or b"").split(b"\n")[:-1]  # whole lines
        after = _rows(store)
        lost += len(set(kept) - set(after)) + max(0, max(map(int, said), default=0) - len(after))
        changed += sum(after[key] != row for key, row in kept.items() if key in after)
        kept = after
    last = _sweeping(store).communicate(timeout=PATIENCE)[0].split()
    after = _rows(store)
    right = len(after) == POINTS and sorted(square for square, _ in after.values()) == [x * x for x in range(POINTS)]
    fault = (
        f"{lost} lost" if lost else f"{changed} solved again" if changed else "" if right else f"ended at {last[-1:]}"
    )
    return {"kills": kills, "kept": len(kept), "fault": fault}


# --- two at once


def twice(number: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Two runs of different points on one file at once, by a link; by hard links there may be none."""
    store, other = folder / "real.db", folder / "link.db"
    hard = number % 2 == 1
    other.symlink_to(store) if not hard else None
    first = _sweeping(store)
    assert first.stdout is not None
    while int(first.stdout.readline() or 0) < 20:
        pass
    if hard:
        os.link(store, other)
    first.send_signal(signal.SIGSTOP)  # it must not be done before the second begins, however slow the machine is
    second = _sweeping(other, POINTS // 2)
    _, told = second.communicate(timeout=PATIENCE)
    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=PATIENCE)
    sentence = told.decode().strip().splitlines()[-1:]
    refused = second.returncode != 0 and ("hard links" if hard else "is in use by another sweep") in "".join(sentence)
    if hard:
        other.unlink()
    with Store.reading(store) as opened:
        counts, total = opened.counts(), opened.latest()[1]["total"]
    right = first.returncode == 0 and counts.done == counts.total == total == POINTS
    return {"link": "hard" if hard else "symbolic", "fault": "" if refused and right else f"{sentence} {counts}"}


# --- a full disk


@contextmanager
def small_disk(size: str) -> Iterator[Path | None]:
    """A file system that is soon full; None without the right to mount one."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, check=False
        )
        try:
            yield Path(folder) if done.returncode == 0 else None
        finally:
            if done.returncode == 0:
                subprocess.run(["umount", folder], check=True)


FULL = (
    ("aim curve --alphas 0.5:2:40 --csv o.csv", "o.csv"),
    ("aim curve --alphas 0.5:2:4 --plot o.png", "o.png"),
    ("sweep export --store s.db --csv o.csv", "o.csv"),
    ("sweep export --store s.db --parquet o.parquet", "o.parquet"),
    ("figures make sparse-alignment --quick --theory --out .", "sparse-alignment.png"),
    ("sweep run s.toml --store s.db", ""),
)


def disk(number: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Run a command whose disk is full: a sentence, and the old content."""
    command, output = FULL[number % len(FULL)]
    with small_disk("400k") as small:
        if small is None:
            return {"command": command, "fault": "", "skipped": True}
        (small / "s.toml").write_text('call = "sparse.align"\n[grid]\nalpha0 = "0.5:4:60"\n')
        if "export" in command:
            ended(start(small, "sweep run s.toml --store s.db"))
        if output:
            (small / output).write_bytes(OLD)
        with suppress(OSError), (small / "ballast").open("wb", buffering=0) as file:
            while file.write(bytes(1024)):
                pass
        room = random.Random(f"disks {seed} {number}").choice((0, 0, 8192, 40_960, 81_920))
        os.truncate(small / "ballast", max(0, (small / "ballast").stat().st_size - room))
        code, _, told = ended(start(small, command))
        lines = told.strip().splitlines()
        good = code == 0 or (code == 1 and "Traceback" not in told and "None" not in told and bool(lines))
        kept = not output or ((small / output).read_bytes() == OLD) == (code != 0)
        left = [path.name for path in small.iterdir() if path.suffix == ".part"]
    fault = "" if good and kept and not left else f"code {code}, kept {kept}, left {left}: {told[-300:]}"
    return {"command": command, "room": room, "code": code, "fault": fault, "told": lines[-1] if lines else ""}
