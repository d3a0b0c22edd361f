"""Arguments that the compiled sums share: groups of arrays and numbers, integer modes, and their numba types.

Every kernel takes a run of slices of the nodes and fills one row of ``out`` per slice. The sums of a slice do not
depend on the number of threads, and one call per thread covers many slices, because a call costs as much as hundreds of
nodes. Kernels unpack the groups once, at the top: taking an array out of a tuple inside a loop counts references
atomically, which costs more than the arithmetic.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numba import float64, int64, types
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Branch(IntEnum):
    """Minimum of the proximal objective that a sum uses (2.7)."""

    LABEL = 0  # the minimum that Newton's method reaches from the label
    COUNT = 1  # the same minimum; the share of samples with a lower one is counted
    GLOBAL = 2  # the lowest minimum found


class Detail(IntEnum):
    """Averages that a sum fills, each level with those before it (2.2)."""

    STEIN = 0  # those of the Stein forms
    DERIVATIVE = 1  # traces of the derivatives of the proximal operator
    FULL = 2  # tr K², which the replicon needs


class Start(IntEnum):
    """Where Newton's method starts, and whether the proximal points are stored."""

    LABEL = 0  # at the label; nothing is stored
    KEEP = 1  # at the label; the points are stored
    WARM = 2  # at the points stored before, which are replaced


class Modes(NamedTuple):
    """Integer modes of a sum: members of `Branch`, `Detail` and `Start` as plain integers, then flags 0 or 1.

    ``hard``: every label is one token, sampled from the target's softmax (U7). ``use_stein_controls``: fill the control
    variates that are Stein combinations of the proximal point. ``all_controls``: fill every control variate and not
    only the basic ones.
    """

    branch: int = 0
    detail: int = 0
    start: int = 0
    hard: int = 0
    use_stein_controls: int = 0
    all_controls: int = 0


class Nodes(NamedTuple):
    """Quadrature nodes: normals of the label and of the independent part of the learner, weights, and stored proximal
    points.
    """

    label: Array
    free: Array
    weights: Array
    warm_points: Array


class Scaling(NamedTuple):
    """How nodes become logits: u* = label_root * label node, v = slope * u* + free_root * free node; ``sigma`` is the
    proximal step.
    """

    label_root: float
    slope: float
    free_root: float
    sigma: float = 0.0


class LogitState(NamedTuple):
    """Power Q of the labels, overlaps q and m, and Sigma, per unit of variance of a logit."""

    Q: float
    q: float
    m: float
    sigma: float


class BlockArrays(NamedTuple):
    """Arrays of a `onehead.aim.logits.blocks.Block`: coordinate seen by row and column, C^-1, and conditional means
    of the starts.
    """

    select: NDArray[np.int64]
    metric: Array
    conditional_means: Array


class Slices(NamedTuple):
    """A run of slices, ``first`` <= slice < ``last``, of ``length`` nodes each."""

    length: int
    first: int
    last: int


VECTOR = types.Array(float64, 1, "C")
MATRIX = types.Array(float64, 2, "C")
INDICES = types.Array(int64, 2, "C")
NODES = types.NamedTuple((MATRIX, MATRIX, VECTOR, MATRIX), Nodes)
BLOCK = types.NamedTuple((INDICES, MATRIX, types.Array(float64, 3, "C")), BlockArrays)
MODES = types.NamedUniTuple(int64, len(Modes._fields), Modes)
SCALING = types.NamedUniTuple(float64, len(Scaling._fields), Scaling)
STATE = types.NamedUniTuple(float64, len(LogitState._fields), LogitState)
SLICES = types.NamedUniTuple(int64, len(Slices._fields), Slices)
