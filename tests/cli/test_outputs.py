"""Output files: checked before the work, written completely or not at all; partial results get another name."""

import csv
import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from importlib import import_module

import numpy as np
import pytest
from tests.support.hostile import checkpoint
from tests.support.programs import run as python

from onehead import aim
from onehead.sweep import Store

OLD = "alpha,test_error\n0.5,0.1\n"
CURVE = ("aim", "curve", "--alphas", "0.5,1,2,3", "--csv", "c.csv", "--plot", "c.png")
PHASES = ("aim", "phase-diagram", "--dim", "40", "--log-n", "1.5,2,2.5", "--log-lambda", "0", "--csv", "c.csv")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a temporary folder, with Ctrl-C enabled and one thread, so that the order of points is known."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONEHEAD_THREADS", "1")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield tmp_path
    signal.signal(signal.SIGINT, before)


def press_ctrl_c():
    """Send Ctrl-C to this process; the exception is raised here."""
    os.kill(os.getpid(), signal.SIGINT)
    for _ in range(100_000):
        pass


def interrupt_point(monkeypatch, name, number):
    """Send Ctrl-C during one of the predictions that a module makes."""
    module, calls = import_module(name), []
    real = module.predict

    def interrupted(*args, **arguments):
        calls.append(1)
        if len(calls) == number:
            press_ctrl_c()
        return real(*args, **arguments)

    monkeypatch.setattr(module, "predict", interrupted)
    return calls


def rows(path):
    """Rows of a CSV file."""
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("command", "module"),
    [(CURVE, "onehead.aim.verbs.curve"), (PHASES, "onehead.aim.verbs.phases")],
    ids=["curve", "phases"],
)
def test_ctrl_c_does_not_replace_existing_files(onehead, folder, monkeypatch, command, module):
    for name in ("c.csv", "c.png"):
        (folder / name).write_text(OLD)
    interrupt_point(monkeypatch, module, 3)
    found = onehead(*command)
    assert found.returncode == 130 and "Traceback" not in found.stderr
    assert found.stderr.endswith("onehead: interrupted; 2 finished rows are in c.partial.csv, not in c.csv.\n")
    assert (folder / "c.csv").read_text() == (folder / "c.png").read_text() == OLD
    kept = rows(folder / "c.partial.csv")
    assert len(kept) == 2 and all(row["status"] == "converged" for row in kept)
    assert "interrupted" not in found.stdout


def test_ctrl_c_before_the_first_point_writes_no_file(onehead, folder, monkeypatch):
    interrupt_point(monkeypatch, "onehead.aim.verbs.curve", 1)
    found = onehead(*CURVE)
    assert found == (130, "", "onehead: interrupted; 0 finished rows, no file was written.\n")
    assert not list(folder.iterdir())


def test_ctrl_c_prints_finished_rows_as_json(onehead, monkeypatch):
    interrupt_point(monkeypatch, "onehead.aim.verbs.curve", 3)
    found = onehead(*CURVE[:4], "--json")
    assert found.returncode == 130 and [row["alpha"] for row in json.loads(found.stdout)] == [2.0, 3.0]


def test_ctrl_c_that_compiled_code_swallowed_ends_a_command(onehead, folder, monkeypatch):
    module = import_module("onehead.aim.verbs.tune")
    real, calls = module.predict, []

    def swallow(*args, **arguments):
        calls.append(1)
        if len(calls) == 2:
            with suppress(KeyboardInterrupt):
                press_ctrl_c()
        return real(*args, **arguments)

    monkeypatch.setattr(module, "predict", swallow)
    found = onehead("aim", "tune", "--alpha", "0.5", "--csv", "c.csv")
    assert found.returncode == 130 and found.stdout == "" and not list(folder.iterdir())
    assert len(calls) < 6  # it did not go on to the end


def test_ctrl_c_that_became_another_error_is_reported_as_ctrl_c(onehead, monkeypatch):
    def disguise(*_, **__):
        try:
            press_ctrl_c()
        except KeyboardInterrupt:
            raise ImportError("numba is half loaded") from None

    monkeypatch.setattr(aim, "predict", disguise, raising=False)
    found = onehead("aim", "predict", "--alpha", "0.5")
    assert found.returncode == 130 and found.stderr.startswith("onehead: interrupted")


def test_ctrl_c_ends_the_demo_at_once(onehead, folder, monkeypatch):
    interrupt_point(monkeypatch, "onehead.aim.verbs.curve", 2)
    monkeypatch.setattr(aim, "compare", lambda *_, **__: pytest.fail("it went on"), raising=False)
    found = onehead("demo", "--out", "new")
    assert found.returncode == 130 and found.stdout == "" and not list((folder / "new").iterdir())


def test_ctrl_c_within_a_comparison_ends_it_there(monkeypatch):
    module = import_module("onehead.aim.training.compare")
    real, dims = module.train, []

    def interrupt_third(*args, dim, seeds, **arguments):
        dims.append(dim)
        if len(dims) == 3:
            arguments["progress"] = lambda _: press_ctrl_c()
        return real(*args, dim=dim, seeds=seeds, **arguments)

    monkeypatch.setattr(module, "train", interrupt_third)
    table = aim.compare(aim.Task(), aim.Learner(), [1.0, 2.0, 3.0], dims=[10, 12], seeds=2)
    assert dims == [10, 12, 10]
    assert [(row["alpha"], row["dim"]) for row in table.to_rows()] == [(1.0, 10), (1.0, 12), (1.0, None), (2.0, 10)]
    assert "interrupted" in table.to_rows()[-1]["status"]


LOADING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Press:
    def find_spec(self, name, path=None, target=None):
        if name == {!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Press())
sys.argv = ["onehead", "aim", "predict", "--alpha", "0.5"]
from onehead.cli.start import run
run()
"""


@pytest.mark.parametrize(
    "name",
    ["click", "onehead.errors", "onehead.cli.main", "onehead.cli.aim.commands", "numba", "onehead.aim.solve.solver"],
)
def test_ctrl_c_while_the_program_is_loading_prints_one_line(name):
    found = python("-c", LOADING.format(name))
    assert found.returncode == 130 and found.stdout == ""
    line = found.stderr.strip()  # click prints a line break after the ^C of the terminal
    assert line.startswith("onehead: interrupted") and "\n" not in line


@pytest.mark.parametrize("flag", ["--csv", "--plot"])
def test_output_files_are_checked_before_the_work(refused, folder, monkeypatch, flag):
    for verb in ("curve", "train", "phase_diagram"):
        monkeypatch.setattr(aim, verb, lambda *_, **__: pytest.fail("work was done"), raising=False)
    os.mkfifo(folder / "pipe.png")
    (folder / "dir.png").mkdir()
    for command in (CURVE[:4], PHASES[:8], ("aim", "train", "--dim", "20", "--alpha", "1")):
        assert "in a folder that exists" in refused(*command, flag, "no/where.png")
        for name in ("pipe.png", "dir.png"):
            assert f"{flag} must be a regular file or a new name" in refused(*command, flag, name)
    assert stat.S_ISFIFO((folder / "pipe.png").stat().st_mode)


def test_a_command_does_not_replace_its_input(refused, folder):
    checkpoint(folder / "model.safetensors")
    (folder / "link.safetensors").symlink_to("model.safetensors")
    before = (folder / "model.safetensors").read_bytes()
    for file in ("model.safetensors", "link.safetensors", "."):
        for target in ("model.safetensors", "link.safetensors"):
            line = refused("weights", file, "--heads", "1", "--no-fit", "--csv", target)
            assert "--csv must be a file other than a store or an input file" in line
    assert (folder / "model.safetensors").read_bytes() == before
    (folder / "atoms.txt").write_text("2\n1\n0\n")
    command = ("aim", "curve", "--alphas", "1", "--target", "atoms", "--atoms", "atoms.txt")
    assert "an input file" in refused(*command, "--csv", "atoms.txt")
    assert "another file than that of --csv" in refused(*CURVE[:4], "--csv", "a.png", "--plot", "a.png")


def test_no_command_replaces_a_store(onehead, refused, folder):
    (folder / "s.toml").write_text('call = "sparse.align"\n[grid]\nalpha0 = [1.0, 2.0]\n')
    onehead("sweep", "run", "s.toml", "--store", "s.db")
    (folder / "link.db").symlink_to("s.db")
    before = (folder / "s.db").read_bytes()
    for target in ("s.db", "link.db"):
        for flag in ("--csv", "--parquet"):
            assert f"{flag} must be a file other than a store or an input file" in refused(
                "sweep", "export", "--store", "s.db", flag, target
            )
        assert "--csv must be a file other than a store or an input file" in refused(*CURVE[:4], "--csv", target)
    os.link(folder / "s.db", folder / "hard.db")
    assert "--csv must be a file other than a store or an input file" in refused(
        "sweep", "export", "--store", "s.db", "--csv", "hard.db"
    )
    assert (folder / "s.db").read_bytes() == before and (folder / "link.db").is_symlink()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device of Linux")
def test_a_full_standard_output_is_reported_in_one_line(folder):
    code = "import os, sys; os.dup2(os.open('/dev/full', os.O_WRONLY), 1); from onehead.cli.start import run; run()"
    found = python("-c", f"import sys; sys.argv = ['onehead', 'cite']; {code}")
    assert found.returncode == 1
    assert found.stderr == "onehead: the answer could not be printed (No space left on device).\n"


def test_the_curve_of_the_demo_has_no_visible_corners():
    """Between two of its points, where it bends most, the line is within half a pixel of 400 of the true curve."""
    from onehead.cli.demo import CURVE

    alphas = CURVE[(CURVE > 0.09) & (CURVE < 0.45)]
    task, learner = aim.Task(), aim.Learner(weight_decay=0.01)
    errors = aim.curve(task, learner, alphas).column("test_error")
    middles = slice(None, None, 4)
    true = aim.curve(task, learner, np.sqrt(alphas[1:] * alphas[:-1])[middles]).column("test_error")
    assert np.abs(0.5 * (errors[1:] + errors[:-1])[middles] - true).max() < 0.5 / 400 * np.ptp(errors)


@pytest.mark.parametrize(
    ("closed", "code"), [("2>&-", 0), ("<&-", 0), (">&-", 1), (">&- 2>&-", 1), ("<&- >&- 2>&-", 1)]
)
def test_closed_streams_neither_stop_the_work_nor_hide_a_lost_answer(folder, closed, code):
    (folder / "s.toml").write_text('call = "sparse.align"\n[grid]\nalpha0 = [1.0, 2.0]\n')
    line = f'exec "{sys.executable}" -m onehead sweep run s.toml --store s.db {closed}'
    found = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode == code
    assert found.stdout == ("" if code else "done 2, failed 0, missing 0\n")
    lost = "onehead: the answer could not be printed (Bad file descriptor).\n"
    assert found.stderr == (lost if closed == ">&-" else "")
    with Store.reading(folder / "s.db") as opened:
        assert opened.counts().done == 2


def test_the_entry_point_imports_next_to_nothing():
    code = "import sys; before = set(sys.modules); import onehead.cli.start; print(*set(sys.modules) - before)"
    light = {"importlib", "types", "warnings", "onehead"}  # load in a millisecond
    assert {name.split(".")[0] for name in python("-c", code).stdout.split()} <= light
