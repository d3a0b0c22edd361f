"""Real heads: query and key weights of small transformers trained on the sources of Python.

    python -m studies.real_heads [--write] [--layer]      train the missing runs, measure, and with --write make the
    files in docs/assets; with --layer those of the second study alone, whose runs come last

Only the training needs PyTorch. After an interruption the same command continues; finished runs are not trained again.
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.util import find_spec
from pathlib import Path

from checks.tool import ASSETS, ROOT, parser, write

from studies.real_heads.data import collect, load, save
from studies.real_heads.layer_data import collect_layer, load_layer, save_layer
from studies.real_heads.layer_pictures import draw_layer
from studies.real_heads.layer_report import layer_report
from studies.real_heads.pictures import draw
from studies.real_heads.report import report
from studies.real_heads.runs import LAYER_RUNS, RUNS, Run
from studies.real_heads.store import finished
from studies.real_heads.theory import predictions

ASSET, LAYER_ASSET = "real-heads.md", "real-heads-layer.md"
STORE = ROOT / "out" / "real-heads"
MISSING = f"This study trains with PyTorch, which is not installed: {sys.executable} -m pip install torch"


def train_one(run: Run, store: Path) -> Run:
    """Train one run; called in a separate process."""
    from studies.real_heads.training import train

    train(run, store)
    return run


def train_all(runs: tuple[Run, ...], store: Path, workers: int) -> None:
    """Train all runs that are not finished, in parallel processes."""
    missing = [run for run in runs if not finished(run, store)]
    if not missing:
        return
    if find_spec("torch") is None:
        raise SystemExit(MISSING)
    start, pool = time.monotonic(), ProcessPoolExecutor(workers)
    try:
        for number, done in enumerate(as_completed([pool.submit(train_one, run, store) for run in missing]), 1):
            seconds = time.monotonic() - start
            print(f"{number} of {len(missing)}, {seconds:.0f} s: {done.result().name}", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        raise SystemExit("Interrupted; run the same command to continue.") from None
    finally:
        pool.shutdown(cancel_futures=True)


def main() -> int:
    """Train, measure and write the report."""
    options = parser("studies.real_heads", __doc__, "docs/assets/real-heads*")
    options.add_argument("--store", type=Path, default=STORE)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--layer", action="store_true", help="train and measure the runs of the second study alone")
    arguments = options.parse_args()
    folder = ASSETS if arguments.write else arguments.store
    runs = () if arguments.layer else RUNS
    train_all(tuple(dict.fromkeys((*runs, *LAYER_RUNS))), arguments.store, arguments.workers)
    save_layer(collect_layer(LAYER_RUNS, arguments.store), folder)
    layer = load_layer(folder)
    data = load(ASSETS) if arguments.layer else collect(RUNS, arguments.store)
    data.theory.update(predictions(layer.heads))
    save(data, folder)
    data = load(folder)
    write(ASSET, report(data), wanted=arguments.write)
    write(LAYER_ASSET, layer_report(layer), wanted=arguments.write)
    draw(data, folder)
    draw_layer(layer, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
