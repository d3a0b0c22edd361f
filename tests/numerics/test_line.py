"""Roots and minima of functions of one number: against scipy's, which loads more than a prediction needs, and against what they are."""

from math import cosh, inf, isclose, nan, sin, tanh

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from onehead.errors import NonFinite, NotConverged, OutsideDomain
from onehead.numerics.line import lowest_between, root_between

places = st.floats(-3.0, 3.0)
reaches = st.floats(0.1, 5.0)


@given(places, reaches, reaches, reaches, st.floats(0.0, 3.0), st.floats(-15.0, -4.0))
@example(0.0, 1.0, 1.0, 1.0, 0.0, -15.0)
def test_the_same_root_as_scipy_in_as_many_steps(root, slope, before, after, bend, digits):
    seen = []

    def f(x):
        seen.append(x)
        return tanh(slope * (x - root)) + bend * (x - root) ** 3

    xtol = 10.0**digits
    theirs, report = brentq(f, root - before, root + after, xtol=xtol, full_output=True)
    seen.clear()
    ours = root_between(f, root - before, root + after, xtol=xtol)
    assert abs(ours - root) <= xtol + 1e-13 * (1.0 + abs(root))
    assert ours == theirs
    assert len(seen) == report.function_calls


@given(places, st.floats(0.2, 3.0), st.floats(0.0, 2.0), places, reaches, st.floats(-10.0, -2.0))
def test_the_same_minimum_as_scipy_in_as_many_steps(place, steep, wave, low, wide, digits):
    seen = []

    def f(x):
        seen.append(x)
        return cosh(steep * (x - place)) + wave * sin(3.0 * x)

    options = {"xatol": 10.0**digits}
    theirs = minimize_scalar(f, bounds=(low, low + wide), method="bounded", options=options)
    asked = len(seen)
    ours, value = lowest_between(f, low, low + wide, **options)
    assert (ours, value) == (theirs.x, theirs.fun)
    assert len(seen) == 2 * asked


def test_ends_that_are_roots_and_functions_that_have_none():
    assert root_between(lambda x: x, 0.0, 1.0) == 0.0
    assert root_between(lambda x: x - 1.0, 0.0, 1.0) == 1.0
    with pytest.raises(OutsideDomain, match="the same sign at 1 and at 2"):
        root_between(lambda x: x, 1.0, 2.0)
    with pytest.raises(NonFinite, match="not a number at 2"):
        root_between(lambda x: nan if x > 1.0 else -1.0, 0.0, 2.0)
    with pytest.raises(NotConverged, match="no root was found"):
        root_between(lambda x: -1.0 if x < 1.0 else 1.0, -1e300, inf, xtol=0.0, rtol=0.0)


def test_a_jump_is_a_root():
    assert isclose(root_between(lambda x: -1.0 if x < 0.3 else 2.0, 0.0, 1.0), 0.3, rel_tol=1e-11)
