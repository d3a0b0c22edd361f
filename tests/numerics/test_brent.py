"""Roots and minima by Brent's methods, against those of scipy.optimize."""

from math import cosh, inf, isclose, nan, sin, tanh

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from onehead.errors import NonFinite, NotConverged, OutsideDomain
from onehead.numerics.brent import brent_minimum, brent_root

positions = st.floats(-3.0, 3.0)
lengths = st.floats(0.1, 5.0)


@given(positions, lengths, lengths, lengths, st.floats(0.0, 3.0), st.floats(-15.0, -4.0))
@example(0.0, 1.0, 1.0, 1.0, 0.0, -15.0)
def test_root_and_number_of_steps_equal_those_of_scipy(root, slope, before, after, cubic, digits):
    evaluated = []

    def f(x):
        evaluated.append(x)
        return tanh(slope * (x - root)) + cubic * (x - root) ** 3

    xtol = 10.0**digits
    theirs, report = brentq(f, root - before, root + after, xtol=xtol, full_output=True)
    evaluated.clear()
    ours = brent_root(f, root - before, root + after, xtol=xtol)
    assert abs(ours - root) <= xtol + 1e-13 * (1.0 + abs(root))
    assert ours == theirs
    assert len(evaluated) == report.function_calls


@given(positions, st.floats(0.2, 3.0), st.floats(0.0, 2.0), positions, lengths, st.floats(-10.0, -2.0))
def test_minimum_and_number_of_steps_equal_those_of_scipy(centre, slope, wave, low, width, digits):
    evaluated = []

    def f(x):
        evaluated.append(x)
        return cosh(slope * (x - centre)) + wave * sin(3.0 * x)

    options = {"xatol": 10.0**digits}
    theirs = minimize_scalar(f, bounds=(low, low + width), method="bounded", options=options)
    count = len(evaluated)
    ours, value = brent_minimum(f, low, low + width, **options)
    assert (ours, value) == (theirs.x, theirs.fun)
    assert len(evaluated) == 2 * count


def test_roots_at_the_ends_and_functions_without_a_root():
    assert brent_root(lambda x: x, 0.0, 1.0) == 0.0
    assert brent_root(lambda x: x - 1.0, 0.0, 1.0) == 1.0
    with pytest.raises(OutsideDomain, match="opposite signs at x = 1 and x = 2"):
        brent_root(lambda x: x, 1.0, 2.0)
    with pytest.raises(NonFinite, match="not a number at x = 2"):
        brent_root(lambda x: nan if x > 1.0 else -1.0, 0.0, 2.0)
    with pytest.raises(NotConverged, match="no root was found"):
        brent_root(lambda x: -1.0 if x < 1.0 else 1.0, -1e300, inf, xtol=0.0, rtol=0.0)


def test_a_jump_through_zero_counts_as_a_root():
    assert isclose(brent_root(lambda x: -1.0 if x < 0.3 else 2.0, 0.0, 1.0), 0.3, rel_tol=1e-11)
