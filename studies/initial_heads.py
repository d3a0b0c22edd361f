"""How random heads scatter: the table in `src/onehead/weights/initial.py`, measured.

    python -m studies.initial_heads --draws 4000

Query and key of independent entries, normal or uniform (Xavier and Kaiming initialisations differ from these by a scale alone; a
truncated normal lies between the two). Two numbers of every spectrum, `onehead.weights.initial.spreads`, have means
g(c) + a/n and standard deviations b/n for n values at c = head_dim/hidden; g is the exact law of two random matrices, a and b are
measured here at one n for every c.
"""

import argparse
import sys

import numpy as np
from numpy.typing import NDArray

from onehead.weights.initial import limit, spreads

RATIOS = (1 / 64, 1 / 32, 1 / 16, 1 / 12, 1 / 8, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1.0, 1.5, 2.0, 4.0)
SIZE = 48  # values of a head
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


def main() -> int:
    """Print the rows of the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4000)
    asked = parser.parse_args()
    for ratio in RATIOS:
        numbers = row(ratio, asked.draws, np.random.default_rng(0))
        print(f"    ({', '.join(f'{number:.4f}' for number in numbers)}),", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
