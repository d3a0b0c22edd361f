"""Stated errors against true ones: ``python -m checks.calibration [--count 400] [--seed 0] [--store FILE] [--workers 1]
[--kind KIND] [--write]``.

Random problems of every kind of head, of sparse tokens and of both best possible learners are solved twice: as users
do, and with rules that are finer and have other nodes (the truth, as far as this can tell). Every number that states an
error is compared. An honest error is exceeded three times in less than one case of a hundred; a useful one is not a
hundred times too large either. ``--kind`` solves problems of one kind only. ``--write`` puts the table into
docs/assets/calibration.md. The exit code is 1 when an error is exceeded more often than that.
"""

import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from checks.calibration_heads import KINDS, draw_problem, finer_rules, kind_of
from checks.calibration_sparse import said_and_true
from checks.soak_problems import Problem, call, problem_of, task_of
from checks.tool import collect, many, parser, table, write
from onehead import aim
from onehead.errors import InvalidArgument, SolveError

__all__ = ["calibrate", "compared", "report"]

STORE = Path("out") / "calibration.jsonl"
MIX = 2  # raised when the problems behind the numbers change
SHOWN = (
    "test_error", "test_error_clean", "train_loss", "train_error", "q", "m", "rank", "sigma", "attention", "pooled",
    "softmax", "bayes", "elementwise", "overlap", "head_error", "overlap_amp", "test_error_amp", "floor", "q_cross",
    "m_cross",
)  # fmt: skip
TIMES, ALLOWED = 3.0, 0.01  # how often an error may be exceeded this many times
ROUNDING = 1e-12


def compared(said: Any, true: Any) -> dict[str, list[float]]:
    """Of each number: what it states as its error, how far it is off, and the error of what it is compared with."""
    values = {name: (getattr(said, name), getattr(true, name)) for name in SHOWN if name in said.errors}
    return {
        name: [said.errors[name], abs(value - truth), true.errors.get(name, 0.0)]
        for name, (value, truth) in values.items()
        if None not in (value, truth) and np.isfinite([value, truth]).all()
    }


def calibrate(seed: int, number: int, only: str | None = None) -> dict[str, Any]:
    """One problem of the soak, solved by the rules of users and by finer ones."""
    kind, problem = draw_problem(seed, number, only)
    row = {"mix": MIX, "seed": seed, "number": number, "only": only, "region": kind_of(kind, problem), "numbers": {}}
    row |= {"problem": call(problem)} if problem.learner else {}
    try:
        both = _of_aim(problem) if problem.verb.startswith("aim") else said_and_true(problem)
    except (SolveError, InvalidArgument) as failure:
        return row | {"refused": str(failure)}
    if both is None or both[0].certificate.status.split(":")[0] != both[1].certificate.status.split(":")[0]:
        return row
    return row | {"numbers": compared(*both), "status": both[0].certificate.status}


def _of_aim(problem: Problem) -> tuple[Any, Any]:
    """The answer that a user gets, and that of finer rules."""

    def answer() -> Any:
        if problem.verb == "aim.bayes":
            return aim.bayes(task_of(problem), problem.options["alpha"])
        return aim.predict(*problem_of(problem), **problem.options)

    said = answer()
    with finer_rules():
        return said, answer()


def _exceeded(stated: float, off: float, other: float) -> bool:
    return off > TIMES * float(np.hypot(stated, other)) + ROUNDING


def report(rows: list[dict[str, Any]]) -> tuple[str, bool]:
    """The table per region, and whether all is well."""
    groups: dict[str, list[list[float]]] = {}
    for row in rows:
        for name, values in row["numbers"].items():
            groups.setdefault(row["region"], []).append(values)
            groups.setdefault(f"all: `{name}`", []).append(values)
    problems = Counter(row["region"] for row in rows if row["numbers"])
    lines, cases, bad = [], 0, 0
    for where, values in sorted(groups.items()):
        exceeded = sum(_exceeded(*value) for value in values)
        if where in problems:
            cases, bad = cases + len(values), bad + exceeded
        ratios = [off / stated for stated, off, _ in values if stated > 0.0]
        lines.append(
            [
                where,
                f"{problems.get(where, len(values))}",
                f"{len(values)}",
                f"{exceeded}",
                f"{np.median(ratios):.2g}" if ratios else "–",
                f"{max(ratios):.2g}" if ratios else "–",
                f"{np.median([stated for stated, *_ in values]):.1e}",
            ]
        )
    head = [
        "kind of head, or number of all kinds",
        "problems",
        "numbers",
        f"off by more than {TIMES:g} stated errors",
        "median of off / stated",
        "largest",
        "median stated",
    ]
    share = bad / max(cases, 1)
    said = f"{cases:,} numbers of {sum(problems.values()):,} random problems: {bad} ({share:.2%}) were off by more "
    said += f"than {TIMES:g} times their error."
    return f"{said}\n\n{table(head, lines, right=range(1, len(head)))}", share <= ALLOWED


def main(words: list[str] | None = None) -> int:
    """Compare, print the table, and say by the exit code whether errors are honest."""
    asked = parser("checks.calibration", __doc__, "docs/assets/calibration.md")
    many(asked, 400, STORE)
    asked.add_argument("--kind", choices=KINDS, help="problems of this kind only")
    wish = asked.parse_args(words)
    rows = collect(
        partial(calibrate, wish.seed, only=wish.kind),
        {"mix": MIX, "seed": wish.seed, "only": wish.kind},
        wish.count,
        wish.store,
        wish.workers,
        wish.seconds,
    )
    text, honest = report(list(rows.values()))
    write("calibration.md", text, wanted=wish.write)
    return int(not honest)


if __name__ == "__main__":
    sys.exit(main())
