"""Prediction of the staged protocol whose two stages use the same samples (J15-J24)."""

import numpy as np

from onehead.errors import InvalidArgument
from onehead.numerics.parallel import thread_map
from onehead.numerics.replicate_error import error_from_replicates
from onehead.results import Certificate
from onehead.sparse.losses import Array
from onehead.sparse.solve.joint_error import cosine, joint_test_error
from onehead.sparse.solve.reused_data import ReusedSolution, solve_reused
from onehead.sparse.task import Protocol, Task
from onehead.sparse.theory.features import MAX_LENGTH
from onehead.sparse.theory.joint.attention_forces import check_smooth
from onehead.sparse.theory.joint.reused_data import ReusedData
from onehead.sparse.verbs.predict import Prediction

REPLICATES = 8  # independent point sets, each with a solution of its own
LOG2_POINTS = 9  # log2 of the points per class of each
MAX_LOG2_POINTS = 13
SEARCH_LOG2_POINTS = 8  # in a search over parameters
MAX_NUMBERS = 2**22  # upper limit of points times tokens of a replicate
TEST_SCRAMBLINGS = 4  # of the points of the test error
TEST_LOG2_POINTS = 14  # log2 of their number per class
QUANTITIES = (
    "test_error",
    "train_loss",
    "train_error",
    "query_weight",
    "signal_weight",
    "bias",
    "rest_norm",
    "step",
)


def predict_reused(
    task: Task,
    protocol: Protocol,
    *,
    model: str = "attention",
    test_length: int | None = None,
    accuracy: float | None = None,
    search: bool = False,
) -> Prediction:
    """Predict a readout trained on the samples that found its query; ``search`` takes one small set of points."""
    _check(task, protocol, model)
    level = SEARCH_LOG2_POINTS if search else LOG2_POINTS
    affordable = int(np.log2(MAX_NUMBERS / task.length))
    replicates = 1 if search else REPLICATES
    while True:
        first, numbers = _replicate(task, protocol, test_length, min(level, affordable), 0)

        def replicate(index: int, level: int = level, start: ReusedSolution = first) -> Array:
            return _replicate(task, protocol, test_length, min(level, affordable), index, start)[1]

        values = np.array([numbers, *thread_map(replicate, range(1, replicates), level="trajectory")])
        means = values.mean(axis=0)
        errors = error_from_replicates(values - means) if replicates > 1 else np.full(len(means), np.nan)
        enough = search or accuracy is None or errors[0] <= accuracy * means[0]
        if enough or level >= min(MAX_LOG2_POINTS, affordable):
            break
        level += 1
    warning: tuple[str, ...] = (
        () if enough else (f"the test error is good to {errors[0] / means[0]:.1e}, relative, not to {accuracy}.",)
    )
    query = ReusedData(task, protocol, 0, [0])
    cos_query = cosine(float(query.overlap[1]), float(query.gram[1, 1]))
    if cos_query < 0.0:
        warning += (f"the query is anti-aligned (cos {cos_query:.3f}): it points away from the signal.",)
    return Prediction(
        task=task,
        protocol=protocol,
        model=model,
        **dict(zip(QUANTITIES, means.tolist(), strict=True)),
        cos_query=cos_query,
        sharpness=float(np.sqrt(query.gram[1, 1])),
        certificate=Certificate(
            status="converged",
            kind="claim",
            residual=first.residual,
            quadrature_error=float(errors[0]),
            errors=dict(zip(QUANTITIES, errors.tolist(), strict=True)),
            evaluations=first.evaluations,
            warnings=warning,
        ),
    )


def _check(task: Task, protocol: Protocol, model: str) -> None:
    """Refuse what the theory of reused data does not cover."""
    if model != "attention":
        raise InvalidArgument("reuse", True, f"left out for the {model} model, which has a single stage on all samples")
    if protocol.cos_query is not None:
        raise InvalidArgument(
            "cos_query", protocol.cos_query, "left out with reuse, where the same samples find the query"
        )
    if protocol.ridge == 0.0:
        raise InvalidArgument("ridge", protocol.ridge, "a number > 0 with reuse")
    if not 2 <= task.length <= MAX_LENGTH:
        raise InvalidArgument("length", task.length, f"an integer from 2 to {MAX_LENGTH} with reuse")
    if protocol.beta == 0.0 or protocol.eta_q == 0.0:
        name = "beta" if protocol.beta == 0.0 else "eta_q"
        raise InvalidArgument(name, getattr(protocol, name), "different from 0 with reuse")
    check_smooth(protocol.loss, "reuse", twice=True)


def _replicate(
    task: Task,
    protocol: Protocol,
    test_length: int | None,
    log2_points: int,
    index: int,
    start: ReusedSolution | None = None,
) -> tuple[ReusedSolution, Array]:
    """Solve on one set of points; return the solution and its numbers in the order of QUANTITIES."""
    equations = ReusedData(task, protocol, log2_points, [index])
    found = solve_reused(equations, None if start is None else start.readout)
    weights = equations.weights(found.readout)
    (m_q, m_w), gram = weights.overlap.tolist(), weights.gram
    kappa = float(np.sqrt(gram[0, 0]))
    s = cosine(m_q, gram[0, 0])
    along = float(gram[0, 1]) / kappa
    across = (m_w - s * along) / max(float(np.sqrt(1.0 - s * s)), 1e-12)
    rest = float(np.sqrt(max(gram[1, 1] - along**2 - across**2, 0.0)))
    test_error = joint_test_error(
        task, weights, log2_points=TEST_LOG2_POINTS, seed=index % TEST_SCRAMBLINGS, length=test_length
    )
    numbers = (
        test_error,
        found.equations.train_loss,
        found.equations.train_error,
        along,
        across,
        weights.bias,
        rest,
        found.readout.chi,
    )
    return found, np.array(numbers)
