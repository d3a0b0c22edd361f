"""Guided tours: what to look at, in order; the page sets the knobs, runs one of them, and says what is seen."""

from typing import Any, NamedTuple

from onehead.app.knobs import Value

__all__ = ["TOURS", "Step", "Tour"]


class Step(NamedTuple):
    """One thing to see: where, with which knobs, and which knob runs from where to where."""

    title: str
    text: str
    view: str
    values: dict[str, Value] = {}  # noqa: RUF012  (nobody changes it)
    runs: dict[str, tuple[float, float]] = {}  # noqa: RUF012
    recorded: str = ""  # what a page without a server says instead


class Tour(NamedTuple):
    """A named list of steps."""

    name: str
    steps: tuple[Step, ...]

    def told(self) -> dict[str, Any]:
        """As plain values for the page."""
        return {"name": self.name, "steps": [step._asdict() for step in self.steps]}


HEAD = Tour(
    "Tour: a head learns",
    (
        Step(
            "Nothing learned",
            "With hardly any samples weight decay keeps the whole map S at zero: the learner attends to every token alike, whatever "
            "the teacher looks at.",
            "head",
            {"kappa0": 0.2, "noise": 0.5, "weight_decay": 0.3, "alpha": 0.02},
        ),
        Step(
            "Features emerge",
            "As samples come in, the strongest features of the teacher rise above the threshold ε one after the other, and the learner "
            "begins to look where the teacher looks.",
            "head",
            {"kappa0": 0.2, "noise": 0.5, "weight_decay": 0.3},
            {"alpha": (0.02, 0.5)},
        ),
        Step(
            "Labels are fitted",
            "Below the interpolation threshold the head can fit every label, noise included. The dotted line marks where it no longer can.",
            "curve",
            {"noise": 1.0, "weight_decay": 0.001, "alpha_from": 0.03, "alpha_to": 4.0, "direct": False},
            {"alpha": (0.03, 0.145)},
        ),
        Step(
            "The peak",
            "Just beyond it the error goes up before it comes down: with little weight decay the head has spent its freedom on the "
            "noise of the labels. More weight decay makes the peak vanish.",
            "curve",
            {"noise": 1.0, "weight_decay": 0.001, "alpha_from": 0.03, "alpha_to": 4.0, "direct": False},
            {"alpha": (0.145, 0.28)},
        ),
        Step(
            "Recovery",
            "Without noise on the labels the error falls to nothing at a finite number of samples: the teacher's map is recovered. The "
            "dotted curve is the best that anybody could do.",
            "curve",
            {"noise": 0.0, "weight_decay": 0.001, "kappa0": 0.3, "direct": False},
            {"alpha": (0.05, 1.0)},
        ),
        Step(
            "The bulk splits",
            "With more samples still, what was learned from noise shrinks towards zero and parts from the features: two bulks, and a "
            "spectrum from which you can read how many features there are.",
            "spectrum",
            {"kappa0": 0.2, "noise": 0.1},
            {"alpha": (0.15, 1.5)},
        ),
        Step(
            "Now train it",
            "All of this was computed, not trained. Press “Train it” under the picture: real heads are trained on real samples, and their "
            "errors laid over the curve.",
            "curve",
            {"alpha": 0.5},
            recorded="All of this was computed, not trained. This page is a recording; in the explorer itself (onehead app) “Train it” stands under "
            "the picture, and real heads that are trained on real samples are laid over the curve.",
        ),
    ),
)
SPARSE = Tour(
    "Story: attention or linear?",
    (
        Step(
            "A needle in a sequence",
            "One token of ten carries a weak signal, the others are noise. Pooling averages them all and drowns it; a vectorised classifier "
            "must learn every position by itself; attention can look for it.",
            "sparse",
            {"ridge": 1e-5},
        ),
        Step(
            "Two steps find the query",
            "Attention needs a query that points along the signal. Two gradient steps on α₀ d samples turn it: too few, and it points "
            "nowhere.",
            "sparse",
            {"sparse_panel": "alignment"},
            {"alpha0": (0.1, 8.0)},
        ),
        Step(
            "A stronger signal",
            "As the signal grows, attention leaves the linear models behind: its error falls with the signal itself, theirs with the "
            "signal diluted by the length of the sequence.",
            "sparse",
            {"ridge": 1e-3},
            {"strength": (2.0, 6.0)},
        ),
        Step(
            "How much it can store",
            "Sharper attention (larger β) can separate more samples; the linear models do not care about β at all.",
            "sparse",
            {"sparse_panel": "capacity"},
            {"sparse_beta": (0.5, 12.0)},
        ),
        Step(
            "The hard phase",
            "In long sequences the best possible learner can find the signal where no quick algorithm is known to: between the dashed line "
            "and the end of the shaded part finding it is possible in principle, and hard in practice.",
            "sparse",
            {"sparse_panel": "hard-phase", "length": 300, "strength": 8.0, "alpha0": 0.0125, "alpha1": 0.0125},
        ),
    ),
)
TOURS = (HEAD, SPARSE)
