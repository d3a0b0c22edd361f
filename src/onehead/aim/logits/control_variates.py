"""Control variates: functions of a row with exactly known means, which correct averages over sampled points (L6).

They are averages over a softmax (L3) and Stein combinations: for any f_b that does not change when a constant is added
to all logits,

    E sum_b [ t_b f_b - Q_b df_b/dt_b - m_b df_b/dh_b ] = 0,        E sum_b [ h_b f_b - m_b df_b/dt_b - q_b df_b/dh_b ]
    = 0,

where t are the logits of the label, h those of the learner on a fresh sample, and Q_b, q_b, m_b their variances and
covariance.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.control_variates import (
    BASIC_CONTROLS,
    CONTROL_COUNT,
    QUARTIC_CONTROLS,
    STEIN_AVERAGES,
    STEIN_FIELDS,
    ZERO_MEAN_CONTROLS,
)
from onehead.aim.logits.softmax_row import SoftmaxRow

ENOUGH = 12  # pairs of points per control variate; with fewer only the basic ones are used
NORMAL_QUARTIC_MEANS = np.array([3.0, 0.0, 1.0, 0.0, 3.0])  # means of the quartic control variates of one logit

RIDGE = 1e-9  # added to the correlations of the control variates
WIDEST = 25.0  # variance of logits up to which averages over their softmax are fast

Array = NDArray[np.float64]


def has_enough_points(points: int) -> bool:
    """Whether this number of points, mirror images included, is enough to fit all control variates."""
    return points >= 2 * ENOUGH * CONTROL_COUNT


def apply_controls(sums: Array, means: Array, along: Sequence[int] = STEIN_AVERAGES) -> Array:
    """Return averages in slices and the largest gradient entry, corrected by the deviation of the control variates from
    their ``means``.
    """
    count = (sums.shape[1] - 1 - CONTROL_COUNT - CONTROL_COUNT**2) // (1 + CONTROL_COUNT)
    totals = sums.sum(axis=0)
    averages, (mean, *_) = totals[:count], np.split(totals[count + 1 :], [CONTROL_COUNT])
    square = totals[count + 1 + CONTROL_COUNT :][: CONTROL_COUNT**2].reshape(CONTROL_COUNT, CONTROL_COUNT)
    square = np.tril(square) + np.tril(square, -1).T
    mixed = totals[count + 1 + CONTROL_COUNT + CONTROL_COUNT**2 :].reshape(count, CONTROL_COUNT)
    covariance, shared = square - np.outer(mean, mean), mixed - np.outer(averages, mean)
    scale = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    # leave out control variates that do not vary or whose mean is unknown
    used = (scale > 1e-9 * np.sqrt(np.diag(square)) + 1e-300) & np.isfinite(means)
    fresh = used & (np.arange(CONTROL_COUNT) >= ZERO_MEAN_CONTROLS)
    others = [place for place in range(count) if place not in along]
    slopes = np.zeros((count, CONTROL_COUNT))
    for which, known in ((others, used), (list(along), fresh)):
        unit = covariance[np.ix_(known, known)] / np.outer(scale[known], scale[known])
        unit += RIDGE * np.eye(int(known.sum()))
        found = np.linalg.solve(unit, (shared[np.ix_(which, known)] / scale[known]).T).T / scale[known]
        slopes[np.ix_(which, known)] = found
    controls = sums[:, count + 1 : count + 1 + CONTROL_COUNT][:, used] - means[used] / len(sums)
    return np.hstack([sums[:, :count] - controls @ slopes[:, used].T, sums[:, [count]]])


def control_means(row: SoftmaxRow) -> Array:
    """Return the exact means of the control variates of a row (2.9, L3); NaN where one costs more than the average it
    corrects.

    The column of a sampled label is column b with probability y_b.
    """
    own = (row.pp, row.py, row.pl, row.ph, row.log_z) if row.widest < WIDEST else 5 * (np.nan,)
    pp, py, pl, ph, log_z = own
    fresh = (pp, row.yy, py, pl, ph, row.yl, row.yh, log_z, row.log_z_label)
    fourth = quartic_control_means(
        np.repeat([column.Q for column in row.columns], [column.count for column in row.columns])
    )
    return np.array(
        [*ZERO_MEAN_CONTROLS * [0.0], *fresh, row.yy, py, row.yl, row.yh, 1.0, *fourth, *2 * STEIN_FIELDS * [0.0]]
    )


def quartic_control_means(variances: Array) -> Array:
    """Return the means of the quartic control variates of logits of these variances, measured from their weighted
    mean.
    """
    share = 1.0 / variances
    return float(np.sum((1.0 - share / share.sum()) ** 2)) * NORMAL_QUARTIC_MEANS


def control_means_of_rows(one: Array, rows: int, fourth: Array) -> Array:
    """Return the means of the control variates summed over several rows, from those of one row and the quartic ones of
    all.
    """
    means = rows * one
    means[BASIC_CONTROLS - 1 : BASIC_CONTROLS + QUARTIC_CONTROLS] = 1.0, *fourth
    return means
