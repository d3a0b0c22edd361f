"""Promises of SECURITY.md: the source executes nothing that it reads, and workers receive names and numbers only."""

import ast
import json
import pickle
import pickletools
from pathlib import Path

import pytest
from tests.support.hostile import checkpoint, poison
from tests.support.programs import python

import onehead
from onehead.errors import InvalidArgument
from onehead.sweep import Store, sweep
from onehead.sweep.solve import solve_chunk
from onehead.sweep.spec_file import parse_spec
from onehead.sweep.storage.keys import Point
from onehead.sweep.storage.version import NUMERICAL

SOURCE = Path(onehead.__file__).parent


# modules that execute what they read, or talk to other machines
FORBIDDEN_MODULES = {
    "pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "dbm", "code", "codeop", "pty",
    "yaml", "ctypes", "cffi", "runpy", "imp", "xmlrpc", "ftplib", "smtplib", "telnetlib", "poplib", "imaplib", "webbrowser",
    "urllib3", "requests", "httpx", "aiohttp", "websockets", "paramiko", "boto3", "torch", "xml",
}  # fmt: skip
# module -> files that may import it
ALLOWED_FILES = {
    "subprocess": {"sweep/executors/local.py"},
    "multiprocessing": {
        "sweep/executors/local.py",
        "sweep/executors/worker.py",
        "app/server/workers.py",
        "app/server/training_jobs.py",
    },
    "socket": {
        "app/server/application.py",
        "app/server/http_server.py",
        "sweep/storage/store.py",
        "sweep/storage/lock.py",
    },  # the store asks for the name of this machine only
    "flask": {"app/server/application.py"},
    "werkzeug": {"app/server/application.py"},
    "waitress": {"app/server/http_server.py"},
    "distributed": {"sweep/executors/dask.py"},
    "dask_jobqueue": {"sweep/executors/slurm.py"},
}
FORBIDDEN_PREFIXES = ("urllib.request", "urllib.robotparser", "http.client", "http.server", "numpy.ctypeslib")
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "breakpoint", "input", "globals"}
FORBIDDEN_METHODS = {
    "os": {"system", "popen", "execl", "execle", "execlp", "execv", "execve", "execvp", "execvpe", "spawnl", "spawnv", "startfile"},
    "tempfile": {"mktemp"},
    "pd": {"read_pickle", "eval"},
    # Popen alone, see below
    "subprocess": {"getoutput", "getstatusoutput", "call", "run", "check_output", "check_call"},
}  # fmt: skip
# files that import a module by a computed name, each from a fixed list
NAMED_IMPORTS = {
    "__init__.py",
    "cli/main.py",
    "figures/registry.py",
    "lazy.py",
    "numerics/jit.py",  # files of this package that match KERNEL_FILES
    "sweep/registry/__init__.py",
}
SQL = {"execute", "executemany", "executescript"}
SQL_PARTS = {
    "SCHEMA",
    "HASHES",
    "SET_SWEEP_HASHES",
    "SET_POINT_HASHES",
    "APPLICATION_ID",
    "SCHEMA_VERSION",
}  # constants of the store, never data


def _name(node):
    """Dotted name of a node, or an empty string."""
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


def _keyword(call, name):
    return next((k.value for k in call.keywords if k.arg == name), None)


def _called(node, file):
    """Violations in a call."""
    name, method = _name(node.func), _name(node.func).rpartition(".")
    if isinstance(node.func, ast.Name) and name in FORBIDDEN_CALLS:
        yield f"{name}()"
    if method[2] in FORBIDDEN_METHODS.get(method[0], ()):
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
        yield "an import of a computed name"
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


def violations(text, file):
    """Everything in a source that is not allowed in this file."""
    found = []
    for node in ast.walk(ast.parse(text)):
        for module in _imported(node):
            top = module.split(".")[0]
            if top in FORBIDDEN_MODULES or module.startswith(FORBIDDEN_PREFIXES):
                found.append(f"imports {module}")
            if file not in ALLOWED_FILES.get(top, {file}):
                found.append(f"imports {module} outside its files")
        if isinstance(node, ast.Call):
            found += _called(node, file)
    return found


def test_the_source_executes_nothing_it_reads():
    for path in sorted(SOURCE.rglob("*.py")):
        file = path.relative_to(SOURCE).as_posix()
        assert violations(path.read_text(), file) == [], file


@pytest.mark.parametrize(
    "text",
    [
        "import pickle", "from pickle import loads", "import_module('marshal')", "import subprocess",
        "from urllib.request import urlopen", "import requests", "import socket", "eval(x)", "exec(x)",
        "compile(x, '', 'exec')", "__import__(x)", "os.system(x)", "subprocess.Popen(x)",
        "subprocess.Popen(['sh', '-c', x])", "subprocess.run(['ls'])", "f(x, shell=True)", "f(x, shell=y)",
        "np.load(x)", "np.load(x, allow_pickle=True)", "tempfile.mktemp()", "frame.to_pickle(x)", "import_module(x)",
        "db.execute(f'SELECT {x}')", "db.execute('SELECT ' + x)", "db.executescript(text)",
    ],
)  # fmt: skip
def test_the_check_of_the_source_finds_every_violation(text):
    assert violations(text, "aim/somewhere.py") != []


def test_computed_imports_come_from_fixed_lists():
    # the files of NAMED_IMPORTS: text of a user, a file or a store never becomes a module name
    for name in ("os", "os:system", "onehead.cli.main:run", "subprocess:run", "../x"):
        with pytest.raises(InvalidArgument, match="call must be one of"):
            parse_spec(f'call = "{name}"\n[grid]\nalpha0 = [1.0]\n')
    with pytest.raises(AttributeError):
        getattr(onehead, "os")  # noqa: B009
    with pytest.raises(AttributeError):
        getattr(onehead.aim, "os")  # noqa: B009
    from onehead.figures.registry import figure_named

    with pytest.raises(InvalidArgument):
        figure_named("../../os")


def test_reading_data_opens_no_connection_and_starts_no_process(tmp_path):
    # audit hooks report every socket, process and unpickled name; numba's own cache is pickled and left out
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
from onehead.sweep.spec_file import read_spec
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
    assert python(script, cwd=tmp_path).splitlines()[-1] == "2 []"


def names_in(data):
    """Names that unpickling would import."""
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


def test_workers_receive_names_and_numbers_only():
    # pickle is used between our own processes \(pipes, Dask\), for these names only
    chunk = [Point("k", {"alpha0": 1.0}, None, 0)]
    out = names_in(pickle.dumps((solve_chunk, "sparse.align", chunk, NUMERICAL), protocol=4))
    assert out == {"onehead.sweep.solve.solve_chunk", "onehead.sweep.storage.keys.Point"}
    back = names_in(pickle.dumps(solve_chunk("sparse.align", chunk, NUMERICAL), protocol=4))
    assert all(
        name.startswith(("onehead.sweep.solve.Outcome", "numpy.", "copyreg.", "builtins.object")) for name in back
    )


def test_a_store_cannot_choose_the_function_that_a_worker_calls(tmp_path):
    # the call in a row is text; solving again uses the call of the running sweep, never that of the file
    sweep("sparse.align", {"alpha0": [1.0]}, store=tmp_path / "s.db")
    poison(
        tmp_path / "s.db", call="os:mkdir", parameters=json.dumps({"path": str(tmp_path / "executed")}), state="missing"
    )
    with Store.reading(tmp_path / "s.db") as store:
        list(store.rows())
    with pytest.raises(InvalidArgument):
        parse_spec('call = "os:mkdir"\n[grid]\npath = ["x"]\n')
    assert not (tmp_path / "executed").exists()
