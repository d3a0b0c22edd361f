"""Training of several heads that add to one output: targets, loss and values of a layer, and its measures (M1, M7).

The values of the learner's heads are combinations of those of the target's heads, V_h = sum_k B_hk V*_k, with the
identity for B where they are fixed; for large d the loss of a sample then depends on them through their Gram matrix.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onehead.aim.losses import LOSSES
from onehead.aim.task import Task
from onehead.aim.training.data import Samples
from onehead.aim.training.logits import Rows
from onehead.aim.training.objective import OutputLoss
from onehead.aim.training.parametrisation import Parametrisation
from onehead.errors import InvalidArgument
from onehead.numerics.jit import njit

Array = NDArray[np.float64]
MakeRows = Callable[[], Iterable[Rows]]

ZERO_MAP = 1e-3  # largest singular value below which a map counts as zero
MAX_SWEEPS = 50  # over the signs of the singular vectors of a target


@njit
def _softmaxes(logits, beta, p):  # type: ignore[no-untyped-def]
    """Fill p[h, b] with the softmax of beta times the logits (H, T) of a row."""
    heads, tokens = logits.shape
    for h in range(heads):
        largest = np.float64(logits[h, 0])
        for b in range(1, tokens):
            largest = max(largest, np.float64(logits[h, b]))
        normaliser = 0.0
        for b in range(tokens):
            p[h, b] = np.exp(beta * (np.float64(logits[h, b]) - largest))
            normaliser += p[h, b]
        for b in range(tokens):
            p[h, b] /= normaliser


@njit
def layer_moments(logits, y, beta, squares, products):  # type: ignore[no-untyped-def]
    """Add sums of A_hb A_kb over samples, rows and columns to ``squares``, those of A_hb y_kb to ``products``."""
    heads, count, tokens, _ = logits.shape
    targets = len(y)
    p = np.empty((heads, tokens))
    for i in range(count):
        for a in range(tokens):
            _softmaxes(logits[:, i, a], beta, p)
            for h in range(heads):
                for b in range(tokens):
                    for k in range(heads):
                        squares[h, k] += p[h, b] * p[k, b]
                    for k in range(targets):
                        products[h, k] += p[h, b] * y[k, i, a, b]


@njit
def _sum_layer_losses(logits, y, beta, values, gram, gradients):  # type: ignore[no-untyped-def]
    """Sum of r'Gr with r = B'A - y over samples, rows and columns; fills the gradients in the logits."""
    heads, count, tokens, _ = logits.shape
    targets = len(y)
    p, force = np.empty((heads, tokens)), np.empty((heads, tokens))
    r, pull = np.empty(targets), np.empty(targets)
    total = 0.0
    for i in range(count):
        for a in range(tokens):
            _softmaxes(logits[:, i, a], beta, p)
            for b in range(tokens):
                for k in range(targets):
                    r[k] = -y[k, i, a, b]
                    for h in range(heads):
                        r[k] += values[h, k] * p[h, b]
                for k in range(targets):
                    pull[k] = 0.0
                    for j in range(targets):
                        pull[k] += gram[k, j] * r[j]
                    total += pull[k] * r[k]
                for h in range(heads):
                    slope = 0.0
                    for k in range(targets):
                        slope += values[h, k] * pull[k]
                    force[h, b] = 2.0 * slope * p[h, b]
            for h in range(heads):
                mean = 0.0
                for b in range(tokens):
                    mean += force[h, b]
                for b in range(tokens):
                    gradients[h, i, a, b] = beta * (force[h, b] - p[h, b] * mean)
    return total


def _by_head(labels: Array) -> Array:
    """Labels of all heads of the target, (heads, count, T, T), also where there is one."""
    return labels if labels.ndim == 4 else labels[None]


def value_gram(task: Task) -> Array:
    """Gram matrix G of the values of the target's heads, tr(V_h'V_k)/d (M1)."""
    return np.asarray((1.0 - task.sharing) * np.eye(task.heads) + task.sharing)


@dataclass(frozen=True, kw_only=True)
class LayerLoss:
    """Squared loss of the sum of several heads: r'Gr with r = B'A - y, summed over rows and columns.

    Attributes
    ----------
    value_gram : array of shape (K, K)
        Gram matrix of the values of the target's heads.
    beta : float
        Inverse temperature of the learner's softmax.
    value_decay : float or None
        Weight decay on learnt values, which are the least-squares ones at every step; None for values that are fixed
        to those of the target.
    """

    value_gram: Array
    beta: float = 1.0
    value_decay: float | None = None
    loss: str = "squared"
    output: str = "label"

    def visible_to(self, tokens: int) -> NDArray[np.bool_]:
        """Matrix of the columns that each row attends to: all."""
        return np.ones((tokens, tokens), dtype=bool)

    def sum(self, logits: Array, y: Array, values: Array) -> tuple[float, Array]:
        """Sum over samples with these values B, and its gradient in the logits (heads, count, T, T)."""
        gradients = np.empty_like(logits)
        return float(_sum_layer_losses(logits, y, self.beta, values, self.value_gram, gradients)), gradients

    def total(self, rows: MakeRows, maps: Array) -> tuple[float, Array]:
        """Sum over all samples, decay of learnt values included, and its gradient in the maps (heads, d, d).

        The gradient is that at fixed values: learnt ones are at their minimum.
        """
        values = self.values(rows, maps)
        total, gradients = self._decay_of(values, maps.shape[-1]), np.zeros(maps.shape)
        for one in rows():
            value, G = self.sum(np.stack([one.logits(S) for S in maps]), _by_head(one.chunk.labels), values)
            total += value
            for h in range(len(maps)):
                gradients[h] += one.gradient(G[h])
        return total, gradients

    def values(self, rows: MakeRows, maps: Array) -> Array:
        """B: the identity, or the least-squares values at these maps (M7)."""
        if self.value_decay is None:
            return np.eye(len(maps))
        squares, products = np.zeros((len(maps), len(maps))), np.zeros((len(maps), len(self.value_gram)))
        for one in rows():
            logits = np.stack([one.logits(S) for S in maps])
            layer_moments(logits, _by_head(one.chunk.labels), self.beta, squares, products)
        shift = 0.5 * self.value_decay * maps.shape[-1] ** 2
        return np.asarray(np.linalg.solve(squares + shift * np.eye(len(maps)), products))

    def _decay_of(self, values: Array, dim: int) -> float:
        """Penalty λ_v d/2 sum_h |V_h|², with |V_h|² = d (B G B')_hh."""
        if self.value_decay is None:
            return 0.0
        return 0.5 * self.value_decay * dim**2 * float(np.sum((values @ self.value_gram) * values))


def check_target_maps(maps: ArrayLike, task: Task, dim: int) -> Array:
    """Return targets given by the user if they are a finite array of shape (heads, dim, dim)."""
    S: Array = np.asarray(maps, dtype=np.float64)
    if S.shape != (task.heads, dim, dim):
        raise InvalidArgument("target_map", S.shape, f"an array of shape ({task.heads}, {dim}, {dim})")
    if not np.isfinite(S).all():
        raise InvalidArgument("target_map", "an entry that is not finite", "an array of finite numbers")
    return S


def draw_targets(task: Task, dim: int, rng: np.random.Generator) -> Array:
    """Sample the maps of all heads of the target, of overlaps that are as small as signs of singular vectors allow.

    The theory is for targets without overlaps. Those of independent targets are of order 1/d, as large as the overlaps
    q and m between heads at d = 30. A law that singular vectors have no part in is the same for either sign of each.
    """
    maps = [task.target.draw(dim, rng, tied=False)]
    for _ in range(task.heads - 1):
        left, values, right = np.linalg.svd(task.target.draw(dim, rng, tied=False))
        # overlaps of one singular direction with all maps so far
        parts = values[:, None] * np.einsum("ai,hab,ib->ih", left, np.array(maps), right, optimize=True)
        maps.append((left * (values * _balancing_signs(parts))) @ right)
    return np.array(maps)


def _balancing_signs(parts: Array) -> Array:
    """Signs e_i for which the vector sum_i e_i parts_i is short: greedily, then by changing up to two at a time."""
    signs, total = np.ones(len(parts)), np.zeros(parts.shape[1])
    for i in np.argsort(-np.linalg.norm(parts, axis=1), kind="stable"):
        signs[i] = -1.0 if float(total @ parts[i]) > 0.0 else 1.0
        total += signs[i] * parts[i]
    products = parts @ parts.T
    for _ in range(MAX_SWEEPS):
        signed = signs[:, None] * signs * products
        # change of |total|² when the signs of i and j are changed; on the diagonal that of i alone
        one = -4.0 * signed.sum(axis=1) + 4.0 * np.diag(signed)
        both = one[:, None] + one + 8.0 * signed
        np.fill_diagonal(both, one)
        i, j = np.unravel_index(int(np.argmin(both)), both.shape)
        if both[i, j] >= -1e-15 * np.trace(products):
            break
        signs[[i, j]] = -signs[[i, j]]
    return signs


def matched(maps: Array, values: Array) -> tuple[Array, Array]:
    """Heads in the order of the targets whose values they have most of: learnt values leave the order open."""
    from scipy.optimize import linear_sum_assignment

    heads, wanted = linear_sum_assignment(-np.abs(values))
    order = heads[np.argsort(wanted)]
    return maps[order], values[order]


def measure_layer(
    loss: LayerLoss, maps: Array, values: Array, instance: Any, weights: Parametrisation
) -> dict[str, Any]:
    """Numbers of a `TrainingRun` of a layer: errors on fresh samples, overlaps, singular values.

    Parameters
    ----------
    loss : LayerLoss
        Loss of the layer.
    maps, values : array
        Maps (H, d, d) and values B of the learner.
    instance : Instance
        Targets and fresh samples.
    weights : Parametrisation
        Parametrisation of the maps, which knows what counts as a zero singular value.
    """
    heads, d = len(maps), maps.shape[-1]
    targets = instance.target.reshape(-1, d, d)
    error, clean, cross_entropy, head_error = _errors(loss, maps, values, instance.test)
    spectra = np.array([weights.spectrum(S) for S in maps])
    largest = spectra.max(axis=1, keepdims=True)
    q, m = (np.einsum("hab,kab->hk", maps, others) / d for others in (maps, targets))
    between = ~np.eye(heads, dtype=bool)
    mean = float(values.sum() / heads)
    several = (
        {
            "q_cross": float(np.mean(q[between])),
            "m_cross": float(np.mean(m[between])),
            "head_error": head_error,
        }
        if heads > 1
        else {}
    )
    return {
        "test_error": error,
        "test_error_clean": clean,
        "test_loss": error,
        "test_cross_entropy": cross_entropy,
        "zero_one_error": None,
        "sectors": None,
        "rank": float(np.mean((spectra > weights.zero_tolerance * largest) & (largest > ZERO_MAP))),
        "q": float(np.mean(np.diag(q))),
        "m": float(np.mean(np.diag(m))),
        **several,
        "value_scale": (mean, float((np.trace(values) - mean) / (heads - 1)) if heads > 1 else mean),
        "head_overlaps": {"q": q.tolist(), "m": m.tolist()},
        "eigenvalues": spectra.ravel(),
    }


def _errors(loss: LayerLoss, maps: Array, values: Array, test: Samples) -> list[float]:
    """Test error with and without noise, cross-entropy of all heads, and mean squared error of one head alone."""
    single = [OutputLoss(loss=LOSSES[name], beta=loss.beta) for name in ("cross-entropy", "squared")]
    totals = np.zeros(4)
    for chunk in test:
        y, clean = _by_head(chunk.labels), _by_head(chunk.clean)
        rows = Rows(chunk, loss.visible_to(len(chunk.tokens)))
        logits = np.stack([rows.logits(S) for S in maps.astype(chunk.tokens.dtype)])
        apart = [sum(own(logits[h][None], y[h], None)[0] for h in range(len(maps))) for own in single]
        totals += [loss.sum(logits, y, values)[0], loss.sum(logits, clean, values)[0], *apart]
    found: list[float] = (totals / test.count / [1.0, 1.0, 1.0, len(maps)]).tolist()
    return found
