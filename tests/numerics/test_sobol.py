"""Sobol nets of integers, against those of scipy bit by bit, and their defining property."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import qmc

from onehead.numerics.sobol import BITS, scrambled_net


@pytest.mark.parametrize(
    ("dim", "log2_points", "seed"), [(1, 0, 0), (2, 5, 7), (11, 9, [3, 1]), (60, 4, 1), (2048, 3, 2), (2100, 2, 3)]
)
def test_nets_equal_those_of_scipy_bit_by_bit(dim, log2_points, seed):
    theirs = qmc.Sobol(dim, scramble=True, bits=BITS, rng=np.random.default_rng(seed)).random_base2(log2_points)
    assert np.array_equal(scrambled_net(dim, log2_points, seed) * 2.0**-BITS, theirs)


@given(st.integers(1, 40), st.integers(0, 8), st.integers(0, 2**32 - 1))
def test_every_coordinate_has_one_point_in_every_interval(dim, log2_points, seed):
    intervals = np.sort(scrambled_net(dim, log2_points, seed) >> np.uint32(BITS - log2_points), axis=0)
    assert np.array_equal(intervals, np.repeat(np.arange(2**log2_points)[:, None], dim, axis=1))
