"""What SECURITY.md promises: no code, no shell and no other machine from anybody's data, and one sentence for hostile input.

The safe reader is fuzzed in tests/weights, requests to the explorer in tests/app; here is what lies between and beside them.
"""

import ast
import json
import os
import pickle
import pickletools
import re
import socket
import sqlite3
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import onehead
from onehead.errors import InvalidArgument, OneheadError
from onehead.results import Certificate
from onehead.sweep import Store, sweep
from onehead.sweep.arrays import Arrays
from onehead.sweep.points import Point
from onehead.sweep.solve import solve_chunk
from onehead.sweep.spec import parse_spec
from onehead.sweep.table import Table
from onehead.sweep.version import NUMERICAL
from onehead.weights import open_checkpoint, survey

SOURCE = Path(onehead.__file__).parent
QUERY, KEY = (f"encoder.layer.0.attention.self.{side}.weight" for side in ("query", "key"))

# --- the source ---------------------------------------------------------------------------------------------------

# modules that execute what they read, or talk to other machines
NEVER = {
    "pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "dbm", "code", "codeop", "pty",
    "yaml", "ctypes", "cffi", "runpy", "imp", "xmlrpc", "ftplib", "smtplib", "telnetlib", "poplib", "imaplib", "webbrowser",
    "urllib3", "requests", "httpx", "aiohttp", "websockets", "paramiko", "boto3", "torch", "xml",
}  # fmt: skip
# module -> the files that may use it
ONLY_IN = {
    "subprocess": {"sweep/local.py"},
    "multiprocessing": {"sweep/local.py", "sweep/worker.py", "app/work.py", "app/training.py", "figures/pool.py"},
    "socket": {"app/server.py", "sweep/store.py"},  # the store asks for the name of this machine only
    "flask": {"app/server.py"},
    "werkzeug": {"app/server.py"},
    "dash": {"app/server.py"},
    "distributed": {"sweep/dask.py"},
    "dask_jobqueue": {"sweep/slurm.py"},
}
NEVER_INSIDE = ("urllib.request", "urllib.robotparser", "http.client", "http.server", "numpy.ctypeslib")
NEVER_CALLED = {"eval", "exec", "compile", "__import__", "breakpoint", "input", "globals"}
NEVER_METHODS = {
    "os": {"system", "popen", "execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe", "spawnl", "spawnv", "startfile"},
    "tempfile": {"mktemp"},
    "pd": {"read_pickle", "eval"},
    "subprocess": {"getoutput", "getstatusoutput", "call", "run", "check_output", "check_call"},  # Popen alone, see below
}  # fmt: skip
# files that import a module by a name that is not written out, each from a list of its own
NAMED_IMPORTS = {"__init__.py", "cli/main.py", "figures/registry.py", "sweep/calls.py"}
SQL = {"execute", "executemany", "executescript"}
SQL_PARTS = {"where", "SCHEMA", "APPLICATION", "SCHEMA_VERSION"}  # constants of the store, never data


def _name(node):
    """A dotted name, or an empty word."""
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _imported(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and _name(node.func).endswith("import_module") and node.args:
        literal = node.args[0]
        return [literal.value] if isinstance(literal, ast.Constant) else []
    return []


def _keyword(call, word):
    return next((k.value for k in call.keywords if k.arg == word), None)


def _called(node, file):
    """What is wrong with a call."""
    name, method = _name(node.func), _name(node.func).rpartition(".")
    if isinstance(node.func, ast.Name) and name in NEVER_CALLED:
        yield f"{name}()"
    if method[2] in NEVER_METHODS.get(method[0], ()):
        yield f"{name}()"
    if method[2] in ("to_pickle", "read_pickle"):
        yield f"{name}()"
    shell = _keyword(node, "shell")
    if shell is not None and not (isinstance(shell, ast.Constant) and shell.value is False):
        yield "shell="
    allow = _keyword(node, "allow_pickle")
    if allow is not None and not (isinstance(allow, ast.Constant) and allow.value is False):
        yield "allow_pickle="
    if method[2] == "load" and method[0] in ("np", "numpy") and allow is None:
        yield "np.load without allow_pickle=False"
    if name.endswith("import_module") and not isinstance(node.args[0], ast.Constant) and file not in NAMED_IMPORTS:
        yield "a module whose name is not written out"
    if method[2] == "Popen" and not (
        isinstance(node.args[0], ast.List) and _name(node.args[0].elts[0]) == "sys.executable"
    ):
        yield "a process other than this interpreter"
    if method[2] in SQL and node.args:
        yield from (f"SQL made of {part}" for part in _sql_parts(node.args[0]) - SQL_PARTS)


def _sql_parts(node):
    """Names that are put into the text of a statement; a value belongs into its parameters."""
    if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper()):
        return set()
    if isinstance(node, ast.JoinedStr):
        parts = [part for part in node.values if isinstance(part, ast.FormattedValue)]
        return {_name(part.value) or "an expression" for part in parts}
    return {"an expression"}


def trouble(text, file):
    """Everything in a file that is not allowed there."""
    found = []
    for node in ast.walk(ast.parse(text)):
        for module in _imported(node):
            top = module.split(".")[0]
            if top in NEVER or module.startswith(NEVER_INSIDE):
                found.append(f"imports {module}")
            if file not in ONLY_IN.get(top, {file}):
                found.append(f"imports {module} outside its room")
        if isinstance(node, ast.Call):
            found += _called(node, file)
    return found


def test_the_source_executes_nothing_it_reads():
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        assert trouble(path.read_text(), file) == [], file


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import_module('marshal')",
        "import subprocess",
        "from urllib.request import urlopen",
        "import requests",
        "import socket",
        "eval(x)",
        "exec(x)",
        "compile(x, '', 'exec')",
        "__import__(x)",
        "os.system(x)",
        "subprocess.Popen(x)",
        "subprocess.Popen(['sh', '-c', x])",
        "subprocess.run(['ls'])",
        "f(x, shell=True)",
        "f(x, shell=y)",
        "np.load(x)",
        "np.load(x, allow_pickle=True)",
        "tempfile.mktemp()",
        "frame.to_pickle(x)",
        "import_module(x)",
        "db.execute(f'SELECT {x}')",
        "db.execute('SELECT ' + x)",
        "db.executescript(text)",
    ],
)
def test_the_check_of_the_source_sees_what_it_must(text):
    assert trouble(text, "aim/somewhere.py") != []


def test_files_that_name_modules_choose_from_their_own_list():
    # the four files of NAMED_IMPORTS: a word of a user, a file or a store never becomes a module
    for name in ("os", "os:system", "onehead.cli.main:run", "subprocess:run", "../x"):
        with pytest.raises(InvalidArgument, match="call must be one of"):
            parse_spec(f'call = "{name}"\n[grid]\nalpha0 = [1.0]\n')
    with pytest.raises(AttributeError):
        getattr(onehead, "os")  # noqa: B009
    from onehead.figures.registry import figure_named

    with pytest.raises(InvalidArgument):
        figure_named("../../os")


def test_nothing_reaches_out_while_data_is_read(tmp_path):
    # the interpreter itself reports every socket, process and unpickled name; numba's own cache beside the source is pickled
    checkpoint(tmp_path / "model.safetensors")
    sweep("sparse.align", {"alpha0": [1.0, 2.0]}, store=tmp_path / "s.db")
    (tmp_path / "s.toml").write_text('call = "sparse.align"\n[grid]\nalpha0 = [1.0]\n')
    script = """
import sys, traceback
FORBIDDEN = ("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn",
             "os.fork", "pickle.find_class", "marshal.loads", "urllib.Request", "webbrowser.open", "ctypes.dlopen")
seen = []
def hook(event, arguments):
    if event in FORBIDDEN and active:
        files = [frame.filename for frame in traceback.extract_stack()]
        if not any("numba" in name or "llvmlite" in name or "importlib" in name for name in files):
            seen.append((event, str(arguments)[:80]))
active = False
sys.addaudithook(hook)
import onehead
from onehead.cli.main import cli
from onehead.sweep import Store
from onehead.sweep.spec import read_spec
from onehead.weights import survey
active = True
survey("model.safetensors", head_count=1, fit=False)
read_spec("s.toml")
with Store.reading("s.db") as store:
    rows = list(store.rows())
cli.main(["sweep", "export", "--store", "s.db", "--csv", "s.csv"], standalone_mode=False)
cli.main(["sparse", "align", "--json"], standalone_mode=False)
active = False
print(len(rows), seen)
"""
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "2 []"


# --- what travels between processes -------------------------------------------------------------------------------


def names_in(data):
    """Modules and names that unpickling would look up."""
    found, strings = set(), []
    for code, argument, _ in pickletools.genops(data):
        if code.name in ("SHORT_BINUNICODE", "BINUNICODE", "UNICODE"):
            strings.append(argument)
        elif code.name == "STACK_GLOBAL":
            found.add(
                f"{strings[-2]}.{strings[-1]}" if "." in strings[-2] or strings[-2].islower() else str(strings[-2:])
            )
        elif code.name == "GLOBAL":
            found.add(argument.replace(" ", "."))
    return found


def test_workers_are_sent_names_and_numbers_only():
    # pickle is used between processes that we started ourselves (pipes, Dask); what it carries names nothing else
    chunk = [Point("k", {"alpha0": 1.0}, None, 0)]
    out = names_in(pickle.dumps((solve_chunk, "sparse.align", chunk, NUMERICAL), protocol=4))
    assert out == {"onehead.sweep.solve.solve_chunk", "onehead.sweep.points.Point"}
    back = names_in(pickle.dumps(solve_chunk("sparse.align", chunk, NUMERICAL), protocol=4))
    assert all(
        name.startswith(("onehead.sweep.solve.Outcome", "numpy.", "copyreg.", "builtins.object")) for name in back
    )


def test_a_worker_cannot_be_told_its_code_by_a_store(tmp_path):
    # the call of a row is a word; solving again takes the call of the sweep that runs, never that of the file
    sweep("sparse.align", {"alpha0": [1.0]}, store=tmp_path / "s.db")
    poison(
        tmp_path / "s.db", call="os:mkdir", parameters=json.dumps({"path": str(tmp_path / "executed")}), state="missing"
    )
    with Store.reading(tmp_path / "s.db") as store:
        list(store.rows())
    with pytest.raises(InvalidArgument):
        parse_spec('call = "os:mkdir"\n[grid]\npath = ["x"]\n')
    assert not (tmp_path / "executed").exists()


# --- sweep files and stores ---------------------------------------------------------------------------------------


def poison(path, **columns):
    """Change the first row of a store as an attacker would."""
    database = sqlite3.connect(path)
    for name, value in columns.items():
        database.execute(f"UPDATE points SET {name} = ? WHERE id = 1", (value,))
    database.commit()
    database.close()


def program(*words, cwd):
    """Exit code, standard output and standard error of the program, without a traceback."""
    run = subprocess.run(
        [sys.executable, "-m", "onehead", *words], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in run.stderr, run.stderr[-600:]
    return run.returncode, run.stdout, run.stderr


HEAD = 'call = "sparse.align"\n'


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "[grid]\nalpha0 = " + "[" * 5000 + "]" * 5000,
        HEAD + "[fixed]\nx = " + "{a = " * 3000 + "1" + "}" * 3000,
        HEAD + "[grid]\nalpha0 = [" + "9" * 5000 + "]",
        HEAD + "[grid]\nalpha0 = [nan]",
        HEAD + "[grid]\nalpha0 = [inf]",
        HEAD + '[grid]\nalpha0 = "0:1:100000000000"',
        HEAD + '[grid]\nalpha0 = "1:2:100000"\nstrength = "1:2:100000"\neta_w = "1:2:100000"\nbeta = "1:2:100000"',
        HEAD + '[fixed]\n__class__ = "x"\n[grid]\nalpha0 = [1.0]',
        HEAD + '[grid]\n"alpha0\'; DROP TABLE points; --" = [1.0]',
        HEAD + '[run]\nchunk = "x"\n[grid]\nalpha0 = [1.0]',
        'call = "aim.train"\nseeds = 1000000000000\n[grid]\nalpha = [1.0]',
        'call = "aim.predict"\n[fixed]\ntarget = "atoms"\natoms = "/etc/passwd"\n[grid]\nalpha = [1.0]',
        'call = "aim.predict"\n[fixed]\ntarget = "/etc/passwd"\n[grid]\nalpha = [1.0]',
        "\x00",
    ],
    ids=lambda text: re.sub(r"\W+", "-", text[-40:]),
)
def test_hostile_sweep_files_get_one_sentence(text):
    with pytest.raises(InvalidArgument) as failure:
        parse_spec(text)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"partition": "x\ntouch owned"},
        {"partition": "x; touch owned"},
        {"partition": "$(touch owned)"},
        {"partition": "x --wrap=touch"},
        {"partition": ""},
        {"time": "01:00:00\ntouch owned"},
        {"memory": "2GB\ntouch owned"},
        {"memory": "2GB; touch owned"},
    ],
    ids=str,
)
def test_no_word_of_a_file_becomes_a_line_of_the_job_script(settings):
    from onehead.sweep.slurm import Jobs

    with pytest.raises(InvalidArgument):
        Jobs(**settings)


def test_good_partitions_are_names():
    from onehead.sweep.slurm import Jobs

    for name in ("main", "gpu-a100", "short,long", "part_1.x", None):
        assert Jobs(partition=name).partition == name


@pytest.mark.parametrize(
    "name", ["x'; DROP TABLE points; --.db", "a?mode=memory&x#y.db", "100%25.db", "ä ö.db", "-.db"]
)
def test_the_name_of_a_store_is_only_a_name(tmp_path, name):
    table = sweep("sparse.align", {"alpha0": [1.0]}, store=tmp_path / name)
    with Store.reading(tmp_path / name) as store:
        assert [row["key"] for row in store.rows()] == [table[0]["key"]]
    assert name in {path.name for path in tmp_path.iterdir()}


def echo(words, seed):
    """A call of one's own that gives back what it got."""
    return {"said": words["word"]}


def test_values_never_become_statements(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    words = ["'); DROP TABLE points; --", '"; DELETE FROM sweeps; --', "? :id", "\x1b[31m", "=1+1", "[/b]", "<script>"]
    table = sweep("test_trust_security:echo", {"word": words}, store=tmp_path / "s.db")
    assert [row["said"] for row in table] == words
    with Store.reading(tmp_path / "s.db") as store:
        assert [row["word"] for row in store.rows()] == words
        assert store.stored() == len(words)
    code, out, _ = program("sweep", "export", "--store", "s.db", cwd=tmp_path)
    assert code == 0
    assert "[/b]" in out  # shown as it is, not as markup
    assert "\x1b" not in out


@pytest.mark.parametrize(
    "columns",
    [
        {"parameters": "{"},
        {"parameters": "[1]"},
        {"parameters": b"\xff\xfe"},
        {"parameters": "[" * 100_000 + "]" * 100_000},
        {"results": "{"},
        {"results": "7"},
        {"results": '{"a": ' * 50_000 + "1" + "}" * 50_000},
    ],
    ids=lambda columns: f"{next(iter(columns))}-{len(str(columns))}",
)
def test_a_store_with_broken_rows_is_called_damaged(tmp_path, columns):
    sweep("sparse.align", {"alpha0": [1.0, 2.0]}, store=tmp_path / "s.db")
    poison(tmp_path / "s.db", **columns)
    with pytest.raises(OneheadError, match="damaged") as failure, Store.reading(tmp_path / "s.db") as store:
        list(store.rows())
    assert "\n" not in str(failure.value)


def test_text_of_a_store_is_shown_and_never_obeyed(tmp_path):
    (tmp_path / "s.toml").write_text(HEAD + "[grid]\nalpha0 = [1.0, 2.0]\n")
    sweep("sparse.align", {"alpha0": [1.0, 2.0]}, store=tmp_path / "s.db")
    # markup of the terminal library, a window title, a result that would hide a column, numbers that are none
    poison(tmp_path / "s.db", state="failed", reason="[/b] [link=file:///]x[/link] \x1b]0;owned\x07 \x1b[2J")
    for words in (("export",), ("export", "--csv", "s.csv"), ("export", "--parquet", "s.parquet"), ("status",)):
        code, out, told = program("sweep", *words, "--store", "s.db", cwd=tmp_path)
        assert code == 0
        assert "\x1b" not in out + told
    code, out, told = program("sweep", "run", "s.toml", "--store", "s.db", cwd=tmp_path)
    assert "\x1b" not in out + told
    poison(tmp_path / "s.db", state="done", reason=None, results='{"call": 5, "key": "other", "x": NaN, "y": 1e999}')
    code, out, _ = program("sweep", "export", "--store", "s.db", "--json", cwd=tmp_path)
    assert code == 0
    row = json.loads(out)[0]
    assert row["call"] == "sparse.align" and row["key"] != "other"
    assert row["x"] is None and row["y"] is None


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("precious")
    (tmp_path / "s.db.lock").symlink_to(mine)
    with pytest.raises(OneheadError):
        sweep("sparse.align", {"alpha0": [1.0]}, store=tmp_path / "s.db")
    assert mine.read_text() == "precious"


def test_arrays_beside_a_store_cannot_leave_their_folder(tmp_path):
    (tmp_path / "s.db.arrays").mkdir()
    np.savez(tmp_path / "secret.npz", x=np.ones(2))
    arrays = Arrays(tmp_path / "s.db.arrays")
    for name in ("../secret.npz", "../secret", str(tmp_path / "secret.npz"), "..", ""):
        with pytest.raises(FileNotFoundError):
            arrays.get(name)
    np.savez(tmp_path / "s.db.arrays" / "evil.npz", x=np.array([Mark(tmp_path / "executed")], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        arrays.get("evil")
    assert not (tmp_path / "executed").exists()


class Mark:
    """Leaves a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


# --- numbers in files ---------------------------------------------------------------------------------------------


def npy(path, header, data=bytes(64)):
    """A .npy file with this header, right or wrong."""
    text = header.encode()
    text += b" " * (63 - (10 + len(text)) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data)


def described(shape="(8,)", descr="'<f8'"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


def test_hostile_arrays_on_the_command_line_get_one_line(tmp_path):
    from onehead.cli.aim_flags import read_eigenvalues

    npy(tmp_path / "huge.npy", described("(1000000000000,)"))
    npy(tmp_path / "negative.npy", described("(-1,)"))
    npy(tmp_path / "deep.npy", described("(" * 200 + ")" * 200))
    npy(tmp_path / "code.npy", described(descr=f"__import__('os').mkdir('{tmp_path / 'executed'}')"))
    npy(tmp_path / "words.npy", described(descr="'<U8'"))
    npy(tmp_path / "record.npy", described(descr="[('a', '<f8')]"))
    np.save(tmp_path / "pickled.npy", np.array([Mark(tmp_path / "executed")], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "zip.npz", a=np.ones(3))
    (tmp_path / "zip.npz").rename(tmp_path / "zip.npy")
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "bytes.txt").write_bytes(bytes(range(256)))
    for path in tmp_path.iterdir():
        with pytest.raises(InvalidArgument) as failure:
            read_eigenvalues(str(path))
        assert "\n" not in str(failure.value), path.name
    assert not (tmp_path / "executed").exists()
    code, out, told = program(
        "aim", "predict", "--target", "atoms", "--atoms", "huge.npy", "--alpha", "1", cwd=tmp_path
    )
    assert (code, out, len(told.splitlines())) == (2, "", 1)


# --- checkpoints --------------------------------------------------------------------------------------------------


def checkpoint(path, prefix="", more=(), size=4):
    """A small file whose tensors have these names."""
    names = [f"{prefix}{QUERY}", f"{prefix}{KEY}", *more]
    step = 4 * size * size
    header = {
        name: {"dtype": "F32", "shape": [size, size], "data_offsets": [step * i, step * (i + 1)]}
        for i, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    rng = np.random.default_rng(0)
    data = rng.standard_normal((len(names), size, size)).astype("<f4").tobytes()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def test_links_lead_only_to_files_that_are_read_as_checkpoints(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("the password is swordfish " * 9)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "part.safetensors").symlink_to(secret)
    index = {"weight_map": {QUERY: "part.safetensors", KEY: "part.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InvalidArgument) as failure:
        survey(folder, head_count=1, fit=False)
    assert "swordfish" not in str(failure.value)
    (folder / "config.json").symlink_to(secret)
    checkpoint(folder / "good.safetensors")
    with pytest.raises(InvalidArgument) as failure:
        survey(folder / "good.safetensors", fit=False)
    assert "swordfish" not in str(failure.value)
    os.mkfifo(tmp_path / "pipe")
    (folder / "part.safetensors").unlink()
    (folder / "part.safetensors").symlink_to(tmp_path / "pipe")  # reading it would wait for ever
    with pytest.raises(InvalidArgument, match="regular"):
        survey(folder, head_count=1, fit=False)


def test_sizes_that_a_header_claims_cost_nothing(tmp_path):
    path = tmp_path / "model.safetensors"
    # no bytes at all, 2^59 columns; and a sparse file of 8 TB whose header is honest about it
    empty = {"dtype": "F32", "shape": [2**59, 0], "data_offsets": [0, 0]}
    text = json.dumps({QUERY: empty, KEY: empty}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    start = time.monotonic()
    with pytest.raises(OneheadError) as failure:  # several tensors without bytes at one place, or a matrix that is none
        raise_if_unread(survey(path, head_count=1, fit=False))
    assert "\n" not in str(failure.value)
    assert time.monotonic() - start < 5.0


def test_deep_values_in_a_header_get_one_sentence(tmp_path):
    # some versions of Python read such JSON and then cannot print it
    deep = b"[" * 100_000 + b"]" * 100_000
    text = b'{"x": {"dtype": ' + deep + b', "shape": [1], "data_offsets": [0, 4]}}'
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
    with pytest.raises(InvalidArgument) as failure:
        open_checkpoint(tmp_path / "model.safetensors")
    assert "\n" not in str(failure.value) and len(str(failure.value)) < 500


def raise_if_unread(found):
    if all(head.status != "ok" for head in found):
        raise OneheadError(found[0].reason or "")


def test_long_names_take_no_time(tmp_path):
    # names that make a careless pattern try every split
    path = tmp_path / "model.safetensors"
    start = time.monotonic()
    for prefix in ("a." * 100_000, "a" * 1_000_000 + "."):  # prefixes of the kind that models have
        checkpoint(path, prefix)
        assert survey(path, head_count=1, fit=False)[0].status == "ok"
    for prefix in ("a" * 1_000_000, "é." * 50_000, "a." * 100_000 + "-"):
        checkpoint(path, prefix)
        with pytest.raises(InvalidArgument) as failure:
            survey(path, head_count=1, fit=False)
        assert len(str(failure.value)) < 1000
    assert time.monotonic() - start < 20.0


@pytest.mark.parametrize(
    "prefix", ["=cmd()|x!A1.", "[/b].", "\x1b[31mx.", "<img src=x onerror=alert(1)>.", "$\\frac$.", "@x."]
)
def test_names_that_mean_something_elsewhere_are_not_taken(tmp_path, prefix):
    # a spreadsheet, a terminal, a browser and a typesetter would obey these; module names are letters, digits and dots
    checkpoint(tmp_path / "model.safetensors", prefix)
    with pytest.raises(InvalidArgument, match="none of the 2 tensors"):
        survey(tmp_path / "model.safetensors", head_count=1, fit=False)


def test_a_file_with_a_strange_name_is_read_shown_and_drawn(tmp_path):
    name = "[_b] $\\frac$ <b>&.safetensors"
    folder = tmp_path / "q[" / "red]"
    folder.mkdir(parents=True)
    checkpoint(folder / name, size=16)
    code, out, _ = program("weights", f"q[/red]/{name}", "--heads", "1", "--no-fit", "--plot", "out", cwd=tmp_path)
    assert code == 0
    assert "q[/red]" in out
    assert (tmp_path / "out" / "map.png").exists()


def test_notebooks_get_text_and_not_markup(tmp_path):
    evil = "<script>alert(1)</script>"
    folder = tmp_path / evil.replace("/", "")
    folder.mkdir()
    checkpoint(folder / "model.safetensors")
    found = survey(folder, head_count=1, fit=False)
    row = {"key": "k", "call": evil, "state": "failed", "reason": evil, evil: evil, "status": "failed", "arrays": None}
    other = row | {"reason": "x", evil: 2, "key": "l"}
    told = Certificate(status=evil, kind="claim", warnings=(evil,))
    for shown in (found, found[0], Table([row, other]), type(found)(**{**vars(found), "certificate": told})):
        assert "<script" not in shown._repr_html_()


# --- the explorer -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def explorer(tmp_path_factory):
    from onehead.app.server import Explorer

    made = Explorer(store=tmp_path_factory.mktemp("store") / "runs.sqlite", workers=2)
    yield made
    made.close()


@pytest.fixture(scope="module")
def port(explorer):
    """The explorer behind a real socket; its port."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, *_, **__):
            pass

    server = make_server("127.0.0.1", 0, explorer.dash.server, threaded=True, request_handler=Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def raw(port, data, seconds=10.0):
    """Send bytes, return everything that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as wire:
        wire.sendall(data)
        parts = []
        while part := wire.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:1", "evil.example:127.0.0.1", "127.0.0.1@evil.example",
        "[::1].evil.example", "[::ffff:127.0.0.1]", "0.0.0.0", "127.1", "2130706433", "LOCALHOST.", "localhost,evil.example",
    ],
)  # fmt: skip
def test_only_its_own_names_are_answered(explorer, host):
    # a page whose name was made to lead here (DNS rebinding) sends its own name
    client = explorer.dash.server.test_client()
    for path in ("/", "/data.csv", "/assets/explorer.js", "/_dash-layout"):
        assert client.get(path, headers={"Host": host}).status_code in (400, 403)


@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.example", "http://127.0.0.1:2", "http://127.0.0.1", "http://127.0.0.1:1.evil.example",
     "http://127.0.0.1:1@evil.example", "file://", "http://localhost:1"],
)  # fmt: skip
def test_pages_of_other_origins_may_not_post(explorer, origin):
    client = explorer.dash.server.test_client()
    for path in ("/_dash-update-component", "/checkpoint", "/"):
        answer = client.post(path, data=b"{}", headers={"Host": "127.0.0.1:1", "Origin": origin})
        assert answer.status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_origins_may_not_make_it_work(explorer, site):
    client = explorer.dash.server.test_client()
    here = {"Host": "127.0.0.1:1", "Sec-Fetch-Site": site}
    assert client.get("/data.csv?view=sparse&sparse_panel=alignment", headers=here).status_code == 403
    assert client.get("/", headers=here).status_code == 200  # a link to the page itself is welcome
    assert client.get("/_dash-layout", headers=here | {"Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_the_body_of_a_refused_request_is_never_a_request(port):
    # a page elsewhere can choose the body of its request; were it read as the next one, it would choose its headers too
    inner = b"GET /_dash-layout HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for start in (b"POST /checkpoint", b"POST /nowhere", b"GET /", b"DELETE /", b"POST /_dash-update-component"):
        length = str(len(inner)).encode()
        head = start + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\nContent-Length: " + length
        answer = raw(port, head + b"\r\n\r\n" + inner)
        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"ask-draw" not in answer


@pytest.mark.parametrize(
    ("request_", "codes"),
    [
        (
            b"POST /checkpoint HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            (413,),
        ),
        (b"POST /checkpoint HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n", (413,)),
        (b"POST /checkpoint HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n", (400, 413)),
        (b"POST /_dash-update-component HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 70000\r\n\r\n", (413,)),
        (
            b"POST /_dash-update-component HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            (411,),
        ),
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (414,)),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", (431,)),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", (431,)),
        (b"TRACE / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (405, 501)),
        (b"GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (200, 400, 403)),
        (b"GET /assets/../server.py HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (404,)),
        (b"GET /assets/%2e%2e/server.py HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (404,)),
        (b"GET /assets/..%2fserver.py HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (404,)),
        (b"GET /assets//etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (200, 404)),  # the page itself
        (b"GET /_dash-component-suites/os/os.py HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (404,)),
    ],
    ids=lambda value: re.sub(rb"\W+", b"-", value[:45]).decode() if isinstance(value, bytes) else "",
)
def test_requests_are_limited_before_they_are_read(port, request_, codes):
    answer = raw(port, request_)
    assert int(answer.split(b" ", 2)[1]) in codes
    assert b"Traceback" not in answer and b"def " not in answer and b"root:" not in answer


def test_many_questions_at_once_wait_and_leave_no_process_behind(explorer):
    # 24 people ask for long work at once: each gets an answer or a sentence in time, and no more than two processes work
    from onehead.app.state import read_state

    slow, _ = read_state({"view": "curve", "best": "1", "tokens": "8"})
    ended = []

    def one(i):
        start = time.monotonic()
        try:
            explorer.workers.ask("report", ("curve", slow.values, {}), page=f"p{i}", limit=3.0)
            ended.append(("answer", time.monotonic() - start))
        except OneheadError as refusal:
            ended.append((str(refusal), time.monotonic() - start))

    threads = [threading.Thread(target=one, args=(i,)) for i in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert len(ended) == 24
    # 3 s, and up to 10 s more for ending and replacing the workers that took longer
    assert max(seconds for _, seconds in ended) < 15.0
    assert all(told == "answer" or "busy" in told or "within" in told for told, _ in ended)
    assert len(explorer.workers._idle) == 2 and explorer.workers._busy == []
    assert explorer.workers._newest == {}


def test_files_are_taken_two_at_a_time(explorer, tmp_path):
    from onehead.app import server

    client = explorer.dash.server.test_client()
    checkpoint(tmp_path / "model.safetensors", size=16)
    data = (tmp_path / "model.safetensors").read_bytes()
    with server.UPLOADS, server.UPLOADS:
        refused = client.post("/checkpoint?heads=1", data=data, headers={"Host": "127.0.0.1:1"})
    assert refused.status_code == 503
    taken = client.post("/checkpoint?heads=1", data=data, headers={"Host": "127.0.0.1:1"})
    assert taken.status_code == 200
    assert json.loads(taken.get_data())["heads"] == 1


def test_text_of_a_file_is_text_on_the_page(explorer, tmp_path):
    from benchmarks.app import question

    client = explorer.dash.server.test_client()
    checkpoint(tmp_path / "model.safetensors", "evil_name.", size=16)
    name = "<img src=x onerror=alert(1)><b>&{}$"
    answer = client.post(
        "/checkpoint", query_string={"heads": "1", "name": name}, data=(tmp_path / "model.safetensors").read_bytes(),
        headers={"Host": "127.0.0.1:1"},
    )  # fmt: skip
    body = question("draw", {"view": "checkpoint"})
    body["inputs"][0]["value"]["file"] = json.loads(answer.get_data())["file"]
    shown = client.post("/_dash-update-component", json=body, headers={"Host": "127.0.0.1:1"})
    assert shown.mimetype == "application/json"
    response = json.loads(shown.get_data())["response"]
    # plotly understands some markup, so nothing of a file may reach a figure; the caption is set as text, see below
    assert "onerror" not in json.dumps(response["picture"]["figure"])
    assert "evil_name" not in json.dumps(response["picture"]["figure"])
    assert name in response["told-draw"]["data"]["caption"]


def test_the_page_makes_no_markup_from_text():
    script = (SOURCE / "app" / "assets" / "explorer.js").read_text()
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "srcdoc",
        "javascript:",
    ):
        assert word not in script, word
    katex = [line for line in script.splitlines() if "katex.render" in line]
    assert all("own.formula" in line for line in katex)  # formulas are the views' own
    assert "trust" not in "".join(katex)


def test_addresses_are_data(explorer):
    client = explorer.dash.server.test_client()
    for value in (
        "<script>alert(1)</script>",
        '"><svg onload=alert(1)>',
        "{{7*7}}",
        "${7*7}",
        "../../etc/passwd",
        "\x00",
        "'--",
    ):
        for path in ("/", "/data.csv"):
            answer = client.get(
                path, query_string={"view": value, "noise": value, value[:20]: "1"}, headers={"Host": "127.0.0.1:1"}
            )
            assert answer.status_code in (200, 400)
            text = answer.get_data(as_text=True)
            if answer.mimetype == "text/html":
                assert value not in text or value in ("\x00", "'--")
            else:
                assert answer.mimetype in ("application/json", "text/csv")


def test_open_checkpoint_names_no_other_file(tmp_path):
    # what a sentence says of a file is its name, so that a page or a log does not learn the folders of this machine
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 64)
    with pytest.raises(InvalidArgument) as failure:
        open_checkpoint(tmp_path / "bad.safetensors")
    assert str(tmp_path) not in str(failure.value)
