"""How sensitive the outcome is to two hyperparameters at once (S7)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onehead.arguments import checked, numbers
from onehead.errors import InvalidArgument, SolveError
from onehead.renamed import renamed
from onehead.results import FAILED, Grid, plain
from onehead.sparse.equations.alignment import query_of
from onehead.sparse.task import PROBLEM, Answer, Protocol, Task
from onehead.sparse.verbs.predict import predict

__all__ = ["AXES", "Landscape", "Spot", "landscape"]

AXES = ("eta_w", "eta_b", "eta_q", "beta", "split", "ridge", "alpha0", "alpha1")
ACCURACY = 1e-3  # of the test error: a map is looked at, not read off


@dataclass(frozen=True, kw_only=True)
class Spot:
    """One point of the map, errors of its numbers under ``_err``; ``status`` says what happened where there is no number."""

    x: float
    y: float
    cos_query: float
    test_error: float | None
    test_error_err: float | None
    pooled_test_error: float | None
    pooled_test_error_err: float | None
    anti_aligned: bool
    worse_than_pooled: bool | None
    status: str

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return dict(plain(self))


@dataclass(frozen=True, kw_only=True)
class Landscape(Grid[Spot], Answer):
    """Alignment and errors over a grid of two hyperparameters, the first axis running fastest."""

    x_name: str
    y_name: str
    x_values: tuple[float, ...]
    y_values: tuple[float, ...]
    cells: tuple[Spot, ...]

    @property
    def axes(self) -> dict[str, tuple[float, ...]]:
        """The two hyperparameters with their values."""
        return {self.x_name: self.x_values, self.y_name: self.y_values}

    def to_rows(self) -> list[dict[str, Any]]:
        """One plain row per point, the two values under their own names."""
        names = {"x": self.x_name, "y": self.y_name}
        return [{names.get(name, name): value for name, value in spot.to_dict().items()} for spot in self.cells]

    def rows(self) -> list[dict[str, Any]]:
        """The same, by its name before 2.0."""
        renamed("Landscape.rows()", "Landscape.to_rows()")
        return self.to_rows()

    @property
    def spots(self) -> tuple[Spot, ...]:
        """The cells, by their name before 2.0."""
        renamed("Landscape.spots", "Landscape.cells")
        return self.cells


def _moved(protocol: Protocol, name: str, value: float) -> Protocol:
    """The protocol with one hyperparameter changed; ``split`` is alpha0 / (alpha0 + alpha1) at fixed sum."""
    if name == "split":
        if not 0.0 < value < 1.0:
            raise InvalidArgument("split", value, "a number > 0 and < 1")
        return protocol.with_alpha(protocol.alpha, value)
    return protocol.changed(**{name: value})


def _an_axis(name: str, axis: Any) -> None:
    """A pair of a name and its values."""
    if not (isinstance(axis, tuple) and len(axis) == 2 and isinstance(axis[0], str)):
        raise InvalidArgument(name, axis, "a pair of a hyperparameter and its values, such as ('beta', [1.0, 8.0])")
    numbers()(name, axis[1])


@checked(**PROBLEM, x=_an_axis, y=_an_axis)
def landscape(
    task: Task,
    protocol: Protocol,
    *,
    x: tuple[str, Sequence[float]],
    y: tuple[str, Sequence[float]],
    progress: Callable[[], None] | None = None,
) -> Landscape:
    """Alignment, predicted test error and that of pooling over two of the rates, temperature, split and ridge.

    Examples
    --------
    >>> task = Task(positive_rate=0.2)
    >>> found = landscape(task, Protocol(loss="square"), x=("eta_b", [0.0, 3.0]), y=("ridge", [0.01]))
    >>> [spot.anti_aligned for spot in found]
    [True, False]
    """
    for axis, (name, values) in (("x", x), ("y", y)):
        if name not in AXES:
            raise InvalidArgument(axis, name, " or ".join(AXES))
        if not values:
            raise InvalidArgument(axis, values, "at least one value")
    if x[0] == y[0]:
        raise InvalidArgument("y", y[0], f"a hyperparameter other than that of x, {x[0]}")
    if protocol.cos_query is not None:
        raise InvalidArgument("cos_query", protocol.cos_query, "None: the two gradient steps are what is mapped")
    cells = []
    for y_value in y[1]:
        for x_value in x[1]:
            cells.append(_spot(task, _moved(_moved(protocol, x[0], x_value), y[0], y_value), x_value, y_value))
            if progress is not None:
                progress()
    return Landscape(
        task=task,
        protocol=protocol,
        x_name=x[0],
        y_name=y[0],
        x_values=tuple(x[1]),
        y_values=tuple(y[1]),
        cells=tuple(cells),
    )


def _spot(task: Task, protocol: Protocol, x: float, y: float) -> Spot:
    cos_query = query_of(task, protocol)["cos_query"]
    attention = pooled = None
    try:
        pooled = predict(task, protocol, model="pooled")
        attention = predict(task, protocol, accuracy=ACCURACY)
        status = attention.status
        if attention.errors["test_error"] > ACCURACY:
            status += f"; {attention.certificate.warnings[-1].rstrip('.')}"
    except SolveError as failure:
        status = f"{FAILED}: {failure}"
    return Spot(
        x=x,
        y=y,
        cos_query=cos_query,
        test_error=None if attention is None else attention.test_error,
        test_error_err=None if attention is None else attention.errors["test_error"],
        pooled_test_error=None if pooled is None else pooled.test_error,
        pooled_test_error_err=None if pooled is None else pooled.errors["test_error"],
        anti_aligned=cos_query < 0.0,
        worse_than_pooled=None if attention is None or pooled is None else attention.test_error > pooled.test_error,
        status=status,
    )
