"""First contact: help on one screen, completion, citation, examples, and the same conventions in aim and sparse."""

import inspect
import re
import runpy
from functools import partial
from pathlib import Path

import pytest
from tests.support.programs import program

import onehead
from onehead import aim, sparse
from onehead.results import Result, Rows

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


program = partial(program, COLUMNS="80")


def test_help_fits_one_screen(onehead):
    text = onehead("--help").stdout
    assert len(text.splitlines()) <= 40  # rows of a terminal
    assert max(map(len, text.splitlines())) <= 80
    assert "Begin with" in text


@pytest.mark.parametrize("group", ["aim", "sparse", "sweep", "figures"])
def test_help_of_a_group_has_no_truncated_sentence(group, onehead):
    text = onehead(group, "--help").stdout
    assert "..." not in text.split("Commands:")[1]


def test_completion():
    words = {"COMP_WORDS": "onehead aim predict --we", "COMP_CWORD": "3"}
    assert "--weight-decay" in program(_ONEHEAD_COMPLETE="bash_complete", **words).stdout
    for shell in ("bash", "zsh", "fish"):
        assert "_ONEHEAD_COMPLETE" in program("completion", shell).stdout
    wrong = program("completion", "tcsh")
    assert wrong.returncode == 2 and len(wrong.stderr.splitlines()) == 1


def test_cite():
    text = program("cite").stdout
    assert text.count("@") == 3
    assert onehead.__version__ in text and "2509.24914" in text and "2509.25153" in text
    assert text.count("{") == text.count("}")


def test_one_version_everywhere():
    assert f"version: {onehead.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M).group(1) == onehead.__version__


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path, tmp_path, monkeypatch, capsys):
    if "import torch" in path.read_text(encoding="utf-8"):
        pytest.importorskip("torch")  # no dependency of onehead, not even of its tests
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_there_are_at_least_five_examples():
    assert len(EXAMPLES) >= 5


def verbs(package):
    return {name: getattr(package, name) for name in dir(package) if inspect.isfunction(getattr(package, name))}


# verbs without a learner: second argument
WITHOUT_LEARNER = {
    (sparse, "amp"): "alpha",
    (sparse, "bayes"): "alpha",
    (aim, "bayes"): "alpha",
    (aim, "sample"): "dim",
}


def test_aim_and_sparse_have_the_same_conventions():
    """Verbs with the same name have the same first two arguments, callbacks are called progress, results the same
    classes.
    """
    shared = set(verbs(aim)) & set(verbs(sparse))
    assert {"predict", "curve", "train", "tune", "compare"} <= shared
    for package, learner in ((aim, "learner"), (sparse, "protocol")):
        for name in shared:
            second = WITHOUT_LEARNER.get((package, name), learner)
            assert list(inspect.signature(verbs(package)[name]).parameters)[:2] == ["task", second]
        for name, verb in verbs(package).items():
            for argument in inspect.signature(verb).parameters:
                assert not argument.startswith("on_"), f"{name} calls its callback {argument}; the name is progress"
    for name in ("TrainingResult", "Prediction", "Comparison", "Tuned"):
        assert issubclass(getattr(aim, name), Result) and issubclass(getattr(sparse, name), Result)
    assert issubclass(aim.Curve, Rows) and issubclass(sparse.Curve, Rows)


def test_a_curve_has_an_html_table():
    found = sparse.curve(sparse.Task(), sparse.Protocol(), [1.0, 2.0], model="pooled")
    html = found._repr_html_()
    assert "2 of 2 solved" in html and html.count("<tr>") == 3
    assert list(found.to_frame()["alpha"]) == [1.0, 2.0]
    assert len(found.failures) == 0 and len(found) == 2


def test_ctrl_c_in_a_sparse_curve_keeps_its_points():
    calls = []

    def interrupt():
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt

    found = sparse.curve(sparse.Task(), sparse.Protocol(), [1.0, 2.0, 3.0], model="pooled", progress=interrupt)
    assert [type(point).__name__ for point in found] == ["Prediction", "Prediction", "Failure"]
    assert "interrupted" in found.failures[0].reason
    assert "2 of 3 solved" in found._repr_html_()
