"""Making figures: numbers through sweeps, drawing, four files each."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from time import perf_counter

from onehead.errors import InvalidArgument, OneheadError, SolveError
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing, Figure, chosen
from onehead.figures.save import files_of, save
from onehead.files import check_file, check_folder
from onehead.numerics.parallel import cores
from onehead.sweep import Counts, Executor, Inline
from onehead.sweep.executors import Local

__all__ = ["STORE", "Made", "make"]

STORE = "figures.sqlite"


@dataclass(frozen=True, kw_only=True)
class Made:
    """A figure that was made: its files, how long it took, and the points without an answer."""

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
        Folder for the files; made if it does not exist. Its store keeps every number, so that a second call computes
        nothing, and Ctrl-C loses nothing that was finished.
    quick : bool
        Small dimensions and few seeds: all figures within ten minutes on two cores.
    theory : bool
        Theory alone, no training: all figures within two minutes.
    checkpoint : path, optional
        Weights for ``own-checkpoint``; without them it shows heads that we train ourselves.
    workers : int, optional
        Processes; all cores if not given, and with one everything is computed in this process.
    progress : callable, optional
        Called with the figure, the sweep and how far it is, at its start and whenever points are finished.
    on_figure : callable, optional
        Called with every finished figure.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = make(["sparse-alignment"], folder, quick=True, theory=True, workers=1)
    ...     sorted(path.suffix for path in made[0].paths)
    ['.csv', '.json', '.pdf', '.png']
    """
    wanted = chosen(names)
    if not wanted:
        raise InvalidArgument("names", list(names), "at least one figure")
    folder = check_folder("out", out)
    folder.mkdir(parents=True, exist_ok=True)
    for figure in wanted:
        for file in files_of(figure, folder):
            check_file("out", file)
    made = []
    with _place(workers) as executor:
        for figure in wanted:
            clock = perf_counter()

            def step(sweep: str, counts: Counts, name: str = figure.name) -> None:
                if progress is not None:
                    progress(name, sweep, counts)

            lab = Lab(
                quick=quick,
                training=not theory,
                store=folder / STORE,
                executor=executor,
                progress=step,
                checkpoint=checkpoint,
            )
            drawing = _drawn(figure, lab)
            paths = save(figure, drawing, lab, folder)
            failed = lab.failures
            points = sum(asked["points"] for asked in lab.asked.values())
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


def _drawn(figure: Figure, lab: Lab) -> Drawing:
    """Draw; where numbers are missing that a figure cannot do without, say which."""
    try:
        return figure.draw(lab)
    except OneheadError:
        raise
    except Exception as failure:
        if not lab.failures:
            raise
        count, first = len(lab.failures), lab.failures[0]
        raise SolveError(f"{figure.name} cannot be drawn: {count} points failed, the first: {first}") from failure


def _place(workers: int | None) -> AbstractContextManager[Executor]:
    """Processes that outlive a sweep, for a figure makes several short ones; with one core none."""
    return nullcontext(Inline()) if (cores() if workers is None else workers) == 1 else Local(workers)
