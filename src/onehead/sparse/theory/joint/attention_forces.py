"""Forces of one sample on query and readout, when both are trained together (J1-J3).

The query is measured in units in which the inverse temperature is one: q stands for beta q. The fields of token l are
H_l = q.x_l and G_l = w.x_l; with a = softmax(H), ubar = sum_l a_l G_l and D_l = G_l - ubar, the logit is u = ubar + b.
"""

from typing import NamedTuple

import numpy as np

from onehead.errors import InvalidArgument
from onehead.sparse.losses import Array, Hinge, Loss, SquaredHinge

# Conditional variance, relative to the variance itself, below which a Gaussian counts as determined by the others.
DETERMINED = 1e-9


class JointWeights(NamedTuple):
    """Order parameters of query and readout, W = (q, w): overlaps m = W xi, Gram matrix W W' (with m m'), and bias."""

    overlap: Array
    gram: Array
    bias: float


class Slopes(NamedTuple):
    """Loss l(y u), h = dl/du and c = d^2 l/du^2 of every sample."""

    value: Array
    h: Array
    c: Array


def check_smooth(loss: Loss, verb: str, *, twice: bool = False) -> None:
    """Refuse the hinge, whose l'' is a delta function; with ``twice`` the squared hinge too, whose l'' jumps."""
    if twice and isinstance(loss, (Hinge, SquaredHinge)):
        raise InvalidArgument("loss", str(loss), f"logistic or square for {verb}, which needs a continuous l''")
    if isinstance(loss, Hinge):
        raise InvalidArgument("loss", str(loss), f"logistic, square or squared-hinge for {verb}, which needs l''")


def slopes(loss: Loss, label: Array, logit: Array) -> Slopes:
    """Return the loss and its first two derivatives by the logit."""
    margin = label * logit
    return Slopes(loss.value(margin), label * loss.derivative(margin), loss.curvature(margin))


def forces(att: Array, deviation: Array, h: Array) -> Array:
    """Return g_l = -dl/d(H_l, G_l) = -h a_l (D_l, 1), (n, 2, L) (J1)."""
    common = -h[:, None] * att
    return np.stack([common * deviation, common], axis=1)


def block_trace(att: Array, deviation: Array, h: Array, c: Array) -> Array:
    """Return the sum over tokens of the 2 x 2 blocks of the Hessian of l by (H_l, G_l), (n, 2, 2) (J3)."""
    a_d = att * deviation
    hh = c * np.einsum("nl,nl->n", a_d, a_d) + h * np.einsum("nl,nl->n", a_d, 1.0 - 2.0 * att)
    hg = c * np.einsum("nl,nl->n", a_d, att) + h * np.einsum("nl,nl->n", att, 1.0 - att)
    gg = c * np.einsum("nl,nl->n", att, att)
    return np.stack([np.stack([hh, hg], axis=1), np.stack([hg, gg], axis=1)], axis=1)


def semidefinite_root(gram: Array, root: Array | None = None) -> Array:
    """Return a lower triangular root of a positive semidefinite matrix; determined directions have zero columns.

    ``root`` is the root of a leading block, which is extended.
    """
    size, done = len(gram), 0 if root is None else len(root)
    out = np.zeros((size, size))
    if root is not None:
        out[:done, :done] = root
    for i in range(done, size):
        for j in range(i):
            if out[j, j] > 0.0:
                out[i, j] = (gram[i, j] - out[i, :j] @ out[j, :j]) / out[j, j]
        pivot = gram[i, i] - out[i, :i] @ out[i, :i]
        out[i, i] = np.sqrt(pivot) if pivot > DETERMINED * gram[i, i] else 0.0
    return out
