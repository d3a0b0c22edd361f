"""The best possible learner: what the data say of the target, to anybody who knows how they were made (A.1, A.2)."""

import numpy as np

from onehead.aim.equations.state_evolution import StateEvolution

__all__ = ["bayes_overlap"]

RECOVERED = 1e-12  # variance s, in units of the target's power, below which the target is known exactly


def bayes_overlap(problem: StateEvolution, alpha: float) -> float:
    """q of the posterior mean, in reduced units: no map S made of the data has m²/q above it (A.4).

    F(s) + Delta/(2 s) = 2 abar with F(s) = 1 - 4 s int rho_s h² dx, abar = α J and h the Hilbert transform of rho_s;
    the mean squared error left is s F(s). Untied it is abar, and rho_s the law of singular values (U2.2).
    """
    from scipy.optimize import brentq  # noqa: PLC0415

    Q0, noise, twice = problem.target_power, problem.noise, problem.input.unit * alpha * problem.informative

    def information(s: float) -> float:
        nodes = problem.input.law(s).nodes()
        return 1.0 - 4.0 * s * float(nodes.mass @ nodes.hilbert**2) / float(nodes.mass.sum())

    def excess(log_s: float) -> float:
        s = float(np.exp(log_s))
        return information(s) + 0.5 * noise / s - twice

    high = float(np.log((0.5 * noise + Q0) / twice))
    low = high - 1.0
    while excess(low) < 0.0:
        low -= 1.0
        if low < np.log(RECOVERED * Q0):
            return Q0
    s = float(np.exp(brentq(excess, low, high, xtol=1e-13)))
    return Q0 - s * information(s)
