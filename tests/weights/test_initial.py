"""What random heads look like: formulas against sampled heads, and the table against fresh draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onehead.weights.heads import spectra
from onehead.weights.initial import bulk_deviation, limit, product_law, share_deviation, spreads, usual_rank


def drawn(rng, head_dim, hidden, kind="normal"):
    make = rng.standard_normal if kind == "normal" else lambda shape: rng.uniform(-1.0, 1.0, shape)
    return make((2, head_dim, hidden))


@pytest.mark.parametrize("ratio", [0.05, 1 / 12, 0.5, 1.0, 2.0])
def test_moments_of_the_law_are_those_of_free_products(ratio):
    """The non-zero t are those of (QQ'/hidden)(KK'/hidden), free factors with moments 1 and 1 + c over head_dim values.

    For free a and b, E (ab)² = a₂ b₁² + a₁² b₂ - a₁² b₁², here 1 + 2 c; of head_dim values min(1, 1/c) are not zero.
    """
    t, density, mass = product_law(ratio)
    share = min(1.0, 1.0 / ratio)
    assert mass.sum() == pytest.approx(1.0) and (density >= 0.0).all()
    # a square product has a pole t^(-2/3) at zero, which costs 640 points the third digit
    assert share * mass @ t == pytest.approx(1.0, rel=5e-3)
    assert share * mass @ t**2 == pytest.approx(1.0 + 2.0 * ratio, rel=5e-3)


@pytest.mark.parametrize(("head_dim", "hidden", "draws"), [(16, 64, 200), (32, 256, 120), (40, 40, 120)])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_deviations_of_random_heads_are_of_order_one(head_dim, hidden, draws, kind):
    rng = np.random.default_rng(head_dim)
    bulks, shares = [], []
    for _ in range(draws):
        found = spectra(*drawn(rng, head_dim, hidden, kind))
        bulks.append(bulk_deviation(found.singular_values[: min(head_dim, hidden)], head_dim, hidden))
        shares.append(share_deviation(found.symmetric_share, hidden))
    # two numbers less one direction that is free: the mean square is between one and two, with an error of 2/sqrt(draws)
    assert 0.8 < np.mean(np.square(bulks)) < 2.0 + 6.0 / draws**0.5
    assert abs(np.mean(shares)) < 4.0 / draws**0.5
    assert np.std(shares) == pytest.approx(1.0, abs=4.0 / (2.0 * draws) ** 0.5)


def test_the_limit_is_that_of_large_heads():
    # a spectrum of 300 values lies within a few deviations b/n of g; shifts a/n are of the same size
    rng = np.random.default_rng(1)
    query, key = drawn(rng, 300, 900)
    values = spectra(query, key).singular_values
    assert spreads(values) == pytest.approx(limit(round(1 / 3, 6)), abs=5.0 * 0.5 / 300)
    effective = values.sum() ** 2 / (values @ values)
    assert usual_rank(300, 900) == pytest.approx(effective, rel=0.01)


@given(st.floats(1e-6, 1e6), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_no_scale_and_no_turn_matters(scale, seed):
    rng = np.random.default_rng(seed)
    query, key = drawn(rng, 20, 50)
    turn = np.linalg.qr(rng.standard_normal((50, 50)))[0]
    one, other = spectra(query, key), spectra(scale * query @ turn, key @ turn)
    for values in (one.singular_values, other.singular_values):
        assert bulk_deviation(values, 20, 50) == pytest.approx(bulk_deviation(one.singular_values, 20, 50), rel=1e-6)
    assert other.symmetric_share == pytest.approx(one.symmetric_share, abs=1e-9)


@pytest.mark.parametrize("shape", [(32, 8192), (32, 20000), (512, 64)])
def test_shapes_beyond_the_table_are_close_to_it(shape):
    """Below c = 1/64 everything is proportional to c; above 4 the last line is used."""
    rng = np.random.default_rng(0)
    found = spectra(*drawn(rng, *shape))
    assert bulk_deviation(found.singular_values[: min(shape)], *shape) < 6.0
