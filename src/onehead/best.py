"""The best possible learner beside another one: what is said of it is the same in both theories."""

from collections.abc import Iterable, Sequence
from math import inf, nan
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.results import Lost, Point, Points, plain

__all__ = ["BAYES", "BESIDE", "GAP", "WithBest", "gap_to", "laid_beside"]

BAYES = "bayes_"  # before the name of a number of the best possible learner
BESIDE = f"{BAYES}test_error"
GAP = {
    BESIDE: "of the best possible learner",
    "gap": "of the test error above it, relative",
    "data_multiple": "samples, over those that the best possible learner needs",
}


def gap_to(best: float, needed: float, *, test_error: float, alpha: float) -> dict[str, float]:
    """How far a test error is from that of the best possible learner, which ``needed`` samples would bring to the same error.

    Examples
    --------
    >>> gap_to(0.1, 0.25, test_error=0.15, alpha=0.5)["data_multiple"]
    2.0
    """
    gap = test_error / best - 1.0 if best > 0.0 else inf
    return {BESIDE: best, "gap": gap, "data_multiple": alpha / needed if needed > 0.0 else inf}


def laid_beside(
    rows: list[dict[str, Any]], best: Iterable[Any], names: Sequence[str] = ("test_error",)
) -> list[dict[str, Any]]:
    """Rows with some numbers of the best possible learner at their sample ratio."""
    known = {one.alpha: one for one in best}
    if not known:
        return rows
    return [row | {f"{BAYES}{name}": plain(getattr(known[row["alpha"]], name, None)) for name in names} for row in rows]


class WithBest(Points[Point, Lost]):
    """Base of a curve with the best possible learner at every point, if asked: its numbers are columns, ``bayes_test_error`` and the like."""

    _BESIDE: ClassVar[tuple[str, ...]] = ("test_error",)

    @property
    def _best(self) -> tuple[Any, ...]:
        """The best possible learner at every point, or nothing."""
        return tuple(getattr(self, "best", None) or ())

    def column(self, name: str) -> NDArray[np.float64]:
        """One quantity along the points; not a number where a point failed, or does not have it."""
        own = name.removeprefix(BAYES)
        if name.startswith(BAYES) and any(hasattr(one, own) for one in self._best):
            return np.array([getattr(one, own, nan) for one in self._best], dtype=float)
        return super().column(name)

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per point."""
        return laid_beside(self._rows(), self._best, self._BESIDE)
