"""Text corpus: the sources of the standard library of Python as character tokens, with some files held out."""

import hashlib
import sysconfig
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["VOCABULARY", "Corpus", "corpus", "encode", "held_out", "sources"]

Tokens = NDArray[np.int64]

EXCLUDED_FOLDERS = {
    "test",
    "tests",
    "idle_test",
    "site-packages",
    "dist-packages",
    "lib2to3",
    "encodings",
    "pydoc_data",
}
END_TOKEN = 0  # end of a piece, and every byte that is not printable
CHARACTERS = [10, *range(32, 127)]  # newline and printable ASCII
VOCABULARY = 1 + len(CHARACTERS)
HELD_OUT_FRACTION = 10  # one file in ten is held out
PIECE = 1024  # bytes of a file that stay together; small, so that a short text is also taken from many files

_NUMBERS = np.zeros(256, dtype=np.int64)
_NUMBERS[CHARACTERS] = np.arange(1, VOCABULARY)


class Corpus(NamedTuple):
    """Tokens to train on, and held-out tokens of other files."""

    train: Tokens
    held: Tokens


def sources(root: Path) -> list[str]:
    """Return the names of the Python files below a folder, without tests, data tables and installed packages."""
    found = (path.relative_to(root) for path in root.rglob("*.py"))
    return sorted(path.as_posix() for path in found if not EXCLUDED_FOLDERS.intersection(path.parts))


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def held_out(name: str) -> bool:
    """Return whether a file is held out; it depends on its name alone, so that all releases of Python agree."""
    return _digest(name)[-1] % HELD_OUT_FRACTION == 0


def encode(text: bytes) -> Tokens:
    """Return one token per byte."""
    return _NUMBERS[np.frombuffer(text, dtype=np.uint8)]


def corpus(train: int, held: int, root: Path | None = None) -> Corpus:
    """Return the given numbers of tokens to train on and of held-out tokens.

    A shorter text is the start of a longer one.
    """
    root = Path(sysconfig.get_path("stdlib")) if root is None else root
    names = sources(root)
    parts = []
    for count, wanted in ((train, False), (held, True)):
        tokens = _shuffled(root, [name for name in names if held_out(name) == wanted])[:count]
        if len(tokens) < count:
            raise SystemExit(
                f"{root} has {len(tokens)} tokens of Python sources {'held out' if wanted else 'to train on'}, "
                f"this study needs {count}."
            )
        parts.append(tokens)
    return Corpus(*parts)


def _shuffled(root: Path, names: list[str]) -> Tokens:
    """Return the files cut into pieces, in an order that depends on file names and offsets alone."""
    pieces: dict[bytes, bytes] = {}
    for name in names:
        text = (root / name).read_bytes()
        pieces |= {_digest(f"{name}:{start}"): text[start : start + PIECE] for start in range(0, len(text), PIECE)}
    return np.concatenate([np.append(encode(pieces[digest]), END_TOKEN) for digest in sorted(pieces)] or [encode(b"")])
