"""Compiled control variates of a row: their values at a point, and sums of their moments (L6).

The controls themselves, and the correction that they make, are explained in `onehead.aim.logits.control_variates`.
"""

import numpy as np

from onehead.numerics.jit import njit

__all__ = [
    "AVERAGE_COUNT",
    "BASIC_CONTROLS",
    "CONTROL_COUNT",
    "GROUPED_AVERAGES",
    "GROUPED_STEIN_AVERAGES",
    "MOMENT_COUNT",
    "QUARTIC_CONTROLS",
    "STEIN_AVERAGES",
    "STEIN_FIELDS",
    "ZERO_MEAN_CONTROLS",
    "add_mirror_pair",
    "moments",
    "quartics",
    "row_controls",
    "sampled_label_controls",
    "two_group_stein_controls",
]

AVERAGE_COUNT = 8  # as in `onehead.aim.theory.output.averages.Averages`
# of two groups of logits: loss, distance, mass of lower minima; then e², e t, e h, -de/dh and de/dt of each
GROUPED_AVERAGES = 13
GROUPED_STEIN_AVERAGES = (5, 6, 7, 8)  # of these, what Stein forms are made of
# Combinations of mean zero come first: of the proximal point two for each sector, of a head with one sector two of
# another field; and two of the label's gradient, or of what the drawn labels of two rows say of the logit that they
# share (L7.2, L7.3)
ZERO_MEAN_CONTROLS = 6
STEIN_AVERAGES = (1, 2)  # the averages that Stein forms are made of, which must not be told what they should be
# After them, on a fresh sample, sum p², sum y², sum p y, p and y times the logits of both, log Z and log Z*; y, p and
# the logits of the column that hard labels are tilted towards; and one, whose mean is the weight
BASIC_CONTROLS = ZERO_MEAN_CONTROLS + 14
QUARTIC_CONTROLS = 5  # of label and learner in units of their deviations, summed over logits
STEIN_FIELDS = 27  # Stein combinations of a fresh sample, one along the label and one along the learner each
CONTROL_COUNT = BASIC_CONTROLS + QUARTIC_CONTROLS + 2 * STEIN_FIELDS


def moments(averages: int) -> int:
    """Sums over nodes: averages, the largest gradient entry, means and second moments of controls, and of averages with
    controls.
    """
    return averages + 1 + CONTROL_COUNT * (1 + CONTROL_COUNT + averages)


MOMENT_COUNT = moments(AVERAGE_COUNT)


@njit(cache=True, nogil=True, error_model="numpy")
def add_moments(sums, values, control, chance):  # type: ignore[no-untyped-def]
    """Add a point to averages and to the moments of its controls; of the symmetric ones the lower half."""
    count = values.shape[0]
    place = count + 1
    for i in range(count):
        sums[i] += chance * values[i]
    for k in range(CONTROL_COUNT):
        sums[place + k] += chance * control[k]
    place += CONTROL_COUNT
    for k in range(CONTROL_COUNT):
        along = chance * control[k]
        if along != 0.0:
            for j in range(k + 1):
                sums[place + CONTROL_COUNT * k + j] += along * control[j]
    place += CONTROL_COUNT * CONTROL_COUNT
    for i in range(count):
        along = chance * values[i]
        for k in range(CONTROL_COUNT):
            sums[place + CONTROL_COUNT * i + k] += along * control[k]


@njit(cache=True, nogil=True, error_model="numpy")
def add_mirror_pair(sums, node, chance, steepest, values, control, mean_of, mean, weight=1.0):  # type: ignore[no-untyped-def]
    """Add the mean of a point and its mirror image, which come in turn, each counted by its ``weight``."""
    control[BASIC_CONTROLS - 1] = 1.0
    count = values.shape[0]
    sums[count] = max(sums[count], steepest)
    if node % 2 == 0:
        mean_of[:], mean[:] = 0.0, 0.0
    for i in range(count):
        mean_of[i] += 0.5 * weight * values[i]
    for k in range(CONTROL_COUNT):
        mean[k] += 0.5 * weight * control[k]
    if node % 2 == 1:
        add_moments(sums, mean_of, mean, 2.0 * chance)


@njit(cache=True, nogil=True, error_model="numpy")
def two_group_stein_controls(Q, powers, values, control):  # type: ignore[no-untyped-def]
    """Stein combinations of the proximal point in two groups of logits, of which ``powers`` are q and m."""
    for group in range(2):
        q, m = powers[0, group], powers[1, group]
        control[2 * group] = values[5 + group] - Q * values[11 + group] + m * values[9 + group]
        control[2 * group + 1] = values[7 + group] - m * values[11 + group] + q * values[9 + group]


@njit(cache=True, nogil=True, error_model="numpy")
def sampled_label_controls(t, h, chances, p, y, control):  # type: ignore[no-untyped-def]
    """Controls of labels that were drawn, one for each row: their columns, and the logits that two rows share
    (L7.2).
    """
    for a in range(t.shape[0]):
        for b in range(t.shape[1]):
            score = y[a, b] - chances[a, b]
            control[BASIC_CONTROLS - 5] += y[a, b] * chances[a, b]
            control[BASIC_CONTROLS - 4] += y[a, b] * p[a, b]
            control[BASIC_CONTROLS - 3] += y[a, b] * t[a, b]
            control[BASIC_CONTROLS - 2] += y[a, b] * h[a, b]
            if a != b:
                control[ZERO_MEAN_CONTROLS - 2] += y[a, b] * y[b, a] - chances[a, b] * chances[b, a]
                control[ZERO_MEAN_CONTROLS - 1] += score * p[b, a]


@njit(cache=True, nogil=True, error_model="numpy")
def quartics(t, h, control):  # type: ignore[no-untyped-def]
    """Add those of one logit: label and the rest of the learner, in units of their deviations."""
    control[BASIC_CONTROLS] += t * t * t * t
    control[BASIC_CONTROLS + 1] += t * t * t * h
    control[BASIC_CONTROLS + 2] += t * t * h * h
    control[BASIC_CONTROLS + 3] += t * h * h * h
    control[BASIC_CONTROLS + 4] += h * h * h * h


@njit(cache=True, nogil=True, error_model="numpy")
def _field(f, k, value, by_label, by_own, all_label, all_own):  # type: ignore[no-untyped-def]
    """Store a field of a column, with its derivatives by the two logits of the column and by all of either kind."""
    f[0, k], f[1, k], f[2, k], f[3, k], f[4, k] = value, by_label, by_own, all_label, all_own


@njit(cache=True, nogil=True, error_model="numpy")
def row_controls(t, h, y, p, Q, q, m, left, rich, control):  # type: ignore[no-untyped-def]
    """Add the controls of one row of a fresh sample: those that are averages, and if ``rich`` those of all fields.

    ``Q``, ``q`` and ``m`` belong to each column. Where logits have no constant, covariances between all of them are
    lower by ``left``.
    """
    n, yy, pp, py = t.shape[0], 0.0, 0.0, 0.0
    top, far = 0, 0  # columns with the largest logits, whose probabilities are the most accurate
    start = ZERO_MEAN_CONTROLS
    for b in range(n):
        yy += y[b] * y[b]
        pp += p[b] * p[b]
        py += p[b] * y[b]
        if t[b] > t[top]:
            top = b
        if h[b] > h[far]:
            far = b
        control[start + 3] += p[b] * t[b]
        control[start + 4] += p[b] * h[b]
        control[start + 5] += y[b] * t[b]
        control[start + 6] += y[b] * h[b]
    control[start] += pp
    control[start + 1] += yy
    control[start + 2] += py
    own, label = h[far] - np.log(p[far]), t[top] - np.log(y[top])
    control[start + 7] += own
    control[start + 8] += label
    if rich == 0:
        return
    f = np.empty((5, STEIN_FIELDS))
    first = BASIC_CONTROLS + QUARTIC_CONTROLS
    for b in range(n):
        Y, P, T, H = y[b], p[b], t[b], h[b]
        dy, dp = Y * (1.0 - Y), P * (1.0 - P)
        by_yy, by_pp, y_py, p_py = 2.0 * Y * (Y - yy), 2.0 * P * (P - pp), Y * (P - py), P * (Y - py)
        _field(f, 0, Y * Y, 2.0 * Y * dy, 0.0, 0.0, 0.0)
        _field(f, 1, Y * P, P * dy, Y * dp, 0.0, 0.0)
        _field(f, 2, P * P, 0.0, 2.0 * P * dp, 0.0, 0.0)
        _field(f, 3, Y * T, dy * T + Y, 0.0, Y, 0.0)
        _field(f, 4, Y * H, dy * H, Y, 0.0, Y)
        _field(f, 5, P * T, P, dp * T, P, 0.0)
        _field(f, 6, P * H, 0.0, dp * H + P, 0.0, P)
        _field(f, 7, Y * yy, dy * yy + Y * by_yy, 0.0, 0.0, 0.0)
        _field(f, 8, Y * pp, dy * pp, Y * by_pp, 0.0, 0.0)
        _field(f, 9, Y * py, dy * py + Y * y_py, Y * p_py, 0.0, 0.0)
        _field(f, 10, P * yy, P * by_yy, dp * yy, 0.0, 0.0)
        _field(f, 11, P * pp, 0.0, dp * pp + P * by_pp, 0.0, 0.0)
        _field(f, 12, P * py, P * y_py, dp * py + P * p_py, 0.0, 0.0)
        _field(f, 13, Y * Y * Y, 3.0 * Y * Y * dy, 0.0, 0.0, 0.0)
        _field(f, 14, Y * Y * P, 2.0 * Y * P * dy, Y * Y * dp, 0.0, 0.0)
        _field(f, 15, Y * P * P, P * P * dy, 2.0 * Y * P * dp, 0.0, 0.0)
        _field(f, 16, P * P * P, 0.0, 3.0 * P * P * dp, 0.0, 0.0)
        _field(f, 17, Y * label, dy * label + Y * Y, 0.0, Y, 0.0)
        _field(f, 18, P * label, P * Y, dp * label, P, 0.0)
        _field(f, 19, Y * Y * label, Y * (2.0 * dy * label + Y * Y), 0.0, Y * Y, 0.0)
        _field(f, 20, P * P * label, P * P * Y, 2.0 * P * dp * label, P * P, 0.0)
        _field(f, 21, Y * P * label, P * (dy * label + Y * Y), Y * dp * label, Y * P, 0.0)
        _field(f, 22, Y * own, dy * own, Y * P, 0.0, Y)
        _field(f, 23, P * own, 0.0, dp * own + P * P, 0.0, P)
        _field(f, 24, Y * Y * own, 2.0 * Y * dy * own, Y * Y * P, 0.0, Y * Y)
        _field(f, 25, P * P * own, 0.0, P * (2.0 * dp * own + P * P), 0.0, P * P)
        _field(f, 26, Y * P * own, P * dy * own, Y * (dp * own + P * P), 0.0, Y * P)
        for k in range(STEIN_FIELDS):
            along_label = T * f[0, k] - Q[b] * f[1, k] - m[b] * f[2, k] + left[0] * f[3, k] + left[2] * f[4, k]
            along_own = H * f[0, k] - m[b] * f[1, k] - q[b] * f[2, k] + left[2] * f[3, k] + left[1] * f[4, k]
            control[first + 2 * k] += along_label
            control[first + 2 * k + 1] += along_own
