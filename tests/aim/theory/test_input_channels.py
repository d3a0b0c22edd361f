"""The input side of untied heads: published values, identities, and the prox of one instance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from onehead.aim import Atoms, Learner, MarchenkoPastur, PowerLaw, Spikes, Task
from onehead.aim.targets import Product
from onehead.aim.theory.bayes import bayes_overlap
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.input.singular_values import CHANNELS, SingularValues, UntiedLinear
from onehead.aim.theory.order_parameters import INFINITE, Hats, LabelStatistics

NOISY, CLEAN = (
    LabelStatistics(1.25, 0.5, 1.0),
    LabelStatistics(1.0, 0.0, 1.0),
)  # product targets, one combination per sample: α is abar


def channel(target=None, *, kind=SingularValues, decay=0.0, width=1.0, scale=1.0):
    return kind(target=target or Product(), scale=scale, decay=decay, width=width, unit=1.0)


def test_what_is_tied_and_what_is_trained_choose_the_channel():
    for attention in ("tied", "cross"):
        for param in ("factorised", "direct"):
            task, learner = Task(attention=attention), Learner(param=param)
            assert type(build_state_evolution(task, learner).input) is CHANNELS[attention == "tied", param]
    assert {kind.sides for (tied, _), kind in CHANNELS.items() if not tied} == {2}


@pytest.mark.parametrize(
    ("target", "learner", "hats", "overlaps"),
    [
        (0.5, {"decay": 0.02}, (1.222907e-3, 0.03465265, 0.03920278), (0.7678034, 0.6446353, 15.98926, 0.6992517)),
        (0.5, {"decay": 0.05}, (0.02284439, 0.30304, 0.3409015), (0.788357, 0.8063817, 2.404684, 0.8399586)),
        (0.5, {"decay": 0.01}, (0.4764773, 5.34402, 5.833659), (0.8510997, 0.9150151, 0.1704654, 0.9934262)),
        (0.2, {"decay": 0.02}, (0.01839715, 0.2580577, 0.2699309), (1.063259, 0.9259716, 3.330996, 0.9154698)),
        (0.5, {"decay": 0.1}, (1.056443, 0.996284, 0.816684), (2.736786, 1.162427, 1.143466, 0.9477064)),
        (
            0.5,
            {"decay": 0.05, "kind": UntiedLinear},
            (0.02830168, 0.3311109, 0.402995),
            (0.5451934, 0.6582787, 1.988091, 1.0),
        ),
        (
            0.5,
            {"decay": 0.01, "width": 0.4},
            (0.02836718, 0.3191668, 0.332034),
            (1.048631, 0.9207634, 2.128311, 0.4),
        ),
    ],
)
def test_overlaps_of_published_hats(target, learner, hats, overlaps):
    """Hats and overlaps of solved heads, seven digits of each; small hats lose one (U2.2, U2.4, U2.5)."""
    found = channel(Product(kappa0=target), **learner).overlaps(Hats(*hats))
    assert (found.q, found.m, found.sigma, found.rank) == pytest.approx(overlaps, rel=3e-6)


@pytest.mark.parametrize(
    ("abar", "state"),
    [
        (0.2, (6.314701, 2.972165, 0.494306, 0.240683, 0.332998)),
        (0.4, (2.730766, 1.434388, 0.805076, 0.481385, 0.519426)),
        (0.6, (1.788206, 0.768239, 1.185253, 0.681165, 0.684704)),
        (0.8, (1.908599, 0.383305, 1.960384, 0.841752, 0.845022)),
        (0.9, (2.997488, 0.228945, 3.279932, 0.916096, 0.923699)),
    ],
)
def test_the_limit_of_no_decay_against_published_values(abar, state):
    found = channel().interpolating(NOISY, abar)
    at, where = found.overlaps, found.overlaps.map
    assert (where.s, where.eps, at.q, at.m, at.rank) == pytest.approx(state, abs=6e-7)  # six decimals are given
    assert found.residual < 1e-10


@pytest.mark.parametrize("abar", [0.05, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("noise", [0.0, 0.05, 5.0])
def test_the_root_is_the_one_with_the_largest_s(abar, noise):
    """Above it the excess of J + 2 eps B over Q + abar s stays positive, up to the largest blur there is (U4, U11)."""
    target = channel(Product(kappa0=0.5))
    labels = LabelStatistics(1.0 + 0.5 * noise, noise, 1.0)
    if abar >= target.recovery(labels):
        return  # the target itself
    s = target.interpolating(labels, abar).overlaps.map.s
    for factor in (1.01, 1.5, 10.0, 1e3, 1e6):
        law, low, high = target.law(factor * s), 0.0, target.law(factor * s).edges[-1][1]
        for _ in range(60):  # the eps with A = abar
            eps = 0.5 * (low + high)
            low, high = (eps, high) if abar < target.integrals(factor * s, eps).A else (low, eps)
        part = target.integrals(law.s, low)
        assert part.J + 2.0 * low * part.B - labels.power - abar * law.s > 0.0


def statistical_dimension(k):
    """Of the nuclear norm at rank k: inf over τ of k + (1 - k) [k (1 + τ²) + (1 - k) ∫_τ² (u - τ)² sqrt(4 - u²)/π]
    (U4).
    """
    place, weight = np.polynomial.legendre.leggauss(200)

    def at(tau):
        start = np.arcsin(0.5 * tau)
        angle = start + (0.5 * np.pi - start) * 0.5 * (place + 1.0)
        u, w = 2.0 * np.sin(angle), 4.0 * np.cos(angle) ** 2 * (0.5 * np.pi - start) * 0.5 * weight / np.pi
        return k + (1.0 - k) * (k * (1.0 + tau**2) + (1.0 - k) * float(w @ (u - tau) ** 2))

    return minimize_scalar(at, bounds=(0.0, 2.0), method="bounded", options={"xatol": 1e-9}).fun


@pytest.mark.parametrize(
    ("rank", "published"),
    [(0.05, 0.2021445594), (0.1, 0.3511442845), (0.25, 0.6552450189), (0.5, 0.9054173332), (0.75, 0.9886121048)],
)
def test_recovery_is_the_statistical_dimension_of_the_nuclear_norm(rank, published):
    found = channel(Product(kappa0=rank)).recovery(CLEAN)
    assert found == pytest.approx(
        statistical_dimension(rank), abs=1e-9
    )  # the infimum is flat: 1e-9 in τ is 1e-18 in it
    assert found == pytest.approx(published, abs=6e-11)


def test_thresholds():
    """Interpolation at α J = 1 for every target and noise; recovery between the counts of Bayes and of equations
    (U4).
    """
    for target in (Product(kappa0=0.3), MarchenkoPastur(kappa0=2.0), Atoms(eigenvalues=(1.0, -1.0, 0.0))):
        for labels in (LabelStatistics(3.0, 0.5, 4.0), LabelStatistics(1.0, 0.0, 4.0)):
            ratio, state = channel(target).interpolation(labels)
            assert ratio == 0.25 == channel(target, kind=UntiedLinear).interpolation(labels)[0]
            assert (state is None) == (labels.noise > 0.0)
    assert channel(Product(kappa0=1.5)).recovery(CLEAN) == 1.0
    assert channel().recovery(NOISY) == INFINITE
    k = 0.3
    ratios = [channel(Product(kappa0=k), width=width).recovery(CLEAN) for width in (0.3, 0.31, 0.35, 0.5, 0.8, 1.0)]
    assert ratios[0] == pytest.approx(2.0 * k - k * k, rel=1e-9)  # as wide as the target: Bayes-optimal
    assert (np.diff(ratios) >= -1e-12).all()
    assert channel(Product(kappa0=k), width=0.29).recovery(CLEAN) == INFINITE


def test_a_narrow_learner_has_a_threshold_of_its_own():
    ratio, _ = channel(width=0.4).interpolation(NOISY)
    assert 0.4 < ratio < 1.0
    assert channel(width=0.999999).interpolation(NOISY)[0] == pytest.approx(1.0, abs=1e-3)


def test_signs_of_eigenvalues_do_not_matter():
    """Of a target that has negative ones an untied head loses nothing but what its width takes (U8)."""
    signed = Atoms(eigenvalues=(3.0, 1.0, 1.0, 0.0, -2.0, -2.0, 0.0, 0.0))
    plain = Atoms(eigenvalues=(3.0, 2.0, 2.0, 1.0, 1.0, 0.0, 0.0, 0.0))
    for kind in (SingularValues, UntiedLinear):
        one, other = channel(signed, kind=kind, scale=2.0), channel(plain, kind=kind, scale=2.0)
        assert one.target.values.tolist() == other.target.values.tolist()
        assert one.misfit_reason is None
        assert one.representable_power == one.target_power == 4.0 * signed.second_moment
    assert one.law(0.5).edges == other.law(0.5).edges
    narrow = channel(signed, width=0.25)
    np.testing.assert_allclose(narrow.unrepresentable_spectrum, [(2.0, 1.0), (0.125, 0.25)])
    assert narrow.misfit_reason == "the learner is narrower than the target"
    assert channel(signed).recovered.tau == pytest.approx(9.0 / 8.0)  # the nuclear norm, not the trace


@pytest.mark.parametrize("kappa0", [0.05, 0.5, 1.0, 1.7])
@pytest.mark.parametrize("share", [0.03, 0.4, 1.0])
def test_what_a_narrow_map_loses_of_a_product(kappa0, share):
    """The smallest singular values: against those of the law with next to no blur, above the same share (8.1, U2.5)."""
    target = Product(kappa0=kappa0)
    x, mass = target.unrepresentable_spectrum(share)
    law = target.singular_law(1e-10)
    nodes = law.nodes(law.quantile_above(0.5 * min(share, target.rank)))
    assert mass.sum() == pytest.approx(
        max(target.rank - share, 0.0), abs=1e-6
    )  # at κ₀ = 1 the density is infinite at zero
    assert mass @ x**2 == pytest.approx(1.0 - 2.0 * nodes.mass @ nodes.x**2, abs=1e-8)


@pytest.mark.parametrize("kappa0", [1e-3, 0.05, 0.5, 0.9, 1.0, 1.1, 3.0, 1e3])
def test_density_of_a_product(kappa0):
    """Mass, second moment and mean against the law with next to no blur; (0, 3/2 sqrt 3) and mean 3/4 at κ₀ = 1
    (U3).
    """
    target = Product(kappa0=kappa0)
    low, high = target.edges
    angle = np.pi * (np.arange(4000) + 0.5) / 4000
    x = low + (high - low) * 0.5 * (1.0 - np.cos(angle))
    weight = target.density(x) * (high - low) * 0.5 * np.sin(angle) * np.pi / 4000
    assert weight.sum() == pytest.approx(target.rank, abs=1e-4)  # midpoint rule at a cube root, κ₀ = 1
    assert weight @ x**2 == pytest.approx(1.0, abs=1e-6)
    law = target.singular_law(1e-13)
    assert 2.0 * law.density(x[1000:3000]) == pytest.approx(target.density(x[1000:3000]), abs=1e-8)
    assert law.edges[-1][1] == pytest.approx(high, abs=1e-6)
    above = law.nodes(0.5 * low)
    assert target.mean == pytest.approx(2.0 * above.mass @ above.x, abs=1e-6)
    assert (target.density(np.array([-1.0, 1.001 * high, 0.999 * low])) == 0.0)[: 3 if low > 0.0 else 2].all()
    if kappa0 == 1.0:
        assert (low, high, target.mean) == pytest.approx((0.0, 1.5 * np.sqrt(3.0), 0.75), abs=1e-12)


def shrunk(R, amount):
    left, r, right = np.linalg.svd(R)
    return (left * np.clip(r - amount, 0.0, None)) @ right


@pytest.mark.parametrize("decay", [0.0, 0.5, 1.5])
def test_one_instance_against_differences_of_the_prox(decay):
    """S = SVT(R; λ)/Sigmahat, and Sigma its mean derivative: the divergence over d² (U9)."""
    size, sigma_hat, step = 7, 1.3, 1e-6
    R = np.random.default_rng(3).standard_normal((size, size))
    S, sigma = channel(decay=decay).denoise(R, sigma_hat)
    np.testing.assert_allclose(S, shrunk(R, decay) / sigma_hat, atol=1e-12)
    total = 0.0
    for i in range(size):
        for j in range(size):
            E = np.zeros_like(R)
            E[i, j] = step
            total += (shrunk(R + E, decay) - shrunk(R - E, decay))[i, j] / (2.0 * step)
    assert sigma == pytest.approx(total / (size**2 * sigma_hat), abs=1e-7)


def test_one_large_instance_has_the_overlaps_of_the_theory():
    """R = mhat S* + sqrt(qhat) noise at d = 400: q, m, Sigma fluctuate by O(1/d)."""
    size, hats, decay = 400, Hats(0.02284439, 0.30304, 0.3409015), 0.05
    rng = np.random.default_rng(8)
    query, key = rng.standard_normal((2, size // 2, size))
    target = query.T @ key / np.sqrt(size // 2 * size)
    R = hats.m * target + np.sqrt(hats.q / size) * rng.standard_normal((size, size))
    theory = channel(decay=decay).overlaps(hats)
    S, sigma = channel(decay=decay).denoise(R, hats.sigma)
    assert np.sum(S * S) / size == pytest.approx(theory.q, rel=0.02)
    assert np.sum(S * target) / size == pytest.approx(theory.m, rel=0.02)
    assert sigma == pytest.approx(theory.sigma, rel=0.01)
    direct, theory = channel(decay=decay, kind=UntiedLinear), channel(decay=decay, kind=UntiedLinear).overlaps(hats)
    S, sigma = direct.denoise(R, hats.sigma)
    assert sigma == theory.sigma == pytest.approx(1.0 / (hats.sigma + 2.0 * decay))
    assert np.sum(S * S) / size == pytest.approx(theory.q, rel=0.02)
    assert np.sum(S * target) / size == pytest.approx(theory.m, rel=0.02)


@given(
    st.lists(st.sampled_from([0.0, 1.0, -1.0, 2.0]), min_size=2, max_size=6).filter(any),
)
@settings(max_examples=25, deadline=None)
def test_bayes_optimal_recovery_counts_what_singular_vectors_leave_open(values):
    """1 - Σ w² over the symmetrised law is F(s) = 1 - 4 s ∫ rho h² as s → 0 (A.3), a copy at either sign."""
    found = channel(Atoms(eigenvalues=values))
    s = 1e-7
    nodes = found.law(s).nodes()
    # corrections are of order s over squared gaps
    assert found.free_eigenvector_share == pytest.approx(1.0 - 4.0 * s * float(nodes.mass @ nodes.hilbert**2), abs=1e-5)


def test_bayes_optimal_recovery_of_limiting_laws():
    """2k - k² (U4), from zeros alone; a multiple of an orthogonal matrix has half the entries free."""
    assert channel(Product(kappa0=0.3)).free_eigenvector_share == pytest.approx(2.0 * 0.3 - 0.3**2)
    assert channel(MarchenkoPastur(kappa0=0.3)).free_eigenvector_share == pytest.approx(2.0 * 0.3 - 0.3**2)
    assert channel(Atoms(eigenvalues=(1.0, 1.0, -1.0))).free_eigenvector_share == pytest.approx(0.5)
    assert channel(PowerLaw(dim=50)).free_eigenvector_share == pytest.approx(1.0 - 0.5 / 50)
    assert channel(Spikes(spikes=(3.0, -3.0), dim=10)).free_eigenvector_share == pytest.approx(
        1.0 - 0.5 * 0.2**2 - 0.8**2
    )


def test_no_untied_map_beats_the_best_possible_learner():
    """m²/q at λ → 0⁺ against the overlap of the posterior mean, α in units of the geometry (A.4, U2.2)."""
    problem = build_state_evolution(Task(attention="cross"), Learner(weight_decay="0+"))
    for abar in (0.1, 0.4, 0.8):
        alpha = abar / problem.informative / problem.input.unit
        at = problem.input.interpolating(problem.labels, alpha).overlaps
        q, m = at.q, at.m
        assert m**2 / q < bayes_overlap(problem, alpha) < 1.0


@pytest.mark.parametrize(("attention", "unit"), [("tied", 2.0), ("cross", 1.0)])
def test_without_data_weight_decay_alone_holds_a_direct_map(attention, unit):
    """Sigma is at most 1/(4 λ), 1/(2 λ) untied; where Sigmahat is added it is less (3.1)."""
    channel = build_state_evolution(Task(attention=attention), Learner(param="direct", weight_decay=0.1)).input
    assert channel.largest_sigma == pytest.approx(1.0 / (2.0 * unit * channel.decay))
    assert channel.overlaps(Hats(0.3, 0.2, 0.25)).sigma < channel.largest_sigma
    assert (
        build_state_evolution(Task(attention=attention), Learner(param="direct", weight_decay="0+")).input.largest_sigma
        == INFINITE
    )
