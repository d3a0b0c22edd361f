"""The plain solver of the head: fresh Monte-Carlo samples at every turn, one scipy minimisation per sample, damping.

It is given more than a first version would have: the gradient of the prox objective, the reduction to two coordinates
(T = 2), a start at the label, and an average over the last turns.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]

COVARIANCE = np.array([[3.0, 1.0], [1.0, 3.0]])  # of u = (h11 - h12, h22 - h12), per unit of variance (2.5)
METRIC = np.linalg.inv(COVARIANCE)
ROOT = np.linalg.cholesky(COVARIANCE)


@dataclass(frozen=True)
class Point:
    """The problem: an MP target and a factorised learner, T = 2 (1)."""

    kappa0: float = 0.5
    noise: float = 0.5
    decay: float = 0.01
    alpha: float = 0.5

    @property
    def power(self) -> float:
        """Q = Q0 + Δ/2."""
        return 1.0 + self.kappa0 + 0.5 * self.noise


def sigmoid(u: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-u))


def prox(v: Array, label: Array, sigma: float) -> Array:
    """argmin_u (u - v)' C^-1 (u - v) / (2 Σ) + 2 sum_i (sig(u_i) - y_i)², one minimisation for one sample (2.5)."""
    y = sigmoid(label)

    def cost(u: Array) -> tuple[float, Array]:
        p, pull = sigmoid(u), METRIC @ (u - v) / sigma
        gap = p - y
        return float(0.5 * (u - v) @ pull + 2.0 * gap @ gap), pull + 4.0 * gap * p * (1.0 - p)

    return np.asarray(minimize(cost, label, jac=True, method="BFGS").x)


def blurred(kappa0: float, s: float, points: int = 1500) -> tuple[Array, Array, Array]:
    """Grid, density and Re g of the MP law with a semicircle of variance s: the cubic (5) at every point."""
    k = np.sqrt(kappa0)
    x = np.linspace(-2.0 * np.sqrt(s) - 0.1, (1.0 + k) ** 2 / k + 2.0 * np.sqrt(s) + 0.1, points)
    g = np.empty(points, dtype=complex)
    for i, at in enumerate(x):
        roots = np.roots([s / k, -(at / k + s), at + 1.0 / k - k, -1.0])
        g[i] = roots[np.argmin(roots.imag)]
    return x, -g.imag / np.pi, g.real


def input_side(point: Point, q_hat: float, m_hat: float, sigma_hat: float) -> tuple[float, float, float]:
    """(q, m, Σ) from the hats by the trapezoidal rule (2.3)."""
    s, eps, slope = q_hat / m_hat**2, 2.0 * point.decay / m_hat, m_hat / sigma_hat
    x, density, g = blurred(point.kappa0, s)
    over = np.maximum(x - eps, 0.0)
    J, B = np.trapezoid(density * over**2, x), np.trapezoid(density * over, x)
    A = np.trapezoid(2.0 * density * over * g, x)
    return float(slope**2 * J), float(slope * (J + eps * B - s * A)), float(A / sigma_hat)


def turn(
    point: Point, state: tuple[float, float, float], samples: int, rng: np.random.Generator
) -> tuple[tuple[float, float, float], float]:
    """One turn of the equations on fresh samples (2.2, Stein form), and the test error on the same samples."""
    q, m, sigma = state
    Q, alpha = point.power, point.alpha
    label = np.sqrt(Q) * rng.standard_normal((samples, 2)) @ ROOT.T
    v = m / Q * label + np.sqrt(max(q - m * m / Q, 0.0)) * rng.standard_normal((samples, 2)) @ ROOT.T
    moved = np.array([prox(v[i], label[i], sigma) for i in range(samples)]) - v
    pulled = moved @ METRIC
    distance, along_label, along_own = (float(np.mean(np.sum(pulled * other, axis=1))) for other in (moved, label, v))
    area = sigma * (Q * q - m * m)
    q_hat = 2.0 * alpha * distance / sigma**2
    m_hat = 2.0 * alpha * (q * along_label - m * along_own) / area
    sigma_hat = -2.0 * alpha * (Q * along_own - m * along_label) / area
    test = float(np.mean(2.0 * np.sum((sigmoid(v) - sigmoid(label)) ** 2, axis=1)))
    return input_side(point, q_hat, m_hat, sigma_hat), test


def solve(
    point: Point, *, samples: int, turns: int, warm_up: int, rng: np.random.Generator, damping: float = 0.5
) -> list[float]:
    """Test errors of every turn after the warm-up, from the start a person would take: q = Q0, m = 0.9 Q0, Σ = 1."""
    state = (1.0 + point.kappa0, 0.9 * (1.0 + point.kappa0), 1.0)
    found = []
    for step in range(warm_up + turns):
        new, test = turn(point, state, samples, rng)
        state = tuple(damping * a + (1.0 - damping) * b for a, b in zip(new, state, strict=True))  # type: ignore[assignment]
        if step >= warm_up:
            found.append(test)
    return found
