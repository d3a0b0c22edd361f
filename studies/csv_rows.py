"""Rows that are written to a CSV file one by one, so that an interrupted study leaves what it has."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_csv(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write and print rows, with numbers in six digits; all rows have the columns of the first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, list(row))
                writer.writeheader()
            texts = {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}
            writer.writerow(texts)
            file.flush()
            print(texts, flush=True)
