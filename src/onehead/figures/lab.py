"""Where a figure gets its numbers: sweeps into one store, so that nothing is computed twice and Ctrl-C loses nothing."""

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, TypeVar

from onehead.results import plain
from onehead.sweep import Counts, Executor, Inline, Spec, Table
from onehead.sweep.api import solved

__all__ = ["Lab"]

Value = TypeVar("Value")

# columns that change from run to run, or that say nothing beside the others
DULL = frozenset(
    {
        "key", "call", "version", "numerical_version", "finished_at", "duration", "arrays", "seconds", "seconds_std",
        "seconds_err", "repeat", "evaluations", "residual", "quadrature_error", "warnings", "setting", "branch", "seed",
        "optimiser", "tolerance", "max_iterations", "starts", "test_samples", "float32", "gradient_norm", "objective",
        "path", "starts_gap", "train_loss_gap", "stein_gap", "switch_mass", "replicon", "test_loss_std",
    }
)  # fmt: skip


class Lab:
    """Numbers for one figure.

    Parameters
    ----------
    quick : bool
        Small dimensions and few seeds.
    training : bool
        Whether finite-size runs are wanted; otherwise `train` gives nothing.
    store : path, optional
        File that keeps every finished point.
    executor : Executor, optional
        Where points are solved; in this process if not given.
    progress : callable, optional
        Called with the name of a sweep and how far it is, at its start and whenever points are finished.
    checkpoint : path, optional
        Weights for the figure of a real checkpoint.
    """

    def __init__(
        self,
        *,
        quick: bool = True,
        training: bool = True,
        store: str | PathLike[str] | None = None,
        executor: Executor | None = None,
        progress: Callable[[str, Counts], None] | None = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> None:
        self.quick, self.training, self.checkpoint = quick, training, checkpoint
        self._store, self._executor, self._progress = store, executor or Inline(), progress
        self._tables: dict[str, Table] = {}
        self._asked: dict[str, dict[str, Any]] = {}
        self._rows: list[dict[str, Any]] = []

    def pick(self, quick: Value, full: Value) -> Value:
        """The first when quick, else the second."""
        return quick if self.quick else full

    def measured(self, quick: Value, full: Value) -> Value:
        """The same for sizes of instances that theory needs as well: the second only when finite-size runs are wanted."""
        return full if self.training and not self.quick else quick

    def theory(
        self,
        name: str,
        call: str,
        axes: Mapping[Any, Any],
        fixed: Mapping[str, Any] | None = None,
        *,
        data: bool = True,
    ) -> Table:
        """A sweep of predictions; ``name`` marks its rows in the data of the figure, ``data`` keeps them there."""
        return self._sweep(name, call, axes, fixed or {}, None, data)

    def train(
        self,
        name: str,
        call: str,
        axes: Mapping[Any, Any],
        fixed: Mapping[str, Any] | None = None,
        *,
        seeds: int | None = None,
        data: bool = True,
    ) -> Table | None:
        """A sweep of finite-size runs, or nothing when theory alone is wanted."""
        return self._sweep(name, call, axes, fixed or {}, seeds, data) if self.training else None

    def _sweep(
        self, name: str, call: str, axes: Mapping[Any, Any], fixed: Mapping[str, Any], seeds: int | None, data: bool
    ) -> Table:
        def tell(counts: Counts) -> None:
            if self._progress is not None:
                self._progress(name, counts)

        spec = Spec(call=call, axes=axes, fixed=fixed, seeds=seeds, own=True)
        with solved(spec, self._store, on=self._executor, progress=tell) as (store, number):
            table = store.table(number)
        self._tables[name] = table
        self._asked[name] = {
            "call": call,
            "fixed": plain({key: value for key, value in fixed.items() if key != "path"}),
            "axes": {",".join(key) if isinstance(key, tuple) else key: plain(_listed(v)) for key, v in axes.items()},
            "seeds": seeds,
            "points": len(table),
            "failed": [row["reason"] for row in table.failed],
        }
        if data:
            self._rows += [{"series": name, **_tidy(row)} for row in table]
        return table

    def add(self, name: str, **columns: Iterable[Any]) -> None:
        """Columns of equal length for the data of the figure: what is drawn but is no row of a sweep."""
        keys = list(columns)
        self._rows += [
            {"series": name, **dict(zip(keys, values, strict=True))} for values in zip(*columns.values(), strict=True)
        ]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Everything that is drawn, one row per point."""
        return self._rows

    @property
    def failures(self) -> tuple[str, ...]:
        """Reasons of all points without an answer."""
        return tuple(reason for asked in self._asked.values() for reason in asked["failed"])

    @property
    def asked(self) -> dict[str, dict[str, Any]]:
        """The sweeps, their parameters and their failures."""
        return self._asked


def _listed(values: Any) -> Any:
    return list(values) if isinstance(values, (list, tuple)) else values


def _tidy(row: dict[str, Any]) -> dict[str, Any]:
    """Parameters and results of a row as plain scalars, without what changes from run to run."""
    return {
        key: value
        for key, value in row.items()
        if key not in DULL and value is not None and isinstance(value, (bool, int, float, str))
    }
