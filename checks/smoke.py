"""What a fresh installation without extras must do: ``PYTHON smoke.py [STEP ...]``.

Uses the standard library only and runs the program as a person would, in an empty folder, with every warning an error.
Prints a line for every step, "ok" or what went wrong; the exit code is 1 if a step failed or a number moved.
"""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

SPEC = """
call = "sparse.predict"
[fixed]
length = 10
strength = 5.0
ridge = 1e-3
[grid]
model = ["attention", "pooled"]
alpha = "log:1:4:2"
"""
# published numbers; other linear algebra and other compilers round differently, and the solver stops at 1e-10
NUMBERS = {
    "aim.test_error": 0.1359907008862,
    "aim.rank": 0.6443007594508,
    "sparse.test_error": 0.04494804821005,
    "spectrum.upper_edge": 3.663435148034,
    "weights.norm": 131.5774059100,
}
TOLERANCE = 1e-9
QUERY, KEY = (f"encoder.layer.0.attention.self.{side}.weight" for side in ("query", "key"))


class Wrong(Exception):
    """A step that did not do what it must."""


def onehead(*words: str, code: int = 0) -> str:
    """Run the program; what it prints, or its one line on standard error where it must refuse.

    A warning is an error.
    """
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "onehead", *words],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error", "MPLBACKEND": "Agg"},
    )
    if run.returncode != code:
        raise Wrong(f"exit code {run.returncode}: {' '.join(run.stderr.split())[-300:]}")
    if "Warning" in run.stderr:
        raise Wrong(f"a warning: {' '.join(run.stderr.split())[-300:]}")
    if code:
        lines = run.stderr.splitlines()
        if len(lines) != 1 or run.stdout:
            raise Wrong(f"{len(lines)} lines on standard error, {len(run.stdout)} characters on standard output")
        return lines[0]
    return run.stdout


def answer(*words: str) -> Any:
    """The JSON value a command prints, and nothing else."""
    return json.loads(onehead(*words, "--json"))


def check(truth: bool, sentence: str) -> None:
    """Raise if it is not so."""
    if not truth:
        raise Wrong(sentence)


def tiny_checkpoint(path: Path) -> None:
    """A safetensors file of one attention layer, written byte by byte."""
    draw = random.Random(0)
    data = struct.pack("<2048f", *(draw.gauss(0.0, 1.0) for _ in range(2048)))
    header = json.dumps(
        {
            name: {"dtype": "F32", "shape": [32, 32], "data_offsets": [4096 * i, 4096 * (i + 1)]}
            for i, name in enumerate((QUERY, KEY))
        }
    ).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)


def version() -> None:
    """The program and the package agree on the version, and the script is on the path of the environment."""
    script = Path(sys.executable).parent / "onehead"
    told = subprocess.run([script, "--version"], capture_output=True, text=True, check=True).stdout
    check(told == f"onehead {metadata.version('onehead')}\n", f"--version prints {told!r}")


def predict() -> dict[str, float]:
    """One point of the attention-indexed model."""
    row = answer("aim", "predict", "--alpha", "0.5")
    check(row["status"].startswith("converged"), row["status"])
    return {"aim.test_error": row["test_error"], "aim.rank": row["rank"]}


def sparse() -> dict[str, float]:
    """One point of sparse-token classification."""
    row = answer("sparse", "predict", "--alpha", "2", "--ridge", "0.001")
    return {"sparse.test_error": row["test_error"]}


def spectrum() -> dict[str, float]:
    """The law of the eigenvalues."""
    row = answer("aim", "spectrum", "--alpha", "4")
    edges = row["edges"]
    return {"spectrum.upper_edge": edges[-1] if not isinstance(edges[-1], list) else edges[-1][-1]}


def pictures() -> None:
    """A curve and a spectrum as PNG, PDF and SVG."""
    for name, start in (("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")):
        onehead("aim", "spectrum", "--alpha", "4", "--plot", name)
        check(Path(name).read_bytes().startswith(start), f"{name} is no {name[2:].upper()}")
    onehead("aim", "curve", "--alphas", "0.1:1:3", "--csv", "c.csv", "--plot", "c.png")
    check(len(Path("c.csv").read_text().splitlines()) == 4, "c.csv has not 3 rows")


def sweep() -> None:
    """A sweep of four points in this process and in workers, its status and its table."""
    Path("s.toml").write_text(SPEC)
    for place in ("inline", "local"):
        told = answer("sweep", "run", "s.toml", "--store", f"{place}.db", "--on", place)
        check((told["done"], told["failed"]) == (4, 0), f"{place}: {told}")
    check(answer("sweep", "status", "--store", "inline.db")["stored"] == 4, "status")
    rows = [[row["test_error"] for row in answer("sweep", "export", "--store", f"{p}.db")] for p in ("inline", "local")]
    check(rows[0] == rows[1] and len(rows[0]) == 4, "inline and local differ")
    onehead("sweep", "export", "--store", "inline.db", "--csv", "s.csv")


def weights() -> dict[str, float]:
    """Both heads of a checkpoint."""
    tiny_checkpoint(Path("model.safetensors"))
    rows = answer("weights", "model.safetensors", "--heads", "2")
    check([row["status"] for row in rows] == ["ok", "ok"], str(rows)[:200])
    onehead("weights", "model.safetensors", "--heads", "2", "--plot", "heads", "--csv", "w.csv")
    return {"weights.norm": rows[0]["norm"]}


def training() -> None:
    """A small real training run of each model."""
    answer("aim", "train", "--dim", "20", "--alpha", "0.5", "--seeds", "1")
    answer("sparse", "train", "--dim", "100", "--trials", "2")


def lists() -> None:
    """Help, figures and thresholds."""
    check("Commands" in onehead("--help"), "help")
    check(len(onehead("figures", "list").splitlines()) > 10, "figures list")
    answer("aim", "thresholds")
    answer("aim", "tune", "--alpha", "0.5")


def one_line() -> None:
    """A bad value is one line and exit code 2."""
    check(onehead("aim", "predict", "--alpha", "-1", code=2).startswith("onehead: "), "no sentence")


def missing_extras() -> None:
    """What needs an extra says which, in one line."""
    Path("s.toml").write_text(SPEC)
    onehead("sweep", "run", "s.toml", "--store", "e.db")
    asked = {
        "app": ("app", "--port", "0"),
        "cluster": ("sweep", "run", "s.toml", "--store", "x.db", "--on", "dask", "--address", "tcp://127.0.0.1:9"),
        "cluster ": ("sweep", "run", "s.toml", "--store", "x.db", "--on", "slurm", "--dry-run"),
        "cluster  ": ("sweep", "export", "--store", "e.db", "--parquet", "x.parquet"),
    }
    for extra, words in asked.items():
        line = onehead(*words, code=2)
        check(f"pip install 'onehead[{extra.strip()}]'" in line, f"{' '.join(words[:2])}: {line}")


STEPS: tuple[Callable[[], dict[str, float] | None], ...] = (
    version, predict, sparse, spectrum, pictures, sweep, weights, training, lists, one_line, missing_extras,
)  # fmt: skip


def extras() -> set[str]:
    """Packages of the extras that are installed, for which no hint can be expected."""
    return {dist.metadata["Name"] for dist in metadata.distributions()} & {"flask", "distributed", "pyarrow"}


def main() -> int:
    """Run every step in an empty folder."""
    failed = False
    for step in STEPS:
        if (step is missing_extras and extras()) or step.__name__ not in (sys.argv[1:] or [step.__name__]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                for name, value in (step() or {}).items():
                    check(abs(value - NUMBERS[name]) <= TOLERANCE * NUMBERS[name], f"{name} is {value!r}")
                outcome = "ok"
            except Exception as failure:  # a step that breaks must not hide the others
                outcome, failed = f"{type(failure).__name__}: {failure}", True
            os.chdir(Path(folder).parent)
        print(f"{step.__name__}: {outcome}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
