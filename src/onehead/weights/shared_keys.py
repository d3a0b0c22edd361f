"""Directions of a key that several queries share.

In grouped-query attention several queries use one key. A direction that the key alone amplifies is an outlier in the
map of each of them, whether or not the query has learned anything. An outlier belongs to the key if its right singular
vector lies in the span of the outliers of the key itself, and the query does not amplify these directions more than its
own bulk. A direction of the key that is no outlier of the map widens the bulk of the map all the same; a query is
therefore compared with random ones without the directions of its key.
"""

import numpy as np
from numpy.typing import NDArray

from onehead.weights.edge import OUTLIER_DISTANCE, bulk_edge, values_beyond

Array = NDArray[np.float64]

# directions of the key beyond its edge plus this many widths are left out: a direction that is not yet certain in the
# key alone can already be an outlier of the map, and leaving out one that is noise does no harm
KEY_DISTANCE = 3.0


def _key_directions(query: Array, key: Array) -> tuple[Array, Array]:
    """Return the directions that the key alone amplifies, in the space of the head and in that of its inputs.

    These are the left and right singular vectors of the key beyond its edge, as columns and as rows, without those that
    the query amplifies more than its bulk.
    """
    head_vectors, key_values, key_vectors = np.linalg.svd(key, full_matrices=False)
    query_values: Array = np.asarray(np.linalg.svd(query, compute_uv=False), dtype=np.float64)
    count, query_edge = values_beyond(key_values, KEY_DISTANCE), bulk_edge(query_values)
    if not count or query_edge is None:
        return head_vectors[:, :0], key_vectors[:0]
    amplification = np.linalg.norm(query.T @ head_vectors[:, :count], axis=0)
    by_key_alone = np.flatnonzero(amplification <= query_edge.position + OUTLIER_DISTANCE * query_edge.width)
    return head_vectors[:, by_key_alone], key_vectors[by_key_alone]


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
    directions = _key_directions(query, key)[1]
    R, (right, T) = np.linalg.qr(query.T)[1], np.linalg.qr(key.T)
    components = np.linalg.svd(R @ T.T)[2][:count] @ right.T
    return tuple(bool(share > 0.5) for share in np.sum((directions @ components.T) ** 2, axis=0))


def without_key_directions(query: Array, key: Array) -> tuple[Array, Array]:
    """Return both factors without the directions of the head that the key alone amplifies, one row fewer for each.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> query, key = rng.standard_normal((2, 32, 256))
    >>> key += 20.0 * np.outer(rng.standard_normal(32), rng.standard_normal(256)) / 16.0
    >>> [matrix.shape for matrix in without_key_directions(query, key)]
    [(31, 256), (31, 256)]
    """
    directions = _key_directions(query, key)[0]
    if not directions.shape[1]:
        return query, key
    rest = np.linalg.svd(directions)[0][:, directions.shape[1] :]
    return rest.T @ query, rest.T @ key
