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
    "rare positives": (
        RARE, _descent(1.0, (2.0, 2.0, 2.0), (0.01, 0.01)), 400,
        {12: ((0.4578, 0.4645, 292), (1.4887, 1.4647, 286), (1.377, 1.380, 70), (2.330, 2.331, 140),
              (-0.573, -0.574, 320), (-1.476, -1.494, 250), (0.0459, 0.0471, 9), (0.1619, 0.1648, 34))},
    ),
}  # fmt: skip
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
