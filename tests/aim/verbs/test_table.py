"""The reference values (10), row by row, to the error stated for each."""

import numpy as np
import pytest

from onehead.aim import Learner, MarchenkoPastur, Task, predict, thresholds

# kappa0, noise, alpha, weight decay | q m sigma q_hat m_hat sigma_hat test test_clean train rank replicon | error of q,
# hats, test
ROWS = """
.5 .5 .05 .01    .3826149 .3637092 20.13659 2.943769e-4 6.06083e-3 8.241528e-3 .388117 .3472044 2.890792e-3 .2307988 .5463  2e-6 7e-6 1e-6
.5 .5 .1 .01     .6369793 .6601704 18.9314 5.230772e-4 .01306688 .01675646 .2982557 .2481995 4.578668e-3 .3531187 .6117  1e-5 2e-5 1e-6
.5 .5 .5 .01     1.462361 1.380944 2.303404 .02817235 .2925375 .3104252 .1359905 .06544036 .02328966 .6443006 .4752  2e-5 1e-4 1e-5
.5 .5 4 .01      1.194483 1.32874 .1546859 .6148152 4.721853 5.321299 .08039087 .00819087 .278296 .7183948 .0817  6e-6 4e-5 3e-6
.5 .5 40 .01     1.155859 1.315761 .01472786 6.807964 51.11621 58.26353 .07471126 .00250973 2.944362 .7401688 .0088  7e-7 3e-5 2e-7
.5 .5 .15 .001   1.584345 1.197452 130.8624 2.514851e-5 3.780622e-3 4.005558e-3 .2729319 .2113972 8.062548e-4 .5085004 .7704  9e-5 7e-4 2e-5
.5 .5 .5 .001    1.910056 1.562716 3.02984 .02399657 .2528504 .2440209 .1542023 .08128432 .01607045 .6672603 .5443  7e-5 6e-4 5e-5
.5 .5 .1 1e-5    1.401984 1.013961 21760.85 9.199527e-10 1.795265e-5 1.824903e-5 .3273807 .2708551 6.37177e-6 .4150822 .7669  2e-6 1e-5 6e-7
.5 .5 .5 1e-5    1.992161 1.593052 3.160432 .02345766 .2470483 .2347598 .157685 .08443842 .01519611 .6698163 .5568  4e-5 7e-4 3e-5
.2 .5 1 .01      1.038841 1.084405 .5415342 .1322804 1.059622 1.165509 .1022197 .02428906 .06565687 .573507 .2122  3e-6 7e-6 8e-7
.8 .5 1 .01      1.60422 1.645454 1.013425 .0875175 .7751411 .8397251 .1009899 .03396998 .05270309 .7624629 .3331  3e-5 2e-4 3e-5
.5 0 .3 .01      1.047716 1.238897 5.172862 5.927346e-4 .1128716 .125474 .013897 .013897 6.253912e-3 .5414739 .5856  9e-6 7e-5 6e-5
.05 .05 .15 .014386  .7999554 .9098132 1.962932 1.129544e-3 .1105445 .1205406 .01625744 7.354315e-3 3.824836e-3 .2671733 .3684  1e-7 2e-6 5e-7
"""


@pytest.mark.parametrize("row", ROWS.strip().splitlines())
def test_row_of_the_table(row):
    kappa0, noise, alpha, decay, *numbers = (float(text) for text in row.split())
    q, m, sigma, q_hat, m_hat, sigma_hat, test, clean, train, rank, replicon, of_q, of_hats, of_test = numbers
    task, learner = Task(target=MarchenkoPastur(kappa0=kappa0), noise=noise), Learner(weight_decay=decay)
    usual, point = (predict(task, learner, alpha, accuracy=accuracy) for accuracy in (None, max(of_test, 1e-6)))
    # errors are stated to one digit: half a unit more, and the seven digits of the table
    close = {"abs": 0.0, "rel": 1.5 * of_q + 2e-7}
    assert (point.q, point.m) == pytest.approx((q, m), **close)
    hats = {"abs": 0.0, "rel": 1.5 * of_hats + 2e-7}
    got = (point.sigma, point.q_hat, point.m_hat, point.sigma_hat)
    assert got == pytest.approx((sigma, q_hat, m_hat, sigma_hat), **hats)
    # the stated error of the test error is rounded; the clean one is smaller, so its relative error larger
    assert point.test_error == pytest.approx(test, rel=1.5 * of_test + 1e-6, abs=0.0)
    assert point.test_error_clean == pytest.approx(clean, abs=(1.5 * of_test + 1e-6) * test + 1e-8)
    assert point.train_loss == pytest.approx(train, rel=of_q + 3e-6)
    assert point.rank == pytest.approx(rank, abs=1e-4)
    # the average of a squared response converges slowly where minima nearly compete: twice the difference of two rules
    spread = 2.0 * abs(point.certificate.replicon - usual.certificate.replicon)
    assert point.certificate.replicon == pytest.approx(replicon, rel=5e-3, abs=1e-4 + spread)
    assert point.status.startswith("converged")
    assert point.certificate.residual < 1e-6
    assert point.certificate.train_loss_gap < 1e-6
    assert abs(point.certificate.stein_gap) < 1e-3
    # three stated errors cover the true one: compare with the table, itself good to a tenth of its stated error
    assert abs(usual.test_error - test) < 3.0 * usual.certificate.quadrature_error + 2e-6 * test
    assert abs(usual.q - q) < 3.0 * usual.errors["q"] + 1.5 * of_q * q


@pytest.mark.parametrize(
    ("alpha", "s", "eps", "q", "m", "rank", "test"),
    [
        (0.05, 7.311577, 2.883797, 0.887290, 0.587487, 0.261055, 0.428999),
        (0.1, 2.851102, 1.100210, 1.465201, 1.037380, 0.417299, 0.330304),
        (0.14, 2.388547, 0.384254, 2.368453, 1.390433, 0.538379, 0.337694),
    ],
)
def test_values_of_the_ridgeless_limit(alpha, s, eps, q, m, rank, test):
    point = predict(Task(), Learner(weight_decay="0+"), alpha)
    got = (point.spread, point.threshold, point.q, point.m, point.rank, point.test_error)
    assert got == pytest.approx((s, eps, q, m, rank, test), abs=1e-6)
    assert point.train_loss == pytest.approx(0.0, abs=1e-12)
    assert point.to_dict()["sigma"] is None
    assert point.to_dict()["q_hat"] is None


@pytest.mark.parametrize(
    ("kappa0", "noise", "ratio"),
    [(0.5, 0.5, 0.30696420572), (0.5, 0.1, 0.34499980), (0.5, 0.01, 0.38751649), (0.25, 0.5, 0.28156066),
     (0.75, 0.5, 0.32763674), (0.1, 0.5, 0.26347075)],
)  # fmt: skip
def test_values_of_interpolation(kappa0, noise, ratio):
    found = thresholds(Task(target=MarchenkoPastur(kappa0=kappa0), noise=noise))
    assert 2.0 * found.interpolation == pytest.approx(ratio, abs=1e-7)


@pytest.mark.parametrize(
    ("kappa0", "ratio"), [(0.01, 0.023142), (0.1, 0.157572), (0.25, 0.293942), (0.5, 0.422175), (0.75, 0.482761)]
)
def test_values_of_recovery(kappa0, ratio):
    found = thresholds(Task(target=MarchenkoPastur(kappa0=kappa0), noise=0.0))
    assert 2.0 * found.recovery == pytest.approx(ratio, abs=1e-6)
    k = kappa0
    assert 2.0 * found.interpolation == pytest.approx((1.0 + 2.0 * k - k * k) / 4.0, abs=1e-6)


def test_values_of_other_thresholds():
    found = thresholds(Task())
    assert found.emergence == pytest.approx(6.756e-5, rel=1e-4)
    assert found.peak_test_error == pytest.approx(0.501098, abs=1e-6)
    assert found.bayes_optimal == 0.1875
    assert found.direct == 0.25
    assert found.to_dict()["recovery"] is None


@pytest.mark.parametrize(
    ("tokens", "alpha", "decay", "expected"),
    [
        (3, 0.2, 0.001, {"q": (1.870, 0.011), "m": (1.540, 0.004), "sigma": (4.72, 0.04), "test_error": (0.2669, 0.0009),
                         "train_loss": (0.010210, 0.000069)}),
        (5, 0.05, 0.01, {"q": (1.1380, 0.0018), "m": (1.1684, 0.0008), "sigma": (9.75, 0.02),
                         "test_error": (0.4333, 0.0015), "train_loss": (8.908e-3, 1.2e-5)}),
    ],
)  # fmt: skip
@pytest.mark.slow
def test_values_for_more_tokens(tokens, alpha, decay, expected):
    point = predict(Task(tokens=tokens), Learner(weight_decay=decay), alpha)
    for name, (value, deviation) in expected.items():
        # the table quotes the deviation of one of four scrambles: three standard errors of their mean, plus our own
        assert getattr(point, name) == pytest.approx(value, abs=3.0 * deviation * np.sqrt(0.25 + 0.25)), name
