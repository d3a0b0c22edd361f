"""Large arrays beside the store: one compressed file per content, named by its hash."""

import hashlib
import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onehead.atomic_io import write_atomically
from onehead.sweep.errors import BadStore, StoreFailed


class Arrays:
    """A folder of ``.npz`` files, or a dict when there is no folder.

    A file is complete as soon as its name exists, and it exists before the row that refers to it.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._memory: dict[str, bytes] = {}

    def put(self, arrays: dict[str, NDArray[np.generic]]) -> str:
        """Store arrays and return the hash of their content, which is their name."""
        name = _content_hash(arrays)
        if self.folder is None:
            self._memory.setdefault(name, _packed(arrays))
            return name
        path = self.folder / f"{name}.npz"
        if path.exists():
            return name
        try:
            self.folder.mkdir(exist_ok=True)
            write_atomically(path, _packed(arrays))
        except OSError as failure:
            raise StoreFailed(
                f"{self.folder} cannot take another array ({failure.strerror}); every point counted so far is kept, "
                "make room and run the same command again."
            ) from None
        return name

    def missing(self, names: Iterable[str]) -> int:
        """Number of these arrays that have no file."""
        found = {path.stem for path in self.folder.glob("*.npz")} if self.folder is not None else set(self._memory)
        return len(set(names) - found)

    def get(self, name: str) -> dict[str, NDArray[np.generic]]:
        """Return the arrays with this hash or file name; refuse a file whose content has another hash."""
        name = Path(name).stem
        source = self._memory[name] if self.folder is None else (self.folder / f"{name}.npz").read_bytes()
        try:
            with np.load(io.BytesIO(source), allow_pickle=False) as opened:
                found = dict(opened)
        except Exception:  # a damaged archive can make its readers raise anything
            found = {}
        if _content_hash(found) != name:
            raise BadStore(
                name, f"{self.folder}/{name}.npz is damaged; its point must be solved again in another store."
            )
        return found


def _packed(arrays: dict[str, NDArray[np.generic]]) -> bytes:
    """Content of a compressed ``.npz`` file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def _content_hash(arrays: dict[str, NDArray[np.generic]]) -> str:
    """Hash of names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:32]
