"""Four laws for the singular values of a head, fitted by maximum likelihood.

* ``trained``: the trained-head law (5). Values are c (x - ε), where x > ε follows a Marchenko-Pastur target
  (κ₀) freely convolved with a semicircle of variance s; a head of width κ = head_dim/hidden keeps at most the top share κ of
  them (3), which is how zeros that the shape forces enter. Parameters κ₀, s, ε, c.
* ``marchenko-pastur``: eigenvalues of one random Gram matrix W'W, any width and scale.
* ``noise``: singular values of W_Q'W_K for independent Gaussian W_Q, W_K of the head's own shape, any scale. With
  c = head_dim/hidden, the squares t have x g(x) = G with c²G³ + 2c(1-c)G² + ((1-c)² - t)G + t = 0, the product of two free
  Marchenko-Pastur laws.
* ``power-law``: density ~ y^-a above the smallest value.

Fitted are the n values that are not zero, by the likelihood of a chain of repelling values (`onehead.weights.chain`). Where there are fewer values than the shape allows, their number is part of the data too: the trained law predicts it from the
same parameters, its rivals pay one parameter for it.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from onehead.errors import InvalidArgument
from onehead.weights.chain import LawFit, describe
from onehead.weights.rivals import fit_marchenko_pastur, fit_noise, fit_power_law
from onehead.weights.trained import BULK, bootstrap_errors, fit_trained, trained_starts

__all__ = ["fit_laws"]


def fit_laws(
    values: ArrayLike, *, dim: int, width: int | None = None, tied: bool = False, bootstrap: int = 10, seed: int = 0
) -> tuple[LawFit, ...]:
    """Fit the laws to the non-zero eigenvalues or singular values of a head.

    Parameters
    ----------
    values : array
        The non-zero ones.
    dim : int
        How many there are with the zeros: the hidden size d.
    width : int, optional
        How many the shape allows to be non-zero: the head dimension. All by default.
    tied : bool
        Whether query and key share their weights; two independent matrices are then no rival.
    bootstrap : int
        Spectra drawn from the fitted trained-head law for its errors.
    seed : int
        Of these draws.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> W = rng.standard_normal((60, 200))
    >>> fits = fit_laws(np.linalg.svd(W, compute_uv=False) ** 2, dim=200, width=60, bootstrap=0)
    >>> min(fits, key=lambda fit: fit.bic).law
    'marchenko-pastur'
    """
    y = np.sort(np.asarray(values, dtype=np.float64).ravel())[::-1]
    if y.size < BULK or not np.isfinite(y).all() or y[-1] <= 0.0:
        raise InvalidArgument("values", f"{y.size} values", f"at least {BULK} finite numbers > 0")
    if dim < y.size:
        raise InvalidArgument("dim", dim, f"at least the number of values, {y.size}")
    unit = float(np.exp(np.mean(np.log(y))))  # fitted in units of the typical value, so that no scale is special
    data = describe(y / unit, dim, dim if width is None else width)
    trained = fit_trained(data, trained_starts(data))
    errors = bootstrap_errors(data, trained, bootstrap, np.random.default_rng(seed))
    fits = [replace(trained, errors=errors), fit_marchenko_pastur(data), fit_power_law(data)]
    if not tied:
        fits.append(fit_noise(data))
    return tuple(_in_units(fit, unit, y.size) for fit in fits)


def _in_units(fit: LawFit, unit: float, count: int) -> LawFit:
    """A fit in the units of the data: everything named a scale grows, densities shrink."""
    scales = ("slope", "scale", "smallest")

    def grow(row: dict[str, float]) -> dict[str, float]:
        return {name: value * unit if name in scales else value for name, value in row.items()}

    shift = count * float(np.log(unit))
    return replace(
        fit,
        parameters=grow(fit.parameters),
        errors=grow(fit.errors),
        expected=fit.expected * unit,
        log_likelihood=fit.log_likelihood - shift,
        bic=fit.bic + 2.0 * shift,
    )
