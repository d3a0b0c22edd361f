"""The sweep of random problems itself: numbers decide problems, stores go on where they were, and wrong answers are seen."""

import ast
import json

import pytest
from checks import soak
from checks.soak_problems import VERBS, call, draw
from checks.soak_report import report

from onehead import aim, sparse
from onehead.errors import NotConverged


def test_a_number_decides_its_problem():
    first, again = ([call(draw(0, number)) for number in range(300)] for _ in range(2))
    assert first == again
    assert len(set(first)) > 290  # two of the smallest problems may be alike
    assert first != [call(draw(1, number)) for number in range(300)]
    seen = {draw(0, number).verb for number in range(300)}
    assert seen >= {verb for verb, share in ((v.split(",")[0], s) for v, s in VERBS.items()) if share > 0.04}


@pytest.mark.parametrize("number", range(40))
def test_a_problem_is_one_line_of_python(number):
    """The line that is printed calls a public verb with a task, and a learner or a protocol where the verb has one."""
    line = ast.parse(call(draw(3, number)), mode="eval").body
    half, verb = line.func.value.id, line.func.attr
    assert verb in {"aim": aim, "sparse": sparse}[half].__all__
    made = [argument.func.attr for argument in line.args]
    assert made == ["Task", *([] if verb == "oracle" else ["Learner" if half == "aim" else "Protocol"])]


@pytest.fixture
def quick(monkeypatch):
    """Solves nothing: problem 3 is refused, 4 is wrong, 5 raises, the others are solved."""
    asked = []

    def fake(problem):
        asked.append(problem)
        match len(asked) - 1:
            case 3:
                raise NotConverged("stopped at 1.0e-3; change alpha.")
            case 4:
                return "converged", "test error -1.0"
            case 5:
                raise ZeroDivisionError
        return "converged", ""

    monkeypatch.setattr(soak, "solve", fake)
    return asked


def test_a_sweep_goes_on_where_it_was(quick, tmp_path, capsys):
    store = tmp_path / "soak.jsonl"
    assert soak.main(["--count", "3", "--store", str(store)]) == 0
    with store.open("a") as file:
        file.write('{"number": 9, "torn')
        file.write("\n")
    assert soak.main(["--count", "8", "--store", str(store)]) == 1
    assert len(quick) == 8  # the first three were not asked again
    rows = soak.read(store, 0, 8)
    assert [rows[n]["end"] for n in range(8)] == ["solved"] * 3 + ["refused", "wrong", "raised"] + ["solved"] * 2
    text = capsys.readouterr().out
    assert "5 solved" in text
    assert "1 refused" in text
    assert "2 unexplained" in text
    assert "--seed 0 --only 4` converged: test error -1.0" in text
    assert soak.read(store, 1, 8) == {}


def test_the_report_counts_every_problem_once_per_property(quick, tmp_path):
    rows = soak.run(0, 6, tmp_path / "soak.jsonl", 1, float("inf"))
    text = report(list(rows.values()), 0, 6)
    halves = [line.split("|") for line in text.splitlines() if "half:" in line]
    assert sum(int(cells[2]) for cells in halves) == 6
    assert json.loads((tmp_path / "soak.jsonl").read_text().splitlines()[0])["number"] == 0
