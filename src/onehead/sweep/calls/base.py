"""What a call of a sweep is: words in, a checked problem, one flat row and its arrays out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.fields import Word, words_of
from onehead.problem import Problem
from onehead.results import Result
from onehead.sweep.keys import key_of

__all__ = ["Answer", "Call", "Ready", "Solver", "answer", "unsaid", "verb"]

LONG = 32  # a list of more numbers than this is an array, kept beside the row
NESTED = ("task", "learner", "protocol", "point")  # what the parameters of the row say already


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one point gave: numbers and words for the row, arrays for the folder beside it."""

    row: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


Solver = Callable[
    [Any, Any, Any, Any], Answer
]  # task, its learner or protocol, settings, seed (None: nothing is random)


@dataclass(frozen=True, kw_only=True)
class Ready:
    """A checked problem: its words, defaults included, those that are no part of its key, and how to solve it with a seed."""

    parameters: dict[str, Any]
    solve: Callable[[int], Answer]
    unsaid: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call of the library.

    ``words`` are the allowed parameters (None: any), ``seeded`` says whether anything is drawn at random, ``given`` names the
    parameters that are also results and are therefore called ``given_...`` in a row. The time of a point grows with the dimension to
    the power ``growth`` (0: not at all, or not known).
    """

    name: str
    words: Mapping[str, Word] | None
    seeded: bool
    prepare: Callable[[dict[str, Any]], Ready]
    given: tuple[str, ...] = ()
    growth: int = 0

    def whole(self, word: str) -> bool:
        """Whether a word is an integer."""
        return self.words is not None and word in self.words and self.words[word].kind == "integer"

    def ready(self, words: Mapping[str, Any]) -> Ready:
        """Check the words and build the problem."""
        return self.prepare({name: self._read(name, value) for name, value in words.items()})

    def _read(self, name: str, value: Any) -> Any:
        """A value as its declaration takes it: words are words here, and numbers may be written 6,3,1.8."""
        if self.words is None:
            return value
        if name not in self.words:
            known = sorted(self.words)
            raise InvalidArgument(f"parameter of {self.name}", name, f"one of {', '.join(known)}", known)
        said = self.words[name]
        if said.choices and not isinstance(value, (str, Problem)):
            own = "; what is of your own is swept by a function, call='module:function'"
            raise InvalidArgument(name, value, f"{' or '.join(said.choices)} in a sweep{own}")
        return value.split(",") if said.kind == "numbers" and isinstance(value, str) else value

    def key(self, ready: Ready, seed: int | None, repeat: int = 0) -> str:
        """The key of a problem of this call."""
        said = {name: value for name, value in ready.parameters.items() if name not in ready.unsaid}
        return key_of(self.name, said, seed, repeat)

    def columns(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """The parameters under the names they have in a row."""
        return {f"given_{name}" if name in self.given else name: value for name, value in parameters.items()}


def answer(result: Result, **arrays: NDArray[Any]) -> Answer:
    """The row and the arrays of a result: numbers and words, and every long list of numbers."""
    row: dict[str, Any] = {}
    kept = {name: np.asarray(value) for name, value in arrays.items()}
    for name, value in result.to_dict().items():
        if name in NESTED:
            continue
        if name == "warnings":
            row[name] = "; ".join(value)
        elif isinstance(value, list) and len(value) > LONG:
            kept[name] = np.array(value, dtype=float)
        else:
            row[name] = value
    return Answer(row=row, arrays=kept)


def verb(room: ModuleType, name: str) -> Solver:
    """Solve by the verb of a room that a call is named after: its arguments beyond the problem are the settings of the call."""

    def solve(task: Any, other: Any, chosen: Problem, seed: int | None) -> Answer:
        words = {word: getattr(chosen, word) for word in type(chosen).model_fields}
        root = {} if seed is None else {"seed": seed}
        return answer(getattr(room, name.partition(".")[2])(task, other, **words, **root))

    return solve


def unsaid(*problems: Problem) -> frozenset[str]:
    """The words that came with a later version and are at their default: points stored before they existed have the same key."""
    return frozenset(
        flat
        for problem in problems
        for name, flat, default in _late(type(problem))
        if getattr(problem, name) == default
    )


@cache
def _late(problem: type[Problem]) -> tuple[tuple[str, str, Any], ...]:
    return tuple((name, said.flat, said.default) for name, said in words_of(problem).items() if said.since)
