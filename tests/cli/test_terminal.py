"""Control characters in text of others are escaped before they reach a terminal, whatever the source."""

import ast
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.checkpoints import KEY, QUERY, safetensors_bytes
from tests.support.programs import program, python

import onehead
from onehead.cli.rendering.output import print_rows, print_table
from onehead.cli.rendering.terminal import note, print_lines
from onehead.errors import InvalidArgument, OneheadError, SolveError
from onehead.sanitize import quoted, visible
from onehead.sweep import sweep

SOURCE = Path(onehead.__file__).parent
EVIL = "\x1b]0;owned\x07\x9b31m\x7f\u202egpj\u2066\u200b\u2028\r\x08"
INTERPRETED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def assert_harmless(*texts):
    """Texts contain nothing that a terminal would interpret."""
    for text in texts:
        assert not INTERPRETED.search(text), INTERPRETED.search(text)


def test_control_characters_are_escaped():
    shown = visible(EVIL)
    assert shown == r"\x1b]0;owned\x07\x9b31m\x7f\u202egpj\u2066\u200b\u2028\r\x08"
    for code in range(0x11000):
        assert_harmless(visible(chr(code)).replace("\t", ""))
    assert visible("κ₀ = ½ ± 1 × 10⁻³, 日本, é\tx") == "κ₀ = ½ ± 1 × 10⁻³, 日本, é\tx"
    assert visible("a\nb") == r"a\nb"  # a file name cannot start a line of its own
    assert visible("\udcff") == r"\udcff"  # a file name that is not valid text


def test_quoted_values_fit_on_one_line_and_are_cut():
    import numpy as np

    assert quoted(np.eye(3)).count("\n") == 0
    assert len(quoted("x" * 10**6)) < 300
    assert quoted(-(10**5000)) == "an integer of about 5000 digits"
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert quoted(deep) == "a list that cannot be written out"
    while deep:  # some versions of Python cannot delete such a list at once
        deep = deep.pop()


@pytest.mark.parametrize("failure", [OneheadError(EVIL), SolveError(EVIL), InvalidArgument(EVIL, EVIL, EVIL)])
def test_errors_are_harmless_as_text(failure):
    assert_harmless(str(failure))
    assert "\n" not in str(failure)


def test_everything_printed_is_escaped(capsys):
    print_lines(EVIL, "second")
    note(EVIL)
    print_rows([{EVIL: EVIL, "status": EVIL}], [EVIL, "status"], EVIL)
    print_table([(EVIL, EVIL, EVIL)], EVIL)
    print_table([("list", [EVIL], "")], "")
    assert_harmless(*capsys.readouterr())


def test_only_the_terminal_module_prints():
    for path in sorted((SOURCE / "cli").rglob("*.py")):
        names = {
            f"{getattr(node.func.value, 'id', '')}.{node.func.attr}" if isinstance(node.func, ast.Attribute) else
            getattr(node.func, "id", "")
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        }  # fmt: skip
        if path.name != "terminal.py":
            assert not names & {"click.echo", "click.secho", "print", "stdout.write", "stderr.write"}, path.name


def poisoned_store(path):
    """Write a store with control characters in every column of text."""
    sweep("sparse.align", {"alpha0": [1.0, 2.0]}, store=path)
    with closing(sqlite3.connect(path)) as database, database:
        for table in ("sweeps", "points"):
            for _, name, kind, *_ in database.execute(f"PRAGMA table_info({table})").fetchall():
                if kind == "TEXT" and name not in ("key", "state", "parameters", "results"):
                    database.execute(f"UPDATE {table} SET {name} = ?", (f"{name}{EVIL}",))
        database.execute("UPDATE points SET parameters = ?, state = 'failed'", (json.dumps({EVIL: EVIL}),))
    database.close()


def test_text_of_a_store_is_escaped(tmp_path):
    name = f"s{EVIL}.db".replace("/", "")
    poisoned_store(tmp_path / name)
    (tmp_path / "s.toml").write_text('call = "sparse.align"\n[grid]\nalpha0 = [1.0, 2.0]\n')
    for command in (
        ["status"],
        ["status", "--json"],
        ["export"],
        ["export", "--json"],
        ["export", "--csv", f"{name}.csv"],
    ):
        done = program("sweep", *command, "--store", name, cwd=tmp_path)
        assert "Traceback" not in done.stderr
        assert_harmless(done.stdout, done.stderr)


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
def test_text_of_a_sweep_file_is_escaped(tmp_path, onehead, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    name = f"s{EVIL}.toml"
    inside = r"\u001b]0;owned\u0007\u009b31m\u202e" if '"{}"' in text else "\u202e\u200bé"
    (tmp_path / name).write_text(text.replace("{}", inside), encoding="utf-8")
    for command in (["check", name], ["check", name, "--json"], ["run", name, "--store", f"{name}.db"]):
        assert_harmless(*onehead("sweep", *command)[1:])


def test_text_of_a_checkpoint_is_escaped(tmp_path, onehead):
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
        file.write_bytes(safetensors_bytes(tensors, "F32"))
        (folder / "config.json").write_text(json.dumps(config))
        for flags in ([], ["--json"], ["--layout", EVIL], ["--layout", f"separate:{{layer}}{EVIL}:{{layer}}{EVIL}"]):
            assert_harmless(*onehead("weights", file, "--no-fit", *flags)[1:])
    assert_harmless(*onehead("weights", folder)[1:])  # several files
    assert_harmless(*onehead("weights", folder / EVIL)[1:])


def test_text_of_the_command_line_is_escaped(tmp_path, onehead):
    for command in (
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
        assert_harmless(*onehead(*command)[1:])


def test_paths_of_figures_are_escaped(tmp_path, onehead, monkeypatch):
    from onehead.figures.make import Made

    made = Made(name="x", paths=(tmp_path / EVIL,), seconds=1.0, points=1, failed=[EVIL])
    monkeypatch.setattr("onehead.figures.make", lambda *_, on_figure, **__: [on_figure(made), made][1:])
    for flags in ([], ["--json"]):
        found = onehead("figures", "make", "aim-thresholds", "--out", tmp_path, *flags)
        assert found.returncode == 0
        assert_harmless(*found[1:])


def test_characters_that_a_terminal_lacks_are_escaped(tmp_path):
    (tmp_path / "κ₀.toml").write_text('call = "sparse.align"\n[grid]\nalpha0 = [1.0]\n')
    for command, code in (
        (["sparse", "align"], 0),
        (["aim", "predict", "--alpha", "0.5"], 0),
        (["sparse", "align", "--help"], 0),
        (["sparse", "align", "--beta", "κ₀"], 2),
        (["sweep", "check", "κ₀.toml"], 0),
        (["sweep", "check", "κ₁.toml"], 2),
    ):
        done = program(*command, cwd=tmp_path, LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr and "Unicode" not in done.stderr
        assert (done.stdout + done.stderr).isascii() or "--help" in command  # click writes help as UTF-8 in any case


def test_a_warning_is_printed_on_one_line(tmp_path):
    code = "import warnings; from onehead.cli.main import cli, run; import click\n"
    code += "cli.get_command = lambda *_: click.Command('x', callback=lambda: warnings.warn('so \\x1b it is', RuntimeWarning))\n"
    code += "import sys; sys.stderr = sys.stdout\nrun(['x'])"
    assert python(code, cwd=tmp_path) == "note: so \\x1b it is\n"
