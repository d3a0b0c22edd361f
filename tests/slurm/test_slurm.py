"""A real SLURM of one node from Debian's packages: jobs are submitted, one is cancelled, every result arrives."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.sweeps import run_sweep

from onehead.sweep import Store
from onehead.sweep.executors.slurm import Slurm

pytestmark = pytest.mark.slurm
HERE = Path(__file__).parent
POINTS = 100
SPEC = """\
call = "aim.predict"
[grid]
noise = [0.1, 0.5]
alpha = [0.5, 1.0, 2.0]
[run]
on = "slurm"
[slurm]
partition = "debug"
time = "00:10:00"
memory = "1GB"
jobs = 2
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """Start a private SLURM for this module; its tools find it through the environment."""
    folder = tmp_path_factory.mktemp("slurm")
    program = str(HERE / "slurm")
    installed = subprocess.run([program, "install"], check=False)
    if installed.returncode == 3:
        pytest.skip("SLURM is not installed, and only root can install it")
    assert installed.returncode == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        # jobs inherit the environment and find the calls of the tests
        patch.setenv("PYTHONPATH", str(HERE.parents[1]))
        patch.syspath_prepend(str(HERE.parents[1]))
        patch.chdir(folder)  # SLURM writes the output of jobs where they were submitted
        try:
            subprocess.run([program, "start", str(folder)], check=True)
            yield folder
        finally:
            subprocess.run([program, "stop", str(folder)], check=False)


def jobs():
    return subprocess.run(
        ["squeue", "-h", "-t", "RUNNING", "-o", "%i"], capture_output=True, text=True, check=True
    ).stdout.split()


def test_a_cancelled_job_loses_nothing(slurm, tmp_path):
    store, seen, cancelled = tmp_path / "points.db", [], []

    def step():
        seen.append(1)
        if len(seen) == 30:
            cancelled.extend(jobs()[:1])
            subprocess.run(["scancel", "--full", "--signal=KILL", *cancelled], check=True)

    table = run_sweep(
        "sleep",
        {"x": list(range(POINTS))},
        fixed={"seconds": 0.1},
        store=store,
        on=Slurm(partition="debug", memory="1GB", time="00:10:00", jobs=2),
        progress=step,
    )
    print(f"job {cancelled} cancelled after 30 points: {len(table)} of {POINTS} rows, {len(table.failed)} failed")  # noqa: T201
    assert len(cancelled) == 1 and len(seen) == POINTS
    assert table.column("square").tolist() == [x * x for x in range(POINTS)]
    assert len({row["key"] for row in table}) == POINTS and not table.failed


def test_the_same_bits_as_inline(slurm, tmp_path):
    (tmp_path / "spec.toml").write_text(SPEC)

    def rows(*words):
        store = tmp_path / f"{len(words)}.db"
        run = subprocess.run(
            [sys.executable, "-m", "onehead", "sweep", "run", "spec.toml", "--store", str(store), "--json", *words],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert run.returncode == 0 and run.stderr == "", run
        assert json.loads(run.stdout) == {"done": 6, "failed": 0, "missing": 0}
        with Store.reading(store) as opened:
            clocks = ("duration", "finished_at")
            return [{name: value for name, value in row.items() if name not in clocks} for row in opened.rows()]

    assert rows() == rows("--on", "inline")
    print("6 rows identical bit for bit, inline and on slurm")  # noqa: T201


def test_jobs_are_gone_afterwards(slurm):
    left = subprocess.run(["squeue", "-h", "-t", "PENDING,RUNNING"], capture_output=True, text=True, check=True).stdout
    assert left == ""
