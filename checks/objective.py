"""The objective against weight decay: ``python -m checks.objective [--count 3000] [--seed 0] [--store FILE]
[--workers 1] [--seconds S] [--write]``.

Random heads of 8 to 4,096 tokens with squared loss and β₀ from 1 to 10, where the equations may have several solutions
(4.7), are solved at two weight decays, whose distance is random, too. The minimum of the objective is a concave and
increasing function of λ, with the penalty per unit of λ as its slope: the map of one, kept as it is, must not have a
lower objective at the other. Every `FULL`-th problem is solved as users do; the others by the search for solutions
alone, on the coarsest rule, which takes a few per cent of the time and decides which solution is the answer. What seems
to jump there is solved as users do, too. Answers go to a file
of JSON lines; a run that was stopped goes on where it was. The exit code is 1 when an objective jumps.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from checks.tool import collect, many, parser, table, write
from onehead import aim
from onehead.aim.logits import softmax_row
from onehead.aim.solve.branches import coarse_branches, zero_loss
from onehead.aim.solve.certificate import numbers_at
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.limits.emergence import largest_decay
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import InvalidArgument, SolveError

__all__ = ["Answer", "draw", "jump", "run_one"]

STORE = Path("out") / "objective.jsonl"
MIX = 5  # raised when the problems behind the numbers change
BELOW, ABOVE = 0.1, 3.0  # range of the larger weight decay over that at which S = 0 ceases to be unstable
NEAR, FAR = 0.03, 0.7  # range of the distance of both in log λ
ERRORS = 3.0  # stated errors of the objective by which a kept map may seem lower
ROUNDING = 1e-6  # relative
FULL = 20  # one problem of so many is solved on the rules of users
COARSE_ERROR = 1e-3  # relative, of an objective on the coarsest rule against another solution of the same rule


class Answer(NamedTuple):
    """Equations at one weight decay, and the lowest objective found there with its penalty and error."""

    problem: StateEvolution
    objective: float
    penalty: float
    error: float
    solutions: int


def draw(seed: int, number: int) -> tuple[aim.Task, dict[str, Any], float, tuple[float, float]]:
    """Return task, parameters of the learner, sample ratio, and both weight decays over that at which S = 0 ceases to
    be unstable.
    """
    rng = np.random.default_rng([seed, number])
    attention = str(rng.choice(["cross", "self", "tied"], p=[0.88, 0.08, 0.04]))
    longest = {"cross": 4096, "self": 20, "tied": 10}[attention]  # of which one solve takes seconds
    tokens = int(_log_uniform(rng, 8, longest + 1))
    kappa0 = _log_uniform(rng, 0.1, 3.0)
    target = (aim.MarchenkoPastur if attention == "tied" else aim.Product)(kappa0=kappa0)
    task = aim.Task(
        target=target,
        attention=attention,
        mask="strict" if attention == "self" else "none",
        tokens=tokens,
        beta0=_log_uniform(rng, 1.0, 10.0),
        noise=float(rng.choice([0.0, 0.1, 0.5])),
    )
    learner = {"param": str(rng.choice(["factorised", "factorised", "direct"]))}
    alpha, high, apart = (_log_uniform(rng, *ends) for ends in ((0.01, 3.0), (BELOW, ABOVE), (NEAR, FAR)))
    return task, learner, alpha, (high * float(np.exp(-apart)), high)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def jump(points: list[Answer]) -> float:
    """Return by how many errors a neighbour's map, kept as it is, is lower; negative if none is."""
    worst = -np.inf
    for here in points:
        for near in points:
            if near is here:
                continue
            # the penalty is proportional to weight decay
            kept = near.objective + near.penalty * (here.problem.decay / near.problem.decay - 1.0)
            error = here.error + near.error + ROUNDING * abs(here.objective)
            worst = max(worst, (here.objective - kept) / error)
    return float(worst)


@contextmanager
def rough_integrals() -> Iterator[None]:
    """Averages of a softmax with twice the spacing, whose error is up to 1 % instead of 1e-10, in an eighth of the
    time.
    """
    caches = (softmax_row.cached_row, softmax_row._mean_bump_on, softmax_row._cached_joint_factors)
    for cache in caches:
        cache.cache_clear()
    with patch.object(softmax_row, "STEP", 2.0 * softmax_row.STEP):
        yield
    for cache in caches:
        cache.cache_clear()


def coarse(problem: StateEvolution, alpha: float) -> Answer:
    """Lowest objective on the coarsest rule, S = 0 among the candidates."""
    found = coarse_branches(problem, alpha)
    candidates = [(alpha * zero_loss(problem), 0.0), *((branch.objective, branch.penalty) for branch in found)]
    objective, penalty = min(candidates)
    return Answer(problem, objective, penalty, COARSE_ERROR / ERRORS * abs(objective), len(candidates) - 1)


def full(problem: StateEvolution, alpha: float) -> Answer:
    """Lowest objective as users get it."""
    found = numbers_at(problem, alpha)
    penalty = problem.input.penalty(found.overlaps)
    return Answer(problem, found.train, penalty, found.certificate.errors["train_loss"], 1 + len(found.others))


def run_one(seed: int, number: int) -> dict[str, Any]:
    """Solve one problem at neighbouring weight decays; the row says how it ended."""
    task, given, alpha, shares = draw(seed, number)
    row: dict[str, Any] = {"mix": MIX, "seed": seed, "number": number, "tokens": task.tokens, "task": str(task)}
    row |= {"rules": "full" if number % FULL == 0 else "coarse"}
    start = time.process_time()
    try:
        problem = build_state_evolution(task, aim.Learner(**given))
        local = largest_decay(problem, alpha)
        problems, points = [problem.with_decay(share * local) for share in shares], []
        if row["rules"] == "coarse":
            with rough_integrals():
                points = [coarse(one, alpha) for one in problems]
        if not points or jump(points) > ERRORS:
            row |= {"rules": "full"}
            points = [full(one, alpha) for one in problems]
        worst = jump(points)
        several = sum(point.solutions > 1 for point in points)
        row |= {"end": "jump" if worst > ERRORS else "continuous", "worst": worst, "several": several}
    except (SolveError, InvalidArgument) as failure:
        row |= {"end": "refused", "reason": str(failure)}
    except Exception as failure:  # whatever comes is written down
        row |= {"end": "raised", "reason": f"{type(failure).__name__}: {failure}"[:300]}
    return row | {"seconds": round(time.process_time() - start, 3)}


def report(rows: list[dict[str, Any]]) -> str:
    """Return the table of how problems ended, by the number of tokens."""
    ends = ("continuous", "refused", "jump", "raised")
    lines = []
    for low, high in ((8, 16), (16, 64), (64, 512), (512, 4097)):
        here = [row for row in rows if low <= row["tokens"] < high]
        several, solved = (sum(test(row) for row in here) for test in (_several, _solved_fully))
        counts = [len(here), *(sum(row["end"] == end for row in here) for end in ends), several, solved]
        lines.append([f"{low} to {high - 1}", *map(str, counts)])
    head = ["tokens", "problems", *ends, "several solutions", "solved on the rules of users"]
    return table(head, lines, right=range(1, len(head)))


def _several(row: dict[str, Any]) -> bool:
    return bool(row.get("several", 0) > 0)


def _solved_fully(row: dict[str, Any]) -> bool:
    return bool(row["rules"] == "full")


def main(words: list[str] | None = None) -> int:
    """Run or go on with the search, and print its table."""
    asked = parser("checks.objective", __doc__, "docs/assets/objective.md")
    many(asked, 3000, STORE)
    wish = asked.parse_args(words)
    known = {"mix": MIX, "seed": wish.seed}
    rows = collect(partial(run_one, wish.seed), known, wish.count, wish.store, wish.workers, wish.seconds)
    write("objective.md", report(list(rows.values())), wanted=wish.write)
    return int(any(row["end"] in ("jump", "raised") for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
