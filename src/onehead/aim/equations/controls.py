"""Control variates: numbers of a row whose means are known exactly, by which averages over sampled points are corrected (L6).

Besides averages over a softmax (L3) they are Stein combinations: for any f_b of a row that a constant added to its logits does not change,

    E sum_b [ t_b f_b - v_b (Q df_b/dt_b + m df_b/dh_b) ] = 0,        E sum_b [ h_b f_b - v_b (m df_b/dt_b + q df_b/dh_b) ] = 0,

t being the logits of the label, h those of the learner on a fresh sample, v_b Q and v_b q their variances.
"""

import numpy as np
from numpy.typing import NDArray

from onehead.numerics.compiled import njit
from onehead.numerics.softmax import SoftmaxRow

__all__ = [
    "AVERAGES",
    "CONTROLS",
    "MOMENTS",
    "add_moments",
    "control_means",
    "corrected",
    "has_many",
    "quartic_means",
    "quartics",
    "row_controls",
]

AVERAGES = 8  # as in `onehead.aim.equations.averages.Averages`
STEIN = 2  # combinations of mean zero of the proximal point; they come first
ALONG = (1, 2)  # the averages that Stein forms are made of, which must not be told what they should be
# After them, on a fresh sample, sum p², sum y², sum p y, p and y times the logits of both, log Z and log Z*; y, p and the logits of the
# column that hard labels are tilted towards; and one, whose mean is the weight
FEW = 16
QUARTICS = 5  # of label and learner in units of their deviations, summed over logits
FIELDS = 27  # Stein combinations of a fresh sample, one along the label and one along the learner each
CONTROLS = FEW + QUARTICS + 2 * FIELDS
ENOUGH = 13  # pairs of points for each control, below which only the first few are used

RIDGE = 1e-9  # of the correlations of the controls
WIDEST = 25.0  # variance of logits up to which averages over a softmax of them are quick

Array = NDArray[np.float64]

# averages, the largest gradient entry, then means and second moments of controls, and of averages with controls
MOMENTS = AVERAGES + 1 + CONTROLS * (1 + CONTROLS + AVERAGES)


def has_many(points: int) -> bool:
    """Whether so many points, each with its mirror image, are enough for all controls."""
    return points >= 2 * ENOUGH * CONTROLS


def corrected(sums: Array, means: Array) -> Array:
    """Averages in slices, and the largest gradient entry, corrected by how far the controls of all slices are off their ``means``."""
    totals = sums.sum(axis=0)
    averages, (mean, *_) = totals[:AVERAGES], np.split(totals[AVERAGES + 1 :], [CONTROLS])
    square = totals[AVERAGES + 1 + CONTROLS :][: CONTROLS**2].reshape(CONTROLS, CONTROLS)
    square = np.tril(square) + np.tril(square, -1).T
    mixed = totals[AVERAGES + 1 + CONTROLS + CONTROLS**2 :].reshape(AVERAGES, CONTROLS)
    covariance, along = square - np.outer(mean, mean), mixed - np.outer(averages, mean)
    scale = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    # a control that does not vary tells nothing, nor does one whose mean is not known
    used = (scale > 1e-9 * np.sqrt(np.diag(square)) + 1e-300) & np.isfinite(means)
    slopes = np.zeros((AVERAGES, CONTROLS))
    fresh = used & (np.arange(CONTROLS) >= STEIN)
    for which, known in ((slice(None), used), (list(ALONG), fresh)):
        unit = covariance[np.ix_(known, known)] / np.outer(scale[known], scale[known])
        unit += RIDGE * np.eye(int(known.sum()))
        slopes[which] = 0.0
        found = np.linalg.solve(unit, (along[:, known] / scale[known]).T).T / scale[known]
        slopes[np.ix_(np.arange(AVERAGES)[which], known)] = found[which]
    controls = sums[:, AVERAGES + 1 : AVERAGES + 1 + CONTROLS][:, used] - means[used] / len(sums)
    return np.hstack([sums[:, :AVERAGES] - controls @ slopes[:, used].T, sums[:, [AVERAGES]]])


def control_means(row: SoftmaxRow) -> Array:
    """Means of the controls of a row, exact (2.9, L3); not a number where one would take longer than what it corrects.

    The column of a drawn label is each column as often as its y says.
    """
    own = (row.pp, row.py, row.pl, row.ph, row.log_z) if row.widest < WIDEST else 5 * (np.nan,)
    pp, py, pl, ph, log_z = own
    fresh = (pp, row.yy, py, pl, ph, row.yl, row.yh, log_z, row.log_label)
    fourth = quartic_means(np.repeat([column.Q for column in row.columns], [column.count for column in row.columns]))
    return np.array([0.0, 0.0, *fresh, row.yy, py, row.yl, row.yh, 1.0, *fourth, *2 * FIELDS * [0.0]])


def quartic_means(variances: Array) -> Array:
    """Means of the quartics of logits of these variances, of which the constant has been taken away."""
    share = 1.0 / variances
    left = float(np.sum((1.0 - share / share.sum()) ** 2))
    return left * np.array([3.0, 0.0, 1.0, 0.0, 3.0])


@njit(cache=True, nogil=True, error_model="numpy")
def add_moments(sums, values, control, chance):  # type: ignore[no-untyped-def]
    """Add a point to averages and to the moments of its controls; of the symmetric ones the lower half."""
    place = AVERAGES + 1
    for i in range(AVERAGES):
        sums[i] += chance * values[i]
    for k in range(CONTROLS):
        sums[place + k] += chance * control[k]
    place += CONTROLS
    for k in range(CONTROLS):
        along = chance * control[k]
        if along != 0.0:
            for j in range(k + 1):
                sums[place + CONTROLS * k + j] += along * control[j]
    place += CONTROLS * CONTROLS
    for i in range(AVERAGES):
        along = chance * values[i]
        for k in range(CONTROLS):
            sums[place + CONTROLS * i + k] += along * control[k]


@njit(cache=True, nogil=True, error_model="numpy")
def quartics(t, h, control):  # type: ignore[no-untyped-def]
    """Add those of one logit: label and the rest of the learner, in units of their deviations."""
    control[FEW] += t * t * t * t
    control[FEW + 1] += t * t * t * h
    control[FEW + 2] += t * t * h * h
    control[FEW + 3] += t * h * h * h
    control[FEW + 4] += h * h * h * h


@njit(cache=True, nogil=True, error_model="numpy")
def _pair(k, f, by_label, by_own, t, h, Q, q, m, control):  # type: ignore[no-untyped-def]
    """Add both Stein combinations of one column of a field, whose derivatives are already times the variance."""
    control[k] += t * f - Q * by_label - m * by_own
    control[k + 1] += h * f - m * by_label - q * by_own


@njit(cache=True, nogil=True, error_model="numpy")
def row_controls(t, h, y, p, variances, precision, Q, q, m, rich, control):  # type: ignore[no-untyped-def]
    """Add the controls of one row of a fresh sample: those that are averages, and if ``rich`` those of all fields.

    ``precision`` is the sum of 1/v over the logits whose constant has been taken away.
    """
    n, yy, pp, py = t.shape[0], 0.0, 0.0, 0.0
    top, far, total, whole = t[0], h[0], 0.0, 0.0
    for b in range(n):
        yy += y[b] * y[b]
        pp += p[b] * p[b]
        py += p[b] * y[b]
        top, far = max(top, t[b]), max(far, h[b])
        control[5] += p[b] * t[b]
        control[6] += p[b] * h[b]
        control[7] += y[b] * t[b]
        control[8] += y[b] * h[b]
    control[2] += pp
    control[3] += yy
    control[4] += py
    for b in range(n):
        total += np.exp(t[b] - top)
        whole += np.exp(h[b] - far)
    log_own, log_label = far + np.log(whole), top + np.log(total)
    control[9] += log_own
    control[10] += log_label
    if rich == 0:
        return
    for b in range(n):
        v, Y, P, T, H = variances[b], y[b], p[b], t[b], h[b]
        dy, dp, c = v * Y * (1.0 - Y), v * P * (1.0 - P), v - 1.0 / precision
        k = FEW + QUARTICS
        _pair(k, Y * Y, 2.0 * Y * dy, 0.0, T, H, Q, q, m, control)
        _pair(k + 2, Y * P, P * dy, Y * dp, T, H, Q, q, m, control)
        _pair(k + 4, P * P, 0.0, 2.0 * P * dp, T, H, Q, q, m, control)
        _pair(k + 6, Y * T, dy * T + c * Y, 0.0, T, H, Q, q, m, control)
        _pair(k + 8, Y * H, dy * H, c * Y, T, H, Q, q, m, control)
        _pair(k + 10, P * T, c * P, dp * T, T, H, Q, q, m, control)
        _pair(k + 12, P * H, 0.0, dp * H + c * P, T, H, Q, q, m, control)
        to_yy, to_pp = 2.0 * v * Y * (Y - yy), 2.0 * v * P * (P - pp)
        by_y, by_p = v * Y * (P - py), v * P * (Y - py)
        _pair(k + 14, Y * yy, dy * yy + Y * to_yy, 0.0, T, H, Q, q, m, control)
        _pair(k + 16, Y * pp, dy * pp, Y * to_pp, T, H, Q, q, m, control)
        _pair(k + 18, Y * py, dy * py + Y * by_y, Y * by_p, T, H, Q, q, m, control)
        _pair(k + 20, P * yy, P * to_yy, dp * yy, T, H, Q, q, m, control)
        _pair(k + 22, P * pp, 0.0, dp * pp + P * to_pp, T, H, Q, q, m, control)
        _pair(k + 24, P * py, P * by_y, dp * py + P * by_p, T, H, Q, q, m, control)
        _pair(k + 26, Y * Y * Y, 3.0 * Y * Y * dy, 0.0, T, H, Q, q, m, control)
        _pair(k + 28, Y * Y * P, 2.0 * Y * P * dy, Y * Y * dp, T, H, Q, q, m, control)
        _pair(k + 30, Y * P * P, P * P * dy, 2.0 * Y * P * dp, T, H, Q, q, m, control)
        _pair(k + 32, P * P * P, 0.0, 3.0 * P * P * dp, T, H, Q, q, m, control)
        left = 1.0 / precision  # a constant in the logits is one in their log Z, and logits have none
        for by_log, log, Y1, P1 in ((0, log_label, v * Y - left, 0.0), (10, log_own, 0.0, v * P - left)):
            j = k + 34 + by_log
            _pair(j, Y * log, dy * log + Y * Y1, Y * P1, T, H, Q, q, m, control)
            _pair(j + 2, P * log, P * Y1, dp * log + P * P1, T, H, Q, q, m, control)
            _pair(j + 4, Y * Y * log, Y * (2.0 * dy * log + Y * Y1), Y * Y * P1, T, H, Q, q, m, control)
            _pair(j + 6, P * P * log, P * P * Y1, P * (2.0 * dp * log + P * P1), T, H, Q, q, m, control)
            _pair(j + 8, Y * P * log, P * (dy * log + Y * Y1), Y * (dp * log + P * P1), T, H, Q, q, m, control)
