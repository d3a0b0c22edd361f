"""Statistics of random heads: measurement of the table in `src/onehead/weights/null_model.py`.

    python -m studies.initial_heads --draws 3000      the table, 8 minutes
    python -m studies.initial_heads --alarms          rate of verdicts other than noise, 20 minutes

Query and key have independent entries, normal or uniform (Xavier and Kaiming initialisations differ from these by a
scale alone; a truncated normal lies between the two). Two statistics of every spectrum,
`onehead.weights.null_model.spread_statistics`, have means g(c) + a/n and standard deviations b/n for n values at c =
head_dim/hidden; g follows from the law of two random matrices, a and b are measured here at one n for every c.
"""

import argparse
import sys
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from onehead.weights import head_report
from onehead.weights.null_model import limiting_statistics, spread_statistics

RATIOS = (1 / 64, 1 / 32, 1 / 16, 1 / 12, 1 / 8, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 1.0, 1.5, 2.0, 4.0)
VALUES = 48  # singular values per head
SHAPES = (
    (16, 16), (16, 64), (16, 128), (16, 512), (20, 40), (24, 20), (32, 64), (32, 384), (48, 48), (64, 64), (64, 128),
    (64, 512),
)  # fmt: skip
Array = NDArray[np.float64]


def random_factors(rng: np.random.Generator, kind: str, head_dim: int, hidden: int) -> tuple[Array, Array]:
    """Return query and key at initialisation."""
    if kind == "uniform":
        query, key = rng.uniform(-1.0, 1.0, (2, head_dim, hidden))
    else:
        query, key = rng.standard_normal((2, head_dim, hidden))
    return query, key


def singular_values(query: Array, key: Array) -> Array:
    """Return the non-zero singular values of W_Q'W_K."""
    if len(query) < query.shape[1]:
        query, key = (np.linalg.qr(matrix.T, mode="r").T for matrix in (query, key))
    return np.asarray(np.linalg.svd(query.T @ key, compute_uv=False))


def row(ratio: float, draws: int, rng: np.random.Generator) -> tuple[float, ...]:
    """Return c, shifts of both statistics (normal, then uniform) and standard deviations, times n, and correlation."""
    head_dim = VALUES if ratio <= 1.0 else round(VALUES * ratio)
    hidden = round(head_dim / ratio)
    found = {
        kind: np.array(
            [spread_statistics(singular_values(*random_factors(rng, kind, head_dim, hidden))) for _ in range(draws)]
        )
        for kind in ("normal", "uniform")
    }
    exact = np.array(limiting_statistics(head_dim / hidden))
    shifts = [VALUES * (table.mean(axis=0) - exact) for table in found.values()]
    errors = np.mean([VALUES * table.std(axis=0, ddof=1) for table in found.values()], axis=0)
    correlation = np.mean([np.corrcoef(table.T)[0, 1] for table in found.values()])
    return (head_dim / hidden, *shifts[0], *shifts[1], *errors, float(correlation))


def alarms(draws: int) -> None:
    """Print the verdicts on random heads of many shapes."""
    rng = np.random.default_rng(77)
    for head_dim, hidden in SHAPES:
        for kind in ("normal", "uniform"):
            pairs = (random_factors(rng, kind, head_dim, hidden) for _ in range(draws))
            verdicts = Counter(head_report(*pair, fit=False).verdict for pair in pairs)
            print(
                f"{head_dim} x {hidden} {kind}: {1.0 - verdicts['noise'] / draws:.4f} of {draws}, {dict(verdicts)}",
                flush=True,
            )


def main() -> int:
    """Print the rows of the table, or the rates of false alarms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3000)
    parser.add_argument("--alarms", action="store_true")
    arguments = parser.parse_args()
    if arguments.alarms:
        alarms(arguments.draws)
        return 0
    for ratio in RATIOS:
        numbers = row(ratio, arguments.draws, np.random.default_rng(0))
        print(f"    ({', '.join(f'{number:.4f}' for number in numbers)}),", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
