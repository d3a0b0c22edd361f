"""Targets given by d eigenvalues: power laws, spikes over a bulk, and any list of numbers."""

from abc import abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, ValidationInfo, field_validator, model_validator

from onehead.aim.targets.base import Array, Target
from onehead.aim.targets.limiting import MarchenkoPastur
from onehead.aim.targets.sampling import map_with_eigenvalues, map_with_singular_values
from onehead.errors import InvalidArgument, OutsideDomain
from onehead.fields import Slider, parameter, parameters_of
from onehead.sanitize import Unquoted
from onehead.spectra.law import Law

RELATIVE_ROUNDING = 1e-12  # eigenvalues below this share of the largest count as zero, differences as none
RMS_RANGE = (1e-6, 100.0)  # root mean square of eigenvalues: labels are pure noise below and hard choices above
RMS_ALLOWED = f"of root mean square {RMS_RANGE[0]:g} to {RMS_RANGE[1]:g}"
MAX_EIGENVALUES = 20_000  # of a list: the cost of its law grows as the square of the number of distinct eigenvalues
MAX_POWER_LAW_DIM = 100_000  # of a power law, most of whose eigenvalues are too close together to count as distinct
QUANTILE_GRID = 4001  # points of the distribution function that quantiles of a bulk are interpolated on


class Discrete(Target):
    """Base of targets given by d eigenvalues; d is also the dimension of a training run (7)."""

    @property
    @abstractmethod
    def values(self) -> Array:
        """All d eigenvalues, zeros included, in decreasing order."""

    def draw(self, dim: int, rng: np.random.Generator, *, tied: bool) -> Array:
        """Sample a map with these eigenvalues in a uniformly random basis; of an untied head they are singular values
        with independent left and right bases (1.1, U1).
        """
        if len(self.values) != dim:
            raise InvalidArgument("dim", dim, f"{len(self.values)}, the number of eigenvalues of the target")
        return map_with_eigenvalues(self.values, rng) if tied else map_with_singular_values(self.values, rng)

    @property
    def _nonzero(self) -> Array:
        """Eigenvalues above rounding, in decreasing order."""
        size = np.abs(self.values)
        return self.values[size > RELATIVE_ROUNDING * max(float(size.max()), 1e-300)]

    @property
    def second_moment(self) -> float:
        """Mean squared eigenvalue, Q0."""
        return float(np.mean(self.values**2))

    @property
    def rank(self) -> float:
        """Share of eigenvalues above rounding."""
        return len(self._nonzero) / len(self.values)

    @property
    def edges(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue above rounding."""
        nonzero = self._nonzero
        return (float(nonzero.min()), float(nonzero.max())) if nonzero.size else (0.0, 0.0)

    @property
    def excess_kurtosis(self) -> float:
        """Excess kurtosis 6 Σ λ⁴ / (Σ λ²)² of a logit: large where a few eigenvalues dominate, at any dimension."""
        squares = self.values**2
        return float(6.0 * np.sum(squares**2) / np.sum(squares) ** 2)

    @property
    def mean(self) -> float:
        """Mean of the eigenvalues."""
        return float(np.mean(self.values))

    @property
    def atoms(self) -> tuple[Array, Array]:
        """Distinct eigenvalues above rounding, in decreasing order, and the share of each."""
        nonzero = self._nonzero
        first = np.empty(0, bool)
        if nonzero.size:
            first = np.concatenate([[True], np.diff(nonzero) < -RELATIVE_ROUNDING * np.abs(nonzero).max()])
        starts = np.flatnonzero(first)
        return nonzero[starts], np.diff([*starts, nonzero.size]) / len(self.values)

    @property
    def free_eigenvector_share(self) -> float:
        """Share 1 - Σ w² over the distinct eigenvalues, zero included (4.5)."""
        shares = self.atoms[1]
        return float(1.0 - np.sum(shares**2) - (1.0 - self.rank) ** 2)

    @property
    def unsigned(self) -> Target:
        """Target with the absolute values of the eigenvalues."""
        return self if self.edges[0] >= 0.0 else Atoms(eigenvalues=np.abs(self.values))

    @property
    def free_singular_vector_share(self) -> float:
        """Share 1 - Σ w² over the symmetrised law: half of each share on either sign, zeros undivided (A.3)."""
        shares = self.atoms[1]
        return float(1.0 - 0.5 * np.sum(shares**2) - (1.0 - self.rank) ** 2)

    def unrepresentable_spectrum(self, share: float) -> tuple[Array, Array]:
        """Negative and the smallest positive eigenvalues, with their masses; one may be cut in part (8.1)."""
        x, mass = self.atoms
        above = np.cumsum(mass)
        cut = np.where(x > 0.0, np.clip(above - share, 0.0, mass), mass)
        cut[cut < RELATIVE_ROUNDING * mass] = 0.0  # shares are sums, with rounding errors
        return x[cut > 0.0], cut[cut > 0.0]

    def law(self, s: float) -> Law:
        """Law of the eigenvalues plus a free semicircle."""
        from onehead.spectra.atoms import AtomsSemicircle  # loads numba

        return AtomsSemicircle(self.values, s)

    def singular_law(self, s: float) -> Law:
        """Law of the singular values, each with both signs, plus a free semicircle."""
        from onehead.spectra.atoms import AtomsSemicircle  # loads numba

        return AtomsSemicircle(self.values, s, sides=2)

    def density(self, x: Array) -> Array:
        """Raise `OutsideDomain`: a list of eigenvalues has no density."""
        raise OutsideDomain("a list of eigenvalues has no density; draw their histogram instead.")


class PowerLaw(Discrete):
    """Target with eigenvalues C i^-γ, i = 1..d, with C such that Q0 = Tr S*²/d = 1 (1.1).

    The sum of their squares converges as d grows for γ > 1/2.

    Examples
    --------
    >>> target = PowerLaw(gamma=0.75, dim=200)
    >>> round(target.second_moment, 12), round(float(target.values[0]), 4)
    (1.0, 8.9964)
    """

    POSITIONAL = ("gamma", "dim")

    kind: Literal["power-law"] = Field("power-law", repr=False)
    gamma: float = parameter(
        0.75,
        "γ",
        "Exponent of a power-law target: eigenvalue i is proportional to i^(-γ).",
        label="Power",
        ge=0.0,
        le=10.0,
        slider=Slider(0.3, 3.0, log=True),
    )
    dim: int = parameter(
        200,
        "d",
        "Dimension of a token.",
        label="Dimension",
        ge=2,
        le=MAX_POWER_LAW_DIM,
        slider=Slider(20, 500, 1, log=True),
    )

    if TYPE_CHECKING:  # positional arguments

        def __init__(self, gamma: float = 0.75, dim: int = 200) -> None: ...

    @property
    def values(self) -> Array:
        """Eigenvalues C i^-γ in decreasing order."""
        return _power_law(self.gamma, self.dim)


def _listed(value: Any, info: ValidationInfo) -> Any:
    """Convert an array, or a column of a table, to a list; refuse a matrix."""
    if not hasattr(value, "__array__") and not (isinstance(value, (list, tuple)) and np.ndim(value[:1]) > 1):
        return value
    array = np.asarray(value)
    if array.ndim != 1:
        allowed = "a list of numbers; numpy.linalg.eigvalsh gives those of a symmetric matrix"
        raise InvalidArgument(str(info.field_name), Unquoted(f"an array of shape {array.shape}"), allowed)
    return array.tolist()


class Spikes(Discrete):
    """Target with a few given eigenvalues over a bulk of others; not normalised (5).

    Examples
    --------
    >>> target = Spikes(spikes=(6.0, 3.0), dim=100)
    >>> target.second_moment, target.rank
    (0.45, 0.02)
    """

    POSITIONAL = ("spikes", "dim")

    kind: Literal["spikes"] = Field("spikes", repr=False)
    spikes: tuple[float, ...] = parameter(
        ...,
        "",
        "Eigenvalues of a spikes target; all others are zero.",
        min_length=1,
        max_length=MAX_EIGENVALUES,
        allowed=f"a list of finite numbers; all d eigenvalues {RMS_ALLOWED}",
    )
    dim: int = parameter(..., "d", "Dimension of a token.", label="Dimension", ge=2, le=MAX_EIGENVALUES)
    bulk: MarchenkoPastur | None = parameter(
        None,
        "",
        "Law of the other eigenvalues, which are placed at its quantiles; zero without it.",
        allowed="a MarchenkoPastur target, or nothing",
    )

    if TYPE_CHECKING:  # positional arguments

        def __init__(self, spikes: ArrayLike, dim: int, *, bulk: MarchenkoPastur | None = None) -> None: ...

    _from_array = field_validator("spikes", mode="before")(_listed)

    @model_validator(mode="after")
    def _check_combination(self) -> "Spikes":
        if len(self.spikes) >= self.dim:
            raise InvalidArgument("dim", self.dim, f"an integer > {len(self.spikes)}, the number of spikes")
        if not any(self.spikes) or not _rms_in_range(self.values):
            raise InvalidArgument("spikes", self.spikes, parameters_of(Spikes)["spikes"].allowed)
        return self

    @property
    def values(self) -> Array:
        """Spikes and bulk, in decreasing order."""
        others = self.dim - len(self.spikes)
        bulk = (0.0,) * others if self.bulk is None else _quantiles(self.bulk.kappa0, others)
        return _sorted((*self.spikes, *bulk))


class Atoms(Discrete):
    """Target with exactly these eigenvalues: those of one finite instance, or any list of numbers (7).

    They are not normalised; their number is the dimension d of a training run.

    Examples
    --------
    >>> target = Atoms(eigenvalues=(2.0, 1.0, 0.0, 0.0))
    >>> target.second_moment, target.rank
    (1.25, 0.5)
    """

    POSITIONAL = ("eigenvalues",)

    kind: Literal["atoms"] = Field("atoms", repr=False)
    eigenvalues: tuple[float, ...] = parameter(
        ...,
        "",
        "Eigenvalues of an atoms target, zeros included.",
        flat="atoms",
        min_length=1,
        max_length=MAX_EIGENVALUES,
        allowed=f"a list of 1 to {MAX_EIGENVALUES} finite numbers {RMS_ALLOWED}",
    )

    if TYPE_CHECKING:  # positional arguments

        def __init__(self, eigenvalues: ArrayLike) -> None: ...

    _from_array = field_validator("eigenvalues", mode="before")(_listed)

    @field_validator("eigenvalues")
    @classmethod
    def _check_size(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not _rms_in_range(np.asarray(value)):
            raise ValueError("too small or too large")
        return value

    @property
    def values(self) -> Array:
        """All eigenvalues, in decreasing order."""
        return _sorted(self.eigenvalues)

    @property
    def dim(self) -> int:
        """Dimension d, the number of eigenvalues."""
        return len(self.eigenvalues)


def _rms_in_range(values: Array) -> bool:
    """Whether the root mean square of eigenvalues lies in `RMS_RANGE`."""
    top = max(float(np.abs(values).max()), 1e-300)  # divided out first, so that no square overflows
    return RMS_RANGE[0] <= top * float(np.sqrt(np.mean((values / top) ** 2))) <= RMS_RANGE[1]


@lru_cache(maxsize=64)
def _sorted(values: tuple[float, ...]) -> Array:
    """Values in decreasing order, as a read-only array."""
    return _read_only(np.sort(np.asarray(values, dtype=np.float64))[::-1])


@lru_cache(maxsize=64)
def _power_law(gamma: float, dim: int) -> Array:
    """Eigenvalues C i^-γ with mean square 1, as a read-only array."""
    values = np.arange(1.0, dim + 1.0) ** -gamma
    return _read_only(values / np.sqrt(np.mean(values**2)))


@lru_cache(maxsize=64)
def _quantiles(kappa0: float, count: int) -> tuple[float, ...]:
    """Quantiles (i + 1/2)/count of the Marchenko-Pastur target, its zeros included."""
    target = MarchenkoPastur(kappa0=kappa0)
    low, high = target.edges
    angle = np.linspace(0.0, np.pi, QUANTILE_GRID)
    x = low + (high - low) * 0.5 * (1.0 - np.cos(angle))
    weight = target.density(x) * (high - low) * 0.5 * np.sin(angle)
    below = np.concatenate([[0.0], np.cumsum(0.5 * (weight[1:] + weight[:-1]) * np.diff(angle))])
    below = 1.0 - target.rank + below * target.rank / below[-1]
    level = (np.arange(count) + 0.5) / count
    return tuple(np.where(level < 1.0 - target.rank, 0.0, np.interp(level, below, x)).tolist())


def _read_only(values: Array) -> Array:
    """Make an array read-only: all problems with this target share it."""
    values.setflags(write=False)
    return values
