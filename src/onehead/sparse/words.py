"""Words that are numbers, of which a map moves any two: those of the task and of the protocol, and what both halves are together."""

from onehead.fields import word, words_of
from onehead.problem import Problem
from onehead.sparse.task import Protocol, Task

__all__ = ["KNOWN", "PROTOCOL", "SHARES", "TASK", "Shares"]


class Shares(Problem):
    """What both parts of the data are together."""

    alpha: float = word(..., "α = n/d", "All samples over dimension, split as alpha0 to alpha1.", gt=0.0)
    split: float = word(..., "α₀/α", "Share of the samples that find the query.", gt=0.0, lt=1.0)


SHARES = words_of(Shares)
TASK = {name: said for name, said in words_of(Task).items() if said.kind in ("number", "integer")}
PROTOCOL = {name: said for name, said in words_of(Protocol).items() if said.kind in ("number", "integer")}
KNOWN = {**SHARES, **TASK, **PROTOCOL}
