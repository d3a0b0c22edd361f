"""The list of figures: what one is, where it lives, and how it is found by name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from onehead.errors import InvalidArgument
from onehead.figures.agreement import Pair
from onehead.figures.lab import Lab

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

__all__ = ["NAMES", "Drawing", "Figure", "chosen", "figure_named", "figures"]

AIM, SPARSE, OWN = "arXiv 2509.24914", "arXiv 2509.25153", "onehead"

# a name is that of its module with dashes; the order is that of the papers
NAMES = (
    "aim-learning-curve",
    "aim-factorised-direct",
    "aim-decomposition",
    "aim-power-law",
    "aim-rates",
    "aim-six-decays",
    "aim-rank",
    "aim-thresholds",
    "aim-seq2seq",
    "aim-temperatures",
    "aim-tokens",
    "aim-amp",
    "sparse-alignment",
    "sparse-errors",
    "sparse-crossing",
    "sparse-capacity",
    "sparse-long",
    "sparse-bias-rate",
    "own-best-decay",
    "own-cross-entropy",
    "own-universality",
    "own-length",
    "own-checkpoint",
)


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """What a figure module hands back: the picture, what is seen in it, and theory beside training."""

    picture: "Picture"
    caption: str
    pairs: Sequence[Pair] = field(default_factory=tuple)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure.

    ``source`` names the paper and its figure, ``seconds_quick`` and ``seconds_full`` are its shares of
    the measured times of ``figures make all`` with and without ``--quick`` on two cores, ``outliers`` says why points may lie beyond noise and finite size, where a reason is known.
    """

    name: str
    title: str
    source: str
    seconds_quick: float
    seconds_full: float
    draw: Callable[[Lab], Drawing]
    outliers: str = ""


def figure_named(name: str) -> Figure:
    """The figure of this name.

    Examples
    --------
    >>> figure_named("aim-thresholds").source
    'arXiv 2509.24914'
    """
    if name not in NAMES:
        raise InvalidArgument("figure", name, f"all or one of {', '.join(NAMES)}")
    found: Figure = import_module(f"onehead.figures.{name.replace('-', '_')}").FIGURE
    return found


def figures() -> tuple[Figure, ...]:
    """All figures in order."""
    return tuple(figure_named(name) for name in NAMES)


def chosen(names: Sequence[str]) -> tuple[Figure, ...]:
    """The figures asked for, ``all`` standing for every one; each once, in the order of the list."""
    for name in names:
        if name != "all":
            figure_named(name)
    return figures() if "all" in names else tuple(figure_named(name) for name in NAMES if name in names)
