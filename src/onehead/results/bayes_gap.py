"""Comparison with the Bayes-optimal learner, for both theories: gaps in error and samples, columns of curves."""

from collections.abc import Iterable, Sequence
from math import inf, nan
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onehead.results import Failed, Point, Points, plain

BAYES_PREFIX = "bayes_"  # of the names of numbers of the best possible learner
BAYES_TEST_ERROR = f"{BAYES_PREFIX}test_error"
GAP_MEANINGS = {
    BAYES_TEST_ERROR: "test error of the best possible learner",
    "gap": "excess of the test error over it, relative",
    "data_multiple": "samples, over those the best possible learner needs",
}


def gap_to_bayes(best: float, needed: float, *, test_error: float, alpha: float) -> dict[str, float]:
    """Compare a test error with the error ``best`` of the best possible learner at the same sample ratio.

    ``needed`` is the sample ratio at which the best possible learner reaches this test error.

    Examples
    --------
    >>> gap_to_bayes(0.1, 0.25, test_error=0.15, alpha=0.5)["data_multiple"]
    2.0
    """
    gap = test_error / best - 1.0 if best > 0.0 else inf
    return {BAYES_TEST_ERROR: best, "gap": gap, "data_multiple": alpha / needed if needed > 0.0 else inf}


def add_bayes_columns(
    rows: list[dict[str, Any]], best: Iterable[Any], names: Sequence[str] = ("test_error",)
) -> list[dict[str, Any]]:
    """Return the rows with some numbers of the best possible learner at the same sample ratio as further columns."""
    by_alpha = {point.alpha: point for point in best}
    if not by_alpha:
        return rows
    return [
        row | {f"{BAYES_PREFIX}{name}": plain(getattr(by_alpha[row["alpha"]], name, None)) for name in names}
        for row in rows
    ]


class CurveWithBayes(Points[Point, Failed]):
    """Base class of curves with optional columns of the best possible learner, such as ``bayes_test_error``."""

    _BAYES_COLUMNS: ClassVar[tuple[str, ...]] = ("test_error",)  # numbers of the best possible learner in the rows

    @property
    def _best(self) -> tuple[Any, ...]:
        """Results of the best possible learner, one per point; empty if they were not asked for."""
        return tuple(getattr(self, "best", None) or ())

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one quantity along the points; nan where a point failed or does not have it."""
        quantity = name.removeprefix(BAYES_PREFIX)
        if name.startswith(BAYES_PREFIX) and any(hasattr(point, quantity) for point in self._best):
            return np.array([getattr(point, quantity, nan) for point in self._best], dtype=float)
        return super().column(name)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one dict per point."""
        return add_bayes_columns(self._rows(), self._best, self._BAYES_COLUMNS)
