"""The null model of random heads: formulas and table compared with freshly sampled heads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onehead.weights.head_spectrum import spectra
from onehead.weights.null_model import (
    bulk_deviation,
    limiting_statistics,
    product_law,
    random_effective_rank,
    share_deviation,
    spread_statistics,
)


def random_factors(rng, head_dim, hidden, kind="normal"):
    make = rng.standard_normal if kind == "normal" else lambda shape: rng.uniform(-1.0, 1.0, shape)
    return make((2, head_dim, hidden))


@pytest.mark.parametrize("ratio", [0.05, 1 / 12, 0.5, 1.0, 2.0])
def test_moments_of_the_law_are_those_of_free_products(ratio):
    """The non-zero t are the eigenvalues of (QQ'/hidden)(KK'/hidden), whose free factors have moments 1 and 1 + c.

    For free a and b, E (ab)² = a₂ b₁² + a₁² b₂ - a₁² b₁², here 1 + 2 c; the share min(1, 1/c) of the head_dim values is
    not zero.
    """
    t, density, mass = product_law(ratio)
    share = min(1.0, 1.0 / ratio)
    assert mass.sum() == pytest.approx(1.0) and (density >= 0.0).all()
    # the density of a square product diverges as t^(-2/3) at zero, which limits the 640 points to two digits
    assert share * mass @ t == pytest.approx(1.0, rel=5e-3)
    assert share * mass @ t**2 == pytest.approx(1.0 + 2.0 * ratio, rel=5e-3)


@pytest.mark.parametrize(("head_dim", "hidden", "draws"), [(16, 64, 200), (32, 256, 120), (40, 40, 120)])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_deviations_of_random_heads_are_of_order_one(head_dim, hidden, draws, kind):
    rng = np.random.default_rng(head_dim)
    bulks, shares = [], []
    for _ in range(draws):
        found = spectra(*random_factors(rng, head_dim, hidden, kind))
        bulks.append(bulk_deviation(found.singular_values[: min(head_dim, hidden)], head_dim, hidden))
        shares.append(share_deviation(found.symmetric_share, hidden))
    # two statistics with one free direction: the mean square is between one and two, with an error of 2/sqrt(draws)
    assert 0.8 < np.mean(np.square(bulks)) < 2.0 + 6.0 / draws**0.5
    assert abs(np.mean(shares)) < 4.0 / draws**0.5
    assert np.std(shares) == pytest.approx(1.0, abs=4.0 / (2.0 * draws) ** 0.5)


def test_large_heads_approach_the_limiting_statistics():
    # a spectrum of 300 values lies within a few deviations b/n of g; shifts a/n are of the same size
    rng = np.random.default_rng(1)
    query, key = random_factors(rng, 300, 900)
    values = spectra(query, key).singular_values
    assert spread_statistics(values) == pytest.approx(limiting_statistics(round(1 / 3, 6)), abs=5.0 * 0.5 / 300)
    effective = values.sum() ** 2 / (values @ values)
    assert random_effective_rank(300, 900) == pytest.approx(effective, rel=0.01)


@given(st.floats(1e-6, 1e6), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_scale_and_rotation_do_not_matter(scale, seed):
    rng = np.random.default_rng(seed)
    query, key = random_factors(rng, 20, 50)
    rotation = np.linalg.qr(rng.standard_normal((50, 50)))[0]
    one, other = spectra(query, key), spectra(scale * query @ rotation, key @ rotation)
    for values in (one.singular_values, other.singular_values):
        assert bulk_deviation(values, 20, 50) == pytest.approx(bulk_deviation(one.singular_values, 20, 50), rel=1e-6)
    assert other.symmetric_share == pytest.approx(one.symmetric_share, abs=1e-9)


@pytest.mark.parametrize("shape", [(32, 8192), (32, 20000), (512, 64)])
def test_shapes_beyond_the_table_are_close_to_it(shape):
    """Below c = 1/64 all columns are proportional to c; above 4 the last row is used."""
    rng = np.random.default_rng(0)
    found = spectra(*random_factors(rng, *shape))
    assert bulk_deviation(found.singular_values[: min(shape)], *shape) < 6.0
