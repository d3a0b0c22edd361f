"""What checks, studies and benchmarks share: places, tables of the documentation, stores and the command line."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

__all__ = ["ASSETS", "QUIET", "ROOT", "append", "collect", "many", "parser", "read", "table", "write"]

ROOT = Path(__file__).parents[1]
ASSETS = ROOT / "docs" / "assets"
CHUNK = 10  # problems handed to a worker at a time
# theory kernels and BLAS use threads of their own; beside other processes they get one
QUIET = {"ONEHEAD_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg", "CI": "true"}


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> str:
    """A table in Markdown; columns in ``right`` hold numbers."""
    numbers = set(right)
    rule = ["---:" if place in numbers else "---" for place in range(len(head))]
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]  # a bar would end the cell
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *cells))


def write(name: str, text: str, *, wanted: bool) -> None:
    """Print a report, and put it into the documentation if that is wanted."""
    print(text)
    if wanted:
        (ASSETS / name).write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def parser(module: str, doc: str | None, write: str) -> argparse.ArgumentParser:
    """The command line of a module, described by the first line of its docstring; ``--write`` makes what ``write``
    names.
    """
    made = argparse.ArgumentParser(prog=f"python -m {module}", description=(doc or "").split("\n\n", 1)[0])
    made.add_argument("--write", action="store_true", help=f"write {write}")
    return made


def many(made: argparse.ArgumentParser, count: int, store: Path) -> None:
    """Add the words of a check of many random problems: how many, which, where they are kept, and how long."""
    made.add_argument("--count", type=int, default=count)
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--store", type=Path, default=store)
    made.add_argument("--workers", type=int, default=1)
    made.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long; the next run goes on")


def read(store: Path) -> Iterator[dict[str, Any]]:
    """Rows of a file of JSON lines; a line torn by a crash is left out."""
    for line in store.read_text(encoding="utf-8").splitlines() if store.exists() else []:
        with suppress(ValueError):
            yield json.loads(line)


def append(store: Path, row: dict[str, Any]) -> None:
    """Add a row to a file of JSON lines; it is on disk when this returns."""
    store.parent.mkdir(parents=True, exist_ok=True)
    with store.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def collect(
    solve: Callable[[int], dict[str, Any]],
    known: dict[str, Any],
    count: int,
    store: Path,
    workers: int,
    seconds: float,
) -> dict[int, dict[str, Any]]:
    """Solve the numbers below ``count`` that the store lacks, until done, interrupted or out of time; return all rows
    by number.

    Rows of the store count that hold what is ``known``: a store may have rows of other seeds.
    """
    rows = {
        row["number"]: row
        for row in read(store)
        if all(row.get(name) == value for name, value in known.items()) and row["number"] < count
    }
    start = last = time.monotonic()
    answers = _answers(solve, [number for number in range(count) if number not in rows], workers)
    with suppress(KeyboardInterrupt), closing(answers):
        for row in answers:
            rows[row["number"]] = row
            append(store, row)
            now = time.monotonic()
            if now - last > 2.0:
                last = now
                print(f"\r{len(rows)} of {count} problems", end="", file=sys.stderr, flush=True)
            if now - start > seconds:
                break
    print(f"\r{len(rows)} of {count} problems", file=sys.stderr)
    return rows


def _answers(
    solve: Callable[[int], dict[str, Any]], missing: list[int], workers: int
) -> Generator[dict[str, Any], None, None]:
    """In this process, or in some others, a few at a time."""
    if workers == 1:
        yield from (solve(number) for number in missing)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(solve, missing, chunksize=CHUNK)
