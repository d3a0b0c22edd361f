"""Guided tours: lists of steps, each of which sets knobs, may move one of them, and explains the picture."""

from typing import Any, NamedTuple

from onehead.app.knobs import Value
from onehead.app.presets import JOINT, TWO_HEADS


class Step(NamedTuple):
    """One step of a tour: a view, the values of its knobs, and a knob that is moved from one value to another.

    ``highlight`` names an element of the page that the text speaks of; knobs that move are highlighted too.
    """

    title: str
    text: str
    view: str
    values: dict[str, Value] = {}  # noqa: RUF012  (it is never changed)
    runs: dict[str, tuple[float, float]] = {}  # noqa: RUF012
    recorded: str = ""  # the text on a page without a server
    highlight: str = ""


class Tour(NamedTuple):
    """A named list of steps."""

    name: str
    steps: tuple[Step, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the tour as plain values for the page."""
        return {"name": self.name, "steps": [step._asdict() for step in self.steps]}


HEAD = Tour(
    "Tour: a head learns",
    (
        Step(
            "Nothing learned",
            "With very few samples, weight decay keeps the whole map S at zero: the learner attends to all tokens "
            "equally, whatever the teacher attends to.",
            "head",
            {"kappa0": 0.2, "noise": 0.5, "weight_decay": 0.3, "alpha": 0.02},
        ),
        Step(
            "Features emerge",
            "As samples come in, the strongest features of the teacher rise above the threshold ε one after another, "
            "and the learner begins to attend to the same tokens as the teacher.",
            "head",
            {"kappa0": 0.2, "noise": 0.5, "weight_decay": 0.3},
            {"alpha": (0.02, 0.5)},
        ),
        Step(
            "Labels are fitted",
            "Below the interpolation threshold the head can fit every label, noise included. The dotted line marks "
            "where it no longer can.",
            "curve",
            {"noise": 1.0, "weight_decay": 0.001, "alpha_from": 0.03, "alpha_to": 4.0, "direct": False},
            {"alpha": (0.03, 0.145)},
        ),
        Step(
            "The peak",
            "Just beyond it the error rises before it falls: with little weight decay the head has spent its capacity "
            "on the noise of the labels. More weight decay removes the peak.",
            "curve",
            {"noise": 1.0, "weight_decay": 0.001, "alpha_from": 0.03, "alpha_to": 4.0, "direct": False},
            {"alpha": (0.145, 0.28)},
        ),
        Step(
            "Recovery",
            "Without noise on the labels the error reaches zero at a finite number of samples: the teacher's map is "
            "recovered. The dotted curve is the lowest error that any learner can reach.",
            "curve",
            {"noise": 0.0, "weight_decay": 0.001, "kappa0": 0.3, "direct": False},
            {"alpha": (0.05, 1.0)},
        ),
        Step(
            "The bulk splits",
            "With even more samples, what was learned from noise shrinks towards zero and separates from the "
            "features: the spectrum has two bulks, and you can read off how many features there are.",
            "spectrum",
            {"kappa0": 0.1},
            {"alpha": (0.1, 0.5)},
        ),
        Step(
            "Now train it",
            "All of this was computed, not trained. Press “Train it” under the picture: heads are trained on sampled "
            "data, and their errors are drawn over the curve.",
            "curve",
            {"alpha": 0.5},
            highlight="train",
            recorded="All of this was computed, not trained. This page is a recording; in the explorer itself "
            "(onehead app) the button “Train it” "
            "trains heads on sampled data and draws their errors over the curve.",
        ),
    ),
)
SPARSE = Tour(
    "Story: attention or linear?",
    (
        Step(
            "A needle in a sequence",
            "One token of ten carries a weak signal, the others are noise. Pooling averages over all of them and "
            "dilutes the signal; a vectorised classifier must learn every position separately; attention can search "
            "for it.",
            "sparse",
            {"ridge": 1e-5},
        ),
        Step(
            "Two steps find the query",
            "Attention needs a query that points along the signal. Two gradient steps on α₀ d samples align it; with "
            "too few samples it stays random.",
            "sparse",
            {"sparse_panel": "alignment"},
            {"alpha0": (0.1, 8.0)},
        ),
        Step(
            "A stronger signal",
            "As the signal grows, attention outperforms the linear models: its error depends on the signal itself, "
            "theirs on the signal diluted by the length of the sequence.",
            "sparse",
            {"ridge": 1e-3},
            {"strength": (2.0, 6.0)},
        ),
        Step(
            "How much it can store",
            "Sharper attention (larger β) can separate more samples; the capacity of the linear models does not "
            "depend on β.",
            "sparse",
            {"sparse_panel": "capacity"},
            {"sparse_beta": (0.5, 12.0)},
        ),
        Step(
            "Train it jointly, and stop in time",
            "Query, readout and bias can also descend together, always on the same samples. The test error passes "
            "through a minimum; afterwards the query turns away from the signal (below) while the training error still "
            "falls: it overfits. The theory knows in advance where to stop.",
            "sparse",
            {"sparse_panel": "descent", **JOINT},
            {"descent_step": (1, 15)},
        ),
        Step(
            "The split is what costs",
            "The same number of samples, used in five ways. Both stages on all samples do better than a part each, and "
            "joint descent stopped early comes closest to the best possible learner (dotted). The joint minimum has "
            "overfitted its query; one-pass SGD at these rates would need more samples.",
            "sparse",
            {"sparse_panel": "protocols", **JOINT},
        ),
        Step(
            "The hard phase",
            "In long sequences the best possible learner finds the signal where no fast algorithm is known to: in the "
            "shaded range this is possible in principle and hard in practice.",
            "sparse",
            {"sparse_panel": "hard-phase", "length": 300, "strength": 8.0, "alpha0": 0.0125, "alpha1": 0.0125},
        ),
    ),
)
SEVERAL = Tour(
    "Story: heads that share values",
    (
        Step(
            "Two heads, values of their own",
            "Two heads add to one output. Their values point in different directions, so each can be read off the "
            "output: every head learns as if it were alone, with all samples, and the errors add up.",
            "curve",
            {**TWO_HEADS, "sharing": 0.0},
            highlight="knob-aim_heads",
        ),
        Step(
            "Some of it shared",
            "With overlap ρ = 0.5 a part of the output no longer tells which head it came from. The dashed curve is "
            "that of heads with values of their own; the distance is what sharing costs.",
            "curve",
            {**TWO_HEADS, "sharing": 0.5},
            highlight="knob-sharing",
        ),
        Step(
            "Most of it shared",
            "With ρ = 0.8 the cost is larger: at α = 1 the test error is 0.24 in place of 0.21. With many samples the "
            "heads come apart, and the curves meet.",
            "curve",
            {**TWO_HEADS, "sharing": 0.8},
            highlight="knob-sharing",
        ),
    ),
)
TOURS = (HEAD, SPARSE, SEVERAL)
