"""Five laws for the singular values of a head, fitted by maximum likelihood.

* ``untied``: an untied head (U3). Values are c (x - ε), where x > ε are the singular values of a target that is a
  product of two random matrices (relative rank κ₀) plus noise of variance s; a head of width κ = head_dim/hidden keeps
  at most the largest share κ of them (U2.5), so that the law contains the zeros that the shape forces. Parameters κ₀,
  s, ε, c.
* ``tied``: a tied head (5), with the eigenvalues of a Marchenko-Pastur target instead.
* ``marchenko-pastur``: eigenvalues of one random Gram matrix W'W, any width and scale.
* ``noise``: singular values of W_Q'W_K for independent Gaussian W_Q, W_K of the head's own shape, any scale
  (`onehead.weights.null_model.product_law`).
* ``power-law``: density ~ y^-a above the smallest value.

The laws are fitted to the n non-zero values by the likelihood of their spacings (`onehead.weights.spacing_likelihood`).
If there are fewer values than the shape allows, their number is part of the data: laws of trained heads predict it from
the same parameters, for their rivals it counts as one more parameter. The laws of trained heads are in
`onehead.weights.trained`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onehead.errors import InvalidArgument
from onehead.numerics.brent import brent_minimum
from onehead.weights.null_model import product_law
from onehead.weights.spacing_likelihood import (
    LawFit,
    SpectrumData,
    TabulatedLaw,
    angle_grid,
    fitted_law,
    log_likelihood,
    midpoint_cdf,
    spectrum_data,
)
from onehead.weights.trained import MINIMUM_BULK_VALUES, bootstrap_errors, fit_trained, starting_points

Array = NDArray[np.float64]
LawFactory = Callable[[Any], TabulatedLaw]  # from parameters to a law

LAW_NAMES = {
    "untied": "the law of an untied head",
    "tied": "the law of a tied head",
    "marchenko-pastur": "Marchenko-Pastur",
    "power-law": "a pure power law",
    "noise": "two random matrices",
}
# limits of the difference in BIC and the comparison up to each; they correspond to odds of about 3, 20 and 150 to one
BIC_COMPARISONS = ((2.0, "cannot be told from"), (6.0, "fits slightly better than"), (10.0, "fits better than"))
RIVAL_EVALUATIONS = 150  # of the likelihood, for the law of trained heads of the other kind
EDGE_SPACINGS = 3.0  # distance, in spacings, by which the second largest value of a law may exceed what is expected
MISFIT_LEVELS = 5.0  # limit of n KS; spectra sampled from a law stay within 4 of its fit for n from 32 to 130


def fit_laws(
    values: ArrayLike, *, dim: int, width: int | None = None, tied: bool = False, bootstrap: int = 10, seed: int = 0
) -> tuple[LawFit, ...]:
    """Fit the laws of `onehead.weights.law` to the non-zero eigenvalues or singular values of a head.

    Parameters
    ----------
    values : array
        The non-zero values, in any order.
    dim : int
        Number of values including the zeros: the hidden size d.
    width : int, optional
        Number of values that the shape allows to be non-zero: the head dimension. All by default.
    tied : bool
        Whether query and key share their weights; the law of two independent matrices is then left out.
    bootstrap : int
        Number of spectra sampled from the fitted law of the head's own kind to estimate the errors of its parameters.
    seed : int
        Seed of these samples.

    Returns
    -------
    tuple of LawFit
        The law of trained heads of this kind (tied or untied) first, then its rivals.

    Raises
    ------
    InvalidArgument
        If there are fewer than five values, if some are not finite and positive, or if ``dim`` is smaller than their
        number.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> W = rng.standard_normal((60, 200))
    >>> fits = fit_laws(np.linalg.svd(W, compute_uv=False) ** 2, dim=200, width=60, bootstrap=0)
    >>> min(fits, key=lambda fit: fit.bic).law
    'marchenko-pastur'
    """
    y = np.sort(np.asarray(values, dtype=np.float64).ravel())[::-1]
    if y.size < MINIMUM_BULK_VALUES or not np.isfinite(y).all() or y[-1] <= 0.0:
        raise InvalidArgument("values", f"{y.size} values", f"at least {MINIMUM_BULK_VALUES} finite numbers > 0")
    if dim < y.size:
        raise InvalidArgument("dim", dim, f"at least the number of values, {y.size}")
    unit, data = _scaled_data(y, dim, width)
    own = fit_trained(data, tied, starting_points(data, tied))
    errors = bootstrap_errors(data, own, bootstrap, np.random.default_rng(seed))
    other = fit_trained(data, not tied, starting_points(data, not tied, 1), RIVAL_EVALUATIONS)
    fits = [replace(own, errors=errors), other, _fit_marchenko_pastur(data), _fit_power_law(data)]
    if not tied:
        fits.append(_fit_noise(data))
    return tuple(_rescaled(fit, unit, y.size) for fit in fits)


def _scaled_data(values: Array, dim: int, width: int | None) -> tuple[float, SpectrumData]:
    """Return the geometric mean of the values, and the data in units of it, so that fits do not depend on the scale."""
    unit = float(np.exp(np.mean(np.log(values))))
    return unit, spectrum_data(values / unit, dim, dim if width is None else width)


def outliers_belong_to_law(values: Array, outliers: int, *, dim: int, width: int, tied: bool) -> bool:
    """Return whether the values beyond the bulk edge are part of the law of a trained head.

    This law has room for two bulks: the target's own values can be separated from the noise by a gap. The law is fitted
    to all ``values``, in descending order, and must place them, at most one beyond its upper edge. Fewer than five
    outliers are never part of it, since the target of the law has at least five values.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> target = rng.standard_normal((100, 20)) @ rng.standard_normal((20, 100)) / np.sqrt(2000)
    >>> noisy = np.linalg.svd(target + np.sqrt(0.05 / 100) * rng.standard_normal((100, 100)), compute_uv=False)
    >>> values = noisy[noisy > 0.1] - 0.1
    >>> outliers_belong_to_law(values, 15, dim=100, width=100, tied=False)
    True
    """
    if outliers < MINIMUM_BULK_VALUES:
        return False
    unit, data = _scaled_data(values, dim, width)
    own = fit_trained(data, tied, starting_points(data, tied))
    spacing = own.expected[0] - own.expected[1]
    placed = own.ks * values.size <= MISFIT_LEVELS
    return bool(placed and values[1] / unit <= own.expected[0] + EDGE_SPACINGS * spacing)


def _rescaled(fit: LawFit, unit: float, count: int) -> LawFit:
    """Return a fit to ``count`` values in units of ``unit`` in the units of the data."""
    scale_parameters = ("slope", "scale", "smallest")

    def multiplied(row: dict[str, float]) -> dict[str, float]:
        return {name: value * unit if name in scale_parameters else value for name, value in row.items()}

    shift = count * float(np.log(unit))
    return replace(
        fit,
        parameters=multiplied(fit.parameters),
        errors=multiplied(fit.errors),
        expected=fit.expected * unit,
        log_likelihood=fit.log_likelihood - shift,
        bic=fit.bic + 2.0 * shift,
    )


def compare_laws(fits: tuple[LawFit, ...], count: int) -> dict[str, Any]:
    """Return the law with the lowest BIC = k ln n - 2 ln L, its margin to the next, and a sentence about the two.

    The likelihood of ``count`` values accounts for the repulsion of neighbours but not for the rigidity of a whole
    spectrum, so the margins are conservative.
    """
    best, second = sorted(fits, key=lambda fit: fit.bic)[:2]
    margin = second.bic - best.bic
    comparison = next((text for limit, text in BIC_COMPARISONS if margin < limit), "fits far better than")
    sentence = f"{LAW_NAMES[best.law]} {comparison} {LAW_NAMES[second.law]} (BIC lower by {margin:.1f})"
    if best.ks * count > MISFIT_LEVELS:
        sentence += f", but even it does not fit: some value is {best.ks * count:.1f} ranks off"
    return {"best_law": best.law, "bic_margin": margin, "comparison": sentence}


def _negative_log_likelihood(data: SpectrumData, law_of: LawFactory) -> Callable[[Any], float]:
    """Return the negative log-likelihood as a function of the parameters of a law."""

    def cost(parameters: Any) -> float:
        law = law_of(parameters)
        return -log_likelihood(data, law.density(data.values), law.cdf(data.values))

    return cost


def _fit_marchenko_pastur(data: SpectrumData) -> LawFit:
    """Fit width κ₀ and scale of a Marchenko-Pastur law.

    κ₀ <= 1 is sufficient, because the non-zero parts for κ₀ and 1/κ₀ differ by the scale alone.
    """
    from scipy.optimize import minimize

    def law_of(theta: Array) -> TabulatedLaw:
        root, top = 1.0 / (1.0 + np.exp(-theta[0])), float(np.exp(theta[1]))
        scale = top / (1.0 + root) ** 2
        bottom = scale * (1.0 - root) ** 2

        def f(y: Array) -> Array:
            inside: Array = np.clip((top - y) * (y - bottom), 0.0, None)
            return np.asarray(np.sqrt(inside) / (2.0 * np.pi * root**2 * scale * y))

        x, dx = angle_grid(bottom, top)
        return TabulatedLaw(f, x, midpoint_cdf(f(x) * dx))

    top, bottom = 1.02 * data.values[0], 0.98 * data.values[-1]
    root = (np.sqrt(top) - np.sqrt(bottom)) / (np.sqrt(top) + np.sqrt(bottom))
    start = [np.log(root / (1.0 - root)), np.log(top)]
    found = minimize(_negative_log_likelihood(data, law_of), start, method="Nelder-Mead", options={"xatol": 1e-4})
    root = 1.0 / (1.0 + np.exp(-found.x[0]))
    parameters = {"kappa0": float(root**2), "scale": float(np.exp(found.x[1]) / (1.0 + root) ** 2)}
    return fitted_law("marchenko-pastur", data, law_of(found.x), parameters)


def _fit_power_law(data: SpectrumData) -> LawFit:
    """Fit the exponent of a power law that starts half a spacing below the smallest value."""
    count, low = data.values.size, float(data.values[-1])

    def law_of(log_slope: float) -> TabulatedLaw:
        slope = float(np.exp(log_slope))  # exponent - 1
        start = low * (1.0 - 0.5 / count) ** (1.0 / slope)
        cdf = np.linspace(0.0, 1.0 - 1e-6, 2000)

        def f(y: Array) -> Array:
            return np.where(y >= start, slope / start * (np.maximum(y, start) / start) ** (-slope - 1.0), 0.0)

        return TabulatedLaw(f, start * (1.0 - cdf) ** (-1.0 / slope), cdf)

    guess = float(np.log(count / max(float(np.sum(np.log(data.values / low))), 1e-9)))
    cost = _negative_log_likelihood(data, law_of)
    log_slope, _ = brent_minimum(cost, guess - 2.0, guess + 2.0, xatol=1e-4)
    law = law_of(log_slope)
    parameters = {"exponent": 1.0 + float(np.exp(log_slope)), "smallest": float(law.x[0])}
    return fitted_law("power-law", data, law, parameters)


def _fit_noise(data: SpectrumData) -> LawFit:
    """Fit the scale of the product of two random matrices of the head's shape."""
    t, density, mass = product_law(round(data.width / data.dim, 6))
    cdf = midpoint_cdf(mass)
    edge = np.array([t[0] - 0.5 * (t[1] - t[0]), t[-1] + 0.5 * (t[-1] - t[-2])])
    points, heights = np.concatenate([edge[:1], t, edge[1:]]), np.concatenate([[0.0], density, [0.0]])

    def law_of(log_scale: float) -> TabulatedLaw:
        scale = float(np.exp(log_scale))

        def f(y: Array) -> Array:
            return np.asarray(np.interp((y / scale) ** 2, points, heights, left=0.0, right=0.0) * 2.0 * y / scale**2)

        return TabulatedLaw(f, scale * np.sqrt(t), cdf)

    cost = _negative_log_likelihood(data, law_of)
    middle = float(np.log(np.median(data.values) / np.sqrt(np.interp(0.5, cdf, t))))
    grid = middle + np.linspace(-1.0, 1.0, 41)
    start = float(grid[np.argmin([cost(value) for value in grid])])
    log_scale, _ = brent_minimum(cost, start - 0.05, start + 0.05, xatol=1e-5)
    return fitted_law("noise", data, law_of(log_scale), {"scale": float(np.exp(log_scale))})
