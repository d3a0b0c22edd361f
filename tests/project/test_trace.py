"""The page for developers names the modules that exist, and the files that a call really enters."""

import re
import shutil
from pathlib import Path

import pytest
from tests.support.programs import run

import onehead

PACKAGE = Path(onehead.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "developers.md").read_text(encoding="utf-8")

# prints every file of the package in which the command enters a function, once, relative to the package
TRACE = """
import inspect, sys
from pathlib import Path
entered = {}
def follow(frame, event, _):
    code = frame.f_code  # functions only: no modules, no class bodies, no annotations (functions since Python 3.14)
    if event == "call" and code.co_flags & inspect.CO_OPTIMIZED and code.co_name != "__annotate__":
        entered.setdefault(code.co_filename)
import onehead.cli.aim.commands
from onehead.cli.main import run
sys.setprofile(follow)
try:
    run(sys.argv[1:])
except SystemExit:
    pass
sys.setprofile(None)
package = Path(onehead.__file__).parent
inside = [Path(name).relative_to(package) for name in entered if Path(name).is_relative_to(package)]
print(*(path.as_posix() for path in inside), sep="\\n", file=sys.stderr)
"""


def files_entered(*command, **environment):
    """Files of `aim` and `cli` that a command enters, without ``__init__.py``."""
    done = run("-c", TRACE, *command, **environment)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith(("aim/", "cli/"))]
    return {line for line in lines if not line.endswith("__init__.py")}


def section(title):
    """The text below a heading of the page, up to the next heading."""
    return re.search(rf"^##+ {re.escape(title)}\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE)[1]


def named_files(text):
    """Files of `aim` and `cli` that a text names; a folder, such as `cli/parsing/`, stands for all files in it."""
    names = re.findall(r"`((?:aim|cli)/[\w/]+(?:\.py|/))`", text)
    assert [name for name in names if not (PACKAGE / name).exists()] == []
    files = {path.relative_to(PACKAGE).as_posix() for name in names for path in (PACKAGE / name).glob("*.py")}
    return files | {name for name in names if name.endswith(".py")}


def test_the_trace_names_every_file_that_a_prediction_enters():
    entered = files_entered("aim", "predict", "--alpha", "0.5", "--json")
    on_the_way = named_files(section("One call, file by file"))
    elsewhere = named_files(section("Files that other heads and routes enter"))
    assert len(entered) > 20
    assert entered - on_the_way == set()
    assert entered & elsewhere == set()
    # compiled functions leave no trace, and a folder may contain files that this call does not need
    single = {name for name in on_the_way if f"`{name}`" in PAGE}
    assert {name for name in single - entered if not name.startswith("aim/kernels/")} == set()


@pytest.mark.parametrize("clone", ["onehead", "a clone of onehead", "onehead/src/onehead"])
def test_the_trace_works_in_a_clone_of_any_name(clone, tmp_path):
    copy = tmp_path / clone / "src" / "onehead"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    here = files_entered("aim", "predict", "--help")
    there = files_entered("aim", "predict", "--help", cwd=tmp_path, PYTHONPATH=str(copy.parent))
    assert "cli/aim/commands.py" in here
    assert there == here


def test_the_tree_lists_every_module_of_aim():
    table = section("`onehead.aim`, module by module")
    listed = {
        path.relative_to(PACKAGE / "aim").as_posix()
        for name in re.findall(r"`([\w/*]+\.py)`", table)
        for path in (PACKAGE / "aim").glob(name)
    }
    modules = {path.relative_to(PACKAGE / "aim").as_posix() for path in (PACKAGE / "aim").rglob("*.py")}
    assert {name for name in modules if not name.endswith("__init__.py")} == {
        name for name in listed if not name.endswith("__init__.py")
    }
    assert [name for name in re.findall(r"`([\w/]+\.py)`", table) if name not in modules] == []


def test_the_tree_lists_every_part_of_the_package():
    listed = set(re.findall(r"`(\w+(?:\.py|/))`", section("The package")))
    parts = {f"{path.name}/" for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    modules = {path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__")}
    assert listed == parts | modules
