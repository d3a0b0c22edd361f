"""The plain solver of the sparse task's stage four: fresh samples at every turn, one scipy minimisation per prox."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stage:
    """A positive sequence has ``strength`` in one of ``length`` tokens; the query is given (S4.1)."""

    length: int = 10
    strength: float = 5.0
    cos_query: float = 0.9
    sharpness: float = 2.0
    alpha: float = 1.5
    ridge: float = 1e-2


def draw(stage: Stage, samples: int, rng: np.random.Generator) -> tuple[Array, Array, Array, Array, Array]:
    """Fresh (y, G, K, tau, g), half of the samples positive."""
    y = np.where(np.arange(samples) % 2 == 0, 1.0, -1.0)
    x = rng.standard_normal((samples, stage.length))
    x[:, 0] += np.where(y > 0.0, stage.strength * stage.cos_query, 0.0)
    weight = np.exp(stage.sharpness * (x - x.max(axis=1, keepdims=True)))
    weight /= weight.sum(axis=1, keepdims=True)
    rest = stage.strength * np.sqrt(1.0 - stage.cos_query**2)
    G, K = np.sum(weight * x, axis=1), np.where(y > 0.0, rest * weight[:, 0], 0.0)
    return y, G, K, np.sqrt(np.sum(weight**2, axis=1)), rng.standard_normal(samples)


def prox(t: float, step: float) -> float:
    """argmin_p log(1 + e^-p) + (p - t)² / (2 step)."""

    def cost(p: float) -> float:
        return float(np.logaddexp(0.0, -p) + (p - t) ** 2 / (2.0 * step))

    found = minimize_scalar(cost, bounds=(t, t + step), method="bounded", options={"xatol": 1e-9})
    return float(found.x)


def solve(stage: Stage, *, samples: int, turns: int, warm_up: int, rng: np.random.Generator) -> list[float]:
    """Test errors of every turn after the warm-up: the damped iteration of 4.4 with fresh samples."""
    a, m, b, rp, chi = 0.0, 0.1, 0.0, 1.0, 1.0 / (stage.alpha * (stage.ridge + 0.1))
    found = []
    for turn in range(warm_up + turns):
        y, G, K, tau, g = draw(stage, samples, rng)
        r = np.hypot(m, rp)
        c = a * G + m * K + b
        step = chi * tau**2
        if turn >= warm_up:
            found.append(float(np.mean(ndtr(-y * c / (tau * r)))))
        p = np.array([prox(t, size) for t, size in zip(y * (c + tau * r * g), step, strict=True)])
        odds = 1.0 / (1.0 + np.exp(p))
        h, bend = -y * odds, odds * (1.0 - odds)
        bend /= 1.0 + step * bend
        D = np.stack([G, np.ones_like(G)])
        J = (D * bend) @ D.T / samples + np.diag([stage.ridge, 0.0]) + 1e-9 * np.eye(2)
        move = np.linalg.solve(J, [np.mean(h * G) + stage.ridge * a, np.mean(h)])
        a, b = np.array([a, b]) - 0.7 * np.clip(move, -1.0, 1.0)
        m += 0.6 * (-stage.alpha * chi * np.mean(h * K) - m)
        rp += 0.6 * (np.sqrt(stage.alpha * chi**2 * np.mean(tau**2 * h**2)) - rp)
        new = 1.0 / (stage.alpha * (stage.ridge + np.mean(tau**2 * bend)))
        chi *= np.exp(0.6 * np.clip(np.log(new / chi), -1.0, 1.0))
    return found
