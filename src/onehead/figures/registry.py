"""Registry of the figures: name, title, source and measured times of each, and lookup by name."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from onehead.errors import InvalidArgument
from onehead.figures.agreement import Pair
from onehead.figures.data_source import DataSource

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

SOURCES = {"aim": "arXiv 2509.24914", "sparse": "arXiv 2509.25153", "own": "onehead"}


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Result of the function ``draw`` of a figure module: picture, caption, and pairs of theory and training."""

    picture: "Picture"
    caption: str
    pairs: Sequence[Pair] = field(default_factory=tuple)


@dataclass(frozen=True)
class Figure:
    """Entry of the registry; "aim-learning-curve", for example, is drawn by ``onehead.figures.aim.learning_curve``.

    ``seconds_quick`` and ``seconds_full`` are its shares of the measured times of ``figures make all`` with and without
    ``--quick`` on two cores. ``number`` is the number of the figure in the paper, None if it is not one of its numbered
    figures.
    """

    name: str
    title: str
    seconds_quick: float
    seconds_full: float
    number: int | None = None

    @property
    def source(self) -> str:
        """The paper and the number of the figure in it."""
        paper = SOURCES[self.name.partition("-")[0]]
        return paper if self.number is None else f"{paper}, Figure {self.number}"

    @property
    def known_deviation(self) -> str:
        """Why points may deviate by more than noise and finite size; empty if no reason is known."""
        return KNOWN_DEVIATIONS.get(self.name, "")

    def draw(self, source: DataSource) -> Drawing:
        """Compute or load the numbers of the figure and draw them."""
        folder, _, module = self.name.partition("-")
        drawing: Drawing = import_module(f"onehead.figures.{folder}.{module.replace('-', '_')}").draw(source)
        return drawing


# in the order of the papers
FIGURES = (
    Figure(
        "aim-learning-curve",
        "Learning curve at widths 0.75 and 1, and four spectra of the trained map",
        30.8,
        1210.0,
        1,
    ),
    Figure("aim-factorised-direct", "Factorised against direct training, each at its best weight decay", 11.2, 51.0, 2),
    Figure(
        "aim-decomposition", "Parts of the excess error, and the regions of the spectrum they come from", 17.1, 610.0, 3
    ),
    Figure(
        "aim-power-law",
        "Power-law targets: excess error at three weight decays, exponents, heavy-tailed spectra",
        16.6,
        393.0,
        4,
    ),
    Figure("aim-rates", "Rate diagram: local exponents over samples and weight decay", 3.7, 18.0, 5),
    Figure("aim-six-decays", "Six weight decays: interpolation peak and training loss", 58.4, 1289.0),
    Figure("aim-rank", "Rank of the trained map and mass of its upper bulk", 26.9, 509.0),
    Figure("aim-thresholds", "Thresholds against the width of the target, with the Bayes-optimal line", 1.7, 8.0),
    Figure("aim-seq2seq", "Sequence-to-sequence training against labels", 5.0, 91.0),
    Figure("aim-temperatures", "Temperatures 0.5, 1 and 2", 15.2, 290.0),
    Figure("aim-tokens", "T = 2, 3, 5 collapsed in α (T² + T - 2)/2", 12.8, 241.0),
    Figure("aim-amp", "Message passing against its state evolution", 5.6, 142.0),
    Figure("sparse-alignment", "Alignment of the query with the signal against α₀", 2.6, 23.0),
    Figure("sparse-errors", "Test and training error of the three models against α", 4.7, 67.0, 1),
    Figure("sparse-crossing", "Test error against alignment, and where attention loses", 4.6, 65.0),
    Figure("sparse-capacity", "Capacity against alignment and sharpness, with linear-programming points", 9.7, 73.0),
    Figure("sparse-long", "Long sequences separate attention from linear models", 9.9, 37.0),
    Figure("sparse-bias-rate", "The bias-rate landscape, with the anti-aligned region", 5.4, 58.0),
    Figure("own-best-decay", "Best weight decay against α for both parameterisations", 7.7, 62.0),
    Figure("own-best-possible", "How far tuned weight decay is from the best possible learner", 60.0, 240.0),
    Figure("own-bayes-amp", "Message passing of the best possible learner on real samples", 20.0, 120.0),
    Figure("own-cross-entropy", "Learning curve with cross-entropy", 6.1, 92.0),
    Figure(
        "own-power-laws",
        "Power laws with Gaussian logits, with leading directions averaged exactly, and trained",
        60.0,
        400.0,
    ),
    Figure("own-universality", "Universality: five laws of tokens", 15.4, 175.0),
    Figure("own-length", "Length generalisation: longer sequences than trained on", 4.3, 47.0),
    Figure("own-heads", "Tied, self- and cross-attention against samples per informative combination", 32.0, 180.0),
    Figure("own-heads-spectra", "Singular values of untied heads: cross, causal self, hard labels", 3.0, 52.0),
    Figure("own-hard-labels", "Soft against hard labels, and the separability threshold", 5.0, 148.0),
    Figure("own-many-tokens", "Many tokens: effect of the length with soft and hard labels", 32.0, 400.0),
    Figure("own-sectors", "Symmetric and antisymmetric part of a self-attention map", 4.0, 73.0),
    Figure("own-shared-values", "Two heads that share values: error, data multiple, and the hard window", 12.0, 45.0),
    Figure("own-survivors", "Superfluous heads: which survive weight decay", 7.0, 25.0),
    Figure("own-training-time", "Singular values fade with training time, without a break", 8.0, 25.0),
    Figure("own-token-mean", "Tokens with a mean: what it costs, when it is learned, its outlier", 15.4, 29.3),
    Figure("own-token-covariance", "Tokens with a covariance: test error and rank", 5.1, 5.1),
    Figure("own-hard-phase", "Long sequences: where finding the signal is impossible, hard or easy", 9.6, 57.0),
    Figure("own-sparse-gap", "Two-step attention compared with the best possible learner", 19.6, 100.0),
    Figure("own-joint-steps", "Joint descent of sparse tokens: errors after every step, and where to stop", 3.0, 36.0),
    Figure("own-joint-protocols", "Split, reused or joint: five protocols and the best possible learner", 17.0, 130.0),
    Figure("own-long-alignment", "Alignment of sequences as long as the dimension", 2.4, 36.0),
    Figure("own-checkpoint", "Heads of a real checkpoint compared with the laws of trained heads", 8.1, 47.0),
)
NAMES = tuple(figure.name for figure in FIGURES)

FEW_EIGENVALUES = (
    "finite size with only κ₀ d = 3 target eigenvalues; the gap was 20 % at d = 40, 11 % at 80 and 1 % at 160"
)
VARYING_QUERY = "the query varies between trials at finite d, and the error is convex in its alignment"
# known reasons why points of a figure deviate by more than noise and finite size
KNOWN_DEVIATIONS = {
    "aim-factorised-direct": FEW_EIGENVALUES,
    "aim-six-decays": "small λ near the interpolation peak: the proximal operator jumps there, both branches of the "
    "theory are approximate, and the training loss converges slowly in d (12 % at λ = 1e-5 and d = 100)",
    "aim-seq2seq": "sequence losses feel X X'/d away from the identity, a correction of order 1/sqrt(d) to each sample",
    "aim-temperatures": "β = 2 with noise at α = 0.8 lies on the interpolation peak, where both branches of the "
    "theory are approximate",
    "aim-tokens": "at small α training lies above theory at finite d, as in the paper; 0.36 is close to recovery, a "
    "transition rounded at finite d",
    "sparse-errors": "at small α the spread of the alignment between trials raises the mean error, a convex "
    "function of it",
    "sparse-capacity": "the transition is wide at finite d and shifts its middle by a few percent",
    "sparse-bias-rate": VARYING_QUERY,
    "own-best-decay": FEW_EIGENVALUES,
    "own-bayes-amp": "finite size, about 4.5/d: the gap was 7 % at d = 60, 4 % at 120 and 2 % at 240",
    "own-universality": "the squared length of tokens with heavy tails or many zeros is far from Gaussian at this d",
    "own-length": VARYING_QUERY,
    "own-long-alignment": "corrections of order 1/√d to the alignment of a single sample",
}


def figure_named(name: str) -> Figure:
    """Return the figure of this name, or raise InvalidArgument if there is none.

    Examples
    --------
    >>> figure_named("aim-thresholds").source
    'arXiv 2509.24914'
    """
    if name not in NAMES:
        raise InvalidArgument("figure", name, f"all or one of {', '.join(NAMES)}", NAMES)
    return FIGURES[NAMES.index(name)]


def figures() -> tuple[Figure, ...]:
    """Return all figures in order."""
    return FIGURES


def total_minutes(*, quick: bool) -> int:
    """Return the minutes that all figures take on two cores, from the times of the registry.

    Examples
    --------
    >>> total_minutes(quick=True) < total_minutes(quick=False)
    True
    """
    return round(sum(one.seconds_quick if quick else one.seconds_full for one in FIGURES) / 60.0)


def select_figures(names: Sequence[str]) -> tuple[Figure, ...]:
    """Return the figures of these names in the order of the registry, without repetition.

    ``all`` selects every figure.
    """
    wanted = {figure_named(name) for name in names if name != "all"}
    return FIGURES if "all" in names else tuple(figure for figure in FIGURES if figure in wanted)
