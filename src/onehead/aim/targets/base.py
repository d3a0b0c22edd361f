"""The abstract class of a target spectrum, and reading a target from a document."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from onehead.deprecation import warn_renamed
from onehead.errors import InvalidArgument
from onehead.numerics.brent import brent_root
from onehead.problem import Problem
from onehead.spectra.law import Law, edge_rule

Array = NDArray[np.float64]

DENSITY_NODES = 200  # quadrature nodes of a density: moments are exact to rounding, also of a truncated density
# methods of targets of 2.x that a subclass may define, which work until 4.0
RENAMED_METHODS = {"apart": "free_eigenvector_share", "lost": "unrepresentable_spectrum"}


class Target(Problem):
    """Spectrum of a target map S*, with the moments and laws that the theory needs; base of all targets.

    A subclass with a field ``kind`` that has a default is registered under it: documents, flags and sweep files use
    that name.

    Attributes
    ----------
    second_moment, mean : float
        Q0 = Tr S*²/d and Tr S*/d.
    rank : float
        Share of eigenvalues that are not zero.
    edges : tuple of float
        Smallest and largest non-zero eigenvalue.

    Examples
    --------
    >>> from onehead.aim import PowerLaw, Target
    >>> isinstance(PowerLaw(), Target), sorted(Target.known)
    (True, ['atoms', 'mp', 'power-law', 'product', 'spikes'])
    """

    known: ClassVar[dict[str, type["Target"]]] = {}  # concrete targets by their kind
    symmetric: ClassVar[bool] = True  # whether it can be the map of a tied head

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Register the target under its kind; methods with names of 2.x become those of 3.0."""
        super().__pydantic_init_subclass__(**kwargs)
        for old, new in RENAMED_METHODS.items():
            if old in cls.__dict__ and new not in cls.__dict__:
                warn_renamed(f"Target.{old}", f"Target.{new}")
                setattr(cls, new, cls.__dict__[old])
        if "kind" in cls.model_fields:
            cls.known[cls.model_fields["kind"].default] = cls

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Schema of a target of any kind: one of the registered ones."""
        if cls is not Target:
            return handler(core)
        return {"oneOf": [handler(kind.__pydantic_core_schema__) for kind in cls.known.values()]}

    @property
    @abstractmethod
    def second_moment(self) -> float:
        """Mean squared eigenvalue, Q0 = Tr S*^2 / d."""

    @property
    @abstractmethod
    def rank(self) -> float:
        """Share of eigenvalues that are not zero."""

    @abstractmethod
    def law(self, s: float) -> Law:
        """Free convolution ρ_s of the target spectrum with a semicircle of variance s > 0."""

    @abstractmethod
    def singular_law(self, s: float) -> Law:
        """Law of blurred singular values, each with both signs and half its weight, for untied heads (U2, U3)."""

    @abstractmethod
    def density(self, x: Array) -> Array:
        """Density of the non-zero eigenvalues of S* at x; it integrates to `rank`."""

    @property
    @abstractmethod
    def edges(self) -> tuple[float, float]:
        """Smallest and largest non-zero eigenvalue."""

    @property
    def values(self) -> Array | None:
        """All d eigenvalues, zeros included, in decreasing order; None for a limiting law, which has no dimension."""
        return None

    @property
    def dimension(self) -> int | None:
        """Number of eigenvalues, which is the dimension d; None for a limiting law."""
        return None if self.values is None else len(self.values)

    @property
    def atoms(self) -> tuple[Array, Array] | None:
        """Distinct eigenvalues that are not zero, and the share of each; None for a limiting law."""
        return None

    @property
    def excess_kurtosis(self) -> float:
        """Excess kurtosis of the logit between two tokens; zero for a limiting law, whose logits are Gaussian (1.4)."""
        return 0.0

    @property
    def mean(self) -> float:
        """Mean eigenvalue, Tr S*/d."""
        x, mass = _density_rule(self, *self.edges)
        return float(mass @ x)

    @property
    def free_eigenvector_share(self) -> float:
        """Share 1 - Σ w² of pairs of distinguishable eigenvectors, w the shares of equal eigenvalues (4.5).

        The eigenvalues of a limiting law coincide at zero only.
        """
        return 1.0 - (1.0 - self.rank) ** 2

    @property
    def unsigned(self) -> "Target":
        """Target of an untied head with the same singular values: the absolute eigenvalues (U8)."""
        return self

    def draw(self, dim: int, rng: np.random.Generator, *, tied: bool) -> Array:
        """Sample a map with this spectrum: symmetric, or for an untied head without symmetry (1.1, U1)."""
        raise InvalidArgument("target", type(self).__name__, "one that can be sampled: it has no method draw")

    def at_dimension(self, dim: int) -> "Target":
        """Target with the parameters that a map of this dimension has exactly, such as a rank that is an integer."""
        return self

    def within_subspace(self, share: float) -> "Target | None":
        """Target of the same map on the subspace of a ``share`` of the dimensions that it acts on (D8.2); None where it
        is not known.
        """
        return None

    @property
    def free_singular_vector_share(self) -> float:
        """Share 1 - Σ w² of pairs of distinguishable singular vectors, over the symmetrised law (A.3)."""
        return self.free_eigenvector_share

    def unrepresentable_spectrum(self, share: float) -> tuple[Array, Array]:
        """Eigenvalues, and their masses, that a positive semidefinite map of rank at most ``share`` d cannot represent.

        The best such map keeps the largest positive eigenvalues (8.1).
        """
        low, high = self.edges
        parts = [_density_rule(self, low, min(high, 0.0))]
        start = max(low, 0.0)

        def excess_rank(cut: float) -> float:
            return float(_density_rule(self, cut, high)[1].sum()) - share

        if share < self.rank and high > start and excess_rank(start) > 0.0:
            parts.append(_density_rule(self, start, brent_root(excess_rank, start, high, xtol=1e-14 * high)))
        return np.concatenate([x for x, _ in parts]), np.concatenate([mass for _, mass in parts])


def target_from_document(value: Any) -> Any:
    """Return the target that a mapping describes; any other value is returned unchanged."""
    if not isinstance(value, Mapping):
        return value
    if value.get("kind") not in Target.known:
        raise InvalidArgument("kind of target", value.get("kind"), f"one of {', '.join(Target.known)}", Target.known)
    return Target.known[value["kind"]].read(value)


def _density_rule(target: Target, low: float, high: float) -> tuple[Array, Array]:
    """Nodes and masses of a target's density between two eigenvalues; empty unless low < high."""
    if high <= low:
        return np.empty(0), np.empty(0)
    node, weight = edge_rule(DENSITY_NODES)
    x = low + (high - low) * node
    return x, target.density(x) * (high - low) * weight
