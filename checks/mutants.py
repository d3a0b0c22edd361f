"""Mutants of the theory core: small wrong changes, and whether the tests see them.

    python -m checks.mutants --count 160            # a sample, resumable; Ctrl-C loses nothing
    python -m checks.mutants --again                # those that survived or ran too long, after tests were added
    python -m checks.mutants --write                # the report of what is stored, to docs/assets/mutants.md

A sample is the ``count`` mutants with the smallest hash of (seed, mutant): random, the same on every machine, and an edit
of one function exchanges only its own. `checks.mutations` says which changes are made and which are not. Each mutant is put
into a private copy of the tree and meets the tests that reach its function, cheapest first, up to a limit of their usual
time, slow tests left out; tests stop at the first failure. Property tests are derandomised.

A mutant is *killed* by a failing test, *broken* when the package cannot be imported or crashes, and a *timeout* when a
test takes three times its usual time and some grace; else it *survived*. numba looks only at the file of a kernel itself,
so the caches of a mutated file and of every compiled file that imports from it are dropped. Mutants of compiled files first
meet the tests that are quick without compilation.
"""

import argparse
import ast
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

from checks.mutants_explained import EXPLAINED
from checks.mutations import Mutant, apply, is_python, mutants_of
from checks.reach import Reach, measure, run_tests
from checks.tool import ROOT, append, parser, read, table, write

__all__ = ["main"]

# the equations and their solvers; samplers, training runs, sketches, interruptions and thread pools are checked elsewhere
THEORY = ("aim", "sparse", "spectra", "numerics")
LEFT_OUT = {"__init__", "training", "samplers", "train", "compare", "fit", "joint", "sketch", "interrupts", "parallel"}
TESTS = ("numerics", "spectra", "aim", "sparse", "cli", "house/test_documents.py")
FOLDERS = ("src", "tests", "checks", "docs", "examples", "benchmarks", "studies")
COPIED = (*FOLDERS, "README.md", "CHANGELOG.md", "pyproject.toml")
LEFT = shutil.ignore_patterns("__pycache__", "*.png", ".hypothesis")
LIMIT = 45.0  # seconds of usual time of the tests a mutant meets; half of that without compilation
# tests that are quick enough without compilation, for mutants of compiled files
PLAIN = ("numerics", "spectra", "aim/equations", "aim/test_losses.py", "sparse/test_kernels.py")


def sample(root: Path, count: int, seed: int) -> list[Mutant]:
    """The mutants of the sample, in an order that is random too: any beginning of it is a sample."""

    def place(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()

    everything = sorted(population(root), key=place)
    return list(islice((mutant for mutant in everything if is_python(mutant, root / "src/onehead")), count))


def population(root: Path) -> list[Mutant]:
    """All mutants of the theory core of a tree."""
    source = root / "src/onehead"
    files = [path for room in THEORY for path in sorted((source / room).rglob("*.py"))]
    names = [path.relative_to(source) for path in files]
    core = [str(name) for name in names if not LEFT_OUT & {*name.parts, name.stem}]
    return [mutant for name in core for mutant in mutants_of(source / name, name)]


class Tree:
    """A private copy of the project, kept between runs for the sake of its compiled kernels."""

    def __init__(self) -> None:
        mark = hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]
        self.path = Path(tempfile.gettempdir()) / f"onehead-mutants-{mark}"
        old = {path: path.read_bytes() for path in (self.path / "src/onehead").rglob("*.py")}
        for name in COPIED:
            for path in (self.path / name).rglob("*.py"):
                if not (ROOT / path.relative_to(self.path)).exists():  # it was moved or deleted since
                    path.unlink()
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, self.path / name, ignore=LEFT, dirs_exist_ok=True)
            elif (ROOT / name).exists():
                shutil.copy2(ROOT / name, self.path / name)
        for path, text in old.items():
            if path.exists() and path.read_bytes() != text:
                for kernel in self.kernels(self.compiled_users(str(path.relative_to(self.path / "src/onehead")))):
                    kernel.unlink()

    @staticmethod
    def kernels(paths: list[Path]) -> list[Path]:
        """The cached kernels of source files."""
        return [kernel for path in paths for kernel in (path.parent / "__pycache__").glob(f"{path.stem}.*.nb[ic]")]

    def test_files(self, names: tuple[str, ...]) -> list[str]:
        """Test files in these folders of the tests."""
        places = [self.path / "tests" / name for name in names]
        found = [file for place in places for file in (sorted(place.rglob("test_*.py")) if place.is_dir() else [place])]
        return [str(file.relative_to(self.path)) for file in found if file.exists()]

    def compiled_users(self, name: str) -> list[Path]:
        """Compiled files whose kernels may hold something of a file: itself, and those that import from such a file."""
        sources = {path: path.read_text() for path in (self.path / "src/onehead").rglob("*.py")}
        compiled = {path for path, text in sources.items() if re.search(r"\bnjit\b|compile_row|compile_pair", text)}
        stale = {self.path / "src/onehead" / name}
        while True:
            modules = {".".join(path.relative_to(self.path / "src").with_suffix("").parts) for path in stale}
            more = {path for path in compiled - stale if modules & set(_imported(sources[path]))}
            if not more:
                return sorted(stale & compiled)
            stale |= more


def _imported(text: str) -> list[str]:
    """Modules a file imports, or imports from."""
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom) and node.module]
    return [name for node in found for name in (node.module or "", *(f"{node.module}.{a.name}" for a in node.names))]


def meet(mutant: Mutant, tree: Tree, reach: Reach, plain: Reach, limit: float) -> dict[str, Any]:
    """Put a mutant into the tree, run its tests, and take it out again."""
    began = time.monotonic()
    tests, first = reach.of(mutant.path, mutant.function, limit), plain.of(mutant.path, mutant.function, 0.5 * limit)
    row = {"key": mutant.key, "path": mutant.path, "line": mutant.line, "change": str(mutant), "tests": len(tests)}
    if not tests:
        return {**row, "verdict": "survived", "by": "", "seconds": 0.0}
    target = tree.path / "src/onehead" / mutant.path
    original, times = target.read_bytes(), target.stat()
    stale = tree.compiled_users(mutant.path)
    aside = Path(tempfile.mkdtemp(prefix="kernels-", dir=tree.path))
    kernels = tree.kernels(stale)
    try:
        for kernel in kernels:
            shutil.move(kernel, aside / kernel.name)
        target.write_bytes(apply(mutant, original))
        verdict, by = run_tests(plain, first, compiling=False) if stale and first else ("survived", "")
        if verdict == "survived":
            verdict, by = run_tests(reach, tests, compiling=bool(stale))
    finally:
        target.write_bytes(original)
        os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))  # so that its kernels are still good
        for kernel in tree.kernels(stale):
            kernel.unlink()
        for kernel in kernels:
            shutil.move(aside / kernel.name, kernel)
        aside.rmdir()
    return {**row, "verdict": verdict, "by": by, "seconds": round(time.monotonic() - began, 1)}


def verdicts_of(store: Path) -> dict[str, str]:
    """Stored verdicts by key, the last one counting."""
    return {row["key"]: row["verdict"] for row in read(store)}


def report(chosen: list[Mutant], verdicts: dict[str, str], size: int, seed: int) -> str:
    """The report in Markdown: score, one row per module, and every survivor."""
    done = [mutant for mutant in chosen if mutant.key in verdicts]
    count = Counter(verdicts[mutant.key] for mutant in done)
    survivors = [mutant for mutant in done if verdicts[mutant.key] == "survived"]
    explained = sum(mutant.key in EXPLAINED for mutant in survivors)
    caught = len(done) - len(survivors)
    open_ones = f"; {len(survivors) - explained} are not explained." if explained < len(survivors) else "."
    met, left = Counter(mutant.path for mutant in done), Counter(mutant.path for mutant in survivors)
    modules = [
        [f"`{path}`", f"{met[path]}", f"{met[path] - left[path]}", f"{left[path] or ''}"] for path in sorted(met)
    ]
    parts = [
        f"{len(done)} mutants, drawn at random (seed {seed}) from the {size:,} of the theory core: "
        f"**{caught} caught, {100.0 * caught / max(len(done), 1):.1f} %** "
        f"({count['killed']} by a failing test, {count['broken']} by an error on import, "
        f"{count['timeout']} by running too long). Of the {len(survivors)} that survived, {explained} change no "
        f"result that is promised, and say why below{open_ones}",
        table(["module", "mutants", "caught", "survived"], modules, right=(1, 2, 3)),
    ]
    if survivors:
        rows = []
        for mutant in sorted(survivors, key=lambda mutant: (mutant.path, mutant.line)):
            place, change = str(mutant).split(" ", 1)
            rows.append([f"`{place}`", f"`{change}`", EXPLAINED.get(mutant.key, "not explained")])
        parts.append(table(["survivor", "change", "why"], rows))
    return "\n\n".join(parts)


def main(arguments: list[str] | None = None) -> int:
    """Run the sample, or what is missing of it, and print the report."""
    words = parser("checks.mutants", __doc__, "docs/assets/mutants.md; runs nothing")
    words.add_argument("--count", type=int, default=160)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--store", type=Path, default=ROOT / "out/mutants/verdicts.jsonl")
    words.add_argument("--again", action="store_true", help="run those again that survived or ran too long")
    words.add_argument("--limit", type=float, default=LIMIT, help="seconds of tests per mutant; a small one is quick")
    words.add_argument("--minutes", type=float, default=float("inf"), help="stop after this long; run again to go on")
    given = words.parse_args(arguments)
    if not given.write:
        _run(given)
    chosen, verdicts = sample(ROOT, given.count, given.seed), verdicts_of(given.store)
    write("mutants.md", report(chosen, verdicts, len(population(ROOT)), given.seed), wanted=given.write)
    return 0 if all(mutant.key in verdicts for mutant in chosen) else 1


def _run(given: argparse.Namespace) -> None:
    """Meet the tests with each mutant that needs it; every verdict is stored at once."""
    end, known, tree = time.monotonic() + 60.0 * given.minutes, verdicts_of(given.store), Tree()
    chosen = sample(tree.path, given.count, given.seed)
    wanted = [mutant for mutant in chosen if mutant.key not in known]
    if given.again:
        open_ones = [mutant for mutant in chosen if known.get(mutant.key) in {"survived", "timeout"}]
        wanted += [mutant for mutant in open_ones if mutant.key not in EXPLAINED]
    if not wanted:
        return
    folder = given.store.parent
    reach = measure(tree.path, tree.test_files(TESTS), folder / "reach.json")
    plain = measure(tree.path, tree.test_files(PLAIN), folder / "reach-plain.json", compiled=False)
    verdicts: Counter[str] = Counter()
    for place, mutant in enumerate(wanted):
        if time.monotonic() > end:
            return
        try:
            row = meet(mutant, tree, reach, plain, given.limit)
        except KeyboardInterrupt:
            print("stopped; run again to go on", file=sys.stderr)
            return
        append(given.store, row)
        verdicts[row["verdict"]] += 1
        counts = ", ".join(f"{count} {word}" for word, count in verdicts.items())
        told = f"{place + 1}/{len(wanted)} {row['verdict']} {row['seconds']:.0f} s  {mutant}  [{counts}]"
        print(told, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
