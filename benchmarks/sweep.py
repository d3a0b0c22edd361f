"""Sweeps: what a point costs beyond its own solve, and what the single writer can take.

`python -m benchmarks.sweep` prints the rows; `--dask` adds a scheduler and two workers on loopback. Times depend on the
disk: the writer waits for it at every commit.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.support.sweep_cluster import cluster

import onehead
from onehead.sweep.executors.dask import Dask
from onehead.sweep.registry import call_named
from onehead.sweep.solve import solve_point
from onehead.sweep.spec import Spec
from onehead.sweep.storage.store import Store

POINTS = 10_000


def trivial(words: dict[str, Any], seed: int) -> dict[str, Any]:
    return {"square": words["x"] ** 2}


def clock(function: Callable[[], Any]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def overhead(folder: Path, on: str, points: int = POINTS) -> dict[str, Any]:
    """A fresh store, trivial points, start of workers included; then the same again, when all is done already."""
    store = folder / f"{on[:3]}.db"

    def run() -> None:
        onehead.sweep("benchmarks.sweep:trivial", {"x": list(range(points))}, store=store, on=on, workers=2)

    seconds = clock(run)
    again = clock(run)
    place = {"inline": "inline", "local": "two local workers"}.get(on, "dask, two workers")
    return {
        "what": f"{points} trivial points, {place}",
        "ms a point": 1e3 * seconds / points,
        "rows/s": points / seconds,
        "resume, ms a point": 1e3 * again / points,
    }


def registering(folder: Path) -> dict[str, Any]:
    """Checking and registering real points: validation, key, row."""
    spec = Spec(call="aim.predict", axes={"noise": "0:2:100", "alpha": "0.1:2:100"})
    validate = clock(lambda: list(spec.points()))
    with Store.writing(folder / "register.db") as store:
        register = clock(lambda: store.begin(spec.call, spec.points(), retry=False))
    return {
        "what": "checking and registering aim.predict",
        "check, µs": 1e6 * validate / len(spec),
        "all, µs": 1e6 * (validate + register) / len(spec),
    }


def writer(folder: Path, batch: int) -> dict[str, Any]:
    """Only the writer: real rows of aim.predict, `batch` of them in one commit."""
    spec = Spec(call="aim.predict", axes={"noise": "0:2:100", "alpha": "0.1:2:40"})
    points = list(spec.points())
    model = solve_point(call_named("aim.predict"), points[0])
    file = folder / f"writer{batch}.db"
    with Store.writing(file) as store:
        store.begin(spec.call, points, retry=False)
        rows = [model._replace(key=point.key) for point in points]
        rows = rows[: 400 * batch]

        def run() -> None:
            for first in range(0, len(rows), batch):
                store.save(rows[first : first + batch])

        seconds = clock(run)
    size = file.stat().st_size / len(points) if len(rows) == len(points) else float("nan")
    return {
        "what": f"writer, {batch} rows a commit",
        "rows/s": len(rows) / seconds,
        "commits/s": len(rows) / batch / seconds,
        "bytes a row": size,
    }


def scheduler(address: str) -> dict[str, Any]:
    """Tasks of one point each, many of them waiting: what the scheduler can hand out."""
    spec = {"x": list(range(2000))}

    class Single(Dask):
        goal = 0.0

    with patch("onehead.sweep.executors.dask.CHUNKS_PER_THREAD", 100):
        seconds = clock(lambda: onehead.sweep("benchmarks.sweep:trivial", spec, on=Single(address)))
    return {"what": "dask, one point a task", "ms a task": 1e3 * seconds / 2000, "tasks/s": 2000 / seconds}


def main() -> None:
    """Print the rows."""
    onehead.sweep("aim.predict", {"alpha": [0.5]})  # loads the kernels
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [overhead(folder, "inline"), overhead(folder, "local"), registering(folder)]
        rows += [writer(folder, batch) for batch in (1, 10, 100, 1000)]
        if "--dask" in sys.argv:
            with cluster() as (address, *_):
                time.sleep(5.0)  # the workers load; their start is not measured here
                rows += [overhead(folder, address), scheduler(address)]
    for row in rows:
        print("; ".join(f"{key} {value:.4g}" if isinstance(value, float) else str(value) for key, value in row.items()))


if __name__ == "__main__":
    main()
