"""Real heads: small transformers trained on Python's own sources, and what becomes of their query and key.

    python -m studies.real_heads [--write]      train what is missing, measure, and with --write make the files in docs/assets

Needs PyTorch for the training alone. Stopped, it goes on where it was; what is finished is not trained again.
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.util import find_spec
from pathlib import Path

from checks.tool import ASSETS, ROOT, parser, write

from studies.real_heads.data import collect, load, save
from studies.real_heads.pictures import draw
from studies.real_heads.report import report
from studies.real_heads.runs import RUNS, Run
from studies.real_heads.store import finished

ASSET = "real-heads.md"
STORE = ROOT / "out" / "real-heads"
MISSING = f"This study trains with PyTorch, which is not installed: {sys.executable} -m pip install torch"


def train_one(run: Run, store: Path) -> Run:
    """In a process of its own."""
    from studies.real_heads.training import train  # noqa: PLC0415  (analysis and tests do without PyTorch)

    train(run, store)
    return run


def train_all(runs: tuple[Run, ...], store: Path, workers: int) -> None:
    """All runs that have not ended; stopped, the next call goes on."""
    missing = [run for run in runs if not finished(run, store)]
    if not missing:
        return
    if find_spec("torch") is None:
        raise SystemExit(MISSING)
    start, pool = time.monotonic(), ProcessPoolExecutor(workers)
    try:
        for number, ended in enumerate(as_completed([pool.submit(train_one, run, store) for run in missing]), 1):
            seconds = time.monotonic() - start
            print(f"{number} of {len(missing)}, {seconds:.0f} s: {ended.result().name}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        raise SystemExit("Stopped; the next call goes on.") from None
    finally:
        pool.shutdown(cancel_futures=True)


def main() -> int:
    """Train, measure, show."""
    made = parser("studies.real_heads", __doc__, "docs/assets/real-heads*")
    made.add_argument("--store", type=Path, default=STORE)
    made.add_argument("--workers", type=int, default=2)
    asked = made.parse_args()
    train_all(RUNS, asked.store, asked.workers)
    folder = ASSETS if asked.write else asked.store
    save(collect(RUNS, asked.store), folder)
    data = load(folder)
    write(ASSET, report(data), wanted=asked.write)
    draw(data, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
