"""A target given by its eigenvalues, one by one."""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from onehead.aim.targets import Target
from onehead.errors import OutsideDomain
from onehead.spectra.law import Law

__all__ = ["Atoms"]

Array = NDArray[np.float64]


class Atoms(Target):
    """S* with exactly these eigenvalues: those of one finite instance, or any list of numbers (7).

    Parameters
    ----------
    eigenvalues : sequence of float
        As they are, zeros included; not normalised. Their number is the dimension d of a training run.

    Examples
    --------
    >>> target = Atoms(eigenvalues=(2.0, 1.0, 0.0, 0.0))
    >>> target.second_moment, target.rank
    (1.25, 0.5)
    """

    eigenvalues: tuple[float, ...] = Field(
        min_length=1, json_schema_extra={"allowed": "a non-empty list of finite numbers"}
    )

    @property
    def _values(self) -> Array:
        return np.asarray(self.eigenvalues)

    @property
    def second_moment(self) -> float:
        """Mean of the squares."""
        return float(np.mean(self._values**2))

    @property
    def rank(self) -> float:
        """Share of eigenvalues above rounding."""
        size = np.abs(self._values)
        return float(np.mean(size > 1e-12 * max(float(size.max()), 1e-300)))

    @property
    def edges(self) -> tuple[float, float]:
        """Smallest and largest eigenvalue above rounding."""
        size = np.abs(self._values)
        kept = self._values[size > 1e-12 * max(float(size.max()), 1e-300)]
        return (float(kept.min()), float(kept.max())) if kept.size else (0.0, 0.0)

    def law(self, s: float) -> Law:
        """The eigenvalues plus a free semicircle."""
        from onehead.spectra.atoms import AtomsSemicircle  # noqa: PLC0415  (loads numba)

        return AtomsSemicircle(self.eigenvalues, s)

    def density(self, x: Array) -> Array:
        """Atoms have none."""
        raise OutsideDomain("a list of eigenvalues has no density; draw their histogram instead.")
