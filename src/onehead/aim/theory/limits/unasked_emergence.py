"""Emergence of the unasked field, the first thing that is learned: at n ~ d samples, before the rest of the map (D4).

With n = a d samples all of the map but its row along the mean of the queries is zero. The gradient of the losses in the
field s is that of a vector regression, and the penalty of the row is λ d |s|/sqrt M. The field is zero as long as

    a² mb² G + a qb <= λ²/M,     mb = -E sum_ab de_ab/dg_b,   qb = E sum_b (sum_a e_ab)²,

with e_ab the gradient of the loss in logit ab at S = 0, whose rows a share the field g_b of the target.
"""

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.losses import SQUARED
from onehead.aim.logits.blocks import PARTS
from onehead.aim.theory.state_evolution import StateEvolution
from onehead.numerics.gaussian import sobol
from onehead.numerics.replicate_error import error_from_replicates

Array = NDArray[np.float64]

ORIGIN_LEVEL = 2  # quadrature level of the gradient of single rows at S = 0
POINTS = 14  # log2 of the points, before mirroring, over which the correlation of two rows is averaged
NUMBERS = 22  # log2 of the numbers that they may fill: longer rows have fewer points, and a larger error
LONGEST = 64  # columns of a row


def unasked_emergence(problem: StateEvolution, token_mean: float) -> tuple[float, float] | None:
    """Return n/d at which the unasked field leaves zero, and its error; None where it is not known.

    It is zero where the penalty vanishes with the square of the field (direct training) or in the limit λ → 0⁺. It is
    not known for heads that see their own logit, for losses of the user, for rows of more than `LONGEST` columns, and
    for masks in which the columns of a row are not among those of all longer ones.

    Parameters
    ----------
    problem : StateEvolution
        The equations of a head with an unasked field.
    token_mean : float
        M, squared length of the mean of the queries over d.
    """
    output, geometry = problem.output, problem.output.geometry
    longest = max(row.length for row in geometry.rows)
    if problem.sectors == 2 or geometry.unit != 1.0 or output.loss.compiled_kind is None or longest > LONGEST:
        return None
    if problem.input.degree == 2 or problem.decay == 0.0:
        return 0.0, 0.0
    if not geometry.nested:
        return None
    field = problem.directions.separate_power
    unit = output.at_origin(ORIGIN_LEVEL)
    correlations = _row_correlations(problem, longest)
    spreads = unit.q + correlations

    def root(spread: Array) -> Array:
        drive = unit.m**2 * field
        # the root of drive a² + spread a = λ²/M, in a form without cancellation
        level = problem.decay**2 / token_mean
        return np.asarray(2.0 * level / (spread + np.sqrt(spread**2 + 4.0 * drive * level)))

    ratio = float(root(spreads.mean(keepdims=True))[0])
    return ratio, float(error_from_replicates(root(spreads) - ratio))


def _row_correlations(problem: StateEvolution, longest: int) -> Array:
    """Return the sum over pairs of different rows of E sum_b e_ab e_a'b, by each independent part of the points.

    Given the field that two rows share, their labels are independent: each row is sampled with logits of its own.
    """
    output, field = problem.output, problem.directions.separate_power
    own = output.label_power - field
    points = min(POINTS, int(NUMBERS - np.log2(3 * longest)))
    nodes = sobol(3 * longest, log2_points=points, seed=0, parts=PARTS).nodes
    shared, *others = (nodes[:, k * longest : (k + 1) * longest] for k in range(3))
    total = [np.zeros_like(shared), np.zeros_like(shared)]
    same = np.zeros(len(nodes))
    for row in output.geometry.blocks:
        n, count = row.dim + 1, row.multiplicity
        gradients = []
        for k, other in enumerate(others):
            logits = np.sqrt(field) * shared[:, :n] + np.sqrt(own) * other[:, :n]
            y = np.exp(logits - logits.max(axis=1, keepdims=True))
            y /= y.sum(axis=1, keepdims=True)
            gradients.append((1.0 / n - y) * (2.0 / n if output.loss.compiled_kind == SQUARED else 1.0))
            total[k][:, :n] += count * gradients[-1]
        same += count * np.sum(gradients[0] * gradients[1], axis=1)
    pairs = np.sum(total[0] * total[1], axis=1) - same
    return np.asarray(pairs.reshape(PARTS, -1).mean(axis=1))
