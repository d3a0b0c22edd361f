"""Compiled averages over pairs of logits for superfluous heads (M8)."""

import numpy as np

from onehead.numerics.jit import njit


@njit
def pair_averages(covariance, nodes, weights, product, slopes, curved):
    """Fill E t_i t_j, E t'_i t'_j and E t_i t''_j for Gaussian logits, t = tanh of half a logit.

    Parameters
    ----------
    covariance : array (n, n)
        Covariance of the logits.
    nodes, weights : array
        Positive nodes of a symmetric rule for a standard normal variable, and twice their weights.
    product, slopes, curved : array (n, n)
        The averages; overwritten.
    """
    size, count = covariance.shape[0], nodes.shape[0]
    for i in range(size):
        spread = np.sqrt(max(covariance[i, i], 0.0))
        for j in range(i, size):
            slope = covariance[i, j] / spread if spread > 0.0 else 0.0
            rest = np.sqrt(max(covariance[j, j] - slope * slope, 0.0))
            together, of_slopes, second_of_j, second_of_i = 0.0, 0.0, 0.0, 0.0
            for a in range(count):
                t = np.tanh(0.5 * spread * nodes[a])
                mean, mean_slope, mean_second = 0.0, 0.0, 0.0
                for b in range(count):
                    # the rule without its lower half: both signs of the second node
                    for sign in (-0.5, 0.5):
                        other = np.tanh(0.5 * slope * nodes[a] + sign * rest * nodes[b])
                        bend = 0.5 * (1.0 - other * other)
                        mean += 0.5 * weights[b] * other
                        mean_slope += 0.5 * weights[b] * bend
                        mean_second -= 0.5 * weights[b] * other * bend
                own = 0.5 * (1.0 - t * t)
                together += weights[a] * t * mean
                of_slopes += weights[a] * own * mean_slope
                second_of_j += weights[a] * t * mean_second
                second_of_i -= weights[a] * t * own * mean
            product[i, j] = product[j, i] = together
            slopes[i, j] = slopes[j, i] = of_slopes
            curved[i, j], curved[j, i] = second_of_j, second_of_i
