"""Random problems over the whole parameter range: does every one converge, or say why not?

    python -m checks.soak [--count 20000] [--seed 0] [--store FILE] [--workers 1] [--write]
    python -m checks.soak --heads --count 5000
    python -m checks.soak --best --count 2000
    python -m checks.soak --joint --count 1000
    python -m checks.soak --layers --count 1000
    python -m checks.soak --only 137

Answers go to a file of JSON lines, one per problem; a run that was stopped goes on where it was. Problems are numbered
and the number decides the problem, so that pieces, order and workers change nothing. ``--write`` writes the report to
docs/assets/soak.md. Heads of every kind, untied, masked, with hard labels, are a list of their own (``--heads``),
and so are sparse tokens beside the best possible learner, whom nobody may beat (``--best``), and sparse tokens whose
query and readout are trained together or on the same data (``--joint``), and several heads that add to one output
(``--layers``). The exit code is 1 when an answer is wrong, or
when something else than a refusal was raised.
"""

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from checks.soak_best import draw_best, solve_best
from checks.soak_heads import draw_head
from checks.soak_joint import draw_joint, solve_joint
from checks.soak_layers import draw_layer, solve_layer
from checks.soak_problems import MIX, call, draw, solve
from checks.soak_report import report
from checks.tool import collect, many, parser, write
from onehead.errors import InvalidArgument, SolveError

STORE = Path("out") / "soak.jsonl"
HEADS, BEST, JOINT, LAYERS = "heads", "best", "joint", "layers"
DRAWS = {None: draw, HEADS: draw_head, BEST: draw_best, JOINT: draw_joint, LAYERS: draw_layer}
SOLVERS = {BEST: solve_best, JOINT: solve_joint, LAYERS: solve_layer}


def run_one(seed: int, number: int, kind: str | None = None) -> dict[str, Any]:
    """Solve one problem; the row says how it ended."""
    problem = DRAWS[kind](seed, number)
    row: dict[str, Any] = {
        "mix": MIX,
        "list": kind,
        "seed": seed,
        "number": number,
        "regions": problem.regions,
        "call": call(problem),
    }
    start = time.process_time()  # not the wall clock: a long sweep shares its machine
    try:
        status, wrong = SOLVERS.get(kind or "", solve)(problem)
        row |= {"end": "wrong" if wrong else "solved", "status": status, "reason": wrong}
    except (SolveError, InvalidArgument) as failure:
        row |= {"end": "refused", "status": type(failure).__name__, "reason": str(failure)}
    except Exception as failure:  # the point of the sweep: whatever comes is written down
        row |= {"end": "raised", "status": type(failure).__name__, "reason": str(failure)[:300]}
    return row | {"seconds": round(time.process_time() - start, 4)}


def main(words: list[str] | None = None) -> int:
    """Run or go on with a sweep, print its report, and say by the exit code whether something is unexplained."""
    asked = parser("checks.soak", __doc__, "docs/assets/soak.md")
    many(asked, 20_000, STORE)
    asked.add_argument("--only", type=int, help="solve this one problem, print what happened, store nothing")
    for name, sentence in (
        (HEADS, "problems over all kinds of heads"),
        (BEST, "beside the best possible learner"),
        (JOINT, "joint descent, reused data and the joint minimum"),
        (LAYERS, "several heads that add to one output"),
    ):
        asked.add_argument(f"--{name}", dest="kind", action="store_const", const=name, help=sentence)
    wish = asked.parse_args(words)
    kind = wish.kind
    if wish.only is not None:
        print(json.dumps(run_one(wish.seed, wish.only, kind), indent=1))
        return 0
    known = {"mix": MIX, "seed": wish.seed, "list": kind}
    rows = collect(partial(run_one, wish.seed, kind=kind), known, wish.count, wish.store, wish.workers, wish.seconds)
    write(
        f"soak{'' if kind is None else f'-{kind}'}.md",
        report(list(rows.values()), wish.seed, wish.count),
        wanted=wish.write,
    )
    return int(any(row["end"] in ("wrong", "raised") for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
