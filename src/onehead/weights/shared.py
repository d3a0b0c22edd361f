"""Which outliers of a head belong to a key that it shares with other queries.

In grouped-query attention several queries read one key. A direction that the key alone amplifies stands out in the map of every one of
them, whether or not the query has learned anything. It is the key's if its right singular vector lies in the directions in which the
key stands out from its own bulk, and the query does not amplify them more than its own bulk does.
"""

import numpy as np
from numpy.typing import NDArray

from onehead.weights.edge import BEYOND, bulk_edge

__all__ = ["belongs_to_key"]

Array = NDArray[np.float64]


def belongs_to_key(query: Array, key: Array, count: int) -> tuple[bool, ...]:
    """For each of the ``count`` largest singular components of W_Q'W_K, whether it is the key's alone.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> query, key = rng.standard_normal((2, 32, 256))
    >>> strong = 20.0 * np.outer(rng.standard_normal(32), rng.standard_normal(256)) / 16.0
    >>> belongs_to_key(query, key + strong, 1), belongs_to_key(query + strong, key, 1)
    ((True,), (False,))
    """
    if not count:
        return ()
    R, T = (np.linalg.qr(matrix.T)[1] for matrix in (query, key))
    inner, sizes, own = np.linalg.svd(T.T)  # left: the head's own space; right: in the basis of the key's rows
    edge, limit = bulk_edge(sizes), bulk_edge(np.linalg.svd(R, compute_uv=False))
    if edge is None or limit is None or not edge.outliers:
        return (False,) * count
    right = np.linalg.svd(R @ T.T)[2]
    plain = np.linalg.norm(R @ inner[:, : edge.outliers], axis=0) <= limit.position + BEYOND * limit.width
    quiet = own[: edge.outliers][plain]
    return tuple(bool(np.sum((quiet @ right[i]) ** 2) > 0.5) for i in range(count))
