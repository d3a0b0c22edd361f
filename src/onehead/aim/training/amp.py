"""Approximate message passing on one instance, and its state evolution (9).

The answer of a sample to v is the proximal point of its loss, and in reduced units

    S = O (r - 2λ)_+ O' / Σhat,                Σ = [sum_{i≠j} (f_i - f_j)/(r_i - r_j) + 2 rank] / (d² Σhat),

with R = O diag(r) O', f = (r - 2λ)_+. Trained directly, S = R/D and Σ = 1/D with D = Σhat + 4λ; an untied map has singular values
(U9). A fixed point is a stationary point of the training objective, whatever Σ and Σhat.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from onehead.aim.equations.head import equations_of
from onehead.aim.equations.unknowns import Hats
from onehead.aim.losses import loss_on
from onehead.aim.targets import Atoms, MarchenkoPastur
from onehead.aim.task import Learner, Task
from onehead.aim.training.data import draw_target
from onehead.aim.training.instance import Instance, sample_count
from onehead.aim.training.messages import DAMPING, Answers, Passed, check_geometry, iterate
from onehead.aim.training.posterior import pass_posterior, posterior_evolution
from onehead.aim.verbs.bayes import check_known
from onehead.aim.words import posed
from onehead.arguments import number, one_of, optional, whole
from onehead.errors import InvalidArgument, OutsideDomain
from onehead.results import Certificate, Result

__all__ = ["AmpResult", "AmpStep", "amp", "pass_messages", "state_evolution"]

Array = NDArray[np.float64]

START = 0.3  # the start is this multiple of a random map with the law of a full-width target
FIRST_SIGMA = 1.5  # over α: of the order of the fixed point
SETTLED = 1e-6  # relative move of the last step
LEVEL = 1  # quadrature of the state evolution; error about 1e-4


def pass_messages(
    task: Task,
    learner: Learner,
    instance: Instance,
    *,
    max_iterations: int,
    damping: float = DAMPING,
    tolerance: float = 0.0,
    start: Array | None = None,
    first_sigma: float | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Passed:
    """Iterate on the training samples until S changes by less than ``tolerance`` (relative) in a step; in the learner's own units.

    ``damping`` is the share of the new S, Σ and messages in each step. ``start`` is a map, zero if
    not given; ``first_sigma`` the Σ to begin with, 1.5/α if not given.
    """
    check_geometry(task)
    problem, samples = equations_of(task, learner.gaussian), instance.train
    d = samples.dim
    S: Array = np.zeros((d, d)) if start is None else learner.beta * start
    passed = iterate(
        Answers(task, samples, problem.output.geometry, loss_on(task.labels, learner.loss).compiled),
        problem.input.pass_on,
        problem.input.scale * instance.target,
        (S, first_sigma or FIRST_SIGMA / (samples.count / d**2)),
        max_iterations=max_iterations,
        damping=damping,
        tolerance=tolerance,
        largest=problem.label_power,
        stop=stop,
    )
    own = np.append(1.0 / problem.units.factors, 1.0)
    return passed._replace(map=passed.map / learner.beta, trace=passed.trace * own)


def state_evolution(
    task: Task,
    learner: Learner,
    alpha: float,
    start: tuple[float, float, float],
    *,
    iterations: int,
    damping: float = 1.0,
) -> Array:
    """(q, m, Σ) of every iteration, the start first: the map of the equations (2), from the overlaps of the first S.

    Exact for undamped message passing as d grows. Damping mixes iterates; it is followed by writing every matrix as
    x S* + y N with one noise direction N, so that S, the slope of the data and R = Σhat S + slope are mixed like
    the numbers (x, y). That keeps the fixed point and follows the way to it within a few percent, for
    an untied head within about a tenth.
    """
    problem = equations_of(task, learner.gaussian)
    Q0 = problem.target_power
    units = problem.units.factors
    q, m, sigma = (float(value) for value in np.asarray(start) * units)
    S = np.array([m / Q0, np.sqrt(max(q - m * m / Q0, 0.0))])
    slope = np.zeros(2)
    rows = [(q, m, sigma)]
    for step in range(iterations):
        unit = problem.output.hats(q, m, sigma, level=LEVEL)
        q_hat, m_hat, sigma_hat = (alpha * hat for hat in unit)
        share = damping if step else 1.0
        slope += share * (np.array([m_hat, np.sqrt(q_hat)]) - sigma_hat * S - slope)
        field = sigma_hat * S + slope
        try:
            new = problem.input.overlaps(Hats(float(field[1]) ** 2, float(field[0]), sigma_hat))
        except OutsideDomain:  # the map is zero from here on
            break
        S += share * (np.array([new.m / Q0, np.sqrt(max(new.q - new.m**2 / Q0, 0.0))]) - S)
        sigma += share * (new.sigma - sigma)
        q, m = float(S[0] ** 2 * Q0 + S[1] ** 2), float(S[0] * Q0)
        rows.append((q, m, sigma))
    trajectory: Array = np.array(rows) / units
    return trajectory


@dataclass(frozen=True, kw_only=True)
class AmpStep(Result):
    """One iteration: overlaps of the iterate and what state evolution says of them."""

    iteration: int
    q: float
    m: float
    sigma: float
    q_theory: float
    m_theory: float
    sigma_theory: float


@dataclass(frozen=True, kw_only=True)
class AmpResult(Result):
    """Message passing on one instance beside its state evolution, which uses the instance's own spectrum."""

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


@posed(
    dim=whole(2),
    iterations=whole(1),
    damping=number(above=0.0),
    method=one_of(("head", "bayes")),
    first_sigma=optional(number(above=0.0)),
    seed=whole(0),
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
    seed: int = 0,
) -> AmpResult:
    """Run message passing on one random instance, beside its state evolution.

    That of a head in training starts from a random map; that of the best possible learner, who knows the spectrum of the target, from
    what its trace tells, and its Σ is the mean squared error of the map, which is the variance of a logit that is still open.

    Parameters
    ----------
    task : Task
        Tied, cross-attention, or self-attention with a strict mask.
    learner : Learner
        Of full width, with a positive weight decay.
    dim : int
    alpha : float
    iterations : int
    damping : float
        Share of the new iterate in each step; 1 is undamped.
    first_sigma : float, optional
        The Σ to begin with; 1.5/α when not given.
    method : {"head", "bayes"}
        Whose messages: of the head that is trained (9), or of the best possible learner (A.5), to whom the learner's words are nothing.
    seed : int

    Examples
    --------
    >>> from onehead.aim import Learner, Task
    >>> run = amp(Task(), Learner(), dim=40, alpha=1.0, iterations=30)
    >>> last = run.steps[-1]
    >>> abs(last.q / last.q_theory - 1.0) < 0.3
    True
    """
    if method == "bayes":
        check_known(task)
    elif learner.width < 1.0 or learner.decay == 0.0:
        raise InvalidArgument(
            "learner",
            f"width {learner.width:g}, weight decay {learner.weight_decay}",
            "of full width with a positive weight decay for message passing",
        )
    if not 0.0 < damping <= 1.0:
        raise InvalidArgument("damping", damping, "a number > 0 and <= 1")
    count = sample_count(alpha, dim)
    root = np.random.SeedSequence(seed, spawn_key=(0,))
    instance = Instance.draw(task, dim, count, root)
    spectrum = np.linalg.eigvalsh(instance.target) if task.tied else np.linalg.svd(instance.target, compute_uv=False)
    own, ratio = task.model_copy(update={"target": Atoms(eigenvalues=tuple(spectrum.tolist()))}), count / dim**2
    if method == "bayes":
        passed = pass_posterior(own, instance, iterations=iterations, damping=damping)
        theory = posterior_evolution(own, ratio, iterations=passed.iterations, damping=damping)
    else:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 4)))
        start = START * draw_target(MarchenkoPastur(kappa0=0.5), dim, rng, tied=task.tied)
        passed = pass_messages(
            task,
            learner,
            instance,
            max_iterations=iterations,
            damping=damping,
            start=start,
            first_sigma=first_sigma,
        )
        first = (float(passed.trace[0, 0]), float(passed.trace[0, 1]), float(passed.trace[0, 2]))
        theory = state_evolution(own, learner, ratio, first, iterations=passed.iterations, damping=damping)
    steps = tuple(
        AmpStep(
            iteration=t,
            q=here[0],
            m=here[1],
            sigma=here[2],
            q_theory=there[0],
            m_theory=there[1],
            sigma_theory=there[2],
        )
        for t, (here, there) in enumerate(zip(passed.trace.tolist(), theory.tolist(), strict=False))
    )
    settled = passed.change <= SETTLED and passed.status.startswith("stopped")
    status = "converged" if settled else passed.status
    certificate = Certificate(status=status, kind="measurement", residual=passed.change, evaluations=passed.iterations)
    return AmpResult(
        alpha=alpha,
        dim=dim,
        damping=damping,
        method=method,
        steps=steps,
        certificate=certificate,
        map=passed.map,
        instance=instance,
        task=task,
        learner=learner,
    )
