"""Files of a run, and its progress. PyTorch is not needed.

In addition to its checkpoints a run has ``config.json`` (the run itself, with the number of heads for `onehead
weights`), ``log.jsonl`` (a line per checkpoint), ``rest.safetensors`` (the state from which training can continue)
``tokens-*.safetensors`` (statistics of the tokens at every checkpoint, as `onehead weights --activations` reads them)
and, at its end, ``moments.safetensors``.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from checks.tool import append, read
from safetensors import SafetensorError, safe_open

from studies.real_heads.runs import Run

__all__ = ["MOMENTS", "STATE", "finished", "log", "note", "progress", "renew", "token_file"]

STATE = "rest.safetensors"
MOMENTS = "moments.safetensors"
LOG = "log.jsonl"
CONFIG = "config.json"


def log(run: Run, store: Path) -> list[dict[str, Any]]:
    """Return a row per checkpoint, in order; of rows that were written twice, the last."""
    rows = {row["step"]: row for row in read(run.folder(store) / LOG)}
    return [rows[step] for step in sorted(rows)]


def token_file(run: Run, store: Path, step: int) -> Path:
    """Return the path of the statistics of tokens at this step."""
    return run.folder(store) / f"tokens-{step:05d}.safetensors"


def finished(run: Run, store: Path) -> bool:
    """Return whether a run with exactly these settings is finished."""
    rows = log(run, store)
    return _same(run, store) and bool(rows) and rows[-1]["step"] == run.steps


def progress(run: Run, store: Path) -> dict[str, Any] | None:
    """Return the row of the step from which a run with exactly these settings can continue, or None.

    The row is added to the log if training was interrupted before it was.
    """
    try:
        with safe_open(run.folder(store) / STATE, "np") as file:
            row: dict[str, Any] = json.loads(file.metadata()["row"])
    except (OSError, SafetensorError, KeyError, TypeError, ValueError):
        return None
    if not _same(run, store):
        return None
    if not any(known["step"] == row["step"] for known in log(run, store)):
        append(run.folder(store) / LOG, row)
    return row


def renew(run: Run, store: Path) -> None:
    """Create an empty folder for a new run; a run with other settings in this folder is deleted."""
    folder = run.folder(store)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / CONFIG).write_text(json.dumps(run.config, indent=1) + "\n", encoding="utf-8")


def note(run: Run, store: Path, row: dict[str, Any]) -> None:
    """Add a row to the log."""
    append(run.folder(store) / LOG, row)


def _same(run: Run, store: Path) -> bool:
    try:
        return bool(json.loads((run.folder(store) / CONFIG).read_text(encoding="utf-8")) == run.config)
    except (OSError, ValueError):
        return False
