"""Stated errors against true ones: ``python -m checks.calibration [--count 400] [--seed 0] [--store FILE] [--workers 1]
[--write]``.

Random problems of the soak are solved twice: as users do, and with rules that are finer and have other nodes (the
truth, as far as this can tell). Every number that states an error is compared. An honest error is exceeded three times
in less than one case of a hundred; a useful one is not a hundred times too large either. ``--write`` puts the table
into docs/assets/calibration.md. The exit code is 1 when an error is exceeded more often than that.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from checks.calibration_sparse import said_and_true
from checks.soak_problems import Problem, draw, problem_of
from checks.tool import collect, many, parser, table, write
from onehead import aim
from onehead.aim.logits import quadrature as nodes
from onehead.errors import SolveError
from onehead.numerics.gaussian import sobol

__all__ = ["calibrate", "compared", "report"]

STORE = Path("out") / "calibration.jsonl"
SHOWN = (
    "test_error", "test_error_clean", "train_loss", "train_error", "q", "m", "rank", "sigma", "attention", "pooled",
    "softmax", "bayes", "elementwise",
)  # fmt: skip
KINDS = {  # share of each kind of problem; more tokens than in the soak, since sampled points have the larger errors
    "aim.predict": 0.4,
    "aim.predict, far": 0.05,
    "aim.predict, eigenvalues": 0.1,
    "aim.predict, more tokens": 0.15,
    "sparse.predict": 0.25,
    "sparse.capacity": 0.04,
    "sparse.oracle": 0.01,
}
TIMES, ALLOWED = 3.0, 0.01  # how often an error may be exceeded this many times
FINE = {  # the finest lattices of a user have spacings of 0.1 and 0.42
    1: ((0.4, 6.0), (0.08, 7.8), (0.08, 7.8), (0.08, 7.8)),
    2: ((0.8, 5.5), (0.37, 6.6), (0.37, 6.6), (0.37, 6.6)),
}
ROUNDING = 1e-12


def _finer(dim: int, *, log2_points: int, seed: int, parts: int = 1) -> Any:
    """Four times the points, of another scrambling."""
    return sobol(dim, log2_points=log2_points + 2, seed=seed + 1000, parts=parts)


@contextmanager
def finer_rules() -> Iterator[None]:
    """Nodes that are more, and others."""
    caches = (nodes.logit_rule, nodes.row_rule, nodes.column_rule, nodes.tied_rule, nodes.sector_rule)
    with patch.object(nodes, "LATTICES", FINE), patch.object(nodes, "sobol", _finer):
        for cache in caches:
            cache.cache_clear()
        yield
    for cache in caches:
        cache.cache_clear()


def compared(said: Any, true: Any) -> dict[str, list[float]]:
    """Of each number: what it states as its error, how far it is off, and the error of what it is compared with."""
    return {
        name: [said.errors[name], abs(value - truth), true.errors.get(name, 0.0)]
        for name in SHOWN
        if name in said.errors and np.isfinite([value := getattr(said, name), truth := getattr(true, name)]).all()
    }


def calibrate(seed: int, number: int) -> dict[str, Any]:
    """One problem of the soak, solved by the rules of users and by finer ones."""
    problem = draw(seed, number, KINDS)
    row = {"seed": seed, "number": number, "region": region(problem), "numbers": {}}
    try:
        both = _of_aim(problem) if problem.verb.startswith("aim") else said_and_true(problem)
    except SolveError as failure:
        return row | {"refused": str(failure)}
    if both is None or both[0].status.split(":")[0] != both[1].status.split(":")[0]:
        return row
    return row | {"numbers": compared(*both), "status": both[0].status}


def _of_aim(problem: Problem) -> tuple[Any, Any]:
    """The answer that a user gets, and that of finer rules."""
    task, learner = problem_of(problem)
    said = aim.predict(task, learner, **problem.options)
    with finer_rules():
        return said, aim.predict(task, learner, **problem.options)


def region(problem: Problem) -> str:
    """Where a problem lies."""
    where = problem.regions
    words = [problem.verb, *(where.get(name, "") for name in ("tokens", "parameterisation", "model", "loss"))]
    return ", ".join(word for word in words if word and word != "–")


def _exceeded(stated: float, off: float, other: float) -> bool:
    return off > TIMES * float(np.hypot(stated, other)) + ROUNDING


def report(rows: list[dict[str, Any]]) -> tuple[str, bool]:
    """The table per region, and whether all is well."""
    groups: dict[tuple[str, str], list[list[float]]] = {}
    for row in rows:
        for name, values in row["numbers"].items():
            groups.setdefault((row["region"], name), []).append(values)
            groups.setdefault(("all", name), []).append(values)
    lines, cases, bad = [], 0, 0
    for (where, name), values in sorted(groups.items()):
        exceeded = sum(_exceeded(*value) for value in values)
        if where != "all":
            cases, bad = cases + len(values), bad + exceeded
        ratios = [off / stated for stated, off, _ in values if stated > 0.0]
        lines.append(
            [
                f"{where}: `{name}`",
                f"{len(values)}",
                f"{exceeded}",
                f"{np.median(ratios):.2g}" if ratios else "–",
                f"{max(ratios):.2g}" if ratios else "–",
                f"{np.median([stated for stated, *_ in values]):.1e}",
            ]
        )
    head = [
        "number",
        "problems",
        f"off by more than {TIMES:g} stated errors",
        "median of off / stated",
        "largest",
        "median stated",
    ]
    share = bad / max(cases, 1)
    said = f"{cases:,} numbers of {len(rows):,} random problems: {bad} ({share:.2%}) were off by more than {TIMES:g} "
    said += "times their error."
    return f"{said}\n\n{table(head, lines, right=range(1, len(head)))}", share <= ALLOWED


def main(words: list[str] | None = None) -> int:
    """Compare, print the table, and say by the exit code whether errors are honest."""
    asked = parser("checks.calibration", __doc__, "docs/assets/calibration.md")
    many(asked, 400, STORE)
    wish = asked.parse_args(words)
    rows = collect(
        partial(calibrate, wish.seed), {"seed": wish.seed}, wish.count, wish.store, wish.workers, wish.seconds
    )
    text, honest = report(list(rows.values()))
    write("calibration.md", text, wanted=wish.write)
    return int(not honest)


if __name__ == "__main__":
    sys.exit(main())
