"""Statistics of the tokens in front of each layer, and the part of a head's logits that all queries share.

Tokens x with mean μ, second moment M = E xx' and covariance C = M - μμ' have logits x'Ay. Within a row their variance
is tr(A C A'M); the part μ'A C A'μ is the same for every query: a preference for keys that nobody asks for. A direction
u of the query side belongs to it by (μ·u)²/(u'M u). Logit variance is shared out over the singular values of the
whitened map M^1/2 A C^1/2, which serves for shares of variance only: whitening does not clean the bulk of real heads.

The squared force of the loss on the logits a of a head, R = E Σ_b (∂ℓ/∂a_b)² with a mean over rows and ℓ the loss
summed over the text, says how much of the loss sees the head. It takes the place of the information of a sample, so
that weight decay acts on the head with λ √(hidden head_dim)/R.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument
from onehead.sanitize import quoted
from onehead.weights.checkpoint.loading import Source, open_source
from onehead.weights.head_spectrum import MAX_WEIGHT

Array = NDArray[np.float64]

NAME = re.compile(r"(?P<layer>0|[1-9]\d{0,5})\.(?P<kind>mean|second_moment|logit_force)", re.ASCII)
ALLOWED = "a file with the tensors '0.mean' (hidden) and '0.second_moment' (hidden x hidden), and so on for every layer"


class TokenStatistics(NamedTuple):
    """Mean and second moment of the tokens that enter one layer.

    ``logit_force`` is R of every head, if it was collected.
    """

    mean: Array
    second_moment: Array
    logit_force: Array | None = None

    @property
    def covariance(self) -> Array:
        """Covariance of the tokens."""
        return np.asarray(self.second_moment - np.outer(self.mean, self.mean))


def read_activations(source: Source) -> dict[int, TokenStatistics]:
    """Read mean and second moment of the tokens of every layer.

    Parameters
    ----------
    source : str, Path or mapping
        A safetensors file or a mapping with ``{layer}.mean`` of shape (hidden,) and ``{layer}.second_moment`` of shape
        (hidden, hidden), and optionally ``{layer}.logit_force`` of shape (heads,).

    Returns
    -------
    dict
        Layer -> `TokenStatistics`.

    Raises
    ------
    InvalidArgument
        If a tensor is missing, has another shape, is not finite, or is not the second moment of tokens with this mean.

    Examples
    --------
    >>> read_activations({"0.mean": np.zeros(3), "0.second_moment": np.eye(3)})[0].covariance.trace()
    np.float64(3.0)
    """
    checkpoint = open_source(source)
    found: dict[int, dict[str, Array]] = {}
    for name in checkpoint.tensors:
        if match := NAME.fullmatch(name):
            found.setdefault(int(match["layer"]), {})[match["kind"]] = checkpoint.read(name)
    if not found:
        raise InvalidArgument("activations", checkpoint.path.name, ALLOWED)
    return {layer: _checked(layer, parts) for layer, parts in sorted(found.items())}


def _checked(layer: int, parts: Mapping[str, Array]) -> TokenStatistics:
    """Return the statistics of one layer, or raise InvalidArgument."""
    for kind in ("mean", "second_moment"):
        if kind not in parts:
            raise InvalidArgument("activations", f"layer {layer} without {quoted(kind)}", ALLOWED)
        if not (np.abs(parts[kind]) <= MAX_WEIGHT).all():
            raise InvalidArgument("activations", f"{layer}.{kind}", "finite numbers")
    mean, moment = parts["mean"], parts["second_moment"]
    if mean.ndim != 1 or moment.shape != (mean.size, mean.size):
        raise InvalidArgument("activations", f"{layer}.second_moment of shape {moment.shape}", ALLOWED)
    force = parts.get("logit_force")
    if force is not None and (force.ndim != 1 or not (force >= 0.0).all() or not (force <= MAX_WEIGHT).all()):
        raise InvalidArgument("activations", f"{layer}.logit_force", "one number of at least 0 for every head")
    statistics = TokenStatistics(mean, 0.5 * (moment + moment.T), force)
    lowest = float(np.linalg.eigvalsh(statistics.covariance)[0])
    if lowest < -1e-4 * float(np.trace(statistics.second_moment)):  # rounding of float32 statistics
        raise InvalidArgument("activations", f"{layer}.second_moment", f"the second moment of tokens with {layer}.mean")
    return statistics


def unasked_part(query: Array, key: Array, tokens: TokenStatistics) -> dict[str, Any]:
    """Return the fields of a report that depend on the tokens.

    Parameters
    ----------
    query, key : array of shape (head_dim, hidden)
        W_Q and W_K.
    tokens : TokenStatistics
        Of the tokens in front of the layer.

    Returns
    -------
    dict
        ``unasked_share`` of the logit variance within a row; ``unasked_parts`` (μ·u)²/(u'M u) of the query side of
        every direction of A; ``unasked_first``, the share of |A'μ|² in the first direction; ``logit_variance``
        tr(A C A'M), unscaled; ``logit_directions_90``, how many directions of the whitened map carry 90 % of it.

    Raises
    ------
    InvalidArgument
        If query, key and tokens do not have the same number of dimensions.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> tokens = TokenStatistics(np.eye(20)[0], np.eye(20) + np.outer(np.eye(20)[0], np.eye(20)[0]))
    >>> only_mean = unasked_part(np.eye(20)[:1], rng.standard_normal((1, 20)), tokens)
    >>> round(only_mean["unasked_share"], 6), only_mean["unasked_first"]
    (0.5, 1.0)
    """
    mean, moment = tokens.mean, tokens.second_moment
    if not query.shape[1] == key.shape[1] == mean.size:
        raise InvalidArgument("tokens", f"{mean.size} dimensions", f"of {query.shape[1]} dimensions, as the query")
    shared = query @ mean
    of_queries, of_keys = query @ moment @ query.T, key @ tokens.covariance @ key.T
    variance = float(np.sum(of_queries * of_keys))
    left, R = np.linalg.qr(query.T)
    T = np.linalg.qr(key.T)[1]
    U, values, _ = np.linalg.svd(R @ T.T)
    directions = left @ U[:, : values.size]
    along = (mean @ directions) ** 2
    second = np.einsum("ij,ij->j", directions, moment @ directions)
    field = values**2 * along
    whitened = np.sort(np.clip(np.linalg.eigvals(of_queries @ of_keys).real, 0.0, None))[::-1]
    total = float(whitened.sum())
    return {
        "unasked_share": float(shared @ of_keys @ shared) / variance if variance > 0.0 else None,
        "unasked_parts": tuple(float(a / b) if b > 0.0 else 0.0 for a, b in zip(along, second, strict=True)),
        "unasked_first": float(field[0] / field.sum()) if field.sum() > 0.0 else None,
        "logit_variance": variance,
        "logit_directions_90": int(np.searchsorted(np.cumsum(whitened), 0.9 * total) + 1) if total > 0.0 else None,
    }


def force_fields(tokens: TokenStatistics, head: int, hidden: int, head_dim: int) -> dict[str, Any]:
    """Return the fields of a report that depend on the force of the loss on the logits; empty if it is not known.

    Parameters
    ----------
    tokens : TokenStatistics
        Of the layer.
    head : int
        Number of the head.
    hidden, head_dim : int
        Shape of its query weights.

    Returns
    -------
    dict
        ``logit_force`` R, and ``decay_scale`` R/√(hidden head_dim): in units of it, λ is that of a single head with an
        information of one per sample.

    Raises
    ------
    InvalidArgument
        If there are fewer numbers than heads.

    Examples
    --------
    >>> tokens = TokenStatistics(np.zeros(64), np.eye(64), np.array([0.02, 0.04]))
    >>> force_fields(tokens, 1, 64, 16)
    {'logit_force': 0.04, 'decay_scale': 0.00125}
    """
    if tokens.logit_force is None:
        return {}
    if head >= tokens.logit_force.size:
        raise InvalidArgument("activations", f"logit_force of {tokens.logit_force.size} heads", f"head {head} as well")
    force = float(tokens.logit_force[head])
    return {"logit_force": force, "decay_scale": force / float(hidden * head_dim) ** 0.5}
