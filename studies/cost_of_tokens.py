"""Error and cost of a prediction against the number of tokens, for all kinds of heads, losses and labels (L6, L7).

`python -m studies.cost_of_tokens [--most T] [--write]` solves one point of every kind for 3 to 64 tokens and prints the
table, with CPU seconds of one thread; with ``--write`` it goes into docs/assets/cost-of-tokens.md. ``--growth`` adds
128 to 4,096 tokens of cross-attention.
"""

import time
from typing import Any

from checks.tool import parser, table, write

from onehead.aim.task import Learner, Task
from onehead.aim.verbs.predict import predict

ASSET = "cost-of-tokens.md"
LENGTHS, LONGER = (3, 4, 5, 8, 16, 32, 64), (128, 512, 1024, 4096)
KINDS = (
    ("cross", "squared", "soft", 0.5),
    ("cross", "cross-entropy", "soft", 0.5),
    ("cross", "cross-entropy", "hard", 0.3),
    ("self", "squared", "soft", 0.5),
    ("self", "cross-entropy", "soft", 0.5),
    ("self", "cross-entropy", "hard", 0.3),
    ("tied", "squared", "soft", 0.3),
    ("tied", "cross-entropy", "soft", 0.3),
    ("tied", "cross-entropy", "hard", 0.3),
)


def problem(kind: tuple[str, str, str, float], tokens: int) -> tuple[Task, Learner, float]:
    """Return the head with samples and weight decay fixed in units of its length (L1)."""
    attention, loss, labels, decay = kind
    task = Task(attention=attention, tokens=tokens, labels=labels)
    if labels == "hard":
        return task, Learner(loss=loss, weight_decay=decay), 2.0 / tokens
    return task, Learner(loss=loss, weight_decay=decay / tokens ** (2 if loss == "squared" else 1)), 2.0 / tokens**2


def cell(kind: tuple[str, str, str, float], tokens: int) -> str:
    """Return the stated relative error of the test error, and CPU seconds."""
    arguments = problem(kind, tokens)
    start = time.process_time()
    point: Any = predict(*arguments)
    seconds = time.process_time() - start
    return f"{point.errors['test_error'] / point.test_error:.0e}, {seconds:.2g} s"


def main() -> None:
    """Run the study from the command line."""
    options = parser("studies.cost_of_tokens", __doc__, f"docs/assets/{ASSET}")
    options.add_argument("--most", type=int, default=64, help="tokens of heads whose rows share logits")
    options.add_argument("--growth", action="store_true")
    arguments = options.parse_args()
    lengths = (*LENGTHS, *(LONGER if arguments.growth else ()))
    for kind in KINDS:
        cell(kind, 6)  # compiles the kernels before anything is timed
    rows = []
    for tokens in lengths:
        found = [cell(kind, tokens) if kind[0] == "cross" or tokens <= arguments.most else "" for kind in KINDS]
        rows.append([str(tokens), *found])
        print(*rows[-1], sep="; ", flush=True)
    heads = [f"{attention}, {'hard labels' if labels == 'hard' else loss}" for attention, loss, labels, _ in KINDS]
    write(ASSET, table(("T", *heads), rows), wanted=arguments.write)


if __name__ == "__main__":
    main()
