"""Error against cost of a prediction, by the number of tokens: tied, self and cross heads, squared loss, cross-entropy, hard labels (L6, L7).

`python -m studies.cost_of_tokens [--most T] [--write]` solves one point of every kind at 3 to 64 tokens, in processor seconds of one thread, and
prints the table; with ``--write`` it goes into docs/assets/cost-of-tokens.md. ``--growth`` adds 128 to 4,096 tokens of cross-attention.
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
    """The head whose samples and weight decay are the same in units of its length (L1)."""
    attention, loss, labels, decay = kind
    task = Task(attention=attention, tokens=tokens, labels=labels)
    if labels == "hard":
        return task, Learner(loss=loss, weight_decay=decay), 2.0 / tokens
    return task, Learner(loss=loss, weight_decay=decay / tokens ** (2 if loss == "squared" else 1)), 2.0 / tokens**2


def cell(kind: tuple[str, str, str, float], tokens: int) -> str:
    """Stated relative error of the test error, and processor seconds."""
    asked = problem(kind, tokens)
    began = time.process_time()
    point: Any = predict(*asked)
    spent = time.process_time() - began
    return f"{point.errors['test_error'] / point.test_error:.0e}, {spent:.2g} s"


def main() -> None:
    """Run from the shell."""
    words = parser("studies.cost_of_tokens", __doc__, f"docs/assets/{ASSET}")
    words.add_argument("--most", type=int, default=64, help="tokens of heads whose rows share logits")
    words.add_argument("--growth", action="store_true")
    asked = words.parse_args()
    lengths = (*LENGTHS, *(LONGER if asked.growth else ()))
    for kind in KINDS:
        cell(kind, 6)  # compiled before it is timed
    rows = []
    for tokens in lengths:
        found = [cell(kind, tokens) if kind[0] == "cross" or tokens <= asked.most else "" for kind in KINDS]
        rows.append([str(tokens), *found])
        print(*rows[-1], sep="; ", flush=True)
    heads = [f"{attention}, {'hard labels' if labels == 'hard' else loss}" for attention, loss, labels, _ in KINDS]
    write(ASSET, table(("T", *heads), rows), wanted=asked.write)


if __name__ == "__main__":
    main()
