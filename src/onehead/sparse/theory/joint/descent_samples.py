"""Gaussian points over which the equations of joint training are averaged (J5, J8)."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from onehead.numerics.sobol import BITS, scrambled_net
from onehead.sparse.losses import Array

MAX_SOBOL_DIMENSIONS = 20_000  # more coordinates are filled with pseudo-random numbers


@dataclass(frozen=True, kw_only=True)
class DescentSample:
    """Standard normals (n, 2 times, L) that both classes share, and a random sign per token for derivatives."""

    normals: Array
    probe: Array

    @property
    def points(self) -> int:
        """Number of points per class."""
        return len(self.normals)

    @property
    def label(self) -> Array:
        """Labels of the samples, the positive ones first."""
        return np.repeat([1.0, -1.0], self.points)

    def weights(self, positive_rate: float) -> Array:
        """Return the probability of every sample; they sum to one."""
        return np.repeat([positive_rate, 1.0 - positive_rate], self.points) / self.points


class SampleHistory(NamedTuple):
    """State of every sample at every time (J8): the first axis is the time, the second the sample.

    ``force`` (time, sample, 2, token) acts on the fields of query and readout; ``attention`` (time, sample, token);
    ``deviation`` is the readout field minus its mean under the attention; ``slope`` and ``curvature`` (time, sample)
    are derivatives of the loss by the logit.
    """

    force: Array
    attention: Array
    deviation: Array
    slope: Array
    curvature: Array


def standard_normals(dim: int, log2_points: int, seed: list[int]) -> Array:
    """Return 2^log2_points quasi-random standard normal vectors, (n, dim); seeds give independent sets."""
    from scipy.special import ndtri  # scipy is loaded when first needed

    if dim > MAX_SOBOL_DIMENSIONS:
        return np.random.default_rng(seed).standard_normal((2**log2_points, dim))
    return np.asarray(ndtri((scrambled_net(dim, log2_points, seed) + 0.5) / 2.0**BITS))


def descent_sample(length: int, times: int, log2_points: int, seed: list[int]) -> DescentSample:
    """Return points for ``times`` states of sequences of ``length`` tokens."""
    normals = standard_normals(2 * times * length, log2_points, seed)
    probe = np.random.default_rng([*seed, 1]).choice([-1.0, 1.0], (2**log2_points, length))
    return DescentSample(normals=normals.reshape(-1, 2 * times, length), probe=probe)
