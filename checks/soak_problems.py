"""Random problems of both halves, and what must be true of every answer.

The number of a problem and the seed of the sweep decide everything about it, so that pieces of a sweep may be run in
any order. A problem is plain data: a verb, its keyword arguments and the region it lies in.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np

from onehead import aim, sparse
from onehead.aim.logits.geometry import geometry_of
from onehead.aim.theory.bayes import bayes_overlap
from onehead.sparse.theory.oracle import linear_error

__all__ = [
    "MIX",
    "Problem",
    "aim_problem",
    "call",
    "check_prediction",
    "check_readout",
    "check_spectrum",
    "choice",
    "draw",
    "log_uniform",
    "problem_of",
    "solve",
    "task_of",
    "uniform",
]

Rng = np.random.Generator

RESIDUAL = 1e-6  # the solvers stop at 3e-7
ROUNDING = 1e-9
QUADRATURE = 1e-6  # of integrals over a spectrum
MIX = 4  # raised when the problems behind the numbers change, so that no store mixes two lists
VERBS = {  # share of each kind of problem; most are cheap, so that 20,000 take about an hour on one core
    "aim.predict": 0.34,
    "aim.predict, far": 0.03,
    "aim.predict, more tokens": 0.01,
    "aim.predict, eigenvalues": 0.05,
    "aim.thresholds, eigenvalues": 0.01,
    "aim.thresholds": 0.11,
    "sparse.predict": 0.30,
    "sparse.predict, far": 0.04,
    "sparse.capacity": 0.02,
    "sparse.align": 0.05,
    "sparse.oracle": 0.005,
    "sparse.ridgeless": 0.035,
}
SMALL = {1e-4: "small (< 1e-4)"}
# share of each range of λ; zero is 0+
DECAYS = {(1e-2, 10.0): 0.5, (1e-4, 1e-2): 0.3, (1e-6, 1e-4): 0.12, (0.0, 0.0): 0.08}
SPECTRUM_SHARE = 0.2  # of the aim predictions: the law of the eigenvalues is checked against the six scalars
NEIGHBOUR_SHARE = 0.04  # the same point again, started from a neighbour


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One problem: what to call, with which arguments, in which region it lies, and what else to check."""

    verb: str
    task: dict[str, Any]
    learner: dict[str, Any]
    options: dict[str, Any]
    regions: dict[str, str]
    spectrum: bool = False
    neighbour: bool = False


def draw(seed: int, number: int, shares: dict[str, float] = VERBS) -> Problem:
    """The problem of this number."""
    rng = np.random.default_rng([seed, number])
    kind = choice(rng, **shares)
    verb, _, where = kind.partition(", ")
    if verb.startswith("aim"):
        return _aim(rng, verb, where)
    return _sparse(rng, verb, where)


def log_uniform(rng: Rng, low: float, high: float) -> float:
    return float(f"{np.exp(rng.uniform(np.log(low), np.log(high))):.6g}")


def uniform(rng: Rng, low: float, high: float) -> float:
    return float(f"{rng.uniform(low, high):.6g}")


def choice(rng: Rng, **shares: float) -> str:
    return str(rng.choice(list(shares), p=np.array(list(shares.values())) / sum(shares.values())))


def _band(value: float, bounds: dict[float, str], above: str) -> str:
    """The name of the first bound that a value lies below."""
    return next((name for bound, name in bounds.items() if value < bound), above)


def _target(rng: Rng, where: str) -> dict[str, Any]:
    """A target as its class and arguments."""
    if where == "far":
        return {"class": "MarchenkoPastur", "kappa0": log_uniform(rng, 1e-3, 1e3)}
    if where != "eigenvalues":
        return {"class": "MarchenkoPastur", "kappa0": log_uniform(rng, 0.01, 3.0)}
    dim = int(rng.integers(5, 201))
    kind = choice(rng, PowerLaw=0.5, Spikes=0.25, Atoms=0.25)
    if kind == "PowerLaw":
        return {"class": kind, "gamma": uniform(rng, 0.0, 2.0), "dim": dim}
    if kind == "Spikes":
        signs = rng.choice([1.0, -1.0], p=[0.8, 0.2], size=int(rng.integers(1, 4)))
        spikes = [sign * log_uniform(rng, 0.3, 30.0) for sign in signs.tolist()]
        bulk = {"class": "MarchenkoPastur", "kappa0": log_uniform(rng, 0.05, 2.0)} if rng.random() < 0.5 else None
        return {"class": kind, "spikes": spikes, "dim": dim, "bulk": bulk}
    if rng.random() < 0.5:  # a few values that repeat, as every value of a projector does
        values = rng.choice([0.0, *rng.normal(size=int(rng.integers(1, 4)))], size=dim)
    else:
        values = rng.standard_normal(dim) * np.where(rng.random(dim) < 0.3, 0.0, 1.0)
    if rng.random() < 0.4:
        values = np.abs(values)
    values[0] = 1.5  # never all zero
    return {"class": kind, "eigenvalues": [float(f"{v:.4g}") for v in values]}


def _aim(rng: Rng, verb: str, where: str) -> Problem:
    """A tied head without a mask, with more tokens or over the whole allowed range if ``where`` says so."""
    tokens = 2
    if where == "more tokens":
        tokens = int(rng.integers(3, 9) if rng.random() < 0.95 else rng.integers(9, 17))
    return aim_problem(rng, verb, None, {"tokens": tokens}, where)


def aim_problem(rng: Rng, verb: str, target: dict[str, Any] | None, head: dict[str, Any], where: str = "") -> Problem:
    """κ₀ 0.01 to 3, Δ 0 to 2, α J_T 0.02 to 100, λ 1e-6 to 10 or 0+, every variant; far: the whole allowed range."""
    far, tokens = where == "far", head["tokens"]
    noise = 0.0 if rng.random() < 0.15 else log_uniform(rng, 1e-4, 1e3) if far else uniform(rng, 0.0, 2.0)
    hot = (1e-2, 30.0) if far else (0.3, 3.0)
    task: dict[str, Any] = {
        "target": _target(rng, where) if target is None else target,
        "noise": noise,
        **head,
        "beta0": log_uniform(rng, *hot) if rng.random() < 0.2 else 1.0,
    }
    low, high = list(DECAYS)[int(rng.choice(len(DECAYS), p=list(DECAYS.values())))]
    decay: Any = "0+" if high == 0.0 else log_uniform(rng, 1e-10, 1e4) if far else log_uniform(rng, low, high)
    learner: dict[str, Any] = {
        "weight_decay": decay,
        "width": uniform(rng, 0.1, 1.0) if rng.random() < 0.2 else 1.0,
        "param": choice(rng, factorised=0.8, direct=0.2),
        "loss": "cross-entropy" if rng.random() < 0.2 or head.get("labels") == "hard" else "squared",
        "beta": log_uniform(rng, *hot) if rng.random() < 0.2 else 1.0,
        "branch": "global" if rng.random() < 0.1 else "label",
    }
    derived = "kurtosis" not in head and head.get("attention") != "self" and head.get("mask", "none") == "none"
    if derived and task["target"]["class"] in ("PowerLaw", "Atoms") and rng.random() < 0.5:
        learner["leading"] = int(rng.integers(0, 4)) if head.get("labels", "soft") == "soft" else 0
    geometry = geometry_of(head.get("attention", "tied"), head.get("mask", "none"), tokens)
    ratio = log_uniform(rng, 1e-5, 1e5) if far else log_uniform(rng, 0.01, 50.0)  # of α J_T, which counts equations
    alpha = 2.0 * ratio / geometry.informative
    options = {"alpha": float(f"{alpha:.6g}")} if verb == "aim.predict" else {}
    place = _band(ratio, {0.15: "few samples", 0.8: "near interpolation"}, "many samples")
    regions = {
        "half": "aim" + (", whole range" if far else ""),
        "verb": verb,
        "loss": learner["loss"],
        "parameterisation": learner["param"] + (", narrow" if learner["width"] < 1.0 else ""),
        "target": task["target"]["class"],
        "tokens": _band(tokens, {3: "T = 2", 5: "T = 3, 4", 9: "T = 5 to 8", 17: "T = 9 to 16"}, "T above 16"),
        "noise": "no noise" if noise == 0.0 else "noise",
        "weight decay": "0+" if decay == "0+" else _band(decay, SMALL | {1e-2: "1e-4 to 1e-2"}, "1e-2 and up"),
        "samples": place if options else "–",
        "branch": learner["branch"],
        "entries": "not Gaussian" if "kurtosis" in head else "Gaussian",
        "leading": str(learner.get("leading", "auto")),
        **{name: head.get(name, "–") for name in ("attention", "mask", "labels")},
    }
    return Problem(
        verb=verb,
        task=task,
        learner=learner,
        options=options,
        regions=regions,
        spectrum=bool(options) and rng.random() < SPECTRUM_SHARE,
        neighbour=bool(options) and where == "" and rng.random() < NEIGHBOUR_SHARE,
    )


def _sparse(rng: Rng, verb: str, where: str) -> Problem:
    """L 1 to 40, R to 3, θ 0 to 8, π 0.03 to 0.97, α 0.05 to 30, ridge 1e-7 to 10 or none; far: beyond these."""
    far = where == "far"
    length = int(rng.integers(1, 400 if far else 41))
    rate = choice(rng, half=0.3, any=0.7)
    task = {
        "length": length,
        "signal_tokens": int(rng.integers(1, min(length, 12 if far else 3) + 1)),
        "strength": 0.0 if rng.random() < 0.03 else log_uniform(rng, 1e-3, 100.0) if far else uniform(rng, 0.0, 8.0),
        "positive_rate": 0.5 if rate == "half" else uniform(rng, 1e-3, 0.999) if far else uniform(rng, 0.03, 0.97),
    }
    ridge = 0.0 if rng.random() < 0.12 else log_uniform(rng, 1e-12, 1e4) if far else log_uniform(rng, 1e-7, 10.0)
    loss = str(rng.choice(["logistic", "square", "hinge", "squared-hinge"], p=[0.4, 0.25, 0.25, 0.1]))
    learner: dict[str, Any] = {
        "alpha0": log_uniform(rng, 1e-3, 1e3) if far else log_uniform(rng, 0.05, 30.0),
        "alpha1": log_uniform(rng, 1e-3, 1e3) if far else log_uniform(rng, 0.05, 30.0),
        "beta": log_uniform(rng, 1e-2, 1e3) if far else uniform(rng, 0.0, 20.0),
        "eta_w": log_uniform(rng, 0.01, 10.0),
        "eta_b": uniform(rng, 0.0, 10.0),
        "eta_q": -1.0 if rng.random() < 0.1 else 1.0,
        "loss": loss,
        "ridge": ridge,
    }
    given = rng.random() < 0.4
    if given:
        ends = rng.random()
        learner["cos_query"] = 1.0 if ends < 0.05 else -1.0 if ends < 0.1 else uniform(rng, -1.0, 1.0)
        learner["sharpness"] = 0.0 if rng.random() < 0.05 else log_uniform(rng, 0.05, 100.0 if far else 12.0)
    options: dict[str, Any] = {}
    if verb == "sparse.predict":
        options = {"model": choice(rng, attention=0.6, pooled=0.2, vectorised=0.2), "accuracy": 5e-3}
    elif verb == "sparse.ridgeless":
        options = {"model": choice(rng, attention=0.5, pooled=0.25, vectorised=0.25)}
    regions = {
        "half": "sparse" + (", whole range" if far else ""),
        "verb": verb,
        "model": options.get("model", "–"),
        "loss": loss if verb in ("sparse.predict", "sparse.align") else "–",
        "query": "given" if given else "from two steps",
        "ridge": "0" if ridge == 0.0 else _band(ridge, SMALL | {0.1: "1e-4 to 1e-1"}, "1e-1 and up"),
        "classes": "rare" if min(task["positive_rate"], 1.0 - task["positive_rate"]) < 0.1 else "common",
        "signal": "none" if task["strength"] == 0.0 else "weak" if task["strength"] < 2.0 else "strong",
    }
    return Problem(verb=verb, task=task, learner=learner, options=options, regions=regions)


def _build(description: Any) -> Any:
    """The target of a description."""
    if isinstance(description, dict) and "class" in description:
        arguments = {name: _build(value) for name, value in description.items() if name != "class"}
        return getattr(aim, description["class"])(**arguments)
    return description


def _words(owner: str, arguments: dict[str, Any]) -> str:
    """Arguments as Python source."""

    def source(value: Any) -> str:
        if isinstance(value, dict):
            inside = ", ".join(f"{k}={source(v)}" for k, v in value.items() if k != "class")
            return f"{owner}.{value['class']}({inside})"
        return repr(value)

    return ", ".join(f"{name}={source(value)}" for name, value in arguments.items())


def call(problem: Problem) -> str:
    """The problem as one line of Python."""
    half, name = problem.verb.split(".")
    second = "Learner" if half == "aim" else "Protocol"
    parts = [f"{half}.Task({_words(half, problem.task)})"]
    if name != "oracle":
        parts.append(f"{half}.{second}({_words(half, problem.learner)})")
    parts += [f"{key}={value!r}" for key, value in problem.options.items()]
    return f"{problem.verb}({', '.join(parts)})"


def solve(problem: Problem) -> tuple[str, str]:
    """Solve a problem: how it ended in words, and what is wrong with the answer (nothing, if all is well)."""
    half, name = problem.verb.split(".")
    return (_AIM if half == "aim" else _SPARSE)[name](*problem_of(problem), problem)


def task_of(problem: Problem) -> Any:
    """The task."""
    task = {name: _build(value) for name, value in problem.task.items()}
    return (aim if problem.verb.startswith("aim") else sparse).Task(**task)


def problem_of(problem: Problem) -> tuple[Any, Any]:
    """Task and learner, or task and protocol."""
    task = task_of(problem)
    if problem.verb.startswith("aim"):
        return task, aim.Learner(**problem.learner)
    return task, sparse.Protocol(**problem.learner)


def _first(*complaints: tuple[bool, str]) -> str:
    """The first complaint that holds."""
    return next((text for holds, text in complaints if holds), "")


def _general(result: Any) -> Iterator[tuple[bool, str]]:
    """Complaints about any result: no number, or equations that are not solved."""
    numbers = [getattr(result, f.name) for f in fields(result)]
    yield any(isinstance(x, float) and np.isnan(x) for x in numbers), "not a number"
    yield result.certificate.residual > RESIDUAL, f"residual {result.certificate.residual:.1e}"


def _check_predict(task: aim.Task, learner: aim.Learner, problem: Problem) -> tuple[str, str]:
    point = aim.predict(task, learner, **problem.options)
    wrong = check_prediction(point)
    if not wrong and problem.spectrum:
        wrong = check_spectrum(point)
    if not wrong and problem.neighbour:
        wrong = _check_neighbour(point)
    return point.status.split(":")[0], wrong


def check_prediction(point: aim.Prediction) -> str:
    """What is wrong with a prediction, or nothing."""
    task, learner = point.task, point.learner
    most = 2.0 * task.tokens  # two rows of probabilities are at most a squared distance of two apart
    equations = point.equations
    nothing = point.alpha * equations.output.fresh_loss(*equations.zero.values)  # what the zero map costs
    width = learner.width if learner.param == "factorised" else 1.0
    reach = equations.input.representable_power / task.beta0**2
    # no map has a lower test error than the plateau if that is what is minimised, but for the sampling error of many
    # tokens
    floored = str(learner.loss) == "squared" and task.tokens == 2 and point.sectors is None
    return _first(
        *_general(point),
        (not -ROUNDING <= point.rank <= min(1.0, width) + QUADRATURE, f"rank {point.rank!r}"),
        (not 0.0 <= point.test_error <= most, f"test error {point.test_error!r}"),
        (not 0.0 <= point.test_error_clean <= most, f"clean test error {point.test_error_clean!r}"),
        (
            not 0.0 <= point.train_loss <= nothing * (1.0 + 1e-3),
            f"train loss {point.train_loss!r}, of the zero map {nothing!r}",
        ),
        # a map without negative eigenvalues that fits noise points away from a target of negative mean
        (point.q < 0.0 or (point.m < 0.0 <= task.target.mean), f"q {point.q!r}, m {point.m!r}"),
        (max(point.m, 0.0) ** 2 > point.q * reach * (1.0 + 1e-8), "m² > q P²"),
        (floored and point.excess_error < -QUADRATURE, f"excess error {point.excess_error!r}: below the plateau"),
        (point.sigma < 0.0, f"sigma {point.sigma!r}"),
        *_sectors(point),
        *_beaten(point),
    )


def _sectors(point: aim.Prediction) -> Iterator[tuple[bool, str]]:
    """Each part of the map is a map, and the 0/1 error lies between none and chance."""
    if point.sectors is not None:
        Q0 = point.task.target.second_moment
        for q, m in zip(point.sectors["q"], point.sectors["m"], strict=True):
            yield m * m > q * Q0 * (1.0 + 1e-6) or q < 0.0, f"sector q {q!r}, m {m!r}"
    if point.zero_one_error is not None:
        yield not 0.0 <= point.zero_one_error <= 1.0, f"0/1 error {point.zero_one_error!r}"


def _beaten(point: aim.Prediction) -> Iterator[tuple[bool, str]]:
    """No head beats the best possible learner, beyond the errors of its overlaps (A.4), which is known of Gaussian
    logits.
    """
    if point.directions or point.task.depends_on_kurtosis:
        return
    if point.q > 0.0 and point.sectors is None:
        equations, errors = point.equations, point.errors
        most = bayes_overlap(equations, point.alpha) / equations.units.beta0**2
        # three errors of each, and 1e-6 for the integrals over spectra
        room = 1.0 + 3.0 * (errors.get("q", 0.0) / point.q + 2.0 * errors.get("m", 0.0) / point.m) + 1e-6
        share = point.m**2 / point.q
        yield share > most * room, f"m²/q = {share!r} beats the best possible learner, {most!r}"
    if point.task.bayes_known:
        best, error = aim.bayes(point.task, point.alpha).head_error, point.test_error + 3.0 * point.test_error_err
        yield error < best - QUADRATURE * best, f"test error {point.test_error!r} below the best possible, {best!r}"


def check_spectrum(point: aim.Prediction) -> str:
    """Mass and second moment of the law against the scalars it comes from."""
    law = aim.spectrum(point)
    if law.rank == 0.0 or point.spread <= 0.0:
        return ""
    mass = law.zero_mass + law.rank
    return _first(
        (bool(np.any(law.density_values < 0.0)), "negative density"),
        (abs(mass - 1.0) > QUADRATURE, f"mass {mass!r}"),
        (any(high < low for low, high in law.edges), "edges out of order"),
        (
            abs(float(law.cdf(np.array([np.inf]))[0]) - 1.0) > 2e-3,
            f"cdf ends at {float(law.cdf(np.array([np.inf]))[0])!r}",
        ),
        # q comes from hats that differ from the final ones by the residual; two sectors that cannot be made consistent
        # say so in the error of q
        (
            abs(law.second_moment - point.q) > 1e-5 * point.q + (point.errors["q"] if point.sectors else 0.0),
            f"second moment {law.second_moment!r}, q {point.q!r}",
        ),
    )


def _check_neighbour(point: aim.Prediction) -> str:
    """The answer must not depend on where the solver starts."""
    near = aim.predict(point.task, point.learner, point.alpha * 1.25)
    again = aim.predict(point.task, point.learner, point.alpha, near=near)
    # the two may end on different quadrature rules: each states its error
    allowed = 3.0 * (point.certificate.quadrature_error + again.certificate.quadrature_error) + 1e-5
    gap = abs(again.test_error - point.test_error)
    return f"from a neighbour the test error is {again.test_error!r}, not {point.test_error!r}" if gap > allowed else ""


def _check_thresholds(task: aim.Task, learner: aim.Learner, problem: Problem) -> tuple[str, str]:
    found = aim.thresholds(task, learner)
    wrong = _first(*_general(found), *_ordered(found))
    return found.certificate.status.split(";")[0], wrong


def _ordered(found: aim.Thresholds) -> Iterator[tuple[bool, str]]:
    """Complaints about thresholds; what is not known of a head is missing."""
    yield not 0.0 <= found.emergence < np.inf, f"emergence {found.emergence!r}"
    if found.peak_test_error is not None:
        yield not 0.0 <= found.peak_test_error <= 2.0 * found.task.tokens, f"peak {found.peak_test_error!r}"
    if found.interpolation is None or found.direct is None:
        return
    top = found.direct * (1.0 + QUADRATURE)  # no learner fits more than the direct one
    yield not 0.0 < found.interpolation <= top, f"interpolation {found.interpolation!r}, direct {found.direct!r}"
    if found.recovery is not None and found.bayes_optimal is not None and np.isfinite(found.recovery):
        yield not found.bayes_optimal <= found.recovery * (1.0 + ROUNDING) <= top, "recovery"


def _constant_loss(loss: str, rate: float) -> float:
    """Training loss of the best constant classifier."""
    if loss == "logistic":
        return float(-rate * np.log(rate) - (1.0 - rate) * np.log(1.0 - rate))
    return 2.0 * min(rate, 1.0 - rate) if loss == "hinge" else 2.0 * rate * (1.0 - rate)


def _check_sparse_predict(task: sparse.Task, protocol: sparse.Protocol, problem: Problem) -> tuple[str, str]:
    point = sparse.predict(task, protocol, **problem.options)
    return point.certificate.status.split(":")[0], check_readout(point)


def check_readout(point: sparse.Prediction) -> str:
    """What is wrong with a trained readout, or nothing."""
    rate, ridge = point.task.positive_rate, point.protocol.ridge
    # no linear rule beats the best one; of attention only Bayes is known to be better, which costs a simulation
    floor = 0.0 if point.model == "attention" else linear_error(point.task.linear_snr, rate)
    weights = (point.query_weight or 0.0) ** 2 + point.signal_weight**2 + point.rest_norm**2
    # at an interpolation peak without a ridge the norm of the weights is infinite, and costs nothing
    penalty = 0.5 * ridge * weights if ridge > 0.0 else 0.0
    penalty_error = ridge * point.rest_norm * point.errors["rest_norm"] if ridge > 0.0 else 0.0
    cost = point.train_loss + penalty
    constant = _constant_loss(str(point.protocol.loss), rate)
    allowed = constant * (1.0 + 1e-6) + 5.0 * point.errors["train_loss"] + 5.0 * penalty_error
    return _first(
        *_general(point),
        (not 0.0 <= point.test_error <= 1.0, f"test error {point.test_error!r}"),
        (not 0.0 <= point.train_error <= 1.0, f"train error {point.train_error!r}"),
        (not -ROUNDING <= cost <= allowed, f"objective {cost!r}, of a constant {constant!r}"),
        (point.test_error < floor - ROUNDING, f"test error {point.test_error!r} below the best linear rule {floor!r}"),
        (point.cos_query is not None and not -1.0 <= point.cos_query <= 1.0, f"cos_query {point.cos_query!r}"),
        (point.rest_norm < 0.0, f"rest_norm {point.rest_norm!r}"),
    )


def _check_capacity(task: sparse.Task, protocol: sparse.Protocol, problem: Problem) -> tuple[str, str]:
    found = sparse.capacity(task, protocol)
    least = min(found.attention, found.pooled)
    wrong = _first(
        *_general(found),
        # at x = 0 the violation is E (g)_-² = 1/2, so its minimum is at most that
        (least < 2.0 - 1e-6, f"capacity {least!r} below 2"),
        (found.vectorised != task.length * found.pooled, "vectorised is not length times pooled"),
    )
    return found.certificate.status, wrong


def _check_align(task: sparse.Task, protocol: sparse.Protocol, problem: Problem) -> tuple[str, str]:
    found = sparse.align(task, protocol)
    wrong = _first(
        *_general(found),
        (max(abs(found.cos_query), abs(found.cos_readout)) > 1.0, f"cosine {found.cos_query!r}, {found.cos_readout!r}"),
        (abs(found.overlap_query) > found.norm_query * (1.0 + ROUNDING), "overlap above the norm"),
        (abs(found.query_readout) > found.norm_query * found.norm_readout * (1.0 + ROUNDING), "Cauchy-Schwarz"),
        (found.misalignment < 0.0, f"misalignment {found.misalignment!r}"),
    )
    return found.certificate.status, wrong


def _check_oracle(task: sparse.Task, protocol: sparse.Protocol, problem: Problem) -> tuple[str, str]:
    found = sparse.oracle(task)
    trivial = min(task.positive_rate, 1.0 - task.positive_rate)
    noise = 5.0 * (found.errors["elementwise"] + found.errors.get("bayes", 0.0))  # Monte Carlo
    ordered = [0.0, found.bayes or 0.0, found.softmax or found.hardmax, found.hardmax, trivial]
    wrong = _first(
        *_general(found),
        (any(b < a - ROUNDING for a, b in pairwise(ordered)), f"order {ordered!r}"),
        (not 0.0 <= found.vectorised <= found.vectorised_symmetric <= trivial + ROUNDING, "linear errors out of order"),
        (
            not (found.bayes or 0.0) - noise <= found.elementwise <= trivial + noise,
            f"elementwise {found.elementwise!r}",
        ),
        (found.vectorised < (found.bayes or 0.0) - noise, "a linear rule beats Bayes"),
    )
    return "converged", wrong


def _check_ridgeless(task: sparse.Task, protocol: sparse.Protocol, problem: Problem) -> tuple[str, str]:
    limit, slope = sparse.ridgeless(task, protocol, **problem.options)
    wrong = _first(
        (not np.isfinite([limit, slope]).all(), f"limit {limit!r}, slope {slope!r}"),
        (not 0.0 <= limit <= 1.0, f"limit {limit!r}"),
    )
    return "converged", wrong


Check = Callable[[Any, Any, Problem], tuple[str, str]]
_AIM: dict[str, Check] = {"predict": _check_predict, "thresholds": _check_thresholds}
_SPARSE: dict[str, Check] = {
    "predict": _check_sparse_predict,
    "capacity": _check_capacity,
    "align": _check_align,
    "oracle": _check_oracle,
    "ridgeless": _check_ridgeless,
}
