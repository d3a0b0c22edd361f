"""Published tables of joint descent and reused data: an independent implementation of the theory, and its trainings."""

import numpy as np
import pytest

from onehead.sparse import Protocol, Task, descend, predict

STRONG = Task(length=10, strength=5.0)
RARE = Task(length=6, signal_tokens=2, strength=3.0, positive_rate=0.3)
WEAK_LONG = Task(length=30, strength=4.0)
DESCENT_COLUMNS = (
    "overlap_query", "overlap_readout", "norm_query", "norm_readout", "query_readout", "bias", "train_loss",
    "test_error",
)  # fmt: skip
REUSE_COLUMNS = ("cos_query", "sharpness", "norm", "bias", "train_loss", "train_error", "test_error")


def _descent(alpha, rates, ridges, loss="logistic"):
    """Protocol with rates (eta_q, eta_w, eta_b) and ridges of query and readout."""
    names = ("eta_q", "eta_w", "eta_b", "ridge_query", "ridge")
    values = dict(zip(names, (*rates, *ridges), strict=True))
    return Protocol(alpha0=alpha / 2.0, alpha1=alpha / 2.0, beta=1.0, loss=loss, **values)


def _reuse(alpha, rate, ridge, loss="logistic", eta_b=0.5):
    """Protocol of reused data; ``rate`` is eta_q beta^2."""
    beta = float(np.sqrt(rate))
    return Protocol(alpha0=alpha / 2.0, alpha1=alpha / 2.0, beta=beta, ridge=ridge, loss=loss, eta_b=eta_b, reuse=True)


EARLY = _descent(2.0, (1.0, 0.5, 3.0), (0.03, 0.1))
# task, protocol, dimension of the training, {step: ((theory, trained, standard error in the last digit), ...)}
DESCENTS = {
    "logistic": (
        STRONG, EARLY, 500,
        {
            4: ((0.2405, 0.2447, 58), (0.2639, 0.2701, 35), (0.2507, 0.2548, 59), (0.3309, 0.3362, 36),
                (0.0635, 0.0662, 26), (-0.076, -0.091, 230), (0.5897, 0.5857, 31), (0.220, 0.215, 300)),
            6: ((0.6398, 0.6403, 38), (0.4968, 0.5023, 37), (0.6649, 0.6656, 38), (0.5662, 0.5710, 41),
                (0.3146, 0.3180, 47), (-0.493, -0.514, 230), (0.3956, 0.3925, 43), (0.0842, 0.0799, 93)),
            9: ((0.8107, 0.8107, 13), (0.7137, 0.7186, 25), (0.8664, 0.8666, 11), (0.7906, 0.7948, 32),
                (0.5570, 0.5609, 33), (-1.300, -1.311, 220), (0.2562, 0.2549, 27), (0.0247, 0.0250, 3)),
            16: ((0.9332, 0.9324, 16), (0.9747, 0.9775, 16), (1.0600, 1.0593, 23), (1.0623, 1.0644, 15),
                 (0.8605, 0.8631, 25), (-2.164, -2.164, 210), (0.1564, 0.1561, 16), (0.0301, 0.0300, 7)),
        },
    ),
    "no ridge": (
        STRONG, _descent(2.0, (1.5, 1.5, 0.5), (0.0, 0.0)), 400,
        {14: ((0.9216, 0.9199, 99), (1.2214, 1.2305, 79), (1.652, 1.656, 100), (2.220, 2.224, 100),
              (-1.008, -1.021, 370), (-0.585, -0.593, 100), (0.0760, 0.0773, 11), (0.1141, 0.1136, 14))},
    ),
    "square": (
        STRONG, _descent(2.0, (0.3, 0.3, 0.3), (0.0, 0.05), "square"), 400,
        {8: ((0.3491, 0.3452, 32), (0.4496, 0.4477, 25), (0.3895, 0.3849, 24), (0.5894, 0.5844, 29), None, None,
             (0.1732, 0.1735, 14), (0.1007, 0.0964, 42))},
    ),
    "rare positives": (
        RARE, _descent(1.0, (2.0, 2.0, 2.0), (0.01, 0.01)), 400,
        {12: ((0.4578, 0.4645, 292), (1.4887, 1.4647, 286), (1.377, 1.380, 70), (2.330, 2.331, 140),
              (-0.573, -0.574, 320), (-1.476, -1.494, 250), (0.0459, 0.0471, 9), (0.1619, 0.1648, 34))},
    ),
}  # fmt: skip
# name: task, protocol, arguments of descend, dimension, {step: rows in the order of FRESH_COLUMNS}
FRESH_COLUMNS = ("overlap_query", "overlap_readout", "norm_query", "norm_readout", "bias", "test_error")
FRESH = {
    "logistic": (
        STRONG, _descent(2.0, (1.0, 1.0, 2.0), (0.0, 0.0)), {"batch": "fresh", "batch_ratio": 0.5}, 500,
        {
            4: ((0.5095, 0.5114, 117), (0.5958, 0.5984, 83), (0.5510, 0.5512, 107), (0.7291, 0.7345, 64),
                (-0.184, -0.164, 220), (0.3032, 0.315, 190)),
            12: ((0.9062, 0.9156, 62), (1.1574, 1.1624, 72), (1.0815, 1.0930, 47), (1.3396, 1.3491, 68),
                 (-1.965, -1.939, 130), (0.0286, 0.0297, 5)),
        },
    ),
    "square, rare positives": (
        RARE, _descent(2.0, (0.3, 0.3, 0.3), (0.0, 0.0), "square"), {"batch": "fresh", "batch_ratio": 0.25}, 500,
        {20: ((0.3977, 0.4037, 134), (0.7218, 0.7224, 124), (0.6237, 0.6315, 102), (0.8777, 0.8802, 95),
              (-0.921, -0.921, 130), (0.0784, 0.0833, 29))},
    ),
    # batches of ten of five hundred: rates (2, 2, 4) per sample ratio, sample ratio 2 after a hundred steps
    "one-pass SGD in small batches": (
        STRONG, _descent(2.0, (0.04, 0.04, 0.08), (0.0, 0.0)), {"batch": "fresh", "batch_ratio": 0.02}, 500,
        {100: ((0.5837, 0.5847, 46), (0.6576, 0.6605, 40), (0.6330, 0.6361, 33), (0.7738, 0.7767, 64),
               (-0.483, -0.450, 220), (0.145, 0.165, 150))},
    ),
}  # fmt: skip
# Test errors of joint descent stopped early: sample ratio, step, theory, trained, standard error, dimension.
EARLY_STOPPED = (
    (0.5, 9, 0.0476, 0.0502, 0.0019, 800), (1.0, 10, 0.0305, 0.0307, 0.0003, 500),
    (4.0, 10, 0.0208, 0.0214, 0.0003, 300), (8.0, 10, 0.0194, 0.0199, 0.0001, 200),
)  # fmt: skip
# Test errors of one-pass SGD at sample ratios 1 to 8, from 2^9 points
ONE_PASS = {
    (0.5, 0.5, 4.0): (0.315, 0.258, 0.203, 0.152, 0.099, 0.046, 0.026, 0.0221),
    (2.0, 2.0, 4.0): (0.267, 0.152, 0.052, 0.033, 0.029, 0.0276, 0.0273, 0.0274),
}
# task, protocol, dimension, (theory, trained, standard error in the last digit) in the order of REUSE_COLUMNS
REUSED = (
    (STRONG, _reuse(2.0, 64.0, 0.1), 300,
     ((0.9488, 0.9436, 30), (2.305, 2.199, 920), (1.344, 1.342, 50), (-3.80, -3.74, 200), (0.1062, 0.1091, 12),
      (0.0024, 0.0046, 8), (0.0277, 0.0293, 9))),
    (STRONG, _reuse(1.0, 64.0, 0.01), 300,
     ((0.8838, 0.868, 130), (2.458, 2.37, 1400), (2.45, 2.44, 200), (-6.25, -6.13, 1000), (0.0171, 0.0170, 4),
      None, (0.0399, 0.0423, 20))),
    (STRONG, _reuse(2.0, 20.0, 0.3, "square"), 300,
     ((0.9447, 0.9415, 22), (2.642, 2.549, 720), (0.4785, 0.4822, 34), (-1.287, -1.279, 50), (0.0489, 0.0497, 10),
      (0.0026, 0.0040, 7), (0.0401, 0.0416, 11))),
    (RARE, _reuse(2.0, 36.0, 0.05, eta_b=3.0), 300,
     ((0.8283, 0.8284, 97), (1.062, 0.994, 390), (1.837, 1.844, 80), (-3.49, -3.42, 500), (0.1244, 0.1300, 37),
      (0.0126, 0.0165, 18), (0.0838, 0.0882, 21))),
    (STRONG, _reuse(0.5, 73.4, 1.0), 600,
     ((0.7463, 0.747, 120), (3.296, 3.357, 700), (0.5095, 0.5109, 6), (-1.268, -1.269, 130), (0.2770, 0.2746, 23),
      (0.0037, 0.0029, 8), (0.0478, 0.0505, 32))),
    (STRONG, _reuse(1.0, 85.8, 1.0), 500,
     ((0.8837, 0.8846, 55), (3.295, 3.302, 830), (0.4994, 0.4996, 9), (-1.430, -1.431, 190), (0.3208, 0.3218, 24),
      (0.0061, 0.0070, 11), (0.0324, 0.0333, 15))),
    (STRONG, _reuse(2.0, 61.0, 1.0), 400,
     ((0.9488, 0.9425, 33), (2.197, 2.079, 750), (0.4919, 0.4919, 8), (-1.470, -1.482, 180), (0.3380, 0.3381, 19),
      (0.0122, 0.0127, 12), (0.0266, 0.0297, 21))),
    (STRONG, _reuse(4.0, 62.6, 0.3), 250,
     ((0.9768, 0.9759, 17), (2.20, 2.19, 1000), None, None, None, None, (0.0234, 0.0235, 5))),
    (STRONG, _reuse(8.0, 63.3, 0.1), 150,
     ((0.9891, 0.9892, 5), (2.20, 2.28, 900), None, None, None, None, (0.0216, 0.0214, 2))),
    (WEAK_LONG, _reuse(2.0, 1035.0, 1.0), 300,
     ((0.671, 0.651, 380), (3.30, 3.41, 1800), (0.390, 0.383, 80), (-0.69, -0.64, 500), (0.496, 0.504, 80),
      (0.113, 0.121, 120), (0.179, 0.196, 180))),
)  # fmt: skip


# Standard errors of published theory values beyond their rounding. At step 8 that of the rare positives is
# 0.008; ours grows threefold from step 8 to step 12, since derivatives through twelve steps have long tails at rate 2.
PUBLISHED_ERRORS = {("rare positives", "query_readout"): 0.022}


def _compare(value, error, published, dim, name, finite_size=10.0, published_error=0.0):
    theory, trained, last_digits = published
    spread = 1e-4 * last_digits
    # published theory values are given to three or four digits, from points of their own with errors of the order of
    # 0.002 relative (0.0008 for the training error, an average of jumps)
    allowed = 3.0 * np.hypot(error, published_error) + 0.003 * abs(theory) + 0.0008
    assert abs(value - theory) < allowed, f"{name}: {value} and {theory}"
    # runs differ from the limit by sampling and by a relative 10/d; the worst of the pairs is one of seventy
    assert abs(value - trained) < 3.5 * spread + finite_size / dim * abs(theory) + 3.0 * error, f"{name}, trained"


@pytest.mark.parametrize("name", DESCENTS)
def test_descents_are_those_of_the_published_tables(name):
    task, protocol, dim, steps = DESCENTS[name]
    found = descend(task, protocol, steps=max(steps))
    for step, row in steps.items():
        point = found.after(step)
        for column, published in zip(DESCENT_COLUMNS, row, strict=True):
            if published is None:
                continue
            known = PUBLISHED_ERRORS.get((name, column), 0.0)
            where = f"step {step}, {column}"
            _compare(getattr(point, column), point.errors[column], published, dim, where, published_error=known)


@pytest.mark.parametrize("row", range(len(REUSED)))
def test_reused_data_are_those_of_the_published_table(row):
    task, protocol, dim, published = REUSED[row]
    found = predict(task, protocol)
    norm = float(np.sqrt(found.query_weight**2 + found.signal_weight**2 + found.rest_norm**2))
    for column, values in zip(REUSE_COLUMNS, published, strict=True):
        if values is None:
            continue
        value = norm if column == "norm" else getattr(found, column)
        # sharpness and cosine vary between samples, and the test error is convex in them: 25/d
        _compare(value, found.errors.get(column, 0.0), values, dim, column, finite_size=25.0)


@pytest.mark.parametrize("name", [pytest.param(one, marks=pytest.mark.slow) if "SGD" in one else one for one in FRESH])
def test_fresh_batches_are_those_of_the_published_table(name):
    task, protocol, options, dim, steps = FRESH[name]
    found = descend(task, protocol, steps=max(steps), **options)
    for step, row in steps.items():
        point = found.after(step)
        for column, published in zip(FRESH_COLUMNS, row, strict=True):
            _compare(getattr(point, column), point.errors[column], published, dim, f"step {step}, {column}")


@pytest.mark.parametrize(("alpha", "step", "theory", "trained", "error", "dim"), EARLY_STOPPED)
def test_early_stopping_is_that_of_the_published_table(alpha, step, theory, trained, error, dim):
    found = descend(STRONG, _descent(alpha, (1.0, 0.3, 3.0), (0.03, 0.1)), steps=step).after(step)
    # published values are about 0.0003 too low at many samples, from small sets of points: a direct simulation at
    # alpha = 8 has 0.01958(9), and 2^15 points 0.01973(3)
    assert abs(found.test_error - theory) < 0.0005
    # the bias varies between runs, which adds about 0.08/d
    assert abs(found.test_error + 0.08 / dim - trained) < 3.5 * error + 3.0 * found.errors["test_error"]


@pytest.mark.parametrize("rates", ONE_PASS)
def test_one_pass_descent_is_that_of_the_published_table(rates):
    found = descend(STRONG, _descent(8.0, rates, (0.0, 0.0)), steps=8, batch="one-pass")
    for step, expected in zip(found.steps, ONE_PASS[rates], strict=True):
        # published values have finite batches: 0.145 at n_b = 0.02 d where 0.140 is the limit; where the error falls
        # fast by half per unit of alpha this is up to a tenth of the value
        assert step.test_error == pytest.approx(expected, rel=0.1 if expected > 0.04 else 0.015)


@pytest.mark.slow
def test_small_batches_converge_to_one_pass_descent():
    """The test error at alpha = 2 in batches of n_b/d = 0.04 and 0.02 lies above the limit by a multiple of n_b."""
    limit = descend(STRONG, _descent(2.0, (2.0, 2.0, 4.0), (0.0, 0.0)), steps=1, batch="one-pass")
    gaps = []
    for ratio in (0.04, 0.02):
        plan = _descent(2.0, (2.0 * ratio, 2.0 * ratio, 4.0 * ratio), (0.0, 0.0))
        steps = round(2.0 / ratio)
        gaps.append(descend(STRONG, plan, steps=steps, batch="fresh", batch_ratio=ratio).after(steps).test_error)
    gaps = np.array(gaps) - limit.test_error
    assert gaps[0] > 0.0
    assert gaps[0] / gaps[1] == pytest.approx(2.0, abs=0.2)  # stated errors are 3 % of the smaller gap


def test_descent_of_long_sequences_is_that_of_the_published_table():
    """L = 100 and d = 200: products of different tokens of a sample, which the theory neglects, are small."""
    task = Task(length=100, strength=5.365)
    found = descend(task, _descent(6.0, (6.0, 8.0, 4.0), (0.0, 0.0)), steps=4).after(4)
    published = ((0.438, 0.464, 510), (0.558, 0.575, 350), (0.466, 0.489, 500), (0.850, 0.867, 270))
    for column, row in zip(FRESH_COLUMNS, published, strict=False):
        _compare(getattr(found, column), found.errors[column], row, 200, column)
