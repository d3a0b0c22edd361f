"""The objective against weight decay: ``python -m checks.objective [--count 3000] [--seed 0] [--store FILE]
[--workers 1] [--seconds S] [--write]``.

Random heads of 8 to 4,096 tokens with squared loss and β₀ from 1 to 10, where the equations may have several solutions
(4.7), are solved at `DECAYS` neighbouring weight decays around a random one. The minimum of the objective is a concave
and increasing function of λ, with the penalty per unit of λ as its slope: a map of a neighbour, kept as it is, must not
have a lower objective. Answers go to a file of JSON lines; a run that was stopped goes on where it was. The exit code
is 1 when an objective jumps.
"""

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from checks.tool import collect, many, parser, table, write
from onehead import aim
from onehead.aim.solve.branches import vanishing_decay
from onehead.aim.solve.certificate import Numbers, numbers_at
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.errors import InvalidArgument, SolveError

__all__ = ["draw", "jump", "run_one"]

STORE = Path("out") / "objective.jsonl"
MIX = 1  # raised when the problems behind the numbers change
DECAYS, SPREAD = 3, 0.08  # neighbouring weight decays, and their distance in log λ
ERRORS = 3.0  # stated errors of the objective by which a kept map may seem lower
ROUNDING = 1e-6  # relative


def draw(seed: int, number: int) -> tuple[aim.Task, dict[str, Any], float, float]:
    """Return task, parameters of the learner, sample ratio, and weight decay over that at which the map vanishes."""
    rng = np.random.default_rng([seed, number])
    attention = str(rng.choice(["cross", "cross", "cross", "self", "tied"]))
    longest = {"cross": 4096, "self": 64, "tied": 16}[attention]  # of which one solve takes seconds
    tokens = int(np.exp(rng.uniform(np.log(8), np.log(longest + 1))))
    kappa0 = float(np.exp(rng.uniform(np.log(0.1), np.log(3.0))))
    target = (aim.MarchenkoPastur if attention == "tied" else aim.Product)(kappa0=kappa0)
    task = aim.Task(
        target=target,
        attention=attention,
        mask="strict" if attention == "self" else "none",
        tokens=tokens,
        beta0=float(np.exp(rng.uniform(0.0, np.log(10.0)))),
        noise=float(rng.choice([0.0, 0.1, 0.5])),
    )
    learner = {"param": str(rng.choice(["factorised", "factorised", "direct"]))}
    return task, learner, float(np.exp(rng.uniform(np.log(0.01), np.log(3.0)))), float(np.exp(rng.uniform(-2.0, 0.2)))


def jump(points: list[tuple[StateEvolution, Numbers]]) -> float:
    """Return by how many stated errors a neighbour's map, kept as it is, is lower; negative if none is."""
    worst = -np.inf
    for here, found in points:
        for there, near in points:
            kept = near.train + here.input.penalty(near.overlaps) - there.input.penalty(near.overlaps)
            error = sum(numbers.certificate.errors["train_loss"] for numbers in (near, found))
            worst = max(worst, (found.train - kept) / (error + ROUNDING * abs(found.train)))
    return float(worst)


def run_one(seed: int, number: int) -> dict[str, Any]:
    """Solve one problem at neighbouring weight decays; the row says how it ended."""
    task, given, alpha, share = draw(seed, number)
    row: dict[str, Any] = {"mix": MIX, "seed": seed, "number": number, "tokens": task.tokens, "task": str(task)}
    start = time.process_time()
    try:
        problem = build_state_evolution(task, aim.Learner(**given))
        centre = share * vanishing_decay(problem, alpha)
        shifts = SPREAD * (np.arange(DECAYS) - (DECAYS - 1) / 2)
        problems = [problem.with_decay(float(centre * np.exp(shift))) for shift in shifts]
        points = [(one, numbers_at(one, alpha)) for one in problems]
        worst = jump(points)
        several = sum(bool(numbers.others) for _, numbers in points)
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
        several = sum(row.get("several", 0) > 0 for row in here)
        counts = [len(here), *(sum(row["end"] == end for row in here) for end in ends), several]
        lines.append([f"{low} to {high - 1}", *map(str, counts)])
    return table(["tokens", "problems", *ends, "several solutions"], lines, right=range(1, 7))


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
