"""The law of the trained query-key map: bulk, atom at zero, edges, moments, samples (5, U3)."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.aim.targets import Discrete
from onehead.aim.verbs.outliers import Outlier, outliers_of
from onehead.aim.verbs.predict import Prediction
from onehead.arguments import checked, generator, instance, whole
from onehead.results import Certificate, Result
from onehead.spectra.law import Law

__all__ = ["SingularSpectrum", "Spectrum", "spectrum"]

Array = NDArray[np.float64]

GRID = 400  # points per bulk of the tabulated density
ROUNDING = (
    1e-13  # of the support: so close to an edge a density is the root of rounding, or nothing, as the machine likes
)
CDF_NODES = 4000
OUTLIER_NODES = 65  # an outlier is almost a semicircle


@dataclass(frozen=True, kw_only=True, repr=False)
class Spectrum(Result):
    """Eigenvalues of the trained map S: an atom at zero and a density, in units of S.

    Eigenvalues are slope (x - threshold) with x from the blurred target law, above the cut, and zero below it.
    ``edges`` lists one interval per bulk, cut at zero; ``x`` and ``density`` tabulate the density there. ``outliers`` are
    the learned features of a target with a dimension d, each of mass 1/d. A map that is the target itself has its law; that of
    a list of eigenvalues has no density, but ``levels``: the different values, each with its share.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("intervals",)
    MEANINGS: ClassVar[dict[str, str]] = {
        "zero_mass": "share of eigenvalues that are exactly zero",
        "rank": "share that are not",
        "edges": "one interval per bulk",
        "outliers": "eigenvalues outside the bulks",
        "levels": "values that eigenvalues have exactly, zero apart, and their shares",
        "mean": "Tr S/d",
        "second_moment": "Tr S²/d",
    }

    zero_mass: float
    rank: float
    edges: tuple[tuple[float, float], ...]
    outliers: tuple[Outlier, ...]
    levels: tuple[tuple[float, float], ...]
    intervals: tuple[tuple[float, float], ...]  # bulks and outliers
    x: Array
    density_values: Array
    mean: float
    second_moment: float
    certificate: Certificate
    point: Prediction

    def to_dict(self) -> dict[str, Any]:
        """Plain values; the tabulated density is called ``density``."""
        row = super().to_dict()
        row["density"] = row.pop("density_values")
        row["point"] = self.point.to_dict()
        return row

    def __repr__(self) -> str:
        bulks = ", ".join(f"[{low:.4g}, {high:.4g}]" for low, high in self.edges)
        levels = f", levels={len(self.levels)}" if self.levels else ""
        return f"{type(self).__name__}(zero_mass={self.zero_mass:.4f}, edges=({bulks}), outliers={len(self.outliers)}{levels})"

    def density(self, x: Array) -> Array:
        """Density of the non-zero eigenvalues at x: rho_s(x / slope + threshold) / slope, twice that untied; atoms have none."""
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
        """Share of eigenvalues up to x, the atom at zero included."""
        x = np.atleast_1d(np.asarray(x, dtype=float))
        grid, below = self._table
        share = np.interp(x, grid, below, left=0.0, right=below[-1]) if grid.size else np.zeros(x.shape)
        for place, mass in (*self.levels, (0.0, self.zero_mass)):
            share = share + np.where(x >= place, mass, 0.0)
        return np.asarray(share)

    def sample(self, rng: np.random.Generator | int, size: int) -> Array:
        """Draw eigenvalues from the limiting law, independently; ``rng`` is a generator or a seed."""
        whole(1)("size", size)
        u = generator("rng", rng).random(size)
        grid, below = self._table
        values = np.zeros(size)
        positive = u < self.rank
        if grid.size:
            values[positive] = np.interp(u[positive] * below[-1] / self.rank, below, grid)
        elif self.levels:
            places, masses = np.array(self.levels).T
            values[positive] = places[np.searchsorted(np.cumsum(masses)[:-1], u[positive], side="right")]
        return values

    @cached_property
    def _law(self) -> Law | None:
        """rho_s of the target, in the learner's units of x; none where the target is recovered exactly."""
        point = self.point
        return point.channel.law(point.spread) if point.spread > 0.0 else None

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        """Eigenvalues and the mass of the continuous part below each, by the trapezoidal rule in an angle."""
        grids, masses, total = [], [], 0.0
        for low, high in self.intervals:
            angle = np.linspace(0.0, np.pi, CDF_NODES if (low, high) in self.edges else OUTLIER_NODES)
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

    They are slope (x - threshold) with x > 0 from the law of the target's singular values, blurred and with both signs, above the
    cut, and zero below it (U3). Nothing else differs.
    """

    MEANINGS: ClassVar[dict[str, str]] = {
        "zero_mass": "share of singular values that are exactly zero",
        "rank": "share that are not",
        "edges": "one interval per bulk",
        "outliers": "singular values outside the bulks",
        "levels": "values that singular values have exactly, zero apart, and their shares",
        "mean": "mean singular value",
        "second_moment": "Tr S'S/d",
    }


def _at_an_edge(law: Law, x: Array) -> NDArray[np.bool_]:
    """Whether points lie at an end of a bulk, where its density ends."""
    ends = np.ravel(law.edges)
    near = np.abs(np.subtract.outer(x, ends)) <= ROUNDING * (ends[-1] - ends[0])
    return np.asarray(near.any(axis=-1))


def _cut(point: Prediction, law: Law) -> float:
    """Where the law of x begins to be learned; singular values are those of x > 0."""
    return point.cut if law.sides == 1 else max(point.cut, 0.0)


@checked(point=instance(Prediction, "the answer of predict"))
def spectrum(point: Prediction) -> Spectrum:
    """Law of the eigenvalues of the trained map, or of its singular values if the head is untied, from a prediction.

    Examples
    --------
    >>> from onehead.aim import Learner, Task, predict, spectrum
    >>> law = spectrum(predict(Task(), Learner(), alpha=0.5))
    >>> round(law.zero_mass, 3), len(law.edges), round(law.second_moment, 2)
    (0.356, 1, 1.46)
    """
    outliers = outliers_of(point)
    intervals: tuple[tuple[float, float], ...] = ()
    levels: tuple[tuple[float, float], ...] = ()
    mean = second = 0.0
    if point.rank > 0.0 and point.spread <= 0.0:  # the target itself
        target, scale = point.equations.input.target, point.task.beta0 / point.learner.beta
        mean, second = scale * target.mean, point.q
        if isinstance(target, Discrete):
            places, shares = target.atoms
            levels = tuple(zip((scale * places[::-1]).tolist(), shares[::-1].tolist(), strict=True))
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
        moved = ((point.slope * (low - point.threshold), point.slope * (high - point.threshold)) for low, high in ends)
        intervals = tuple((low, high) for low, high in moved if high > low)
    apart = tuple(outlier.position for outlier in outliers)
    bulks = tuple((low, high) for low, high in intervals if not any(low <= x <= high for x in apart))
    kind = Spectrum if point.task.tied else SingularSpectrum
    result = kind(
        zero_mass=1.0 - point.rank,
        rank=point.rank,
        edges=bulks,
        outliers=outliers,
        levels=levels,
        intervals=intervals,
        x=np.empty(0),
        density_values=np.empty(0),
        mean=mean,
        second_moment=second,
        certificate=Certificate.of(point.certificate, evaluations=0),
        point=point,
    )
    grid = [low + (high - low) * 0.5 * (1.0 - np.cos(np.linspace(0.0, np.pi, GRID))) for low, high in bulks]
    x = np.concatenate(grid) if grid else np.empty(0)
    return replace(result, x=x, density_values=result.density(x) if x.size else x)
