"""What the head is to learn: the spectrum of the target map S*."""

from abc import abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, GetJsonSchemaHandler, ValidationInfo, field_validator, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from onehead.errors import InvalidArgument, OutsideDomain
from onehead.fields import Slider, word, words_of
from onehead.numerics.line import root_between
from onehead.problem import Problem
from onehead.spectra.law import Law, edge_rule
from onehead.text import Bare

__all__ = ["Atoms", "Discrete", "MarchenkoPastur", "PowerLaw", "Product", "Spikes", "Target", "target_of"]

Array = NDArray[np.float64]

ZERO = 1e-12  # of the largest: eigenvalues below are rounding
SIZE = (
    1e-6,
    100.0,
)  # root mean square of eigenvalues: labels are all noise below, hard choices above, long before these
SIZED = f"of root mean square {SIZE[0]:g} to {SIZE[1]:g}"
LARGEST = 20_000  # eigenvalues; the law of a target costs about the square of their number when they are all apart
LONGEST = 100_000  # of a power law, most of whose eigenvalues lie so close together that they are not apart
CUBIC = 24  # Newton steps down from a bound that is at most a few times the root
KAPPA0: Any = word(
    0.5,
    "κ₀",
    "Width of an mp or product target over d; its rank below 1.",
    label="Target width",
    ge=1e-3,
    le=1e3,
    slider=Slider(0.02, 5.0, log=True),
)
NODES = 200  # of a density: integrals of its moments to rounding, also where it is cut off


class Target(Problem):
    """A target spectrum. Everything the theory asks of it is here.

    A target that has a word of its own (``kind``, with a default) is known by it: in documents, flags and sweep files.
    """

    known: ClassVar[dict[str, type["Target"]]] = {}
    symmetric: ClassVar[bool] = True  # whether it can be the map of a tied head

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Remember the word of a target."""
        super().__pydantic_init_subclass__(**kwargs)
        if "kind" in cls.model_fields:
            cls.known[cls.model_fields["kind"].default] = cls

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """A target of any kind is one of those that have a word."""
        if cls is not Target:
            return handler(core)
        return {"oneOf": [handler(kind.__pydantic_core_schema__) for kind in cls.known.values()]}

    @property
    @abstractmethod
    def second_moment(self) -> float:
        """Q0 = Tr S*^2 / d."""

    @property
    @abstractmethod
    def rank(self) -> float:
        """Share of eigenvalues that are not zero."""

    @abstractmethod
    def law(self, s: float) -> Law:
        """rho_s: the target spectrum freely convolved with a semicircle of variance s > 0."""

    @abstractmethod
    def singular_law(self, s: float) -> Law:
        """The same of singular values, each with both signs and half its weight: the law of an untied head (U2, U3)."""

    @abstractmethod
    def density(self, x: Array) -> Array:
        """Density of the non-zero eigenvalues of S* at x; it integrates to `rank`."""

    @property
    @abstractmethod
    def edges(self) -> tuple[float, float]:
        """Smallest and largest non-zero eigenvalue."""

    @property
    def excess_kurtosis(self) -> float:
        """Of the logit between two tokens; the theory takes logits as Gaussian, which a limiting law makes them (1.4)."""
        return 0.0

    @property
    def mean(self) -> float:
        """Tr S*/d."""
        x, mass = _rule(self, *self.edges)
        return float(mass @ x)

    @property
    def apart(self) -> float:
        """1 - Σ w², w the shares of eigenvalues that coincide: the share of pairs that the eigenvectors tell apart (4.5).

        The eigenvalues of a limiting law coincide at zero alone.
        """
        return 1.0 - (1.0 - self.rank) ** 2

    @property
    def unsigned(self) -> "Target":
        """The target as an untied head sees it: singular values for eigenvalues, so that none is negative (U8)."""
        return self

    @property
    def singular_apart(self) -> float:
        """1 - Σ w² over the symmetrised law: singular values that coincide leave a freedom of half as much (A.3)."""
        return self.apart

    def lost(self, share: float) -> tuple[Array, Array]:
        """Places and masses of what no map without negative eigenvalues holds that keeps at most this share of them.

        The best that such a map can do is to keep the largest positive ones (8.1).
        """
        low, high = self.edges
        parts = [_rule(self, low, min(high, 0.0))]
        start = max(low, 0.0)

        def kept(cut: float) -> float:
            return float(_rule(self, cut, high)[1].sum()) - share

        if share < self.rank and high > start and kept(start) > 0.0:
            parts.append(_rule(self, start, root_between(kept, start, high, xtol=1e-14 * high)))
        return np.concatenate([x for x, _ in parts]), np.concatenate([mass for _, mass in parts])


class MarchenkoPastur(Target):
    """S* = W'W / sqrt(m0 d) with W an m0 x d Gaussian matrix and m0 = kappa0 d (1.1).

    Below one, κ₀ leaves a share 1 - κ₀ of zero eigenvalues.

    Examples
    --------
    >>> target = MarchenkoPastur(kappa0=0.5)
    >>> target.second_moment, target.rank
    (1.5, 0.5)
    """

    NATURAL = ("kappa0",)

    kind: Literal["mp"] = Field("mp", repr=False)
    kappa0: float = KAPPA0

    if TYPE_CHECKING:  # what is natural without a name

        def __init__(self, kappa0: float = 0.5) -> None: ...

    @property
    def second_moment(self) -> float:
        """Q0 = 1 + κ₀."""
        return 1.0 + self.kappa0

    @property
    def rank(self) -> float:
        """min(κ₀, 1)."""
        return min(self.kappa0, 1.0)

    @property
    def edges(self) -> tuple[float, float]:
        """(1 ∓ sqrt κ₀)^2 / sqrt κ₀."""
        k = np.sqrt(self.kappa0)
        return float((1.0 - k) ** 2 / k), float((1.0 + k) ** 2 / k)

    def law(self, s: float) -> Law:
        """Marchenko-Pastur plus a semicircle, from its cubic equation."""
        from onehead.spectra.marchenko_pastur import MarchenkoPasturSemicircle  # noqa: PLC0415  (loads numba)

        return MarchenkoPasturSemicircle(self.kappa0, s)

    def singular_law(self, s: float) -> Law:
        """The eigenvalues are the singular values: by subordination."""
        from onehead.spectra.symmetrised import SymmetrisedMarchenkoPastur  # noqa: PLC0415  (loads numba)

        return SymmetrisedMarchenkoPastur(self.kappa0, s)

    def density(self, x: Array) -> Array:
        """sqrt κ₀ sqrt((x+ - x)(x - x-)) / (2 pi x)."""
        low, high = self.edges
        x = np.asarray(x, dtype=float)
        inside = np.clip((high - x) * (x - low), 0.0, None)
        return np.sqrt(self.kappa0 * inside) / (2.0 * np.pi * np.where(x > 0.0, x, 1.0))


class Product(Target):
    """S* = W_Q' W_K / sqrt(m0 d) with two independent m0 x d Gaussian matrices, m0 = κ₀ d: the target of an untied head (U1).

    Whatever κ₀, Q0 = 1. Its rank is min(κ₀, 1); eigenvalues are read as singular values.

    Examples
    --------
    >>> target = Product(kappa0=0.5)
    >>> target.second_moment, target.rank
    (1.0, 0.5)
    """

    symmetric = False

    NATURAL = ("kappa0",)

    kind: Literal["product"] = Field("product", repr=False)
    kappa0: float = KAPPA0

    if TYPE_CHECKING:  # what is natural without a name

        def __init__(self, kappa0: float = 0.5) -> None: ...

    @property
    def second_moment(self) -> float:
        """Q0 = 1."""
        return 1.0

    @property
    def rank(self) -> float:
        """min(κ₀, 1)."""
        return min(self.kappa0, 1.0)

    @property
    def edges(self) -> tuple[float, float]:
        """2 / (sqrt(κ₀ v) (1 + v)) at the roots v > 0 of (1 - v)² = κ₀ v (1 + v); from κ₀ = 1 on the lower one is zero."""
        k = self.kappa0
        root = 2.0 + k + np.sqrt(k * k + 8.0 * k)
        top, bottom = 2.0 / root, 0.5 * root / (1.0 - k) if k < 1.0 else np.inf
        low, high = (2.0 / (np.sqrt(k * v) * (1.0 + v)) for v in (bottom, top))
        return float(low), float(high)

    def law(self, s: float) -> Law:
        """A map without symmetry has singular values alone."""
        raise OutsideDomain("a product target is not symmetric: use attention self or cross.")

    def singular_law(self, s: float) -> Law:
        """In closed form, from its quartic equation (U3)."""
        from onehead.spectra.product import ProductSemicircle  # noqa: PLC0415  (loads numba)

        return ProductSemicircle(self.kappa0, s)

    def density(self, x: Array) -> Array:
        """Of the singular values: the closed forms of `ProductSemicircle` without a blur.

        w = 1/v solves w³ + (1 - κ₀) w² = κ₀ x² (1 + w), and the density is sqrt(κ₀ [κ₀ v (1 + v) - (1 - v)²]) / π.
        """
        x, k = np.asarray(x, dtype=float), self.kappa0
        square = k * x**2
        w = (
            max(k - 1.0, 0.0) + np.sqrt(2.0 * square) + np.cbrt(2.0 * square)
        )  # above the root, where the cubic is convex
        for _ in range(CUBIC):
            slope = (3.0 * w + 2.0 * (1.0 - k)) * w - square
            w = w - ((w + 1.0 - k) * w * w - square * (1.0 + w)) / np.where(slope > 0.0, slope, 1.0)
        v = 1.0 / np.where(w > 0.0, w, np.inf)
        inside = np.clip(k * (k * v * (1.0 + v) - (1.0 - v) ** 2), 0.0, None)
        return np.where(x >= 0.0, np.sqrt(inside) / np.pi, 0.0)


class Discrete(Target):
    """A target given by d eigenvalues, one by one: its dimension is that of a training run (7)."""

    @property
    @abstractmethod
    def values(self) -> Array:
        """The eigenvalues, zeros included, from large to small."""

    @property
    def _kept(self) -> Array:
        size = np.abs(self.values)
        return self.values[size > ZERO * max(float(size.max()), 1e-300)]

    @property
    def second_moment(self) -> float:
        """Mean of the squares."""
        return float(np.mean(self.values**2))

    @property
    def rank(self) -> float:
        """Share of eigenvalues above rounding."""
        return len(self._kept) / len(self.values)

    @property
    def edges(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue above rounding."""
        kept = self._kept
        return (float(kept.min()), float(kept.max())) if kept.size else (0.0, 0.0)

    @property
    def excess_kurtosis(self) -> float:
        """6 Σ λ⁴ / (Σ λ²)²: a few large eigenvalues make single logits far from Gaussian, whatever the dimension."""
        squares = self.values**2
        return float(6.0 * np.sum(squares**2) / np.sum(squares) ** 2)

    @property
    def mean(self) -> float:
        """Mean of the eigenvalues."""
        return float(np.mean(self.values))

    @property
    def atoms(self) -> tuple[Array, Array]:
        """The different eigenvalues above rounding, from large to small, and the share of each."""
        kept = self._kept
        first = np.concatenate([[True], np.diff(kept) < -ZERO * np.abs(kept).max()]) if kept.size else np.empty(0, bool)
        places = np.flatnonzero(first)
        return kept[places], np.diff([*places, kept.size]) / len(self.values)

    @property
    def apart(self) -> float:
        """1 - Σ w² over the different eigenvalues, zero among them."""
        shares = self.atoms[1]
        return float(1.0 - np.sum(shares**2) - (1.0 - self.rank) ** 2)

    @property
    def unsigned(self) -> Target:
        """The absolute values."""
        return self if self.edges[0] >= 0.0 else Atoms(eigenvalues=np.abs(self.values))

    @property
    def singular_apart(self) -> float:
        """Half of each share on either sign, zeros whole."""
        shares = self.atoms[1]
        return float(1.0 - 0.5 * np.sum(shares**2) - (1.0 - self.rank) ** 2)

    def lost(self, share: float) -> tuple[Array, Array]:
        """The negative ones, and the smallest positive ones; the last kept may be lost in part."""
        x, mass = self.atoms
        above = np.cumsum(mass)
        gone = np.where(x > 0.0, np.clip(above - share, 0.0, mass), mass)
        gone[gone < ZERO * mass] = 0.0  # shares are sums: what is below is rounding
        return x[gone > 0.0], gone[gone > 0.0]

    def law(self, s: float) -> Law:
        """The eigenvalues plus a free semicircle."""
        from onehead.spectra.atoms import AtomsSemicircle  # noqa: PLC0415  (loads numba)

        return AtomsSemicircle(self.values, s)

    def singular_law(self, s: float) -> Law:
        """Each with both signs."""
        from onehead.spectra.atoms import AtomsSemicircle  # noqa: PLC0415  (loads numba)

        return AtomsSemicircle(self.values, s, sides=2)

    def density(self, x: Array) -> Array:
        """Atoms have none."""
        raise OutsideDomain("a list of eigenvalues has no density; draw their histogram instead.")


class PowerLaw(Discrete):
    """Eigenvalues C i^-γ, i = 1..d, with C such that Q0 = Tr S*²/d = 1 (1.1).

    Above one half, γ gives the squares a finite sum.

    Examples
    --------
    >>> target = PowerLaw(gamma=0.75, dim=200)
    >>> round(target.second_moment, 12), round(float(target.values[0]), 4)
    (1.0, 8.9964)
    """

    NATURAL = ("gamma", "dim")

    kind: Literal["power-law"] = Field("power-law", repr=False)
    gamma: float = word(
        0.75,
        "γ",
        "Decay of a power-law target: eigenvalue i falls as i^(-γ).",
        label="Power",
        ge=0.0,
        le=10.0,
        slider=Slider(0.3, 3.0, log=True),
    )
    dim: int = word(
        200, "d", "Dimension of a token.", label="Dimension", ge=2, le=LONGEST, slider=Slider(20, 500, 1, log=True)
    )

    if TYPE_CHECKING:  # what is natural without a name

        def __init__(self, gamma: float = 0.75, dim: int = 200) -> None: ...

    @property
    def values(self) -> Array:
        """C i^-γ."""
        return _power_law(self.gamma, self.dim)


def _listed(value: Any, info: ValidationInfo) -> Any:
    """An array, or a column of a table, as a list; a matrix is not a list of its eigenvalues."""
    if not hasattr(value, "__array__") and not (isinstance(value, (list, tuple)) and np.ndim(value[:1]) > 1):
        return value
    found = np.asarray(value)
    if found.ndim != 1:
        allowed = "a list of numbers; numpy.linalg.eigvalsh gives those of a symmetric matrix"
        raise InvalidArgument(str(info.field_name), Bare(f"an array of shape {found.shape}"), allowed)
    return found.tolist()


class Spikes(Discrete):
    """A few given eigenvalues over a bulk; not normalised (5).

    Examples
    --------
    >>> target = Spikes(spikes=(6.0, 3.0), dim=100)
    >>> target.second_moment, target.rank
    (0.45, 0.02)
    """

    NATURAL = ("spikes", "dim")

    kind: Literal["spikes"] = Field("spikes", repr=False)
    spikes: tuple[float, ...] = word(
        ...,
        "",
        "Eigenvalues of a spikes target; all others are zero.",
        min_length=1,
        max_length=LARGEST,
        allowed=f"a list of finite numbers; all d eigenvalues {SIZED}",
    )
    dim: int = word(..., "d", "Dimension of a token.", label="Dimension", ge=2, le=LARGEST)
    bulk: MarchenkoPastur | None = word(
        None, "", "Law of the other eigenvalues, put at its quantiles.", allowed="a MarchenkoPastur target, or nothing"
    )

    if TYPE_CHECKING:  # what is natural without a name

        def __init__(self, spikes: ArrayLike, dim: int, *, bulk: MarchenkoPastur | None = None) -> None: ...

    _from_array = field_validator("spikes", mode="before")(_listed)

    @model_validator(mode="after")
    def _fields_fit(self) -> "Spikes":
        if len(self.spikes) >= self.dim:
            raise InvalidArgument("dim", self.dim, f"an integer > {len(self.spikes)}, the number of spikes")
        if not any(self.spikes) or not _sized(self.values):
            raise InvalidArgument("spikes", self.spikes, words_of(Spikes)["spikes"].allowed)
        return self

    @property
    def values(self) -> Array:
        """Spikes and bulk, from large to small."""
        others = self.dim - len(self.spikes)
        bulk = (0.0,) * others if self.bulk is None else _quantiles(self.bulk.kappa0, others)
        return _sorted((*self.spikes, *bulk))


class Atoms(Discrete):
    """S* with exactly these eigenvalues: those of one finite instance, or any list of numbers (7).

    They are not normalised, and their number is the dimension d of a training run.

    Examples
    --------
    >>> target = Atoms(eigenvalues=(2.0, 1.0, 0.0, 0.0))
    >>> target.second_moment, target.rank
    (1.25, 0.5)
    """

    NATURAL = ("eigenvalues",)

    kind: Literal["atoms"] = Field("atoms", repr=False)
    eigenvalues: tuple[float, ...] = word(
        ...,
        "",
        "Eigenvalues of an atoms target, zeros included.",
        flat="atoms",
        min_length=1,
        max_length=LARGEST,
        allowed=f"a list of 1 to {LARGEST} finite numbers {SIZED}",
    )

    if TYPE_CHECKING:  # what is natural without a name

        def __init__(self, eigenvalues: ArrayLike) -> None: ...

    _from_array = field_validator("eigenvalues", mode="before")(_listed)

    @field_validator("eigenvalues")
    @classmethod
    def _of_a_size(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if not _sized(np.asarray(value)):
            raise ValueError("too small or too large")
        return value

    @property
    def values(self) -> Array:
        """The eigenvalues, from large to small."""
        return _sorted(self.eigenvalues)

    @property
    def dim(self) -> int:
        """d, the number of eigenvalues."""
        return len(self.eigenvalues)


def _sized(values: Array) -> bool:
    """Whether eigenvalues have a size that the theory can tell from none and from infinity."""
    top = max(float(np.abs(values).max()), 1e-300)  # first of all, so that no square overflows
    return SIZE[0] <= top * float(np.sqrt(np.mean((values / top) ** 2))) <= SIZE[1]


def target_of(value: Any) -> Any:
    """The target that a document describes; anything else is returned as it is."""
    if not isinstance(value, Mapping):
        return value
    if value.get("kind") not in Target.known:
        raise InvalidArgument("kind of target", value.get("kind"), f"one of {', '.join(Target.known)}", Target.known)
    return Target.known[value["kind"]].read(value)


def _rule(target: Target, low: float, high: float) -> tuple[Array, Array]:
    """Places and masses of a density between two eigenvalues; none if they are not in order."""
    if high <= low:
        return np.empty(0), np.empty(0)
    place, weight = edge_rule(NODES)
    x = low + (high - low) * place
    return x, target.density(x) * (high - low) * weight


@lru_cache(maxsize=64)
def _sorted(values: tuple[float, ...]) -> Array:
    return _frozen(np.sort(np.asarray(values, dtype=np.float64))[::-1])


@lru_cache(maxsize=64)
def _power_law(gamma: float, dim: int) -> Array:
    values = np.arange(1.0, dim + 1.0) ** -gamma
    return _frozen(values / np.sqrt(np.mean(values**2)))


@lru_cache(maxsize=64)
def _quantiles(kappa0: float, count: int) -> tuple[float, ...]:
    """The (i + 1/2)/count quantiles of the Marchenko-Pastur target, its zeros included."""
    target = MarchenkoPastur(kappa0=kappa0)
    low, high = target.edges
    angle = np.linspace(0.0, np.pi, 4001)
    x = low + (high - low) * 0.5 * (1.0 - np.cos(angle))
    weight = target.density(x) * (high - low) * 0.5 * np.sin(angle)
    below = np.concatenate([[0.0], np.cumsum(0.5 * (weight[1:] + weight[:-1]) * np.diff(angle))])
    below = 1.0 - target.rank + below * target.rank / below[-1]
    level = (np.arange(count) + 0.5) / count
    return tuple(np.where(level < 1.0 - target.rank, 0.0, np.interp(level, below, x)).tolist())


def _frozen(values: Array) -> Array:
    values.setflags(write=False)  # shared by every problem with this target
    return values
