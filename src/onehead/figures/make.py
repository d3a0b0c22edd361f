"""Making of figures: the numbers are computed by sweeps, drawn, and written to four files per figure."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from time import perf_counter
from typing import Any

from onehead.atomic_io import check_file, check_folder
from onehead.errors import InvalidArgument, OneheadError, SolveError
from onehead.figures.data_source import DataSource
from onehead.figures.registry import Drawing, Figure, select_figures
from onehead.figures.save import files_of, save
from onehead.numerics.parallel import cores
from onehead.sweep import Counts, Executor, Inline
from onehead.sweep.executors import Local

STORE = "figures.sqlite"


@dataclass(frozen=True, kw_only=True)
class Made:
    """Result of making one figure: its files, time, number of points, and the reasons of those that failed."""

    name: str
    paths: tuple[Path, ...]
    seconds: float
    points: int
    failed: tuple[str, ...]


def make(
    names: Sequence[str],
    out: str | PathLike[str],
    *,
    quick: bool = False,
    theory: bool = False,
    checkpoint: str | PathLike[str] | None = None,
    changes: Mapping[str, Any] | None = None,
    workers: int | None = None,
    progress: Callable[[str, str, Counts], None] | None = None,
    on_figure: Callable[[Made], None] | None = None,
) -> list[Made]:
    """Make figures by name into a folder.

    Parameters
    ----------
    names : sequence of str
        Names from `NAMES`, or "all".
    out : path
        Folder for the files, created if necessary. It contains the store of all points, so that a second call computes
        nothing and Ctrl-C loses no finished point.
    quick : bool
        Whether to use small dimensions and few seeds; the registry has the times.
    theory : bool
        Whether to leave out training.
    checkpoint : path, optional
        Weights for ``own-checkpoint``; without them it shows only heads trained by `onehead.aim.train`.
    changes : mapping, optional
        Parameters to change, such as ``{"kappa0": 0.2}``, in every sweep of the figure that has them; the title says
        what was changed.
    workers : int, optional
        Number of processes, by default that of the cores; with one, everything is computed in this process.
    progress : callable, optional
        Called with the name of the figure, the name of the sweep and its counts, at its start and whenever points are
        finished.
    on_figure : callable, optional
        Called with every finished figure.

    Returns
    -------
    list of Made

    Raises
    ------
    InvalidArgument
        If a figure does not exist, the folder cannot be used, or a parameter cannot be changed: the figure varies it
        or does not have it.
    SolveError
        If so many points failed that a figure cannot be drawn.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = make(["sparse-alignment"], folder, quick=True, theory=True, workers=1)
    ...     sorted(path.suffix for path in made[0].paths)
    ['.csv', '.json', '.pdf', '.png']
    """
    wanted = select_figures(names)
    if not wanted:
        raise InvalidArgument("names", list(names), "at least one figure")
    folder = check_folder("out", out)
    folder.mkdir(parents=True, exist_ok=True)
    for figure in wanted:
        for file in files_of(figure, folder, changes):
            check_file("out", file)
    made = []
    with _executor(workers) as executor:
        for figure in wanted:
            clock = perf_counter()

            def step(sweep: str, counts: Counts, name: str = figure.name) -> None:
                if progress is not None:
                    progress(name, sweep, counts)

            source = DataSource(
                quick=quick,
                training=not theory,
                store=folder / STORE,
                executor=executor,
                progress=step,
                checkpoint=checkpoint,
                changes=changes,
            )
            drawing = _draw(figure, source)
            _name_changes(figure, drawing, source)
            paths = save(figure, drawing, source, folder)
            failed = source.failures
            points = sum(sweep["points"] for sweep in source.sweeps.values())
            made.append(
                Made(
                    name=figure.name,
                    paths=tuple(paths),
                    seconds=perf_counter() - clock,
                    points=points,
                    failed=failed,
                )
            )
            if on_figure is not None:
                on_figure(made[-1])
    return made


def _name_changes(figure: Figure, drawing: Drawing, source: DataSource) -> None:
    """Write into the title which parameters were changed; refuse one that no sweep of the figure has."""
    if source.unused_changes:
        name = min(source.unused_changes)
        raise InvalidArgument("set", name, f"a parameter of {figure.name}; none of its sweeps has {name}")
    if source.changes:
        changed = ", ".join(f"{name} = {value}" for name, value in source.changes.items())
        drawing.picture.suptitle(f"{figure.name} with {changed} (other labels name the original values)")


def _draw(figure: Figure, source: DataSource) -> Drawing:
    """Draw a figure; raise SolveError with the first reason if it cannot be drawn because points failed."""
    try:
        return figure.draw(source)
    except OneheadError:
        raise
    except Exception as failure:
        if not source.failures:
            raise
        count, first = len(source.failures), source.failures[0]
        raise SolveError(f"{figure.name} cannot be drawn: {count} points failed, the first: {first}") from failure


def _executor(workers: int | None) -> AbstractContextManager[Executor]:
    """Return an executor whose processes serve all sweeps of a figure, or one in this process for a single core."""
    return nullcontext(Inline()) if (cores() if workers is None else workers) == 1 else Local(workers)
