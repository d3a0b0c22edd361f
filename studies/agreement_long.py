"""Heads of 8, 16 and 32 tokens: training compared with the prediction for the target of each run (L5).

`python -m studies.agreement_long [--store FILE] [--write]` trains the runs that the store lacks, prints the table and
with ``--write`` puts it into docs/assets/agreement-long.md. Samples and weight decay are fixed in the units of L1.
Ctrl-C loses one run.
"""

import sys
from pathlib import Path
from typing import Any

from checks.tool import append, parser, read, table, write

from onehead.aim.task import Learner, Task
from studies.agreement_heads import Deviation, Setting, deviations, measure

STORE = Path("out") / "agreement-long.jsonl"
ASSET = "agreement-long.md"
SIZES = {8: 80, 16: 80, 32: 64}  # tokens and dimension of the runs
RUNS = 3
COLUMNS = ("q", "m", "test_error", "train_loss")


def _settings() -> dict[str, list[Setting]]:
    """Return each kind of head at every length; a tied one has half as many entries to learn, and less weight decay."""
    found: dict[str, list[Setting]] = {}
    for tokens, dim in SIZES.items():
        runs = {dim: RUNS}
        for attention, decay in (("cross", 0.5), ("tied", 0.3)):
            task, alpha = Task(attention=attention, tokens=tokens), 2.0 / tokens**2
            for loss, power in (("cross-entropy", 1), ("squared", 2)):
                learner = Learner(loss=loss, weight_decay=decay / tokens**power)
                found.setdefault(f"{attention}, {loss}", []).append(Setting(task, learner, alpha, runs))
        hard = Task(attention="cross", tokens=tokens, labels="hard")
        learner = Learner(loss="cross-entropy", weight_decay=0.3)
        found.setdefault("cross, hard labels", []).append(Setting(hard, learner, 2.0 / tokens, runs))
    return found


def collect(store: Path) -> dict[tuple[str, int, int], dict[str, Any]]:
    """Return all rows of the store, after measuring those that it lacks, until finished or interrupted."""
    rows = {(row["kind"], row["tokens"], row["seed"]): row for row in read(store)}
    jobs = [(kind, one, k) for kind, some in _settings().items() for one in some for k in range(RUNS)]
    try:
        for kind, setting, k in sorted(jobs, key=lambda job: (job[2], job[1].task.tokens)):
            tokens, (dim,) = setting.task.tokens, setting.runs
            if (kind, tokens, k) in rows:
                continue
            row = {"kind": kind, "tokens": tokens, "seed": k, "dim": dim, **measure(setting, dim, k)}
            rows[kind, tokens, k] = row
            append(store, row)
            print(f"{kind}, T = {tokens}, run {k}: {row['seconds']:.0f} s", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("interrupted: run the same command to continue", file=sys.stderr)
    return rows


def _cell(one: Deviation) -> str:
    """Return run / theory, and their difference with its standard error."""
    gap, error = one.relative * one.own, one.spread["relative_err"] * abs(one.own)
    return f"{one.run:.4g} / {one.own:.4g}, {gap:+.2g} ± {error:.1g}"


def report(rows: dict[tuple[str, int, int], dict[str, Any]]) -> str:
    """Return the table, with a line per kind of head and length."""
    lines = []
    for kind, settings in _settings().items():
        for setting in settings:
            tokens = setting.task.tokens
            finished = [rows[kind, tokens, k] for k in range(RUNS) if (kind, tokens, k) in rows]
            if len(finished) > 1:
                cells = {one.name: _cell(one) for one in deviations(finished)}
                size = f"{tokens}, {finished[0]['dim']} × {len(finished)}"
                lines.append([kind, size, *(cells[name] for name in COLUMNS)])
    return f"""{table(("head", "T, d × runs", *(name.replace("_", " ") for name in COLUMNS)), lines)}

Mean over runs / mean of the predictions for the singular values (tied: eigenvalues) of the target of each run, and the
mean of the paired differences with its standard error. \\(\\alpha T^2=2\\) and \\(\\lambda T^2\\) (squared) or
\\(\\lambda T\\) (cross-entropy) 0.5, tied 0.3; hard labels \\(\\alpha T=2\\), \\(\\lambda=0.3\\).
\\(\\kappa_0=\\Delta=0.5\\)."""


def main() -> None:
    """Run the study from the command line."""
    options = parser("studies.agreement_long", __doc__, f"docs/assets/{ASSET}")
    options.add_argument("--store", type=Path, default=STORE)
    arguments = options.parse_args()
    write(ASSET, report(collect(arguments.store)), wanted=arguments.write)


if __name__ == "__main__":
    main()
