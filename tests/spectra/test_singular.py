"""Laws of singular values: invariants over the range of parameters, defining equations, sampled matrices."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from onehead.aim import Learner, Task, predict
from onehead.aim.targets import Atoms, MarchenkoPastur, PowerLaw, Product
from onehead.spectra.atoms import AtomsSemicircle
from onehead.spectra.law import ScaledLaw, gauss_legendre, replicon_integral, threshold_integrals
from onehead.spectra.product import ProductSemicircle
from onehead.spectra.symmetrised import SymmetrisedMarchenkoPastur

ratios = st.floats(-3.0, 3.0).map(lambda x: 10.0**x)
blurs = st.floats(-12.0, 12.0).map(lambda x: 10.0**x)  # s over Q0
LAWS = {ProductSemicircle: (lambda kappa0: 1.0, 1e-12), SymmetrisedMarchenkoPastur: (lambda kappa0: 1.0 + kappa0, 1e-8)}
# errors: 60 nodes of the first law are exact to rounding; panels of the second are halved until their mass is exact to
# 1e-11

laws = pytest.mark.parametrize("kind", LAWS)


@laws
@given(kappa0=ratios, blur=blurs)
@example(
    kappa0=0.9999999999999994, blur=10.0**0.1875
)  # the minimum of the density is at 1e-31, and no panel ends there
@settings(max_examples=80, deadline=None)
def test_mass_and_moments(kind, kappa0, blur):
    power, error = LAWS[kind]
    s = blur * power(kappa0)
    law = kind(kappa0, s)
    x, mass, hilbert = law.nodes()
    assert mass.sum() == pytest.approx(1.0, abs=error)
    assert mass @ x**2 == pytest.approx(power(kappa0) + s, rel=error)
    assert 2.0 * mass @ (x * hilbert) == pytest.approx(1.0, abs=error)  # for any law
    assert (np.diff(x) >= 0.0).all()
    assert (mass >= 0.0).all()
    edges = np.ravel(law.edges)
    assert (np.diff(edges) > 0.0).all()
    assert (edges == -edges[::-1]).all()
    assert law.mass_above(0.0) == pytest.approx(0.5, abs=error)


def product_above(kappa0, s, rho, hilbert):
    """Mass above x from the potential: Im of g z - ∫ z dg, over pi."""
    g = hilbert - 1j * np.pi * rho
    inside = 1.0 - g * g / kappa0
    return (0.5 * s * g * g + g * g / inside - np.log(g) + 0.5 * kappa0 * np.log(inside)).imag / np.pi


@given(kappa0=ratios, blur=blurs, share=st.floats(0.01, 0.99))
@settings(max_examples=150, deadline=None)
def test_the_product_law_solves_its_equation_and_its_mass_follows_from_the_potential(kappa0, blur, share):
    """x = s g + 1/g + g/(1 - g²/κ₀) at any point of the support, to rounding of the largest term (U3)."""
    law = ProductSemicircle(kappa0, blur)
    for low, high in law.positive_support:
        nodes = law.nodes(low + (high - low) * share)
        x, real, rho = float(nodes.x[0]), nodes.hilbert[0], law.density(nodes.x[:1])[0]
        g = real - 1j * np.pi * rho
        terms = np.array([blur * g, 1.0 / g, g / (1.0 - g * g / kappa0), -x])
        # a node and the root found there agree to rounding in log y, which can be 1e-3 of that in x
        assert abs(terms.sum()) < 1e-11 * np.abs(terms).max()
        assert law.mass_above(x) == pytest.approx(product_above(kappa0, blur, rho, real), abs=1e-10)


@pytest.mark.parametrize(("kappa0", "s"), [(0.2, 0.3), (0.5, 0.01), (0.5, 1.0), (1.0, 1e-3), (1.5, 0.2), (20.0, 3.0)])
def test_density_of_a_product_against_the_roots_of_its_quartic(kappa0, s):
    """On the support one pair of roots is complex, and rho is its imaginary part over pi (U3)."""
    law = ProductSemicircle(kappa0, s)
    x = np.linspace(-1.1, 1.1, 88) * law.edges[-1][1]
    found = []
    for here in x:
        roots = np.roots([-s / kappa0, here / kappa0, s + 1.0 - 1.0 / kappa0, -here, 1.0])
        found.append(-roots.imag.min() / np.pi)
    assert law.density(x) == pytest.approx(np.array(found), abs=1e-9)


@given(kappa0=ratios, blur=st.floats(-2.0, 6.0).map(lambda x: 10.0**x), share=st.floats(0.02, 0.95))
@settings(max_examples=60, deadline=None)
def test_symmetrised_marchenko_pastur_solves_its_own_equation(kappa0, blur, share):
    """g(x) = ∫ rho_0(t) x' / (x'² - t²) + zeros/x' with x' = x - s g, the target's density with both signs."""
    assume(abs(np.log10(kappa0)) > 0.1)  # the rule below is not accurate for a hard edge at zero
    s, target = blur * (1.0 + kappa0), MarchenkoPastur(kappa0=kappa0)
    law = SymmetrisedMarchenkoPastur(kappa0, s)
    low, high = law.positive_support[-1]
    here = low + (high - low) * share
    g = law.nodes(here).hilbert[0] - 1j * np.pi * law.density(law.nodes(here).x[:1])[0]
    w = law.nodes(here).x[0] - s * g
    # the rule must be fine compared to the distance of w from the support, which limits the range of s
    unit, weight = gauss_legendre(300)
    bottom, top = target.edges
    t = bottom + (top - bottom) * np.sin(0.5 * np.pi * unit) ** 2
    mass = target.density(t) * (top - bottom) * 0.5 * np.pi * np.sin(np.pi * unit) * weight
    again = np.sum(mass * w / (w * w - t * t)) + (1.0 - target.rank) / w
    if w.imag > 0.05 * (top - bottom):
        assert abs(again - g) < 1e-7 * abs(g)


CASES = [(kappa0, s) for kappa0 in (0.05, 0.5, 1.0, 3.0) for s in (1e-3, 0.05, 0.3, 2.0, 50.0)]


@laws
@pytest.mark.parametrize(("kappa0", "s"), CASES)
def test_derivatives_of_the_integrals(kind, kappa0, s):
    """dJ/ds = A and dJ/deps = -2B (U2.2); differences of fourth order in steps of 0.3 %."""
    law = kind(kappa0, s)
    steps, weights = np.array([-2.0, -1.0, 1.0, 2.0]), np.array([1.0, -8.0, 8.0, -1.0]) / 12.0
    for share in (0.1, 0.35, 0.7):
        eps = share * law.edges[-1][1]
        if min(abs(eps - edge) for edge in np.ravel(law.edges)) < 0.05 * eps:
            continue  # a square root within the steps
        h = 3e-3
        part = threshold_integrals(law, eps)
        along_s = [threshold_integrals(kind(kappa0, s * (1.0 + h * step)), eps).J for step in steps]
        along_eps = [threshold_integrals(law, eps * (1.0 + h * step)).J for step in steps]
        scale = 1.0 + part.J / s
        assert weights @ along_s / (h * s) == pytest.approx(part.A, abs=1e-8 * scale)
        assert -0.5 * (weights @ along_eps) / (h * eps) == pytest.approx(part.B, abs=1e-8 * (1.0 + part.J / eps))


@laws
@pytest.mark.parametrize(("kappa0", "s"), CASES)
def test_a_zero_threshold_keeps_all_singular_values(kind, kappa0, s):
    """eps = 0: J = Q0 + s, A = 1, rank 1, A2 = 1 (U2.2)."""
    power, error = LAWS[kind]
    law = kind(kappa0, s)
    part = threshold_integrals(law, 0.0)
    assert (part.J, part.A, part.rank) == pytest.approx((power(kappa0) + s, 1.0, 1.0), rel=error)
    assert replicon_integral(law, 0.0) == pytest.approx(1.0, abs=10.0 * error)


@pytest.mark.parametrize(("kappa0", "split"), [(0.2, 0.708728), (0.5, 0.066447), (0.8, 0.004878)])
def test_the_signal_has_a_bulk_of_its_own_below_the_critical_variance(kappa0, split):
    # published values are rounded to six decimals
    assert len(ProductSemicircle(kappa0, split - 1e-6).edges) == 3
    assert len(ProductSemicircle(kappa0, split + 1e-6).edges) == 1
    law = ProductSemicircle(kappa0, 0.5 * split)
    low = law.edges[2][0]
    assert 2.0 * law.mass_above(low) == pytest.approx(kappa0, abs=1e-12)  # its mass is the rank of the target
    assert law.density(np.array([0.5 * (law.edges[1][1] + low)]))[0] == 0.0
    assert law.nodes(law.edges[1][1], low).x.size == 0


def singular_values(target, s, size, rng):
    """Singular values of a sampled target plus Gaussian noise."""
    m = round(target.kappa0 * size)
    query = rng.standard_normal((m, size))
    key = rng.standard_normal((m, size)) if isinstance(target, Product) else query
    noise = rng.standard_normal((size, size))
    return np.linalg.svd(query.T @ key / np.sqrt(m * size) + np.sqrt(s / size) * noise, compute_uv=False)


@pytest.mark.parametrize("target", [Product(kappa0=0.5), MarchenkoPastur(kappa0=0.5)], ids=["product", "mp"])
def test_spectra_of_sampled_matrices(target):
    s, size, draws = 0.3, 400, 4
    rng = np.random.default_rng(11)
    values = [singular_values(target, s, size, rng) for _ in range(draws)]
    law = target.singular_law(s)
    for eps in (0.5, 1.0):
        found = []
        for r in values:
            f, gap = np.clip(r - eps, 0.0, None), r[:, None] - r[None, :]
            np.fill_diagonal(gap, 1.0)
            both = r[:, None] + r[None, :]
            # quotients of the odd threshold over pairs of the same and of opposite signs
            same, across = (f[:, None] - f[None, :]) / gap, (f[:, None] + f[None, :]) / both
            np.fill_diagonal(same, r > eps)
            A, A2 = 0.5 * (same + across).mean(), 0.5 * (same**2 + across**2).mean()
            found.append([np.mean(f**2), np.mean(f), A, np.mean(r > eps), A2])
        part = threshold_integrals(law, eps)
        theory = [part.J, part.B, part.A, part.rank, replicon_integral(law, eps)]
        # linear statistics of random matrices fluctuate by O(1/d): a hundredth is four of them
        np.testing.assert_allclose(np.mean(found, axis=0), theory, atol=0.01 * (1.0 + part.J))


def test_integrals_of_a_product_against_published_ones():
    """κ₀ = 0.5, s = 0.3, eps = 0.5: rounded to four decimals (U2.2)."""
    part = threshold_integrals(ProductSemicircle(0.5, 0.3), 0.5)
    found = (part.J, part.B, part.A, part.rank, part.J + 0.5 * part.B - 0.3 * part.A)
    assert found == pytest.approx((0.6467, 0.4754, 0.5319, 0.5796, 0.7248), abs=5.1e-5)


@laws
def test_width_keeps_the_largest_singular_values(kind):
    law = kind(0.5, 0.3)
    free, narrow = threshold_integrals(law, 0.1), threshold_integrals(law, 0.1, width=0.3)
    assert free.rank > narrow.rank == 0.3
    assert 2.0 * law.mass_above(narrow.cut) == pytest.approx(0.3, abs=1e-9)
    assert narrow.J < free.J
    step = 1e-4
    up, down = (threshold_integrals(kind(0.5, 0.3 + d), 0.1, width=0.3).J for d in (step, -step))
    assert pytest.approx((up - down) / (2.0 * step), abs=1e-6) == narrow.A  # dJ/ds = A holds with the cut as well
    assert threshold_integrals(law, 0.0, width=1.0).cut == 0.0


def test_a_wide_product_converges_to_a_semicircle():
    """κ₀ → ∞: of variance 1 + s, up to O(1/κ₀) (U3)."""
    law = ProductSemicircle(1e3, 0.5)
    x = np.linspace(-2.0, 2.0, 9)
    assert law.density(x) == pytest.approx(np.sqrt(6.0 - x**2) / (3.0 * np.pi), abs=2e-3)


def test_atoms_with_both_signs():
    """Each singular value has half its weight at each sign, and a zero has all its weight at zero."""
    law, same = (
        AtomsSemicircle([2.0, -1.0, 0.0, 0.0], 0.01, sides=2),
        AtomsSemicircle([-2.0, 1.0, 0.0, 0.0], 0.01, sides=2),
    )
    assert len(law.edges) == 5
    assert law.mass_above(1.5) == pytest.approx(0.125, abs=1e-12)
    assert law.mass_above(0.5) - law.mass_above(1.5) == pytest.approx(0.125, abs=1e-12)
    assert law.mass_above(-0.5) - law.mass_above(0.5) == pytest.approx(0.5, abs=1e-12)
    assert np.ravel(law.edges) == pytest.approx(np.ravel(same.edges), abs=1e-12)
    part = threshold_integrals(law, 0.5)
    assert part.rank == pytest.approx(0.5, abs=1e-9)
    # little noise: singular values x + s (Re G of the rest), J to first order in s by dJ/ds = A
    assert pytest.approx((1.5**2 + 0.5**2) / 4.0 + 0.01 * part.A, abs=1e-3) == part.J
    assert (ScaledLaw(law, 2.0).sides, ScaledLaw(ProductSemicircle(0.5, 1.0), 2.0).sides) == (2, 2)


@pytest.mark.parametrize("target", [Product(kappa0=0.5), Product(kappa0=1.5), MarchenkoPastur(kappa0=0.5)], ids=repr)
def test_many_atoms_converge_to_the_law(target):
    """The law of 800 quantiles of the target differs from that of the target by O(1/size) (U3)."""
    size, s = 800, 0.3
    low, high = target.edges
    angle = np.linspace(0.0, np.pi, 20_001)
    x = low + (high - low) * np.sin(0.5 * angle) ** 2
    weight = target.density(x) * (high - low) * 0.5 * np.sin(angle)
    below = 1.0 - target.rank + np.concatenate([[0.0], np.cumsum(0.5 * (weight[1:] + weight[:-1]) * np.diff(angle))])
    level = (np.arange(size) + 0.5) / size
    atoms = Atoms(eigenvalues=np.where(level < 1.0 - target.rank, 0.0, np.interp(level, below, x)))
    for eps in (0.0, 0.4, 1.5):
        one, other = (threshold_integrals(kind.singular_law(s), eps) for kind in (atoms, target))
        for name in ("J", "B", "A", "rank"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=2.5e-3)


def test_singular_law_of_a_power_law_has_its_moments():
    target = PowerLaw(gamma=0.75, dim=120)
    x, mass, hilbert = target.singular_law(0.4).nodes()
    assert mass @ x**2 == pytest.approx(1.4, rel=1e-6)
    assert mass @ x == pytest.approx(0.0, abs=1e-6)
    assert 2.0 * mass @ (x * hilbert) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("kappa0", "s"), [(0.2, 0.1), (0.5, 0.3), (0.5, 0.01), (2.0, 5.0), (0.05, 1e-3)])
def test_a_tabulated_law_agrees_with_the_density(kappa0, s):
    """One bulk or two: density by Newton's method at the same points, half of the mass, and the second moment 1 + s."""
    law = ProductSemicircle(kappa0, s)
    x, density, mass = law.tabulated(160)
    assert (np.diff(x) > 0.0).all() and law.positive_support[0][0] <= x[0] and x[-1] < law.positive_support[-1][1]
    np.testing.assert_allclose(density, law.density(x), rtol=1e-8)
    assert mass.sum() == pytest.approx(0.5, rel=1e-6)  # midpoints in an angle: analytic and periodic
    assert 2.0 * mass @ x**2 == pytest.approx(1.0 + s, rel=1e-6)


@pytest.mark.parametrize(
    ("kappa0", "scale", "s"),
    [(0.0287021, 0.481197, 4.0), (0.0441206, 0.833529, 11.0), (0.5, 1.0, 0.3), (0.02, 0.7, 40.0)],
)
def test_all_integrals_vanish_above_the_upper_edge(kappa0, scale, s):
    """A threshold at the edge itself, or a rounding below it, leaves an empty panel and no mass; it once gave nan."""
    for law in (
        ScaledLaw(SymmetrisedMarchenkoPastur(kappa0, s), scale),
        ScaledLaw(ProductSemicircle(kappa0, s), scale),
    ):
        top = law.edges[-1][1]
        for eps in (top, np.nextafter(top, 0.0), top * (1.0 - 1e-15), top * (1.0 - 4e-15)):
            part = threshold_integrals(law, float(eps))
            assert [part.J, part.B, part.A, part.rank] == pytest.approx([0.0] * 4, abs=1e-12)


def test_heads_with_a_very_small_target_width_are_solved():
    """Found among random problems: the search for the interpolating limit ended at the upper edge of its law."""
    for task, learner, alpha in (
        (
            {"kappa0": 0.0287021, "noise": 0.899929, "beta0": 0.481197, "mask": "causal"},
            {"weight_decay": 8.0603e-4, "loss": "cross-entropy"},
            0.0611402,
        ),
        ({"kappa0": 0.0441206, "noise": 0.0601582, "beta0": 0.833529}, {"weight_decay": 9.66525e-5}, 0.0181628),
    ):
        kappa0 = task.pop("kappa0")
        attention = "cross" if "mask" in task else "self"
        found = predict(
            Task(target=MarchenkoPastur(kappa0=kappa0), attention=attention, **task), Learner(**learner), alpha
        )
        assert np.isfinite(found.test_error)
