"""Logits that all queries share, where tokens have a mean."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from onehead import aim
from onehead.aim import Learner, MarchenkoPastur, PowerLaw, Product, Task, predict, thresholds, unasked_curve
from onehead.aim.logits.geometry import geometry_of
from onehead.aim.solve.one_level import no_solution_error
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.limits.unasked_emergence import unasked_emergence
from onehead.aim.theory.limits.unasked_learning import UnaskedRegression
from onehead.aim.theory.limits.unasked_row import unasked_row
from onehead.aim.verbs.implicit_derivatives import decay_slope
from onehead.errors import InvalidArgument, NotConverged
from onehead.fields import parameters_of

CROSS = Task(attention="cross")


def share(variance):
    """The unasked share of a target whose asked logits have variance one."""
    return variance / (1.0 + variance)


# an independent program on a lattice of spacing 0.1 (squared: off by 8e-9, 2e-7 and 8e-5 in the three rows, relative)
# or 0.25 (2e-8), which prints seven digits; in the second row q, c and the hats are off by up to 1.8e-6, like a residual
# of 1e-6: here a residual of 1e-13 moves q by 6e-9
D11 = [
    ("soft", "squared", 1.0, 0.05, 1.0, 1e-6,
     (0.7420327, 0.772011, 0.8807273, 3.027011, 0.01488914, 0.2247494, 0.2551862, 0.0530226, 0.09447101, 1.01805, 0.800704)),
    ("soft", "squared", 1.0, 0.05, 3.35, 3e-6,
     (0.6526654, 0.7045133, 0.8617735, 4.030967, 0.008551556, 0.1477112, 0.1714037, 0.04236738, 0.07531937, 0.8195775, 0.7346806)),
    ("soft", "squared", 0.4, 0.02, 1.0, 8e-5,
     (0.6583636, 0.5893419, 0.8693808, 17.16853, 8.939726e-4, 0.02864334, 0.03294683, 0.0128503, 0.155486, 1.097162, 0.648907)),
    ("soft", "cross-entropy", 1.0, 0.05, 3.35, 1e-6,
     (0.7961977, 0.7999996, 0.9164122, 3.215052, 0.01405828, 0.2183713, 0.2382894, 0.7700654, 0.06985732, 0.8124237, 0.795055)),
    ("hard", "cross-entropy", 2.0, 0.1, 3.0, 1e-6,
     (4.495784, 1.305936, 1.408274, 2.180426, 0.583788, 0.5852452, 0.4155763, 1.131687, 0.2788681, 1.32431, 0.9272501)),
    ("hard", "cross-entropy", 4.0, 0.02, 1.0, 1e-6,
     (1.834598, 1.088365, 1.094152, 0.5515508, 2.136755, 1.966861, 1.797613, 3.336502, 0.1705172, 1.151864, 0.9929818)),
]  # fmt: skip
D11_NAMES = ("q", "m", "unasked_scale", "sigma", "q_hat", "m_hat", "sigma_hat")
D11_NAMES = (*D11_NAMES, "train_loss", "test_error", "test_cross_entropy", "rank")


@pytest.mark.parametrize(("labels", "loss", "alpha", "decay", "variance", "error", "expected"), D11)
def test_predictions_agree_with_an_independent_program(labels, loss, alpha, decay, variance, error, expected):
    task = CROSS.changed(labels=labels, unasked=share(variance))
    point = predict(task, Learner(loss=loss, weight_decay=decay), alpha, accuracy=1e-7)
    found = [getattr(point, name) for name in D11_NAMES]
    assert found == pytest.approx(expected, rel=error)
    assert point.certificate.train_loss_gap < 1e-6  # both forms of the training loss, of the asked part alone


@pytest.mark.parametrize(("variance", "ratio"), [(0.0, 0.150600), (1.0, 0.185097), (2.0, 0.213191), (3.35, 0.245580)])
def test_emergence_of_the_asked_part(variance, ratio):
    """Below it the map is zero but for the field, which is not: c is about 0.7."""
    task, learner = CROSS.changed(unasked=share(variance)), Learner(loss="cross-entropy", weight_decay=0.5)
    assert thresholds(task, learner).emergence == pytest.approx(ratio, rel=1e-5)
    below = predict(task, learner, 0.9 * ratio)
    assert below.rank == 0.0
    assert below.unasked_share == (1.0 if variance else 0.0)
    assert below.unasked_scale == pytest.approx(0.71 if variance else 0.0, abs=0.02)
    nothing = predict(CROSS.changed(unasked=share(variance)), learner.changed(weight_decay=1e3), ratio)
    assert nothing.test_error == pytest.approx(below.test_error, rel=1e-6)


def test_a_share_of_zero_is_a_head_without_a_mean():
    """A tiny share changes nothing to first order, and none changes nothing at all."""
    learner = Learner(weight_decay=0.05)
    without, tiny = predict(CROSS, learner, 0.5), predict(CROSS.changed(unasked=1e-9), learner, 0.5)
    assert (without.unasked_scale, without.unasked_share) == (0.0, 0.0)
    # both are solved to a residual of 3e-7
    assert (tiny.q, tiny.m, tiny.test_error) == pytest.approx((without.q, without.m, without.test_error), rel=3e-6)


def test_fields_and_asked_logits_are_gaussian_totals():
    """The loss on fresh samples against logits drawn from their definition: a field per key, and logits of each
    query.
    """
    variance, scale, q, m, rng, size = 2.0, 0.8, 0.9, 0.7, np.random.default_rng(5), 400_000
    problem = build_state_evolution(CROSS.changed(unasked=share(variance)), Learner())
    field, label, free = rng.standard_normal((3, size, 2))
    noise = np.sqrt(0.25) * rng.standard_normal((size, 2))
    t = np.sqrt(variance) * field + label + noise
    v = scale * np.sqrt(variance) * field + m * label + np.sqrt(q - m * m) * free
    sig = [1.0 / (1.0 + np.exp(h[:, 1] - h[:, 0])) for h in (t, v)]
    losses = 2.0 * 2.0 * (sig[0] - sig[1]) ** 2  # two rows of two columns
    values = problem.directions.output_values(np.array([q]), np.array([m]), np.array([scale * np.sqrt(variance)]))
    found = problem.output.fresh_loss(*values, loss="squared")
    assert abs(losses.mean() - found) < 4.5 * losses.std() / np.sqrt(size)


@pytest.mark.parametrize("target", [Product(kappa0=0.3), Product(kappa0=2.0)])
def test_temperatures_only_rescale(target):
    """β and β₀ change units: the same errors at the map and the field divided by β/β₀ (1.5)."""
    one = predict(Task(attention="cross", target=target, unasked=0.4), Learner(weight_decay=0.02), 0.8)
    other = predict(
        Task(attention="cross", target=target, unasked=0.4), Learner(weight_decay=0.02 * 2.0, beta=2.0), 0.8
    )
    assert other.test_error == pytest.approx(one.test_error, rel=1e-6)
    assert other.unasked_scale == pytest.approx(one.unasked_scale / 2.0, rel=1e-6)
    assert other.unasked_share == pytest.approx(one.unasked_share, rel=1e-6)


OWN_LOGIT = {
    "tied": Task(unasked=0.5),
    "tied, causal": Task(unasked=0.5, mask="causal", tokens=3),
    "self": Task(attention="self", unasked=0.5),
    "self, causal": Task(attention="self", mask="causal", tokens=3, unasked=0.5),
    "self, three tokens": Task(attention="self", tokens=3, unasked=0.5),
}


@pytest.mark.parametrize("name", OWN_LOGIT)
def test_covariance_of_fields_against_sampled_ones(name):
    """Fields enter the logits as mu' S z_b, and those of a symmetric map as z_a' S mu too, which a row does not see."""
    task = OWN_LOGIT[name]
    g = np.random.default_rng(0).standard_normal((task.tokens, 200_000))
    for block in geometry_of(task.attention, task.mask, task.tokens).blocks:
        fields = np.zeros((block.dim, g.shape[1]))
        for a, row in enumerate(block.select):
            logits = g[: len(row)] + (g[a] if task.tied and task.mask == "none" else 0.0)
            reference = logits[list(row).index(-1)] if -1 in row else g[0] + g[1]
            for b, i in enumerate(row):
                if i >= 0:
                    fields[i] = logits[b] - reference
        # standard error of a covariance of unit normals: a few times 200,000^-1/2
        assert np.abs(np.cov(fields) - block.field_covariance).max() < 0.05


@pytest.mark.parametrize("name", OWN_LOGIT)
def test_heads_that_see_their_own_logit_have_a_field_of_their_own(name):
    """Both forms of the training loss agree; a vanishing share is a head without a mean, whose c has a limit."""
    task, learner = OWN_LOGIT[name], Learner(weight_decay=0.05, loss="cross-entropy")
    point = predict(task, learner, 0.6)
    assert point.certificate.train_loss_gap < 1e-6
    assert 0.5 < point.unasked_scale < 1.2
    assert 0.0 < point.unasked_share < 1.0
    if task.tokens > 2:
        return
    none, tiny = predict(task.changed(unasked=0.0), learner, 0.6), predict(task.changed(unasked=1e-9), learner, 0.6)
    # both are solved to a residual of 3e-7 on lattices whose errors differ
    assert (tiny.q, tiny.m, tiny.test_error) == pytest.approx((none.q, none.m, none.test_error), rel=1e-5)


def test_the_field_of_causal_rows_of_two_columns_adds_to_the_variance_of_one_coordinate():
    """Self-attention, causal, T = 2: the only coordinate has variance Q_s + (Q_s + Q_a)/2 and 2 G of the field; the loss
    on fresh samples against logits drawn from their definition.
    """
    task, scale, rng, size = Task(attention="self", mask="causal", unasked=0.6), 0.8, np.random.default_rng(2), 400_000
    problem = build_state_evolution(task, Learner())
    field, label, free = rng.standard_normal((3, size))
    G, (q, m) = 1.5, (0.9, 0.7)
    t = np.sqrt(2.0 * G) * field + np.sqrt(2.0 * 1.25) * label
    v = scale * np.sqrt(2.0 * G) * field + np.sqrt(2.0) * (m * label / np.sqrt(1.25) + np.sqrt(q - m * m / 1.25) * free)
    losses = 2.0 * (1.0 / (1.0 + np.exp(-t)) - 1.0 / (1.0 + np.exp(-v))) ** 2
    found = problem.output.fresh_loss(q, q, m, m, scale * np.sqrt(G), loss="squared")
    assert abs(losses.mean() - found) < 4.5 * losses.std() / np.sqrt(size)


def test_the_asked_part_of_self_attention_emerges_after_the_field():
    below = predict(OWN_LOGIT["self"], Learner(weight_decay=5.0), 0.1)
    assert (below.rank, below.unasked_share) == (0.0, 1.0)
    assert below.unasked_scale == pytest.approx(0.7, abs=0.05)


def test_long_rows_with_own_logits_are_refused_in_one_sentence():
    for task in (Task(unasked=0.5, tokens=9), Task(attention="self", mask="causal", tokens=17, unasked=0.5)):
        with pytest.raises(InvalidArgument, match=r"tokens must be at most (8|16) with an unasked share"):
            predict(task, Learner(), 0.5)
    assert predict(Task(attention="self", mask="strict", tokens=3, unasked=0.5), Learner(), 0.5).unasked_share > 0.0


VERBS = {
    "directions": lambda task, learner, point: aim.directions(point),
    "nuclear_equivalence": lambda task, learner, point: aim.nuclear_equivalence(task, learner, dim=10, alpha=0.5),
}


@pytest.mark.parametrize("verb", VERBS)
def test_functions_that_do_not_support_a_parameter_refuse_it(verb):
    """A parameter whose declaration lists the functions that support it is refused by all others."""
    assert verb not in parameters_of(Task)["unasked"].verbs
    task, learner = CROSS.changed(unasked=0.5), Learner(weight_decay=0.05)
    point = predict(task, learner, 0.5)
    with pytest.raises(InvalidArgument, match=f"unasked must be 0 for {verb}; predict, curve"):
        VERBS[verb](task, learner, point)


def test_functions_that_support_a_parameter_use_it():
    task, learner = CROSS.changed(unasked=0.5), Learner(weight_decay=0.05, loss="cross-entropy")
    point = predict(task, learner, 0.5)
    assert aim.curve(task, learner, [0.5])[0].test_error == pytest.approx(point.test_error, rel=1e-6)
    assert aim.tune(task, learner, 0.5).test_error <= point.test_error
    assert aim.spectrum(point).rank == pytest.approx(point.rank, abs=1e-6)
    assert aim.plateau(task).test_error < point.test_error
    assert aim.bayes(task, 0.5).test_error < point.test_error
    assert aim.data_for(task, aim.bayes(task, 0.5).test_error) == pytest.approx(0.5, rel=1e-6)


# the same program; singular value, overlaps and pull to about 1e-4
@pytest.mark.parametrize(("length", "expected"), [(3.15, (3.32426, 0.87676, 0.97186, 0.97502)), (1.0, (0.89507,))])
def test_the_mean_adds_an_outlier_if_its_row_is_long_enough(length, expected):
    variance, scale = 3.35, 0.8617735
    task = CROSS.changed(unasked=share(variance), token_mean=variance * (scale / length) ** 2)
    law = aim.spectrum(predict(task, Learner(weight_decay=0.05), 1.0))
    row = law.unasked_outlier
    found = (row.pull,) if row.position is None else (row.position, row.query_overlap, row.key_overlap, row.pull)
    assert found == pytest.approx(expected, abs=2e-4)
    assert row.length == pytest.approx(length, rel=1e-5)
    assert law.edges[-1][1] == pytest.approx(2.42432, abs=2e-4)


def test_the_row_along_the_mean_is_that_of_a_sampled_matrix():
    """Singular values of a sampled map with one row replaced, soft-thresholded, at d = 400."""
    rng, d, eps, slope = np.random.default_rng(1), 400, 0.4, 0.7
    channel = build_state_evolution(CROSS, Learner()).input
    row = unasked_row(channel.law(0.5), eps, slope, 2.5)
    width = d // 2
    Y = rng.standard_normal((d, width)) @ rng.standard_normal((width, d)) / np.sqrt(width * d)
    Y += np.sqrt(0.5 / d) * rng.standard_normal((d, d))
    Y[0] = row.blurred / np.sqrt(d)
    left, x, right = np.linalg.svd(Y)
    S = slope * (left * np.clip(x - eps, 0.0, None)) @ right
    # fluctuations of a single sample are of order d^-1/2 = 0.05 in an outlier and in the length of a row
    assert slope * (x[0] - eps) == pytest.approx(row.position, abs=0.1)
    assert left[0, 0] ** 2 == pytest.approx(row.query_overlap, abs=0.05)
    assert np.linalg.norm(S[0]) == pytest.approx(2.5, abs=0.12)
    kept = x > eps
    assert left[0, kept] @ right[kept] @ (Y[0] / np.linalg.norm(Y[0])) == pytest.approx(row.pull, abs=0.05)


def test_the_first_thing_learned_needs_about_d_samples():
    """Reference value 1.054; the gradient of sampled losses at S = 0 crosses the penalty there."""
    task, learner = CROSS.changed(unasked=0.5), Learner(loss="cross-entropy", weight_decay=1.0)
    found = thresholds(task, learner)
    assert found.unasked_emergence == pytest.approx(1.0543, abs=3.0 * found.errors["unasked_emergence"] + 5e-4)
    assert thresholds(CROSS, learner).unasked_emergence is None
    assert unasked_emergence(build_state_evolution(task, learner.changed(param="direct")), 1.0) == (0.0, 0.0)
    assert unasked_emergence(build_state_evolution(task.changed(tokens=65), learner), 1.0) is None
    assert unasked_emergence(build_state_evolution(task, learner), 4.0)[0] < found.unasked_emergence


@pytest.mark.parametrize(
    ("changes", "loss"), [({"tokens": 3, "mask": "causal"}, "squared"), ({"labels": "hard"}, "cross-entropy")]
)
def test_the_field_leaves_zero_where_sampled_gradients_exceed_the_penalty(changes, loss):
    """Gradient in s of n = a d samples at S = 0, from labels sampled by their definition."""
    task = CROSS.changed(unasked=0.6, **changes)
    learner, rng, d = Learner(loss=loss, weight_decay=0.5), np.random.default_rng(3), 300
    ratio, _ = unasked_emergence(build_state_evolution(task, learner), task.token_mean)
    n, T, s = round(ratio * d), task.tokens, rng.standard_normal(d)
    s *= np.sqrt(task.unasked_variance) / np.linalg.norm(s)
    norms = []
    for _ in range(12):
        w = rng.standard_normal((n, T, d))
        logits = (w @ s)[:, None, :] + np.sqrt(1.0 + 0.25) * rng.standard_normal((n, T, T))
        columns = np.array(task.columns)
        p = np.where(np.arange(T) < columns[:, None], np.exp(logits), 0.0)
        p /= p.sum(axis=-1, keepdims=True)
        if task.labels == "hard":
            chosen = (rng.random((n, T, 1)) > np.cumsum(p, axis=-1)).sum(axis=-1)
            p = (chosen[..., None] == np.arange(T)).astype(float)
        gradient = np.where(np.arange(T) < columns[:, None], 1.0 / columns[:, None] - p, 0.0)
        gradient *= (2.0 / columns[:, None] if loss == "squared" else 1.0) * (columns > 1)[:, None]
        norms.append(np.linalg.norm(np.einsum("nab,nbd->d", gradient, w)))
    # n is rounded to an integer: half a sample in n
    assert abs(np.mean(norms) - 0.5 * d) < 4.0 * np.std(norms) / np.sqrt(12) + 0.5 * d / n


def test_hard_labels_are_separable_as_those_of_the_total_power():
    """The field is free of noise, like all that lies along the target."""
    hard, learner = CROSS.changed(labels="hard"), Learner(loss="cross-entropy", weight_decay=0.1)
    found = thresholds(hard.changed(unasked=0.5), learner).separability
    stronger = thresholds(hard.changed(beta0=np.sqrt(2.0), noise=0.25), learner).separability
    assert found == pytest.approx(stronger, rel=1e-12)


def test_the_best_possible_learner_knows_the_field():
    """Half the squared distance of two labels that share what is known, from sampled logits; what is not known does
    not depend on the mean.
    """
    variance, rng, size = 2.0, np.random.default_rng(7), 400_000
    best, without = aim.bayes(CROSS.changed(unasked=share(variance)), 0.5), aim.bayes(CROSS, 0.5)
    assert best.mmse == pytest.approx(without.mmse, rel=1e-12)
    known = np.sqrt(variance + best.overlap) * rng.standard_normal((size, 2))
    hidden = np.sqrt(best.mmse + 0.25) * rng.standard_normal((2, size, 2))
    first, second = (1.0 / (1.0 + np.exp(h[:, 1] - h[:, 0])) for h in known + hidden)
    halves = 0.5 * 4.0 * (first - second) ** 2
    assert abs(halves.mean() - best.test_error) < 4.5 * halves.std() / np.sqrt(size)
    # the best head has the same factor for the field as for the rest
    output = build_state_evolution(CROSS.changed(unasked=share(variance)), Learner()).output
    for scale, field in ((1.0, 1.02), (1.02, 1.0), (0.98, 1.0), (1.0, 0.98)):
        of_rest, of_field = scale * best.head_scale, field * best.head_scale
        q = of_rest**2 * best.overlap + of_field**2 * variance
        m = of_rest * best.overlap + of_field * variance
        assert output.fresh_loss(q, m, loss="squared") > best.head_error


# the same program, on a coarse lattice: sample ratios at which |S - S*|²/d is half of Q0. Its error is 1e-3 where
# logits are narrow; at a variance of 10 its nodes are 2 logit units apart, and 2 % were seen.
@pytest.mark.parametrize(
    ("labels", "loss", "decay", "ratios"),
    [
        ("soft", "squared", 0.02, (0.371, 0.376, 0.432, 0.617)),
        ("soft", "cross-entropy", 0.05, (0.324, 0.335, 0.374, 0.483)),
        ("hard", "cross-entropy", 0.1, (3.75, 4.36, 5.51, 7.78)),
    ],
)
def test_what_a_mean_costs(labels, loss, decay, ratios):
    """The distance falls about as 1/α, so that three digits of α are 0.002 of it."""
    for variance, ratio in zip((0.0, 1.0, 3.35, 10.0), ratios, strict=True):
        task = CROSS.changed(labels=labels, unasked=share(variance))
        point = predict(task, Learner(loss=loss, weight_decay=decay), ratio)
        assert point.q - 2.0 * point.m + 1.0 == pytest.approx(0.5, abs=3e-3 if variance < 5.0 else 2e-2)


# c and |s - c s*|² of trained heads and of an independent program, M = G = 1, to a unit of their last digit
@pytest.mark.parametrize(
    ("ratio", "decay", "changes", "loss", "scale", "noise"),
    [
        (4.0, 0.4, {}, "cross-entropy", 0.548, 0.067),
        (8.0, 0.6, {}, "squared", 0.548, 0.032),
        (8.0, 0.8, {"labels": "hard"}, "cross-entropy", 0.577, 0.114),
    ],
)
def test_how_much_is_learned_from_a_few_samples_for_each_dimension(ratio, decay, changes, loss, scale, noise):
    task, learner = CROSS.changed(unasked=0.5, **changes), Learner(loss=loss, weight_decay=decay)
    (point,) = unasked_curve(task, learner, [ratio])
    assert abs(point.unasked_scale - scale) < 3.0 * point.errors["unasked_scale"] + 1e-3
    assert point.unasked_noise == pytest.approx(noise, abs=2e-3)


def test_what_is_learned_from_n_samples_starts_at_its_emergence_and_ends_at_that_of_d_squared():
    """Zero below `thresholds`; for many samples over d the c of a head whose asked part is zero."""
    task, learner = CROSS.changed(unasked=0.5), Learner(loss="cross-entropy", weight_decay=1.0)
    below, above, many = unasked_curve(task, learner, [1.0, 1.3, 1e4])
    assert below.unasked_scale == 0.0 < above.unasked_scale < 0.1
    assert thresholds(task, learner).unasked_emergence == pytest.approx(1.0543, abs=1e-3)
    asked_zero = predict(task, learner, 0.3)
    assert asked_zero.rank == 0.0
    # λ/|s| against Σhat of 1e4 samples: a relative 2e-4; and the error of the sampled points
    allowed = 3.0 * many.errors["unasked_scale"] + 5e-4
    assert many.unasked_scale == pytest.approx(asked_zero.unasked_scale, abs=allowed)


@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
@pytest.mark.parametrize("decay", [1e-4, 1e-1])
def test_what_is_learned_from_any_number_of_samples_is_found(loss, decay):
    """Also around n = d, where weak decay makes the proximal operator wide and the squared loss has several minima."""
    task, learner = CROSS.changed(unasked=0.5), Learner(loss=loss, weight_decay=decay)
    points = [unasked_curve(task, learner, [ratio])[0] for ratio in (0.1, 0.5, 1.0, 3.0, 100.0)]
    assert all(point.certificate.status == "converged" for point in points)
    # many samples leave only what weight decay and the noise of the labels take; noise is largest where n = d
    assert 0.6 < points[-1].unasked_scale < 0.8
    assert points[-1].unasked_noise < 0.01
    noises = [point.unasked_noise for point in points]
    assert max(noises) == noises[2]


@pytest.mark.parametrize(("decay", "ratio"), [(1e-4, 1.0), (1e-2, 0.5), (1e-1, 1.0)])
@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
def test_proximal_points_of_the_unasked_field_are_minima(loss, decay, ratio):
    """Against scipy, started near them: the objective does not fall and the points stay."""
    task, learner = CROSS.changed(unasked=0.5), Learner(loss=loss, weight_decay=decay)
    regression = UnaskedRegression(build_state_evolution(task, learner), task.token_mean)
    learned = regression.at(ratio)
    samples = regression._samples.part(slice(0, 4096, 256))
    v = learned.scale * samples.fields + np.sqrt(learned.noise) * samples.noise
    sigma = 1.0 / (0.02 * ratio + regression._penalty_slope(learned.scale, learned.noise))
    found = regression._prox(v, sigma, samples.labels, samples.fields)
    for k, (point, center) in enumerate(zip(found, v, strict=True)):
        labels = [y[k] for y in samples.labels]

        def objective(u, labels=labels, center=center):
            p = np.exp(u - logsumexp(u))
            values = [np.sum((p - y) ** 2) if loss == "squared" else logsumexp(u) - y @ u for y in labels]
            return sum(values) + np.sum((u - center) ** 2) / (2.0 * sigma)

        best = minimize(objective, point + 1e-3, method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-14})
        assert objective(point) <= best.fun + 1e-13
        # an objective known to 1e-14 and curved by at least 1/sigma
        assert np.abs(best.x - point).max() < 1e-5 + 10.0 * np.sqrt(1e-14 * sigma)


@pytest.mark.parametrize(("decay", "ratio"), [(1e-2, 1.0), (1e-3, 1.0)])
def test_what_is_learned_where_the_squared_loss_has_several_minima(decay, ratio):
    """Against a regression of 150 dimensions, minimised by scipy."""
    task, learner, dim, seeds = CROSS.changed(unasked=0.5), Learner(weight_decay=decay), 150, 6
    problem = build_state_evolution(task, learner)
    regression = UnaskedRegression(problem, task.token_mean)
    power = regression.field_power
    own, penalty = np.sqrt(problem.output.label_power - power), dim * problem.decay / np.sqrt(task.token_mean)
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        keys, target = rng.standard_normal((round(ratio * dim), 2, dim)), rng.standard_normal(dim)
        target *= np.sqrt(power) / np.linalg.norm(target)
        fields = keys @ target
        labels = softmax(fields[:, None, :] + own * rng.standard_normal((len(keys), 2, 2)), axis=2)

        def objective(s, keys=keys, labels=labels):
            p, length = softmax(keys @ s, axis=1)[:, None, :], np.linalg.norm(s)
            product = p * (p - labels)
            slopes = 2.0 * np.sum(product - p * product.sum(axis=2, keepdims=True), axis=1)
            value = np.sum((p - labels) ** 2) + penalty * length
            return value, np.einsum("nt,ntd->d", slopes, keys) + penalty * s / length

        s = minimize(objective, target, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "maxfun": 10_000}).x
        scale = s @ target / power
        found.append((scale, np.sum((s - scale * target) ** 2)))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(seeds)
    learned = regression.at(ratio)
    assert abs(mean[0] - learned.scale) < 3.5 * error[0]
    assert abs(mean[1] - learned.noise) < 3.5 * error[1]


@pytest.mark.parametrize(
    ("task", "learner", "message"),
    [
        (CROSS, Learner(), "unasked must be above 0"),
        (Task(unasked=0.5), Learner(), "attention must be cross"),
        (CROSS.changed(unasked=0.5, tokens=9), Learner(), "tokens must be at most 8"),
        (CROSS.changed(unasked=0.5), Learner(weight_decay="0+"), "weight_decay must be a number > 0"),
    ],
)
def test_what_has_no_curve_of_samples_over_d_is_refused(task, learner, message):
    with pytest.raises(InvalidArgument, match=message):
        unasked_curve(task, learner, [1.0])


@pytest.mark.parametrize("changes", [{"attention": "tied"}, {"fluctuation": 1.0}, {}])
def test_slopes_in_the_weight_decay_are_those_of_solutions(changes):
    """Also where the field has a covariance, or a size per query, of its own: `tune` follows these slopes."""
    task, learner = CROSS.changed(target=MarchenkoPastur(), unasked=0.5, **changes), Learner(loss="cross-entropy")
    low, middle, high = (predict(task, learner.changed(weight_decay=0.2 * factor), 1.0) for factor in (0.99, 1.0, 1.01))
    slope = (high.test_error - low.test_error) / np.log(1.01 / 0.99)
    # both sides are solved to residuals of 3e-7, over a step of 0.02
    assert decay_slope(middle) == pytest.approx(slope, rel=1e-3)


@pytest.mark.parametrize("name", ["tied", "tied, causal", "self", "cross"])
def test_a_solution_starts_from_a_neighbouring_one(name):
    task, learner = OWN_LOGIT.get(name, CROSS.changed(unasked=0.5)), Learner(weight_decay=0.3)
    near = predict(task, learner, 0.3)
    again, fresh = predict(task, learner, 0.31, near=near), predict(task, learner, 0.31)
    assert again.certificate.evaluations < fresh.certificate.evaluations
    # averages are extrapolated from the start, whose remainder is part of the stated error
    stated = np.hypot(fresh.errors["test_error"], again.errors["test_error"])
    assert abs(again.test_error - fresh.test_error) < 3.0 * stated + 1e-6 * fresh.test_error  # residuals of 3e-7


def test_the_scale_of_the_field_has_an_error():
    task, learner = CROSS.changed(unasked=share(3.35)), Learner(weight_decay=0.05)
    usual, fine = predict(task, learner, 1.0), predict(task, learner, 1.0, accuracy=1e-7)
    for name in ("unasked_scale", "unasked_share"):
        gap = abs(getattr(usual, name) - getattr(fine, name))
        assert 0.0 < gap < 3.0 * usual.errors[name]


@pytest.mark.parametrize("decay", [0.01, 0.3])
def test_the_parts_of_the_excess_error_include_the_field(decay):
    """They add up to the excess error, up to the quadrature over a segment of overlaps."""
    task = CROSS.changed(target=PowerLaw(gamma=0.75, dim=100), unasked=0.6)
    parts = aim.decompose(predict(task, Learner(weight_decay=decay), 0.5))
    assert abs(parts.gap) < 1e-3
    assert min(parts.underfitting, parts.approximation, parts.overfitting) > 0.0
    with pytest.raises(InvalidArgument, match="unasked must be 0 to split"):
        aim.decompose(predict(Task(unasked=0.5), Learner(weight_decay=0.3), 0.5))
    tied = Task(unasked=0.5, target=PowerLaw(gamma=0.75, dim=40))
    assert aim.scaling(tied, Learner(weight_decay=0.3), [500.0])[0].mismatch is None


@pytest.mark.parametrize(
    "changes",
    [{}, {"tokens": 3}, {"attention": "self", "mask": "causal", "tokens": 4}, {"tokens": 3, "fluctuation": 1.0}],
)
def test_a_mean_costs_no_more_evaluations(changes):
    """The field is one more unknown of the same averages."""
    learner, task = Learner(weight_decay=0.05, loss="cross-entropy"), CROSS.changed(unasked=0.5, **changes)
    without, with_mean = predict(task.changed(unasked=0.0, fluctuation=0.0), learner, 1.0), predict(task, learner, 1.0)
    assert with_mean.certificate.evaluations <= 1.5 * without.certificate.evaluations


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("attention", ["cross", "self", "tied"])
def test_rows_with_a_field_are_summed_with_control_variates(attention, mask):
    """A default of three tokens has thousands of sampled points in the place of 10^5 of a lattice of four dimensions."""
    problem = build_state_evolution(Task(attention=attention, mask=mask, tokens=3, unasked=0.5), Learner())
    assert problem.output.uses_controls == (attention == "cross" or mask == "causal")


@pytest.mark.parametrize(
    ("changes", "loss"),
    [
        ({"attention": "self"}, "squared"),
        ({"attention": "self"}, "cross-entropy"),
        ({"attention": "tied"}, "squared"),
        ({"attention": "tied"}, "cross-entropy"),
    ],
)
def test_sums_over_groups_of_logits_with_a_field_are_those_of_a_lattice(changes, loss):
    """Causal rows of three tokens, in both forms, against matrices of coordinates on a lattice."""
    task = Task(mask="causal", tokens=3, unasked=0.6, **changes)
    output = build_state_evolution(task, Learner(loss=loss)).output
    lattice = replace(output, geometry=geometry_of(task.attention, "causal", 3))
    sectors, field = output.geometry.sectors, 0.8 * np.sqrt(task.unasked_variance)
    state = (*(0.9, 1.1)[:sectors], *(0.75, 0.7)[:sectors], field, *(0.3, 0.4)[:sectors])
    parts = output.parts(*state, level=3)
    exact = lattice.averages(*state, level=3, detail=1)
    for derivative, form in ((True, "derivative"), (False, "stein")):
        hats = [output.hats_of(part, *state, derivative=derivative) for part in parts]
        found = np.array([[*one.sectors.ravel(), *one.effective] for one in hats])
        wanted = lattice.hats_of(exact, *state, derivative=derivative)
        error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        gap = np.abs(found.mean(axis=0) - [*wanted.sectors.ravel(), *wanted.effective])
        # eight parts: 6 standard errors are a chance of 5e-4 for Student's t of seven degrees of freedom
        assert np.all(gap < 6.0 * error), form
        assert np.all(error < (5e-3 if derivative else 5e-2) * np.abs(found.mean(axis=0))), form  # else no test


def test_origin_of_rows_with_a_field_is_that_of_a_lattice():
    """Hats at S = 0 by formula, whose own logit has another variance than the others, and by quadrature."""
    task = Task(mask="causal", tokens=3, unasked=0.6)
    output = build_state_evolution(task, Learner()).output
    wanted = replace(output, geometry=geometry_of("tied", "causal", 3)).at_origin(3).sectors
    # error of the lattice, whose check rule differs by less than 1e-7
    assert output.at_origin(3).sectors == pytest.approx(wanted, rel=1e-6)


def test_what_is_not_known_of_own_logits_is_said():
    """The first thing learned is not derived where a token sees its own logit."""
    for labels, loss in (("soft", "squared"), ("hard", "cross-entropy")):
        learner = Learner(weight_decay=0.5, loss=loss)
        found = thresholds(Task(attention="self", unasked=0.5, labels=labels), learner)
        assert found.unasked_emergence is None
        assert "unasked_emergence is known only for heads that do not see their own logit" in found.certificate.status
        assert "unasked" not in thresholds(CROSS.changed(unasked=0.5, labels=labels), learner).certificate.status


def test_a_share_that_is_too_large_is_named():
    problem = build_state_evolution(CROSS.changed(unasked=0.995), Learner(weight_decay=1.0))
    error = no_solution_error(problem, 1.0, NotConverged("the residual stopped."))
    assert str(error).endswith("lower unasked, beta0 or the power of the target.")
