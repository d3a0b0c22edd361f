"""The tasks of eight kinds of users as short scripts, run to the end, with what each of them wants to see."""

import os
import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
# script, what it prints, files that it leaves
TASKS = {
    "theorist": (r"derivative -?\d", ("density.npy",)),
    "owner_of_a_checkpoint": (r"verdict", ("heads.csv", "head.png")),
    "practitioner": (r"samples at d = 200", ()),
    "lecturer": (r".", ("slide.svg",)),
    "cluster_user": (r"6 points, then 18, 0 failed", ("points.db", "points.csv")),
    "reviewer": (r"same seed, same numbers: True", ()),
    "numpy_user": (r"\(100, 6, 30\)", ("curve.npz",)),
    "student_of_physics": (r"agrees", ("student.pdf",)),
}
SLOW = ("student_of_physics", "lecturer")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in TASKS])
# a script shows the warnings of approximate results, as it would to its user
@pytest.mark.filterwarnings("ignore::onehead.errors.ApproximationWarning")
def test_the_task_of_a_user(name, tmp_path, monkeypatch, capsys):
    printed, files = TASKS[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "MPLBACKEND", "Agg")
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert re.search(printed, capsys.readouterr().out)
    assert all((tmp_path / file).stat().st_size > 0 for file in files)


def test_a_theorist_finds_derivative_and_moments_equal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "theorist.py"), run_name="__main__")
    shown = capsys.readouterr().out
    derivative, difference = map(float, re.search(r"derivative (\S+), difference (\S+)", shown).groups())
    assert derivative == pytest.approx(difference, rel=2e-3)  # the difference over 2e-3 has an error of second order
    moment, q = map(float, re.search(r"spectrum (\S+), q (\S+)", shown).groups())
    assert moment == pytest.approx(q, abs=2e-6)
