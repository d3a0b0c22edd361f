"""How far sweeps are: one bar on standard error, for ``sweep run`` and ``figures make``."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from onehead.cli.output import console, note
from onehead.cli.text import clean

if TYPE_CHECKING:
    from onehead.sweep import Counts

__all__ = ["bar", "span"]


@contextmanager
def bar() -> Iterator[tuple[Callable[[str, "Counts"], None], Callable[[str], None]]]:
    """Points, rate, time left and failures of the sweep under way.

    Gives two functions: one takes the title and the counts of a sweep, the other a line to keep above the bar.
    """
    if not sys.stderr.isatty():  # nobody watches
        yield (lambda title, counts: None), note
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"))
    with Progress(*columns, console=console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=None, told="")
        begun: dict[str, tuple[float, int]] = {}  # when each sweep began here, and with how many finished points

        def show(title: str, counts: "Counts") -> None:
            finished, now = counts.done + counts.failed, time.monotonic()
            since, before = begun.setdefault(title, (now, finished))
            rate = (finished - before) / max(now - since, 1e-3)
            told = f"{rate:.3g}/s, {span(counts.missing / rate)} left" if rate else ""
            told += f", {counts.failed} failed" if counts.failed else ""
            shown.update(task, description=title, total=counts.total, completed=finished, told=told)

        yield show, lambda line: shown.console.print(clean(line), markup=False, highlight=False)


def span(seconds: float) -> str:
    """A time as a person would say it."""
    for name, length in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:.3g} {name}"
    return f"{seconds:.2g} seconds"
