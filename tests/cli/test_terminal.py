"""Text of others reaches a terminal written out, whatever it is and whichever way it comes."""

import ast
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.checkpoints import KEY, QUERY, written
from tests.support.programs import program, python

import onehead
from onehead.cli.output import print_rows, print_table
from onehead.cli.terminal import note, say
from onehead.errors import InvalidArgument, OneheadError, SolveError
from onehead.sweep import sweep
from onehead.text import quoted, visible

SOURCE = Path(onehead.__file__).parent
EVIL = "\x1b]0;owned\x07\x9b31m\x7f\u202egpj\u2066\u200b\u2028\r\x08"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def harmless(*texts):
    for text in texts:
        assert not OBEYED.search(text), OBEYED.search(text)


def test_everything_that_moves_hides_or_reorders_is_written_out():
    shown = visible(EVIL)
    assert shown == r"\x1b]0;owned\x07\x9b31m\x7f\u202egpj\u2066\u200b\u2028\r\x08"
    for code in range(0x11000):
        harmless(visible(chr(code)).replace("\t", ""))
    assert visible("κ₀ = ½ ± 1 × 10⁻³, 日本, é\tx") == "κ₀ = ½ ± 1 × 10⁻³, 日本, é\tx"
    assert visible("a\nb") == r"a\nb"  # a name cannot begin a line of its own
    assert visible("\udcff") == r"\udcff"  # a name that is no text


def test_values_stand_in_a_sentence_on_one_line_and_not_for_pages():
    import numpy as np

    assert quoted(np.eye(3)).count("\n") == 0
    assert len(quoted("x" * 10**6)) < 300
    assert quoted(-(10**5000)) == "an integer of about 5000 digits"
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert quoted(deep) == "a list that cannot be written out"
    while deep:  # taken apart here: some versions of Python cannot do it in one go
        deep = deep.pop()


@pytest.mark.parametrize("failure", [OneheadError(EVIL), SolveError(EVIL), InvalidArgument(EVIL, EVIL, EVIL)])
def test_errors_are_harmless_as_text(failure):
    harmless(str(failure))
    assert "\n" not in str(failure)


def test_whatever_is_printed_passes_one_door(capsys):
    say(EVIL, "second")
    note(EVIL)
    print_rows([{EVIL: EVIL, "status": EVIL}], [EVIL, "status"], EVIL)
    print_table([(EVIL, EVIL, EVIL)], EVIL)
    print_table([("list", [EVIL], "")], "")
    harmless(*capsys.readouterr())


def test_no_other_file_prints():
    for path in sorted((SOURCE / "cli").glob("*.py")):
        names = {
            f"{getattr(node.func.value, 'id', '')}.{node.func.attr}" if isinstance(node.func, ast.Attribute) else
            getattr(node.func, "id", "")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        }  # fmt: skip
        if path.name != "terminal.py":
            assert not names & {"click.echo", "click.secho", "print", "stdout.write", "stderr.write"}, path.name


def poisoned_store(path):
    """A store with foreign words in every column of text."""
    sweep("sparse.align", {"alpha0": [1.0, 2.0]}, store=path)
    with closing(sqlite3.connect(path)) as database, database:
        for table in ("sweeps", "points"):
            for _, name, kind, *_ in database.execute(f"PRAGMA table_info({table})").fetchall():
                if kind == "TEXT" and name not in ("key", "state", "parameters", "results"):
                    database.execute(f"UPDATE {table} SET {name} = ?", (f"{name}{EVIL}",))
        database.execute("UPDATE points SET parameters = ?, state = 'failed'", (json.dumps({EVIL: EVIL}),))
    database.close()


def test_no_store_is_obeyed(tmp_path):
    name = f"s{EVIL}.db".replace("/", "")
    poisoned_store(tmp_path / name)
    (tmp_path / "s.toml").write_text('call = "sparse.align"\n[grid]\nalpha0 = [1.0, 2.0]\n')
    for words in (
        ["status"],
        ["status", "--json"],
        ["export"],
        ["export", "--json"],
        ["export", "--csv", f"{name}.csv"],
    ):
        done = program("sweep", *words, "--store", name, cwd=tmp_path)
        assert "Traceback" not in done.stderr
        harmless(done.stdout, done.stderr)


@pytest.mark.parametrize(
    "text",
    [
        'call = "sparse.align"\n[grid]\nalpha0 = [1.0]\n',
        "call = '{}'\n[grid]\nalpha0 = [1.0]\n",
        "'{}' = 1\n",
        'call = "sparse.align"\n[grid]\n"{}" = [1.0]\n',
        'call = "sparse.align"\n[grid]\nalpha0 = ["{}"]\n',
        'call = "sparse.predict"\n[fixed]\nloss = "{}"\n[grid]\nalpha0 = [1.0]\n',
        'call = "sparse.align"\n[run]\non = "{}"\n[grid]\nalpha0 = [1.0]\n',
        'call = "sparse.align"\n[run]\n"{}" = 1\n[grid]\nalpha0 = [1.0]\n',
    ],
    ids=range(8),
)
def test_no_sweep_file_is_obeyed(tmp_path, onehead, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    name = f"s{EVIL}.toml"
    inside = r"\u001b]0;owned\u0007\u009b31m\u202e" if '"{}"' in text else "\u202e\u200bé"
    (tmp_path / name).write_text(text.replace("{}", inside), encoding="utf-8")
    for words in (["check", name], ["check", name, "--json"], ["run", name, "--store", f"{name}.db"]):
        harmless(*onehead("sweep", *words)[1:])


def test_no_checkpoint_is_obeyed(tmp_path, onehead):
    import numpy as np

    folder = tmp_path / f"model{EVIL}"
    folder.mkdir()
    values = np.ones((16, 16), "<f4")
    evil = QUERY.replace("query", EVIL)
    files = {
        "names": ({QUERY: values, evil: values}, {"num_attention_heads": 2}),
        "half": ({QUERY: values}, {"num_attention_heads": 2}),
        "model_type": ({QUERY: values, KEY: values}, {"num_attention_heads": 2, "model_type": EVIL}),
        "count": ({QUERY: values, KEY: values}, {"num_attention_heads": EVIL}),
        "good": ({QUERY: values, KEY: values}, {"num_attention_heads": 2}),
    }
    for name, (tensors, config) in files.items():
        file = folder / f"{name}{EVIL}.safetensors"
        file.write_bytes(written(tensors, "F32"))
        (folder / "config.json").write_text(json.dumps(config))
        for words in ([], ["--json"], ["--layout", EVIL], ["--layout", f"separate:{{layer}}{EVIL}:{{layer}}{EVIL}"]):
            harmless(*onehead("weights", file, "--no-fit", *words)[1:])
    harmless(*onehead("weights", folder)[1:])  # several files
    harmless(*onehead("weights", folder / EVIL)[1:])


def test_no_word_of_the_command_line_is_obeyed(tmp_path, onehead):
    for words in (
        [EVIL],
        ["aim", EVIL],
        ["aim", "predict", f"--{EVIL}"],
        ["aim", "predict", "--alpha", EVIL],
        ["aim", "predict", "--alpha", "1", "--weight-decay", EVIL],
        ["aim", "predict", "--alpha", "1", "--target", "atoms", "--atoms", tmp_path / EVIL],
        ["aim", "predict", "--alpha", "1", EVIL],
        ["sparse", "map", "--x", f"{EVIL}=1", "--y", "beta=1"],
        ["sparse", "align", "--json", "--csv", tmp_path / f"{EVIL}.csv"],
        ["sparse", "align", "--csv", tmp_path / EVIL / EVIL],
        ["figures", "make", EVIL, "--out", tmp_path],
        ["figures", "make", "own-checkpoint", "--out", tmp_path, "--checkpoint", tmp_path / EVIL],
        ["sweep", "example", EVIL],
        ["app", "--store", tmp_path / EVIL / EVIL],
    ):
        harmless(*onehead(*words)[1:])


def test_paths_of_figures_are_written_out(tmp_path, onehead, monkeypatch):
    from onehead.figures.make import Made

    made = Made(name="x", paths=(tmp_path / EVIL,), seconds=1.0, points=1, failed=[EVIL])
    monkeypatch.setattr("onehead.figures.make", lambda *_, on_figure, **__: [on_figure(made), made][1:])
    for words in ([], ["--json"]):
        found = onehead("figures", "make", "aim-thresholds", "--out", tmp_path, *words)
        assert found.returncode == 0
        harmless(*found[1:])


def test_a_terminal_without_our_letters_gets_them_written_out(tmp_path):
    (tmp_path / "κ₀.toml").write_text('call = "sparse.align"\n[grid]\nalpha0 = [1.0]\n')
    for words, code in (
        (["sparse", "align"], 0),
        (["aim", "predict", "--alpha", "0.5"], 0),
        (["sparse", "align", "--help"], 0),
        (["sparse", "align", "--beta", "κ₀"], 2),
        (["sweep", "check", "κ₀.toml"], 0),
        (["sweep", "check", "κ₁.toml"], 2),
    ):
        done = program(*words, cwd=tmp_path, LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr and "Unicode" not in done.stderr
        assert (
            done.stdout + done.stderr
        ).isascii() or "--help" in words  # click writes help as UTF-8 whatever the stream says


def test_warnings_are_one_line(tmp_path):
    code = "import warnings; from onehead.cli.main import cli, run; import click\n"
    code += "cli.get_command = lambda *_: click.Command('x', callback=lambda: warnings.warn('so \\x1b it is', RuntimeWarning))\n"
    code += "import sys; sys.stderr = sys.stdout\nrun(['x'])"
    assert python(code, cwd=tmp_path) == "note: so \\x1b it is\n"
