"""The knobs of the explorer: one per word of the library, with its symbol, its help and its range.

The range of a slider is what is sensible to drag; what may be typed is what the library allows, and the check is the
library's own.
"""

from dataclasses import dataclass
from typing import Literal

__all__ = ["GROUPS", "KNOBS", "Knob"]

Kind = Literal["number", "integer", "choice", "switch"]

GROUPS = {
    "picture": "Picture",
    "task": "Task",
    "learner": "Learner",
    "protocol": "Protocol",
    "training": "Train it",
}


@dataclass(frozen=True, kw_only=True)
class Knob:
    """One knob: ``name`` in the address, ``word`` in the library, ``symbol`` on paper."""

    name: str
    label: str
    symbol: str
    help: str
    group: str
    default: float | int | str | bool
    kind: Kind = "number"
    word: str = ""
    low: float = 0.0
    high: float = 1.0
    step: float = 0.01
    log: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    least: float | None = None
    most: float | None = None
    limit_word: bool = False

    @property
    def field(self) -> str:
        """The argument of the library that this knob sets."""
        return self.word or self.name


def _scale(name: str, label: str, symbol: str, text: str, group: str, default: float, low: float, high: float) -> Knob:
    """A knob on a logarithmic scale."""
    return Knob(
        name=name, label=label, symbol=symbol, help=text, group=group, default=default, low=low, high=high, log=True
    )


_ALL = (
    _scale(
        "alpha",
        "Sample ratio",
        "α",
        "Samples over squared dimension, n/d²; the marked point.",
        "picture",
        0.5,
        0.01,
        10.0,
    ),
    _scale("alpha_from", "Axis from", "α", "Left end of the α axis.", "picture", 0.03, 0.01, 1.0),
    _scale("alpha_to", "Axis to", "α", "Right end of the α axis.", "picture", 4.0, 0.5, 20.0),
    Knob(
        name="direct",
        label="Direct training",
        symbol="S",
        help="Draw also the head whose map S is trained itself.",
        group="picture",
        kind="switch",
        default=True,
    ),
    Knob(
        name="best",
        label="Best weight decay",
        symbol="λ*",
        help="Draw also the curve with the best λ at every α.",
        group="picture",
        kind="switch",
        default=False,
    ),
    _scale("kappa0", "Target width", "κ₀", "Width of the target over d; its rank below 1.", "task", 0.5, 0.02, 5.0),
    Knob(
        name="noise",
        label="Noise",
        symbol="Δ",
        help="Variance of the noise on the labels before the softmax.",
        group="task",
        default=0.5,
        high=3.0,
        step=0.01,
    ),
    Knob(
        name="tokens",
        label="Tokens",
        symbol="T",
        help="Tokens in a sequence.",
        group="task",
        kind="integer",
        default=2,
        low=2,
        high=8,
        step=1,
    ),
    _scale("beta0", "Target temperature", "β₀", "Inverse temperature of the target's softmax.", "task", 1.0, 0.1, 10.0),
    Knob(
        name="weight_decay",
        label="Weight decay",
        symbol="λ",
        help="Penalty λ d Tr S; type 0+ for the limit λ → 0⁺.",
        group="learner",
        default=0.01,
        low=1e-4,
        high=3.0,
        log=True,
        limit_word=True,
    ),
    _scale(
        "width",
        "Learner width",
        "κ",
        "Width of the learner over d; 1 and more leave the rank free.",
        "learner",
        1.0,
        0.05,
        2.0,
    ),
    _scale("beta", "Temperature", "β", "Inverse temperature of the learner's softmax.", "learner", 1.0, 0.1, 10.0),
    Knob(
        name="loss",
        label="Loss",
        symbol="ℓ",
        help="What is minimised on the training set.",
        group="learner",
        kind="choice",
        default="squared",
        choices=(("squared", "squared"), ("cross-entropy", "cross-entropy")),
    ),
    Knob(
        name="param",
        label="Parameters",
        symbol="W or S",
        help="Train the factor W, or the map S itself.",
        group="learner",
        kind="choice",
        default="factorised",
        choices=(("factorised", "factorised"), ("direct", "direct")),
    ),
    Knob(
        name="branch",
        label="Branch",
        symbol="prox",
        help="Which minimum to follow where the output layer has several.",
        group="learner",
        kind="choice",
        default="label",
        choices=(("label", "near the label"), ("global", "lowest")),
    ),
    Knob(
        name="scaling_panel",
        label="Show",
        symbol="",
        help="Which picture of the power-law target.",
        group="picture",
        kind="choice",
        default="excess",
        choices=(
            ("excess", "excess error and exponent"),
            ("decomposition", "decomposition"),
            ("phase", "phase diagram"),
        ),
    ),
    _scale("gamma", "Power", "γ", "Eigenvalue i of the target falls as i^(-γ).", "task", 0.75, 0.3, 3.0),
    Knob(
        name="dim",
        label="Dimension",
        symbol="d",
        help="Dimension of a token, for power-law targets.",
        group="task",
        kind="integer",
        default=100,
        low=20,
        high=500,
        step=1,
        log=True,
        least=10,
        most=1000,
    ),
    _scale("samples", "Samples", "n", "Training sequences; the marked point.", "picture", 5000.0, 100.0, 1e6),
    Knob(
        name="sparse_panel",
        label="Show",
        symbol="",
        help="Which picture of the sparse-token task.",
        group="picture",
        kind="choice",
        default="error",
        choices=(
            ("error", "test error of three models"),
            ("alignment", "alignment of the query"),
            ("capacity", "capacity"),
            ("tuning", "tuning"),
        ),
    ),
    Knob(
        name="length",
        label="Length",
        symbol="L",
        help="Tokens in a sequence.",
        group="task",
        kind="integer",
        default=10,
        low=2,
        high=100,
        step=1,
        log=True,
        most=1000,
    ),
    Knob(
        name="signal_tokens",
        label="Signal tokens",
        symbol="R",
        help="Tokens of a positive sequence that carry the signal.",
        group="task",
        kind="integer",
        default=1,
        low=1,
        high=20,
        step=1,
    ),
    Knob(
        name="strength",
        label="Strength",
        symbol="θ",
        help="Size of the signal in a token that carries it.",
        group="task",
        default=5.0,
        high=12.0,
        step=0.05,
        most=100.0,
    ),
    Knob(
        name="positive_rate",
        label="Positive rate",
        symbol="π",
        help="Share of positive samples.",
        group="task",
        default=0.5,
        low=0.05,
        high=0.95,
    ),
    _scale("alpha0", "Query samples", "α₀", "Samples for the query over d, n₀/d.", "protocol", 1.0, 0.1, 20.0),
    _scale("alpha1", "Readout samples", "α₁", "Samples for the readout over d, n₁/d.", "protocol", 1.0, 0.1, 20.0),
    Knob(
        name="sparse_beta",
        word="beta",
        label="Temperature",
        symbol="β",
        help="Inverse temperature of the attention.",
        group="protocol",
        default=8.0,
        high=30.0,
        step=0.1,
        most=1e3,
    ),
    Knob(
        name="ridge",
        label="Ridge",
        symbol="λ",
        help="Penalty of the readout; 0 is the limit from above.",
        group="protocol",
        default=1e-3,
        low=1e-6,
        high=10.0,
        log=True,
        limit_word=True,
    ),
    _scale("eta_w", "Readout rate", "η_w", "Rate of the readout's first step.", "protocol", 0.5, 0.01, 10.0),
    Knob(
        name="eta_b",
        label="Bias rate",
        symbol="η_b",
        help="Rate of the bias' first step.",
        group="protocol",
        default=0.5,
        high=10.0,
        step=0.05,
        most=1e3,
    ),
    Knob(
        name="eta_q",
        label="Query rate",
        symbol="η_q",
        help="Rate of the query's step; its sign turns the query round.",
        group="protocol",
        default=1.0,
        low=-3.0,
        high=3.0,
        step=0.05,
        least=-1e3,
        most=1e3,
    ),
    Knob(
        name="sparse_loss",
        word="loss",
        label="Loss",
        symbol="ℓ",
        help="Loss of the readout.",
        group="protocol",
        kind="choice",
        default="logistic",
        choices=(("logistic", "logistic"), ("square", "square"), ("hinge", "hinge")),
    ),
    Knob(
        name="layer",
        label="Layer",
        symbol="",
        help="Which layer of the file, from 0.",
        group="picture",
        kind="integer",
        default=0,
        low=0,
        high=48,
        step=1,
        least=0,
        most=1000,
    ),
    Knob(
        name="head",
        label="Head",
        symbol="",
        help="Which head of the layer, from 0.",
        group="picture",
        kind="integer",
        default=0,
        low=0,
        high=32,
        step=1,
        least=0,
        most=1000,
    ),
    Knob(
        name="heads",
        label="Query heads",
        symbol="H",
        help="Heads per layer, if the file does not say; 0 to look it up.",
        group="task",
        kind="integer",
        default=0,
        low=0,
        high=64,
        step=1,
        least=0,
        most=1024,
    ),
    Knob(
        name="train_dim",
        word="dim",
        label="Dimension",
        symbol="d",
        help="Dimension of a token in the real run.",
        group="training",
        kind="integer",
        default=50,
        low=20,
        high=150,
        step=1,
        least=10,
        most=200,
    ),
    Knob(
        name="train_points",
        label="Points",
        symbol="#α",
        help="Sample ratios at which to train, spread over the axis.",
        group="training",
        kind="integer",
        default=6,
        low=1,
        high=12,
        step=1,
        least=1,
        most=20,
    ),
    Knob(
        name="train_seeds",
        word="seeds",
        label="Seeds",
        symbol="#",
        help="Independent runs per point; their spread is the error bar.",
        group="training",
        kind="integer",
        default=4,
        low=1,
        high=10,
        step=1,
        least=1,
        most=20,
    ),
)

KNOBS: dict[str, Knob] = {knob.name: knob for knob in _ALL}
