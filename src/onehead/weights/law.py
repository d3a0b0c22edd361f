"""Five laws for the singular values of a head, fitted by maximum likelihood.

* ``untied``: an untied head (U3). Values are c (x - ε), where x > ε are the singular values of a target that is a product of two
  random matrices (relative rank κ₀) plus noise of variance s; a head of width κ = head_dim/hidden keeps at most the top share κ
  of them (U2.5), which is how zeros that the shape forces enter. Parameters κ₀, s, ε, c.
* ``tied``: a tied head (5), the same with the eigenvalues of a Marchenko-Pastur target.
* ``marchenko-pastur``: eigenvalues of one random Gram matrix W'W, any width and scale.
* ``noise``: singular values of W_Q'W_K for independent Gaussian W_Q, W_K of the head's own shape, any scale
  (`onehead.weights.initial.product_law`).
* ``power-law``: density ~ y^-a above the smallest value.

Fitted are the n values that are not zero, by the likelihood of a chain of repelling values (`onehead.weights.chain`). Where there
are fewer values than the shape allows, their number is part of the data too: laws of trained heads predict it from the same
parameters, their rivals pay one parameter for it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onehead.errors import InvalidArgument
from onehead.numerics.line import lowest_between
from onehead.weights.chain import Data, LawFit, Table, angle_grid, cumulate, describe, finish, log_likelihood
from onehead.weights.initial import product_law
from onehead.weights.trained import BULK, bootstrap_errors, fit_trained, trained_starts

__all__ = ["fit_laws", "judge"]

Array = NDArray[np.float64]
Maker = Callable[[Any], Table]  # the law of some parameters

NAMES = {
    "untied": "the law of an untied head",
    "tied": "the law of a tied head",
    "marchenko-pastur": "Marchenko-Pastur",
    "power-law": "a pure power law",
    "noise": "two random matrices",
}
# differences of BIC and what they are worth: odds of about 3, 20 and 150 to one
STEPS = ((2.0, "cannot be told from"), (6.0, "fits slightly better than"), (10.0, "fits better than"))
RIVAL = 150  # evaluations for the law of a head of the other kind
MISSES = 5.0  # levels: spectra drawn from a law stay within 4 of its fit, n KS, for n from 32 to 130


def fit_laws(
    values: ArrayLike, *, dim: int, width: int | None = None, tied: bool = False, bootstrap: int = 10, seed: int = 0
) -> tuple[LawFit, ...]:
    """Fit the laws to the non-zero eigenvalues or singular values of a head; the law of its own kind comes first.

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
        Spectra drawn from the fitted law of a head, tied or untied as this one is, for its errors.
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
    own = fit_trained(data, tied, trained_starts(data, tied))
    errors = bootstrap_errors(data, own, bootstrap, np.random.default_rng(seed))
    other = fit_trained(data, not tied, trained_starts(data, not tied, 1), RIVAL)
    fits = [replace(own, errors=errors), other, _marchenko_pastur(data), _power_law(data)]
    if not tied:
        fits.append(_noise(data))
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


def judge(fits: tuple[LawFit, ...], count: int) -> dict[str, Any]:
    """Which law describes ``count`` values best, how far its BIC = k ln n - 2 ln L is below that of the next, and a sentence.

    The likelihood knows that neighbours repel each other, not how rigid a whole spectrum is: margins are on the careful side.
    """
    best, second = sorted(fits, key=lambda fit: fit.bic)[:2]
    margin = second.bic - best.bic
    words = next((text for limit, text in STEPS if margin < limit), "fits far better than")
    sentence = f"{NAMES[best.law]} {words} {NAMES[second.law]} (BIC lower by {margin:.1f})"
    if best.ks * count > MISSES:
        sentence += f", but even it misses: some value is {best.ks * count:.1f} places off"
    return {"best_law": best.law, "bic_margin": margin, "comparison": sentence}


def _cost(data: Data, maker: Maker) -> Callable[[Any], float]:
    """Minus the log-likelihood, as a function of the parameters."""

    def cost(parameters: Any) -> float:
        law = maker(parameters)
        return -log_likelihood(data, law.density(data.values), law.share_below(data.values))

    return cost


def _marchenko_pastur(data: Data) -> LawFit:
    """Most likely width κ₀ <= 1 and scale; κ₀ and 1/κ₀ have the same non-zero part but for the scale."""
    from scipy.optimize import minimize  # noqa: PLC0415

    def table(theta: Array) -> Table:
        root, top = 1.0 / (1.0 + np.exp(-theta[0])), float(np.exp(theta[1]))
        scale = top / (1.0 + root) ** 2
        bottom = scale * (1.0 - root) ** 2

        def f(y: Array) -> Array:
            inside: Array = np.clip((top - y) * (y - bottom), 0.0, None)
            return np.asarray(np.sqrt(inside) / (2.0 * np.pi * root**2 * scale * y))

        x, dx = angle_grid(bottom, top)
        return Table(f, x, cumulate(f(x) * dx))

    top, bottom = 1.02 * data.values[0], 0.98 * data.values[-1]
    root = (np.sqrt(top) - np.sqrt(bottom)) / (np.sqrt(top) + np.sqrt(bottom))
    found = minimize(
        _cost(data, table), [np.log(root / (1.0 - root)), np.log(top)], method="Nelder-Mead", options={"xatol": 1e-4}
    )
    root = 1.0 / (1.0 + np.exp(-found.x[0]))
    parameters = {"kappa0": float(root**2), "scale": float(np.exp(found.x[1]) / (1.0 + root) ** 2)}
    return finish("marchenko-pastur", data, table(found.x), parameters)


def _power_law(data: Data) -> LawFit:
    """Most likely exponent above the smallest value, which starts half a spacing below."""
    count, low = data.values.size, float(data.values[-1])

    def table(log_slope: float) -> Table:
        slope = float(np.exp(log_slope))  # exponent - 1
        start = low * (1.0 - 0.5 / count) ** (1.0 / slope)
        below = np.linspace(0.0, 1.0 - 1e-6, 2000)

        def f(y: Array) -> Array:
            return np.where(y >= start, slope / start * (np.maximum(y, start) / start) ** (-slope - 1.0), 0.0)

        return Table(f, start * (1.0 - below) ** (-1.0 / slope), below)

    guess = float(np.log(count / max(float(np.sum(np.log(data.values / low))), 1e-9)))
    log_slope, _ = lowest_between(_cost(data, table), guess - 2.0, guess + 2.0, xatol=1e-4)
    law = table(log_slope)
    parameters = {"exponent": 1.0 + float(np.exp(log_slope)), "smallest": float(law.x[0])}
    return finish("power-law", data, law, parameters)


def _noise(data: Data) -> LawFit:
    """Most likely scale of the product of two random matrices of the head's shape."""
    t, density, mass = product_law(round(data.width / data.dim, 6))
    below = cumulate(mass)
    edge = np.array([t[0] - 0.5 * (t[1] - t[0]), t[-1] + 0.5 * (t[-1] - t[-2])])
    points, heights = np.concatenate([edge[:1], t, edge[1:]]), np.concatenate([[0.0], density, [0.0]])

    def table(log_scale: float) -> Table:
        scale = float(np.exp(log_scale))

        def f(y: Array) -> Array:
            return np.asarray(np.interp((y / scale) ** 2, points, heights, left=0.0, right=0.0) * 2.0 * y / scale**2)

        return Table(f, scale * np.sqrt(t), below)

    cost = _cost(data, table)
    middle = float(np.log(np.median(data.values) / np.sqrt(np.interp(0.5, below, t))))
    grid = middle + np.linspace(-1.0, 1.0, 41)
    start = float(grid[np.argmin([cost(value) for value in grid])])
    log_scale, _ = lowest_between(cost, start - 0.05, start + 0.05, xatol=1e-5)
    return finish("noise", data, table(log_scale), {"scale": float(np.exp(log_scale))})
