"""A random sample of the mutants of cosmic-ray, and a report of what happened to them. Called by ``nox -s mutants``.

Needs cosmic-ray and the standard library only. cosmic-ray has no sampling of its own, and its report does not know the
reasons in ``survivors.toml``. mutmut cannot be used: its switches between variants of a function cannot be compiled.
"""

import argparse
import random
import tomllib
from collections import Counter
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import WorkerOutcome, WorkResult

ROOT = Path(__file__).parents[1]
REASONS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("survivors.toml").read_text("utf-8"))
# mutations that say nothing about a theory: decorators compile and cache, and these operators are not among its own
LEFT_OUT = (
    "RemoveDecorator",
    "ExceptionReplacer",
    "_BitAnd",
    "_BitOr",
    "_BitXor",
    "_LShift",
    "_RShift",
    "_Mod",
    "_Invert",
)


def sample(database: WorkDB, count: int, seed: int) -> None:
    """Mark all mutants but a few as skipped; each place in the source is as likely as any other, whatever can be done
    to it.
    """
    items = sorted(
        database.work_items, key=lambda item: (str(item.mutations[0].module_path), item.mutations[0].start_pos)
    )
    usable = [item for item in items if not any(name in item.mutations[0].operator_name for name in LEFT_OUT)]
    random.Random(seed).shuffle(usable)
    places = {(item.mutations[0].module_path, item.mutations[0].start_pos): item for item in usable}
    chosen = {item.job_id for item in list(places.values())[:count]}
    skipped = [item.job_id for item in items if item.job_id not in chosen]
    database.set_multiple_results(skipped, WorkResult(worker_outcome=WorkerOutcome.SKIPPED))


def report(databases: list[WorkDB]) -> str:
    """Markdown: how many were noticed in each file, and every survivor with the reason given for its function."""
    done, survivors = Counter[str](), list[tuple[str, int, str, str]]()
    for database in databases:
        results = {
            job: result for job, result in database.results if result.worker_outcome is not WorkerOutcome.SKIPPED
        }
        for item in database.work_items:
            if item.job_id in results:
                change = item.mutations[0]
                path = str(change.module_path).partition("onehead/")[2]
                done[path] += 1
                if not results[item.job_id].is_killed:
                    name = change.operator_name.rpartition("/")[2]
                    survivors.append((path, change.start_pos[0], change.definition_name or "", name))
    left = Counter(path for path, *_ in survivors)
    noticed = done.total() - left.total()
    lines = [f"{done.total()} mutants: **{noticed} noticed, {100.0 * noticed / max(done.total(), 1):.1f} %**.", ""]
    lines += ["| file | mutants | survived |", "| --- | ---: | ---: |"]
    lines += [f"| `{path}` | {done[path]} | {left[path] or ''} |" for path in sorted(done)]
    lines += ["", "| survivor | change | reasons known for this function |", "| --- | --- | --- |"]
    for path, line, function, name in sorted(survivors):
        reason = REASONS.get(path, {}).get(function.rpartition(".")[2], "")
        lines.append(f"| `{path}:{line}` {function} | {name} | {reason} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Sample the mutants of one session, or report on all of them."""
    parser = argparse.ArgumentParser(description="Sample or report mutants of cosmic-ray sessions.")
    parser.add_argument("action", choices=("sample", "report"))
    parser.add_argument("sessions", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=25, help="mutants of each session [25]")
    parser.add_argument("--seed", type=int, default=24)
    given = parser.parse_args()
    if given.action == "sample":
        for path in given.sessions:
            with use_db(path, WorkDB.Mode.open) as database:
                sample(database, given.count, given.seed)
        return
    databases = [WorkDB(path, WorkDB.Mode.open) for path in given.sessions]
    text = report(databases)
    print(text)
    (ROOT / "docs/assets/mutants.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
