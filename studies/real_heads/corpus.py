"""Text that every machine has: the sources of Python's standard library, as numbers, part of the files held out."""

import hashlib
import sysconfig
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["VOCABULARY", "Corpus", "corpus", "encode", "held_out", "sources"]

Tokens = NDArray[np.int64]

LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "lib2to3", "encodings", "pydoc_data"}
ENDS = 0  # a piece ends here; also every byte that is not printable
CHARACTERS = [10, *range(32, 127)]  # a new line, and what can be printed
VOCABULARY = 1 + len(CHARACTERS)
HELD_OUT = 10  # one file in ten
PIECE = 1024  # bytes of a file that stay together, so that few tokens are from many files too

_NUMBERS = np.zeros(256, dtype=np.int64)
_NUMBERS[CHARACTERS] = np.arange(1, VOCABULARY)


class Corpus(NamedTuple):
    """Tokens to train on and tokens of other files."""

    train: Tokens
    held: Tokens


def sources(root: Path) -> list[str]:
    """Names of the Python files below a folder, without tests, tables and what was installed."""
    found = (path.relative_to(root) for path in root.rglob("*.py"))
    return sorted(path.as_posix() for path in found if not LEFT_OUT.intersection(path.parts))


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def held_out(name: str) -> bool:
    """Whether a file is never trained on: its name decides, so another release of Python holds out the same files."""
    return _digest(name)[-1] % HELD_OUT == 0


def encode(text: bytes) -> Tokens:
    """One number for each byte."""
    return _NUMBERS[np.frombuffer(text, dtype=np.uint8)]


def corpus(train: int, held: int, root: Path | None = None) -> Corpus:
    """The first tokens of the pieces to train on, and of those held out; fewer tokens are always the first of more."""
    root = Path(sysconfig.get_path("stdlib")) if root is None else root
    names = sources(root)
    parts = []
    for count, wanted in ((train, False), (held, True)):
        tokens = _mixed(root, [name for name in names if held_out(name) == wanted])[:count]
        if len(tokens) < count:
            raise SystemExit(
                f"{root} holds {len(tokens)} tokens of Python sources {'held out' if wanted else 'to train on'}, "
                f"this study needs {count}."
            )
        parts.append(tokens)
    return Corpus(*parts)


def _mixed(root: Path, names: list[str]) -> Tokens:
    """Files cut into pieces, which follow each other in an order that names and places alone decide."""
    pieces: dict[bytes, bytes] = {}
    for name in names:
        text = (root / name).read_bytes()
        pieces |= {_digest(f"{name}:{start}"): text[start : start + PIECE] for start in range(0, len(text), PIECE)}
    return np.concatenate([np.append(encode(pieces[place]), ENDS) for place in sorted(pieces)] or [encode(b"")])
