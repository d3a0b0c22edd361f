"""spectrum(): law of the eigenvalues or singular values of the trained query-key map (5, U3)."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.theory.input.sampled_map import ZERO
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.verbs.outliers import Outlier, UnaskedOutlier, outliers_of, unasked_outlier_of
from onehead.aim.verbs.predict import Prediction
from onehead.errors import InvalidArgument
from onehead.results import Certificate, Result
from onehead.spectra.law import Law
from onehead.validation import checked, generator, instance, integer

Array = NDArray[np.float64]

DENSITY_GRID = 400  # points per bulk of the tabulated density
EDGE_TOLERANCE = (
    1e-13  # over the support: closer to an edge the density is the square root of a rounding error, so it is set to 0
)
CDF_NODES = 4000  # per bulk
CDF_NODES_OUTLIER = 65  # per outlier, whose density is almost a semicircle


@dataclass(frozen=True, kw_only=True, repr=False)
class Spectrum(Result):
    """Eigenvalues of the trained map S: an atom at zero and a density, in units of S.

    Eigenvalues are slope (x - threshold) for x above the cut and zero below it, with x from the blurred target law.
    Where S is the target itself, the law is that of the target, which for a list of eigenvalues is a set of ``levels``
    without a density.

    Attributes
    ----------
    zero_mass : float
        Share of eigenvalues that are exactly zero.
    rank : float
        Share of eigenvalues that are not zero.
    edges : tuple of pairs
        Lower and upper edge of each bulk, cut at zero.
    outliers : tuple of Outlier
        Learned features of a target with a dimension d, each of mass 1/d.
    unasked_outlier : UnaskedOutlier or None
        Row of the map along the mean of the queries, of mass 1/d; None where they have none (D3).
    levels : tuple of pairs
        Distinct non-zero eigenvalues and their shares, where S is a target given by a list.
    intervals : tuple of pairs
        Support of the density: bulks and intervals of outliers.
    x, density_values : ndarray
        Tabulated density on the bulks.
    mean : float
        Tr S/d, the mean eigenvalue.
    second_moment : float
        Tr S²/d, the mean squared eigenvalue.
    certificate : Certificate
        Certificate of the prediction.
    point : Prediction
        The prediction.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("intervals",)
    MEANINGS: ClassVar[dict[str, str]] = {
        "zero_mass": "share of eigenvalues that are exactly zero",
        "rank": "share of eigenvalues that are not zero",
        "edges": "one interval per bulk",
        "outliers": "eigenvalues outside the bulks",
        "levels": "distinct non-zero eigenvalues and their shares",
        "mean": "Tr S/d",
        "second_moment": "Tr S²/d",
    }

    zero_mass: float
    rank: float
    edges: tuple[tuple[float, float], ...]
    outliers: tuple[Outlier, ...]
    unasked_outlier: UnaskedOutlier | None
    levels: tuple[tuple[float, float], ...]
    intervals: tuple[tuple[float, float], ...]
    x: Array
    density_values: Array
    mean: float
    second_moment: float
    certificate: Certificate
    point: Prediction

    def to_dict(self) -> dict[str, Any]:
        """Result as a dictionary of plain values; the tabulated density is called ``density``."""
        row = super().to_dict()
        row["density"] = row.pop("density_values")
        row["point"] = self.point.to_dict()
        return row

    def __repr__(self) -> str:
        bulks = ", ".join(f"[{low:.4g}, {high:.4g}]" for low, high in self.edges)
        levels = f", levels={len(self.levels)}" if self.levels else ""
        counts = f"outliers={len(self.outliers)}{levels}"
        return f"{type(self).__name__}(zero_mass={self.zero_mass:.4f}, edges=({bulks}), {counts})"

    def density(self, x: Array) -> Array:
        """Density rho_s(x / slope + threshold) / slope of the non-zero eigenvalues at x; twice that for singular
        values.
        """
        x = np.atleast_1d(np.asarray(x, dtype=float))
        point = self.point
        if self.rank == 0.0 or self.levels:
            return np.zeros(x.shape)
        law = self._law
        if law is None:
            scale = point.task.beta0 / point.learner.beta
            return point.task.target.density(x / scale) / scale
        source = x / point.slope + point.threshold
        inside = (source > _cut(point, law)) & ~_at_an_edge(law, source)
        return np.where(inside, law.sides * law.density(source) / point.slope, 0.0)

    def cdf(self, x: Array) -> Array:
        """Share of eigenvalues that are at most x, the atom at zero included."""
        x = np.atleast_1d(np.asarray(x, dtype=float))
        grid, below = self._table
        share = np.interp(x, grid, below, left=0.0, right=below[-1]) if grid.size else np.zeros(x.shape)
        for value, mass in (*self.levels, (0.0, self.zero_mass)):
            share = share + np.where(x >= value, mass, 0.0)
        return np.asarray(share)

    def sample(self, rng: np.random.Generator | int, size: int) -> Array:
        """Sample ``size`` independent eigenvalues from the limiting law; ``rng`` is a generator or a seed."""
        integer(1)("size", size)
        u = generator("rng", rng).random(size)
        grid, below = self._table
        values = np.zeros(size)
        positive = u < self.rank
        if grid.size:
            values[positive] = np.interp(u[positive] * below[-1] / self.rank, below, grid)
        elif self.levels:
            levels, masses = np.array(self.levels).T
            values[positive] = levels[np.searchsorted(np.cumsum(masses)[:-1], u[positive], side="right")]
        return values

    @cached_property
    def _law(self) -> Law | None:
        """Blurred target law rho_s; None where the target is recovered exactly."""
        point = self.point
        return point.channel.law(point.spread) if point.spread > 0.0 else None

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        """Grid of eigenvalues and the mass of the density below each, by the trapezoidal rule in an angle."""
        grids, masses, total = [], [], 0.0
        for low, high in self.intervals:
            angle = np.linspace(0.0, np.pi, CDF_NODES if (low, high) in self.edges else CDF_NODES_OUTLIER)
            x = low + (high - low) * 0.5 * (1.0 - np.cos(angle))
            weight = self.density(x) * (high - low) * 0.5 * np.sin(angle)
            steps = 0.5 * (weight[1:] + weight[:-1]) * np.diff(angle)
            grids.append(x)
            masses.append(total + np.concatenate([[0.0], np.cumsum(steps)]))
            total = float(masses[-1][-1])
        if not grids:
            return np.empty(0), np.empty(0)
        return np.concatenate(grids), np.concatenate(masses)


@dataclass(frozen=True, kw_only=True, repr=False)
class SingularSpectrum(Spectrum):
    """Singular values of the trained map S of an untied head: an atom at zero and a density, in units of S.

    They are slope (x - threshold) for x above the cut and zero below it, with x > 0 from the blurred symmetrised law of
    the target's singular values (U3). The attributes are those of `Spectrum`, with singular values for eigenvalues.
    """

    MEANINGS: ClassVar[dict[str, str]] = {
        "zero_mass": "share of singular values that are exactly zero",
        "rank": "share of singular values that are not zero",
        "edges": "one interval per bulk",
        "outliers": "singular values outside the bulks",
        "levels": "distinct non-zero singular values and their shares",
        "mean": "mean singular value",
        "second_moment": "Tr S'S/d",
    }


def _at_an_edge(law: Law, x: Array) -> NDArray[np.bool_]:
    """Whether points coincide with an edge of a bulk, up to rounding."""
    ends = np.ravel(law.edges)
    near = np.abs(np.subtract.outer(x, ends)) <= EDGE_TOLERANCE * (ends[-1] - ends[0])
    return np.asarray(near.any(axis=-1))


def _cut(point: Prediction, law: Law) -> float:
    """Value of x above which eigenvalues of S are not zero; at least zero for singular values."""
    return point.cut if law.sides == 1 else max(point.cut, 0.0)


def _sampled_spectrum(point: Prediction) -> Spectrum:
    """Singular values of the sampled maps of a prediction, as levels (D8.3)."""
    maps = point.channel.sampled_maps
    if not maps and not point.equations.input.heuristic:  # solved exactly, without maps of which to take the values
        raise InvalidArgument(
            "token_spectrum",
            point.task.token_spectrum,
            "isotropic for the spectrum of a map, unless it is factorised and tokens fill all dimensions",
        )
    if not maps:
        raise InvalidArgument(
            "sampled", point.learner.sampled, "at least 2 for the spectrum of a map with a token spectrum"
        )
    hats, beta = Hats(point.q_hat, point.m_hat, point.sigma_hat), point.learner.beta
    samples = [one.at(hats) for one in maps] if point.rank > 0.0 else []
    values = np.sort(np.concatenate([np.zeros(1), *(sample.singular_values / beta for sample in samples)]))[1:]
    share = 1.0 / max(len(values), 1)
    rank = float(np.mean([sample.rank for sample in samples])) if samples else 0.0
    return SingularSpectrum(
        zero_mass=1.0 - rank,
        rank=rank,
        edges=(),
        outliers=(),
        unasked_outlier=None,
        levels=tuple((value, share) for value in values.tolist() if value > ZERO),
        intervals=(),
        x=np.empty(0),
        density_values=np.empty(0),
        mean=share * float(values.sum()),
        second_moment=share * float(values @ values),
        certificate=Certificate.of(point.certificate, evaluations=0),
        point=point,
    )


@checked(point=instance(Prediction, "a result of predict"))
def spectrum(point: Prediction) -> Spectrum:
    """Law of the eigenvalues of the trained map, or of its singular values if the head is untied, from a prediction.

    Parameters
    ----------
    point : Prediction
        A prediction of `predict`.

    Returns
    -------
    Spectrum
        Atom at zero, bulks, outliers, moments, density and distribution function.

    Raises
    ------
    InvalidArgument
        If ``point`` is not a prediction.

    Examples
    --------
    >>> from onehead.aim import Learner, Task, predict, spectrum
    >>> law = spectrum(predict(Task(), Learner(), alpha=0.5))
    >>> round(law.zero_mass, 3), len(law.edges), round(law.second_moment, 2)
    (0.356, 1, 1.46)
    """
    if not point.task.isotropic:
        return _sampled_spectrum(point)
    outliers = outliers_of(point)
    intervals: tuple[tuple[float, float], ...] = ()
    levels: tuple[tuple[float, float], ...] = ()
    mean = second = 0.0
    if point.rank > 0.0 and point.spread <= 0.0:  # S is the target itself
        target, scale = point.equations.input.target, point.task.beta0 / point.learner.beta
        mean, second = scale * target.mean, point.q
        if target.atoms is not None:
            values, shares = target.atoms
            levels = tuple(zip((scale * values[::-1]).tolist(), shares[::-1].tolist(), strict=True))
        else:
            low, high = target.edges
            intervals = ((scale * low, scale * high),)
    elif point.rank > 0.0:
        law = point.channel.law(point.spread)
        cut = _cut(point, law)
        nodes = law.nodes(cut)
        values = point.slope * (nodes.x - point.threshold)
        mean, second = law.sides * float(nodes.mass @ values), law.sides * float(nodes.mass @ values**2)
        ends = ((max(low, cut), high) for low, high in law.edges)
        learned = (
            (point.slope * (low - point.threshold), point.slope * (high - point.threshold)) for low, high in ends
        )
        intervals = tuple((low, high) for low, high in learned if high > low)
    positions = tuple(outlier.position for outlier in outliers)
    bulks = tuple((low, high) for low, high in intervals if not any(low <= x <= high for x in positions))
    kind = Spectrum if point.task.tied else SingularSpectrum
    result = kind(
        zero_mass=1.0 - point.rank,
        rank=point.rank,
        edges=bulks,
        outliers=outliers,
        unasked_outlier=unasked_outlier_of(point),
        levels=levels,
        intervals=intervals,
        x=np.empty(0),
        density_values=np.empty(0),
        mean=mean,
        second_moment=second,
        certificate=Certificate.of(point.certificate, evaluations=0),
        point=point,
    )
    grid = [low + (high - low) * 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, DENSITY_GRID))) for low, high in bulks]
    x = np.concatenate(grid) if grid else np.empty(0)
    return replace(result, x=x, density_values=result.density(x) if x.size else x)
