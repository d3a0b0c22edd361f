"""Other interpreters and other versions of the dependencies: ``python -m checks.compat [--python PATH ...]``.

For an interpreter and a choice of versions: wheel and sdist are built, the wheel is installed without extras into an empty
environment and smoke-tested with warnings as errors, the sdist likewise, and with ``--tests quick`` the fast tests or with
``--tests whole`` all tests run against the installed wheel; those of the browser and of SLURM skip themselves where there is none.
Results are kept in ``compat.json`` beside this file; ``--write`` puts them into the documentation.
Needs the standard library only, so that it runs under any interpreter.
"""

import hashlib
import json
import platform
import re
import shutil
import sys
import tarfile
import tempfile
import time
import tomllib
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from checks.tool import QUIET, ROOT, child, parser, table, write

RESULTS = Path(__file__).with_name("compat.json")
SMOKE = Path(__file__).with_name("smoke.py")
CHOICES = ("lowest", "locked", "newest")
EXTRAS = (
    "tables",
    "app",
    "cluster",
    "weights",
)  # what a user can ask for; the tools of development are always the newest
SUITES = {"smoke": None, "quick": ("-m", "not slow"), "whole": ()}  # what pytest is told, if it is asked at all
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
SHOWN = ("onehead", "numpy", "scipy", "numba", "pandas", "matplotlib")


class Failed(Exception):
    """A step without which the rest cannot be tried."""


def run(*words: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """What a command prints; raises with the line of pip that says why if it fails, or the last."""
    alone = {"PYTHONPATH": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = child(words, cwd=cwd, **alone, **environment)
    if done.code:
        lines = [line for line in (done.err.strip() or done.out.strip()).splitlines() if line.strip()]
        told = [line for line in lines if line.startswith("ERROR:")]
        raise Failed([*told[:1], *lines[-1:], "no output"][0][:300])
    return done.out


def environment(python: Path, folder: Path) -> Path:
    """An empty virtual environment; its interpreter."""
    run(python, "-m", "venv", folder)
    return folder / "bin" / "python"


def build(python: Path, work: Path) -> tuple[Path, Path]:
    """Wheel and sdist, built the way a release is."""
    builder = environment(python, work / "builder")
    run(builder, "-m", "pip", "install", "--quiet", "build")
    run(builder, "-m", "build", "--outdir", work / "dist", ROOT)
    return next((work / "dist").glob("*.whl")), next((work / "dist").glob("*.tar.gz"))


def lowest() -> list[str]:
    """The lower bounds of the project, each as an exact minor version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(d for extra in EXTRAS for d in project["optional-dependencies"][extra])]
    return [re.sub(r"^([\w.-]+)>=([\w.]+).*$", r"\1==\2.*", text) for text in asked]


def constraints(choice: str, work: Path) -> list[str]:
    """The arguments of pip that hold the versions."""
    if choice == "newest":
        return ["--upgrade"]
    file = work / "constraints.txt"
    text = (ROOT / "requirements.lock").read_text() if choice == "locked" else "\n".join(lowest())
    # a constraint may carry no hashes
    file.write_text(
        "\n".join(re.findall(r"^[A-Za-z0-9][\w.-]*==[\w.*+!-]+(?: ; [^\\\n]+)?", text, re.MULTILINE)) + "\n"
    )
    return ["--constraint", str(file)]


def size(folder: Path) -> int:
    """Bytes of everything under a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def packages(python: Path) -> Path:
    """The folder into which packages are installed."""
    return Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def versions(python: Path) -> dict[str, str]:
    """Name and version of everything installed, without the installer."""
    listed = json.loads(run(python, "-m", "pip", "list", "--format", "json"))
    return {item["name"].lower(): item["version"] for item in listed if item["name"] not in ("pip", "setuptools")}


def smoke(python: Path, work: Path, *steps: str) -> dict[str, Any]:
    """Steps and numbers of the smoke test."""
    told = run(python, SMOKE, *steps, cwd=work, ONEHEAD_THREADS="1", OPENBLAS_NUM_THREADS="1")
    found: dict[str, Any] = json.loads(told)
    return found


def source() -> str:
    """What was tested, as a digest: the package, its tests, and what the project asks for."""
    files = [ROOT / "pyproject.toml", *sorted((ROOT / "src").rglob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def suite(
    python: Path, which: str, wheel: Path, sdist: Path, pins: list[str], minutes: float, work: Path
) -> dict[str, Any]:
    """The tests of the sdist against the installed wheel; where time runs out, what was seen until then."""
    run(python, "-m", "pip", "install", "--quiet", *pins, f"{wheel}[{','.join((*EXTRAS, 'dev'))}]")
    with tarfile.open(sdist) as archive:
        archive.extractall(work / "sdist", filter="data")
    folder = next((work / "sdist").iterdir())
    shutil.rmtree(folder / "src")  # what is tested is what was installed
    start = time.monotonic()
    words = ("-m", "pytest", "-v", "-n", "2", "--dist", "worksteal", "-p", "no:cacheprovider", "--tb=short")
    done = child([python, *words, *(SUITES[which] or ())], seconds=60 * minutes, cwd=folder, PYTHONPATH="", **QUIET)
    (work / "pytest.txt").write_text(done.out + done.err)
    return {"which": which, **outcome(done.out, done.code), "seconds": round(time.monotonic() - start)}


def outcome(out: str, code: int | None) -> dict[str, Any]:
    """Counts and names from the lines of two workers, one per test; and why there are no more, if they did not end by themselves."""
    lines = re.findall(r"^\[gw\d+\] \[ *\d+%\] (PASSED|FAILED|SKIPPED|ERROR) (.*?) *$", out, re.MULTILINE)
    counts = Counter(word.lower() for word, _ in lines)
    ended = {} if code in {0, 1} else {"stopped": "out of time" if code is None else f"exit code {code}"}
    return {**counts, **ended, "not passed": [name for word, name in lines if word in {"FAILED", "ERROR"}][:40]}


def interpreter(python: str | Path) -> list[str]:
    """Version and machine of an interpreter."""
    return run(python, "-c", "import platform; print(platform.python_version(), platform.machine())").split()


def interpreters() -> list[str]:
    """Every supported interpreter on the path that can be run: a shim of a version that is not installed cannot."""
    found = []
    for path in filter(None, (shutil.which(f"python{minor}") for minor in SUPPORTED)):
        with suppress(Failed):
            interpreter(path)
            found.append(path)
    return found


def attempt(python: Path, choice: str, tests: str, minutes: float, work: Path) -> dict[str, Any]:
    """Everything for one interpreter and one choice of versions."""
    told = interpreter(python)
    row: dict[str, Any] = {"python": told[0], "machine": told[1], "system": platform.system(), "choice": choice}
    row["source"] = source()
    try:
        wheel, sdist = build(python, work)
        row["wheel_kb"], row["sdist_kb"] = (round(path.stat().st_size / 1024) for path in (wheel, sdist))
        pins = constraints(choice, work)
        fresh = environment(python, work / "wheel")
        before, start = size(packages(fresh)), time.monotonic()
        run(fresh, "-m", "pip", "install", "--quiet", "--no-cache-dir", *pins, wheel)
        row["install_seconds"] = round(time.monotonic() - start, 1)
        row["installed_mb"] = round((size(packages(fresh)) - before) / 2**20, 1)
        row["own_mb"] = round(size(packages(fresh) / "onehead") / 2**20, 2)
        row["versions"] = versions(fresh)
        row["wheel"] = smoke(fresh, work)
        other = environment(python, work / "source")
        run(other, "-m", "pip", "install", "--quiet", *pins, sdist)
        row["sdist"] = smoke(other, work, "version", "predict", "weights")  # the same files as in the wheel
        if SUITES[tests] is not None:
            row["tests"] = suite(fresh, tests, wheel, sdist, pins, minutes, work)
            shutil.copy(work / "pytest.txt", Path(tempfile.gettempdir()) / f"compat-{told[0]}-{choice}.txt")
    except Failed as failure:
        row["failed"] = re.sub(r"\S*/\S+", "...", str(failure))  # a path says nothing elsewhere
    return row


def stored() -> list[dict[str, Any]]:
    """All rows that were kept."""
    rows: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    return rows


def place(row: dict[str, Any]) -> tuple[list[int], int]:
    """Where a row belongs: one for each minor version of Python and each choice."""
    return [int(part) for part in row["python"].split(".")[:2]], CHOICES.index(row["choice"])


def passed(python: str, choice: str, tests: str) -> bool:
    """Whether these tests, or more, passed in this environment with the source as it is now."""
    wanted = place({"python": interpreter(python)[0], "choice": choice})
    row = next((row for row in stored() if place(row) == wanted), {})
    if row.get("source") != source() or "failed" in row:
        return False
    found = row.get("tests", {"which": "smoke", "not passed": []})
    order = list(SUITES)
    return order.index(found["which"]) >= order.index(tests) and not found["not passed"] and "stopped" not in found


def keep(row: dict[str, Any]) -> None:
    """Store a row in place of an older one of the same interpreter and choice, in order."""
    rows = stored()
    older: dict[str, Any] = next((item for item in rows if place(item) == place(row)), {})
    same = all(older.get(name) == row.get(name) for name in ("source", "versions"))
    if "tests" not in row and same and "tests" in older:
        row = {**row, "tests": older["tests"]}  # a smoke test does not take back what the tests said
    rows = sorted([*(item for item in rows if place(item) != place(row)), row], key=place)
    RESULTS.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")


def _told(found: dict[str, Any] | None) -> str:
    """How a smoke test ended."""
    if found is None:
        return "not tried"
    bad = [name for name, said in found["steps"].items() if said != "ok"]
    return f"{len(found['steps'])} of {len(found['steps'])}" if not bad else f"**fails: {', '.join(bad)}**"


def _tests(found: dict[str, Any] | None) -> str:
    """Which tests ran, and how they ended."""
    if found is None:
        return "not run"
    bad = found.get("failed", 0) + found.get("error", 0)
    text = f"{found['which']}: {found.get('passed', 0)} passed" + (f", **{bad} failed**" if bad else "")
    text += f", {found['skipped']} skipped" if found.get("skipped") else ""
    text += f", **{found['stopped']}**" if "stopped" in found else ""
    return f"{text}, {found['seconds'] / 60:.0f} min"


def report(rows: list[dict[str, Any]]) -> str:
    """The table of the documentation, and how far the numbers of the environments are apart."""
    head = ["Python", "versions", *SHOWN, "wheel", "sdist", "tests", "install", "on disk"]
    parts = [table(head, [_cells(row) for row in rows])]
    last = next((row for row in reversed(rows) if "own_mb" in row), None)
    if last is not None:
        parts.append(
            f"The wheel has {last['wheel_kb']} kB, the sdist {last['sdist_kb']} kB; installed, onehead itself takes "
            f"{last['own_mb']:.1f} MB and the rest is its dependencies. The time is that of `pip install` without a cache."
        )
    numbers = [row["wheel"]["numbers"] for row in rows if "wheel" in row]
    if len(numbers) > 1:
        parts.append(f"Largest relative difference of any number between these environments: {_spread(numbers):.1e}.")
    return "\n\n".join(parts)


def _cells(row: dict[str, Any]) -> list[str]:
    """One environment in the table."""
    first = [row["python"], row["choice"]]
    if "failed" in row and "versions" not in row:
        return [*first, *[""] * len(SHOWN), f"**{row['failed']}**", "", "", "", ""]
    told = [_told(row.get("wheel")), _told(row.get("sdist")), _tests(row.get("tests"))]
    size = [f"{row['install_seconds']:.0f} s", f"{row['installed_mb']:.0f} MB"]
    return [*first, *(row["versions"].get(name, "") for name in SHOWN), *told, *size]


def _spread(numbers: list[dict[str, float]]) -> float:
    """Largest relative difference between environments, over the numbers that all of them have."""
    shared = set.intersection(*(set(found) for found in numbers))
    columns = ([found[name] for found in numbers] for name in shared)
    return max((max(column) - min(column)) / max(map(abs, column)) for column in columns)


def one(path: str, choice: str, tests: str, minutes: float) -> None:
    """Try one environment, store what came of it, and say what did not pass."""
    with tempfile.TemporaryDirectory(prefix="onehead-compat-") as work:
        row = attempt(Path(path), choice, tests, minutes, Path(work))
    keep(row)
    for where in ("wheel", "sdist"):
        for step, said in row.get(where, {}).get("steps", {}).items():
            if said != "ok":
                print(f"{where}, {step}: {said}", file=sys.stderr)
    for name in row.get("tests", {}).get("not passed", []):
        print(f"not passed: {name}", file=sys.stderr)


def main() -> None:
    """Try what was asked for, print the table, and store it."""
    words = parser("checks.compat", __doc__, "docs/assets/compat.md")
    words.add_argument("--python", action="append", metavar="PATH", help="interpreter; may be repeated [this one]")
    choice = words.add_mutually_exclusive_group()
    for name in CHOICES:
        choice.add_argument(f"--{name}", action="store_const", const=name, dest="choice")
    words.add_argument("--every", action="store_true", help="this one too, and every supported one on the path")
    words.add_argument("--resume", action="store_true", help="leave out what passed with the source as it is")
    words.add_argument("--tests", choices=tuple(SUITES), default="smoke")
    words.add_argument("--minutes", type=float, default=60.0, metavar="M", help="the tests may take [60]")
    words.add_argument("--report", action="store_true", help="only print the stored results")
    asked = words.parse_args()
    if not asked.report:
        named = asked.python or [sys.executable]
        if asked.every:
            named = [*(asked.python or []), sys.executable, *interpreters()]
        # one for each row, and one that was named rather than one that was found
        for path in {interpreter(path)[0].rpartition(".")[0]: path for path in reversed(named)}.values():
            if not (asked.resume and passed(path, asked.choice or "newest", asked.tests)):
                one(path, asked.choice or "newest", asked.tests, asked.minutes)
    write("compat.md", report(stored()), wanted=asked.write)


if __name__ == "__main__":
    main()
