"""Numbers and problems that tests of several rooms draw."""

import numpy as np
from hypothesis import strategies as st

from onehead import sparse


def between(low, high):
    """Numbers spread evenly over decades."""
    return st.floats(np.log(low), np.log(high)).map(lambda x: float(np.exp(x)))


def sparse_task(L, R, theta, pi):
    return sparse.Task(length=L, signal_tokens=R, strength=theta, positive_rate=pi)
