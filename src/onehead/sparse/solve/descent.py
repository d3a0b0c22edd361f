"""Trajectories of joint descent on independent point sets, and their means and errors (J5-J14)."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from onehead.errors import InvalidArgument
from onehead.numerics.parallel import thread_map
from onehead.numerics.replicate_error import error_from_replicates
from onehead.sparse.losses import Array
from onehead.sparse.solve.joint_error import cosine, joint_test_error
from onehead.sparse.task import Batch, Protocol, Task
from onehead.sparse.theory.joint.attention_forces import JointWeights, check_smooth
from onehead.sparse.theory.joint.descent_rates import rates_of
from onehead.sparse.theory.joint.descent_samples import descent_sample
from onehead.sparse.theory.joint.fresh_batches import fresh_batch_states, one_pass_states
from onehead.sparse.theory.joint.same_data import DescentState, same_data_states

REPLICATES = 8  # independent point sets, each with a trajectory of its own
REPLICATE_LOG2_POINTS = 9  # log2 of the points per class of each
MAX_REPLICATE_LOG2_POINTS = 13
MIN_REPLICATE_LOG2_POINTS = 3
MAX_HISTORY = 2**21  # upper limit of times * points * tokens of a replicate, of which 64 bytes are stored
TEST_LOG2_RATIO = 3  # log2 of the ratio of these points to those of a replicate
MAX_NORM = 1e6  # of query or readout; a descent that passes it is given up as divergent


class Plan(NamedTuple):
    """How the data are used in a descent, and the rates of its steps; see `onehead.sparse.descend`."""

    steps: int
    batch: Batch = "same"
    batch_ratio: float = 0.5
    schedule: Sequence[tuple[float, float, float]] | None = None


class StepNumbers(NamedTuple):
    """Numbers of jointly trained weights; ``norm_query`` is |q|, ``sharpness`` beta |q|."""

    test_error: float
    train_loss: float
    train_error: float
    cos_query: float
    cos_readout: float
    norm_query: float
    norm_readout: float
    overlap_query: float
    overlap_readout: float
    query_readout: float
    sharpness: float
    bias: float


STEP_QUANTITIES = StepNumbers._fields


class Trajectory(NamedTuple):
    """Means (steps, numbers) over the replicates and their errors, up to the step at which the descent diverged."""

    means: Array
    errors: Array


def solve_trajectory(
    task: Task,
    protocol: Protocol,
    plan: Plan,
    log2_points: int = REPLICATE_LOG2_POINTS,
    progress: Callable[[], None] | None = None,
    *,
    bias_spread: float = 0.0,
) -> Trajectory:
    """Return the numbers after every step, averaged over REPLICATES independent point sets.

    ``progress`` is called after every step of every replicate. Test errors are averages over biases that vary with
    the standard deviation ``bias_spread``, as they do between samples of finite dimension.
    """
    check_smooth(protocol.loss, "descend")
    rates = rates_of(protocol, plan.steps, plan.schedule)
    times = plan.steps + 1 if plan.batch == "same" else 1
    affordable = int(np.log2(max(MAX_HISTORY // (times * task.length), 1)))
    if affordable < MIN_REPLICATE_LOG2_POINTS:
        limit = MAX_HISTORY // (times << MIN_REPLICATE_LOG2_POINTS)
        raise InvalidArgument("length", task.length, f"an integer <= {limit} for {plan.steps} steps of descent")

    shifts = (0.0,) if bias_spread == 0.0 else (-bias_spread, bias_spread)  # Gauss-Hermite nodes

    def replicate(index: int) -> Array:
        def test_error(weights: JointWeights) -> float:
            points = log2_points + TEST_LOG2_RATIO
            return joint_test_error(task, weights, log2_points=points, seed=index, bias_shifts=shifts)

        sample = descent_sample(task.length, times, min(log2_points, affordable), [index])
        if plan.batch == "same":
            states = same_data_states(task, protocol.loss, rates, protocol.alpha, sample)
        elif plan.batch == "fresh":
            states = fresh_batch_states(task, protocol.loss, rates, plan.batch_ratio, sample)
        else:
            alphas = protocol.alpha * np.arange(plan.steps + 1) / plan.steps
            states = one_pass_states(task, protocol.loss, rates[0], alphas, sample)
        with np.errstate(all="ignore"):
            return np.array(list(_finite(protocol, states, test_error, progress)))

    found = thread_map(replicate, range(REPLICATES), level="trajectory")
    steps = min(len(rows) for rows in found)
    values = np.array([rows[:steps] for rows in found])
    means = values.mean(axis=0)
    return Trajectory(means=means, errors=error_from_replicates(values - means))


def _finite(
    protocol: Protocol,
    states: Iterator[DescentState],
    test_error: Callable[[JointWeights], float],
    progress: Callable[[], None] | None,
) -> Iterator[StepNumbers]:
    """Yield the numbers after step 1, 2, ... until the weights diverge."""
    next(states)  # at zero weights there is nothing to report
    for state in states:
        gram = state.weights.gram
        if not (np.isfinite(gram).all() and np.isfinite(state.train_loss) and gram.max() < MAX_NORM**2):
            return
        yield joint_numbers(protocol, state, test_error(state.weights))
        if progress is not None:
            progress()


def joint_numbers(protocol: Protocol, state: DescentState, test_error: float) -> StepNumbers:
    """Return the numbers of a state whose query is measured in units of 1/beta."""
    weights: JointWeights = state.weights
    (m_q, m_w), gram, beta = weights.overlap.tolist(), weights.gram, protocol.beta
    unit = 1.0 / beta if beta > 0.0 else 0.0
    sharpness = float(np.sqrt(max(gram[0, 0], 0.0)))
    return StepNumbers(
        test_error=test_error,
        train_loss=state.train_loss,
        train_error=state.train_error,
        cos_query=cosine(m_q, gram[0, 0]),
        cos_readout=cosine(m_w, gram[1, 1]),
        norm_query=unit * sharpness,
        norm_readout=float(np.sqrt(max(gram[1, 1], 0.0))),
        overlap_query=unit * m_q,
        overlap_readout=m_w,
        query_readout=unit * float(gram[0, 1]),
        sharpness=sharpness,
        bias=weights.bias,
    )
