"""The knobs of the explorer, derived from the declarations of the parameters they set.

A number of `Task`, `Learner` or `Protocol` has a knob if its declaration has a slider; a choice or a switch always has
one, except one that only some functions support. Label, symbol, help text, range and bounds come from the
declaration. This module declares only the parameters of the page itself, and limits and defaults that differ from
those of the library.
"""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import model_validator

from onehead.aim.targets import MarchenkoPastur, PowerLaw
from onehead.aim.task import Learner, Ratio, Task
from onehead.errors import InvalidArgument
from onehead.fields import Parameter, Slider, parameter, parameters_of
from onehead.problem import Problem
from onehead.sparse.task import Protocol
from onehead.sparse.task import Task as SparseTask

Value = float | int | str | bool
MapParameter = Literal["alpha", "weight_decay", "noise", "kappa0", "width"]

ALPHA_BOUNDS: dict[str, Any] = dict(parameters_of(Ratio)["alpha"].bounds)


def _sample_ratio(default: float, label: str, sentence: str, low: float, high: float) -> Any:
    """Declare a sample ratio whose slider runs from ``low`` to ``high``."""
    return parameter(default, "α", sentence, label=label, slider=Slider(low, high, log=True), **ALPHA_BOUNDS)


def _integer(
    default: int, symbol: str, sentence: str, bounds: tuple[int, int], slider: tuple[int, int], label: str = ""
) -> Any:
    """Declare an integer with its bounds and the range of its slider."""
    return parameter(default, symbol, sentence, label=label, ge=bounds[0], le=bounds[1], slider=Slider(*slider, 1))


class Axis(Problem):
    """Parameters of the α axis and of the point marked on it."""

    alpha: float = _sample_ratio(
        0.5, "Sample ratio", "Samples divided by squared dimension, n/d²: the marked point.", 0.01, 10.0
    )
    alpha_from: float = _sample_ratio(0.03, "Axis from", "Left end of the α axis.", 0.01, 1.0)
    alpha_to: float = _sample_ratio(4.0, "Axis to", "Right end of the α axis.", 0.5, 20.0)

    @model_validator(mode="after")
    def _ordered(self) -> "Axis":
        if not 1.2 * self.alpha_from <= self.alpha_to <= 1e4 * self.alpha_from:
            allowed = f"between 1.2 and 10,000 times the left end, {self.alpha_from:g}"
            raise InvalidArgument("alpha_to", self.alpha_to, allowed)
        return self


class Page(Problem):
    """Parameters of the picture: what is shown, and over which axes."""

    scaling_panel: Literal["excess", "decomposition", "phase"] = parameter(
        "excess", "", "Which picture of the power-law target to show.", label="Show"
    )
    sparse_panel: Literal["error", "alignment", "capacity", "tuning", "hard-phase", "descent", "protocols"] = parameter(
        "error", "", "Which picture of the sparse-token task to show.", label="Show"
    )
    descent_step: int = _integer(
        9, "k", "Step of joint descent after which to stop: the marked point.", (1, 60), (1, 30), "Stop after step"
    )
    map_x: MapParameter = parameter("alpha", "", "Parameter on the horizontal axis.", label="Horizontal axis")
    map_y: MapParameter = parameter("weight_decay", "", "Parameter on the vertical axis.", label="Vertical axis")
    map_of: Literal["test_error", "above_best", "rank", "train_loss"] = parameter(
        "test_error", "", "Quantity shown in colour.", label="Colours"
    )
    samples: float = parameter(
        5000.0,
        "n",
        "Number of training sequences: the marked point.",
        ge=1.0,
        le=1e9,
        slider=Slider(100.0, 1e6, log=True),
    )
    details: bool = parameter(
        False, "", "Also draw the error on clean labels and the objective per sample.", label="More lines"
    )
    direct: bool = parameter(False, "S", "Also draw a head whose map S is trained directly.", label="Direct training")
    best: bool = parameter(False, "λ*", "Also draw the curve with the best λ at every α.", label="Best weight decay")


class TrainingTime(Problem):
    """Parameters of the spectrum after a finite time of gradient descent."""

    time: float = parameter(
        9.0,
        "λt",
        "Learning rate times weight decay, summed over the steps: the marked time.",
        label="Training time",
        gt=0.0,
        le=1e6,
        slider=Slider(0.1, 300.0, log=True),
    )
    start: float = parameter(
        0.1,
        "σ₀",
        "Singular value of the map at the start of training.",
        label="Start",
        gt=0.0,
        le=1e3,
        slider=Slider(1e-3, 1.0, log=True),
    )
    cut: float = parameter(
        1e-3,
        "cut",
        "Singular values above it are counted as rank.",
        label="Counted above",
        gt=0.0,
        le=1e3,
        slider=Slider(1e-8, 0.1, log=True),
    )


class Checkpoint(Problem):
    """Parameters that choose a head of a checkpoint file."""

    layer: int = _integer(0, "", "Layer of the file, counted from 0.", (0, 1000), (0, 48))
    head: int = _integer(0, "", "Head of the layer, counted from 0.", (0, 1000), (0, 32))
    heads: int = _integer(
        0, "H", "Query heads per layer; 0 takes the number from the file.", (0, 1024), (0, 64), "Query heads"
    )


class Training(Problem):
    """Parameters of the training runs drawn over the learning curve."""

    train_dim: int = _integer(50, "d", "Dimension of a token in the training runs.", (10, 200), (20, 150), "Dimension")
    train_points: int = _integer(
        6, "#α", "Number of sample ratios at which to train, spread over the axis.", (1, 20), (1, 12), "Points"
    )
    train_seeds: int = _integer(
        4, "#", "Independent runs per sample ratio; their spread gives the error bar.", (1, 20), (1, 10), "Seeds"
    )


GROUPS = {"picture": "Picture", "task": "Task", "learner": "Learner", "protocol": "Protocol", "training": "Train it"}
# problem -> its group on the page; a name that an earlier problem uses gets the package as a prefix: sparse_beta
PROBLEMS: dict[type[Problem], str] = {
    Axis: "picture",
    Page: "picture",
    TrainingTime: "picture",
    Checkpoint: "picture",
    MarchenkoPastur: "task",
    PowerLaw: "task",
    Task: "task",
    Learner: "learner",
    SparseTask: "task",
    Protocol: "protocol",
    Training: "training",
}
# bounds tighter than those of the library, so that pictures stay fast and finite
EXPLORER_LIMITS: dict[str, tuple[float | None, float]] = {
    "dim": (10, 1000), "length": (None, 1000), "strength": (None, 100),
    "sparse_beta": (None, 1e3), "eta_b": (None, 1e3), "eta_q": (-1e3, 1e3),
}  # fmt: skip
# knobs folded away under "More"
RARELY_USED = (
    "alpha_from", "alpha_to", "details", "direct", "best", "beta0", "unasked", "aim_heads", "sharing", "width", "param",
    "beta", "loss", "branch", "positive_rate", "eta_w", "eta_b", "eta_q", "ridge_query",
    "sparse_loss",
)  # fmt: skip
EXPLORER_DEFAULTS: dict[str, Value] = {"dim": 100}  # the library's 200 are too slow for a slider
CHOICE_LABELS = {
    "excess": "excess and exponent",
    "phase": "phase diagram",
    "error": "test error",
    "alignment": "alignment of the query",
    "hard-phase": "hard phase",
    "descent": "joint descent",
    "protocols": "split, reuse or joint",
    "label": "near the label",
    "global": "lowest",
    "tied": "query = key (tied)",
    "self": "self-attention",
    "cross": "cross-attention",
    "none": "none (all tokens)",
    "causal": "causal",
    "strict": "strict (earlier only)",
    "soft": "soft (weights)",
    "hard": "hard (one token)",
    "factorised": "factorised (W)",
    "direct": "direct (S)",
    "alpha": "sample ratio α",
    "weight_decay": "weight decay λ",
    "noise": "noise Δ",
    "kappa0": "target width κ₀",
    "width": "learner width κ",
    "test_error": "test error",
    "above_best": "error above the best",
    "train_loss": "training loss",
}  # labels on the page of choices that do not explain themselves


@dataclass(frozen=True, kw_only=True)
class Knob:
    """A knob: its ``name`` in the address of the page, and the declaration of the ``parameter`` that it sets."""

    name: str
    problem: type[Problem]
    parameter: Parameter

    @property
    def group(self) -> str:
        """The group of knobs that it belongs to, a key of ``GROUPS``."""
        return PROBLEMS[self.problem]

    @property
    def default(self) -> Value:
        """The value of the knob on a page whose address does not set it."""
        own = self.parameter.default
        return EXPLORER_DEFAULTS.get(self.name, own if isinstance(own, (float, int, str)) else str(own))

    @property
    def symbol(self) -> str:
        """The symbol beside the label, without its definition (α, not α = n/d²); empty for a choice."""
        return "" if self.parameter.kind == "choice" else self.parameter.symbol.partition(" = ")[0]

    @property
    def slider(self) -> Slider:
        """The range of the slider."""
        return self.parameter.slider or Slider(0.0, 1.0)

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """Lower and upper bound in the explorer, where tighter than in the library; None where not."""
        return EXPLORER_LIMITS.get(self.name, (None, None))

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """The values of a choice, each with its label on the page."""
        return tuple((choice, CHOICE_LABELS.get(choice, choice)) for choice in self.parameter.choices)


def _has_knob(declared: Parameter) -> bool:
    """Return whether a parameter has a knob."""
    several = declared.kind == "choice" and len(declared.choices) > 1 and not declared.verbs
    return declared.slider is not None or (declared.kind == "switch" and not declared.verbs) or several


def _knobs() -> dict[str, Knob]:
    found: dict[str, Knob] = {}
    for problem in PROBLEMS:
        package = problem.__module__.split(".")[1]
        for declared in parameters_of(problem).values():
            if _has_knob(declared):
                name = f"{package}_{declared.name}" if declared.name in found else declared.name
                found[name] = Knob(name=name, problem=problem, parameter=declared)
    return found


KNOBS: dict[str, Knob] = _knobs()
