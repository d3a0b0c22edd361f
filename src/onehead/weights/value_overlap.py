"""Gains and overlaps of the values of the heads of one layer.

Head h adds V_h x_b to its output, V_h = W_O^h W_V^h. For isotropic tokens the squared loss of a layer depends on the
values through G_hk = tr(V_h'V_k)/d alone; G_hh is the gain of a head and ρ_hk = G_hk/sqrt(G_hh G_kk) says how much two
heads share their values. Without overlap heads decouple: each is a single head with weight decay λ/G_hh. For other
tokens their covariance C is inserted, G_hk = tr(V_h'V_k C)/d.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument

Array = NDArray[np.float64]

# overlap up to which the theory of decoupled heads is right to one per cent in overlaps and errors; at 0.5 it is off by
# up to five per cent
DECOUPLED_OVERLAP = 0.2


def value_overlaps(
    values: Sequence[Array], outputs: Sequence[Array], covariance: Array | None = None
) -> tuple[Array, Array]:
    """Return the gains G_hh and the overlaps ρ_hk of the heads of a layer.

    Parameters
    ----------
    values, outputs : sequence of array
        W_V (head_dim x hidden) and W_O (hidden x head_dim) of every head.
    covariance : array, optional
        Covariance of the tokens; the identity by default.

    Returns
    -------
    gains, overlaps : array
        Of shapes (heads,) and (heads, heads). Overlaps with a head of zero values are zero.

    Raises
    ------
    InvalidArgument
        If values and outputs do not have the same shapes, transposed.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> values, outputs = rng.standard_normal((2, 4, 60)), rng.standard_normal((2, 60, 4))
    >>> gains, overlaps = value_overlaps(values, outputs)
    >>> round(float(overlaps[0, 0]), 6), bool(abs(overlaps[0, 1]) < 0.2)
    (1.0, True)
    """
    if not len(values) or [value.T.shape for value in values] != [output.shape for output in outputs]:
        allowed = "one matrix for every head, of the shape of its values transposed"
        raise InvalidArgument("outputs", f"{len(outputs)} matrices", allowed)
    hidden = values[0].shape[1]
    spread = [value if covariance is None else value @ covariance for value in values]
    count = len(values)
    gram = np.zeros((count, count))
    for h in range(count):
        for k in range(h, count):
            # only head_dim x head_dim products: tr(W_V^h' W_O^h' W_O^k W_V^k C)
            gram[h, k] = gram[k, h] = np.sum((outputs[h].T @ outputs[k]) * (values[h] @ spread[k].T)) / hidden
    scale = np.sqrt(np.clip(np.diag(gram), 0.0, None))
    product = np.outer(scale, scale)
    return np.diag(gram).copy(), np.divide(gram, product, out=np.zeros_like(gram), where=product > 0.0)
