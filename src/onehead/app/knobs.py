"""The knobs of the explorer, made from the declarations of the words they turn.

A number of `Task`, `Learner` or `Protocol` has a knob if its declaration has a slider, a choice and a switch always; label, symbol,
help, range and what may be typed are those of the declaration. Said here are only the words of the page itself and the few
limits of the explorer.
"""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import model_validator

from onehead.aim.targets import MarchenkoPastur, PowerLaw
from onehead.aim.task import Learner, Ratio, Task
from onehead.errors import InvalidArgument
from onehead.fields import Slider, Word, word, words_of
from onehead.problem import Problem
from onehead.sparse.task import Protocol
from onehead.sparse.task import Task as SparseTask

__all__ = ["GROUPS", "KNOBS", "PROBLEMS", "RARE", "Axis", "Checkpoint", "Knob", "Page", "Training", "Value"]

Value = float | int | str | bool
MapWord = Literal["alpha", "weight_decay", "noise", "kappa0", "width"]

RATIO: dict[str, Any] = dict(words_of(Ratio)["alpha"].bounds)


def _ratio(default: float, label: str, sentence: str, low: float, high: float) -> Any:
    """A place on the α axis, with the ends of its slider."""
    return word(default, "α", sentence, label=label, slider=Slider(low, high, log=True), **RATIO)


def _count(
    default: int, symbol: str, sentence: str, may: tuple[int, int], drag: tuple[int, int], label: str = ""
) -> Any:
    """A whole number: what may be typed, and what is sensible to drag."""
    return word(default, symbol, sentence, label=label, ge=may[0], le=may[1], slider=Slider(*drag, 1))


class Axis(Problem):
    """The α axis and the point that is marked on it."""

    alpha: float = _ratio(0.5, "Sample ratio", "Samples over squared dimension, n/d²; the marked point.", 0.01, 10.0)
    alpha_from: float = _ratio(0.03, "Axis from", "Left end of the α axis.", 0.01, 1.0)
    alpha_to: float = _ratio(4.0, "Axis to", "Right end of the α axis.", 0.5, 20.0)

    @model_validator(mode="after")
    def _ordered(self) -> "Axis":
        if not 1.2 * self.alpha_from <= self.alpha_to <= 1e4 * self.alpha_from:
            allowed = f"between 1.2 and 10000 times alpha_from = {self.alpha_from:g}"
            raise InvalidArgument("alpha_to", self.alpha_to, allowed)
        return self


class Page(Problem):
    """What is drawn."""

    scaling_panel: Literal["excess", "decomposition", "phase"] = word(
        "excess", "", "Which picture of the power-law target.", label="Show"
    )
    sparse_panel: Literal["error", "alignment", "capacity", "tuning", "hard-phase"] = word(
        "error", "", "Which picture of the sparse-token task.", label="Show"
    )
    map_x: MapWord = word("alpha", "", "The word across.", label="Across")
    map_y: MapWord = word("weight_decay", "", "The word upwards.", label="Upwards")
    map_of: Literal["test_error", "above_best", "rank", "train_loss"] = word(
        "test_error", "", "What the colours say.", label="Colours"
    )
    samples: float = word(
        5000.0, "n", "Training sequences; the marked point.", ge=1.0, le=1e9, slider=Slider(100.0, 1e6, log=True)
    )
    direct: bool = word(True, "S", "Draw also the head whose map S is trained itself.", label="Direct training")
    best: bool = word(False, "λ*", "Draw also the curve with the best λ at every α.", label="Best weight decay")


class Checkpoint(Problem):
    """Which head of a file is shown."""

    layer: int = _count(0, "", "Which layer of the file, from 0.", (0, 1000), (0, 48))
    head: int = _count(0, "", "Which head of the layer, from 0.", (0, 1000), (0, 32))
    heads: int = _count(
        0, "H", "Heads per layer, if the file does not say; 0 to look it up.", (0, 1024), (0, 64), "Query heads"
    )


class Training(Problem):
    """Real runs over the curve."""

    train_dim: int = _count(50, "d", "Dimension of a token in the real run.", (10, 200), (20, 150), "Dimension")
    train_points: int = _count(
        6, "#α", "Sample ratios at which to train, spread over the axis.", (1, 20), (1, 12), "Points"
    )
    train_seeds: int = _count(
        4, "#", "Independent runs per point; their spread is the error bar.", (1, 20), (1, 10), "Seeds"
    )


GROUPS = {"picture": "Picture", "task": "Task", "learner": "Learner", "protocol": "Protocol", "training": "Train it"}
# problem -> its group; a name that an earlier problem has already gets the room before it: sparse_beta
PROBLEMS: dict[type[Problem], str] = {
    Axis: "picture",
    Page: "picture",
    Checkpoint: "picture",
    MarchenkoPastur: "task",
    PowerLaw: "task",
    Task: "task",
    Learner: "learner",
    SparseTask: "task",
    Protocol: "protocol",
    Training: "training",
}
# where the explorer allows less than the library, so that pictures stay quick and finite
LIMITS: dict[str, tuple[float | None, float]] = {
    "dim": (10, 1000), "length": (None, 1000), "strength": (None, 100),
    "sparse_beta": (None, 1e3), "eta_b": (None, 1e3), "eta_q": (-1e3, 1e3),
}  # fmt: skip
# knobs that are folded away until somebody wants them
RARE = (
    "alpha_from", "alpha_to", "direct", "best", "beta0", "width", "param", "beta", "loss", "branch",
    "positive_rate", "eta_w", "eta_b", "eta_q", "sparse_loss",
)  # fmt: skip
DEFAULTS: dict[str, Value] = {"dim": 100}  # the library's 200 are too slow to drag
TEXTS = {
    "excess": "excess error and exponent",
    "phase": "phase diagram",
    "error": "test error of three models",
    "alignment": "alignment of the query",
    "hard-phase": "the hard phase",
    "label": "nearest to the label",
    "global": "lowest",
    "tied": "query = key (tied)",
    "self": "self-attention",
    "cross": "cross-attention",
    "none": "sees all tokens",
    "causal": "causal",
    "strict": "causal, without itself",
    "soft": "the target's attention",
    "hard": "one token drawn from it",
    "factorised": "the factors W",
    "direct": "the map S itself",
    "alpha": "sample ratio α",
    "weight_decay": "weight decay λ",
    "noise": "noise Δ",
    "kappa0": "target width κ₀",
    "width": "learner width κ",
    "test_error": "test error",
    "above_best": "error above the best",
    "train_loss": "training loss",
}  # of choices whose word says too little


@dataclass(frozen=True, kw_only=True)
class Knob:
    """A knob: its ``name`` in the address, and the declaration of the word that it turns."""

    name: str
    problem: type[Problem]
    said: Word

    @property
    def group(self) -> str:
        """The heading it stands under."""
        return PROBLEMS[self.problem]

    @property
    def default(self) -> Value:
        """Where it stands when nobody has turned it."""
        own = self.said.default
        return DEFAULTS.get(self.name, own if isinstance(own, (float, int, str)) else str(own))

    @property
    def symbol(self) -> str:
        """The letter beside the label, without the ratio that it stands for: there is no room. Choices have words instead."""
        return "" if self.said.kind == "choice" else self.said.symbol.partition(" = ")[0]

    @property
    def slider(self) -> Slider:
        """What is sensible to drag."""
        return self.said.slider or Slider(0.0, 1.0)

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """Least and most in the explorer, where the library allows more."""
        return LIMITS.get(self.name, (None, None))

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """The words it takes, and what the page calls them."""
        return tuple((choice, TEXTS.get(choice, choice)) for choice in self.said.choices)


def _turns(said: Word) -> bool:
    """Whether a word has a knob."""
    return said.slider is not None or said.kind == "switch" or (said.kind == "choice" and len(said.choices) > 1)


def _knobs() -> dict[str, Knob]:
    found: dict[str, Knob] = {}
    for problem in PROBLEMS:
        room = problem.__module__.split(".")[1]
        for said in words_of(problem).values():
            if _turns(said):
                name = f"{room}_{said.name}" if said.name in found else said.name
                found[name] = Knob(name=name, problem=problem, said=said)
    return found


KNOBS: dict[str, Knob] = _knobs()
