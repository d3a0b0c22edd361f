"""Error of a mean over independent replicates of a sample, from their spread."""

import numpy as np
from numpy.typing import NDArray

# Factor on the standard error. With 8 or 16 replicates the ratio of deviation to standard error follows Student's law
# with 7 or 15 degrees of freedom, whose tails are longer than Gaussian: it exceeds three stated errors once in 400 or
# in 2,000 cases.
SAFETY_FACTOR = 1.5


def error_from_replicates(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `SAFETY_FACTOR` standard errors of a mean, from the deviations of the replicates along the first axis."""
    count = len(deviations)
    return np.asarray(SAFETY_FACTOR * np.sqrt(np.sum(deviations**2, axis=0) / (count * (count - 1.0))))
