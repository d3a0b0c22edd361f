"""Compiled control variates of a row: their values at a point, and sums of their moments (L6).

The controls themselves, and the correction that they make, are explained in `onehead.aim.logits.control_variates`.
"""

import numpy as np

from onehead.aim.kernels.simd import LANES
from onehead.numerics.jit import njit

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


@njit
def add_moments(sums, values, control, chance):
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


@njit
def add_mirror_pair(sums, node, chance, steepest, values, control, mean_of, mean):
    """Add the mean of a point and its mirror image, which come in turn."""
    control[BASIC_CONTROLS - 1] = 1.0
    count = values.shape[0]
    sums[count] = max(sums[count], steepest)
    if node % 2 == 0:
        mean_of[:], mean[:] = 0.0, 0.0
    for i in range(count):
        mean_of[i] += 0.5 * values[i]
    for k in range(CONTROL_COUNT):
        mean[k] += 0.5 * control[k]
    if node % 2 == 1:
        add_moments(sums, mean_of, mean, 2.0 * chance)


@njit
def two_group_stein_controls(powers, values, control):
    """Stein combinations of the proximal point in two groups of logits, of which ``powers`` are q, m, Sigma and Q."""
    for group in range(2):
        q, m, Q = powers[0, group], powers[1, group], powers[3, group]
        control[2 * group] = values[5 + group] - Q * values[11 + group] + m * values[9 + group]
        control[2 * group + 1] = values[7 + group] - m * values[11 + group] + q * values[9 + group]


@njit
def sampled_label_controls(t, h, chances, p, y, control):
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


@njit
def quartics(t, h, control):
    """Add those of one logit: label and the rest of the learner, in units of their deviations."""
    control[BASIC_CONTROLS] += t * t * t * t
    control[BASIC_CONTROLS + 1] += t * t * t * h
    control[BASIC_CONTROLS + 2] += t * t * h * h
    control[BASIC_CONTROLS + 3] += t * h * h * h
    control[BASIC_CONTROLS + 4] += h * h * h * h


@njit(cache=False, inline="always")
def _add(control, at, step, logits, state, value, slopes):
    """Add both Stein combinations of a field of a column; its derivatives ``slopes`` are those by the two logits of the
    column and by all of either kind.
    """
    ((Q, q, m), left), (by_label, by_own, all_label, all_own) = state, slopes
    control[at] += logits[0] * value - Q * by_label - m * by_own + left[0] * all_label + left[2] * all_own
    control[at + step] += logits[1] * value - m * by_label - q * by_own + left[2] * all_label + left[1] * all_own


@njit(cache=False, inline="always")
def _add_fields(control, first, step, softmaxes, logits, row, log_z, state):
    """Add the Stein combinations of all fields of one column; inlined, so that loops over nodes are vectorised.

    Pairs belong to label and learner; ``row`` has sum y², sum p² and sum p y; ``state`` is (Q, q, m) of the column, and
    how much lower all covariances are.
    """
    (Y, P), (T, H), (yy, pp, py), (label, own), at = softmaxes, logits, row, log_z, first
    dy, dp = Y * (1.0 - Y), P * (1.0 - P)
    by_yy, by_pp, y_py, p_py = 2.0 * Y * (Y - yy), 2.0 * P * (P - pp), Y * (P - py), P * (Y - py)
    _add(control, at, step, logits, state, Y * Y, (2.0 * Y * dy, 0.0, 0.0, 0.0))
    _add(control, at + 2 * step, step, logits, state, Y * P, (P * dy, Y * dp, 0.0, 0.0))
    _add(control, at + 4 * step, step, logits, state, P * P, (0.0, 2.0 * P * dp, 0.0, 0.0))
    _add(control, at + 6 * step, step, logits, state, Y * T, (dy * T + Y, 0.0, Y, 0.0))
    _add(control, at + 8 * step, step, logits, state, Y * H, (dy * H, Y, 0.0, Y))
    _add(control, at + 10 * step, step, logits, state, P * T, (P, dp * T, P, 0.0))
    _add(control, at + 12 * step, step, logits, state, P * H, (0.0, dp * H + P, 0.0, P))
    _add(control, at + 14 * step, step, logits, state, Y * yy, (dy * yy + Y * by_yy, 0.0, 0.0, 0.0))
    _add(control, at + 16 * step, step, logits, state, Y * pp, (dy * pp, Y * by_pp, 0.0, 0.0))
    _add(control, at + 18 * step, step, logits, state, Y * py, (dy * py + Y * y_py, Y * p_py, 0.0, 0.0))
    _add(control, at + 20 * step, step, logits, state, P * yy, (P * by_yy, dp * yy, 0.0, 0.0))
    _add(control, at + 22 * step, step, logits, state, P * pp, (0.0, dp * pp + P * by_pp, 0.0, 0.0))
    _add(control, at + 24 * step, step, logits, state, P * py, (P * y_py, dp * py + P * p_py, 0.0, 0.0))
    _add(control, at + 26 * step, step, logits, state, Y * Y * Y, (3.0 * Y * Y * dy, 0.0, 0.0, 0.0))
    _add(control, at + 28 * step, step, logits, state, Y * Y * P, (2.0 * Y * P * dy, Y * Y * dp, 0.0, 0.0))
    _add(control, at + 30 * step, step, logits, state, Y * P * P, (P * P * dy, 2.0 * Y * P * dp, 0.0, 0.0))
    _add(control, at + 32 * step, step, logits, state, P * P * P, (0.0, 3.0 * P * P * dp, 0.0, 0.0))
    _add(control, at + 34 * step, step, logits, state, Y * label, (dy * label + Y * Y, 0.0, Y, 0.0))
    _add(control, at + 36 * step, step, logits, state, P * label, (P * Y, dp * label, P, 0.0))
    _add(control, at + 38 * step, step, logits, state, Y * Y * label, (Y * (2.0 * dy * label + Y * Y), 0.0, Y * Y, 0.0))
    _add(control, at + 40 * step, step, logits, state, P * P * label, (P * P * Y, 2.0 * P * dp * label, P * P, 0.0))
    _add(
        control,
        at + 42 * step,
        step,
        logits,
        state,
        Y * P * label,
        (P * (dy * label + Y * Y), Y * dp * label, Y * P, 0.0),
    )
    _add(control, at + 44 * step, step, logits, state, Y * own, (dy * own, Y * P, 0.0, Y))
    _add(control, at + 46 * step, step, logits, state, P * own, (0.0, dp * own + P * P, 0.0, P))
    _add(control, at + 48 * step, step, logits, state, Y * Y * own, (2.0 * Y * dy * own, Y * Y * P, 0.0, Y * Y))
    _add(control, at + 50 * step, step, logits, state, P * P * own, (0.0, P * (2.0 * dp * own + P * P), 0.0, P * P))
    _add(control, at + 52 * step, step, logits, state, Y * P * own, (P * dy * own, Y * (dp * own + P * P), 0.0, Y * P))


@njit
def row_controls(t, h, y, p, Q, q, m, left, rich, control):
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
    first = BASIC_CONTROLS + QUARTIC_CONTROLS
    by_both = left[0], left[1], left[2]
    for b in range(n):
        state = (Q[b], q[b], m[b]), by_both
        _add_fields(control, first, 1, (y[b], p[b]), (t[b], h[b]), (yy, pp, py), (label, own), state)


@njit
def row_controls_simd(row, place, logits, softmaxes, powers, log_z, left, rich, control, spare):
    """`row_controls` for many nodes side by side (`onehead.aim.kernels.simd`).

    ``logits`` and ``powers`` are those of label and learner at ``place``, ``softmaxes`` and ``log_z`` those of all
    rows; ``spare`` is a flat array of nine numbers for each node.
    """
    (t, h), (y, p), (Q, q, m), (label, own) = logits, softmaxes, powers, log_z
    width, start = place.shape[1], ZERO_MEAN_CONTROLS
    flat = control.reshape(-1)  # constant distances in one array are known not to overlap
    for k in range(3 * LANES):
        spare[k] = 0.0
    for b in range(width):
        i, ab = place[row, b], row * width + b
        for k in range(LANES):
            Y, P, T, H = y[ab, k], p[ab, k], t[i, k], h[i, k]
            spare[k] += Y * Y
            spare[LANES + k] += P * P
            spare[2 * LANES + k] += P * Y
            flat[(start + 3) * LANES + k] += P * T
            flat[(start + 4) * LANES + k] += P * H
            flat[(start + 5) * LANES + k] += Y * T
            flat[(start + 6) * LANES + k] += Y * H
    for k in range(LANES):
        flat[start * LANES + k] += spare[LANES + k]
        flat[(start + 1) * LANES + k] += spare[k]
        flat[(start + 2) * LANES + k] += spare[2 * LANES + k]
        flat[(start + 7) * LANES + k] += own[row, k]
        flat[(start + 8) * LANES + k] += label[row, k]
        spare[3 * LANES + k], spare[4 * LANES + k] = label[row, k], own[row, k]
    if rich == 0:
        return
    by_both = left[0], left[1], left[2]
    for b in range(width):
        i, ab = place[row, b], row * width + b
        state = (Q[i], q[i], m[i]), by_both
        for k in range(LANES):
            spare[5 * LANES + k], spare[6 * LANES + k] = y[ab, k], p[ab, k]
            spare[7 * LANES + k], spare[8 * LANES + k] = t[i, k], h[i, k]
        for k in range(LANES):
            _add_fields(
                flat,
                (BASIC_CONTROLS + QUARTIC_CONTROLS) * LANES + k,
                LANES,
                (spare[5 * LANES + k], spare[6 * LANES + k]),
                (spare[7 * LANES + k], spare[8 * LANES + k]),
                (spare[k], spare[LANES + k], spare[2 * LANES + k]),
                (spare[3 * LANES + k], spare[4 * LANES + k]),
                state,
            )


@njit
def add_mirror_pairs(sums, chances, tilts, worst, values, control, spare):
    """Add nodes side by side, each followed by its mirror image, as `add_mirror_pair` does one after the other.

    Every node has a weight ``chances`` of the rule and ``tilts`` of importance sampling; ``spare`` has a row of
    controls and averages for each of `LANES` / 2 pairs.
    """
    count, place = values.shape[0], values.shape[0] + 1
    size = CONTROL_COUNT + count
    for k in range(LANES):
        control[BASIC_CONTROLS - 1, k] = 1.0
        sums[count] = max(sums[count], worst[k])
    for j in range(LANES // 2):
        one, other = 0.5 * tilts[2 * j], 0.5 * tilts[2 * j + 1]
        for i in range(CONTROL_COUNT):
            spare[j, i] = one * control[i, 2 * j] + other * control[i, 2 * j + 1]
        for i in range(count):
            spare[j, CONTROL_COUNT + i] = one * values[i, 2 * j] + other * values[i, 2 * j + 1]
    first, products = sums[place : place + CONTROL_COUNT], sums[place + CONTROL_COUNT :].reshape(size, CONTROL_COUNT)
    for j in range(0, LANES // 2, 4):  # four pairs at a time: fewer passes over the moments
        c0, c1, c2, c3 = (
            2.0 * chances[2 * j], 2.0 * chances[2 * j + 2], 2.0 * chances[2 * j + 4], 2.0 * chances[2 * j + 6]
        )  # fmt: skip
        s0, s1, s2, s3 = spare[j], spare[j + 1], spare[j + 2], spare[j + 3]
        for i in range(count):
            k = CONTROL_COUNT + i
            sums[i] += c0 * s0[k] + c1 * s1[k] + c2 * s2[k] + c3 * s3[k]
        for i in range(CONTROL_COUNT):
            first[i] += c0 * s0[i] + c1 * s1[i] + c2 * s2[i] + c3 * s3[i]
        for i in range(size):
            a0, a1, a2, a3 = c0 * s0[i], c1 * s1[i], c2 * s2[i], c3 * s3[i]
            if a0 == 0.0 and a1 == 0.0 and a2 == 0.0 and a3 == 0.0:  # a control that is not filled
                continue
            for other in range(min(i + 1, CONTROL_COUNT)):
                products[i, other] += a0 * s0[other] + a1 * s1[other] + a2 * s2[other] + a3 * s3[other]
