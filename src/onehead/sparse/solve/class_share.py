"""Test error at finite dimension: the random share of positives among the samples of the readout (J36).

The free bias fits the share of positives of the training sample, whose spread is sqrt(pi (1 - pi)/n). A large ridge
shrinks the weights but not that fluctuation, so that the limit of infinite dimension is not uniform in the ridge.
"""

import numpy as np

from onehead.sparse.solve.readout import errors_of, solve_readout
from onehead.sparse.task import Protocol, Task
from onehead.sparse.theory.alignment import query_of
from onehead.sparse.theory.features import affordable, attention_features

NODES = 7  # of the Gauss-Hermite rule over the share of positives
LOG2_POINTS = 12  # log2 of the points per class of a sample; the error is below 1e-3
SCRAMBLING_SEED = 12  # of the Sobol points, the same for every share


def error_at_dimension(task: Task, protocol: Protocol, dim: int, *, nodes: int = NODES) -> float:
    """Return the test error of attention at dimension ``dim``, averaged over the share of positives (J36).

    Parameters
    ----------
    task : Task
        Data of the classification problem.
    protocol : Protocol
        Training protocol; the readout has ``alpha1 dim`` samples.
    dim : int
        Dimension d of a token.
    nodes : int
        Number of Gauss-Hermite nodes.

    Returns
    -------
    float
        Test error; its query is that of infinite dimension.

    Raises
    ------
    SolveError
        If the readout is not solved for one of the shares.

    Examples
    --------
    >>> plan = Protocol(alpha1=1.0, ridge=1.0, cos_query=0.9, sharpness=2.0)
    >>> task = Task(length=10, strength=3.0)
    >>> error_at_dimension(task, plan, 100) > error_at_dimension(task, plan, 1000)
    True
    """
    samples, pi, query = max(1.0, protocol.alpha1 * dim), task.positive_rate, query_of(task, protocol)
    x, weights = np.polynomial.hermite_e.hermegauss(nodes)
    extreme = 0.5 / samples  # less than one sample of a class
    shares = np.clip(pi + np.sqrt(pi * (1.0 - pi) / samples) * x, extreme, 1.0 - extreme)
    level = affordable(LOG2_POINTS, task.length)
    fresh = attention_features(task, **query, log2_points=level, seed=SCRAMBLING_SEED)
    errors, start = [], None
    for share in shares:
        sample = task.changed(positive_rate=float(share))
        features = attention_features(sample, **query, log2_points=level, seed=SCRAMBLING_SEED)
        solution = solve_readout(features, protocol.loss, alpha=protocol.alpha1, ridge=protocol.ridge, start=start)
        start = solution.start
        errors.append(errors_of(features, protocol.loss, solution, test_features=fresh)[0])
    return float(weights @ errors / weights.sum())
