"""The output channel: geometry, quadrature against Monte Carlo, Stein against derivative forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.proximal_points import prox

from onehead.aim import CrossEntropy, Squared
from onehead.aim.logits.geometry import geometry_of, tied_geometry
from onehead.aim.losses import loss_for_labels
from onehead.aim.theory.output.averages import ProxCache
from onehead.aim.theory.output.one_sector import OneSectorOutput
from onehead.aim.theory.output.sectors import SectorOutput
from onehead.numerics.cholesky import factorise, invert_factored


@pytest.mark.parametrize("tokens", [2, 3, 5, 8])
def test_geometry(tokens):
    shape = tied_geometry(tokens).blocks[0]
    assert shape.dim == tokens * (tokens + 1) // 2 - 1
    assert np.allclose(shape.root @ shape.root.T, shape.covariance)
    # covariance of h_ab - h_12 from first principles: h_ab has variance 1 + delta_ab, independent over pairs
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(40_000, tokens, tokens))
    h = np.triu(raw, 1) + np.transpose(np.triu(raw, 1), (0, 2, 1))
    h[:, range(tokens), range(tokens)] = np.sqrt(2.0) * raw[:, range(tokens), range(tokens)]
    u = np.empty((len(h), shape.dim))
    for a in range(tokens):
        for b in range(tokens):
            if shape.select[a, b] >= 0:
                u[:, shape.select[a, b]] = h[:, a, b] - h[:, 0, 1]
    # sampling error of a covariance of variance-3 entries with 40,000 samples: 3/200; four of them
    assert np.abs(np.cov(u.T) - shape.covariance).max() < 0.06
    assert shape.select[0, 1] == shape.select[1, 0] == -1


def test_two_token_geometry_is_the_one_on_paper():
    shape = tied_geometry(2).blocks[0]
    assert np.allclose(shape.covariance, [[3.0, 1.0], [1.0, 3.0]])
    target, v = np.array([0.7, -0.4]), np.array([-0.3, 1.2])
    start = v + shape.conditional_means[0] @ (target - v)
    assert start == pytest.approx([target[0], v[1] + (target[0] - v[0]) / 3.0])


def sampled(shape, Q, q, m, size, seed):
    """Coordinates of labels and of a learner with these overlaps, and the logits of both."""
    rng = np.random.default_rng(seed)
    label_u = np.sqrt(Q) * rng.normal(size=(size, shape.dim)) @ shape.root.T
    v = m / Q * label_u + np.sqrt(q - m * m / Q) * rng.normal(size=(size, shape.dim)) @ shape.root.T
    return label_u, v, *(np.where(shape.select >= 0, u[:, shape.select], 0.0) for u in (label_u, v))


def both_forms(output, q, m, a):
    """The averages that Stein's identity gives, and the derivatives they stand for."""
    Q, area = output.label_power, output.label_power * q - m * m
    return (
        (q * a.along_label - m * a.along_own) / area,
        -(Q * a.along_own - m * a.along_label) / area,
        a.cross,
        a.trace,
    )


def monte_carlo(channel, tokens, Q, q, m, sigma, size, seed):
    """E|prox - z|², E(prox - z).z*, E(prox - z).z and the loss by plain sampling, with standard errors."""
    shape = tied_geometry(tokens).blocks[0]
    label_u, v, logits, _ = sampled(shape, Q, q, m, size, seed)
    y = np.exp(logits - logits.max(axis=2, keepdims=True))
    y /= y.sum(axis=2, keepdims=True)
    found = prox(channel.compiled, shape.select, shape.metric, sigma, v, y, label_u)
    pulled = (found.u - v) @ shape.metric
    distance = (pulled * (found.u - v)).sum(axis=1)
    rows = np.stack([distance, (pulled * label_u).sum(1), (pulled * v).sum(1), found.value - 0.5 * distance / sigma])
    return rows.mean(axis=1), rows.std(axis=1) / np.sqrt(size)


@pytest.mark.parametrize(("tokens", "level"), [(2, 1), (3, 3), (4, 3)])
@pytest.mark.parametrize("channel", [Squared(), CrossEntropy()])
def test_quadrature_against_monte_carlo(tokens, level, channel):
    Q, q, m, sigma = 1.75, 1.4, 1.3, 2.0
    averages = OneSectorOutput(loss=channel, geometry=tied_geometry(tokens), label_power=Q).averages(
        q, m, sigma, level=level
    )
    mean, error = monte_carlo(channel, tokens, Q, q, m, sigma, 40_000, 7)
    got = np.array([averages.distance, averages.along_label, averages.along_own, averages.loss])
    # four standard errors of the plain sample, and the error of the quasi-random rule where there is one
    assert (np.abs(got - mean) < 4.0 * error + (0.0 if tokens == 2 else 5e-3) * np.abs(mean)).all()


@pytest.mark.parametrize("channel", [Squared(), CrossEntropy()])
@given(share=st.floats(0.2, 0.97), q=st.floats(0.1, 2.5), log_sigma=st.floats(-4.0, -0.5))
@settings(max_examples=12, deadline=None)
def test_stein_and_derivative_forms_agree(channel, share, q, log_sigma):
    Q, sigma = 1.75, float(np.exp(log_sigma))
    m = share * np.sqrt(q * 1.5)
    output = OneSectorOutput(loss=channel, geometry=tied_geometry(2), label_power=Q)
    forms = []
    for level in (1, 2, 3):
        for check_rule in (False, True):
            a = output.averages(q, m, sigma, level=level, detail=2, check_rule=check_rule)
            forms.append(both_forms(output, q, m, a))
            if channel.convex:  # then 1 - dprox/dz has eigenvalues between zero and one
                assert 0.0 <= a.trace_square <= a.trace * 1.0001 <= 2.0002
    # integrals of the same smooth function by six rules: the spread of each form is its quadrature error, and the two
    # forms may differ by both; 1e-9 is the rounding of the central difference in the label
    low, high = np.min(forms, axis=0), np.max(forms, axis=0)
    error = (high - low)[:2] + (high - low)[2:] + 1e-9
    finest = np.mean(forms[-2:], axis=0)
    assert (np.abs(finest[:2] - finest[2:]) <= error).all()
    assert (error < 0.02 * np.abs(finest[:2]) + 1e-4).all()  # otherwise this shows nothing


@pytest.mark.parametrize(("tokens", "informative"), [(2, 2), (3, 5), (5, 14)])
def test_a_very_soft_prior_counts_the_informative_directions(tokens, informative):
    a = OneSectorOutput(loss=Squared(), geometry=tied_geometry(tokens), label_power=0.2).averages(
        0.2, 0.1, 1e7, level=0, detail=1
    )
    assert a.trace == pytest.approx(informative, rel=2e-3)


@pytest.mark.parametrize(
    "geometry", [tied_geometry(2), geometry_of("cross", "none", 4), tied_geometry(4)], ids=["pair", "rows", "coupled"]
)
def test_branches_agree_where_the_prox_is_convex_and_are_counted_where_not(geometry):
    label = OneSectorOutput(loss=Squared(), geometry=geometry, label_power=1.75)
    lowest = OneSectorOutput(loss=Squared(), geometry=geometry, label_power=1.75, branch="global")
    assert label.averages(1.2, 1.3, 0.9, level=0) == lowest.averages(1.2, 1.3, 0.9, level=0)
    assert label.convex_at(0.9)
    assert not label.convex_at(4.5)
    crowded = label.averages(5.2, 1.9, 50.0, level=0, search=True)
    deeper = lowest.averages(5.2, 1.9, 50.0, level=0)
    assert crowded.switch_mass > 1e-3
    assert deeper.switch_mass == pytest.approx(crowded.switch_mass)
    # the lowest minimum has the lower Moreau envelope, by definition
    assert deeper.loss + deeper.distance / 100.0 < crowded.loss + crowded.distance / 100.0


def test_an_angle_too_narrow_for_stein_forms_is_seen():
    output = OneSectorOutput(loss=Squared(), geometry=tied_geometry(2), label_power=1.5)
    assert output.nearly_aligned(1.0, np.sqrt(1.5) * 0.995)  # 1 - cos² = 0.01, 0.02 is the limit
    assert not output.nearly_aligned(1.0, np.sqrt(1.5) * 0.98)


@pytest.mark.parametrize(("geometry", "mean"), [(geometry_of("cross", "none", 5), 1 / 5), (tied_geometry(4), 2 / 16)])
def test_a_search_for_other_minima_starts_where_the_learner_is(geometry, mean):
    """Logits of the learner on a fresh sample: q times the variances of the geometry less that of the mean, which no
    row sees.
    """
    output, block = OneSectorOutput(loss=Squared(), geometry=geometry, label_power=1.75), geometry.blocks[0]
    found = np.mean(output._learner_logits(block, (0.8, 0.6, 1.0), 3) ** 2, axis=0)
    assert found == pytest.approx(0.8 * (block.variances - mean), rel=0.02)  # second moments of the points are matched


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_the_same_of_self_attention(mask):
    """The own logit of a token sees the symmetric part alone; of two tokens with each other it sees both."""
    geometry = geometry_of("self", mask, 5)
    output = SectorOutput(loss=Squared(), geometry=geometry, label_power=1.75)
    block, state = geometry.blocks[-1], (0.9, 0.5, 0.6, 0.3, 1.0, 1.0)
    own = output._learner_logits(block, state, 3)
    (q, other), *_ = output._powers(block, state)
    found = np.mean(own**2, axis=0)
    if mask == "none":
        found, expected = found.reshape(5, 5), 0.5 * (q + other) * np.ones((5, 5))
        np.fill_diagonal(expected, q)
        lean = np.mean(own.reshape(-1, 5, 5)[:, 1, 3] * own.reshape(-1, 5, 5)[:, 3, 1])
        assert lean == pytest.approx(0.5 * (q - other), abs=0.05)
    else:
        expected = np.array([*[q] * (len(found) - 1), other])
    assert found == pytest.approx(expected, rel=0.08)


def test_convexity_bound_of_the_squared_loss():
    # most negative curvature of 2 (sig(u) - y)^2 over u and y, against 1/(4 Sigma): C has top eigenvalue 4
    u, y = np.meshgrid(np.linspace(-8, 8, 1601), np.linspace(0, 1, 401))
    p = 1.0 / (1.0 + np.exp(-u))
    slope = p * (1.0 - p)
    curvature = 4.0 * slope * (slope + (p - y) * (1.0 - 2.0 * p))
    assert -curvature.min() * 4.0 < 1.0


@pytest.mark.parametrize("tokens", [3, 5, 8])
def test_no_row_of_the_squared_loss_is_more_concave_than_that_of_two_tokens(tokens):
    """Sigma up to which the prox has one minimum comes from the lowest curvature of a row, at any number of tokens
    (2.7).
    """
    least = 1.0 / Squared().single_minimum_sigma(1.0)
    rng, gradient, hessian = np.random.default_rng(tokens), np.empty(tokens), np.empty((tokens, tokens))
    lowest = 0.0
    for _ in range(20_000):
        logits, label = rng.choice([0.5, 2.0, 6.0]) * rng.normal(size=tokens), np.eye(tokens)[0]
        if rng.random() < 0.3:
            label = rng.dirichlet(np.full(tokens, 0.3))
        Squared.row(logits, label, gradient, hessian)
        lowest = max(lowest, -np.linalg.eigvalsh(hessian)[0])
    Squared.row(np.log([0.136, 0.864, *[1e-9] * (tokens - 2)]), np.eye(tokens)[0], gradient, hessian)
    assert lowest < least
    assert -np.linalg.eigvalsh(hessian)[0] == pytest.approx(least, abs=2e-4)  # it is attained, to the digits given


def test_memory_restarts_every_prox_where_it_was():
    output = OneSectorOutput(loss=Squared(), geometry=tied_geometry(2), label_power=1.75)
    memory = ProxCache(track_minimum=True)
    fresh = output.averages(1.4, 1.3, 3.0, level=0, cache=memory)
    again = output.averages(1.4, 1.3, 3.0, level=0, cache=memory)
    assert again == pytest.approx(fresh, rel=1e-9)


def test_averages_do_not_depend_on_the_number_of_threads(monkeypatch):
    output = OneSectorOutput(loss=Squared(), geometry=tied_geometry(2), label_power=1.75)
    results = []
    for count in ("1", "2"):
        monkeypatch.setenv("ONEHEAD_THREADS", count)
        results.append(output.averages(1.4, 1.3, 3.0, level=1))
    assert results[0] == results[1]


@pytest.mark.parametrize("tokens", [2, 3, 5])
@pytest.mark.parametrize("channel", [Squared(), CrossEntropy()])
def test_fresh_loss_of_one_row_against_whole_samples(tokens, channel):
    Q, q, m, size = 1.75, 1.4, 1.3, 60_000
    output = OneSectorOutput(loss=channel, geometry=tied_geometry(tokens), label_power=Q)
    *_, target, own = sampled(tied_geometry(tokens).blocks[0], Q, q, m, size, 3)
    y, p = (np.exp(x) / np.exp(x).sum(axis=2, keepdims=True) for x in (target, own))
    losses = ((p - y) ** 2 if channel.name == "squared" else -y * np.log(p)).sum(axis=(1, 2))
    # four standard errors of the plain sample; the rule's own error is far below
    assert abs(output.fresh_loss(q, m) - losses.mean()) < 4.0 * losses.std() / np.sqrt(size)
    assert output.fresh_loss(q, m, check_rule=True) == pytest.approx(
        output.fresh_loss(q, m), rel=1e-9 if tokens == 2 else 2e-3
    )


@pytest.mark.parametrize("channel", [Squared(), CrossEntropy()])
def test_traces_for_more_tokens_against_moved_nodes(channel):
    """tr(1 - dprox/dz), tr dprox/dz* by Stein's identity on the same rule, T = 3, within the error seen on the twin."""
    Q, q, m, sigma = 1.75, 1.4, 1.3, 0.5
    output = OneSectorOutput(loss=channel, geometry=tied_geometry(3), label_power=Q)
    forms = []
    for check_rule in (False, True):
        a = output.averages(q, m, sigma, level=3, detail=2, check_rule=check_rule)
        forms.append(both_forms(output, q, m, a))
        assert 0.0 < a.trace_square < a.trace**2
    low, high = np.min(forms, axis=0), np.max(forms, axis=0)
    error = (high - low)[:2] + (high - low)[2:]
    gap = np.abs((low + high)[:2] - (low + high)[2:]) / 2.0
    assert (gap < 3.0 * error + 2e-3 * np.abs(low[:2])).all()  # two rules only: their distance is a rough error


def test_inverse_from_a_factor():
    rng = np.random.default_rng(0)
    for n in (1, 2, 5, 14):
        root = rng.normal(size=(n, n + 2))
        matrix, factor, inverse = root @ root.T, np.empty((n, n)), np.empty((n, n))
        assert factorise(matrix, factor)
        invert_factored(factor, inverse)
        assert np.allclose(inverse @ matrix, np.eye(n), atol=1e-9 * np.linalg.cond(matrix))


HEADS = [("tied", "none", 2), ("tied", "causal", 3), ("cross", "none", 3), ("self", "none", 2), ("self", "causal", 3)]
SEEN = {"none": lambda a, b: b < np.inf, "causal": lambda a, b: b <= a}
heads = pytest.mark.parametrize(("attention", "mask", "tokens"), HEADS)


def channel(attention, mask, tokens, loss):
    """The output channel of a head whose labels have the power 1.25."""
    geometry = geometry_of(attention, mask, tokens)
    kind = SectorOutput if geometry.sectors == 2 else OneSectorOutput
    return kind(loss=loss, geometry=geometry, label_power=1.25)


def logits_of(attention, mask, tokens, power, size, rng):
    """Logits of a map of pure noise with this power in all its sectors, minus infinity where a row does not look (1.4,
    U5.2).
    """
    h = np.sqrt(power) * rng.normal(size=(size, tokens, tokens))
    if attention == "tied":
        h = (h + np.swapaxes(h, 1, 2)) / np.sqrt(2.0)  # variance 1, and 2 of a token with itself
    a, b = np.indices((tokens, tokens))
    return np.where(SEEN[mask](a, b), h, -np.inf)


def softmax(h):
    p = np.exp(h - h.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


@heads
def test_the_error_of_pure_noise_is_that_of_guesses(attention, mask, tokens):
    rng, size = np.random.default_rng(3), 400_000
    labels, noise = (softmax(scale * logits_of(attention, mask, tokens, 1.25, size, rng)) for scale in (1.0, 1e4))
    errors = ((labels - noise) ** 2).sum(axis=(1, 2))
    found = channel(attention, mask, tokens, Squared()).noise_error
    assert abs(found - errors.mean()) < 4.0 * errors.std() / np.sqrt(size)  # four standard errors


@heads
def test_hats_of_drawn_labels_at_the_zero_map(attention, mask, tokens):
    """E g'Cg of the gradient g at equal attention, and its covariance with the score of the label, over labels that are
    drawn (U4, U7).
    """
    rng, size = np.random.default_rng(4), 400_000
    output = channel(attention, mask, tokens, loss_for_labels("hard", "cross-entropy"))
    h = logits_of(attention, mask, tokens, 1.25, size, rng)
    p = softmax(h)
    drawn = np.eye(tokens)[(rng.random((size, tokens, 1)) > np.cumsum(p, axis=2)).sum(axis=2).clip(max=tokens - 1)]
    equal = softmax(np.where(np.isfinite(h), 0.0, h))
    parts = []
    for e in (drawn - equal, drawn - p):  # minus the gradient, and the score
        even, odd = (e + np.swapaxes(e, 1, 2)) / 2.0, (e - np.swapaxes(e, 1, 2)) / 2.0
        parts.append({"tied": (2.0 * even,), "cross": (e,), "self": (even, odd)}[attention])
    # of a tied map 2 E g'Cg with C = 1 + δ_ab per pair, that is 4 |even|²; of two sectors 2 tr C_c E gg' = 2 |even or
    # odd|²
    unit = {"tied": 1.0, "cross": 1.0, "self": 2.0}[attention]
    found = output.at_origin(3).sectors[:2]
    for hats, others in zip(found, parts, strict=True):
        for hat, own, other in zip(hats, parts[0], others, strict=True):
            values = unit * (own * other).sum(axis=(1, 2))
            assert abs(hat - values.mean()) < 4.0 * values.std() / np.sqrt(size) + 1e-6  # that of the lattice
