"""Input channel of several heads: from conjugate fields of the modes of the heads to order parameters (M3).

Weight decay acts on the singular values of every head, the data on the mean of the heads and on their differences with
different precisions. Direct training does not mix the modes and is exact. For factorised training expectation
consistency joins the modes; `alarm` measures where it is not accurate, by a second form that sees the targets of the
other heads, and `SampledHeads` takes its place there.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.input.channel import InputChannel
from onehead.aim.theory.input.expectation_consistency import Groups, consistent_overlaps
from onehead.aim.theory.order_parameters import SpectralMap
from onehead.aim.theory.output.several_heads import HeadModes, orthonormal
from onehead.errors import OutsideDomain, SolveError
from onehead.numerics.fixed_point import FixedPoint, fixed_point
from onehead.spectra.law import edge_rule, replicon_integral

Array = NDArray[np.float64]

GRID, DISTANCES, NEWTON_STEPS = 120, 25, 3  # points of the law of EC2, distances from the real axis on the way down to
# it, and Newton steps at each
FARTHEST, CLOSEST = 3.0, 1e-9  # first and last of these distances, relative to the upper edge
EDGE_POINTS = 4000  # at which the upper edge is searched for
MAX_GRADIENT_STEPS = 3000  # of the accelerated proximal gradient method
GRADIENT_TOLERANCE = 1e-6  # relative change of the maps at which it ends
ZERO = 1e-9  # singular values below it are zeros of the threshold


class ModeHats(NamedTuple):
    """Conjugate fields qhat, mhat and Sigmahat of the two kinds of modes."""

    q: Array
    m: Array
    sigma: Array


class ModeOverlaps(NamedTuple):
    """Order parameters of the two kinds of modes; mean singular value, rank and spectral map of one head."""

    q: Array
    m: Array
    sigma: Array
    tau: float
    rank: float
    map: SpectralMap


@dataclass(frozen=True)
class SeveralHeadsInput:
    """Weight decay on the maps of exchangeable heads.

    Attributes
    ----------
    modes : HeadModes
        Number of heads and overlap of their values.
    single : InputChannel
        Input channel of one head: target, weight decay and parametrisation.
    """

    modes: HeadModes
    single: InputChannel
    _last: list[FixedPoint] = field(default_factory=list, compare=False, repr=False)

    @property
    def direct(self) -> bool:
        """Whether the maps themselves are trained."""
        return self.single.degree == 2

    def overlaps(self, hats: ModeHats) -> ModeOverlaps:
        """Return the order parameters that belong to these conjugate fields.

        Raises
        ------
        OutsideDomain
            If they are not positive, or the map is zero.
        """
        groups = Groups(*hats, self.modes.shares)
        groups.check()
        Q0 = self.single.target_power
        if self.direct:
            D = hats.sigma + 2.0 * self.single.decay
            q, m, slope = (hats.m**2 * Q0 + hats.q) / D**2, hats.m * Q0 / D, float(self.modes.shares @ (hats.m / D))
            spread = max(self.modes.own(q) / slope**2 - Q0, 0.0)
            return ModeOverlaps(q, m, 1.0 / D, 0.0, 1.0, SpectralMap(spread, 0.0, self.single.lowest, slope))
        return ModeOverlaps(*consistent_overlaps(self.single, groups, self.single.integrals, self._last))  # type: ignore[attr-defined]

    def penalty(self, overlaps: ModeOverlaps) -> float:
        """Return the penalty of all heads over d²."""
        heads, decay = self.modes.heads, self.single.decay
        return heads * decay * (self.modes.own(overlaps.q) if self.direct else overlaps.tau)

    def replicon(self, hats: ModeHats, overlaps: ModeOverlaps, curvature: Array, alpha: float) -> float:
        """Return the spectral radius below which the replica-symmetric solution is stable (M4)."""
        response = np.diag(overlaps.sigma**2)
        if not self.direct:
            shares = self.modes.shares
            g1 = 1.0 / overlaps.sigma[0] - hats.sigma[0]
            weights = 1.0 / (hats.sigma + g1)
            weights = weights / float(shares @ weights)
            where = overlaps.map
            law = self.single.law(where.s)
            A = self.single.integrals(where.s, where.eps).A  # type: ignore[attr-defined]
            r = replicon_integral(law, where.eps) / A**2 - 1.0
            common = r / (1.0 - r * float(shares @ (weights - 1.0) ** 2))
            response = overlaps.sigma[:, None] ** 2 * (np.eye(2) + common * (shares * weights**2)[None, :])
        return float(np.max(np.abs(np.linalg.eigvals(alpha * response @ curvature))))

    def vanishes(self, hats: ModeHats) -> bool:
        """Whether weight decay keeps all maps at zero, where these are the conjugate fields at zero (4.6).

        There a head sees a S*_h + b sum of the others + noise; the targets of the others count as noise.
        """
        if self.direct:
            return False
        shares = self.modes.shares
        m = float(shares @ hats.m)
        spread = float(shares @ hats.q) + float(shares @ (hats.m - m) ** 2) * self.single.target_power
        return m <= 0.0 or self.single.vanishes(spread / m**2, m)

    def alarm(self, hats: ModeHats, overlaps: ModeOverlaps, rank: float) -> float:
        """Return |EC2/EC1 - 1| in the overlap of the difference modes (M3.1); zero for one head and direct training.

        EC2 lets a head see the targets of the other heads as well as its own. It is written for product targets; for
        others the product of the same rank stands in.
        """
        if self.direct or self.modes.heads == 1 or self.modes.sharing == 0.0:
            return 0.0
        try:
            other = _second_form(self, hats, overlaps, rank)
        except SolveError:
            return np.inf
        return abs(other / float(overlaps.m[1]) - 1.0)


def _second_form(channel: SeveralHeadsInput, hats: ModeHats, near: ModeOverlaps, rank: float) -> float:
    """Return the overlap of the difference modes of EC2, in which every mode has a field mu1 of its own (M3)."""
    modes, single = channel.modes, channel.single
    shares, heads, Q0, root = modes.shares, modes.heads, single.target_power, np.sqrt(single.target_power)
    unit = np.array([float(shares @ row) for row in (hats.sigma, hats.m, hats.m, hats.q)])
    g1 = 1.0 / near.sigma[0] - hats.sigma[0]
    found: dict[str, Array] = {}

    def sweep(x: Array) -> Array:
        g1, mu1, nu1 = unit[0] * np.expm1(x[0]), unit[1:3] * x[1:3], unit[3] * x[3]
        chi = float(shares @ (1.0 / (hats.sigma + g1)))
        g2, w = 1.0 / chi - g1, 1.0 / (chi * (hats.sigma + g1))
        mu2 = w * hats.m + (w - 1.0) * mu1
        nu2 = float(shares @ (w**2 * hats.q + (w - 1.0) ** 2 * nu1))
        if not (nu2 > 0.0 and g2 > 0.0):
            raise OutsideDomain("the second form of expectation consistency has no solution here.")
        a, b = float(mu2[0] + (heads - 1.0) * mu2[1]) / heads, float(mu2[0] - mu2[1]) / heads
        J, A, by_a, by_b = _free_sum(a * root, b * root, nu2, rank, heads, single.decay)
        if not A > 0.0:
            raise OutsideDomain("every singular value fell below the threshold: the map is zero here.")
        own, cross = root * by_a / (2.0 * g2), root * by_b / (2.0 * (heads - 1.0) * g2)
        m, q, chi2 = np.array([own + (heads - 1.0) * cross, own - cross]), J / g2**2, A / g2
        found["m"] = (hats.m + mu1) * Q0 / (hats.sigma + g1)
        new_g1, new_mu1 = 1.0 / chi2 - g2, m / (chi2 * Q0) - mu2
        new_nu1 = q / chi2**2 - 2.0 * (float(shares @ (mu2 * m)) + nu2 * chi2) / chi2 + nu2
        new_nu1 += Q0 * float(shares @ (mu2**2 - new_mu1**2))
        return np.array([np.log1p(max(new_g1, 0.0) / unit[0]), *(new_mu1 / unit[1:3]), new_nu1 / unit[3]])

    mu1 = near.m / (Q0 * near.sigma) - hats.m
    nu1 = float(shares @ (near.q / near.sigma**2 - (hats.m + mu1) ** 2 * Q0 - hats.q))
    start = np.array([np.log1p(max(g1, 0.0) / unit[0]), *(mu1 / unit[1:3]), nu1 / unit[3]])
    fixed_point(sweep, start, tolerance=1e-6, damping=0.5, max_evaluations=200, limit=1e9)
    return float(found["m"][1])


def _free_sum(
    a: float, b: float, nu: float, rank: float, heads: int, decay: float
) -> tuple[float, float, float, float]:
    """Return J, A = dJ/dnu, dJ/da and dJ/db of the soft threshold on a S*_h + b sum of the others + noise (M3).

    The Stieltjes transform g solves z = nu g + 1/g + a² g/(1 - a² g²/k) + (H - 1) b² g/(1 - b² g²/k), k = rank.
    """
    others = heads - 1.0

    def z_of(g: Any) -> tuple[Any, Any]:
        value, slope = nu * g + 1.0 / g, nu - 1.0 / g**2
        for weight, c in ((1.0, a * a), (others, b * b)):
            bottom = 1.0 - c * g * g / rank
            value, slope = value + weight * c * g / bottom, slope + weight * c * (2.0 - bottom) / bottom**2
        return value, slope

    # the upper edge of the law is where z(g) is smallest between zero and its first pole
    pole = np.sqrt(rank) / max(abs(a), abs(b), 1e-300)
    places = min(pole, 10.0 / np.sqrt(nu)) * np.linspace(0.0, 1.0, EDGE_POINTS)[1:-1]
    edge = float(np.min(z_of(places)[0]))
    if edge <= decay:
        return 0.0, 0.0, 0.0, 0.0
    unit, weights = edge_rule(GRID)
    x, dx = decay + (edge - decay) * unit, (edge - decay) * weights
    g = 1.0 / (x + 1j * FARTHEST * edge)
    for distance in np.geomspace(FARTHEST, CLOSEST, DISTANCES):
        z = x + 1j * distance * edge
        for _ in range(NEWTON_STEPS):
            value, slope = z_of(g)
            g = g - (value - z) / slope
    density = np.maximum(-g.imag, 0.0) / np.pi
    if not np.isfinite(g).all():
        raise OutsideDomain("the law of the second form of expectation consistency could not be solved.")
    above = x - decay
    J = 2.0 * float(dx @ (above**2 * density))
    A = 4.0 * float(dx @ (above * density * g.real))

    def slope_of(c: float, weight: float) -> float:
        kernel = c * g**2 / (1.0 - c * c * g**2 / rank)
        return 4.0 * weight * float(dx @ (above * -kernel.imag)) / np.pi

    return J, A, slope_of(a, 1.0), slope_of(b, others)


class SampledHeads:
    """Minimiser over the maps of all heads for sampled targets and one sample of the noise (M3.2).

    Parameters
    ----------
    targets : array (heads, d, d)
        S*_h in reduced units.
    decay : float
        Weight decay in reduced units.
    rng : numpy.random.Generator
        Source of the noise.
    """

    def __init__(self, targets: Array, decay: float, rng: np.random.Generator) -> None:
        heads, d = len(targets), targets.shape[1]
        modes = orthonormal(heads)
        self.modes, self.decay = modes, decay
        self.targets = np.einsum("ch,hij->cij", modes, targets)
        self.noise = rng.standard_normal(targets.shape) / np.sqrt(d)
        self._maps = np.zeros_like(targets)

    @classmethod
    def of(cls, channel: SeveralHeadsInput, dim: int, seed: int) -> "SampledHeads":
        """Sample targets with the spectrum of the channel's target."""
        rng = np.random.default_rng([seed, dim])
        maps = [channel.single.target.draw(dim, rng, tied=False) for _ in range(channel.modes.heads)]
        targets = channel.single.scale * np.stack(maps)
        powers = np.sum(targets**2, axis=(1, 2)) / dim  # set to that of the theory: they scatter by 1/d
        targets *= np.sqrt(channel.single.target_power / powers)[:, None, None]
        return cls(targets, channel.single.decay, rng)

    def at(self, hats: ModeHats) -> ModeOverlaps:
        """Return the order parameters of the minimiser."""
        heads, d = self.targets.shape[:2]
        kinds = np.minimum(np.arange(heads), 1)
        fields = hats.m[kinds, None, None] * self.targets + np.sqrt(hats.q)[kinds, None, None] * self.noise
        maps, values = self._minimise(fields, hats.sigma[kinds])
        in_modes = np.einsum("ch,hij->cij", self.modes, maps)

        def by_kind(products: Array) -> Array:
            return np.array([products[0], products[1:].mean() if heads > 1 else products[0]])

        q = by_kind(np.einsum("cij,cij->c", in_modes, in_modes) / d)
        m = by_kind(np.einsum("cij,cij->c", in_modes, self.targets) / d)
        sigma = by_kind(np.einsum("cij,cij->c", in_modes, self.noise)) / (d * np.sqrt(hats.q))
        rank = float(np.mean(values > ZERO))
        return ModeOverlaps(q, m, sigma, float(values.mean()), rank, SpectralMap(0.0, 0.0, 0.0, 1.0))

    def _minimise(self, fields: Array, precisions: Array) -> tuple[Array, Array]:
        """Return the maps and their singular values, by an accelerated proximal gradient method."""
        modes, step = self.modes, 1.0 / float(precisions.max())
        own = np.einsum("ch,cij->hij", modes, fields)
        curvature = modes.T @ (precisions[:, None] * modes)
        S = Y = self._maps
        momentum = 1.0
        values = np.zeros(S.shape[:2])
        for _ in range(MAX_GRADIENT_STEPS):
            moved = Y - step * (np.einsum("hg,gij->hij", curvature, Y) - own)
            left, values, right = np.linalg.svd(moved, full_matrices=False)
            values = np.clip(values - step * self.decay, 0.0, None)
            new = (left * values[:, None, :]) @ right
            change, size = float(np.linalg.norm(new - S)), float(np.linalg.norm(new))
            if float(np.vdot(Y - new, new - S)) > 0.0:  # momentum that leads uphill is dropped
                momentum = 1.0
            faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            S, Y = new, new + (momentum - 1.0) / faster * (new - S)
            momentum = faster
            if change < GRADIENT_TOLERANCE * max(size, 1e-300):
                break
        self._maps = S
        return S, values
