"""Untied, masked and hard-label heads: published numbers, limits in which one kind becomes another, and identities (U1
to U7).
"""

import numpy as np
import pytest
from scipy.optimize import brentq

from onehead.aim import Learner, MarchenkoPastur, PowerLaw, Task, predict, thresholds
from onehead.aim.targets import Product
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.limits import separability as separable
from onehead.errors import OutsideDomain

NUMBERS = ["q", "m", "sigma", "q_hat", "m_hat", "sigma_hat", "train_loss", "test_error", "test_cross_entropy", "rank"]
# head, learner, α, the numbers above, how far off they may be (the change to the next finer lattice, as published)
ISOTROPIC = [
    ({}, {"weight_decay": 0.02}, 0.4,
     ".7678034 .6446353 15.98926 1.222907e-3 .03465265 .03920278 .01436274 .1974161 1.27447 .6992517", 6e-5),
    ({}, {"weight_decay": 0.05}, 1.0,
     ".788357 .8063817 2.404684 .02284439 .30304 .3409015 .06291985 .1131608 1.170881 .8399586", 1e-6),
    ({}, {"weight_decay": 0.01}, 2.0,
     ".976482 .9400822 1.181594 .06637399 .7865061 .8303524 .09959578 .09402105 1.148966 .981763", 1e-6),
    ({}, {"weight_decay": 0.01}, 10.0,
     ".8510997 .9150151 .1704654 .4764773 5.34402 5.833659 .6319518 .07097894 1.119794 .9934262", 1e-6),
    ({"target": Product(kappa0=0.2)}, {"weight_decay": 0.02}, 1.0,
     "1.063259 .9259716 3.330996 .01839715 .2580577 .2699309 .0411397 .1253671 1.190066 .9154698", 4e-5),
    ({}, {"weight_decay": 0.05, "loss": "cross-entropy"}, 1.0,
     ".8607097 .8481343 2.077129 .0317354 .3749223 .408627 1.10699 .1114793 1.169489 .8646055", 1e-6),
    ({"labels": "hard"}, {"weight_decay": 0.1, "loss": "cross-entropy"}, 2.0,
     "2.736786 1.162427 1.143466 1.056443 .996284 .816684 1.777059 .3129231 1.546466 .9477064", 1e-6),
    ({"labels": "hard"}, {"weight_decay": 0.02, "loss": "cross-entropy"}, 4.0,
     "1.63805 1.05954 .4461798 2.588944 2.367403 2.224336 3.938484 .1877968 1.292541 .9937014", 3e-6),
    ({}, {"weight_decay": 0.05, "param": "direct"}, 1.0,
     ".5451934 .6582787 1.988091 .02830168 .3311109 .402995 .06615737 .1189773 1.17706 1", 1e-6),
    ({}, {"weight_decay": 0.01, "width": 0.4}, 1.0,
     "1.048631 .9207634 2.128311 .02836718 .3191668 .332034 .04747144 .1242934 1.188408 .4", 2e-6),
    ({"mask": "causal", "tokens": 3}, {"weight_decay": 0.05}, 1.0,
     ".796196 .8346644 1.978753 .02434027 .3814283 .4223645 .07282787 .1066104 1.50008 .8479795", 6e-5),
    ({"mask": "causal", "tokens": 3, "labels": "hard"}, {"weight_decay": 0.05, "loss": "cross-entropy"}, 1.5,
     "3.379966 1.254955 1.37162 .9586573 .9058538 .703441 1.661208 .3863602 2.112863 .9723536", 2e-5),
]  # fmt: skip
SECTORS = [
    ({}, {"weight_decay": 0.05}, 1.0,
     {"q": (0.79164, 0.75331), "m": (0.83207, 0.73378), "sigma": (1.59859, 4.38538)},
     {"train_loss": 0.0637928, "test_error": 0.110597, "rank": 0.811438}, 5e-5),
    ({"mask": "causal"}, {"weight_decay": 0.02}, 2.0,
     {"q": (0.9983356, 1.135861), "m": (0.9205927, 0.8726467), "sigma": (2.310133, 6.26991)},
     {"train_loss": 0.04340267, "test_error": 0.06329717, "rank": 0.9163987}, 6e-6),
    ({"mask": "causal", "tokens": 3}, {"weight_decay": 0.05}, 1.0,
     {"q": (0.80209, 0.77652), "m": (0.85134, 0.79817), "sigma": (1.4569, 3.0093)},
     {"train_loss": 0.073250, "test_error": 0.10545, "rank": 0.83480}, 1e-4),
    ({"labels": "hard"}, {"weight_decay": 0.1, "loss": "cross-entropy"}, 2.0,
     {"q": (2.2969, 3.7533), "m": (1.1712, 1.0967), "sigma": (0.75042, 2.29607)},
     {"train_loss": 1.7899, "test_cross_entropy": 1.5324, "rank": 0.93652, "zero_one_error": 0.7152 / 2}, 1e-3),
]  # fmt: skip


@pytest.mark.parametrize(("head", "learner", "alpha", "numbers", "error"), ISOTROPIC)
def test_published_numbers_of_cross_attention(head, learner, alpha, numbers, error):
    point = predict(Task(attention="cross", **head), Learner(**learner), alpha)
    for name, value in zip(NUMBERS, map(float, numbers.split()), strict=True):
        # published to seven digits at most; our own error is stated
        allowed = (error + 5e-7) * value + 3.0 * point.errors.get(name, 0.0)
        assert abs(getattr(point, name) - value) < allowed, name
    assert point.certificate.train_loss_gap < 1e-5


@pytest.mark.parametrize(("weight_decay", "alpha", "both_rows"), [(0.1, 2.0, 0.7169150), (0.02, 4.0, 0.6611723)])
def test_published_zero_one_errors(weight_decay, alpha, both_rows):
    head = Task(attention="cross", labels="hard")
    point = predict(head, Learner(weight_decay=weight_decay, loss="cross-entropy"), alpha)
    assert point.zero_one_error == pytest.approx(both_rows / 2, rel=1e-6)  # a share of rows, of which there are two


@pytest.mark.parametrize(("head", "learner", "alpha", "sectors", "numbers", "error"), SECTORS)
def test_published_numbers_of_self_attention(head, learner, alpha, sectors, numbers, error):
    point = predict(Task(attention="self", **head), Learner(**learner), alpha)
    assert point.kind == "heuristic" and "expectation consistency" in point.certificate.warnings[0]
    for name, values in sectors.items():
        assert point.sectors[name] == pytest.approx(values, rel=error)
        assert getattr(point, name) == pytest.approx(np.mean(values), rel=error)
    for name, value in numbers.items():
        assert getattr(point, name) == pytest.approx(value, rel=error)
    # the identity of the training loss holds at a fixed point of the consistent equations as well
    assert point.certificate.train_loss_gap < 1e-5


@pytest.mark.parametrize("labels", ["soft", "hard"])
def test_two_causal_tokens_equal_an_unmasked_pair_at_half_the_sample_ratio(labels):
    """The first row has a single column, so that α with a mask corresponds to α/2 without (U1.1)."""
    learner = Learner(weight_decay=0.05, loss="cross-entropy" if labels == "hard" else "squared")
    causal = predict(Task(attention="cross", mask="causal", labels=labels), learner, 2.0)
    full = predict(Task(attention="cross", labels=labels), learner, 1.0)
    for name in ("q", "m", "sigma", "rank", "zero_one_error"):
        if getattr(full, name) is not None:
            assert getattr(causal, name) == pytest.approx(
                getattr(full, name), rel=1e-5
            )  # each stops at a residual of 3e-7
    assert causal.test_error == pytest.approx(full.test_error / 2, rel=1e-5)
    assert causal.test_cross_entropy == pytest.approx(full.test_cross_entropy / 2, rel=1e-5)


def test_strict_self_attention_equals_causal_cross_attention_of_one_token_less():
    own = predict(Task(attention="self", mask="strict", tokens=4), Learner(weight_decay=0.05), 1.0)
    cross = predict(Task(attention="cross", mask="causal", tokens=3), Learner(weight_decay=0.05), 1.0)
    assert own.sectors is None
    assert (own.q, own.m, own.test_error) == (cross.q, cross.m, cross.test_error)


def test_an_untied_head_needs_more_samples_for_the_same_target():
    """The singular values of a positive target are its eigenvalues; an untied map has twice as many numbers to
    learn.
    """
    target = MarchenkoPastur(kappa0=0.5)
    tied, untied = (
        predict(Task(target=target, attention=attention), Learner(weight_decay=0.05), 1.0)
        for attention in ("tied", "cross")
    )
    assert untied.test_error > tied.test_error and untied.rank > tied.rank
    assert predict(Task(target=target, attention="cross"), Learner(weight_decay=0.05), 1.0).q == untied.q


def test_published_emergence_of_cross_attention():
    """U4: S = 0 up to these ratios, product(.5), Q = 1.25."""
    for decay, ratio in ((0.05, 0.0020040), (0.5, 0.1506002), (1.0, 0.3889585)):
        found = thresholds(Task(attention="cross"), Learner(weight_decay=decay))
        assert found.emergence == pytest.approx(ratio, rel=3e-5)  # seven digits after the point
        assert predict(Task(attention="cross"), Learner(weight_decay=decay), 0.99 * ratio).rank == 0.0
        assert predict(Task(attention="cross"), Learner(weight_decay=decay), 1.05 * ratio).rank > 0.0


def top_edge(s, kappa0):
    """Upper edge of the blurred law of a product: the largest stationary value of z(g) (U3)."""
    k = kappa0
    squares = np.polynomial.Polynomial([0.0, s]) * np.polynomial.Polynomial([1.0, -1.0 / k]) ** 2
    squares += np.polynomial.Polynomial([-1.0, 1.0 + 2.0 / k, 1.0 / k - 1.0 / k**2])
    t = squares.roots()
    g = np.sqrt(t[(np.abs(t.imag) < 1e-9) & (t.real > 0.0)].real)
    return np.abs(s * g + 1.0 / g + g / (1.0 - g**2 / k)).max()


@pytest.mark.parametrize("decay", [0.3, 1.0])
@pytest.mark.parametrize(("kappa0", "tokens"), [(0.5, 2), (0.2, 2), (0.5, 3)])
def test_emergence_of_hard_labels(kappa0, tokens, decay):
    """qhat = (T - 1) α, because all hard labels are equally far from uniform attention; mhat is that of soft labels
    (U4).
    """
    head = {"attention": "cross", "tokens": tokens, "target": Product(kappa0=kappa0)}
    learner = Learner(weight_decay=decay, loss="cross-entropy")
    hard, soft = Task(labels="hard", **head), Task(**head)
    m0 = build_state_evolution(soft, learner).output.at_origin(2).m
    if tokens == 2:  # 4 E sig'(u), u ~ N(0, 2 Q) with Q = 1.25
        x, w = np.polynomial.hermite_e.hermegauss(60)
        u = np.sqrt(2.5) * x
        assert m0 == pytest.approx(float(w @ (1.0 / np.cosh(u / 2.0) ** 2)) / np.sqrt(2.0 * np.pi), rel=1e-8)

    def gap(alpha):
        return alpha * m0 * top_edge((tokens - 1.0) / (alpha * m0**2), kappa0) - decay

    expected = brentq(gap, 1e-3, 30.0)
    found = thresholds(hard, learner).emergence
    assert found == pytest.approx(expected, rel=1e-6)
    below, above = (predict(hard, learner, share * found) for share in (0.98, 1.1))
    assert below.rank == below.q == 0.0 and below.status.startswith("not emerged")
    assert 0.0 < above.rank < 0.3 and above.q > 0.0


@pytest.mark.parametrize(("attention", "value"), [("tied", "eigenvalues"), ("cross", "singular values")])
def test_the_warning_about_power_laws_names_eigenvalues_or_singular_values(attention, value):
    point = predict(
        Task(attention=attention, target=PowerLaw(gamma=1.2, dim=60)), Learner(weight_decay=0.1, leading=0), 0.5
    )
    assert point.certificate.warnings[-1].startswith(f"a few large {value} make single logits far from Gaussian")
    assert point.certificate.kind == "conjecture"


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_emergence_of_self_attention(mask):
    found = thresholds(Task(attention="self", mask=mask), Learner(weight_decay=0.3))
    assert predict(Task(attention="self", mask=mask), Learner(weight_decay=0.3), 0.98 * found.emergence).rank == 0.0
    above = predict(Task(attention="self", mask=mask), Learner(weight_decay=0.3), 1.1 * found.emergence)
    assert 0.0 < above.rank < 0.2


def test_published_separability():
    """U7.1: two columns in closed form, three by Monte Carlo (1 %)."""
    for power, noise, ratio in (
        (1.0, 0.0, 1.2545563),
        (1.0, 0.05, 1.2503154),
        (1.0, 0.5, 1.2178426),
        (4.0, 0.5, 1.6796178),
    ):
        beta0 = np.sqrt(power)  # Q0 β₀² = power, Δ β₀² = noise
        head = Task(attention="cross", labels="hard", noise=noise / power, beta0=beta0)
        assert thresholds(head, Learner(loss="cross-entropy")).separability == pytest.approx(ratio, rel=1e-7)
    for mask, ratio in (("none", 0.487), ("causal", 0.919)):
        head = Task(attention="cross", labels="hard", mask=mask, tokens=3)
        found = thresholds(head, Learner(loss="cross-entropy"))
        assert abs(found.separability - ratio) < 0.01 * ratio + 3.0 * found.errors["separability"]


def test_the_ridgeless_limit_of_hard_labels_exists_only_above_separability():
    head, learner = Task(attention="cross", labels="hard"), Learner(loss="cross-entropy", weight_decay="0+")
    with pytest.raises(OutsideDomain, match=r"separable, as they are up to 1[.]218"):
        predict(head, learner, 1.1)
    limit = predict(head, learner, 1.35)
    close = predict(head, learner.changed(weight_decay=5e-4), 1.35)
    assert close.q == pytest.approx(21.7, rel=5e-3)  # published to three digits
    assert limit.q == pytest.approx(close.q, rel=0.05) and limit.q > close.q


def test_limits_of_self_attention_without_theory_are_refused():
    with pytest.raises(OutsideDomain, match="the limit λ → 0⁺ of self-attention"):
        predict(Task(attention="self"), Learner(weight_decay="0+"), 0.3)
    found = thresholds(Task(attention="self", noise=0.0))
    assert found.recovery is None and found.bayes_optimal is None and "not known" in found.status
    assert found.interpolation == 0.5


@pytest.mark.parametrize("share", [0.2, 0.6, 0.9])
def test_published_numbers_of_the_ridgeless_limit(share):
    """U4, the table of the limit: (q, m, rank) at αJ."""
    table = {
        0.2: (0.494306, 0.240683, 0.332998),
        0.6: (1.185253, 0.681165, 0.684704),
        0.9: (3.279932, 0.916096, 0.923699),
    }
    point = predict(Task(attention="cross"), Learner(weight_decay="0+"), share / 2)
    assert (point.q, point.m, point.rank) == pytest.approx(table[share], rel=2e-6)
    assert point.train_loss == 0.0


def test_thresholds_of_tied_causal_heads():
    """U6: rows decouple; a map so large that every label is fitted ends interpolation at αJ/2 as without a mask."""
    full, causal = thresholds(Task()), thresholds(Task(mask="causal"))
    assert 2 * full.interpolation == pytest.approx(causal.interpolation, rel=1e-12)  # J = 2 and 1
    assert full.direct * 2 == causal.direct == 0.5


@pytest.mark.slow
def test_separability_of_long_rows_is_limited_in_memory():
    """Three numbers for each column of 16,384 points took 23 GB at 30,000 tokens; longer rows get fewer points, and
    very long ones none.
    """
    task, learner = Task(attention="cross", labels="hard", tokens=30_000), Learner(loss="cross-entropy")
    found = thresholds(task, learner)
    assert found.separability is None
    assert "at most 1024 columns" in found.certificate.status
    assert np.isfinite(found.emergence)
    with pytest.raises(OutsideDomain, match="at most 1024 columns"):
        predict(task, learner.changed(weight_decay="0+"), 1e-3)
    short, long = (thresholds(task.changed(tokens=n), learner) for n in (100, 800))
    assert long.separability < short.separability
    assert 0.0 < long.certificate.errors["separability"] < 0.1 * long.separability  # 2,048 points
    assert len(separable._Row(800, 1.0, 0.5)._label) * 3 * 800 <= 2**23
