"""Several heads that add to one output: from the order parameters of the modes of the heads to conjugate fields (M2).

Heads are exchangeable, so that every H x H matrix of order parameters has two eigenvalues: that of the mean of the
heads, and that of the H - 1 differences between heads. Arrays of two numbers are in this order.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from onehead.aim.kernels.several_heads import FROM_BOTH, FROM_LABEL, SUMS, WARM, several_heads_sums, sizes_of
from onehead.aim.theory.output.one_sector import OneSectorOutput
from onehead.numerics.gaussian import GaussianRule, lattice, sobol
from onehead.numerics.parallel import thread_map

Array = NDArray[np.float64]

RADIUS = 5.8  # of the four-dimensional lattice
SPACINGS = (0.8, 0.7, 0.6, 0.55, 0.5, 0.45, 0.4)  # of the lattice, by level
LINE_SPACING = 0.5  # spacing for a single logit, whose lattice is two-dimensional, over that for two
NETS = ((11, 0), (11, 4), (12, 1), (12, 5), (13, 2), (13, 6), (14, 3))  # log2 of the points of scrambled Sobol nets and
# their seed, by level: independent points at every level; antithetic copies double them
SLICES = 8  # of the nodes; fixed, so that results do not depend on the number of threads
STIFF_GAIN = 0.3  # gain of a mode, relative to the largest, below which the Stein forms are used (M2)


class HeadModes(NamedTuple):
    """The modes of H heads whose values overlap by rho (M1)."""

    heads: int
    sharing: float

    @property
    def counts(self) -> Array:
        """Numbers of modes: one mean, H - 1 differences."""
        return np.array([1.0, self.heads - 1.0])

    @property
    def shares(self) -> Array:
        """Shares of the modes."""
        return np.array([1.0, self.heads - 1.0]) / self.heads

    @property
    def gains(self) -> Array:
        """Eigenvalues of the Gram matrix of the values: 1 + (H - 1) rho and 1 - rho."""
        return np.array([1.0 + (self.heads - 1.0) * self.sharing, 1.0 - self.sharing])

    @property
    def stiff(self) -> bool:
        """Whether values overlap so much that the proximal operator may jump, and the Stein forms are needed (M2)."""
        gains = self.gains
        return bool(gains.min() < (STIFF_GAIN - 1e-9) * gains.max() and self.heads > 1 and abs(self.sharing) > 0.7)

    def own(self, modes: Array) -> float:
        """Diagonal entry of the matrix with these eigenvalues: the number of one head."""
        return float(self.shares @ modes if self.heads > 1 else modes[0])  # fields of zero maps are infinite

    def cross(self, modes: Array) -> float:
        """Entry of the matrix between two different heads; zero for one head."""
        return float(modes[0] - modes[1]) / self.heads if self.heads > 1 else 0.0


@dataclass(frozen=True)
class ModeState:
    """Order parameters q, m, Sigma of the two kinds of modes, and the scales B of the values (M7)."""

    q: Array
    m: Array
    sigma: Array
    scales: Array

    def coordinates(self, label_power: float) -> Array:
        """Logarithms of q - m²/Q, m, Sigma and B, which any numbers are admissible for."""
        logs: Array = np.log(np.concatenate([self.q - self.m**2 / label_power, self.m, self.sigma, self.scales]))
        return logs

    @classmethod
    def at(cls, coordinates: Array, label_power: float) -> Self:
        """State with these `coordinates`."""
        rest, m, sigma, scales = np.exp(coordinates).reshape(4, 2)
        return cls(rest + m**2 / label_power, m, sigma, scales)


class ModeAverages(NamedTuple):
    """Averages over one sample, per unit of alpha.

    Attributes
    ----------
    q_hat : array
        Conjugate fields of q.
    m_stein, sigma_stein : array
        Conjugate fields of m and Sigma by Stein's lemma.
    m_derivative, sigma_derivative : array or None
        The same by derivatives of the proximal operator.
    loss : float
        Mean loss of a sample.
    switch_mass : float
        Share of nodes at which Newton's method ends in different minima.
    curvature : array or None
        Second moments of K = (1 + Hess Sigma)^-1 Hess between the kinds of modes, for the replicon (M4).
    agreement, attention : array
        Averages of attention times label and of attention squared (M7).
    """

    q_hat: Array
    m_stein: Array
    sigma_stein: Array
    m_derivative: Array | None
    sigma_derivative: Array | None
    loss: float
    switch_mass: float
    curvature: Array | None
    agreement: Array
    attention: Array

    @property
    def jump(self) -> float:
        """Largest relative difference of the two forms of Sigmahat, which jumps of the proximal operator make."""
        if self.sigma_derivative is None:
            return 0.0
        known = self.sigma_derivative != 0.0
        return float(np.max(np.abs(self.sigma_stein[known] / self.sigma_derivative[known] - 1.0)))


@dataclass(frozen=True)
class SeveralHeadsOutput:
    """The output channel of several heads with squared loss and soft labels.

    Attributes
    ----------
    modes : HeadModes
        Number of heads and overlap of their values.
    single : OneSectorOutput
        Output channel of one head, whose averages over fresh samples give all errors.
    """

    modes: HeadModes
    single: OneSectorOutput

    @property
    def label_power(self) -> float:
        """Q, variance of a contrast of the noisy labels."""
        return self.single.label_power

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return self.single.geometry.tokens

    @property
    def coordinates(self) -> int:
        """Number of logits of a row, contrasts of all heads."""
        return self.modes.heads * (self.tokens - 1)

    @property
    def sampled(self) -> bool:
        """Whether nodes are sampled points rather than a lattice."""
        return self.coordinates > 2

    @cached_property
    def _basis(self) -> tuple[Array, Array]:
        """Orthonormal modes of the heads, and contrasts of the columns as columns of a matrix."""
        return orthonormal(self.modes.heads), np.ascontiguousarray(orthonormal(self.tokens)[1:].T)

    def _rule(self, level: int) -> GaussianRule:
        count = self.coordinates
        if not self.sampled:
            spacing = SPACINGS[level] * (1.0 if count == 2 else LINE_SPACING)
            return lattice(2 * count, spacing=spacing, radius=RADIUS, offset=0.5, folded=count)
        log2_points, seed = NETS[level]
        return sobol(2 * count, log2_points=log2_points, seed=seed)

    def averages(
        self, state: ModeState, level: int, *, derivatives: bool, check: bool = False, points: Array | None = None
    ) -> ModeAverages:
        """Average over one sample.

        Parameters
        ----------
        state : ModeState
        level : int
            Fineness of the quadrature rule.
        derivatives : bool
            Whether derivatives of the proximal operator are wanted.
        check : bool
            Whether to take the lower of two minima at every node, those reached from the label and from the learner's
            logits; else the one near the label, or near the last proximal point.
        points : array, optional
            Proximal points of the last call, or `points_at`; overwritten.
        """
        rule, (modes, basis) = self._rule(level), self._basis
        sizes = sizes_of(self.modes.heads, self.tokens)
        Q, q, m = self.label_power, state.q, state.m
        rest = np.sqrt(np.maximum(q - m**2 / Q, 0.0))
        table = np.array([np.full(2, np.sqrt(Q)), m / Q, rest, state.sigma, self.modes.gains, state.scales])
        if points is None:
            points = self.points_at(level)
        start = FROM_BOTH if check else FROM_LABEL if np.isnan(points[0, 0]) else WARM
        nodes = (*(np.ascontiguousarray(part) for part in np.hsplit(rule.nodes, 2)), rule.weights)
        ends = np.linspace(0, len(rule.weights), SLICES + 1).astype(int)

        def part(k: int) -> Array:
            out = np.empty(SUMS)
            several_heads_sums(
                nodes, sizes, modes, basis, table, start, derivatives, points, (ends[k], ends[k + 1]), out
            )
            return out

        sums = np.sum(thread_map(part, range(SLICES)), axis=0)
        return self._collect(sums, state, rest, derivatives)

    def points_at(self, level: int) -> Array:
        """Work space for the proximal points of a rule, without points yet."""
        return np.full((len(self._rule(level).weights), self.coordinates), np.nan)

    def _collect(self, sums: Array, state: ModeState, rest: Array, derivatives: bool) -> ModeAverages:
        """Averages from the sums over nodes: per mode, times the number of rows."""
        rows, counts, Q = self.tokens, np.maximum(self.modes.counts, 1.0), self.label_power
        pairs = rows * sums[2:12].reshape(5, 2) / counts
        sigma_stein = -pairs[1] / np.where(rest > 0.0, rest, 1.0)
        curvature = None
        if derivatives:
            corner, edge, bulk = rows * sums[12:15]
            curvature = np.array([[corner, edge], [edge / counts[1], bulk / counts[1]]])
        return ModeAverages(
            q_hat=pairs[0],
            m_stein=pairs[2] / np.sqrt(Q) + state.m / Q * sigma_stein,
            sigma_stein=sigma_stein,
            m_derivative=pairs[4] if derivatives else None,
            sigma_derivative=pairs[3] if derivatives else None,
            loss=rows * float(sums[0]),
            switch_mass=float(sums[1]),
            curvature=curvature,
            agreement=sums[15:17] / counts,
            attention=sums[17:19] / counts,
        )

    def _softmax_product(self, q: float, m: float, power: float) -> float:
        """Mean over a row of the product of two softmaxes of logits with variances q and power and covariance m.

        It follows from squared differences, which the output channel of one head averages without sampling.
        """
        if q == 0.0 or power == 0.0:  # one of the two is uniform
            return 1.0 / self.tokens

        def difference(q: float, m: float, power: float) -> float:
            return self.single.fresh_loss(q, m, loss="squared", power=power) / self.tokens

        squares = [0.5 * difference(one, 0.0, one) + 1.0 / self.tokens for one in (q, power)]
        return 0.5 * (sum(squares) - difference(q, m, power))

    def head_error(self, q: float, m: float, power: float | None = None) -> float:
        """Squared error of the attention of one head on a fresh sample."""
        return self.single.fresh_loss(q, m, loss="squared", power=power)

    def fresh_error(self, state: ModeState, power: float | None = None) -> float:
        """Test error: mean over fresh samples of the sum over rows of r'Gr (M3).

        ``power`` is the variance of the label coordinates, Q by default; that of clean labels is Q0.
        """
        modes, Q = self.modes, self.label_power if power is None else power
        q, m = (modes.own(values) for values in (state.q, state.m))
        own = [self._softmax_product(q, q, q), self._softmax_product(q, m, Q), self._softmax_product(Q, Q, Q)]
        other = own
        if modes.heads > 1:
            q1, m1 = (modes.cross(values) for values in (state.q, state.m))
            other = [
                self._softmax_product(q, q1, q),
                self._softmax_product(q, m1, Q),
                self._softmax_product(Q, 0.0, Q),
            ]
        H, B = modes.heads, state.scales
        means = np.array([[one + (H - 1.0) * two, one - two] for one, two in zip(own, other, strict=True)])
        weights = modes.counts * modes.gains
        return self.tokens * float(weights @ (B**2 * means[0] - 2.0 * B * means[1] + means[2]))

    def fresh_scales(self, q: float, m: float) -> Array:
        """Values of infinitely many samples: least squares on heads with these overlaps and none between them (M7)."""
        H, Q = self.modes.heads, self.label_power
        square, product = self._softmax_product(q, q, q), self._softmax_product(q, m, Q)
        rest = 1.0 / self.tokens
        return np.array(
            [(product + (H - 1.0) * rest) / (square + (H - 1.0) * rest), (product - rest) / (square - rest)]
        )


@lru_cache(maxsize=64)
def orthonormal(count: int) -> Array:
    """Orthonormal rows, the first of equal entries and the others of sum zero (Helmert)."""
    rows = np.zeros((count, count))
    rows[0] = 1.0 / np.sqrt(count)
    for k in range(1, count):
        rows[k, :k], rows[k, k] = 1.0, -float(k)
        rows[k] /= np.sqrt(k * (k + 1.0))
    return rows
