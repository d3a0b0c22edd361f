"""The package: contents of wheel and sdist, metadata, dependencies, and what works without the extras."""

import email
import json
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import Distribution, requires
from pathlib import Path

import pytest
from checks import smoke
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from tests.support.hostile import checkpoint

import onehead
from onehead import sparse
from onehead.errors import MissingExtra

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDS = [*PROJECT["dependencies"], *(need for extra in PROJECT["optional-dependencies"].values() for need in extra)]
SOURCE = Path(onehead.__file__).parent

in_the_tree = pytest.mark.skipif(
    not (ROOT / "src").exists(), reason="an unpacked sdist whose wheel is tested elsewhere"
)


def build(what, folder):
    """Build offline, with the tools that are installed."""
    pytest.importorskip("hatchling", reason="building needs the dev extra")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", what, "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return next(path for path in folder.iterdir() if path.suffix == (".whl" if what == "wheel" else ".gz"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    with zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel"))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    with tarfile.open(build("sdist", tmp_path_factory.mktemp("sdist"))) as archive:
        files = [member for member in archive.getmembers() if member.isfile()]
        return {m.name.partition("/")[2]: archive.extractfile(m).read() for m in files}


@in_the_tree
def test_the_wheel_contains_only_the_package(wheel):
    info = f"onehead-{onehead.__version__}.dist-info/"
    assert {name.split("/")[0] for name in wheel} == {"onehead", info[:-1]}
    assert "onehead/py.typed" in wheel
    assert f"{info}licenses/LICENSE" in wheel
    ours = {path.relative_to(SOURCE.parent).as_posix() for path in SOURCE.rglob("*.py")}
    assert ours == {name for name in wheel if name.endswith(".py")}
    assets = {
        path.relative_to(SOURCE.parent).as_posix() for path in (SOURCE / "app" / "assets").rglob("*") if path.is_file()
    }
    assert assets and assets <= set(wheel)
    for name in wheel:
        assert not re.search(r"\.(nbi|nbc|pyc|so|db|sqlite|log)$|__pycache__|/tests?/|\.DS_Store", name), name
    assert sum(map(len, wheel.values())) < 5_500_000  # bytes unpacked, most of them the fonts of the formulas


@in_the_tree
def test_no_path_of_this_machine_is_in_the_package(wheel, sdist):
    # paths of the builder, and package indexes
    private = re.compile("|".join(map(re.escape, {str(ROOT), str(Path.home()) + "/", sys.prefix})).encode())
    for name, content in {**wheel, **sdist}.items():
        assert not private.search(content), f"{name}: {private.search(content)}"
        if name.endswith((".toml", ".lock", ".txt", "METADATA")):
            assert b"index-url" not in content and b"find-links" not in content, name


@in_the_tree
def test_metadata(wheel):
    metadata = email.message_from_bytes(wheel[f"onehead-{onehead.__version__}.dist-info/METADATA"])
    assert metadata["Name"] == "onehead"
    assert metadata["Version"] == onehead.__version__
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "Typing :: Typed" in metadata.get_all("Classifier")
    assert set(metadata.get_all("Provides-Extra")) == set(PROJECT["optional-dependencies"])
    needed = [Requirement(text) for text in metadata.get_all("Requires-Dist") if "extra ==" not in text]
    assert sorted(need.name for need in needed) == sorted(Requirement(text).name for text in PROJECT["dependencies"])
    scripts = wheel[f"onehead-{onehead.__version__}.dist-info/entry_points.txt"].decode()
    assert "onehead = onehead.cli.start:run" in scripts


@pytest.mark.parametrize("step", [smoke.predict, smoke.sparse, smoke.spectrum, smoke.weights])
def test_numbers_of_the_smoke_test_are_those_of_this_version(step, tmp_path, monkeypatch, onehead):
    """Otherwise only `make compat` would notice that they have moved."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(smoke, "onehead", lambda *words: onehead(*words).stdout)
    numbers = step()
    assert numbers
    for name, value in numbers.items():  # other linear algebra and other compilers round differently
        assert value == pytest.approx(smoke.NUMBERS[name], rel=smoke.TOLERANCE, abs=0.0)


@in_the_tree
def test_builds_are_reproducible(tmp_path):
    first, second = (
        build("wheel", folder).read_bytes() for folder in (tmp_path / "a", tmp_path / "b") if not folder.mkdir()
    )
    assert first == second


@in_the_tree
def test_the_sdist_contains_what_its_tests_need(sdist):
    root = (
        "pyproject.toml",
        "noxfile.py",
        "Makefile",
        "requirements.lock",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        "SECURITY.md",
    )
    for name in (*root, "src/onehead/py.typed"):
        assert name in sdist, name
    for folder in ("src", "tests", "benchmarks", "checks", "studies", "docs", "examples"):
        assert any(name.startswith(f"{folder}/") for name in sdist), folder
    for name in sdist:
        assert not re.search(r"^(\.venv|\.git|out|site)/|__pycache__|\.nbi$", name), name


# --- versions


def test_dependencies_have_lower_bounds_only_and_nox_installs_each():
    extras = PROJECT["optional-dependencies"]
    asked = [Requirement(text) for text in (*PROJECT["dependencies"], *extras["app"], *extras["cluster"])]
    assert all([part.operator for part in need.specifier] == [">="] for need in asked)
    noxfile = runpy.run_path(str(ROOT / "noxfile.py"))
    lowest = {need.name: need.specifier for need in map(Requirement, noxfile["lower_bounds"]())}
    for need in asked:
        bound = Version(next(iter(need.specifier)).version)
        assert str(lowest[need.name]) == f"=={bound}.*"


def test_every_extra_has_a_dependency():
    assert all(PROJECT["optional-dependencies"].values())


def test_nox_and_metadata_name_the_same_versions_of_python():
    text = (ROOT / "noxfile.py").read_text()
    versions = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert re.search(r"python=\[(.*)\]", text)[1] == ", ".join(f'"{version}"' for version in versions)


def test_the_lock_pins_every_dependency_with_a_hash():
    text = (ROOT / "requirements.lock").read_text()
    lines = [
        line.rstrip(" \\")
        for line in text.splitlines()
        if line.strip() and not line.lstrip().startswith(("--hash=sha256:", "#"))
    ]
    pins = [Requirement(line) for line in lines]
    assert all(re.fullmatch(r"==[\w.+!]+", str(pin.specifier)) and not pin.url for pin in pins)
    for line in lines:  # pip accepts a file only with one of these hashes
        assert re.search(rf"^{re.escape(line)} \\\n +--hash=sha256:[0-9a-f]{{64}}", text, re.MULTILINE), line
    assert "//" not in text  # no addresses
    for minor in range(11, 15):  # one version of each, whichever Python it is
        here = {"python_version": f"3.{minor}", "python_full_version": f"3.{minor}.9"}
        names = [canonicalize_name(pin.name) for pin in pins if pin.marker is None or pin.marker.evaluate(here)]
        assert len(set(names)) == len(names)
        assert {canonicalize_name(Requirement(need).name) for need in NEEDS} <= set(names)
    for need in map(Requirement, NEEDS):
        mine = [pin for pin in pins if canonicalize_name(pin.name) == canonicalize_name(need.name)]
        assert all(next(iter(pin.specifier)).version in need.specifier for pin in mine), need


@in_the_tree
def test_the_lock_of_the_demo_is_part_of_the_lock():
    """It has the same versions and hashes, for the program and its build tools, without the extras."""
    pin = re.compile(r"^(\S+?)==.*\\\n(?:    --hash=.*\n)+", re.MULTILINE)
    part, everything = ((ROOT / name).read_text() for name in ("requirements-demo.lock", "requirements.lock"))
    assert "".join(match[0] for match in pin.finditer(part)) == part
    assert {match[0] for match in pin.finditer(part)} < {match[0] for match in pin.finditer(everything)}
    names = {canonicalize_name(match[1]) for match in pin.finditer(part)}
    assert {
        canonicalize_name(Requirement(need).name) for need in (*PROJECT["dependencies"], "hatchling", "editables")
    } <= names
    for name in names:  # and what these need in turn
        known = [Requirement(own) for own in requires(name) or ()] if is_installed(name) else []
        here = [own for own in known if own.marker is None or own.marker.evaluate({"extra": ""})]
        assert {canonicalize_name(own.name) for own in here} <= names, name
    assert not names & {"dash", "plotly", "dask", "pyarrow", "pytest", "mypy", "ruff", "mkdocs"}


def is_installed(name):
    return bool(list(Distribution.discover(name=name)))


@in_the_tree
def test_setup_installs_nothing_without_a_hash(tmp_path):
    lines = [
        line for line in (ROOT / "Makefile").read_text().split("\nsetup:")[1].splitlines() if "pip install" in line
    ]
    assert "--require-hashes -r requirements-demo.lock" in lines[0]
    assert "--no-deps --no-build-isolation --editable ." in lines[1]
    assert "--require-hashes -r requirements.lock" in lines[2]
    package = tmp_path / "tampered-1.0.tar.gz"
    package.write_bytes(b"not what was locked")
    (tmp_path / "lock").write_text(f"tampered==1.0 --hash=sha256:{'0' * 64}\n")
    words = ["install", "--no-index", "--find-links", str(tmp_path), "--require-hashes", "-r", str(tmp_path / "lock")]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "DO NOT MATCH THE HASHES" in done.stderr


# --- without the extras

BLOCKED = (
    "plotly",
    "pandas",
    "flask",
    "werkzeug",
    "waitress",
    "distributed",
    "dask",
    "dask_jobqueue",
    "pyarrow",
    "safetensors",
)
SCRIPT = """
import contextlib, io, json, sys
blocked, commands = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for name in blocked:
    sys.modules[name] = None  # as if it were not installed
from onehead.cli.main import run
answers = []
for words in commands:
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            run(words)
    except SystemExit as end:
        answers.append([end.code, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""


def without_extras(folder, *commands):
    """Exit code, standard output and standard error of commands in a process without extras; warnings are errors."""
    words = [sys.executable, "-W", "error", "-c", SCRIPT, json.dumps(BLOCKED), json.dumps(commands)]
    run = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-800:]
    return json.loads(run.stdout.splitlines()[-1])


def test_a_missing_extra_gets_one_line(tmp_path):
    (tmp_path / "s.toml").write_text('call = "sparse.align"\n[grid]\nalpha0 = [1.0]\n')
    start = ["sweep", "run", "s.toml", "--store", "s.db"]
    asked = {
        "app": [["app", "--port", "0"]],
        "cluster": [
            [*start[:3], "--store", "x.db", "--on", "dask", "--address", "tcp://127.0.0.1:9"],
            [*start[:3], "--store", "x.db", "--on", "slurm", "--dry-run"],
            ["sweep", "export", "--store", "s.db", "--parquet", "s.parquet"],
        ],
    }
    commands = [(extra, words) for extra, some in asked.items() for words in some]
    first, *answers = without_extras(tmp_path, start, *(words for _, words in commands))
    assert first[0] == 0
    for (extra, words), (code, out, err) in zip(commands, answers, strict=True):
        lines = err.splitlines()
        assert code == 2, (words, err)
        assert out == ""
        assert len(lines) == 1, (words, err)
        assert lines[0].endswith(f"pip install 'onehead[{extra}]'.")
    assert not (tmp_path / "s.parquet").exists()


def test_a_missing_pandas_gets_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)  # as if it were not installed
    point = sparse.predict(sparse.Task(), sparse.Protocol())
    for frame in (
        point.to_frame,
        point.to_series,
        sparse.curve(sparse.Task(), sparse.Protocol(), alphas=[1.0, 2.0]).to_frame,
    ):
        with pytest.raises(MissingExtra, match=r"^pandas is not installed; run: pip install 'onehead\[tables\]'\.$"):
            frame()


def test_other_commands_need_no_extra_and_give_no_warning(tmp_path):
    checkpoint(tmp_path / "model.safetensors", size=32)
    commands = [
        ["--version"],
        ["aim", "predict", "--alpha", "0.5", "--json"],
        ["sparse", "predict", "--alpha", "2", "--json"],
        ["aim", "spectrum", "--alpha", "4", "--plot", "s.png"],
        ["weights", "model.safetensors", "--heads", "2", "--no-fit", "--json"],
        ["figures", "list"],
    ]
    for (code, out, err), words in zip(without_extras(tmp_path, *commands), commands, strict=True):
        assert code == 0, (words, err)
        assert "Warning" not in err
        if "--json" in words:
            json.loads(out)
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


def test_the_makefile_installs_nothing_without_a_hash():
    lines = [line for line in (ROOT / "Makefile").read_text().splitlines() if "pip install" in line]
    own = "--no-deps --no-build-isolation --editable ."
    assert len(lines) >= 3
    assert [line for line in lines if "--require-hashes" not in line and own not in line] == []
