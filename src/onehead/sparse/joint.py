"""Query and readout trained together by gradient descent on all the data: not in the theory, but beside it."""

import numpy as np
from numpy.typing import NDArray

from onehead.sparse.fit import Readout
from onehead.sparse.task import Protocol

__all__ = ["descend"]

Array = NDArray[np.float64]

STEPS = 400
FLAT = 1e-7  # relative fall of the objective per step at which the descent stops


def descend(label: Array, tokens: Array, protocol: Protocol) -> tuple[Array, Readout]:
    """Minimise (1/n) sum l(y (f_q(X).w + b)) + (ridge/2)|w|^2 over q, w and b, from zero.

    Plain gradient descent; the step grows while the objective falls and is halved when it does not (Armijo).
    At the origin the query has no gradient, so the first step is that of the protocol: readout first, query
    next. Returns the query and the readout.
    """
    dim = tokens.shape[2]
    q, w, b = np.zeros(dim), np.zeros(dim), 0.0
    rate = 1.0
    value, g_q, g_w, g_b = _objective(label, tokens, protocol, q, w, b)
    for _ in range(STEPS):
        slope = float(g_q @ g_q + g_w @ g_w + g_b * g_b)
        while rate > 1e-12:
            trial = (q - rate * g_q, w - rate * g_w, b - rate * g_b)
            new = _objective(label, tokens, protocol, *trial)
            if new[0] <= value - 1e-4 * rate * slope:
                break
            rate *= 0.5
        else:
            break
        (q, w, b), fall = trial, value - new[0]
        value, g_q, g_w, g_b = new
        rate *= 1.5
        if fall < FLAT * value:
            break
    residual = float(np.sqrt(g_q @ g_q + g_w @ g_w + g_b * g_b))
    return q, Readout(w, b, residual)


def _objective(
    label: Array, tokens: Array, protocol: Protocol, q: Array, w: Array, b: float
) -> tuple[float, Array, Array, float]:
    """The objective and its gradients in q, w and b.

    dL/dq = (beta/n) sum_i h_i X_i' (diag(att) - att att') X_i w.
    """
    n, loss, beta = len(label), protocol.loss, protocol.beta
    logits = beta * (tokens @ q)
    att = np.exp(logits - logits.max(axis=1, keepdims=True))
    att /= att.sum(axis=1, keepdims=True)
    scores = tokens @ w
    seen = np.einsum("nl,nl->n", att, scores)
    margin = label * (seen + b)
    h = label * loss.derivative(margin) / n
    value = float(loss.value(margin).mean() + 0.5 * protocol.ridge * (w @ w))
    flat = tokens.reshape(-1, tokens.shape[2])
    g_w = (h[:, None] * att).ravel() @ flat + protocol.ridge * w
    g_q = beta * ((h[:, None] * att * (scores - seen[:, None])).ravel() @ flat)
    return value, g_q, g_w, float(h.sum())
