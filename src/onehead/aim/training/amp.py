"""amp(): approximate message passing on one instance, and its state evolution (9).

The output estimate of a trained head is the proximal point of its loss, and in reduced units the denoiser is

    S = O (r - 2λ)_+ O' / Σhat,                Σ = [sum_{i≠j} (f_i - f_j)/(r_i - r_j) + 2 rank] / (d² Σhat),

with R = O diag(r) O', f = (r - 2λ)_+. Trained directly, S = R/D and Σ = 1/D with D = Σhat + 4λ; an untied map has
singular values (U9). A fixed point is a stationary point of the training objective, for any Σ and Σhat. The iteration
itself is in `message_passing`.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from onehead.aim.flat_parameters import validate_problem
from onehead.aim.losses import loss_for_labels
from onehead.aim.targets import MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.aim.theory.build import build_state_evolution
from onehead.aim.theory.order_parameters import Hats
from onehead.aim.training.bayes_amp import bayes_amp_evolution, run_bayes_amp
from onehead.aim.training.instance import Instance, sample_count
from onehead.aim.training.message_passing import (
    DAMPING,
    AmpRun,
    ProximalMessages,
    Schedule,
    check_message_passing,
    iterate,
)
from onehead.aim.training.unasked_row import own_spectrum, without_unasked_row
from onehead.aim.verbs.bayes import check_bayes_known
from onehead.errors import InvalidArgument, OutsideDomain
from onehead.results import Certificate, Result
from onehead.validation import Seed, integer, number, one_of, optional, seed_number, valid_seed

Array = NDArray[np.float64]

START_SCALE = 0.3  # the start is this multiple of a random map with the law of a full-width target
FIRST_SIGMA = 1.5  # first Σ times α: of the order of the fixed point
CONVERGED_CHANGE = 1e-6  # relative change of S in the last step
QUADRATURE_LEVEL = 1  # of the state evolution; error about 1e-4


def run_amp(
    task: Task,
    learner: Learner,
    instance: Instance,
    schedule: Schedule,
    *,
    start: Array | None = None,
    first_sigma: float | None = None,
) -> AmpRun:
    """Message passing of a trained head on the training samples of an instance, in the learner's units.

    ``start`` is the first map, zero if not given; ``first_sigma`` is the first Σ, 1.5/α if not given.
    """
    check_message_passing(task)
    problem, samples = build_state_evolution(task, learner.gaussian), instance.train
    d = samples.dim
    S: Array = np.zeros((d, d)) if start is None else learner.beta * start
    loss = loss_for_labels(task.labels, learner.loss).compiled
    messages = ProximalMessages(task, samples, problem.output.geometry, loss)
    target, row = problem.input.scale * instance.target, messages.unasked_row
    run = iterate(
        messages,
        problem.input.denoise,
        target if row is None else row.whitened(target),
        (S if row is None else row.whitened(S), first_sigma or FIRST_SIGMA / (samples.count / d**2)),
        schedule,
        label_power=problem.label_power,
    )
    units = np.array([*1.0 / problem.units.factors, 1.0, task.beta0 / learner.beta])[: run.trajectory.shape[1]]
    S = run.map if row is None else row.unwhitened(run.map)
    return run._replace(map=S / learner.beta, trajectory=run.trajectory * units)


def state_evolution(
    task: Task,
    learner: Learner,
    alpha: float,
    start: tuple[float, float, float],
    *,
    iterations: int,
    damping: float = 1.0,
) -> Array:
    """State evolution of `run_amp`: (q, m, Σ) of every iteration, the given start first (2).

    Where queries have a mean, c follows, the size of the unasked logits over the target's; they are zero at the start.

    Exact for undamped message passing as d grows. Damping mixes iterates; it is described by writing every matrix as
    x S* + y N with one noise direction N, so that S, the gradient of the data and R = Σhat S + gradient are mixed like
    the numbers (x, y). This has the right fixed point and follows the transient within a few percent, for
    an untied head within about a tenth.
    """
    problem = build_state_evolution(task, learner.gaussian)
    Q0, known = problem.target_power, problem.directions
    units = np.append(problem.units.factors, learner.beta / task.beta0)
    q, m, sigma = (float(value) for value in np.asarray(start) * units[:3])
    # multiples of the target and of noise in the map, and of the target's field in that of the map
    S = np.array([m / Q0, np.sqrt(max(q - m * m / Q0, 0.0)), 0.0])
    gradient = np.zeros(3)
    rows = [(q, m, sigma, 0.0)]
    for step in range(iterations):
        values = known.output_values(np.array([q]), np.array([m]), S[2] * np.array(known.target_eigenvalues))
        hats = problem.output.hats(*values, sigma, level=QUADRATURE_LEVEL).times(alpha)
        share, has_field = damping if step else 1.0, float(known.count > 0)
        pull = np.array([hats.m, np.sqrt(hats.q), has_field * hats.m])
        gradient += share * (pull - hats.sigma * S - gradient)
        R = hats.sigma * S + gradient
        try:
            new = problem.input.overlaps(Hats(float(R[1]) ** 2, float(R[0]), hats.sigma))
        except OutsideDomain:  # the map is zero from here on
            break
        moved = np.array([new.m / Q0, np.sqrt(max(new.q - new.m**2 / Q0, 0.0)), R[2] / hats.sigma])
        S += share * (moved - S)
        sigma += share * (new.sigma - sigma)
        q, m = float(S[0] ** 2 * Q0 + S[1] ** 2), float(S[0] * Q0)
        rows.append((q, m, sigma, float(S[2])))
    trajectory: Array = (np.array(rows) / units)[:, : 3 + known.count]
    return trajectory


@dataclass(frozen=True, kw_only=True)
class AmpStep(Result):
    """One iteration of message passing, measured and predicted by state evolution.

    Attributes
    ----------
    iteration : int
        Index of the iteration; 0 is the start.
    q, m, sigma : float
        |S|²/d, Tr S'S*/d and Σ of the iterate.
    q_theory, m_theory, sigma_theory : float
        Predictions of state evolution.
    unasked_scale, unasked_scale_theory : float or None
        Size of the logits that all queries share, over the target's, and its prediction; None where queries have no
        mean. q and m are then those of the rest of the map.
    """

    _RARE: ClassVar[tuple[str, ...]] = ("unasked_scale", "unasked_scale_theory")

    iteration: int
    q: float
    m: float
    sigma: float
    q_theory: float
    m_theory: float
    sigma_theory: float
    unasked_scale: float | None = None
    unasked_scale_theory: float | None = None


@dataclass(frozen=True, kw_only=True)
class AmpResult(Result):
    """Message passing on one instance, and its state evolution for the spectrum of that instance.

    Attributes
    ----------
    alpha : float
        Sample ratio α = n/d².
    dim : int
        Dimension d.
    damping : float
        Share of the new iterate in each step.
    steps : tuple of AmpStep
        One per iteration, the start first.
    method : str
        "head" or "bayes".
    certificate : Certificate
        Status, and the relative change of S in the last step as residual.
    map : ndarray
        The last map S.
    instance : Instance
        Target map and samples.
    task, learner : Task, Learner
        The problem.
    """

    _HIDDEN: ClassVar[tuple[str, ...]] = ("map", "instance")

    alpha: float
    dim: int
    damping: float
    steps: tuple[AmpStep, ...]
    method: str
    certificate: Certificate
    map: Array
    instance: Instance
    task: Task
    learner: Learner

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per iteration."""
        return [step.to_dict() for step in self.steps]


@validate_problem(
    dim=integer(2),
    iterations=integer(1),
    damping=number(above=0.0),
    method=one_of(("head", "bayes")),
    first_sigma=optional(number(above=0.0)),
    seed=valid_seed,
)
def amp(
    task: Task,
    learner: Learner,
    *,
    dim: int,
    alpha: float,
    iterations: int = 80,
    damping: float = DAMPING,
    first_sigma: float | None = None,
    method: Literal["head", "bayes"] = "head",
    seed: Seed = 0,
) -> AmpResult:
    """Run message passing on one random instance, and its state evolution.

    For a trained head the iteration starts from a random map. For the best possible learner, which knows the spectrum
    of the target, it starts from what the trace reveals, and Σ is the mean squared error of the map, the variance of a
    logit that is still unknown.

    Parameters
    ----------
    task : Task
        Tied, cross-attention, or self-attention with a strict mask; the last two also with a mean of the tokens.
    learner : Learner
        Of full width, with a positive weight decay.
    dim : int
        Dimension d of a token.
    alpha : float
        Sample ratio α = n/d².
    iterations : int
        Number of iterations.
    damping : float
        Share of the new iterate in each step; 1 is undamped.
    first_sigma : float, optional
        First Σ; 1.5/α if not given.
    method : {"head", "bayes"}
        Message passing of the trained head (9), or of the best possible learner (A.5), which does not depend on
        ``learner``.
    seed : int or numpy.random.Generator
        Seed of the instance.

    Returns
    -------
    AmpResult
        Measured and predicted overlaps of every iteration.

    Raises
    ------
    InvalidArgument
        If there is no message passing algorithm for this task or learner, or an argument is not allowed.
    Diverged
        If the iteration diverged.

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> run = amp(Task(), Learner(), dim=40, alpha=1.0, iterations=30)
    >>> last = run.steps[-1]
    >>> abs(last.q / last.q_theory - 1.0) < 0.3
    True
    """
    if method == "bayes":
        check_bayes_known(task)
    elif learner.width < 1.0 or learner.decay == 0.0:
        raise InvalidArgument(
            "learner",
            f"width {learner.width:g}, weight decay {learner.weight_decay}",
            "of full width with a positive weight decay for message passing",
        )
    if not 0.0 < damping <= 1.0:
        raise InvalidArgument("damping", damping, "a number > 0 and <= 1")
    count = sample_count(alpha, dim)
    seed = seed_number(seed)
    root = np.random.SeedSequence(seed, spawn_key=(0,))
    instance = Instance.draw(task, dim, count, root)
    own, ratio = own_spectrum(task, instance.target), count / dim**2
    if method == "bayes":
        run = run_bayes_amp(own, instance, iterations=iterations, damping=damping)
        theory = bayes_amp_evolution(own, ratio, iterations=run.iterations, damping=damping)
    else:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 4)))
        start = START_SCALE * MarchenkoPastur(kappa0=0.5).draw(dim, rng, tied=task.tied)
        start = without_unasked_row(task, start)
        schedule = Schedule(iterations, damping)
        run = run_amp(task, learner, instance, schedule, start=start, first_sigma=first_sigma)
        first = (float(run.trajectory[0, 0]), float(run.trajectory[0, 1]), float(run.trajectory[0, 2]))
        theory = state_evolution(own, learner, ratio, first, iterations=run.iterations, damping=damping)
    steps = tuple(
        AmpStep(
            iteration=t,
            q=measured[0],
            m=measured[1],
            sigma=measured[2],
            q_theory=predicted[0],
            m_theory=predicted[1],
            sigma_theory=predicted[2],
            # labels of the best possible learner show the unasked logits from the start (D5.3)
            **(
                {"unasked_scale": measured[4], "unasked_scale_theory": (*predicted[3:], 1.0)[0]} if task.unasked else {}
            ),
        )
        for t, (measured, predicted) in enumerate(zip(run.trajectory.tolist(), theory.tolist(), strict=False))
    )
    converged = run.change <= CONVERGED_CHANGE and run.status.startswith("stopped")
    status = "converged" if converged else run.status
    certificate = Certificate(status=status, kind="measurement", residual=run.change, evaluations=run.iterations)
    return AmpResult(
        alpha=alpha,
        dim=dim,
        damping=damping,
        method=method,
        steps=steps,
        certificate=certificate,
        map=run.map,
        instance=instance,
        task=task,
        learner=learner,
    )
