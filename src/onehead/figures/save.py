"""Files of a figure: the picture in two formats, its data, and a note with parameters and versions."""

import json
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from onehead import __version__
from onehead.atomic_io import write_atomically
from onehead.figures.agreement import assess_agreement
from onehead.figures.data_source import DataSource
from onehead.figures.registry import Drawing, Figure
from onehead.plot.style import write_picture
from onehead.results import plain
from onehead.sweep import NUMERICAL
from onehead.sweep.export import write_csv

SUFFIXES = (".png", ".pdf", ".csv", ".json")
DPI = 110
LIBRARIES = ("numpy", "scipy", "numba", "matplotlib")


def save(figure: Figure, drawing: Drawing, source: DataSource, folder: Path) -> list[Path]:
    """Write the four files of a figure and return their paths; equal numbers give identical files."""
    paths = files_of(figure, folder, source.changes)
    write_picture(drawing.picture, paths[0], dpi=DPI, metadata={"Software": None})
    write_picture(drawing.picture, paths[1], metadata={"CreationDate": None})
    write_csv(str(paths[2]), map(plain, source.rows))
    write_atomically(
        paths[3], json.dumps(plain(note(figure, drawing, source)), indent=1, ensure_ascii=False, allow_nan=False)
    )
    return paths


def files_of(figure: Figure, folder: Path, changes: Mapping[str, Any] | None = None) -> list[Path]:
    """Return the paths of the four files of a figure; their names say what was changed."""
    stem = ",".join([figure.name, *(f"{name}={value}" for name, value in (changes or {}).items())])
    return [folder / f"{stem}{suffix}" for suffix in SUFFIXES]


def note(figure: Figure, drawing: Drawing, source: DataSource) -> dict[str, Any]:
    """Return parameters, versions, caption, and the agreement of theory and training."""
    found = assess_agreement(drawing.pairs, figure.known_deviation)
    return {
        "name": figure.name,
        "title": figure.title,
        "source": figure.source,
        "caption": " ".join(drawing.caption.split()),
        "scale": "quick" if source.quick else "full",
        "training": source.training,
        **({"changed": source.changes} if source.changes else {}),
        "agreement": None if found is None else found.to_dict(),
        "sweeps": source.sweeps,
        "version": __version__,
        "numerical_version": NUMERICAL,
        "python": ".".join(map(str, sys.version_info[:2])),
        "libraries": {name: version(name) for name in LIBRARIES},
    }
