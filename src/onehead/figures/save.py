"""What a figure leaves behind: a picture in two formats, its data, and a note of parameters and versions."""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from onehead import __version__
from onehead.figures.agreement import judge
from onehead.figures.lab import Lab
from onehead.figures.registry import Drawing, Figure
from onehead.files import write_whole
from onehead.plot.style import write_picture
from onehead.results import plain
from onehead.sweep import NUMERICAL
from onehead.sweep.export import write_csv

__all__ = ["DATA", "files_of", "save"]

DATA = (".png", ".pdf", ".csv", ".json")
DPI = 110
LIBRARIES = ("numpy", "scipy", "numba", "matplotlib")


def save(figure: Figure, drawing: Drawing, lab: Lab, folder: Path) -> list[Path]:
    """Write the four files of a figure and return their paths; the same numbers give the same bytes."""
    paths = files_of(figure, folder)
    write_picture(drawing.picture, paths[0], dpi=DPI, metadata={"Software": None})
    write_picture(drawing.picture, paths[1], metadata={"CreationDate": None})
    write_csv(str(paths[2]), map(plain, lab.rows))
    write_whole(paths[3], json.dumps(plain(note(figure, drawing, lab)), indent=1, ensure_ascii=False, allow_nan=False))
    return paths


def files_of(figure: Figure, folder: Path) -> list[Path]:
    """The four files of a figure."""
    return [folder / f"{figure.name}{ending}" for ending in DATA]


def note(figure: Figure, drawing: Drawing, lab: Lab) -> dict[str, Any]:
    """Parameters, versions, caption, and how well theory and training agree."""
    found = judge(drawing.pairs, figure.outliers)
    return {
        "name": figure.name,
        "title": figure.title,
        "source": figure.source,
        "caption": " ".join(drawing.caption.split()),
        "scale": "quick" if lab.quick else "full",
        "training": lab.training,
        "agreement": None if found is None else found.to_dict(),
        "sweeps": lab.asked,
        "version": __version__,
        "numerical_version": NUMERICAL,
        "python": ".".join(map(str, sys.version_info[:2])),
        "libraries": {name: version(name) for name in LIBRARIES},
    }
