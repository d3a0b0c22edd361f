"""Eigenvalues of the covariance of the tokens, from the text that describes them (D7).

A spectrum is written ``isotropic``, ``subspace:R`` (the tokens fill a share R of the dimensions),
``levels:SHARE,RATIO`` (a share of the eigenvalues is one, the others are RATIO), ``power:P,D`` (eigenvalues i^-P of D
dimensions) or ``values:c1,c2,...``. All are divided by their mean.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onehead.errors import InvalidArgument

Array = NDArray[np.float64]

ISOTROPIC = "isotropic"
FORMS = "isotropic, subspace:R, levels:SHARE,RATIO, power:P (with a dimension) or a list of eigenvalues"
MAX_VALUES = 4096  # eigenvalues of a list
LARGEST_POWER = 10.0  # exponent of a power law
RANGES = {  # what the numbers of each form may be
    "subspace": "subspace:R with 0 < R <= 1",
    "levels": "levels:SHARE,RATIO with 0 < SHARE < 1 and 0 < RATIO <= 1: a share of the eigenvalues is 1, others RATIO",
    "power": f"power:P with 0 <= P <= {LARGEST_POWER:g}",
}


def check_spectrum(name: str, value: Any, dim: int | None = None) -> str:
    """Return the canonical text of a spectrum; a power law without a dimension gets ``dim``.

    Examples
    --------
    >>> check_spectrum("token_spectrum", "levels:0.5,0.1")
    'levels:0.5,0.1'
    >>> check_spectrum("token_spectrum", "power:1", 60)
    'power:1,60'
    """
    if not isinstance(value, str):
        return _check_list(name, value, value)
    kind, _, rest = value.partition(":")
    if kind == ISOTROPIC and not rest:
        return ISOTROPIC
    try:
        numbers = [float(text) for text in rest.split(",")] if rest else []
    except ValueError:
        raise InvalidArgument(name, value, RANGES.get(kind, FORMS)) from None
    if kind == "values" and numbers:
        return _check_list(name, value, numbers)
    if kind == "subspace" and len(numbers) == 1 and 0.0 < numbers[0] <= 1.0:
        return ISOTROPIC if numbers[0] == 1.0 else f"subspace:{numbers[0]:.12g}"
    if kind == "levels" and len(numbers) == 2 and 0.0 < numbers[0] < 1.0 and 0.0 < numbers[1] <= 1.0:
        return ISOTROPIC if numbers[1] == 1.0 else f"levels:{numbers[0]:.12g},{numbers[1]:.12g}"
    if kind == "power" and len(numbers) in (1, 2) and 0.0 <= numbers[0] <= LARGEST_POWER:
        size = numbers[1] if len(numbers) == 2 else dim
        if size is None:
            raise InvalidArgument(name, value, "given together with dim, the dimension of the power law")
        if size == int(size) and 2 <= size <= MAX_VALUES and dim in (None, size):
            return f"power:{numbers[0]:.12g},{int(size)}"
        raise InvalidArgument(name, value, f"a power law of {dim or f'2 to {MAX_VALUES}'} dimensions")
    raise InvalidArgument(name, value, RANGES.get(kind, FORMS))


def _check_list(name: str, given: Any, numbers: Any) -> str:
    """Return the text of a list of eigenvalues."""
    try:
        values = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(name, given, FORMS) from None
    allowed = values.ndim == 1 and 2 <= len(values) <= MAX_VALUES and bool(np.isfinite(values).all())
    if not allowed or values.min() < 0.0 or values.max() == 0.0:
        raise InvalidArgument(name, given, f"a list of 2 to {MAX_VALUES} eigenvalues >= 0, not all of them zero")
    scaled = values / values.mean()
    return ISOTROPIC if np.ptp(scaled) == 0.0 else "values:" + ",".join(f"{value:.12g}" for value in scaled)


def _numbers(text: str) -> list[float]:
    return [float(number) for number in text.partition(":")[2].split(",")]


def spectrum_dimension(text: str) -> int | None:
    """Dimension of a spectrum that is given for one; None for the others.

    Examples
    --------
    >>> spectrum_dimension("power:1,60"), spectrum_dimension("subspace:0.5")
    (60, None)
    """
    kind = text.partition(":")[0]
    if kind == "power":
        return int(_numbers(text)[1])
    return len(_numbers(text)) if kind == "values" else None


def subspace_share(text: str) -> float | None:
    """Share of the dimensions that the tokens fill, all to the same degree; None for spectra of another shape."""
    if text == ISOTROPIC:
        return 1.0
    return _numbers(text)[0] if text.startswith("subspace:") else None


@lru_cache(maxsize=32)
def spectrum_levels(text: str) -> tuple[Array, Array]:
    """Distinct eigenvalues, whose mean is one, and their shares.

    Examples
    --------
    >>> [part.round(3).tolist() for part in spectrum_levels("subspace:0.5")]
    [[2.0, 0.0], [0.5, 0.5]]
    """
    kind = text.partition(":")[0]
    if kind == ISOTROPIC:
        values, shares = np.ones(1), np.ones(1)
    elif kind == "subspace":
        share = _numbers(text)[0]
        values, shares = np.array([1.0, 0.0]), np.array([share, 1.0 - share])
    elif kind == "levels":
        share, ratio = _numbers(text)
        values, shares = np.array([1.0, ratio]), np.array([share, 1.0 - share])
    else:
        values = eigenvalues(text, spectrum_dimension(text) or 0)
        shares = np.full(len(values), 1.0 / len(values))
    return values / float(values @ shares), shares


def eigenvalues(text: str, dim: int) -> Array:
    """Eigenvalues of a covariance in ``dim`` dimensions, in decreasing order, with mean one.

    Shares of a subspace and of levels are rounded to a number of dimensions, at least one of each kind.
    """
    kind = text.partition(":")[0]
    if kind == ISOTROPIC:
        return np.ones(dim)
    own = spectrum_dimension(text)
    if own is not None and own != dim:
        raise InvalidArgument("dim", dim, f"{own}, the dimension of the token spectrum")
    if kind == "power":
        values = np.arange(1.0, dim + 1.0) ** -_numbers(text)[0]
    elif kind == "values":
        values = np.sort(_numbers(text))[::-1]
    else:
        share, ratio = (*_numbers(text), 0.0)[:2]
        count = min(max(round(share * dim), 1), dim - 1)
        values = np.where(np.arange(dim) < count, 1.0, ratio)
    return np.asarray(values / values.mean())


def rounded_spectrum(text: str, dim: int) -> str:
    """Spectrum of a run of ``dim`` dimensions, whose shares are whole numbers of dimensions.

    Examples
    --------
    >>> rounded_spectrum("levels:0.31,0.1", 40), rounded_spectrum("queries", 40)
    ('levels:0.3,0.1', 'queries')
    """
    kind = text.partition(":")[0]
    if kind not in ("subspace", "levels"):
        return text
    share, *ratio = _numbers(text)
    count = min(max(round(share * dim), 1), dim - 1)
    return f"{kind}:" + ",".join(f"{number:.12g}" for number in (count / dim, *ratio))


def effective_share(text: str) -> float:
    """Participation ratio of the eigenvalues over the dimension, (sum c)²/(d sum c²): one for isotropic tokens.

    Examples
    --------
    >>> effective_share("subspace:0.25"), round(100 * effective_share("power:1,100"), 2)
    (0.25, 16.46)
    """
    values, shares = spectrum_levels(text)
    return float(1.0 / (values**2 @ shares))
