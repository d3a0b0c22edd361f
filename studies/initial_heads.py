"""How random heads scatter: the table in `src/onehead/weights/initial.py`, measured.

    python -m studies.initial_heads --draws 3000      the table, 8 minutes
    python -m studies.initial_heads --alarms          how often such a head is not called noise, 20 minutes

Query and key of independent entries, normal or uniform (Xavier and Kaiming initialisations differ from these by a scale alone; a
truncated normal lies between the two). Two numbers of every spectrum, `onehead.weights.initial.spreads`, have means
g(c) + a/n and standard deviations b/n for n values at c = head_dim/hidden; g is the exact law of two random matrices, a and b are
measured here at one n for every c.
"""

import argparse
import sys
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from onehead.weights import head_report
from onehead.weights.initial import limit, spreads

RATIOS = (1 / 64, 1 / 32, 1 / 16, 1 / 12, 1 / 8, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1.0, 1.5, 2.0, 4.0)
SIZE = 48  # values of a head
SHAPES = (
    (16, 16), (16, 64), (16, 128), (16, 512), (20, 40), (24, 20), (32, 64), (32, 384), (48, 48), (64, 64), (64, 128), (64, 512),
)  # fmt: skip
Array = NDArray[np.float64]


def drawn(rng: np.random.Generator, kind: str, head_dim: int, hidden: int) -> tuple[Array, Array]:
    """Query and key at initialisation."""
    if kind == "uniform":
        query, key = rng.uniform(-1.0, 1.0, (2, head_dim, hidden))
    else:
        query, key = rng.standard_normal((2, head_dim, hidden))
    return query, key


def values_of(query: Array, key: Array) -> Array:
    """Singular values of W_Q'W_K that are not zero."""
    if len(query) < query.shape[1]:
        query, key = (np.linalg.qr(matrix.T, mode="r").T for matrix in (query, key))
    return np.asarray(np.linalg.svd(query.T @ key, compute_uv=False))


def row(ratio: float, draws: int, rng: np.random.Generator) -> tuple[float, ...]:
    """c, shifts of both numbers (normal, then uniform), standard deviations and correlation, all times n."""
    head_dim = SIZE if ratio <= 1.0 else round(SIZE * ratio)
    hidden = round(head_dim / ratio)
    found = {
        kind: np.array([spreads(values_of(*drawn(rng, kind, head_dim, hidden))) for _ in range(draws)])
        for kind in ("normal", "uniform")
    }
    exact = np.array(limit(head_dim / hidden))
    shifts = [SIZE * (table.mean(axis=0) - exact) for table in found.values()]
    errors = np.mean([SIZE * table.std(axis=0, ddof=1) for table in found.values()], axis=0)
    together = np.mean([np.corrcoef(table.T)[0, 1] for table in found.values()])
    return (head_dim / hidden, *shifts[0], *shifts[1], *errors, float(together))


def alarms(draws: int) -> None:
    """Words of random heads of many shapes."""
    rng = np.random.default_rng(77)
    for head_dim, hidden in SHAPES:
        for kind in ("normal", "uniform"):
            pairs = (drawn(rng, kind, head_dim, hidden) for _ in range(draws))
            words = Counter(head_report(*pair, fit=False).verdict for pair in pairs)
            print(
                f"{head_dim} x {hidden} {kind}: {1.0 - words['noise'] / draws:.4f} of {draws}, {dict(words)}",
                flush=True,
            )


def main() -> int:
    """Print the rows of the table, or false alarms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3000)
    parser.add_argument("--alarms", action="store_true")
    asked = parser.parse_args()
    if asked.alarms:
        alarms(asked.draws)
        return 0
    for ratio in RATIOS:
        numbers = row(ratio, asked.draws, np.random.default_rng(0))
        print(f"    ({', '.join(f'{number:.4f}' for number in numbers)}),", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
