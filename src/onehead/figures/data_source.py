"""Source of the numbers of a figure: sweeps into one store, so that no point is computed twice or lost by Ctrl-C."""

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, TypeVar

from onehead.errors import InvalidArgument
from onehead.results import plain
from onehead.sweep import Counts, Executor, Inline, Spec, Table
from onehead.sweep.api import solved_sweep
from onehead.sweep.registry import call_named

Value = TypeVar("Value")

# columns that change from run to run, or that carry no information for a figure
OMITTED_COLUMNS = frozenset(
    {
        "key", "call", "version", "numerical_version", "finished_at", "duration", "arrays", "seconds", "seconds_std",
        "seconds_err", "repeat", "evaluations", "residual", "quadrature_error", "warnings", "setting", "branch", "seed",
        "optimiser", "tolerance", "max_iterations", "starts", "test_samples", "float32", "gradient_norm", "objective",
        "path", "starts_gap", "train_loss_gap", "stein_gap", "switch_mass", "replicon", "test_loss_std",
    }
)  # fmt: skip


class DataSource:
    """Source of the numbers of one figure.

    Parameters
    ----------
    quick : bool
        Whether to use small dimensions and few seeds.
    training : bool
        Whether to make finite-size runs; otherwise `train` returns None.
    store : path, optional
        File that keeps every finished point.
    executor : Executor, optional
        Executor that solves the points; by default in this process.
    progress : callable, optional
        Called with the name of a sweep and its counts, at its start and whenever points are finished.
    checkpoint : path, optional
        Weights for the figure of a real checkpoint.
    changes : mapping, optional
        Values of parameters that replace those of the figure, in every sweep that has the parameter.
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
        changes: Mapping[str, Any] | None = None,
    ) -> None:
        self.changes = dict(changes or {})
        self.unused_changes = set(self.changes)
        self.quick, self.training, self.checkpoint = quick, training, checkpoint
        self._store, self._executor, self._progress = store, executor or Inline(), progress
        self._sweeps: dict[str, dict[str, Any]] = {}
        self._rows: list[dict[str, Any]] = []

    def pick(self, quick: Value, full: Value) -> Value:
        """Return the first value for a quick figure, otherwise the second."""
        return quick if self.quick else full

    def pick_instance(self, quick: Value, full: Value) -> Value:
        """Return the size of instances that theory needs too: the second only for a full figure with training."""
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
        """Run a sweep of predictions and return its table.

        ``data`` adds the rows to the data of the figure as ``name``.
        """
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
        """Run a sweep of finite-size runs and return its table, or None if the figure is made without training."""
        return self._sweep(name, call, axes, fixed or {}, seeds, data) if self.training else None

    def _sweep(
        self, name: str, call: str, axes: Mapping[Any, Any], fixed: Mapping[str, Any], seeds: int | None, data: bool
    ) -> Table:
        def report(counts: Counts) -> None:
            if self._progress is not None:
                self._progress(name, counts)

        fixed = self._changed(call, axes, fixed)
        spec = Spec(call=call, axes=axes, fixed=fixed, seeds=seeds, own=True)
        with solved_sweep(spec, self._store, on=self._executor, progress=report) as (store, number):
            table = store.table(number)
        self._sweeps[name] = {
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

    def _changed(self, call: str, axes: Mapping[Any, Any], fixed: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fixed parameters of a sweep with the changes that it has a parameter for."""
        declared = call_named(call, own=True).parameters
        varied = {name for key in axes for name in (key if isinstance(key, tuple) else (key,))}
        chosen = {name: value for name, value in self.changes.items() if declared is None or name in declared}
        for name, value in chosen.items():
            if name in varied:
                allowed = f"a parameter that the figure does not vary; {name} is on an axis"
                raise InvalidArgument("set", f"{name}={value}", allowed)
        self.unused_changes -= set(chosen)
        return {**fixed, **chosen}

    def add(self, name: str, **columns: Iterable[Any]) -> None:
        """Add columns of equal length to the data of the figure, for what is drawn but is not a row of a sweep."""
        keys = list(columns)
        self._rows += [
            {"series": name, **dict(zip(keys, values, strict=True))} for values in zip(*columns.values(), strict=True)
        ]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Data of the figure, one row per point."""
        return self._rows

    @property
    def failures(self) -> tuple[str, ...]:
        """Reasons of all points that failed."""
        return tuple(reason for sweep in self._sweeps.values() for reason in sweep["failed"])

    @property
    def sweeps(self) -> dict[str, dict[str, Any]]:
        """Parameters, number of points and failures of every sweep, by name."""
        return self._sweeps


def _listed(values: Any) -> Any:
    return list(values) if isinstance(values, (list, tuple)) else values


def _tidy(row: dict[str, Any]) -> dict[str, Any]:
    """Return parameters and results of a row as plain scalars, without the columns that change from run to run."""
    return {
        key: value
        for key, value in row.items()
        if key not in OMITTED_COLUMNS and value is not None and isinstance(value, (bool, int, float, str))
    }
