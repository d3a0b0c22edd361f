"""Attribution of outliers to a key that several queries share.

In grouped-query attention several queries use one key. A direction that the key alone amplifies is an outlier in the
map of each of them, whether or not the query has learned anything. An outlier belongs to the key if its right singular
vector lies in the span of the outliers of the key itself, and the query does not amplify these directions more than its
own bulk.
"""

import numpy as np
from numpy.typing import NDArray

from onehead.weights.edge import OUTLIER_DISTANCE, bulk_edge

__all__ = ["belongs_to_key"]

Array = NDArray[np.float64]


def belongs_to_key(query: Array, key: Array, count: int) -> tuple[bool, ...]:
    """Return for each of the ``count`` largest singular components of W_Q'W_K whether it belongs to the key alone.

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
    # left vectors lie in the space of dimension head_dim, right vectors in the basis of the rows of the key
    head_vectors, key_values, key_vectors = np.linalg.svd(T.T)
    key_edge, query_edge = bulk_edge(key_values), bulk_edge(np.linalg.svd(R, compute_uv=False))
    if key_edge is None or query_edge is None or not key_edge.outliers:
        return (False,) * count
    right = np.linalg.svd(R @ T.T)[2]
    amplification = np.linalg.norm(R @ head_vectors[:, : key_edge.outliers], axis=0)
    by_key_alone = amplification <= query_edge.position + OUTLIER_DISTANCE * query_edge.width
    directions = key_vectors[: key_edge.outliers][by_key_alone]
    return tuple(bool(np.sum((directions @ right[i]) ** 2) > 0.5) for i in range(count))
