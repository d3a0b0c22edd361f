"""Compiled parts that all losses share: the softmax of a row, the codes by which kernels know a loss, and
signatures.
"""

import numpy as np
from numba import float64, types

from onehead.numerics.jit import njit

_vector, _matrix = types.Array(float64, 1, "C"), types.Array(float64, 2, "C")
# (logits, label, out): out[b, k] = - d(gradient_b)/d(label logit k)
RESPONSE_SIGNATURE = types.void(_vector, _vector, _matrix)
RESPONSE = types.FunctionType(RESPONSE_SIGNATURE)
CROSS_ENTROPY, SQUARED = 0, 1  # codes of the losses whose Hessian is a diagonal plus two rank-one terms (U2.1)


@njit
def softmax(logits, p):
    """Fill ``p`` with the softmax of ``logits``; no entry loses its relative precision.

    The function is compiled, so that losses of one's own can call it.

    Parameters
    ----------
    logits : array
        Logits of a row.
    p : array
        Array of the same length, which is overwritten.

    Returns
    -------
    None

    Examples
    --------
    >>> import numpy as np
    >>> p = np.empty(2)
    >>> softmax(np.array([0.0, np.log(3.0)]), p)
    >>> p.round(12).tolist()
    [0.25, 0.75]
    """
    if logits.shape[0] == 2:
        d = logits[0] - logits[1]
        e = np.exp(-abs(d))
        high = 1.0 / (1.0 + e)
        low = e * high
        p[0], p[1] = (high, low) if d >= 0.0 else (low, high)
        return
    top = logits[0]
    for b in range(1, logits.shape[0]):
        top = max(top, logits[b])
    total = 0.0
    for b in range(logits.shape[0]):
        p[b] = np.exp(logits[b] - top)
        total += p[b]
    for b in range(logits.shape[0]):
        p[b] /= total
