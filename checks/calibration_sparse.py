"""Are the stated errors of the sparse half honest? Random problems against finer rules with other points.

    python -m checks.calibration_sparse [--count 300] [--seed 0] [--store FILE]

`rows` gives, for one problem of `checks.soak_problems`, every number that has a stated error, with its region, that error and its
distance from a rule of 16 times as many points. Errors are honest when fewer than one distance in a hundred exceeds three of them,
and useful when the one in the middle is not far below one.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from checks.soak_problems import Problem, draw
from checks.tool import append, parser, read
from onehead import sparse
from onehead.errors import SolveError
from onehead.sparse.equations import features as sampling
from onehead.sparse.equations import oracle as oracles

__all__ = ["Row", "problems", "report", "rows"]

STORE = Path("out") / "calibration_sparse.jsonl"
VERBS = ("sparse.predict", "sparse.capacity", "sparse.oracle")
LOUD = 3.0  # stated errors
FINER = 16  # times more points of the truth
OTHER = 10_000  # added to its seeds
LARGEST = 2**26  # normal numbers of the truth
WORKING = {name: import_module(f"onehead.sparse.verbs.{name}") for name in ("predict", "capacity", "oracle")}


class Row(NamedTuple):
    """One number of one problem: its error as stated, how far off it is, and its size."""

    region: str
    number: str
    stated: float
    deviation: float
    value: float


def rows(problem: Problem, accuracy: float = 2e-4) -> list[Row]:
    """Every number of a problem with a stated error, beside a finer rule; none where there is no answer or it would take minutes."""
    used: list[int] = []
    try:
        with _watched(used):
            found = _answer(problem, accuracy, seed=0)
        level = max(used, default=0) + int(np.log2(FINER))
        if (problem.task["length"] + 1) << level > LARGEST:
            return []
        with _finer(level):
            truth = _answer(problem, accuracy, seed=OTHER)
    except SolveError:
        return []
    region = " ".join([problem.verb.removeprefix("sparse."), problem.regions["model"], problem.regions["loss"]])
    return [
        Row(region.rstrip("– "), name, error, abs(value - known), abs(value))
        for name, error in found.errors.items()
        if np.isfinite([value := getattr(found, name), known := getattr(truth, name)]).all()
    ]


def _answer(problem: Problem, accuracy: float, seed: int) -> Any:
    task, plan = sparse.Task(**problem.task), sparse.Protocol(**problem.learner)
    if problem.verb == "sparse.oracle":
        return sparse.oracle(task, seed=seed)
    if problem.verb == "sparse.capacity":
        return sparse.capacity(task, plan)
    return sparse.predict(task, plan, model=problem.options["model"], accuracy=accuracy)


@contextmanager
def _watched(used: list[int]) -> Iterator[None]:
    """Write down how many points (log2) are drawn."""

    def counted(*args: Any, log2_points: int, **words: Any) -> Any:
        used.append(log2_points)
        return sampling.attention_features(*args, log2_points=log2_points, **words)

    with ExitStack() as stack:
        for name in ("predict", "capacity"):
            stack.enter_context(mock.patch.object(WORKING[name], "attention_features", counted))
        yield


@contextmanager
def _finer(level: int) -> Iterator[None]:
    """Other points and more of them, a finer grid of the Gaussian, more Monte Carlo samples."""
    grid = np.linspace(-9.0, 9.0, FINER * 2000 + 4)
    changes = [
        (sampling, "MOST", 60),
        (WORKING["predict"], "FIRST", level),
        (WORKING["predict"], "FINEST", level),
        (WORKING["predict"], "COARSE", 0),
        (WORKING["predict"], "SCRAMBLING", OTHER),
        (WORKING["predict"], "with_gauss", partial(sampling.with_gauss, grid=grid)),
        (WORKING["capacity"], "LEVELS", (level,)),
        (WORKING["capacity"], "SCRAMBLING", OTHER),
        (oracles, "INVERSION", ((4000, 14.0, 16001),) * 2),
        (WORKING["oracle"], "MONTE_CARLO", FINER * WORKING["oracle"].MONTE_CARLO),
        (WORKING["oracle"], "FEWEST", FINER * WORKING["oracle"].FEWEST),
        (WORKING["oracle"], "MOST", FINER * WORKING["oracle"].MOST),
    ]
    with ExitStack() as stack:
        for room, name, value in changes:
            stack.enter_context(mock.patch.object(room, name, value))
        yield


def problems(seed: int, count: int, verbs: Sequence[str] = VERBS) -> Iterator[tuple[int, Problem]]:
    """The first problems of the sweep that ask for numbers with stated errors."""
    number = found = 0
    while found < count:
        problem = draw(seed, number)
        if problem.verb in verbs:
            found += 1
            yield number, problem
        number += 1


def report(found: Iterable[Row]) -> list[str]:
    """A line per region and number: how many, the share beyond three stated errors, the middle and the largest ratio."""
    groups: dict[tuple[str, str], list[float]] = {}
    for row in found:
        ratio = row.deviation / row.stated if row.deviation > 0.0 else 0.0
        for key in ((row.region, "all"), ("all", row.number), ("all", "all")):
            groups.setdefault(key, []).append(ratio)
    lines = [f"{'region':42} {'number':16} {'count':>6} {'> 3':>7} {'middle':>8} {'largest':>8}"]
    for (region, number), ratios in sorted(groups.items()):
        loud = np.mean(np.array(ratios) > LOUD)
        lines.append(f"{region:42} {number:16} {len(ratios):6} {loud:7.2%} {np.median(ratios):8.3f} {max(ratios):8.2f}")
    return lines


def main(words: list[str] | None = None) -> int:
    """Go on with the study, print its table; the exit code is 1 when stated errors are not honest."""
    asked = parser("checks.calibration_sparse", __doc__, "nothing")
    asked.add_argument("--count", type=int, default=300)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--verb", choices=VERBS, nargs="+", default=VERBS)
    asked.add_argument("--store", type=Path, default=STORE)
    wish = asked.parse_args(words)
    known = {row["problem"]: row["rows"] for row in read(wish.store) if row["seed"] == wish.seed}
    for done, (number, problem) in enumerate(problems(wish.seed, wish.count, wish.verb)):
        if number not in known:
            known[number] = rows(problem)
            append(wish.store, {"seed": wish.seed, "problem": number, "rows": known[number]})
        print(f"\r{done + 1} of {wish.count} problems", end="", file=sys.stderr, flush=True)
    found = [Row(*row) for each in known.values() for row in each]
    print("\n".join(["", *report(found)]))
    return int(np.mean([row.deviation > LOUD * row.stated for row in found]) > 0.01)


if __name__ == "__main__":
    sys.exit(main())
